//! `txweir follow dev NAME`: copies the policy of a device of the kernel into a link of the daemon,
//! and keeps it so.
//!
//! The kernel's notifications (`RTNLGRP_TC`, `RTNLGRP_LINK`) say that something has changed; the
//! state comes from its listings. So a notification that is lost costs nothing: the kernel says
//! that one was lost (`ENOBUFS`), and the device is listed again.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::ExitCode;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};
use txweir::daemon::Client;
use txweir::daemon::protocol::Ask;
use txweir_netlink::follow::{Copied, Snapshot, Step};
use txweir_netlink::message::{Header, TcHead, flag, kind, message, messages};

use crate::{Failure, client, output};

/// Options of `txweir follow`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The daemon's socket
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// Copies once, and does not follow
    #[arg(long)]
    pub once: bool,

    /// The link of the daemon, if it has another name than the device
    #[arg(long, value_name = "LINK")]
    pub to: Option<String>,

    /// `dev` and the name of the kernel's device
    #[arg(required = true, num_args = 1..=2, value_name = "dev NAME")]
    pub device: Vec<String>,
}

/// `RTMGRP_LINK` and `RTMGRP_TC` (rtnetlink(7)).
const GROUPS: u32 = 0x1 | 0x8;
/// Largest part of a listing: the kernel makes none of more than 32 KiB.
const PART: usize = 64 << 10;
/// Most listings in a row that something has changed meanwhile; the last one counts then, and the
/// notification of the change is still to come.
const TRIES: u32 = 8;

/// The number of the device in a message about a block that devices share.
const BLOCK: u32 = u32::MAX;

/// Runs `txweir follow`.
pub fn main(args: &Args) -> Result<ExitCode, Failure> {
    let device = match &args.device[..] {
        [name] if name != "dev" => name,
        [dev, name] if dev == "dev" => name,
        _ => return Err(Failure::usage("follow: expected `dev NAME`")),
    };
    let to = args.to.as_deref().unwrap_or(device);
    let wrong = |what: &str, e: io::Error| Failure::usage(format!("follow: {what}: {e}"));
    // The socket listens first: no change after the listing is lost.
    let news = open(GROUPS).map_err(|e| wrong("cannot listen to the kernel", e))?;
    let link = rustix::net::netdevice::name_to_index(&news, device)
        .map_err(|e| wrong(&format!("device {device}"), e.into()))?;
    let listings = open(0).map_err(|e| wrong("cannot ask the kernel", e))?;
    let mut daemon = client::connect(args.socket.as_deref())?;
    let mut copy = Copy { daemon: &mut daemon, to, has: None, refused: Vec::new(), said: Vec::new() };
    loop {
        let state = listed(&listings, link).map_err(|e| wrong("cannot list the kernel's policy", e))?;
        // Devices have links of the same names, but for this one.
        let mut names = |link| rustix::net::netdevice::index_to_name(&listings, link).ok();
        copy.go_to(state.lines(to, &mut names))?;
        if args.once {
            return Ok(if copy.said.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) });
        }
        if !wait(&news, link).map_err(|e| wrong("cannot listen to the kernel", e))? {
            return Err(Failure::failed(format!("the kernel has no device {device} any more")));
        }
    }
}

/// Opens a socket of rtnetlink, netlink's protocol 0, that gets the notifications of groups.
fn open(groups: u32) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// Waits for a change of the device, and takes all notifications that are there. False if the
/// device is gone.
fn wait(news: &OwnedFd, link: u32) -> io::Result<bool> {
    let mut packet = vec![0; PART];
    let (mut changed, mut flags) = (false, RecvFlags::empty());
    loop {
        let len = match recv(news, &mut *packet, flags) {
            Ok((len, _)) => len,
            Err(Errno::AGAIN) => return Ok(true),
            Err(Errno::INTR) => continue,
            // Notifications are lost.
            Err(Errno::NOBUFS) => {
                changed = true;
                flags = RecvFlags::DONTWAIT;
                continue;
            }
            Err(e) => return Err(e.into()),
        };
        for one in messages(&packet[..len]) {
            // `struct tcmsg` and `struct ifinfomsg` have the number of the device at one place.
            let number = one.body.get(4..8).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes);
            let of = one.header.kind;
            if number == Some(link) && of == kind::DEL_LINK {
                return Ok(false);
            }
            // Filters of the device may hold any action, and share any block.
            let is_action = matches!(of, kind::NEW_ACTION | kind::DEL_ACTION);
            changed |= is_action || number == Some(link) || number == Some(BLOCK);
        }
        if changed {
            flags = RecvFlags::DONTWAIT;
        }
    }
}

/// Returns the objects of a device.
fn listed(socket: &OwnedFd, link: u32) -> io::Result<Snapshot> {
    // Bound: `TRIES`.
    for tries in 1.. {
        let mut state = Snapshot::default();
        let mut is_whole = true;
        let root = TcHead { link, ..TcHead::default() };
        is_whole &= list(socket, kind::GET_QDISC, root, &mut state)?;
        is_whole &= list(socket, kind::GET_CLASS, root, &mut state)?;
        let places: Vec<u32> = state.places().collect();
        for parent in places {
            let place = TcHead { parent, ..root };
            is_whole &= list(socket, kind::GET_CHAIN, place, &mut state)?;
            is_whole &= list(socket, kind::GET_FILTER, place, &mut state)?;
        }
        if is_whole || tries >= TRIES {
            return Ok(state);
        }
    }
    Ok(Snapshot::default())
}

/// Takes a listing. False if something changed meanwhile.
fn list(socket: &OwnedFd, kind: u16, head: TcHead, state: &mut Snapshot) -> io::Result<bool> {
    let header = Header { kind, flags: flag::REQUEST | flag::DUMP, seq: 1, port: 0 };
    send(socket, &message(header, |w| head.write(w)), SendFlags::empty())?;
    let mut packet = vec![0; PART];
    let mut is_whole = true;
    loop {
        let (len, _) = match recv(socket, &mut *packet, RecvFlags::empty()) {
            Err(Errno::INTR) => continue,
            other => other?,
        };
        for one in messages(&packet[..len]) {
            is_whole &= one.header.flags & flag::DUMP_INTR == 0;
            let error = one.body.get(..4).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
            match (one.header.kind, error) {
                (kind::DONE, None | Some(0)) => return Ok(is_whole),
                (kind::DONE | kind::ERROR, Some(error)) => {
                    return Err(io::Error::from_raw_os_error(error.saturating_neg()));
                }
                _ => state.take(&one, head),
            }
        }
    }
}

/// The copy.
struct Copy<'a> {
    daemon: &'a mut Client,
    to: &'a str,
    /// The state that it has, but for what was refused; `None` before the first.
    has: Option<Copied>,
    /// The lines that the daemon has refused.
    refused: Vec<String>,
    /// The differences that were told.
    said: Vec<String>,
}

impl Copy<'_> {
    /// Leads the link to a state, and tells what is different from it.
    fn go_to(&mut self, state: Copied) -> Result<(), Failure> {
        match self.has.take() {
            Some(has) if has == state => self.has = Some(has),
            has => {
                let mut refused = match &has {
                    Some(has) => self.perform(&state.steps_from(has))?,
                    None => self.anew(&state)?,
                };
                // A change that is refused may be possible for an object that is made anew.
                if has.is_some() && !refused.is_empty() && refused != self.refused {
                    refused = self.anew(&state)?;
                }
                let (len, to) = (state.len(), self.to);
                output::print(format!("{to}: copied {len}\n"))?;
                self.refused = refused;
                self.has = Some(state.clone());
            }
        }
        let differences = [state.left_out, self.refused.clone()].concat();
        for difference in differences.iter().filter(|one| !self.said.contains(one)) {
            output::say(format_args!("{}: {difference}\n", self.to));
        }
        self.said = differences;
        Ok(())
    }

    /// Makes a state, whatever the link has. Returns the refusals.
    fn anew(&mut self, state: &Copied) -> Result<Vec<String>, Failure> {
        // There may be none.
        for place in ["root", "clsact", "ingress"] {
            self.tc(&["qdisc", "del", "dev", self.to, place].map(String::from))?;
        }
        // Other links may hold a block that this one shares.
        for block in state.blocks() {
            self.tc(&["filter", "del", "block", &block.to_string()].map(String::from))?;
        }
        self.perform(&state.steps_from_nothing())
    }

    /// Performs steps. Returns the refusals, each with the daemon's reason.
    fn perform(&mut self, steps: &[Step]) -> Result<Vec<String>, Failure> {
        let mut refused = Vec::new();
        for step in steps {
            let (status, text) = self.tc(&step.words)?;
            if status != 0 && !step.may_fail {
                let line = text.lines().next().unwrap_or_default();
                refused.push(format!("refused: {}: {line}", step.words.join(" ")));
            }
        }
        Ok(refused)
    }

    fn tc(&mut self, words: &[String]) -> Result<(u8, String), Failure> {
        let ask = Ask::Tc { args: words.to_vec(), batch: None, class_names: None };
        let reply = self.daemon.ask(&ask).map_err(Failure::usage)?;
        Ok((reply.status, reply.stderr))
    }
}
