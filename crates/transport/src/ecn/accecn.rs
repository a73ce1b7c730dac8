//! Accurate ECN (RFC 9768): a counter of marked packets in three flags, counters of bytes in an
//! option, and how both are read when acknowledgements were lost.
//!
//! This module does not look for paths that change the marks or the flags (section 3.2.2.4,
//! 3.2.3.2).

use txweir_core::Ecn;

use crate::rare::Blank;
use crate::segment::{EcnBytes, Segment};

/// Initial value of the counter of packets (section 3.2.1).
const CEP_START: u32 = 5;
/// Initial value of the counters of bytes that arrive unmarked (section 3.2.1); zero tells of a
/// middlebox.
const BYTES_START: u32 = 1;
/// Number of values of the three flags.
const CYCLE: u32 = 8;
/// Mask of the counters of bytes, 24 bits.
const BYTES_MASK: u32 = 0xff_ffff;
/// Number of marked packets with data of which the last is acknowledged at once (section 3.2.2.5.1,
/// "n").
const MARKS_DATA: u32 = 2;
/// The same for packets without data, where the peer would acknowledge an acknowledgement in turn.
const MARKS_CONTROL: u32 = 3;

/// The three flags of a SYN that offers accurate ECN (section 3.1.1).
pub(crate) const OFFER: u8 = 0b111;

/// Returns the three flags of the answer to a SYN, or of the acknowledgement of that answer: they
/// encode the code point with which the answered segment arrived (section 3.1.1 table 2, section
/// 3.2.2.1 table 3).
pub(crate) const fn handshake(ecn: Ecn) -> u8 {
    match ecn {
        Ecn::NotEct => 0b010,
        Ecn::Ect1 => 0b011,
        Ecn::Ect0 => 0b100,
        Ecn::Ce => 0b110,
    }
}

/// True if these flags of an answer to a SYN agree on accurate ECN (section 3.1.1 table 2).
pub(crate) const fn agrees(ace: u8) -> bool {
    matches!(ace, 0b010 | 0b011 | 0b100 | 0b110)
}

/// The counters of a receiver, and the marks that it has not yet acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    /// Marked packets, those without data included (r.cep).
    packets: u32,
    /// Bytes of payload by code point (r.e0b, r.ceb, r.e1b).
    ect0: u32,
    ce: u32,
    ect1: u32,
    /// Marked packets since the last acknowledgement, with data and without.
    since: (u32, u32),
    /// True if the last packet with data was marked.
    marked: bool,
}

impl Counts {
    const START: Self = Self {
        packets: CEP_START,
        ect0: BYTES_START,
        ce: 0,
        ect1: BYTES_START,
        since: (0, 0),
        marked: false,
    };
}

impl Blank for Counts {
    fn blank() -> &'static Self {
        &Self::START
    }
}

impl Counts {
    /// Notes the code point with which the answer to this end's SYN came.
    pub(crate) const fn answered(&mut self, ecn: Ecn) {
        if matches!(ecn, Ecn::Ce) {
            self.packets = CEP_START + 1;
        }
    }

    /// Counts a segment that stands for `packets`, with `bytes` of payload in all. True if it is to
    /// be acknowledged at once: it is the first marked one after others, or marks have come up to
    /// the bound since the last acknowledgement (section 3.2.2.5.1).
    pub(crate) fn arrived(&mut self, ecn: Ecn, packets: u32, bytes: u32) -> bool {
        let counter = match ecn {
            Ecn::Ect0 => &mut self.ect0,
            Ecn::Ect1 => &mut self.ect1,
            Ecn::Ce => &mut self.ce,
            Ecn::NotEct => return self.unmarked(bytes),
        };
        *counter = counter.wrapping_add(bytes) & BYTES_MASK;
        if ecn != Ecn::Ce {
            return self.unmarked(bytes);
        }
        self.packets = self.packets.wrapping_add(packets);
        if bytes == 0 {
            self.since.1 = self.since.1.saturating_add(packets);
            return self.since.1 >= MARKS_CONTROL;
        }
        self.since.0 = self.since.0.saturating_add(packets);
        !std::mem::replace(&mut self.marked, true) || self.since.0 >= MARKS_DATA
    }

    const fn unmarked(&mut self, bytes: u32) -> bool {
        if bytes > 0 {
            self.marked = false;
        }
        false
    }

    /// Notes that an acknowledgement with the counters leaves.
    pub(crate) const fn told(&mut self) {
        self.since = (0, 0);
    }

    /// Returns the three flags.
    pub(crate) const fn ace(&self) -> u8 {
        (self.packets % CYCLE) as u8
    }

    /// Returns the option, with ECT(1) first if such packets have come: if there is no room for all
    /// counters, the counter that stands still is left out.
    pub(crate) const fn option(&self, room: usize) -> Option<EcnBytes> {
        let ect1_first = self.ect1 != BYTES_START;
        EcnBytes::fitting(ect1_first, self.ect0, self.ce, self.ect1, room)
    }
}

/// The state of a sender that reads echoes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    /// The three flags of the last acknowledgement.
    ace: u32,
    /// Marked bytes according to the last option (s.ceb).
    ce: u32,
    /// Marked packets counted from flags since the last option came.
    since_option: u32,
    /// The newest time stamp of the peer.
    stamp: Option<u32>,
}

impl Told {
    const START: Self = Self { ace: CEP_START, ce: 0, since_option: 0, stamp: None };
}

impl Blank for Told {
    fn blank() -> &'static Self {
        &Self::START
    }
}

impl Told {
    /// Takes the segment that ends the handshake. Without data and blocks its flags tell how the
    /// answer to the SYN arrived (section 3.2.2.1 table 4); otherwise they count.
    pub(crate) const fn handshake(&mut self, seg: &Segment) {
        if seg.len == 0 && seg.sacks.is_empty() && seg.flags.ace() == handshake(Ecn::Ce) {
            self.ace = CEP_START + 1;
        }
    }

    /// Returns the number of marked packets that an acknowledgement reports. It acknowledges
    /// `newly` packets for the first time, with up to `mss` bytes each.
    ///
    /// The flags give this number modulo eight. If `newly` leaves room for more than one answer,
    /// the option's bytes decide: the least number that can hold them. Without an option it is the
    /// greatest number that fits (section 3.2.2.5.2, appendix A.2.1), as too many marks are safe
    /// and too few are not.
    pub(crate) fn read(&mut self, seg: &Segment, newly: u32, mss: u32) -> u32 {
        let newer = match (seg.stamps, self.stamp) {
            (Some((theirs, _)), Some(last)) => (theirs.wrapping_sub(last) as i32) > 0,
            _ => false,
        };
        // An acknowledgement without news may be an old one, and an acknowledgement of the SYN
        // alone has other flags.
        if seg.ack <= 1 || (newly == 0 && !newer) {
            return 0;
        }
        self.stamp = seg.stamps.map(|(theirs, _)| theirs).or(self.stamp);
        let delta = u32::from(seg.flags.ace()).wrapping_sub(self.ace) % CYCLE;
        self.ace = u32::from(seg.flags.ace());
        let most = if newly > delta { newly - (newly - delta) % CYCLE } else { delta };
        let Some(ce) = seg.ecn_bytes.and_then(|o| o.ce()) else {
            self.since_option = self.since_option.saturating_add(most);
            return most;
        };
        let bytes = ce.wrapping_sub(self.ce) & BYTES_MASK;
        let needed = bytes.div_ceil(mss.max(1)).saturating_sub(self.since_option);
        (self.ce, self.since_option) = (ce, 0);
        delta + needed.saturating_sub(delta).div_ceil(CYCLE) * CYCLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::Flags;

    fn ack(ace: u32, option: Option<EcnBytes>) -> Segment {
        Segment {
            ack: 2,
            flags: Flags::ACK.with(Flags::of_ace((ace % 8) as u8)),
            ecn_bytes: option,
            ..Segment::default()
        }
    }

    fn ce(bytes: u32) -> Option<EcnBytes> {
        EcnBytes::fitting(true, 1, bytes & BYTES_MASK, 1, 40)
    }

    /// RFC 9768 tables 2 and 3.
    #[test]
    fn a_handshake_echoes_the_code_point() {
        let table = [(Ecn::NotEct, 2), (Ecn::Ect1, 3), (Ecn::Ect0, 4), (Ecn::Ce, 6)];
        for (ecn, ace) in table {
            assert_eq!(handshake(ecn), ace);
            assert!(agrees(ace));
        }
        for ace in [0, 1, 5, 7] {
            assert!(!agrees(ace), "{ace}");
        }
        let mut told = Told::START;
        told.handshake(&ack(6, None));
        assert_eq!(told.ace, 6);
        let mut told = Told::START;
        told.handshake(&ack(2, None));
        assert_eq!(told.ace, 5);
    }

    /// RFC 9768 appendix A.2.1: without an option the greatest number that fits.
    #[test]
    fn a_counter_that_may_have_wrapped_is_read_safely() {
        // (newly acknowledged, the flags' difference, marks)
        let vectors =
            [(5, 2, 2), (7, 7, 7), (8, 0, 8), (9, 3, 3), (11, 3, 11), (12, 3, 11), (20, 1, 17), (1, 3, 3)];
        for (newly, delta, marks) in vectors {
            let mut told = Told::START;
            assert_eq!(told.read(&ack(5 + delta, None), newly, 1448), marks, "{newly} {delta}");
        }
    }

    #[test]
    fn bytes_decide_between_counts() {
        // (newly acknowledged, the flags' difference, marked bytes, marks)
        let vectors = [
            (20, 1, 1448, 1),
            (20, 1, 9 * 1448, 9),
            (20, 1, 17 * 1448, 17),
            (44, 0, 0, 0),
            (20, 3, 100, 3),
            (20, 3, 10 * 1448 + 5, 11),
        ];
        for (newly, delta, bytes, marks) in vectors {
            let mut told = Told { ce: BYTES_MASK - 99, ..Told::START };
            let option = ce(BYTES_MASK - 99 + bytes);
            assert_eq!(told.read(&ack(5 + delta, option), newly, 1448), marks, "{newly} {delta} {bytes}");
        }
    }

    #[test]
    fn an_option_that_comes_late_is_not_counted_twice() {
        let mut told = Told::START;
        assert_eq!(told.read(&ack(5 + 2, None), 4, 1448), 2);
        assert_eq!(told.read(&ack(5 + 3, ce(3 * 1448)), 20, 1448), 1);
    }

    #[test]
    fn old_acknowledgements_and_those_of_the_syn_say_nothing() {
        let mut told = Told::START;
        assert_eq!(told.read(&Segment { ack: 1, ..ack(2, None) }, 0, 1448), 0);
        assert_eq!(told.read(&Segment { stamps: Some((9, 1)), ..ack(7, None) }, 4, 1448), 2);
        assert_eq!(told.read(&Segment { stamps: Some((8, 1)), ..ack(6, None) }, 0, 1448), 0);
        assert_eq!(told.read(&Segment { stamps: Some((10, 1)), ..ack(8, None) }, 0, 1448), 1);
    }

    #[test]
    fn marks_are_told_at_a_change_and_at_every_second() {
        let mut c = Counts::START;
        assert!(!c.arrived(Ecn::Ect1, 1, 1448));
        assert!(c.arrived(Ecn::Ce, 1, 1448), "the first one");
        c.told();
        assert!(!c.arrived(Ecn::Ce, 1, 1448));
        assert!(c.arrived(Ecn::Ce, 1, 1448), "the second since");
        c.told();
        assert!(!c.arrived(Ecn::Ect1, 1, 1448));
        assert!(c.arrived(Ecn::Ce, 1, 1448));
        assert_eq!(c.ace(), (5 + 4) % 8);
        c.told();
        assert!(!c.arrived(Ecn::Ce, 1, 0));
        assert!(!c.arrived(Ecn::Ce, 1, 0));
        assert!(c.arrived(Ecn::Ce, 1, 0), "three without data");
    }

    #[test]
    fn a_super_segment_counts_as_its_packets() {
        let mut c = Counts::START;
        assert!(c.arrived(Ecn::Ce, 3, 3 * 1448));
        assert_eq!(c.ace(), 0);
        let option = c.option(40).expect("room");
        assert_eq!((option.ect0(), option.ce(), option.ect1()), (Some(1), Some(4344), Some(1)));
    }
}
