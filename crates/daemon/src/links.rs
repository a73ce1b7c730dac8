//! `Links`: all links of a daemon, the commands on them, and one turn of their work.

mod before;
mod own;
mod pace;
mod pass;
mod rest;
mod restore;
mod room;
mod seat;
mod sketch;
mod watch;

use std::sync::Arc;

use txweir_core::Instant;
use txweir_core::classify::action::State;
use txweir_core::classify::filter::{BlockId, Filters};
use txweir_device::poll::PollFlags;
use txweir_device::{IfName, Kind, LinkIo, MAX_FRAME, Source};
use txweir_runtime::{Level, Notes, Received};
use txweir_tc::tool::{Ports, Rates};

use crate::end::End;
use crate::grammar::{Change, LinkType, Make, Verb};
use crate::link::Link;
use crate::machine::{Local, Machine};
pub(crate) use before::Before;
pub(crate) use own::{own, seats};
use pace::Pace;
use pass::{Past, admit, senders_wait};
pub(crate) use rest::Rest;
pub use room::TABLES;
use seat::is_full_for;
pub(crate) use seat::{Seat, silence};
pub(crate) use sketch::Sketch;

/// Most links: each takes some 2 MiB for the packets that can wait on it.
pub const LINKS_MAX: usize = 1024;
/// Most frames received from one link before the next link has its turn.
const BURST: usize = 64;
/// Segments of frames received from one link after which the next link has its turn: qdiscs may cut
/// super-frames, which takes about a microsecond a segment. 64 frames of 64 KB at a segment size of
/// 1448 bytes have 2944.
const PIECES: u32 = 4096;
/// The word that stands for no peer.
const NONE: &str = "none";
/// Most links that a message names.
const NAMED_MAX: usize = 20;

/// The change of a link's peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    AsItIs,
    None,
    /// The link at this index.
    Link(usize),
}

/// The links, in the order in which they were added.
#[derive(Debug)]
pub struct Links {
    pub(crate) all: Vec<Link>,
    /// Buffer for frames that are received and not forwarded.
    scratch: Box<[u8]>,
    /// The time of the request that is performed.
    pub(crate) now: Instant,
    /// Filters and actions of all links.
    pub(crate) filters: Filters,
    /// The state and counters of filters and actions.
    pub(crate) state: State,
    /// Rates that qdiscs of any links share by name.
    pub(crate) rates: Rates,
    /// The numbers by which filters and actions know links.
    pub(crate) ports: Ports,
    /// The destination of samples and log lines of actions.
    pub(crate) notes: Notes,
    /// True if `state` has room for all filters and actions.
    pub(crate) fitted: bool,
    /// The time before which no interface is opened again.
    next_try: Instant,
    /// The time before which no interface is looked at by the watchdog.
    next_look: Instant,
    /// True while a configuration is read: its links wait for interfaces that are missing, and its
    /// actions may name links that do not exist.
    pub(crate) configures: bool,
    /// Most bytes of tables that the qdiscs of all links have together.
    tables: u64,
    /// The links as the lines of the present dry run would have made them by now.
    pub(crate) sketch: Option<Sketch>,
    /// The turns of the links during long requests; `None` for none.
    pace: Option<Pace>,
    /// The source of interfaces and seeds.
    pub(crate) machine: Box<dyn Machine>,
    /// Its place among the links of several workers, if there are several.
    pub(crate) seat: Option<Seat>,
    /// The links of the workers, if this is the daemon's own thread.
    pub(crate) rest: Rest,
}

impl Default for Links {
    /// Returns no links, on this machine.
    fn default() -> Self {
        Self::on(Local)
    }
}

impl Links {
    /// Returns no links. Their interfaces and seeds will come from `machine`.
    #[must_use]
    pub fn on(machine: impl Machine + 'static) -> Self {
        Self {
            all: Vec::new(),
            scratch: vec![0; MAX_FRAME].into(),
            now: Instant::ZERO,
            filters: Filters::new().with_seed(machine.seed("filters")),
            rates: Arc::default(),
            ports: Ports::default(),
            notes: Notes::default(),
            fitted: true,
            next_try: Instant::ZERO,
            next_look: Instant::ZERO,
            configures: false,
            tables: TABLES,
            sketch: None,
            pace: None,
            state: State::new(machine.seed("actions")),
            machine: Box::new(machine),
            seat: None,
            rest: Rest::default(),
        }
    }

    /// Returns all links.
    #[must_use]
    pub fn all(&self) -> &[Link] {
        &self.all
    }

    /// Returns all links, to use them.
    pub fn all_mut(&mut self) -> &mut [Link] {
        &mut self.all
    }

    /// Returns two links that are peers of each other: frames that come in by one leave by the
    /// other. Their names differ.
    #[must_use]
    pub fn between(links: [Link; 2]) -> Self {
        let mut both = Self { all: links.into(), ..Self::default() };
        both.set_peer(0, Peer::Link(1));
        both
    }

    /// Sets the time of the next changes.
    pub const fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// True if a link has its interface in another network namespace. To open it again takes
    /// `CAP_SYS_ADMIN`.
    #[must_use]
    pub fn enter_namespaces(&self) -> bool {
        self.all.iter().any(|link| link.endpoint.as_ref().is_some_and(|there| there.netns.is_some()))
    }

    /// True if a link has its interface by XDP sockets. To open it again takes `CAP_BPF`.
    #[must_use]
    pub fn use_xdp(&self) -> bool {
        self.all.iter().any(|link| link.endpoint.as_ref().is_some_and(|there| there.kind == Kind::Xdp))
    }

    /// Returns the name of the first interface that does not work any more, and the system's error.
    pub(crate) fn gone(&self) -> Option<(String, String)> {
        let away = |link: &Link| link.way.device().away().map(|why| (link.interface(), why.to_owned()));
        self.all.iter().find_map(away)
    }

    /// Returns the destinations of samples and log lines, with their counters.
    #[must_use]
    pub const fn notes(&self) -> &Notes {
        &self.notes
    }

    /// Returns the destinations of samples and log lines, to be set before there are any.
    pub const fn notes_mut(&mut self) -> &mut Notes {
        &mut self.notes
    }

    /// Writes a line about an event to the log.
    pub fn tell(&mut self, now: Instant, level: Level, text: &str) {
        self.notes.line(now, level, "txweir", text);
    }

    /// Returns the link of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Link> {
        self.all.iter().find(|link| link.name.as_str() == name)
    }

    /// Returns the link of this name, to use it.
    pub(crate) fn find_mut(&mut self, name: &str) -> Option<&mut Link> {
        self.all.iter_mut().find(|link| link.name.as_str() == name)
    }

    /// Performs a link command that changes something. With `dry` it changes nothing, and finds the
    /// links as the dry commands of the same request would have left them. Returns one line for
    /// each change; none if the links are already as requested.
    ///
    /// # Errors
    /// One line that names the link, the key, what was expected and what was given. A dry run is
    /// refused for the same reasons.
    pub fn change(&mut self, now: Instant, verb: &Verb, dry: bool) -> Result<Vec<String>, String> {
        if dry {
            return self.try_out(now, verb).map(|line| line.changes);
        }
        match verb {
            Verb::Add(make) => self.add(make),
            Verb::Set(change) => self.set(now, change),
            Verb::Replace(make) => self.replace(now, make),
            Verb::Del(named) if self.configures => Err(format!(
                "link {}: a configuration makes links: expected add, set or replace, given del",
                named.name
            )),
            Verb::Del(named) => self.del(&named.name),
            Verb::Show(_) | Verb::Send(_) => {
                let given = if matches!(verb, Verb::Show(_)) { "show" } else { "send" };
                Err(format!(
                    "link: expected a line that changes links (add, set, replace or del), given {given}"
                ))
            }
        }
    }

    pub(crate) fn index(&self, name: &IfName) -> Result<usize, String> {
        let found = self.all.iter().position(|link| link.name == *name);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.all.iter().map(|link| link.name.as_str()).take(NAMED_MAX).collect();
            let there_are = if names.is_empty() { "there are none".to_owned() } else { names.join(", ") };
            format!("link {name}: there is no such link (links: {there_are})")
        })
    }

    fn add(&mut self, make: &Make) -> Result<Vec<String>, String> {
        let name = &make.change.name;
        if self.find(name.as_str()).is_some() {
            return Err(format!("link {name}: exists already (use set or replace, or delete it first)"));
        }
        if name.as_str() == NONE {
            return Err(format!("link {name}: this name stands for no link (--peer none)"));
        }
        if name.as_str().starts_with('-') || name.as_str().contains(['"', '\'', '\\', '#']) {
            let expected = "a name that can stand in a tc line: no leading -, no quote, backslash or #";
            return Err(format!("link {name}: expected {expected}, given {name}"));
        }
        if self.all.len() >= LINKS_MAX {
            return Err(format!("link {name}: expected at most {LINKS_MAX} links, given one more"));
        }
        if let Some(mine) = Link::endpoint_of(make)?
            && let Some(other) = self
                .all
                .iter()
                .find(|other| other.endpoint.as_ref().is_some_and(|other| other.is_place_of(&mine)))
        {
            // Another tunnel may end there.
            let is = match mine.kind {
                Kind::Vxlan => "has the local address and port",
                _ => "is the interface",
            };
            return Err(format!("link {name} if: {mine} {is} of link {} already", other.name));
        }
        self.check_workers(make)?;
        let link = Link::new(make, &*self.machine, self.configures, self.all.len())?;
        let peer = self.peer_of(name, link.kind, &make.change)?;
        let mut said = format!("+ link {}", link.words());
        if let (Peer::Link(_), Some(peer)) = (peer, &make.change.peer) {
            said.push_str(&format!(" --peer {peer}"));
        }
        self.all.push(link);
        self.set_peer(self.all.len() - 1, peer);
        Ok(vec![said])
    }

    fn set(&mut self, now: Instant, change: &Change) -> Result<Vec<String>, String> {
        let at = self.index(&change.name)?;
        let link = &self.all[at];
        link.check(change)?;
        let peer = self.peer_of(&change.name, link.kind, change)?;
        let mut said = link.differences(change);
        let wanted = match peer {
            Peer::AsItIs => link.peer.as_ref(),
            Peer::None => None,
            Peer::Link(other) => Some(&self.all[other].name),
        };
        if wanted != link.peer.as_ref() {
            let text = |peer: Option<&IfName>| peer.map_or(NONE, IfName::as_str).to_owned();
            said.push(format!("~ link {} peer {} -> {}", link.name, text(link.peer.as_ref()), text(wanted)));
        }
        self.set_peer(at, peer);
        self.all[at].change(now, change);
        self.end_change(now, at);
        Ok(said)
    }

    /// Ends a change of the parameters of a link: due frames leave, and the filters of places that
    /// are gone go as well.
    fn end_change(&mut self, now: Instant, at: usize) {
        let link = &mut self.all[at];
        link.each_real(&mut |copy| copy.advance(now));
        let mut orphans = Vec::new();
        link.each_real(&mut |copy| orphans = copy.way.control(now).take_orphans());
        let name = link.name.clone();
        self.delete_blocks(&name, orphans);
    }

    /// Removes the filters of places of a link that are gone.
    fn delete_blocks(&mut self, link: &IfName, blocks: Vec<BlockId>) {
        let port = self.ports.of(link.as_str());
        blocks.into_iter().for_each(|block| self.change_filters().delete_block(block, port));
    }

    fn replace(&mut self, now: Instant, make: &Make) -> Result<Vec<String>, String> {
        let Ok(at) = self.index(&make.change.name) else { return self.add(make) };
        self.all[at].check_same(make)?;
        let mut change = make.change.clone();
        change.rate = change.rate.or(make.wire.as_ref().map(|spec| spec.wire.rate));
        let link = &self.all[at];
        let state = link.state();
        let opened = match link.is_away().then(|| link.open(&*self.machine)) {
            None => None,
            Some(Ok(io)) => io,
            // The link goes on to wait for it.
            Some(Err(error)) if self.configures && error.is_missing() => None,
            // For a client this is an error: the link is not as described.
            Some(Err(error)) => return Err(format!("link {}: {error}", link.name)),
        };
        let mut said = self.set(now, &change)?;
        if let Some(io) = opened {
            said.push(format!("~ link {} state {state} -> up", make.change.name));
            self.all[at].come_back(now, io);
        }
        Ok(said)
    }

    fn del(&mut self, name: &IfName) -> Result<Vec<String>, String> {
        let at = self.index(name)?;
        self.set_peer(at, Peer::None);
        let link = self.all.remove(at);
        let blocks = link.way.port().trees().blocks().into_iter().map(|(_, block)| block);
        self.delete_blocks(&link.name, blocks.collect());
        Ok(vec![format!("- link {name}")])
    }

    /// Returns the peer that the change asks for, for a link of this name and type.
    fn peer_of(&self, name: &IfName, kind: LinkType, change: &Change) -> Result<Peer, String> {
        let Some(wanted) = &change.peer else { return Ok(Peer::AsItIs) };
        if wanted.as_str() == NONE {
            return Ok(Peer::None);
        }
        let says = |what: String| Err(format!("link {name} peer: {what}"));
        if wanted == name {
            return says(format!("expected another link, given {wanted}"));
        }
        let other = self.index(wanted).map_err(|e| format!("link {name} peer: {e}"))?;
        for (name, kind) in [(name, kind), (wanted, self.all[other].kind)] {
            if !kind.is_live() {
                let kind = kind.name();
                return says(format!(
                    "expected two links of type tap, packet, xdp, vhost or vxlan, but {name} is of type {kind}"
                ));
            }
        }
        match self.all[other].peer.as_ref().filter(|peer| *peer != name) {
            Some(third) => says(format!("{wanted} has the peer {third} (part them first: --peer none)")),
            None => Ok(Peer::Link(other)),
        }
    }

    /// Parts a link from its peer and connects it with another, on both sides.
    fn set_peer(&mut self, at: usize, peer: Peer) {
        if peer == Peer::AsItIs {
            return;
        }
        if let Some(old) = self.all[at].peer.take()
            && let Some(old) = self.find_mut(old.as_str())
        {
            old.peer = None;
        }
        if let Peer::Link(other) = peer {
            self.all[at].peer = Some(self.all[other].name.clone());
            self.all[other].peer = Some(self.all[at].name.clone());
        }
    }

    /// Returns the interfaces to wait for, with the events: those of live links only, in the order
    /// of the links.
    pub fn interfaces(&self) -> impl Iterator<Item = (&LinkIo, PollFlags)> {
        self.all.iter().filter_map(|link| {
            let End::Live(io) = link.way.device() else { return None };
            let mut events = PollFlags::IN;
            events.set(PollFlags::OUT, link.way.waits_for_device());
            Some((io, events))
        })
    }

    /// Performs one turn: receives a burst from each link that is `ready` (in the order of
    /// [`interfaces`](Self::interfaces)), and runs the due events. Returns true if there may be
    /// more to receive.
    pub fn turn(&mut self, clock: &dyn Fn() -> Instant, ready: &[bool]) -> bool {
        let mut more = self.take_mail(clock);
        let mut ready = ready.iter();
        let mut due = Vec::new();
        for (at, link) in self.all.iter_mut().enumerate() {
            let End::Live(io) = link.way.device_mut() else { continue };
            let is_ready = ready.next().copied().unwrap_or(true);
            let attended = if is_ready { io.attend() } else { Ok(()) };
            if is_ready || io.has_frames() {
                due.push(at);
            }
            if let Err(error) = attended {
                link.lost(&error);
            }
        }
        for at in due {
            more |= self.receive(clock, at);
        }
        let now = clock();
        self.all.iter_mut().for_each(|link| link.advance(now));
        more |= self.tell_of_room();
        self.ring_others();
        self.watch(now);
        self.log_news(now);
        more || (0..self.all.len()).any(|at| self.leaves_frames(at))
    }

    /// True if a link has frames that its descriptor does not tell of, and that have a place now.
    fn leaves_frames(&self, at: usize) -> bool {
        let link = &self.all[at];
        matches!(link.way.device(), End::Live(io) if io.has_frames())
            && !link
                .peer
                .as_ref()
                .and_then(|peer| self.find(peer.as_str()))
                .is_some_and(|to| is_full_for(self.seat.as_ref(), to))
    }

    /// Writes the events of the interfaces to the log.
    fn log_news(&mut self, now: Instant) {
        for link in &mut self.all {
            let End::Live(io) = link.way.device_mut() else { continue };
            while let Some(text) = io.take_news() {
                let line = format!("link {}: {text}", link.name);
                self.notes.line(now, Level::Notice, "txweir", &line);
            }
        }
    }

    /// Returns the time at which the next turn is due, if no frame comes in.
    #[must_use]
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        let event = self.all.iter().filter_map(|link| link.way.deadline(now)).min();
        [event, self.next_attempt(), self.next_look()].into_iter().flatten().min()
    }

    /// Receives a burst from one link. Returns true if there may be more.
    fn receive(&mut self, clock: &dyn Fn() -> Instant, at: usize) -> bool {
        let peer = self.all[at].peer.as_ref().and_then(|peer| self.index(peer).ok());
        let Some(peer) = peer.filter(|peer| *peer != at) else { return self.receive_unclaimed(at) };
        let Ok([mut from, mut to]) = self.all.get_disjoint_mut([at, peer]) else { return false };
        let asks = !self.filters.is_empty() || self.seat.is_some();
        let senders_wait = senders_wait(from);
        let past = Past { from: Some(at), depth: 0, waits: senders_wait };
        to.way.looks(clock());
        let mut pieces = 0;
        for _ in 0..BURST {
            if pieces >= PIECES {
                break;
            }
            if senders_wait && is_full_for(self.seat.as_ref(), to) {
                return false;
            }
            let received = to.way.receive(from.way.device_mut());
            if let Ok(Received::Frame(_) | Received::LeftOut) = received {
                from.passed.forwarded += 1;
                to.passed.peer += 1;
            }
            if let Ok(Received::Frame(arrival)) = &received {
                pieces += u32::from(arrival.meta().segs);
            }
            match received {
                Ok(Received::Frame(arrival)) if asks => {
                    self.pass(clock(), past, peer, arrival);
                    let Ok(again) = self.all.get_disjoint_mut([at, peer]) else { return false };
                    [from, to] = again;
                }
                Ok(Received::Frame(arrival)) => admit(clock(), to, arrival, senders_wait),
                Ok(Received::LeftOut) => {}
                Ok(Received::Nothing) => return false,
                Err(error) => {
                    from.lost(&error);
                    return false;
                }
            }
        }
        true
    }

    fn receive_unclaimed(&mut self, at: usize) -> bool {
        let link = &mut self.all[at];
        for _ in 0..BURST {
            match link.way.device_mut().recv(&mut self.scratch) {
                Ok(Some(_)) => link.passed.unclaimed += 1,
                Ok(None) => return false,
                Err(error) => {
                    link.lost(&error);
                    return false;
                }
            }
        }
        true
    }

    /// Returns the `link replace` lines that make all links, in order.
    #[must_use]
    pub fn save(&self) -> String {
        let mut out = String::new();
        for (at, link) in self.all.iter().enumerate() {
            out.push_str("link replace ");
            out.push_str(&link.words());
            // The second of two peers names the first, which exists by then.
            let earlier = |peer: &IfName| self.all[..at].iter().any(|other| other.name == *peer);
            if let Some(peer) = link.peer.as_ref().filter(|peer| earlier(peer)) {
                out.push_str(&format!(" --peer {peer}"));
            }
            out.push('\n');
        }
        out
    }
}
