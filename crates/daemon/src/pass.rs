//! A frame's way into a link: the filters of the hooks and qdiscs that it passes, the link itself, and the copies that actions
//! send to other links.

use std::io;

use txweir_core::filter::BlockId;
use txweir_core::packet::{Outlet, PortId, Way};
use txweir_core::{Instant, Meta};
use txweir_device::{Sent, VnetHdr};
use txweir_runtime::{Arrival, Asking, Port, Received};
use txweir_tc::tool::Hook;

use crate::grammar::Send;
use crate::link::{End, Link};
use crate::links::Links;

/// Most copies that wait while a frame and what comes of it is passed on; what is beyond is refused, which the action counts.
const COPIES_MAX: usize = 64;

/// A copy that an action has sent.
#[derive(Debug)]
struct Copy {
    to: PortId,
    way: Way,
    frame: Vec<u8>,
    priority: u32,
    mark: u32,
    depth: u8,
}

/// Takes what actions send, to be passed on when the frame itself is done with.
struct Copies<'a> {
    /// Links that take frames.
    up: &'a [PortId],
    list: &'a mut Vec<Copy>,
}

impl Outlet for Copies<'_> {
    fn send(&mut self, to: PortId, way: Way, frame: &[u8], m: &Meta, depth: u8) -> bool {
        let room = self.up.contains(&to) && self.list.len() < COPIES_MAX;
        if room {
            self.list.push(Copy { to, way, frame: frame.into(), priority: m.priority, mark: m.mark, depth });
        }
        room
    }
}

/// One frame, to be received.
struct One<'a>(Option<&'a [u8]>);

impl Port for One<'_> {
    fn recv(&mut self, frame: &mut [u8]) -> io::Result<Option<(VnetHdr, usize)>> {
        let Some(bytes) = self.0.take() else { return Ok(None) };
        let Some(room) = frame.get_mut(..bytes.len()) else { return Ok(None) };
        room.copy_from_slice(bytes);
        Ok(Some((VnetHdr::default(), bytes.len())))
    }
    fn send(&mut self, _: &VnetHdr, _: &[u8]) -> io::Result<Sent> {
        Ok(Sent::Taken)
    }
}

/// The filters at a hook of a link, if it has them.
fn hook_of(link: &Link, at: Hook, place: txweir_core::Handle) -> Option<BlockId> {
    let there = link.hook.is_some_and(|hook| hook == Hook::Clsact || hook == at);
    there.then(|| link.way.path().tree().block(place)).flatten()
}

impl Links {
    /// What is to be done before the next frame, after something has changed.
    pub(crate) fn fit_filters(&mut self) {
        if !self.fitted {
            self.filters.fit(&mut self.state);
            self.fitted = true;
        }
    }

    /// Passes a frame on that came in by a link, or is sent from here, to the link at `to`, and whatever its actions send.
    pub(crate) fn pass(&mut self, now: Instant, from: Option<usize>, to: usize, arrival: Arrival) {
        if self.filters.is_empty() {
            return admit(now, &mut self.all[to], arrival);
        }
        self.fit_filters();
        let mut up = Vec::new();
        for link in &self.all {
            if !matches!(link.end, End::Gone(_)) {
                up.push(self.ports.of(link.name.as_str()));
            }
        }
        let mut copies = Vec::new();
        self.pass_one(now, from, to, arrival, 0, &up, &mut copies);
        // It ends: a copy is one redirection deeper than what it was made of, and actions make none of the deepest.
        while let Some(copy) = copies.pop() {
            self.pass_copy(now, &copy, &up, &mut copies);
        }
    }

    #[allow(clippy::too_many_arguments, reason = "one step of `pass`, with what it has at hand")]
    fn pass_one(
        &mut self,
        now: Instant,
        from: Option<usize>,
        to: usize,
        arrival: Arrival,
        depth: u8,
        up: &[PortId],
        copies: &mut Vec<Copy>,
    ) {
        let ingress = from.map(|from| {
            let link = &self.all[from];
            (self.ports.of(link.name.as_str()), hook_of(link, Hook::Ingress, Hook::INGRESS))
        });
        let link = &mut self.all[to];
        let egress = (self.ports.of(link.name.as_str()), hook_of(link, Hook::Clsact, Hook::EGRESS));
        let mut asking = Asking {
            filters: &self.filters,
            state: &mut self.state,
            outlet: &mut Copies { up, list: copies },
            from: ingress,
            to: egress,
            queues: link.queues,
            depth,
        };
        if let Some(arrival) = link.way.classify(now, arrival, &mut asking) {
            admit(now, link, arrival);
        }
    }

    /// Puts made-up packets into the path of a link; what became of them, in one line.
    pub(crate) fn send(&mut self, now: Instant, at: usize, send: &Send) -> Result<String, String> {
        let mut traffic = self.all[at].made_up(send)?;
        let size = traffic.size();
        let link = &self.all[at];
        let (before, sent_before) = (link.way.stats(), link.way.path().stats().tx_packets);
        while traffic.left > 0 {
            // Made-up traffic never fails, and a frame without a buffer is counted.
            if let Ok(Received::Frame(mut arrival)) = self.all[at].way.receive(&mut traffic) {
                let meta = arrival.meta_mut();
                meta.priority = send.priority.unwrap_or(meta.priority);
                meta.mark = send.mark;
                self.pass(now, None, at, arrival);
            }
        }
        let link = &mut self.all[at];
        link.advance(now);
        let stats = link.way.stats();
        let drops = (stats.dropped + stats.no_memory) - (before.dropped + before.no_memory);
        let taken = match stats.taken - before.taken {
            0 => String::new(),
            taken => format!("{taken} taken by actions, "),
        };
        let sent = link.way.path().stats().tx_packets - sent_before;
        let queued = link.way.path().backlog().packets;
        Ok(format!(
            "{} packets of {size} bytes: {sent} sent, {drops} dropped, {taken}{queued} queued now\n",
            send.packets
        ))
    }

    /// A copy goes out by a link, or comes in by one and goes out by its peer.
    fn pass_copy(&mut self, now: Instant, copy: &Copy, up: &[PortId], copies: &mut Vec<Copy>) {
        let Some(at) =
            self.ports.name(copy.to).and_then(|name| self.all.iter().position(|l| l.name.as_str() == name))
        else {
            return;
        };
        let (from, to) = match copy.way {
            Way::Egress => (None, at),
            Way::Ingress => {
                let peer = self.all[at].peer.clone();
                match peer.and_then(|peer| self.all.iter().position(|l| l.name == peer)) {
                    Some(peer) => (Some(at), peer),
                    None => {
                        let len = u32::try_from(copy.frame.len()).unwrap_or(u32::MAX);
                        return self.all[at].unclaimed.add(len);
                    }
                }
            }
        };
        // What cannot be kept is counted where it would have been.
        if let Ok(Received::Frame(mut arrival)) = self.all[to].way.receive(&mut One(Some(&copy.frame))) {
            let meta = arrival.meta_mut();
            (meta.priority, meta.mark) = (copy.priority, copy.mark);
            self.pass_one(now, from, to, arrival, copy.depth, up, copies);
        }
    }
}

/// Takes a frame into a link.
pub(crate) fn admit(now: Instant, link: &mut Link, arrival: Arrival) {
    if let Err(error) = link.way.admit(now, arrival, &mut link.end) {
        link.lost(&error);
    }
}
