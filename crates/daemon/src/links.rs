//! `Links`: all links of a daemon, what can be done with them, and one turn of their work.

use txweir_core::Instant;
use txweir_device::poll::{PollFd, PollFlags};
use txweir_device::{IfName, MAX_FRAME};
use txweir_runtime::Received;

use crate::grammar::{Change, Make, Send, Verb};
use crate::link::{End, Link};
use crate::show;

/// Most links: each takes some 2 MiB for the packets that can wait on it.
pub const LINKS_MAX: usize = 1024;
/// Most frames received from one link before the next is looked at.
const BURST: usize = 64;
/// In place of a link's name: no peer.
const NONE: &str = "none";

/// The links, in the order in which they were added.
#[derive(Debug)]
pub struct Links {
    all: Vec<Link>,
    /// Where frames are received that nobody forwards.
    scratch: Box<[u8]>,
}

impl Default for Links {
    fn default() -> Self {
        Self { all: Vec::new(), scratch: vec![0; MAX_FRAME].into() }
    }
}

impl Links {
    /// All links.
    #[must_use]
    pub fn all(&self) -> &[Link] {
        &self.all
    }

    /// All links, to use.
    pub fn all_mut(&mut self) -> &mut [Link] {
        &mut self.all
    }

    /// The link of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Link> {
        self.all.iter().find(|link| link.name.as_str() == name)
    }

    /// The link of this name, to use.
    pub fn find_mut(&mut self, name: &str) -> Option<&mut Link> {
        self.all.iter_mut().find(|link| link.name.as_str() == name)
    }

    /// Does what a link command says, whole or not at all; what is to be printed.
    ///
    /// # Errors
    /// One line that names the link, the key, what was expected and what was given.
    pub fn run(&mut self, now: Instant, verb: &Verb) -> Result<String, String> {
        match verb {
            Verb::Add(make) => self.add(now, make).map(|()| String::new()),
            Verb::Set(change) => self.set(now, change).map(|()| String::new()),
            Verb::Replace(make) => self.replace(now, make).map(|()| String::new()),
            Verb::Del(named) => self.del(&named.name).map(|()| String::new()),
            Verb::Send(send) => self.send(now, send),
            Verb::Show(wanted) => {
                self.all.iter_mut().for_each(|link| link.advance(now));
                let at = wanted.name.as_ref().map(|name| self.index(name)).transpose()?;
                let shown = match at {
                    Some(at) => &mut self.all[at..=at],
                    None => &mut self.all[..],
                };
                Ok(if wanted.json { show::json(shown) } else { show::text(shown) })
            }
        }
    }

    fn index(&self, name: &IfName) -> Result<usize, String> {
        let found = self.all.iter().position(|link| link.name == *name);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.all.iter().map(|link| link.name.as_str()).take(20).collect();
            let there_are = if names.is_empty() { "there are none".to_owned() } else { names.join(", ") };
            format!("link {name}: there is no such link (links: {there_are})")
        })
    }

    fn add(&mut self, now: Instant, make: &Make) -> Result<(), String> {
        let name = &make.change.name;
        if self.find(name.as_str()).is_some() {
            return Err(format!("link {name}: exists already (use set or replace, or delete it first)"));
        }
        if name.as_str() == NONE {
            return Err(format!("link {name}: this name stands for no link (--peer none)"));
        }
        if self.all.len() >= LINKS_MAX {
            return Err(format!("link {name}: expected at most {LINKS_MAX} links"));
        }
        let link = Link::new(make)?;
        if let (Some(mine), false) = (&link.endpoint, self.all.is_empty())
            && let Some(other) = self.all.iter().find(|other| {
                other.endpoint.as_ref().is_some_and(|e| e.netns == mine.netns && e.name == mine.name)
            })
        {
            return Err(format!("link {name} if: {mine} is the interface of link {} already", other.name));
        }
        self.all.push(link);
        let done = self.set_peer(&make.change);
        if done.is_err() {
            self.all.pop();
        }
        self.all.iter_mut().for_each(|link| link.advance(now));
        done
    }

    fn set(&mut self, now: Instant, change: &Change) -> Result<(), String> {
        let at = self.index(&change.name)?;
        self.all[at].check(change)?;
        self.set_peer(change)?;
        self.all[at].change(now, change);
        self.all[at].advance(now);
        Ok(())
    }

    fn replace(&mut self, now: Instant, make: &Make) -> Result<(), String> {
        let Ok(at) = self.index(&make.change.name) else { return self.add(now, make) };
        self.all[at].check_same(make)?;
        let mut change = make.change.clone();
        change.rate = change.rate.or(make.wire.as_ref().map(|spec| spec.wire.rate));
        self.set(now, &change)
    }

    fn del(&mut self, name: &IfName) -> Result<(), String> {
        let at = self.index(name)?;
        self.part(at);
        self.all.remove(at);
        Ok(())
    }

    fn send(&mut self, now: Instant, send: &Send) -> Result<String, String> {
        let at = self.index(&send.name)?;
        self.all[at].send(now, send)
    }

    /// Ends what a link has with its peer, on both sides.
    fn part(&mut self, at: usize) {
        if let Some(peer) = self.all[at].peer.take()
            && let Some(peer) = self.find_mut(peer.as_str())
        {
            peer.peer = None;
        }
    }

    fn set_peer(&mut self, change: &Change) -> Result<(), String> {
        let Some(wanted) = &change.peer else { return Ok(()) };
        let at = self.index(&change.name)?;
        if wanted.as_str() == NONE {
            self.part(at);
            return Ok(());
        }
        let other = self.index(wanted).map_err(|e| format!("link {} peer: {e}", change.name))?;
        let says = |what: String| Err(format!("link {} peer: {what}", change.name));
        if other == at {
            return says(format!("expected another link, given {wanted}"));
        }
        for link in [&self.all[at], &self.all[other]] {
            if !link.kind.is_live() {
                let (name, kind) = (&link.name, link.kind.name());
                return says(format!(
                    "expected two links of type tap or packet, but {name} is of type {kind}"
                ));
            }
        }
        let (mine, theirs) = (self.all[at].name.clone(), self.all[other].name.clone());
        if let Some(third) = self.all[other].peer.as_ref().filter(|peer| **peer != mine) {
            return says(format!("{theirs} has the peer {third} (part them first: --peer none)"));
        }
        self.part(at);
        self.all[at].peer = Some(theirs);
        self.all[other].peer = Some(mine);
        Ok(())
    }

    /// The interfaces, for waiting: in the order of the links, live ones only.
    pub fn poll<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        for link in &self.all {
            if let End::Live(io) = &link.end {
                let events = match link.way.waits_for_output() {
                    true => PollFlags::IN | PollFlags::OUT,
                    false => PollFlags::IN,
                };
                fds.push(PollFd::new(&**io, events));
            }
        }
    }

    /// One turn: receives a burst from each link that is `ready` (in the order of [`poll`](Self::poll)), and runs what is
    /// due. True if there may be more to receive.
    pub fn turn(&mut self, clock: &dyn Fn() -> Instant, ready: &[bool]) -> bool {
        let mut more = false;
        let mut ready = ready.iter();
        let is_live = |link: &Link| matches!(link.end, End::Live(_));
        let due: Vec<usize> = (0..self.all.len())
            .filter(|at| is_live(&self.all[*at]) && ready.next().copied().unwrap_or(true))
            .collect();
        for at in due {
            more |= self.receive(clock, at);
        }
        let now = clock();
        self.all.iter_mut().for_each(|link| link.advance(now));
        more
    }

    /// When the next turn is due, if nothing comes in.
    #[must_use]
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        self.all.iter().filter_map(|link| link.way.deadline(now)).min()
    }

    /// A burst from one link. True if there may be more.
    fn receive(&mut self, clock: &dyn Fn() -> Instant, at: usize) -> bool {
        let peer = self.all[at].peer.as_ref().and_then(|peer| self.index(peer).ok());
        let Some([from, to]) = peer.and_then(|peer| self.all.get_disjoint_mut([at, peer]).ok()) else {
            return self.receive_unclaimed(at);
        };
        for _ in 0..BURST {
            match to.way.receive(&mut from.end) {
                Ok(Received::Frame(arrival)) => {
                    if let Err(error) = to.way.admit(clock(), arrival, &mut to.end) {
                        to.lost(&error);
                    }
                }
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
        use txweir_runtime::Port;
        let link = &mut self.all[at];
        for _ in 0..BURST {
            match link.end.recv(&mut self.scratch) {
                Ok(Some((_, len))) => link.unclaimed.add(u32::try_from(len).unwrap_or(u32::MAX)),
                Ok(None) => return false,
                Err(error) => {
                    link.lost(&error);
                    return false;
                }
            }
        }
        true
    }

    /// The `link replace` lines that make all links, in order.
    #[must_use]
    pub fn save(&self) -> String {
        let mut out = String::new();
        for (at, link) in self.all.iter().enumerate() {
            out.push_str("link replace ");
            out.push_str(&link.words());
            // The second of two peers names the first, which is there by then.
            let earlier = |peer: &IfName| self.all[..at].iter().any(|other| other.name == *peer);
            if let Some(peer) = link.peer.as_ref().filter(|peer| earlier(peer)) {
                out.push_str(&format!(" --peer {peer}"));
            }
            out.push('\n');
        }
        out
    }
}
