//! Keyed flow hash over `Headers`: five-tuple, symmetric five-tuple, host pair, source host,
//! destination host.
//!
//! SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012; the 1-3
//! variant is the authors' own choice for hash tables), on 13 bytes for an IPv4 five-tuple and 37
//! for IPv6. The hash is a pseudo-random function, not one of the cheaper keyed functions, because
//! a sender of packets through a queue learns from its delays which of its flows share a bucket.
//! With a universal hash (multilinear, Toeplitz, polynomial) one observed collision reveals a
//! difference that collides everywhere; multiply-and-fold mixers have inputs that cancel. Under a
//! PRF every collision has to be searched anew, and none helps to find the next.
//!
//! Fragments hash by their two addresses only. Later fragments have no ports, and in IPv6 may name
//! another protocol than the first (RFC 8200 section 4.5), but all pieces of a datagram must be in
//! one flow. The flow label of IPv6 (RFC 6437), where a sender gives one, stands for the ports.

use crate::base::rng::Rng;
use crate::packet::headers::{Fragment, Headers, L3, L4};

/// A flow hash with its key. The same seed gives the same hashes on every platform and in every
/// version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowHasher {
    k0: u64,
    k1: u64,
}

impl FlowHasher {
    /// Returns a hash keyed by `seed`, which spreads over SipHash's 128 bits of key. Where
    /// untrusted hosts send packets, the seed must come from the operating system's random source
    /// and stay secret; in virtual time the scenario gives it.
    pub const fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        Self { k0: rng.next_u64(), k1: rng.next_u64() }
    }

    /// Returns a seed for random draws. The seed, and so every number that is drawn from it, does
    /// not reveal the key: a sender who learns the draws from its losses and delays still cannot
    /// compute the flows that share a bucket.
    pub const fn draws(&self) -> u64 {
        // No hash of headers has a message of five bytes.
        self.start().finish_wide(5, u64::from_le_bytes(*b"draws\0\0\0"))
    }

    /// Hashes addresses, protocol and ports: one direction of one conversation. An IPv6 packet with
    /// a flow label hashes by the label in place of the ports (RFC 6437). The messages of ICMP
    /// between two hosts are one flow. Packets that are neither IP nor ARP hash by their ethertype,
    /// in every variant.
    pub fn five_tuple(&self, h: &Headers) -> u32 {
        let tail = match (h.l3, h.flow_label) {
            (L3::Ipv6, label @ 1..) => labelled(label, h.protocol),
            _ => {
                let (src_port, dst_port, protocol) = upper(h);
                tail(src_port, dst_port, protocol)
            }
        };
        self.tuple(h, &h.src, &h.dst, tail)
    }

    /// Like `five_tuple`, but both directions of a conversation hash alike: each has a flow label
    /// of its own, so that the ports count.
    pub fn symmetric(&self, h: &Headers) -> u32 {
        let (src_port, dst_port, protocol) = upper(h);
        // An address goes with its port: sorting the two separately would merge A:1 > B:2 with A:2
        // > B:1.
        let (a, b) = (u128::from_be_bytes(h.src), u128::from_be_bytes(h.dst));
        if (b, dst_port) < (a, src_port) {
            self.tuple(h, &h.dst, &h.src, tail(dst_port, src_port, protocol))
        } else {
            self.tuple(h, &h.src, &h.dst, tail(src_port, dst_port, protocol))
        }
    }

    /// Hashes both addresses, in order.
    pub fn host_pair(&self, h: &Headers) -> u32 {
        match h.l3 {
            L3::None => self.other(h),
            L3::Arp | L3::Ipv4 => self.start().word(v4_pair(&h.src, &h.dst)).finish(8, 0),
            L3::Ipv6 => self.start().address(&h.src).address(&h.dst).finish(32, 0),
        }
    }

    /// Hashes the source address.
    pub fn source(&self, h: &Headers) -> u32 {
        self.host(h, &h.src)
    }

    /// Hashes the destination address. A host has the same hash as a source and as a destination.
    pub fn destination(&self, h: &Headers) -> u32 {
        self.host(h, &h.dst)
    }

    fn tuple(&self, h: &Headers, a: &[u8; 16], b: &[u8; 16], tail: u64) -> u32 {
        match h.l3 {
            L3::None => self.other(h),
            L3::Arp | L3::Ipv4 => self.start().word(v4_pair(a, b)).finish(13, tail),
            L3::Ipv6 => self.start().address(a).address(b).finish(37, tail),
        }
    }

    fn host(&self, h: &Headers, a: &[u8; 16]) -> u32 {
        match h.l3 {
            L3::None => self.other(h),
            L3::Arp | L3::Ipv4 => self.start().finish(4, u64::from(v4(a))),
            L3::Ipv6 => self.start().address(a).finish(16, 0),
        }
    }

    fn other(&self, h: &Headers) -> u32 {
        self.start().finish(2, u64::from(h.ethertype))
    }

    /// Hashes any words, in order.
    #[inline]
    pub(crate) fn words(&self, words: impl Iterator<Item = u64>) -> u32 {
        let mut count = 0u8;
        let sip = words.fold(self.start(), |sip, word| {
            count = count.wrapping_add(8);
            sip.word(word)
        });
        sip.finish(count, 0)
    }

    const fn start(&self) -> Sip {
        Sip {
            v0: self.k0 ^ 0x736f_6d65_7073_6575,
            v1: self.k1 ^ 0x646f_7261_6e64_6f6d,
            v2: self.k0 ^ 0x6c79_6765_6e65_7261,
            v3: self.k1 ^ 0x7465_6462_7974_6573,
        }
    }
}

/// Maps a hash to `0..n` in proportion, without a division; 0 if `n` is 0 (Lemire, "Fast random
/// integer generation in an interval", 2019).
pub(crate) const fn reciprocal_scale(hash: u32, n: u32) -> u32 {
    ((hash as u64 * n as u64) >> 32) as u32 // below n
}

/// Returns ports and protocol, or zeros for fragments.
const fn upper(h: &Headers) -> (u16, u16, u8) {
    match (h.fragment, h.l4) {
        (Fragment::First | Fragment::Later, _) => (0, 0, 0),
        (Fragment::Whole, L4::None) => (0, 0, h.protocol),
        (Fragment::Whole, L4::Icmp | L4::Icmpv6) => (0, 0, h.protocol),
        (Fragment::Whole, _) => (h.src_port, h.dst_port, h.protocol),
    }
}

/// Returns the five bytes behind the addresses.
const fn tail(src_port: u16, dst_port: u16, protocol: u8) -> u64 {
    src_port as u64 | (dst_port as u64) << 16 | (protocol as u64) << 32
}

/// Returns the bytes behind the addresses for a packet with a flow label: the mark in the last byte
/// tells them from ports.
const fn labelled(label: u32, protocol: u8) -> u64 {
    label as u64 | (protocol as u64) << 32 | 0xff << 40
}

/// Returns the IPv4 address inside its mapped form.
const fn v4(a: &[u8; 16]) -> u32 {
    u32::from_le_bytes([a[12], a[13], a[14], a[15]])
}

const fn v4_pair(a: &[u8; 16], b: &[u8; 16]) -> u64 {
    v4(a) as u64 | (v4(b) as u64) << 32
}

/// State of SipHash-1-3 between words.
struct Sip {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
}

impl Sip {
    #[inline(always)]
    const fn round(mut self) -> Self {
        self.v0 = self.v0.wrapping_add(self.v1);
        self.v2 = self.v2.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(13) ^ self.v0;
        self.v3 = self.v3.rotate_left(16) ^ self.v2;
        self.v0 = self.v0.rotate_left(32).wrapping_add(self.v3);
        self.v2 = self.v2.wrapping_add(self.v1);
        self.v1 = self.v1.rotate_left(17) ^ self.v2;
        self.v3 = self.v3.rotate_left(21) ^ self.v0;
        self.v2 = self.v2.rotate_left(32);
        self
    }

    /// Absorbs eight bytes, as one little-endian word: one round.
    #[inline(always)]
    const fn word(mut self, m: u64) -> Self {
        self.v3 ^= m;
        let mut s = self.round();
        s.v0 ^= m;
        s
    }

    #[inline(always)]
    const fn address(self, a: &[u8; 16]) -> Self {
        let m = u128::from_le_bytes(*a);
        self.word(m as u64).word((m >> 64) as u64) // the two halves
    }

    /// Ends a message of `len` bytes, of which the last `len` % 8 are `tail`: three more rounds.
    #[inline(always)]
    const fn finish(self, len: u8, tail: u64) -> u32 {
        self.finish_wide(len, tail) as u32 // a PRF may be cut to any of its bits
    }

    #[inline(always)]
    const fn finish_wide(self, len: u8, tail: u64) -> u64 {
        let mut s = self.word((len as u64) << 56 | tail);
        s.v2 ^= 0xff;
        let s = s.round().round().round();
        s.v0 ^ s.v1 ^ s.v2 ^ s.v3
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::headers::End;
    use alloc::vec::Vec;

    /// Computes SipHash-c-d as the paper defines it, byte by byte: the model that the fast form
    /// must equal.
    fn sip_model(c: usize, d: usize, k0: u64, k1: u64, message: &[u8]) -> u64 {
        let mut v = [0x736f6d6570736575, 0x646f72616e646f6d, 0x6c7967656e657261, 0x7465646279746573];
        for (i, word) in v.iter_mut().enumerate() {
            *word ^= if i % 2 == 0 { k0 } else { k1 };
        }
        let round = |v: &mut [u64; 4]| {
            for (a, b, c, d, r, s) in [(0, 1, 2, 3, 13, 16), (2, 1, 0, 3, 17, 21)] {
                v[a] = v[a].wrapping_add(v[b]);
                v[b] = v[b].rotate_left(r) ^ v[a];
                v[a] = v[a].rotate_left(32);
                v[c] = v[c].wrapping_add(v[d]);
                v[d] = v[d].rotate_left(s) ^ v[c];
            }
        };
        let mut padded = message.to_vec();
        padded.resize(message.len() / 8 * 8 + 7, 0);
        padded.push(message.len() as u8);
        for bytes in padded.chunks(8) {
            let m = u64::from_le_bytes(bytes.try_into().unwrap());
            v[3] ^= m;
            (0..c).for_each(|_| round(&mut v));
            v[0] ^= m;
        }
        v[2] ^= 0xff;
        (0..d).for_each(|_| round(&mut v));
        v[0] ^ v[1] ^ v[2] ^ v[3]
    }

    /// Returns a whole TCP segment over IPv4.
    fn v4_flow(src: u32, src_port: u16, dst: u32, dst_port: u16) -> Headers {
        let mapped = |a: u32| (0xffff_0000_0000 | u128::from(a)).to_be_bytes();
        Headers {
            src: mapped(src),
            dst: mapped(dst),
            src_port,
            dst_port,
            protocol: 6,
            ethertype: 0x0800,
            l3: L3::Ipv4,
            l4: L4::Tcp,
            end: End::Whole,
            ..Headers::EMPTY
        }
    }

    fn v6_flow(src: u128, src_port: u16, dst: u128, dst_port: u16) -> Headers {
        Headers {
            src: src.to_be_bytes(),
            dst: dst.to_be_bytes(),
            l3: L3::Ipv6,
            ..v4_flow(0, src_port, 0, dst_port)
        }
    }

    type Variant = fn(&FlowHasher, &Headers) -> u32;
    const VARIANTS: [Variant; 5] = [
        FlowHasher::five_tuple,
        FlowHasher::symmetric,
        FlowHasher::host_pair,
        FlowHasher::source,
        FlowHasher::destination,
    ];

    #[test]
    fn is_siphash_1_3_of_the_tuple() {
        // First the model itself is checked against the paper's appendix: SipHash-2-4 of 00..0e
        // under the key 00..0f.
        let message: Vec<u8> = (0..15).collect();
        assert_eq!(
            sip_model(2, 4, 0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908, &message),
            0xa129_ca61_49be_45e5
        );
        let f = FlowHasher::new(1);
        let model = |message: &[u8]| sip_model(1, 3, f.k0, f.k1, message) as u32;
        let (a, b) = ([192, 0, 2, 1], [198, 51, 100, 2]);
        let ports = [0xde, 0xc0, 80, 0, 6]; // little-endian
        let h = v4_flow(0xc000_0201, 0xc0de, 0xc633_6402, 80);
        assert_eq!(f.five_tuple(&h), model(&[&a[..], &b, &ports].concat()));
        assert_eq!(f.host_pair(&h), model(&[a, b].concat()));
        assert_eq!((f.source(&h), f.destination(&h)), (model(&a), model(&b)));
        let h = v6_flow(0x2001_0db8 << 96 | 1, 0xc0de, 0x2001_0db8 << 96 | 2, 80);
        assert_eq!(f.five_tuple(&h), model(&[&h.src[..], &h.dst, &ports].concat()));
        assert_eq!(f.host_pair(&h), model(&[h.src, h.dst].concat()));
        assert_eq!((f.source(&h), f.destination(&h)), (model(&h.src), model(&h.dst)));
        let lldp = Headers { ethertype: 0x88cc, ..Headers::EMPTY };
        assert!(VARIANTS.iter().all(|v| v(&f, &lldp) == model(&[0xcc, 0x88])));
    }

    #[test]
    fn hashes_are_the_same_everywhere() {
        let f = FlowHasher::new(42);
        let h = v4_flow(0xc000_0201, 0xc0de, 0xc633_6402, 80);
        let expected = [0x5c10_390c, 0x5c10_390c, 0x3d99_fc63, 0x7663_7309, 0x3bcb_6032];
        assert_eq!(VARIANTS.map(|v| v(&f, &h)), expected);
    }

    #[test]
    fn symmetric_joins_directions_and_nothing_else() {
        let f = FlowHasher::new(2);
        let mut rng = Rng::new(3);
        for _ in 0..1000 {
            let (a, b) = (rng.next_u64() as u32, rng.next_u64() as u32);
            let (p, q) = (rng.next_u64() as u16, rng.next_u64() as u16);
            assert_eq!(f.symmetric(&v4_flow(a, p, b, q)), f.symmetric(&v4_flow(b, q, a, p)));
            assert_eq!(f.symmetric(&v4_flow(a, p, a, q)), f.symmetric(&v4_flow(a, q, a, p)));
            assert_ne!(f.symmetric(&v4_flow(a, p, b, q)), f.symmetric(&v4_flow(a, q, b, p)));
            assert_ne!(f.five_tuple(&v4_flow(a, p, b, q)), f.five_tuple(&v4_flow(b, q, a, p)));
            let (a, b) = (u128::from(a) << 64 | 7, u128::from(b) << 64 | 9);
            assert_eq!(f.symmetric(&v6_flow(a, p, b, q)), f.symmetric(&v6_flow(b, q, a, p)));
        }
        let echo = |a, b, code| Headers { l4: L4::Icmp, protocol: 1, ..v4_flow(a, code, b, 0xabcd) };
        assert_eq!(f.symmetric(&echo(1, 2, 0x0800)), f.symmetric(&echo(2, 1, 0)), "request and answer");
    }

    #[test]
    fn all_fragments_of_a_datagram_hash_alike_and_unlike_others() {
        let f = FlowHasher::new(4);
        for whole in [v4_flow(1, 2, 3, 4), v6_flow(1, 2, 3, 4)] {
            let first = Headers { fragment: Fragment::First, ..whole };
            let later = Headers {
                fragment: Fragment::Later,
                l4: L4::None,
                src_port: 0,
                dst_port: 0,
                protocol: 60,
                ..whole
            };
            // Bytes of a later fragment that look like ports are not read, even if a sender forges
            // them.
            let forged = Headers { src_port: 7, dst_port: 8, l4: L4::Tcp, ..later };
            assert!(VARIANTS.iter().all(|v| v(&f, &first) == v(&f, &later)));
            assert!(VARIANTS.iter().all(|v| v(&f, &later) == v(&f, &forged)));
            assert_ne!(f.five_tuple(&whole), f.five_tuple(&first));
            assert_ne!(f.five_tuple(&later), f.five_tuple(&Headers { dst: [9; 16], ..later }));
        }
    }

    #[test]
    fn each_variant_hears_its_own_fields_and_no_other() {
        let f = FlowHasher::new(5);
        let changes: [fn(&mut Headers); 5] = [
            |h| h.src[15] ^= 1,
            |h| h.dst[12] ^= 0x80,
            |h| h.src_port ^= 1,
            |h| h.dst_port ^= 0x8000,
            |h| h.protocol ^= 1,
        ];
        // Changes that each variant must react to: five-tuple, symmetric, pair, source,
        // destination.
        let heard = [
            [true; 5],
            [true; 5],
            [true, true, false, false, false],
            [true, false, false, false, false],
            [false, true, false, false, false],
        ];
        for h in [v4_flow(1, 2, 3, 4), v6_flow(1, 2, 3, 4)] {
            for (variant, heard) in VARIANTS.iter().zip(heard) {
                for (change, heard) in changes.iter().zip(heard) {
                    let mut other = h;
                    change(&mut other);
                    assert_eq!(variant(&f, &h) != variant(&f, &other), heard);
                }
            }
            let deaf = Headers { ds: 9, ttl: 9, tcp_flags: 9, ip_len: 9, vlan: Some(9), ..h };
            assert!(VARIANTS.iter().all(|v| v(&f, &h) == v(&f, &deaf)));
        }
    }

    /// Two connections with one label are one flow, two labels between the same ports are two; a
    /// fragment of a labelled datagram is in the flow of its connection.
    #[test]
    fn a_flow_label_stands_for_the_ports() {
        let f = FlowHasher::new(8);
        let labelled = |label, port| Headers { flow_label: label, ..v6_flow(1, port, 2, 443) };
        assert_eq!(f.five_tuple(&labelled(7, 1000)), f.five_tuple(&labelled(7, 1001)));
        assert_ne!(f.five_tuple(&labelled(7, 1000)), f.five_tuple(&labelled(8, 1000)));
        assert_ne!(f.five_tuple(&labelled(0, 1000)), f.five_tuple(&labelled(0, 1001)));
        let later = Headers { fragment: Fragment::Later, l4: L4::None, ..labelled(7, 0) };
        assert_eq!(f.five_tuple(&labelled(7, 1000)), f.five_tuple(&later));
        // IPv4 has no label, and the way back has another.
        let v4 = v4_flow(1, 2, 3, 4);
        assert_eq!(f.five_tuple(&v4), f.five_tuple(&Headers { flow_label: 9, ..v4 }));
        let back = Headers { flow_label: 9, ..v6_flow(2, 443, 1, 1000) };
        assert_eq!(f.symmetric(&labelled(7, 1000)), f.symmetric(&back));
    }

    #[test]
    fn messages_of_icmp_between_two_hosts_are_one_flow() {
        let f = FlowHasher::new(9);
        let echo = |a, b, id| Headers { l4: L4::Icmp, protocol: 1, ..v4_flow(a, 0x0800, b, id) };
        assert_eq!(f.five_tuple(&echo(1, 2, 77)), f.five_tuple(&echo(1, 2, 78)));
        assert_ne!(f.five_tuple(&echo(1, 2, 77)), f.five_tuple(&echo(1, 3, 77)));
    }

    /// The numbers that a sender can learn from random drops and delays are not the key: not its
    /// halves, and not the seed that both come from.
    #[test]
    fn draws_do_not_reveal_the_key() {
        for seed in [0, 1, 0xd922_cddd_4f62_72f9] {
            let f = FlowHasher::new(seed);
            let mut draws = Rng::new(f.draws());
            let drawn: Vec<u64> = (0..16).map(|_| draws.next_u64()).collect();
            assert!(f.draws() != seed && !drawn.iter().any(|d| [f.k0, f.k1, seed].contains(d)));
            let model = sip_model(1, 3, f.k0, f.k1, b"draws");
            assert_eq!(f.draws(), model);
        }
    }

    #[test]
    fn tunnels_of_a_host_pair_are_told_apart_by_protocol() {
        let f = FlowHasher::new(6);
        let opaque = |protocol| Headers { l4: L4::None, protocol, end: End::Opaque, ..v4_flow(1, 0, 2, 0) };
        assert_ne!(f.five_tuple(&opaque(47)), f.five_tuple(&opaque(50)));
        assert_eq!(f.host_pair(&opaque(47)), f.host_pair(&opaque(50)));
    }

    #[test]
    fn the_key_decides() {
        let h = v4_flow(1, 2, 3, 4);
        for variant in VARIANTS {
            let mut seen: Vec<u32> = (0..1000).map(|seed| variant(&FlowHasher::new(seed), &h)).collect();
            seen.sort_unstable();
            seen.dedup();
            assert!(seen.len() >= 999, "{}", seen.len());
        }
        // Flows that share a bucket under one key are apart under another, except by chance.
        let (f, g) = (FlowHasher::new(1), FlowHasher::new(2));
        let bucket = |f: &FlowHasher, port| reciprocal_scale(f.five_tuple(&v4_flow(1, port, 3, 4)), 1024);
        let home = bucket(&f, 0);
        let together: Vec<u16> = (1..=u16::MAX).filter(|&p| bucket(&f, p) == home).collect();
        assert!((30..=110).contains(&together.len()), "{}", together.len());
        let still = together.iter().filter(|&&p| bucket(&g, p) == bucket(&g, 0)).count();
        assert!(still <= 3, "{still} of {}", together.len());
    }

    #[test]
    fn structured_flows_spread_evenly_over_1024_buckets() {
        let port_scan = |i: u32| v4_flow(0x0a00_0001, (i >> 8) as u16, 0x0a00_0002, i as u16 & 0xff);
        let host_scan = |i: u32| v4_flow(0x0a00_0000 + i, 40_000, 0x0a00_0002, 443);
        let v6_scan = |i: u32| v6_flow(u128::from(i) << 64, 40_000, 1, 443);
        let flows: [(&dyn Fn(u32) -> Headers, Variant); 5] = [
            (&port_scan, FlowHasher::five_tuple),
            (&host_scan, FlowHasher::five_tuple),
            (&v6_scan, FlowHasher::symmetric),
            (&host_scan, FlowHasher::source),
            (&v6_scan, FlowHasher::host_pair),
        ];
        for (flow, variant) in flows {
            let f = FlowHasher::new(0x5eed);
            let mut buckets = [0u32; 1024];
            let n = 102_400;
            for i in 0..n {
                buckets[reciprocal_scale(variant(&f, &flow(i)), 1024) as usize] += 1;
            }
            let expected = f64::from(n) / 1024.0;
            let chi2: f64 = buckets.iter().map(|&b| (f64::from(b) - expected).powi(2) / expected).sum();
            // 1023 degrees of freedom: mean 1023, standard deviation 45; the bounds are five of
            // them on either side.
            assert!((797.0..=1249.0).contains(&chi2), "{chi2}");
        }
    }

    #[test]
    fn scaling_covers_the_range_in_order() {
        assert_eq!([0, 1 << 22, u32::MAX].map(|h| reciprocal_scale(h, 1024)), [0, 1, 1023]);
        assert_eq!((reciprocal_scale(u32::MAX, 0), reciprocal_scale(u32::MAX, 1)), (0, 0));
        assert_eq!(reciprocal_scale(u32::MAX, u32::MAX), u32::MAX - 1);
    }
}
