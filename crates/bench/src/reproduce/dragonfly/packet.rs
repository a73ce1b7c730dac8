//! A packet on the way: a segment of a connection, with the length and the marks that a queue sees.

use txweir_core::Meta;
use txweir_transport::{Flags, Segment};

/// Payload of a full segment, with timestamps.
pub(super) const MSS: u32 = 1448;
/// Ethernet, IPv4 and TCP with timestamps.
pub(super) const HEADERS: u32 = 66;
/// The Ethernet, IPv4 and TCP headers without options, of them.
const PLAIN: u32 = 54;
/// Options of a SYN: segment size, window scale, selective acknowledgements, timestamps.
const SYN: u32 = 20;

#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    /// The place of its connection, and the number of the connection among those that have had this
    /// place.
    pub(super) place: u32,
    pub(super) number: u32,
    pub(super) seg: Segment,
}

impl Packet {
    pub(super) const fn is_data(&self) -> bool {
        self.seg.len > 0
    }
    fn headers(&self) -> u32 {
        let s = &self.seg;
        if s.syn.is_some() {
            return PLAIN + SYN;
        }
        let blocks = match s.sacks.blocks().len() as u32 {
            0 => 0,
            n => 4 + 8 * n,
        };
        PLAIN + blocks + if s.stamps.is_some() { HEADERS - PLAIN } else { 0 }
    }
    /// True if `net.inet.tcp.prio_synack` marks it: SYN, SYN-ACK or pure ACK, neither FIN nor RST
    /// (DragonFly BSD, 4cc8caef).
    const fn is_control(&self) -> bool {
        let flags = self.seg.flags;
        !self.is_data() && !flags.has(Flags::FIN) && !flags.has(Flags::RST)
    }
    /// Returns the metadata that a queue sees; `prio` is true if that switch is on.
    pub(super) fn meta(&self, prio: bool) -> Meta {
        let headers = self.headers();
        let mut m = Meta::new(headers + self.seg.len);
        if self.is_data() {
            // Headers are at most 54 bytes and 40 of options.
            m = m.gso(headers as u16, MSS as u16);
        }
        m.tcp_control = prio && self.is_control();
        m
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use txweir_transport::{Sacks, SynOptions};

    /// A SYN has 20 bytes of options, and each block of a selective acknowledgement 8; data and FIN
    /// are not marked, a SYN and a pure ACK are, and only with the switch.
    #[test]
    fn lengths_and_marks_are_those_of_the_header() {
        let stamps = Some((1, 1));
        let plain = Segment { flags: Flags::ACK, stamps, ..Segment::default() };
        let mut sacks = Sacks::default();
        sacks.push(10, 20, 3);
        sacks.push(30, 40, 3);
        let syn = Some(SynOptions::default());
        let cases = [
            (plain, 66, true),
            (Segment { sacks, ..plain }, 86, true),
            (Segment { syn, flags: Flags::SYN, ..plain }, 74, true),
            (Segment { flags: Flags::ACK.with(Flags::FIN), ..plain }, 66, false),
            (Segment { flags: Flags::RST, ..plain }, 66, false),
            (Segment { len: 1, ..plain }, 67, false),
            (Segment { len: 4 * MSS, gso: MSS as u16, ..plain }, HEADERS + 4 * MSS, false),
        ];
        for (seg, len, control) in cases {
            let p = Packet { place: 0, number: 0, seg };
            assert_eq!((p.meta(true).len, p.meta(true).tcp_control), (len, control), "{seg:?}");
            assert!(!p.meta(false).tcp_control);
        }
    }
}
