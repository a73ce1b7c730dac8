//! The handshake: SYNs, their answers, and what both ends agree on by them.

use txweir_core::Instant;

use crate::config::EcnMode;
use crate::connection::halves::Halves;
use crate::connection::marks::{self, Wish};
use crate::connection::options::Options;
use crate::segment::{Flags, Segment, SynOptions};
use crate::sender::timer::{self, Purpose};
use crate::tick::Tick;

/// Number of SYNs sent again at a steady pace before the pace falls.
const SYN_LINEAR: u8 = 4;
/// Number of SYNs, the first included, after which the first window is still the ordinary one.
const SYNS_FREE: u8 = 2;
/// Number of SYNs sent again at a falling pace before an end gives up (`tcp_syn_retries` of Linux).
const SYN_RETRIES_MAX: u8 = 6;
/// Number of answers sent again before an end gives up (`tcp_synack_retries` of Linux).
const ANSWER_RETRIES_MAX: u8 = 5;

/// Role of an end in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It has opened the connection.
    Opens,
    /// It answers a SYN.
    Answers,
}

/// The SYNs of an end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opening {
    /// True if a SYN, or the answer to one, is to be sent.
    pub(super) due: bool,
    /// The number of them that have left, and the time of the last one.
    syns: u8,
    sent: Instant,
    /// The time stamp of the first one.
    first_stamp: u32,
}

impl Opening {
    pub(super) const fn new(due: bool) -> Self {
        Self { due, syns: 0, sent: Instant::ZERO, first_stamp: 0 }
    }

    /// True if so many SYNs have left that the end gives up.
    pub(super) const fn in_vain(&self, role: Role) -> bool {
        let again = match role {
            Role::Opens => SYN_LINEAR + SYN_RETRIES_MAX,
            Role::Answers => ANSWER_RETRIES_MAX,
        };
        self.syns > again
    }

    /// Takes the peer's SYN, which is to be answered.
    pub(super) fn take_syn(&mut self, h: &mut Halves, now: Instant, seg: &Segment) {
        let segment = h.agree(seg);
        h.rx.window.first(u64::from(segment));
        h.begin(now, seg, segment);
        h.syn_ecn = seg.ecn;
        h.agree_on_marks(h.wish().offered(seg.flags.ace(), seg.ecn));
        self.due = true;
    }

    /// Takes a segment that may answer this end's SYN. True if it does: the connection is
    /// established.
    pub(super) fn take_answer(&self, h: &mut Halves, now: Instant, seg: &Segment) -> bool {
        if !seg.flags.has(Flags::SYN.with(Flags::ACK)) || seg.ack != 1 {
            return false;
        }
        let segment = h.agree(seg);
        h.begin(now, seg, segment);
        let mode = h.wish().answered(seg.flags.ace());
        h.agree_on_marks(mode);
        h.syn_ecn = seg.ecn;
        if mode == EcnMode::Accurate {
            h.rx.ecn.counts.answered(seg.ecn);
            h.echoes_answer = true;
        }
        self.establish(h, now, seg);
        h.rx.timing.at_once();
        true
    }

    /// Takes the acknowledgement of this end's answer.
    pub(super) fn take_confirmation(&self, h: &mut Halves, now: Instant, seg: &Segment) {
        self.establish(h, now, seg);
        if h.tx.ecn.mode == EcnMode::Accurate {
            h.tx.ecn.told.handshake(seg);
        }
    }

    fn establish(&self, h: &mut Halves, now: Instant, seg: &Segment) {
        h.rx.established(now);
        let shift = if seg.flags.has(Flags::SYN) { 0 } else { h.options.peer_scale };
        h.tx.flow.now = now;
        let round_trip = self.round_trip(now, seg, h.tx.flow.tick());
        // Several SYNs were lost: the first window is one segment (RFC 6298 section 5.7 in
        // spirit). An answer to the first SYN shows that it was only late (RFC 3522).
        let late = seg.stamps.is_some_and(|(_, echo)| echo == self.first_stamp);
        h.tx.established(seg, shift, round_trip, self.syns > SYNS_FREE && !late);
    }

    /// Returns the microseconds from a SYN to the segment that answers it, if this is known.
    fn round_trip(&self, now: Instant, seg: &Segment, tick: &Tick) -> Option<u32> {
        match seg.stamps {
            // Only time stamps tell which SYN is answered.
            Some((_, echo)) if self.syns > 1 => {
                let ms = tick.stamp(now).wrapping_sub(echo);
                (echo != 0 && ms < 1 << 20).then(|| ms.max(1) * 1_000)
            }
            _ if self.syns > 1 => None,
            _ => {
                let us = (now.0 / 1_000).saturating_sub(self.sent.0 / 1_000);
                Some(u32::try_from(us).unwrap_or(u32::MAX))
            }
        }
    }

    /// Returns the SYN, or the answer to one, if it is due.
    pub(super) fn next(&mut self, h: &mut Halves, now: Instant, role: Role) -> Option<Segment> {
        if !std::mem::take(&mut self.due) {
            return None;
        }
        self.sent = now;
        self.syns = self.syns.saturating_add(1);
        if self.syns == 1 {
            self.first_stamp = h.tx.flow.tick().stamp(now);
        }
        let linear = if role == Role::Opens { SYN_LINEAR } else { 0 };
        h.tx.backoff = (self.syns - 1).saturating_sub(linear);
        let ticks = h.tx.rto();
        timer::set(&mut h.tx, Purpose::Retransmit, ticks);
        let (wish, answers) = (h.wish(), role == Role::Answers);
        let ace = match role {
            Role::Opens => wish.offer(u32::from(self.syns)),
            Role::Answers => marks::answer(h.tx.ecn.mode, h.syn_ecn),
        };
        // The option probes whether the path lets it pass; it is not tried again (RFC 9768 section
        // 3.2.3.2.2).
        let probes = answers && self.syns == 1;
        let ecn_bytes = if probes { h.rx.ecn.option(Options::room_in_answer()) } else { None };
        let scale = Some(h.rx.window.scale).filter(|_| !answers || h.options.scaled);
        Some(Segment {
            ack: u64::from(answers),
            window: u16::try_from(h.rx.window.offered).unwrap_or(u16::MAX),
            flags: Flags::SYN.with_if(Flags::ACK, answers).with(Flags::of_ace(ace)),
            ecn: wish.syn_label(),
            ecn_bytes,
            stamps: h.stamps(now),
            syn: Some(SynOptions { mss: h.tx.flow.config.mss, scale, sack: h.options.sack }),
            departs: now,
            again: self.syns > 1,
            ..Segment::default()
        })
    }
}

impl Halves {
    /// Returns the marks that this end asks for.
    fn wish(&self) -> Wish {
        Wish::of(&*self.tx.cc, &self.tx.flow.config)
    }

    /// Agrees with the peer's SYN on options and segment size. Returns the payload of a full
    /// segment that this end takes.
    fn agree(&mut self, seg: &Segment) -> u32 {
        let peer = self.options.agree(seg);
        if !self.options.scaled {
            self.rx.window.scale = 0;
        }
        let (own, used) = (u32::from(self.tx.flow.config.mss), self.options.always());
        self.tx.flow.mss = own.min(peer).max(64) - used;
        own - used
    }

    /// Starts the receiving half behind the peer's SYN, for segments of `segment` bytes.
    fn begin(&mut self, now: Instant, seg: &Segment, segment: u32) {
        self.rx.begin(now, self.options.stamps, self.options.sack, segment);
        if let Some((theirs, _)) = seg.stamps {
            self.rx.recent_stamp = theirs;
        }
    }

    /// Begins to mark, and to echo marks, in the mode that the handshake has led to.
    fn agree_on_marks(&mut self, mode: EcnMode) {
        let wish = self.wish();
        let (code, always) = wish.label(mode);
        self.tx.ecn.agreed(mode, code, always);
        self.tx.cc.agreed(mode);
        self.rx.ecn.mode = mode;
        self.rx.ecn.exact = wish.exact(mode);
    }
}
