//! Packets of a capture (pcap, pcapng) as arrivals: sizes, times, and header fields.

use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};
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
    let mut interfaces: Vec<Interface> = Vec::new();
    let mut taken: Vec<(u64, Frame)> = Vec::new();
    let mut read = Read::default();
    loop {
        let step = match reader.next() {
            Ok((len, block)) => {
                let packet = packet(&block, &mut interfaces)?;
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
fn packet<'a>(
    block: &'a PcapBlockOwned<'_>,
    interfaces: &mut Vec<Interface>,
) -> Result<Option<Packet<'a>>, String> {
    let of = |interfaces: &[Interface], number: u32| {
        let found = usize::try_from(number).ok().and_then(|n| interfaces.get(n)).copied();
        found.ok_or_else(|| format!("a packet of interface {number}, which the capture does not describe"))
    };
    Ok(match block {
        PcapBlockOwned::LegacyHeader(h) => {
            let resolution = if h.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
            *interfaces = vec![Interface { linktype: h.network, resolution, offset: 0 }];
            None
        }
        PcapBlockOwned::Legacy(b) => {
            let one = of(interfaces, 0)?;
            let ticks = u64::from(b.ts_sec) * one.resolution + u64::from(b.ts_usec);
            Some((one.stamp(ticks), one.linktype, b.data, b.origlen))
        }
        PcapBlockOwned::NG(Block::SectionHeader(_)) => {
            interfaces.clear();
            None
        }
        PcapBlockOwned::NG(Block::InterfaceDescription(i)) => {
            let resolution = i.ts_resolution().filter(|r| *r > 0);
            let resolution = resolution.ok_or("an interface whose stamps are finer than can be told")?;
            interfaces.push(Interface { linktype: i.linktype, resolution, offset: i.if_tsoffset });
            None
        }
        PcapBlockOwned::NG(Block::EnhancedPacket(p)) => {
            let one = of(interfaces, p.if_id)?;
            let ticks = u64::from(p.ts_high) << 32 | u64::from(p.ts_low);
            Some((one.stamp(ticks), one.linktype, p.packet_data(), p.origlen))
        }
        PcapBlockOwned::NG(Block::SimplePacket(_)) => {
            return Err("its packets have no times (simple packet blocks)".into());
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

    /// Returns a pcap of microseconds, little-endian, of UDP packets: (microseconds, TOS, bytes of
    /// the IP packet).
    fn pcap(packets: &[(u32, u8, u32)]) -> Vec<u8> {
        let mut file = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
        file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0]);
        for &(at, tos, len) in packets {
            let mut data = vec![0; 42];
            data[12] = 8;
            (data[14], data[15], data[22], data[23]) = (0x45, tos, 64, 17);
            data[16..18].copy_from_slice(&(len as u16).to_be_bytes());
            data[38..40].copy_from_slice(&((len - 20) as u16).to_be_bytes());
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
