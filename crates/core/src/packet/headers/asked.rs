//! Questions of qdiscs and filters to the headers of a packet.

use super::{End, Fragment, Headers, L3, L4};
use crate::packet::meta::Ecn;

impl Headers {
    /// True if nothing was missing, wrong or too deep: the pass ended because no more header was to
    /// come.
    pub const fn is_complete(&self) -> bool {
        matches!(self.end, End::Whole | End::Opaque)
    }

    /// Returns the differentiated services code point, 0..64 (RFC 2474); 0 for packets that are not
    /// IP.
    pub const fn dscp(&self) -> u8 {
        self.ds >> 2
    }

    /// Returns the ECN field (RFC 3168 section 5); `NotEct` for packets that are not IP.
    pub const fn ecn(&self) -> Ecn {
        Ecn::from_ds(self.ds)
    }

    /// Returns the ports of a transport that has ports. Of a datagram's fragments only the first
    /// has them.
    pub const fn ports(&self) -> Option<(u16, u16)> {
        match self.l4 {
            L4::Tcp | L4::Udp | L4::Sctp | L4::Dccp => Some((self.src_port, self.dst_port)),
            L4::None | L4::Icmp | L4::Icmpv6 => None,
        }
    }

    /// True for a TCP segment that carries control and no data: SYN, SYN-ACK, pure ACK (also one
    /// that carries SACK blocks, ECN echo or a window update), and the urgent notification without
    /// data.
    ///
    /// Such a segment may overtake data of its own connection: its sequence number is acceptable
    /// and its cumulative acknowledgement is repeated by later segments. FIN and RST may not, as
    /// they end the stream at a place in it; neither may a segment with payload (DragonFly BSD's
    /// rule for its priority sub-queue). A segment with neither SYN nor ACK belongs to no
    /// connection (RFC 9293 section 3.10.7.4). A keep-alive without data cannot be told from an ACK
    /// by its flags and counts as one. False for fragments and for segments whose header was not
    /// read whole.
    pub const fn is_tcp_control(&self) -> bool {
        use super::tcp_flag::{ACK, FIN, RST, SYN};
        matches!((self.l4, self.fragment, self.end), (L4::Tcp, Fragment::Whole, End::Whole))
            && self.payload_len == 0
            && self.tcp_flags & (FIN | RST) == 0
            && self.tcp_flags & (SYN | ACK) != 0
    }

    /// Returns the priority that Linux gives to a forwarded IPv4 packet from its TOS field, see
    /// `tos_priority`; 0 for all other packets, IPv6 included.
    pub const fn tos_priority(&self) -> u32 {
        match self.l3 {
            L3::Ipv4 => tos_priority(self.ds),
            _ => 0,
        }
    }
}

/// Returns the Linux priority of an IPv4 TOS field by its four bits of RFC 1349: 0 best effort, 2
/// bulk, 4 interactive bulk, 6 interactive (tc-prio(8)).
pub const fn tos_priority(tos: u8) -> u32 {
    const PRIORITY: [u32; 16] = [0, 0, 0, 0, 2, 2, 2, 2, 6, 6, 6, 6, 4, 4, 4, 4];
    PRIORITY[(tos >> 1 & 15) as usize]
}

#[cfg(test)]
mod tests {
    use super::super::End;
    use super::super::tcp_flag::{ACK, CWR, ECE, FIN, PSH, RST, SYN, URG};
    use super::*;

    fn tcp(payload_len: u32, tcp_flags: u8) -> Headers {
        Headers { l4: L4::Tcp, end: End::Whole, payload_len, tcp_flags, ..Headers::EMPTY }
    }

    #[test]
    fn which_segments_are_control() {
        let control = |flags| tcp(0, flags).is_tcp_control();
        for flags in [
            SYN,
            SYN | ECE | CWR, // ECN set-up
            SYN | ACK,
            SYN | ACK | ECE,
            ACK, // also duplicates with SACK, window updates
            ACK | ECE,
            ACK | CWR,
            ACK | PSH,
            ACK | URG, // urgent notification without data
        ] {
            assert!(control(flags), "{flags:#x}");
        }
        for flags in [FIN, FIN | ACK, RST, RST | ACK, SYN | FIN, SYN | RST, FIN | PSH | URG, 0, PSH, URG] {
            assert!(!control(flags), "{flags:#x}");
        }
        // No segment with data is control, down to the one byte of a window probe or a keep-alive.
        assert!(
            (0..=255).all(|flags| [1, 2, 1448, u32::MAX].iter().all(|&n| !tcp(n, flags).is_tcp_control()))
        );
        // Compares all 256 combinations without data with the rule in words.
        for flags in 0..=255u8 {
            let (fin, syn, rst, ack) = (flags & 1 > 0, flags & 2 > 0, flags & 4 > 0, flags & 16 > 0);
            assert_eq!(control(flags), (syn || ack) && !fin && !rst, "{flags:#x}");
        }
        for l4 in [L4::None, L4::Udp, L4::Icmp, L4::Icmpv6, L4::Sctp, L4::Dccp] {
            assert!(!Headers { l4, ..tcp(0, ACK) }.is_tcp_control());
        }
        assert!(!Headers { fragment: Fragment::First, ..tcp(0, ACK) }.is_tcp_control());
        assert!(!Headers { end: End::Truncated, ..tcp(0, ACK) }.is_tcp_control());
    }

    #[test]
    fn priority_of_every_tos() {
        // TOS field (RFC 1349) to priority, the 16 rows of tc-prio(8).
        let rows = [
            (0x00, 0),
            (0x02, 0),
            (0x04, 0),
            (0x06, 0),
            (0x08, 2),
            (0x0a, 2),
            (0x0c, 2),
            (0x0e, 2),
            (0x10, 6),
            (0x12, 6),
            (0x14, 6),
            (0x16, 6),
            (0x18, 4),
            (0x1a, 4),
            (0x1c, 4),
            (0x1e, 4),
        ];
        for (tos, priority) in rows {
            for around in [0x00, 0x01, 0x20, 0xc0, 0xe1] {
                let h = Headers { l3: L3::Ipv4, ds: tos | around, ..Headers::EMPTY };
                assert_eq!(h.tos_priority(), priority, "{tos:#x}");
                assert_eq!(Headers { l3: L3::Ipv6, ..h }.tos_priority(), 0);
            }
        }
    }

    #[test]
    fn ds_field_splits_into_dscp_and_ecn() {
        let h = |ds| Headers { ds, ..Headers::EMPTY };
        assert_eq!((h(0xb9).dscp(), h(0xb9).ecn()), (46, Ecn::Ect1));
        assert_eq!(
            [0xfc, 0xfd, 0xfe, 0xff].map(|ds| h(ds).ecn()),
            [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce]
        );
    }
}
