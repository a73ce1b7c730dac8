//! A connection with settings of its own: its start, its applications and its TCP.

use txweir_core::Instant;

use super::{Group, Load, Net, What};
use crate::app::App;
use crate::tcp::{Addr, Conn, Label, TcpConfig};

/// A connection that forms a group of its own.
#[derive(Clone, Debug)]
pub struct Single {
    /// Its name in reports.
    pub name: String,
    /// The host that opens it.
    pub from: u32,
    /// The other host.
    pub to: u32,
    /// Time at which it is opened.
    pub start: Instant,
    /// TCP of both ends, in place of their hosts'.
    pub tcp: TcpConfig,
    /// Applications at the end that opens it, and at the other.
    pub apps: (App, App),
}

impl Net {
    /// Adds a connection that forms a group of its own; returns the number of the end that opens
    /// it.
    ///
    /// # Errors
    /// Fails like [`group`](Self::group).
    pub fn single(&mut self, single: Single) -> Result<u32, String> {
        let Single { name, from, to, start, tcp, apps } = single;
        let end = self.ends.len() as u32;
        let load = match &apps.0 {
            App::Client(c) => Load::Rr { request: c.request, response: c.response },
            _ => Load::Stream,
        };
        let group = Group { name, from, to, load, count: 0, start, ..Group::default() };
        let number = self.groups.len() as u32;
        // The group begins empty, and then gets its one connection.
        self.group(group)?;
        self.connections += 1;
        if self.connections > super::CONNECTIONS_MAX {
            return Err(format!("more than {} connections in all", super::CONNECTIONS_MAX));
        }
        let port = 2000 + (self.connections - 1) as u16;
        let addrs = (Self::addr(from, port), Self::addr(to, port));
        let state = &mut self.groups[number as usize].group;
        state.count = 1;
        let group = state.clone();
        self.join(&group, number, addrs, start, apps, (&tcp, &tcp));
        Ok(end)
    }

    /// Adds both ends of a connection of a group.
    pub(super) fn join(
        &mut self,
        g: &Group,
        number: u32,
        (a, b): (Addr, Addr),
        start: Instant,
        apps: (App, App),
        tcp: (&TcpConfig, &TcpConfig),
    ) {
        let end = self.ends.len() as u32;
        let mut label = |to| Label { to, hash: self.rng.next_u64() as u32, priority: g.priority };
        let (to_server, to_client) = (label(end + 1), label(end));
        let client = Conn::connect(tcp.0, (a, b), start, apps.0, to_server, self.rng.next_u64());
        let server = Conn::listen(tcp.1, (b, a), apps.1, to_client, self.rng.next_u64());
        self.add_ends([client, server], g, number);
        self.ends[end as usize].alarm.set(&mut self.engine, Some(start), end, What::Timer);
    }
}
