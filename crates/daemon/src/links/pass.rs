//! The way of a frame into a link: the filters of the hooks and qdiscs that it passes, the link
//! itself, and the copies that actions send to other links.

use txweir_core::Instant;
use txweir_core::classify::filter::BlockId;
use txweir_core::classify::packet::{PortId, Way};
use txweir_core::path::entry::{Entry, Hooked};
use txweir_device::Frame;
use txweir_runtime::{Arrival, Copies, Copy, One, Outlets, Received};
use txweir_tc::tool::Hook;

use super::Links;
use crate::end::End;
use crate::grammar::Send;
use crate::link::Link;
use crate::whole_way::Whole;

/// Generated packets after which those who own their queues take them: less than the places of a
/// mailbox.
const CROSSING: u32 = 256;

/// The way of a frame up to here.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Past {
    /// The link that it came in by; `None` for one that is generated.
    pub from: Option<usize>,
    /// Number of redirections behind it.
    pub depth: u8,
    /// True if it is held where a packet would be dropped for it: its sender waits.
    pub waits: bool,
}

/// Returns the filters at a hook of a link, if it has them.
fn hook_of(link: &Link, at: Hook, place: txweir_core::Handle) -> Option<BlockId> {
    let there = link.hook.is_some_and(|hook| hook == Hook::Clsact || hook == at);
    there.then(|| link.way.port().block(place)).flatten()
}

impl Links {
    /// Makes room in the state for changed filters, before the next frame.
    pub(crate) fn fit_filters(&mut self) {
        if !self.fitted {
            self.filters.fit(&mut self.state);
            self.fitted = true;
        }
    }

    /// Passes a frame to the link at `to`, and then the copies that its actions send.
    pub(crate) fn pass(&mut self, now: Instant, past: Past, to: usize, arrival: Arrival<Frame>) {
        if self.filters.is_empty() {
            let Some(arrival) = self.hand_whole(past, to, arrival) else { return };
            return self.enter(now, to, arrival, past.waits);
        }
        self.fit_filters();
        let mut up = Vec::new();
        for link in &self.all {
            if !link.is_away() {
                up.push(self.ports.of(link.name.as_str()));
            }
        }
        let mut copies = Copies::default();
        self.pass_one(now, past, to, arrival, &up, &mut copies);
        // The loop ends: a copy is one redirection deeper than its original, and at the greatest
        // depth actions make no copies.
        while let Some(copy) = copies.pop() {
            self.pass_copy(now, &copy, &up, &mut copies);
        }
    }

    fn pass_one(
        &mut self,
        now: Instant,
        past: Past,
        to: usize,
        arrival: Arrival<Frame>,
        up: &[PortId],
        copies: &mut Copies,
    ) {
        let Some(arrival) = self.hand_whole(past, to, arrival) else { return };
        let Past { from, depth, waits } = past;
        let ingress = from.map(|from| {
            let link = &self.all[from];
            let block = hook_of(link, Hook::Ingress, Hook::INGRESS);
            Hooked { port: self.ports.of(link.name.as_str()), block }
        });
        let link = &mut self.all[to];
        let block = hook_of(link, Hook::Clsact, Hook::EGRESS);
        let mut outlet = Outlets { up, copies, notes: &mut self.notes, now };
        let mut entry = Entry::new(&self.filters, &mut self.state, &mut outlet, now);
        entry.from = ingress;
        entry.to = Some(Hooked { port: self.ports.of(link.name.as_str()), block });
        entry.queues = link.queues;
        let arrival = link.way.classify(arrival, depth, &mut entry);
        let [received, sent] = entry.counted;
        link.hook_counts.add(sent);
        if let Some(arrival) = arrival {
            self.enter(now, to, arrival, waits);
        }
        if let Some(from) = from {
            self.all[from].hook_counts.add(received);
        }
    }

    /// Puts generated packets into the path of a link. Returns one line with their fates.
    pub(crate) fn send(&mut self, now: Instant, at: usize, send: &Send) -> Result<String, String> {
        let mut traffic = self.all[at].made_up(send)?;
        self.settle(now);
        self.all[at].way.looks(now);
        let size = traffic.size();
        let whole = Whole::to(&self.all[at]);
        let (before, sent_before) = (whole.stats(), whole.path().tx_packets);
        let refused_before = whole.crossed().map_or(0, |crossed| crossed.refused);
        while traffic.left > 0 {
            if traffic.left % CROSSING == 0 {
                self.settle(now);
            }
            self.all[at].passed.generated += 1;
            // Generated traffic never fails, and a frame without a buffer is counted.
            if let Ok(Received::Frame(mut arrival)) = self.all[at].way.receive(&mut traffic) {
                let meta = arrival.meta_mut();
                meta.priority = send.priority.unwrap_or(meta.priority);
                meta.mark = send.mark;
                self.pass(now, Past::default(), at, arrival);
            }
        }
        self.settle(now);
        self.all[at].each_real(&mut |copy| copy.advance(now));
        let whole = Whole::to(&self.all[at]);
        let stats = whole.stats();
        let refused = whole.crossed().map_or(0, |crossed| crossed.refused) - refused_before;
        let drops = (stats.dropped + stats.no_memory) - (before.dropped + before.no_memory) + refused;
        let lost = match stats.lost - before.lost {
            0 => String::new(),
            lost => format!("{lost} lost, "),
        };
        let taken = match stats.taken - before.taken {
            0 => String::new(),
            taken => format!("{taken} taken by actions, "),
        };
        // A frame that the device lost was not sent.
        let handed_on = whole.path().tx_packets - sent_before;
        let sent = handed_on.saturating_sub(stats.lost - before.lost);
        let queued = whole.backlog().packets;
        Ok(format!(
            "{} packets of {size} bytes: {sent} sent, {drops} dropped, {lost}{taken}{queued} queued now\n",
            send.packets
        ))
    }

    /// Passes on a copy, which leaves by a link, or comes in by one and leaves by its peer.
    fn pass_copy(&mut self, now: Instant, copy: &Copy, up: &[PortId], copies: &mut Copies) {
        let Some(at) =
            self.ports.name(copy.to).and_then(|name| self.all.iter().position(|l| l.name.as_str() == name))
        else {
            return;
        };
        let (from, to) = match copy.way {
            Way::Egress => {
                self.all[at].passed.copied += 1;
                (None, at)
            }
            Way::Ingress => {
                self.all[at].passed.redirected += 1;
                let peer = self.all[at].peer.clone();
                match peer.and_then(|peer| self.all.iter().position(|l| l.name == peer)) {
                    Some(peer) => {
                        self.all[at].passed.forwarded += 1;
                        self.all[peer].passed.peer += 1;
                        (Some(at), peer)
                    }
                    None => {
                        self.all[at].passed.unclaimed += 1;
                        return;
                    }
                }
            }
        };
        self.all[to].way.looks(now);
        // A copy without a buffer is counted at the link that it would have left by.
        if let Ok(Received::Frame(mut arrival)) = self.all[to].way.receive(&mut One(Some(copy))) {
            let meta = arrival.meta_mut();
            (meta.priority, meta.mark) = (copy.priority, copy.mark);
            let past = Past { from, depth: copy.depth, waits: false };
            self.pass_one(now, past, to, arrival, up, copies);
        }
    }
}

/// True if the senders behind a link keep the frames that are not received.
pub(super) fn senders_wait(link: &Link) -> bool {
    matches!(link.way.device(), End::Live(io) if io.senders_wait())
}

/// Takes a frame into a link, which holds it if there is no room and `waits` is true.
pub(crate) fn admit(now: Instant, link: &mut Link, arrival: Arrival<Frame>, waits: bool) {
    let way = &mut link.way;
    let admitted = if waits { way.admit_or_hold(now, arrival) } else { way.admit(now, arrival) };
    if let Err(error) = admitted {
        link.lost(&error);
    }
}
