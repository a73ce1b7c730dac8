//! A connection with settings of its own: its start, its applications and its TCP.

use txweir_core::Instant;

use super::members::{Members, addr};
use super::{CONNECTIONS_MAX, Group, Load, Net};
use crate::app::App;
use crate::tcp::TcpConfig;

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
        let end = self.traffic.ends.len() as u32;
        let load = match &apps.0 {
            App::Client(c) => Load::Rr { request: c.request, response: c.response },
            _ => Load::Stream,
        };
        let group = Group { name, from, to, load, count: 0, start, ..Group::default() };
        let number = self.traffic.groups.len() as u32;
        // The group begins empty, and then gets its one connection.
        self.group(group)?;
        if !self.quota.connect(1) {
            return Err(format!("more than {CONNECTIONS_MAX} connections in all"));
        }
        let port = self.quota.port(1);
        let addrs = (addr(from, port), addr(to, port));
        let state = &mut self.traffic.groups[number as usize].group;
        state.count = 1;
        let group = state.clone();
        Members::of(self, &group, number).join(addrs, start, apps, (&tcp, &tcp));
        Ok(end)
    }
}
