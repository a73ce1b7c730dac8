//! Code points of Ethernet, IP and TCP.

/// Ethertypes that the pass knows (IANA "IEEE 802 Numbers").
pub mod ethertype {
    /// An 802.3 frame without a header of 802.2, as of IPX; no ethertype, but Linux's number.
    pub(crate) const RAW_802_3: u16 = 0x0001;
    /// An 802.3 frame with a header of 802.2 (LLC); no ethertype, but Linux's number.
    pub(crate) const LLC: u16 = 0x0004;
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP.
    pub const ARP: u16 = 0x0806;
    /// Customer VLAN tag (802.1Q).
    pub const VLAN: u16 = 0x8100;
    /// An Ethernet frame behind another header (transparent Ethernet bridging).
    pub const ETHERNET: u16 = 0x6558;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// MPLS (RFC 3032).
    pub const MPLS: u16 = 0x8847;
    /// MPLS with an upstream-assigned label (RFC 5332), at first multicast.
    pub const MPLS_MULTICAST: u16 = 0x8848;
    /// Service VLAN tag (802.1ad).
    pub const SERVICE_VLAN: u16 = 0x88a8;
}

/// IP protocol numbers that the pass knows (IANA "Protocol Numbers").
pub mod protocol {
    /// IPv6 hop-by-hop options.
    pub(crate) const HOP_BY_HOP: u8 = 0;
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// DCCP.
    pub const DCCP: u8 = 33;
    /// IPv6 routing header.
    pub const ROUTING: u8 = 43;
    /// IPv6 fragment header.
    pub(crate) const FRAGMENT: u8 = 44;
    /// Authentication header.
    pub const AH: u8 = 51;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
    /// IPv6 destination options.
    pub(crate) const DESTINATION: u8 = 60;
    /// SCTP.
    pub const SCTP: u8 = 132;
}

/// TCP control bits (RFC 9293 section 3.1), as in `Headers::tcp_flags`.
pub mod tcp_flag {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement field is significant.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer is significant.
    pub const URG: u8 = 0x20;
    /// ECN echo (RFC 3168).
    pub const ECE: u8 = 0x40;
    /// Congestion window reduced (RFC 3168).
    pub const CWR: u8 = 0x80;
}
