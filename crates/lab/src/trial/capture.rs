//! Packets of a capture (pcap, pcapng) as arrivals: sizes, times, and header fields.

use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Block, InterfaceDescriptionBlock, Linktype, OptionCode};
use pcap_parser::{PcapBlockOwned, PcapError, create_reader};
use txweir_core::packet::hash::FlowHasher;
use txweir_core::packet::headers::Headers;
use txweir_core::{Instant, Nanos};

use crate::frame::{Frame, HEADER_MAX};
use crate::tagged::ETHERNET;

/// Largest number of packets: each takes a little more than 100 bytes.
const PACKETS_MAX: usize = 2_000_000;
/// Largest Ethernet frame without its tags; longer ones were captured before the device cut them.
const MTU: u32 = 1500;
/// Bytes of the buffer that holds one block: more than the largest packet of 256 KiB.
const BUFFER: usize = 1 << 20;

/// Longest packet: tcpdump's limit.
const PACKET_MAX: u32 = 262_144;
/// Type of the blocks that enhanced packet blocks have replaced (draft-ietf-opsawg-pcapng, appendix
/// A).
const PACKET_BLOCK: u32 = 2;

/// Content of a capture.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) frames: Vec<Frame>,
    /// Number of super-frames that were cut.
    cut: u64,
    /// Number of packets stamped earlier than a packet before them.
    early: u64,
    /// Number of packets left out, because they come after the time of the run.
    after: u64,
}

impl Read {
    /// Returns remarks on the packets.
    pub(super) fn notes(&self) -> String {
        let of = [
            (self.cut, "super-frames cut into segments"),
            (self.early, "out of order in the file and sorted"),
            (self.after, "after the time of the run and left out"),
        ];
        of.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("; {n} {what}")).collect()
    }
}

/// True if the first bytes are those of a capture: pcap of either order and grain, or pcapng.
pub(super) fn is_capture(bytes: &[u8]) -> bool {
    let Some(magic) = bytes.first_chunk::<4>() else { return false };
    let magic = u32::from_be_bytes(*magic);
    [0x0a0d_0d0a, 0xa1b2_c3d4, 0xd4c3_b2a1, 0xa1b2_3c4d, 0x4d3c_b2a1].contains(&magic)
}

/// A section of a file, or the whole of an old one.
#[derive(Default)]
struct Section {
    big_endian: bool,
    interfaces: Vec<Interface>,
}

impl Section {
    /// Returns the type of a block, which the crate reads as little-endian.
    const fn kind(&self, read: u32) -> u32 {
        if self.big_endian { read.swap_bytes() } else { read }
    }
}

/// One interface, or the whole of an old file.
#[derive(Clone, Copy)]
struct Interface {
    linktype: Linktype,
    /// Units of its stamps per second.
    resolution: u64,
    /// Seconds added to each stamp.
    offset: i64,
}

impl Interface {
    /// Reads the description of an interface. The crate reads neither stamps in powers of two nor
    /// an offset in big-endian order.
    fn of(block: &InterfaceDescriptionBlock<'_>, big_endian: bool) -> Result<Self, String> {
        let resolution = match block.if_tsresol {
            exponent @ 0..0x80 => 10_u64.checked_pow(exponent.into()),
            exponent => 1_u64.checked_shl(u32::from(exponent & 0x7f)),
        };
        let resolution = resolution.ok_or("an interface whose stamps are finer than can be told")?;
        let offset = block.options.iter().find(|option| option.code == OptionCode::IfTsoffset);
        let offset = offset.and_then(|option| option.value().first_chunk::<8>()).copied();
        let read = if big_endian { i64::from_be_bytes } else { i64::from_le_bytes };
        Ok(Self { linktype: block.linktype, resolution, offset: offset.map_or(0, read) })
    }

    /// Returns a stamp in nanoseconds of the capture's clock; earlier stamps count as its
    /// beginning.
    fn stamp(&self, ticks: u64) -> u64 {
        let ns = i128::from(ticks) * 1_000_000_000 / i128::from(self.resolution.max(1));
        let ns = ns + i128::from(self.offset) * 1_000_000_000;
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}

/// Reads a capture. The first packet arrives at time zero. A file that breaks off within a block is
/// read up to there. Errors, in words: the bytes are no capture, or a link type is neither Ethernet
/// nor bare IP.
pub(super) fn read(bytes: &[u8], time: Nanos, seed: u64) -> Result<Read, String> {
    let mut reader = create_reader(BUFFER, bytes).map_err(|e| said(&e))?;
    let hasher = FlowHasher::new(seed);
    let mut section = Section::default();
    let mut taken: Vec<(u64, Frame)> = Vec::new();
    let mut read = Read::default();
    loop {
        let step = match reader.next() {
            Ok((len, block)) => {
                let packet = packet(&block, &mut section)?;
                if let Some((stamp, linktype, data, len)) = packet {
                    take(&hasher, linktype, data, len, |frame| taken.push((stamp, frame)), &mut read)?;
                }
                Some(len)
            }
            Err(PcapError::Eof | PcapError::UnexpectedEof) => break,
            Err(PcapError::Incomplete(_)) => None,
            Err(e) => return Err(said(&e)),
        };
        if taken.len() > PACKETS_MAX {
            return Err(format!("expected at most {PACKETS_MAX} packets"));
        }
        match step {
            Some(len) => reader.consume(len),
            None => reader.refill().map_err(|e| said(&e))?,
        }
    }
    read.early = taken.windows(2).filter(|w| w[1].0 < w[0].0).count() as u64;
    // The sort is stable: packets of one stamp stay in the order of the file.
    taken.sort_by_key(|(stamp, _)| *stamp);
    let start = taken.first().ok_or("expected at least one packet")?.0;
    for (stamp, mut frame) in taken {
        frame.sent = Instant(stamp - start);
        match frame.sent.0 < time.0 {
            true => read.frames.push(frame),
            false => read.after += 1,
        }
    }
    Ok(read)
}

fn said<I: std::fmt::Debug>(e: &PcapError<I>) -> String {
    match e {
        PcapError::Eof | PcapError::Incomplete(_) | PcapError::UnexpectedEof => {
            "the capture breaks off".into()
        }
        PcapError::BufferTooSmall => format!("a block of the capture is longer than {BUFFER} bytes"),
        PcapError::HeaderNotRecognized => "not a capture (pcap, pcapng)".into(),
        _ => "a block of the capture is not as the format says".into(),
    }
}

/// A packet of a block: stamp in nanoseconds, link type, bytes, length.
type Packet<'a> = (u64, Linktype, &'a [u8], u32);

/// Returns the packet of a block, if it has one.
fn packet<'a>(block: &'a PcapBlockOwned<'_>, section: &mut Section) -> Result<Option<Packet<'a>>, String> {
    let of = |section: &Section, number: u32| {
        let found = usize::try_from(number).ok().and_then(|n| section.interfaces.get(n)).copied();
        found.ok_or_else(|| format!("a packet of interface {number}, which the capture does not describe"))
    };
    Ok(match block {
        PcapBlockOwned::LegacyHeader(h) => {
            let resolution = if h.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
            section.interfaces = vec![Interface { linktype: h.network, resolution, offset: 0 }];
            None
        }
        PcapBlockOwned::Legacy(b) => {
            let one = of(section, 0)?;
            let ticks = u64::from(b.ts_sec) * one.resolution + u64::from(b.ts_usec);
            Some((one.stamp(ticks), one.linktype, b.data, b.origlen))
        }
        PcapBlockOwned::NG(Block::SectionHeader(header)) => {
            *section = Section { big_endian: header.big_endian(), interfaces: Vec::new() };
            None
        }
        PcapBlockOwned::NG(Block::InterfaceDescription(i)) => {
            section.interfaces.push(Interface::of(i, section.big_endian)?);
            None
        }
        PcapBlockOwned::NG(Block::EnhancedPacket(p)) => {
            let one = of(section, p.if_id)?;
            let ticks = u64::from(p.ts_high) << 32 | u64::from(p.ts_low);
            Some((one.stamp(ticks), one.linktype, p.packet_data(), p.origlen))
        }
        PcapBlockOwned::NG(Block::SimplePacket(_)) => {
            return Err("its packets have no times (simple packet blocks)".into());
        }
        PcapBlockOwned::NG(Block::Unknown(other)) if section.kind(other.block_type) == PACKET_BLOCK => {
            return Err("its packets are in obsolete packet blocks (type 2)".into());
        }
        PcapBlockOwned::NG(_) => None,
    })
}

/// Makes the frame, or the frames, of a packet.
fn take(
    hasher: &FlowHasher,
    linktype: Linktype,
    data: &[u8],
    original: u32,
    mut each: impl FnMut(Frame),
    read: &mut Read,
) -> Result<(), String> {
    let (headers, at) = match linktype {
        Linktype::ETHERNET => (Headers::parse_ethernet(data), ETHERNET),
        Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 => (Headers::parse_ip(data), 0),
        Linktype(other) => {
            return Err(format!("link type {other}: expected Ethernet (1) or bare IP (101, 228, 229)"));
        }
    };
    if original > PACKET_MAX {
        return Err(format!("a packet of {original} bytes: expected at most {PACKET_MAX}"));
    }
    // All lengths count an Ethernet header. Tags stay in the length.
    let ip_len = original.max(u32::try_from(data.len()).unwrap_or(u32::MAX)).saturating_sub(at).max(1);
    let l3 = usize::from(headers.l3_offset.unwrap_or(at as u16)).min(data.len());
    let tags = u32::try_from(l3).unwrap_or(0).saturating_sub(at);
    let transport = usize::from(headers.header_len).saturating_sub(l3);
    let first = &data[l3..data.len().min(l3 + HEADER_MAX)];
    let make = |ip_len: u32| {
        let mut frame = Frame::headers(first, transport.min(ip_len as usize), ip_len);
        frame.hash = hasher.five_tuple(&headers);
        frame.priority = headers.tos_priority();
        (frame.protocol, frame.ds) = (headers.ethertype, headers.ds);
        frame
    };
    let repeated = tags + u32::try_from(transport).unwrap_or(0);
    if ip_len <= MTU + tags || transport == 0 {
        each(make(ip_len));
        return Ok(());
    }
    read.cut += 1;
    // The headers of an IP packet are far below its MTU.
    let payload = (MTU + tags).saturating_sub(repeated).max(1);
    let mut left = ip_len.saturating_sub(repeated);
    while left > 0 {
        let part = left.min(payload);
        each(make(repeated + part));
        left -= part;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = Nanos::from_secs(1);

    /// Returns the headers of a UDP packet: Ethernet, and an IP packet of so many bytes.
    fn udp(tos: u8, len: u32) -> Vec<u8> {
        let mut data = vec![0; 42];
        data[12] = 8;
        (data[14], data[15], data[22], data[23]) = (0x45, tos, 64, 17);
        data[16..18].copy_from_slice(&(len as u16).to_be_bytes());
        data[38..40].copy_from_slice(&((len - 20) as u16).to_be_bytes());
        data
    }

    /// Returns a pcapng in one order or the other: an interface with this option, and a packet of
    /// this type of block at each of these stamps.
    fn pcapng(big_endian: bool, (code, value): (u16, &[u8]), kind: u32, stamps: &[u64]) -> Vec<u8> {
        let word = |n: u32| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
        let half = |n: u16| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
        let block = |kind: u32, body: &[u8]| {
            let len = word(body.len() as u32 + 12);
            [&word(kind)[..], &len[..], body, &len[..]].concat()
        };
        let version = [half(1), half(0)].concat();
        let mut file = block(0x0a0d_0d0a, &[&word(0x1a2b_3c4d)[..], &version[..], &[0xff; 8][..]].concat());
        let mut padded = value.to_vec();
        padded.resize(value.len().next_multiple_of(4), 0);
        let option = [&half(code)[..], &half(value.len() as u16)[..], &padded[..], &[0; 4][..]].concat();
        file.extend(block(1, &[&half(1)[..], &[0; 6][..], &option[..]].concat()));
        for stamp in stamps {
            let (high, low) = (word((stamp >> 32) as u32), word(*stamp as u32));
            let data = [&udp(0, 100)[..], &[0; 2][..]].concat();
            let body = [&word(0)[..], &high[..], &low[..], &word(42)[..], &word(114)[..], &data[..]].concat();
            file.extend(block(kind, &body));
        }
        file
    }

    /// Returns a pcap of microseconds, little-endian, of UDP packets: (microseconds, TOS, bytes of
    /// the IP packet).
    fn pcap(packets: &[(u32, u8, u32)]) -> Vec<u8> {
        let mut file = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
        file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0]);
        for &(at, tos, len) in packets {
            let data = udp(tos, len);
            for word in [7, at, data.len() as u32, len + 14] {
                file.extend(word.to_le_bytes());
            }
            file.extend(data);
        }
        file
    }

    #[test]
    fn times_sizes_and_priorities() {
        let file = pcap(&[(500, 0, 100), (1_500, 0x10, 200), (1_400, 0x02, 300), (999_999, 0, 60)]);
        assert!(is_capture(&file) && !is_capture(b"title = 1"));
        let read = read(&file, Nanos::from_millis(500), 1).unwrap();
        let all: Vec<_> =
            read.frames.iter().map(|f| (f.sent.0, f.len(), f.priority, f.ecn().capable())).collect();
        assert_eq!(all, [(0, 114, 0, false), (900_000, 314, 0, true), (1_000_000, 214, 6, false)]);
        assert_eq!((read.early, read.after, read.cut), (1, 1, 0));
        assert_eq!(
            read.notes(),
            "; 1 out of order in the file and sorted; 1 after the time of the run and left out"
        );
    }

    /// Stamps may be in powers of two, and an offset has the order of its section.
    #[test]
    fn stamps_of_interfaces_are_read_in_either_order() {
        let start = 1_000_i64;
        let sent = |file: &[u8]| -> Vec<u64> {
            read(file, SECOND, 1).unwrap().frames.iter().map(|frame| frame.sent.0).collect()
        };
        for (big_endian, offset) in [(true, start.to_be_bytes()), (false, start.to_le_bytes())] {
            let of = |option: (u16, &[u8]), stamps: &[u64]| sent(&pcapng(big_endian, option, 6, stamps));
            assert_eq!(of((9, &[0x94]), &[0, 1 << 19]), [0, 500_000_000], "units of 2^-20 s");
            assert_eq!(of((9, &[9]), &[7, 8]), [0, 1], "nanoseconds");
            assert_eq!(of((14, &offset), &[0, 250_000]), [0, 250_000_000], "microseconds after 1000 s");
            let finer = pcapng(big_endian, (9, &[0xc0]), 6, &[0]);
            let said = read(&finer, SECOND, 1).unwrap_err();
            assert_eq!(said, "an interface whose stamps are finer than can be told");
        }
    }

    /// Packets in blocks of a type that is not read are not left out in silence.
    #[test]
    fn obsolete_packet_blocks_are_refused() {
        for big_endian in [true, false] {
            let said = read(&pcapng(big_endian, (9, &[6]), 2, &[0]), SECOND, 1).unwrap_err();
            assert_eq!(said, "its packets are in obsolete packet blocks (type 2)");
            let unknown = read(&pcapng(big_endian, (9, &[6]), 0x77, &[0]), SECOND, 1).unwrap_err();
            assert_eq!(unknown, "expected at least one packet");
        }
    }

    #[test]
    fn super_frames_are_cut() {
        let read = read(&pcap(&[(0, 0, 4_000)]), SECOND, 1).unwrap();
        let lens: Vec<u32> = read.frames.iter().map(Frame::ip_len).collect();
        // 3972 bytes of payload by 1472, each with 28 bytes of headers.
        assert_eq!((lens.as_slice(), read.cut), (&[1500, 1500, 1056][..], 1));
    }

    #[test]
    fn any_bytes_are_read_or_refused() {
        let whole = pcap(&[(500, 0, 100), (1_500, 0x10, 200)]);
        for len in 0..whole.len() {
            let _ = read(&whole[..len], SECOND, 1);
        }
        for at in 0..whole.len() {
            for flip in [1, 0x80, 0xff] {
                let mut wrong = whole.clone();
                wrong[at] ^= flip;
                let _ = read(&wrong, SECOND, 1);
            }
        }
        assert_eq!(read(&whole[..24], SECOND, 1).unwrap_err(), "expected at least one packet");
        assert_eq!(read(&whole[..100], SECOND, 1).unwrap().frames.len(), 1);
    }
}
