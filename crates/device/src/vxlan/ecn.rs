//! Congestion marks through a tunnel (RFC 6040, normal mode).

use txweir_core::Ecn;
use txweir_core::packet::headers::{self, Headers, L3};

/// Returns the ECN field of the datagram that carries a frame: that of the frame's IP header
/// (section 4.1), and Not-ECT for a frame that is not IP.
pub(super) fn outer(frame: &[u8]) -> Ecn {
    Headers::parse_ethernet(frame).ecn()
}

/// Brings the mark of a datagram into the frame that it carried (section 4.2). False if the frame
/// is to be dropped: the datagram is marked, and the frame's sender does not take marks.
#[must_use]
pub(super) fn arrived(frame: &mut [u8], outer: Ecn) -> bool {
    if outer == Ecn::NotEct {
        return true;
    }
    let inner = Headers::parse_ethernet(frame);
    let network = inner.network_header();
    if !matches!(network.l3, L3::Ipv4 | L3::Ipv6) {
        return true;
    }
    match combined(inner.ecn(), outer) {
        Some(ecn) if ecn == inner.ecn() => true,
        Some(ecn) => {
            headers::set_ecn(frame, network, ecn);
            true
        }
        None => false,
    }
}

/// Returns the ECN field of a packet that leaves a tunnel; `None` for a drop (section 4.2, figure
/// 4).
const fn combined(inner: Ecn, outer: Ecn) -> Option<Ecn> {
    match (inner, outer) {
        (Ecn::NotEct, Ecn::Ce) => None,
        (Ecn::NotEct, _) => Some(Ecn::NotEct),
        (Ecn::Ect0 | Ecn::Ect1, Ecn::Ce) => Some(Ecn::Ce),
        (Ecn::Ect0, Ecn::Ect1) => Some(Ecn::Ect1),
        (inner, _) => Some(inner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Ecn::{Ce, Ect0, Ect1, NotEct};
    use txweir_core::packet::checksum::Sum;

    /// Figure 4 of RFC 6040: a row for each inner field, a column for each outer one.
    #[test]
    fn the_table_of_the_rfc() {
        let outer = [NotEct, Ect0, Ect1, Ce];
        let rows = [
            (NotEct, [Some(NotEct), Some(NotEct), Some(NotEct), None]),
            (Ect0, [Some(Ect0), Some(Ect0), Some(Ect1), Some(Ce)]),
            (Ect1, [Some(Ect1), Some(Ect1), Some(Ect1), Some(Ce)]),
            (Ce, [Some(Ce), Some(Ce), Some(Ce), Some(Ce)]),
        ];
        for (inner, results) in rows {
            assert_eq!(outer.map(|outer| combined(inner, outer)), results, "{inner:?}");
        }
    }

    /// An Ethernet frame of an IPv4 packet without payload, its header's checksum right.
    fn frame(ds: u8) -> Vec<u8> {
        let mut frame = vec![0; 14];
        frame[12] = 8;
        let mut ip = [0x45, ds, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let sum = Sum::default().bytes(&ip).checksum();
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        frame.extend(ip);
        frame
    }

    #[test]
    fn a_mark_comes_in_and_the_checksum_stays_right() {
        let mut marked = frame(0xb8 | Ect0 as u8);
        assert_eq!(outer(&marked), Ect0);
        assert!(arrived(&mut marked, Ce));
        assert_eq!(marked, frame(0xb8 | Ce as u8));
        let mut plain = frame(0);
        assert!(!arrived(&mut plain, Ce) && arrived(&mut plain, Ect0));
        assert_eq!(plain, frame(0));
        // A frame that is not IP has no mark, and passes.
        let mut arp = vec![0xff; 60];
        assert!(arrived(&mut arp, Ce) && arp == [0xff; 60] && outer(&arp) == NotEct);
    }
}
