//! A segment as the bytes of a TCP header (RFC 9293, 7323, 2018, 9768), and back.
//!
//! Numbers of a [`Segment`] are 64 bits wide and begin at 0; those of a header are 32 bits wide and
//! begin anywhere. A [`Codec`] holds these beginnings; a reader also passes the numbers near which
//! it expects a segment.

use crate::segment::{EcnBytes, Flags, Sacks, Segment, SynOptions};

/// Most bytes of a TCP header: 20, and 40 of options.
pub const HEADER_MAX: usize = 60;
/// Bytes of a header without options.
const BASE: usize = 20;
/// Options of accurate ECN with order 0 and 1 (RFC 9768 section 3.2.3).
const ECN_BYTES: [u8; 2] = [172, 174];

/// Initial numbers and ports of the two directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Codec {
    /// The number of this end's SYN.
    pub local: u32,
    /// The number of the peer's SYN.
    pub remote: u32,
    /// This end's port.
    pub port: u16,
    /// The peer's port.
    pub peer_port: u16,
}

/// Returns the 64-bit number nearest to `near` whose low 32 bits are `low`.
const fn widen(low: u32, near: u64) -> u64 {
    let diff = low.wrapping_sub(near as u32) as i32;
    let wide = near.wrapping_add(diff as i64 as u64);
    // A number before the start of the stream can only be a number that is ahead.
    if diff < 0 && wide > near { near.wrapping_add(low.wrapping_sub(near as u32) as u64) } else { wide }
}

impl Codec {
    /// Writes the header of a segment that this end sends, and returns its length. The checksum
    /// stays zero: devices compute it.
    pub fn write(&self, seg: &Segment, out: &mut [u8; HEADER_MAX]) -> usize {
        out[0..2].copy_from_slice(&self.port.to_be_bytes());
        out[2..4].copy_from_slice(&self.peer_port.to_be_bytes());
        out[4..8].copy_from_slice(&self.local.wrapping_add(seg.seq as u32).to_be_bytes());
        let ack = if seg.flags.has(Flags::ACK) { self.remote.wrapping_add(seg.ack as u32) } else { 0 };
        out[8..12].copy_from_slice(&ack.to_be_bytes());
        let mut at = BASE;
        if let Some(syn) = seg.syn {
            put(out, &mut at, &[2, 4]);
            put(out, &mut at, &syn.mss.to_be_bytes());
            if syn.sack {
                put(out, &mut at, &[4, 2]);
            } else if seg.stamps.is_some() {
                put(out, &mut at, &[1, 1]);
            }
        }
        if let Some((own, echo)) = seg.stamps {
            if seg.syn.is_none() {
                put(out, &mut at, &[1, 1]);
            }
            put(out, &mut at, &[8, 10]);
            put(out, &mut at, &own.to_be_bytes());
            put(out, &mut at, &echo.to_be_bytes());
        }
        if let Some(scale) = seg.syn.and_then(|syn| syn.scale) {
            put(out, &mut at, &[1, 3, 3, scale]);
        }
        let room = (HEADER_MAX - at).saturating_sub(4) / 8;
        let blocks = &seg.sacks.blocks()[..seg.sacks.blocks().len().min(room)];
        if !blocks.is_empty() {
            put(out, &mut at, &[1, 1, 5, 2 + 8 * blocks.len() as u8]);
            for (start, end) in blocks {
                put(out, &mut at, &self.remote.wrapping_add(*start as u32).to_be_bytes());
                put(out, &mut at, &self.remote.wrapping_add(*end as u32).to_be_bytes());
            }
        }
        if let Some(option) = seg.ecn_bytes {
            let room = (HEADER_MAX - at).saturating_sub(2) / 3;
            let counters = &option.counters()[..option.counters().len().min(room)];
            put(out, &mut at, &[ECN_BYTES[usize::from(option.ect1_first())], 2 + 3 * counters.len() as u8]);
            for counter in counters {
                put(out, &mut at, &counter.to_be_bytes()[1..]);
            }
        }
        while !at.is_multiple_of(4) {
            put(out, &mut at, &[0]);
        }
        out[12] = (at as u8 / 4) << 4 | seg.flags.has(Flags::AE) as u8;
        out[13] = seg.flags.0 as u8;
        out[14..16].copy_from_slice(&seg.window.to_be_bytes());
        out[16..20].fill(0);
        at
    }

    /// Reads the header of a segment for this end. `near_seq` is the number that it expects next,
    /// `near_ack` the last number that it sent. The caller fills in the rest of the segment
    /// (payload, marks, super-segment). `None` if the bytes are no TCP header.
    pub fn read(&self, bytes: &[u8], near_seq: u64, near_ack: u64) -> Option<Segment> {
        let header = bytes.get(..BASE)?;
        let len = usize::from(header[12] >> 4) * 4;
        let options = bytes.get(BASE..len)?;
        let flags = Flags(u16::from(header[13]) | u16::from(header[12] & 1) << 8);
        let word =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let mut seg = Segment {
            seq: widen(word(4).wrapping_sub(self.remote), near_seq),
            flags,
            window: u16::from_be_bytes([header[14], header[15]]),
            ..Segment::default()
        };
        if flags.has(Flags::ACK) {
            seg.ack = widen(word(8).wrapping_sub(self.local), near_ack);
        }
        if flags.has(Flags::SYN) {
            seg.syn = Some(SynOptions::default());
        }
        self.options(options, &mut seg);
        Some(seg)
    }

    fn options(&self, mut rest: &[u8], seg: &mut Segment) {
        loop {
            let (kind, body) = match *rest {
                [] | [0, ..] => return,
                [1, ..] => {
                    rest = &rest[1..];
                    continue;
                }
                [kind, len, ..] if len >= 2 && usize::from(len) <= rest.len() => {
                    (kind, &rest[2..usize::from(len)])
                }
                _ => return,
            };
            rest = &rest[2 + body.len()..];
            match (kind, body, &mut seg.syn) {
                (2, [a, b], Some(syn)) => syn.mss = u16::from_be_bytes([*a, *b]),
                (3, [scale], Some(syn)) => syn.scale = Some(*scale),
                (4, [], Some(syn)) => syn.sack = true,
                (8, [a, b, c, d, e, f, g, h], _) => {
                    seg.stamps =
                        Some((u32::from_be_bytes([*a, *b, *c, *d]), u32::from_be_bytes([*e, *f, *g, *h])));
                }
                (5, blocks, _) => self.blocks(blocks, seg),
                (172 | 174, counters, _) => seg.ecn_bytes = Some(ecn_bytes(kind == ECN_BYTES[1], counters)),
                _ => {}
            }
        }
    }

    fn blocks(&self, bytes: &[u8], seg: &mut Segment) {
        let mut sacks = Sacks::default();
        for b in bytes.chunks_exact(8) {
            let edge = |at: usize| {
                let low = u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
                widen(low.wrapping_sub(self.local), seg.ack)
            };
            sacks.push(edge(0), edge(4), 4);
        }
        seg.sacks = sacks;
    }
}

/// Returns the option with these counters of 24 bits; incomplete counters and counters beyond the
/// third are left out.
fn ecn_bytes(ect1_first: bool, bytes: &[u8]) -> EcnBytes {
    let mut counters = [0; 3];
    let mut n = 0;
    for (slot, b) in counters.iter_mut().zip(bytes.chunks_exact(3)) {
        *slot = u32::from_be_bytes([0, b[0], b[1], b[2]]);
        n += 1;
    }
    EcnBytes::of(ect1_first, &counters[..n])
}

fn put(out: &mut [u8; HEADER_MAX], at: &mut usize, bytes: &[u8]) {
    if let Some(room) = out.get_mut(*at..*at + bytes.len()) {
        room.copy_from_slice(bytes);
        *at += bytes.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends() -> (Codec, Codec) {
        let a = Codec { local: u32::MAX - 5, remote: 77, port: 1, peer_port: 2 };
        (a, Codec { local: a.remote, remote: a.local, port: 2, peer_port: 1 })
    }

    #[test]
    fn what_is_written_is_read() {
        let (a, b) = ends();
        let mut sacks = Sacks::default();
        sacks.push(9_000_000_100, 9_000_001_000, 3);
        sacks.push(9_000_002_000, 9_000_003_000, 3);
        let seg = Segment {
            seq: 5_000_000_000,
            ack: 9_000_000_000,
            window: 501,
            flags: Flags::ACK.with(Flags::of_ace(6)),
            sacks,
            stamps: Some((1, 2)),
            ..Segment::default()
        };
        let mut out = [0; HEADER_MAX];
        let len = a.write(&seg, &mut out);
        assert_eq!(len, 20 + 12 + 20);
        assert_eq!(b.read(&out[..len], 5_000_000_400, 9_000_009_000), Some(seg));
        assert_eq!(b.read(&out[..len - 1], 0, 0), None, "the options are cut off");
    }

    #[test]
    fn a_syn_has_the_options_of_linux_in_twenty_bytes() {
        let (a, b) = ends();
        let syn = SynOptions { mss: 1460, scale: Some(7), sack: true };
        let seg = Segment { flags: Flags::SYN, stamps: Some((9, 0)), syn: Some(syn), ..Segment::default() };
        let mut out = [0; HEADER_MAX];
        let len = a.write(&seg, &mut out);
        assert_eq!((len, &out[20..24]), (40, &[2, 4, 5, 180][..]));
        assert_eq!(b.read(&out[..len], 0, 0), Some(seg));
    }

    /// RFC 9768 figures 3 and 4: kind, length, and counters of three bytes.
    #[test]
    fn counters_of_bytes_have_both_orders_and_four_lengths() {
        let (a, b) = ends();
        for (first, kind) in [(false, 172), (true, 174)] {
            for n in 0..=3 {
                let option = EcnBytes::of(first, &[0x01_02_03, 0xff_ff_fe, 7][..n]);
                let flags = Flags::ACK.with(Flags::of_ace(3));
                let seg =
                    Segment { ecn_bytes: Some(option), flags, stamps: Some((1, 2)), ..Segment::default() };
                let mut out = [0; HEADER_MAX];
                let len = a.write(&seg, &mut out);
                assert_eq!(out[32..34], [kind, 2 + 3 * n as u8]);
                assert_eq!(len, (32 + 2 + 3 * n).next_multiple_of(4));
                let all = [1, 2, 3, 255, 255, 254, 0, 0, 7];
                assert_eq!(out[34..34 + 3 * n], all[..3 * n]);
                assert_eq!(b.read(&out[..len], 0, 0), Some(seg));
            }
        }
    }

    #[test]
    fn blocks_come_before_counters_of_bytes() {
        let (a, b) = ends();
        let mut sacks = Sacks::default();
        for i in 1..=2 {
            sacks.push(i * 10_000, i * 10_000 + 100, 3);
        }
        let ecn_bytes = EcnBytes::fitting(true, 1, 5, 9, 40);
        let seg = Segment { flags: Flags::ACK, sacks, stamps: Some((1, 2)), ecn_bytes, ..Segment::default() };
        let mut out = [0; HEADER_MAX];
        let len = a.write(&seg, &mut out);
        let read = b.read(&out[..len], 0, 0).expect("a header");
        assert_eq!((len, read.sacks.blocks().len()), (60, 2));
        assert_eq!(read.ecn_bytes, EcnBytes::fitting(true, 1, 5, 9, 8));
    }

    #[test]
    fn numbers_widen_to_the_nearest() {
        assert_eq!(widen(5, 1 << 32), (1 << 32) + 5);
        assert_eq!(widen(u32::MAX, 1 << 32), (1 << 32) - 1);
        assert_eq!(widen(u32::MAX, 3), u64::from(u32::MAX));
    }
}
