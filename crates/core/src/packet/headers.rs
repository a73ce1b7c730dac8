//! One pass over the bytes of a packet: link header, VLAN tags, ARP, IPv4 or IPv6 with its
//! extension headers, and the transport header, into `Headers`, a small plain value.
//!
//! The pass is total. It never panics and never reads beyond the bytes, whatever they are. Where it
//! has to stop, it keeps the fields that were certain and gives the reason in `Headers::end`.
//! Invariants:
//!
//! - every offset that is reported, and `header_len`, is at most the number of bytes given;
//! - a field of a cut packet equals that of the whole packet, or is empty (zero, `None`), but
//!   for the protocol of an 802.3 frame that ends with its length: that is 802.2;
//! - every walk is bounded: `MAX_VLAN_TAGS` tags, `MAX_EXTENSIONS` extension headers.
//!
//! It reads for scheduling, not for reception: checksums are not verified, and tunnels (IP in IP,
//! GRE, ESP) are not entered, so that a tunnel is one flow.
//!
//! Sources: IEEE 802.1Q; ARP RFC 826; IPv4 RFC 791; IPv6 RFC 8200, its jumbograms RFC 2675 and
//! atomic fragments RFC 6946; AH RFC 4302; TCP RFC 9293; UDP RFC 768; ICMP RFC 792 and RFC 4443;
//! SCTP RFC 9260; DCCP RFC 4340; the DS and ECN fields RFC 2474 and RFC 3168.

mod asked;
mod codes;
mod edit;

pub use crate::packet::meta::Ecn;
pub use asked::tos_priority;
pub use codes::{ethertype, protocol, tcp_flag};
pub use edit::{clear_dscp, set_ce, set_ecn};

/// VLAN tags walked through. 802.1ad needs two; eight leave room for providers that stack their
/// own, and bound the work on a frame made of tags.
pub const MAX_VLAN_TAGS: usize = 8;

/// Extension headers walked through. RFC 8200 section 4.1 has a sender write each at most once,
/// destination options twice: seven; eight leave room for one more. The mobility header ends the
/// walk, as in Linux: nothing follows it (RFC 6275 section 6.1.1).
pub const MAX_EXTENSIONS: usize = 8;

/// Bytes of an Ethernet header without tags.
const ETHERNET: usize = 14;
/// Bytes of a VLAN tag.
const TAG: usize = 4;
/// Least ethertype: a smaller number in its place is the length of an 802.3 frame.
const TYPE_MIN: u16 = 0x0600;
/// Bytes of an IPv4 header without options.
const IPV4: usize = 20;
/// Bytes of an IPv6 header without extensions.
const IPV6: usize = 40;
/// The longest extension header: a length field of 255, in units of 8 bytes, not counting the first
/// 8.
const LONGEST_EXTENSION: usize = 256 * 8;
/// The longest transport header: a DCCP data offset of 255 words.
const LONGEST_TRANSPORT: usize = 255 * 4;

const _: () = assert!(
    ETHERNET + TAG * MAX_VLAN_TAGS + IPV6 + LONGEST_EXTENSION * MAX_EXTENSIONS + LONGEST_TRANSPORT
        <= u16::MAX as usize,
    "every offset that the walk can reach fits 16 bits"
);

/// Network layer of a packet, known once its fixed header has been read whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum L3 {
    /// Another network protocol, or its header could not be read.
    #[default]
    None,
    /// ARP.
    Arp,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// Transport layer of a packet, known once its ports (ICMP: type, code and checksum) have been
/// read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum L4 {
    /// Another protocol, a later fragment, or the header could not be read.
    #[default]
    None,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP over IPv4.
    Icmp,
    /// ICMPv6 over IPv6.
    Icmpv6,
    /// SCTP.
    Sctp,
    /// DCCP.
    Dccp,
}

/// Part of a datagram that a packet is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Fragment {
    /// The whole datagram, as far as was read. An IPv6 packet whose fragment header has offset 0
    /// and no more fragments to come is whole too (an atomic fragment, RFC 6946).
    #[default]
    Whole,
    /// The first fragment: it has the transport header.
    First,
    /// A later fragment: it has no transport header, whatever its bytes look like.
    Later,
}

/// State in which the pass ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum End {
    /// All headers were understood: up to the end of the transport header, of ARP, or of the
    /// headers that a later fragment has.
    Whole,
    /// At a protocol that the pass does not know: everything before it was understood.
    Opaque,
    /// The bytes, or the length that the IP header declares, ended inside a header.
    #[default]
    Truncated,
    /// A field contradicts its protocol: a wrong version, a header shorter than its fixed part,
    /// hop-by-hop options that are not first, or a fragment header inside a first fragment.
    Malformed,
    /// More than `MAX_VLAN_TAGS` tags or `MAX_EXTENSIONS` extension headers.
    TooDeep,
}

/// Kind and place of a packet's network header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// Its kind.
    pub l3: L3,
    /// Its offset, if it was found.
    pub offset: Option<u16>,
}

/// Fields read from the bytes of one packet. Fields that do not apply are zero or `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Source address; IPv4, and ARP's sender, as `::ffff:a.b.c.d` (IPv4-mapped, RFC 4291 section
    /// 2.5.5.2).
    pub src: [u8; 16],
    /// Destination address; IPv4, and ARP's target, as `::ffff:a.b.c.d`.
    pub dst: [u8; 16],
    /// IPv6 flow label, 20 bits.
    pub flow_label: u32,
    /// Bytes of the IP packet, its header included, as the header declares; the given packet may be
    /// shorter (cut) or longer (Ethernet padding). If the field is 0 because the length does not
    /// fit it (jumbograms, super-packets beyond 64 KiB), all present bytes.
    pub ip_len: u32,
    /// Payload bytes behind the transport header, of this fragment, as the IP header declares: link
    /// padding does not count, and a cut packet still has its full payload here. 0 unless `end` is
    /// `Whole`.
    pub payload_len: u32,
    /// Ethertype that the link header carries: of the outermost tag if there are tags, else the
    /// same as `ethertype`. From `parse_ip`, the ethertype of the IP version.
    pub link_protocol: u16,
    /// Ethertype behind all tags read. A frame without tags that has an 802.3 length there has the
    /// protocol by which Linux knows it: 4 (`802_2`), or 1 (`802_3`) if two bytes of 0xff follow.
    /// Behind tags, values below 0x0600 are a length.
    pub ethertype: u16,
    /// Tag control information of the outermost VLAN tag: priority (3 bits), DEI, VLAN identifier
    /// (12 bits).
    pub vlan: Option<u16>,
    /// Tag control information of the tag behind the outermost.
    pub inner_vlan: Option<u16>,
    /// Offset of the network header: `link_len` and all tags.
    pub l3_offset: Option<u16>,
    /// Offset behind the IP header and its extensions: of the transport header if `l4` is known.
    /// None in later fragments.
    pub l4_offset: Option<u16>,
    /// Source port. ICMP: type in the high byte, code in the low. ARP: the operation.
    pub src_port: u16,
    /// Destination port. ICMP: the identifier of echo and timestamp messages, else 0.
    pub dst_port: u16,
    /// All bytes up to the end of the transport header, which segmentation repeats per segment; 0
    /// unless the transport header was read whole.
    pub header_len: u16,
    /// Bytes of link header without tags: 14 for Ethernet, 0 for packets that start with IP.
    pub link_len: u8,
    /// DS field: IPv4 TOS, IPv6 traffic class.
    pub ds: u8,
    /// IPv4 time to live, IPv6 hop limit.
    pub ttl: u8,
    /// IP protocol of the upper layer. Where the walk stopped early or in a later fragment, the
    /// number of the header at which it stopped, which may be an extension header's.
    pub protocol: u8,
    /// TCP control bits, see `tcp_flag`.
    pub tcp_flags: u8,
    /// Network layer.
    pub l3: L3,
    /// Transport layer.
    pub l4: L4,
    /// Part of the datagram that the packet is.
    pub fragment: Fragment,
    /// State in which the pass ended.
    pub end: End,
}

const _: () = assert!(size_of::<Headers>() <= 96);

impl Default for Headers {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl Headers {
    /// Returns the kind and place of the network header, by which its DS field is changed
    /// ([`set_ce`], [`clear_dscp`]).
    #[must_use]
    pub const fn network_header(&self) -> Network {
        Network { l3: self.l3, offset: self.l3_offset }
    }

    /// Headers of no bytes at all.
    pub const EMPTY: Self = Self {
        src: [0; 16],
        dst: [0; 16],
        flow_label: 0,
        ip_len: 0,
        payload_len: 0,
        link_protocol: 0,
        ethertype: 0,
        vlan: None,
        inner_vlan: None,
        l3_offset: None,
        l4_offset: None,
        src_port: 0,
        dst_port: 0,
        header_len: 0,
        link_len: 0,
        ds: 0,
        ttl: 0,
        protocol: 0,
        tcp_flags: 0,
        l3: L3::None,
        l4: L4::None,
        fragment: Fragment::Whole,
        end: End::Truncated,
    };

    /// Reads a packet that starts with an Ethernet header (no preamble, no frame check sequence
    /// needed).
    ///
    /// ```
    /// use txweir_core::packet::headers::{End, Headers};
    /// let h = Headers::parse_ethernet(&[0; 60]);
    /// assert_eq!((h.l3_offset, h.end), (Some(14), End::Opaque));
    /// ```
    pub fn parse_ethernet(frame: &[u8]) -> Self {
        let mut h = Self::EMPTY;
        h.read_ethernet(frame);
        h
    }

    /// Reads an Ethernet frame as [`parse_ethernet`](Self::parse_ethernet) does, in the place of
    /// other headers.
    pub fn read_ethernet(&mut self, frame: &[u8]) {
        *self = Self::EMPTY;
        self.end = self.ethernet(frame);
    }

    /// Reads a packet that starts with its IP header: TUN, and smoltcp's IP medium.
    pub fn parse_ip(packet: &[u8]) -> Self {
        let mut h = Self::EMPTY;
        h.l3_offset = Some(0);
        h.end = match packet.first().map(|b| b >> 4) {
            None => End::Truncated,
            Some(4) => h.network(packet, 0, ethertype::IPV4),
            Some(6) => h.network(packet, 0, ethertype::IPV6),
            Some(_) => End::Malformed,
        };
        h.link_protocol = h.ethertype;
        h
    }

    /// Reads a packet without a link header, of a known protocol: an ethertype, or 0 for an IP
    /// packet of either version.
    pub(crate) fn parse_bare(kind: u16, packet: &[u8]) -> Self {
        match kind {
            0 => Self::parse_ip(packet),
            ethertype::ETHERNET => Self::parse_ethernet(packet),
            _ => {
                let mut h = Self { l3_offset: Some(0), link_protocol: kind, ..Self::EMPTY };
                h.end = h.network(packet, 0, kind);
                h
            }
        }
    }

    /// Reads the bytes of these headers again after a change in place. The place of the network
    /// header stays, and so do the protocols, whatever the link header says now.
    pub(crate) fn again(&self, frame: &[u8]) -> Self {
        let Self { link_protocol, ethertype, l3_offset, link_len, .. } = *self;
        let tag = |at: usize| chunk::<2>(frame, at).map(|[high, low]| be16(*high, *low));
        let mut h = Self { l3_offset, link_len, ..Self::EMPTY };
        h.vlan = self.vlan.and_then(|_| tag(ETHERNET));
        h.inner_vlan = self.inner_vlan.and_then(|_| tag(ETHERNET + TAG));
        h.end = match l3_offset {
            Some(at) => h.network(frame, at.into(), ethertype),
            None => self.end,
        };
        (h.link_protocol, h.ethertype) = (link_protocol, ethertype);
        h
    }

    fn ethernet(&mut self, frame: &[u8]) -> End {
        let Some(link) = chunk::<ETHERNET>(frame, 0) else { return End::Truncated };
        self.link_len = ETHERNET as u8;
        let mut kind = be16(link[12], link[13]);
        self.link_protocol = kind;
        let mut at = ETHERNET;
        for depth in 0..=MAX_VLAN_TAGS {
            if kind != ethertype::VLAN && kind != ethertype::SERVICE_VLAN {
                self.l3_offset = Some(offset(at));
                return self.network(frame, at, kind);
            }
            self.ethertype = kind;
            if depth == MAX_VLAN_TAGS {
                break;
            }
            let Some(&[t0, t1, e0, e1]) = chunk::<TAG>(frame, at) else { return End::Truncated };
            match depth {
                0 => self.vlan = Some(be16(t0, t1)),
                1 => self.inner_vlan = Some(be16(t0, t1)),
                _ => {}
            }
            kind = be16(e0, e1);
            at += TAG;
        }
        End::TooDeep
    }

    fn network(&mut self, frame: &[u8], at: usize, kind: u16) -> End {
        self.ethertype = kind;
        match kind {
            ethertype::IPV4 => self.ipv4(frame, at),
            ethertype::IPV6 => self.ipv6(frame, at),
            ethertype::ARP => self.arp(frame, at),
            _ => self.unknown(frame, at, kind),
        }
    }

    /// Ends the pass at a network protocol that it does not know.
    #[cold]
    fn unknown(&mut self, frame: &[u8], at: usize, kind: u16) -> End {
        // Without a tag the network header is directly behind the link header.
        if at == ETHERNET && kind < TYPE_MIN {
            let raw = chunk::<2>(frame, at) == Some(&[0xff; 2]);
            self.ethertype = if raw { ethertype::RAW_802_3 } else { ethertype::LLC };
            self.link_protocol = self.ethertype;
        }
        End::Opaque
    }

    fn arp(&mut self, frame: &[u8], at: usize) -> End {
        let Some(fixed) = chunk::<8>(frame, at) else { return End::Truncated };
        self.l3 = L3::Arp;
        self.src_port = be16(fixed[6], fixed[7]);
        // Addresses are read from the only combination in use: hardware Ethernet (1), protocol
        // IPv4, and their lengths.
        if fixed[..6] != [0, 1, 8, 0, 6, 4] {
            return End::Opaque;
        }
        let Some(b) = chunk::<28>(frame, at) else { return End::Truncated };
        self.src = mapped([b[14], b[15], b[16], b[17]]);
        self.dst = mapped([b[24], b[25], b[26], b[27]]);
        End::Whole
    }

    fn ipv4(&mut self, frame: &[u8], at: usize) -> End {
        let Some(ip) = chunk::<IPV4>(frame, at) else { return End::Truncated };
        if ip[0] >> 4 != 4 {
            return End::Malformed;
        }
        self.l3 = L3::Ipv4;
        self.ds = ip[1];
        self.ttl = ip[8];
        self.src = mapped([ip[12], ip[13], ip[14], ip[15]]);
        self.dst = mapped([ip[16], ip[17], ip[18], ip[19]]);
        // RFC 791 section 3.1: bit 13 says more fragments follow, the low 13 bits are the offset.
        let word = be16(ip[6], ip[7]);
        self.fragment = fragment(word & 0x1fff != 0, word & 0x2000 != 0);
        let header = usize::from(ip[0] & 15) * 4;
        let declared = usize::from(be16(ip[2], ip[3]));
        let packet = self.declare(frame, at, declared, declared == 0);
        if header < IPV4 || (self.ip_len as usize) < header {
            self.protocol = ip[9];
            return End::Malformed;
        }
        self.upper(packet, at + header, ip[9])
    }

    fn ipv6(&mut self, frame: &[u8], at: usize) -> End {
        let Some(ip) = chunk::<IPV6>(frame, at) else { return End::Truncated };
        if ip[0] >> 4 != 6 {
            return End::Malformed;
        }
        self.l3 = L3::Ipv6;
        self.ds = ip[0] << 4 | ip[1] >> 4;
        self.flow_label = u32::from_be_bytes([0, ip[1] & 15, ip[2], ip[3]]);
        self.ttl = ip[7];
        self.src.copy_from_slice(&ip[8..24]);
        self.dst.copy_from_slice(&ip[24..40]);
        let payload = usize::from(be16(ip[4], ip[5]));
        let packet = self.declare(frame, at, IPV6 + payload, payload == 0);
        self.upper(packet, at + IPV6, ip[6])
    }

    /// Notes the length that the IP header at `at` declares, and returns `frame` without the bytes
    /// beyond it.
    ///
    /// A length field of 0 is believed unless the present bytes do not fit the field: then they
    /// count (RFC 2675 section 3; Linux writes 0 in super-packets beyond 64 KiB, IPv4 too).
    fn declare<'a>(&mut self, frame: &'a [u8], at: usize, declared: usize, zero: bool) -> &'a [u8] {
        let present = frame.len().saturating_sub(at);
        let len = if zero && present > declared + usize::from(u16::MAX) { present } else { declared };
        self.ip_len = u32::try_from(len).unwrap_or(u32::MAX);
        frame.get(..at.saturating_add(len)).unwrap_or(frame)
    }

    /// Walks the extension headers from `at` on; `frame` ends where the IP packet ends.
    fn upper(&mut self, frame: &[u8], mut at: usize, mut next: u8) -> End {
        for depth in 0..=MAX_EXTENSIONS {
            self.protocol = next;
            if self.fragment == Fragment::Later {
                return if at <= frame.len() { End::Whole } else { End::Truncated };
            }
            if !is_extension(next, self.l3) {
                return self.transport(frame, at);
            }
            if depth == MAX_EXTENSIONS {
                break;
            }
            // RFC 8200 section 4.1: hop-by-hop options come first or not at all. A fragment holds
            // no further fragment header: a packet is not a first and another piece at once.
            if (next == protocol::HOP_BY_HOP && depth > 0)
                || (next == protocol::FRAGMENT && self.fragment == Fragment::First)
            {
                return End::Malformed;
            }
            let Some(&[following, len, o0, o1, ..]) = chunk::<8>(frame, at) else { return End::Truncated };
            at += match next {
                protocol::AH => (usize::from(len) + 2) * 4, // RFC 4302 section 2.2
                protocol::FRAGMENT => {
                    let word = be16(o0, o1); // RFC 8200 section 4.5: 13 bits of offset, 2 reserved, more
                    self.fragment = fragment(word >> 3 != 0, word & 1 != 0);
                    8
                }
                _ => (usize::from(len) + 1) * 8,
            };
            next = following;
        }
        End::TooDeep
    }

    fn transport(&mut self, frame: &[u8], at: usize) -> End {
        if at > frame.len() {
            return End::Truncated;
        }
        self.l4_offset = Some(offset(at));
        let (l4, fixed) = match (self.protocol, self.l3) {
            (protocol::TCP, _) => (L4::Tcp, 20),
            (protocol::UDP, _) => (L4::Udp, 8),
            (protocol::ICMP, L3::Ipv4) => (L4::Icmp, 8),
            (protocol::ICMPV6, L3::Ipv6) => (L4::Icmpv6, 8),
            (protocol::SCTP, _) => (L4::Sctp, 12),
            (protocol::DCCP, _) => (L4::Dccp, 12),
            _ => return End::Opaque,
        };
        let Some(&[s0, s1, d0, d1]) = chunk::<4>(frame, at) else { return End::Truncated };
        self.l4 = l4;
        self.src_port = be16(s0, s1);
        if !matches!(l4, L4::Icmp | L4::Icmpv6) {
            self.dst_port = be16(d0, d1);
        }
        let Some(header) = frame.get(at..at + fixed) else { return End::Truncated };
        let size = match l4 {
            L4::Tcp => {
                self.tcp_flags = header[13];
                usize::from(header[12] >> 4) * 4
            }
            L4::Dccp => usize::from(header[4]) * 4, // RFC 4340 section 5.1: data offset in words
            _ => fixed,
        };
        if has_identifier(l4, s0) {
            self.dst_port = be16(header[4], header[5]);
        }
        if size < fixed {
            return End::Malformed;
        }
        if at + size > frame.len() {
            return End::Truncated;
        }
        self.header_len = offset(at + size);
        let network = self.l3_offset.map_or(0, usize::from);
        let before = u32::try_from(at + size - network).unwrap_or(u32::MAX);
        self.payload_len = self.ip_len.saturating_sub(before);
        End::Whole
    }
}

const fn is_extension(next: u8, l3: L3) -> bool {
    use protocol::{AH, DESTINATION, FRAGMENT, HOP_BY_HOP, ROUTING};
    match next {
        AH => true,
        HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION => matches!(l3, L3::Ipv6),
        _ => false,
    }
}

/// True for ICMP types that carry an identifier: echo (RFC 792, RFC 4443) and timestamp (RFC 792).
const fn has_identifier(l4: L4, icmp_type: u8) -> bool {
    match l4 {
        L4::Icmp => matches!(icmp_type, 0 | 8 | 13 | 14),
        L4::Icmpv6 => matches!(icmp_type, 128 | 129),
        _ => false,
    }
}

const fn fragment(offset: bool, more: bool) -> Fragment {
    match (offset, more) {
        (true, _) => Fragment::Later,
        (false, true) => Fragment::First,
        (false, false) => Fragment::Whole,
    }
}

/// Returns the `N` bytes at `at`, if they are all there.
fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
    bytes.get(at..)?.first_chunk()
}

const fn be16(high: u8, low: u8) -> u16 {
    u16::from_be_bytes([high, low])
}

/// Returns an offset of the walk as `u16`; all offsets fit (asserted beside the bounds).
fn offset(at: usize) -> u16 {
    u16::try_from(at).unwrap_or(u16::MAX)
}

const fn mapped(a: [u8; 4]) -> [u8; 16] {
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a[0], a[1], a[2], a[3]]
}
