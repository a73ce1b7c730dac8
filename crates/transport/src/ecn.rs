//! Congestion marks: how a sender asks for them and reads their echo, how a receiver echoes them (RFC 3168, 8257, 9768).

use txweir_core::Ecn;

use crate::config::EcnMode;
use crate::segment::{Flags, Segment};

/// The sender's part.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EcnSender {
    /// What both ends have agreed on.
    pub(crate) mode: EcnMode,
    /// The code point of what may be marked.
    pub(crate) code: Ecn,
    /// Everything may be marked, acknowledgements and retransmissions included (RFC 8257, 9331).
    pub(crate) always: bool,
    /// The next new segment says that the window was reduced.
    reduced: bool,
    /// The counter of the last acknowledgement.
    ace: u8,
}

/// What the echo of one acknowledgement says.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Echo {
    /// Something was marked.
    pub(crate) echo: bool,
    /// The echo is that of RFC 3168, which does not say how much.
    pub(crate) classic: bool,
    /// Segments marked, where the echo is exact.
    pub(crate) segments: u32,
}

/// The counter of marks begins here (RFC 9768 section 3.2.1).
const ACE_START: u8 = 5;

impl EcnSender {
    /// The handshake has agreed on `mode`.
    pub(crate) const fn agreed(&mut self, mode: EcnMode, code: Ecn, always: bool) {
        (self.mode, self.code, self.always, self.ace) = (mode, code, always, ACE_START);
    }

    /// Reads the echo. `_mss` would turn bytes into segments.
    pub(crate) const fn echoed(&mut self, seg: &Segment, _mss: u32) -> Echo {
        match self.mode {
            EcnMode::Off => Echo { echo: false, classic: false, segments: 0 },
            EcnMode::Classic => {
                let echo = seg.flags.has(Flags::ECE) && !seg.flags.has(Flags::SYN);
                Echo { echo, classic: echo, segments: 0 }
            }
            EcnMode::Accurate => {
                if seg.flags.has(Flags::SYN) {
                    return Echo { echo: false, classic: false, segments: 0 };
                }
                let more = seg.flags.ace().wrapping_sub(self.ace) & 7;
                self.ace = seg.flags.ace();
                Echo { echo: more > 0, classic: false, segments: more as u32 }
            }
        }
    }

    /// The window was reduced: the receiver is to be told (RFC 3168 section 6.1.2).
    pub(crate) fn reduced(&mut self) {
        self.reduced = self.mode == EcnMode::Classic;
    }
    /// The reduction was undone.
    pub(crate) const fn withdraw(&mut self) {
        self.reduced = false;
    }

    /// Code point and flags of a segment; `fresh`: it carries data that has not been sent before.
    pub(crate) fn label(&mut self, fresh: bool) -> (Ecn, Flags) {
        if self.mode == EcnMode::Off {
            return (Ecn::NotEct, Flags::default());
        }
        let code = if fresh || self.always { self.code } else { Ecn::NotEct };
        let cwr = fresh && std::mem::take(&mut self.reduced);
        (code, Flags::default().with_if(Flags::CWR, cwr))
    }
}

/// The receiver's part.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EcnReceiver {
    pub(crate) mode: EcnMode,
    /// It tells each change between marked and not marked at once (RFC 8257 section 3.2).
    pub(crate) exact: bool,
    /// Echoes until the sender says that it has reduced its window.
    echo: bool,
    /// The last data was marked.
    marked: bool,
    /// Marked packets.
    count: u32,
}

/// What a receiver is to do about a packet's mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reaction {
    /// The sender's window may be small: do not delay.
    pub(crate) quick: bool,
    /// Acknowledge at once.
    pub(crate) now: bool,
    /// Before that, acknowledge what came before with the old mark if that still waits.
    pub(crate) before: bool,
}

impl EcnReceiver {
    /// A packet with data has come.
    pub(crate) fn data(&mut self, ecn: Ecn, flags: Flags) -> Reaction {
        let ce = ecn == Ecn::Ce;
        let mut r = Reaction::default();
        match self.mode {
            EcnMode::Off => {}
            EcnMode::Accurate => {
                self.count += u32::from(ce);
                // A counter of three bits must not wrap unseen (RFC 9768 section 3.2.2.5.1).
                r.now = ce && !self.marked;
                self.marked = ce;
            }
            EcnMode::Classic => {
                if flags.has(Flags::CWR) {
                    self.echo = false;
                    r.now = true;
                }
                if self.exact && ce != self.marked {
                    (r.now, r.before) = (true, true);
                    self.marked = ce;
                }
                if ce && !self.echo && !self.exact {
                    r.quick = true;
                    self.echo = true;
                }
            }
        }
        r
    }

    /// The last change between marked and not marked has been told, or will be with the next acknowledgement.
    pub(crate) const fn turn(&mut self) {
        if self.exact {
            self.echo = self.marked;
        }
    }

    /// Flags of an acknowledgement.
    pub(crate) fn flags(&self) -> Flags {
        match self.mode {
            EcnMode::Off => Flags::default(),
            EcnMode::Classic => Flags::default().with_if(Flags::ECE, self.echo),
            EcnMode::Accurate => Flags::of_ace((u32::from(ACE_START).wrapping_add(self.count) & 7) as u8),
        }
    }

    /// Marked packets.
    pub(crate) const fn count(&self) -> u32 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classic_echo_lasts_until_the_sender_answers() {
        let mut r = EcnReceiver { mode: EcnMode::Classic, ..EcnReceiver::default() };
        assert_eq!(r.data(Ecn::Ect0, Flags::ACK), Reaction::default());
        assert!(r.data(Ecn::Ce, Flags::ACK).quick);
        assert!(r.flags().has(Flags::ECE));
        assert!(!r.data(Ecn::Ce, Flags::ACK).quick, "it echoes already");
        assert!(r.data(Ecn::Ect0, Flags::ACK.with(Flags::CWR)).now);
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
                r.data(Ecn::Ce, Flags::ACK);
            }
            sum += s.echoed(&Segment { flags: r.flags(), ..Segment::default() }, 1448).segments;
        }
        assert_eq!(sum, 30);
    }
}
