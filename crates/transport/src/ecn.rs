//! Congestion marks: how a sender asks for them and reads their echo, and how a receiver echoes
//! them (RFC 3168, 8257, 9768).

pub(crate) mod accecn;

use txweir_core::Ecn;

use crate::config::EcnMode;
use crate::ecn::accecn::{Counts, Told};
use crate::rare::Rare;
use crate::segment::{EcnBytes, Flags, Segment};

/// The sending half's marks.
#[derive(Clone, Debug, Default)]
pub(crate) struct EcnSender {
    /// The mode that both ends have agreed on.
    pub(crate) mode: EcnMode,
    /// The code point of packets that may be marked.
    pub(crate) code: Ecn,
    /// True if every packet may be marked, acknowledgements and retransmissions included (RFC 8257,
    /// 9331).
    pub(crate) always: bool,
    /// True if the next new segment tells the receiver that the window was reduced.
    reduced: bool,
    /// State of accurate echoes.
    pub(crate) told: Rare<Told>,
}

impl EcnSender {
    /// Starts with the mode that the handshake has agreed on.
    pub(crate) fn agreed(&mut self, mode: EcnMode, code: Ecn, always: bool) {
        *self = Self { mode, code, always, ..Self::default() };
    }

    /// True if the segment echoes marks as RFC 3168 does, without their number.
    pub(crate) fn classic_echo(&self, seg: &Segment) -> bool {
        self.mode == EcnMode::Classic && seg.flags.has(Flags::ECE) && !seg.flags.has(Flags::SYN)
    }

    /// Returns the number of marked packets that the segment reports for the first time (RFC 9768).
    /// It acknowledges `newly` packets of up to `mss` bytes for the first time.
    pub(crate) fn accurate_echo(&mut self, seg: &Segment, newly: u32, mss: u32) -> u32 {
        match self.mode {
            EcnMode::Accurate if !seg.flags.has(Flags::SYN) => self.told.read(seg, newly, mss),
            _ => 0,
        }
    }

    /// Notes a reduction of the window, of which the receiver must be told (RFC 3168 section
    /// 6.1.2).
    pub(crate) fn reduced(&mut self) {
        self.reduced = self.mode == EcnMode::Classic;
    }
    /// Withdraws this note: the reduction was undone.
    pub(crate) const fn withdraw(&mut self) {
        self.reduced = false;
    }

    /// Returns the code point and the flags of a segment. `fresh`: the segment carries data that
    /// has not been sent before.
    pub(crate) fn label(&mut self, fresh: bool) -> (Ecn, Flags) {
        if self.mode == EcnMode::Off {
            return (Ecn::NotEct, Flags::default());
        }
        let code = if fresh || self.always { self.code } else { Ecn::NotEct };
        let cwr = fresh && std::mem::take(&mut self.reduced);
        (code, Flags::default().with_if(Flags::CWR, cwr))
    }
}

/// The receiving half's marks.
#[derive(Clone, Debug, Default)]
pub(crate) struct EcnReceiver {
    pub(crate) mode: EcnMode,
    /// True if it reports each change between marked and not marked at once (RFC 8257 section 3.2).
    pub(crate) exact: bool,
    /// True while it echoes marks, until the sender says that it has reduced its window.
    echo: bool,
    /// True if the last data was marked (DCTCP.CE).
    marked: bool,
    /// True if data has come that could be marked.
    seen: bool,
    /// State of accurate echoes.
    pub(crate) counts: Rare<Counts>,
}

/// Reaction of a receiver to a packet's mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reaction {
    /// True if acknowledgements must not wait, as the sender's window may be small.
    pub(crate) quick: bool,
    /// True if the packet is acknowledged at once.
    pub(crate) now: bool,
    /// True if earlier data is acknowledged before that with the old mark, if it still waits.
    pub(crate) before: bool,
}

impl EcnReceiver {
    /// Counts a segment that came inside the window, with data or without. True if it is to be
    /// acknowledged at once.
    pub(crate) fn arrived(&mut self, seg: &Segment) -> bool {
        self.mode == EcnMode::Accurate && self.counts.arrived(seg.ecn, seg.segments(), seg.len)
    }

    /// Takes the mark and the flags of a packet with new data.
    pub(crate) fn data(&mut self, ecn: Ecn, flags: Flags) -> Reaction {
        let mut r = Reaction::default();
        if self.mode != EcnMode::Classic {
            return r;
        }
        if flags.has(Flags::CWR) {
            self.echo = false;
            r.now = true;
        }
        if ecn == Ecn::NotEct {
            // On a connection with ECN only retransmissions cannot be marked: the sender may have a
            // small window.
            r.quick = self.seen;
            return r;
        }
        self.seen = true;
        let ce = ecn == Ecn::Ce;
        if self.exact {
            // The echo follows the last mark, whatever the sender says of its window (RFC 8257
            // section 3.2).
            self.echo = self.marked;
            if ce != self.marked {
                (r.now, r.before) = (true, true);
                self.marked = ce;
            }
        } else if ce && !self.echo {
            (r.quick, self.echo) = (true, true);
        }
        r
    }

    /// Notes that the last change between marked and not marked was reported, or will be with the
    /// next acknowledgement.
    pub(crate) const fn turn(&mut self) {
        if self.exact {
            self.echo = self.marked;
        }
    }

    /// Returns the flags of an acknowledgement.
    pub(crate) fn flags(&self) -> Flags {
        match self.mode {
            EcnMode::Off => Flags::default(),
            EcnMode::Classic => Flags::default().with_if(Flags::ECE, self.echo),
            EcnMode::Accurate => Flags::of_ace(self.counts.ace()),
        }
    }

    /// Returns the option of an acknowledgement for which `room` bytes are left.
    pub(crate) fn option(&self, room: usize) -> Option<EcnBytes> {
        if self.mode == EcnMode::Accurate { self.counts.option(room) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classic(exact: bool) -> EcnReceiver {
        EcnReceiver { mode: EcnMode::Classic, exact, ..EcnReceiver::default() }
    }

    #[test]
    fn classic_echo_lasts_until_the_sender_answers() {
        let mut r = classic(false);
        assert_eq!(r.data(Ecn::Ect0, Flags::ACK), Reaction::default());
        assert!(r.data(Ecn::Ce, Flags::ACK).quick);
        assert!(r.flags().has(Flags::ECE));
        assert!(!r.data(Ecn::Ce, Flags::ACK).quick, "the receiver echoes already");
        assert!(r.data(Ecn::Ect0, Flags::ACK.with(Flags::CWR)).now);
        assert!(!r.flags().has(Flags::ECE));
    }

    #[test]
    fn a_marked_packet_that_answers_is_echoed_anew() {
        let mut r = classic(false);
        r.data(Ecn::Ce, Flags::ACK);
        let reaction = r.data(Ecn::Ce, Flags::ACK.with(Flags::CWR));
        assert!(reaction.now && reaction.quick && r.flags().has(Flags::ECE));
    }

    #[test]
    fn what_was_sent_again_is_acknowledged_quickly() {
        let mut r = classic(false);
        assert!(!r.data(Ecn::NotEct, Flags::ACK).quick, "nothing could be marked so far");
        r.data(Ecn::Ect0, Flags::ACK);
        assert!(r.data(Ecn::NotEct, Flags::ACK).quick);
    }

    /// RFC 8257 section 3.2: each change is reported at once, and earlier packets with their own
    /// mark.
    #[test]
    fn an_exact_echo_follows_each_change() {
        let mut r = classic(true);
        r.data(Ecn::Ect0, Flags::ACK);
        let reaction = r.data(Ecn::Ce, Flags::ACK);
        assert!(reaction.now && reaction.before && !reaction.quick);
        assert!(!r.flags().has(Flags::ECE), "the packets before were not marked");
        r.turn();
        assert!(r.flags().has(Flags::ECE));
        assert_eq!(r.data(Ecn::Ce, Flags::ACK), Reaction::default());
        // The packet that ends the marks triggers an acknowledgement, too, which still reports the
        // marks before it.
        assert!(r.data(Ecn::Ect0, Flags::ACK.with(Flags::CWR)).before);
        assert!(r.flags().has(Flags::ECE));
        r.turn();
        assert!(!r.flags().has(Flags::ECE));
    }

    #[test]
    fn the_counter_wraps_and_is_read_as_a_difference() {
        let mut r = EcnReceiver { mode: EcnMode::Accurate, ..EcnReceiver::default() };
        let mut s = EcnSender::default();
        s.agreed(EcnMode::Accurate, Ecn::Ect1, true);
        let mut sum = 0;
        for _ in 0..10 {
            for _ in 0..3 {
                r.arrived(&Segment { ecn: Ecn::Ce, len: 1448, ..Segment::default() });
            }
            sum += s.accurate_echo(&Segment { flags: r.flags(), ack: 2, ..Segment::default() }, 3, 1448);
        }
        assert_eq!(sum, 30);
    }
}
