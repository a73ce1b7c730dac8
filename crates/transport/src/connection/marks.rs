//! The choice of a mode of marks in the handshake (RFC 3168 section 6.1.1, RFC 9768 section 3.1).

use txweir_core::Ecn;

use crate::cc::{Congestion, Wants};
use crate::config::{Config, EcnMode};
use crate::ecn::accecn;

/// Largest number of SYNs that offer accurate ECN, if none of them is answered (RFC 9768 section
/// 3.1.4.1).
const SYN_OFFERS_MAX: u32 = 2;

/// The marks that an end asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    wants: Wants,
    /// The mode that it prefers.
    mode: EcnMode,
}

impl Wish {
    /// Returns the wish of congestion control, or of the configuration where the former has none.
    pub(super) fn of(cc: &dyn Congestion, config: &Config) -> Self {
        let wants = cc.wants();
        let mode = match wants {
            Wants::Classic => config.ecn,
            Wants::Dctcp => EcnMode::Classic,
            Wants::L4s => EcnMode::Accurate,
        };
        Self { wants, mode }
    }

    /// Returns the three flags of the `syns`th SYN, counted from 1, as a counter.
    pub(super) const fn offer(self, syns: u32) -> u8 {
        match self.mode {
            EcnMode::Off => 0,
            // The network may have dropped a SYN because of its flags (RFC 3168 section 6.1.1.1).
            EcnMode::Classic if syns > 1 => 0,
            EcnMode::Classic => 0b011,
            EcnMode::Accurate if syns > SYN_OFFERS_MAX => 0,
            EcnMode::Accurate => accecn::OFFER,
        }
    }

    /// Returns the mode after a SYN with these flags, which arrived with code point `ecn`.
    pub(super) fn offered(self, ace: u8, ecn: Ecn) -> EcnMode {
        match (self.mode, ace) {
            (EcnMode::Off, _) | (_, 0) => EcnMode::Off,
            (EcnMode::Accurate, 0b011) => EcnMode::Classic,
            // Other values come from successors of RFC 9768; section 3.1.3 says to answer them as
            // RFC 9768.
            (EcnMode::Accurate, _) => EcnMode::Accurate,
            // An ordinary sender sends no SYN that may be marked (RFC 3168 section 6.1.1); a sender
            // with DCTCP does.
            (EcnMode::Classic, ace) if ace & 0b011 == 0b011 => {
                let strange = ecn.capable() && self.wants != Wants::Dctcp;
                if strange { EcnMode::Off } else { EcnMode::Classic }
            }
            (EcnMode::Classic, _) => EcnMode::Off,
        }
    }

    /// Returns the mode after an answer to this end's SYN with these flags.
    pub(super) fn answered(self, ace: u8) -> EcnMode {
        match (self.mode, ace) {
            (EcnMode::Off, _) => EcnMode::Off,
            (EcnMode::Accurate, ace) if accecn::agrees(ace) => EcnMode::Accurate,
            // 0b101 comes from a peer with the nonce of RFC 3540, which also supports classic
            // marks.
            (_, 0b001 | 0b101) => EcnMode::Classic,
            _ => EcnMode::Off,
        }
    }

    /// Returns the code point of packets that may be marked in this mode, and true if every packet
    /// may be.
    pub(super) const fn label(self, mode: EcnMode) -> (Ecn, bool) {
        match (self.wants, mode) {
            (Wants::L4s, EcnMode::Accurate) => (Ecn::Ect1, true),
            (Wants::Dctcp, EcnMode::Classic) => (Ecn::Ect0, true),
            _ => (Ecn::Ect0, false),
        }
    }

    /// True if the echo follows each change of the marks (RFC 8257 section 3.2).
    pub(super) fn exact(self, mode: EcnMode) -> bool {
        self.wants == Wants::Dctcp && mode == EcnMode::Classic
    }

    /// Returns the code point of a SYN: an end with DCTCP lets its SYN be marked, as Linux does.
    pub(super) fn syn_label(self) -> Ecn {
        if self.wants == Wants::Dctcp { Ecn::Ect0 } else { Ecn::NotEct }
    }
}

/// Returns the flags of the answer to a SYN, as a counter: the agreed mode, and with accurate ECN
/// the code point with which the SYN arrived.
pub(super) const fn answer(mode: EcnMode, syn: Ecn) -> u8 {
    match mode {
        EcnMode::Off => 0,
        EcnMode::Classic => 0b001,
        EcnMode::Accurate => accecn::handshake(syn),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(mode: EcnMode) -> Wish {
        Wish { wants: Wants::Classic, mode }
    }

    #[test]
    fn an_offer_is_withdrawn_when_it_is_not_answered() {
        assert_eq!([1, 2].map(|n| wish(EcnMode::Classic).offer(n)), [0b011, 0]);
        assert_eq!([1, 2, 3].map(|n| wish(EcnMode::Accurate).offer(n)), [accecn::OFFER, accecn::OFFER, 0]);
        assert_eq!(wish(EcnMode::Off).offer(1), 0);
    }

    /// Two ends agree on the lesser of their wishes.
    #[test]
    fn both_ends_come_to_the_same_mode() {
        use EcnMode::{Accurate, Classic, Off};
        for a in [Off, Classic, Accurate] {
            for b in [Off, Classic, Accurate] {
                let answering = wish(b).offered(wish(a).offer(1), Ecn::NotEct);
                let opening = wish(a).answered(answer(answering, Ecn::NotEct));
                let least = match (a, b) {
                    (Off, _) | (_, Off) => Off,
                    (Accurate, Accurate) => Accurate,
                    _ => Classic,
                };
                assert_eq!((answering, opening), (least, least), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn a_syn_that_may_be_marked_is_taken_from_dctcp_only() {
        let dctcp = Wish { wants: Wants::Dctcp, mode: EcnMode::Classic };
        assert_eq!(dctcp.offered(0b011, dctcp.syn_label()), EcnMode::Classic);
        assert_eq!(wish(EcnMode::Classic).offered(0b011, dctcp.syn_label()), EcnMode::Off);
    }
}
