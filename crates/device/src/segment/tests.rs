//! The tests build super-frames from scratch, and judge segments by checksums that they compute
//! from the addresses by the definition of RFC 1071, independently of the code under test.

use proptest::prelude::*;

use super::*;

/// Returns the one's-complement sum by the definition: word by word, carry by carry.
fn naive(parts: &[&[u8]]) -> u16 {
    let all = parts.concat();
    let mut sum = 0u32;
    for pair in all.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The description from which a test builds a super-frame.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    v6: bool,
    udp: bool,
    tags: usize,
    /// 4-byte words of IPv4 options, or 8-byte units of one IPv6 destination options header.
    ip_options: usize,
    tcp_options: usize,
    flags: u8,
    seq: u32,
    id: u16,
    payload: Vec<u8>,
    gso_size: u16,
}

impl Plan {
    pub(crate) fn tcp4(payload: usize, gso_size: u16) -> Self {
        Self {
            v6: false,
            udp: false,
            tags: 0,
            ip_options: 0,
            tcp_options: 3,
            flags: 0x18,
            seq: 0xffff_fff0,
            id: 0xfffe,
            payload: (0..payload).map(|i| i as u8).collect(),
            gso_size,
        }
    }

    fn pseudo(&self, addresses: &[u8], len: usize) -> Vec<u8> {
        let proto = if self.udp { 17 } else { 6 };
        let mut pseudo = addresses.to_vec();
        if self.v6 {
            pseudo.extend((len as u32).to_be_bytes());
            pseudo.extend([0, 0, 0, proto]);
        } else {
            pseudo.extend([0, proto]);
            pseudo.extend((len as u16).to_be_bytes());
        }
        pseudo
    }

    fn ip_header(&self, l4_len: usize) -> (Vec<u8>, Vec<u8>) {
        let proto = if self.udp { 17 } else { 6 };
        let mut ip = Vec::new();
        if self.v6 {
            let options = if self.ip_options > 0 { self.ip_options * 8 } else { 0 };
            ip.extend([0x60, 0x12, 0x34, 0x56]);
            ip.extend(((options + l4_len) as u16).to_be_bytes());
            ip.extend([if options > 0 { 60 } else { proto }, 64]);
            ip.extend((1..=32).collect::<Vec<u8>>());
            let addresses = ip[8..40].to_vec();
            if options > 0 {
                ip.extend([proto, (self.ip_options - 1) as u8]);
                ip.extend(vec![1; options - 2]);
            }
            return (ip, addresses);
        }
        ip.extend([0x40 | (5 + self.ip_options) as u8, 0x02]); // ECT(0)
        ip.extend(((20 + self.ip_options * 4 + l4_len) as u16).to_be_bytes());
        ip.extend(self.id.to_be_bytes());
        ip.extend([0x40, 0, 64, proto, 0, 0, 10, 1, 2, 3, 192, 168, 77, 9]);
        ip.extend(vec![1; self.ip_options * 4]);
        let sum = !naive(&[&ip]);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        let addresses = ip[12..20].to_vec();
        (ip, addresses)
    }

    pub(crate) fn build(&self) -> (VnetHdr, Vec<u8>) {
        let mut l4 = vec![0x9c, 0x40, 0x14, 0x51]; // ports 40000 -> 5201
        let csum_offset = if self.udp {
            l4.extend(((8 + self.payload.len()) as u16).to_be_bytes());
            l4.extend([0, 0]);
            6
        } else {
            l4.extend(self.seq.to_be_bytes());
            l4.extend(0x0102_0304u32.to_be_bytes());
            l4.extend([((5 + self.tcp_options) << 4) as u8, self.flags, 0x20, 0, 0, 0, 0, 0]);
            l4.extend(vec![1; self.tcp_options * 4]);
            16
        };
        l4.extend(&self.payload);
        let (ip, addresses) = self.ip_header(l4.len());
        let seed = naive(&[&self.pseudo(&addresses, l4.len())]);
        l4[csum_offset..csum_offset + 2].copy_from_slice(&seed.to_be_bytes());
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        for tag in 0..self.tags {
            frame.extend([if tag == 0 && self.tags > 1 { 0x88 } else { 0x81 }]);
            frame.extend([if tag == 0 && self.tags > 1 { 0xa8 } else { 0x00 }, 0x00, 100]);
        }
        frame.extend(if self.v6 { [0x86, 0xdd] } else { [0x08, 0x00] });
        frame.extend(&ip);
        let csum_start = frame.len() as u16;
        frame.extend(&l4);
        let gso = match (self.udp, self.v6) {
            (true, _) => Gso::UdpL4,
            (false, false) => Gso::TcpV4,
            (false, true) => Gso::TcpV6,
        };
        let hdr = VnetHdr {
            needs_csum: true,
            gso,
            ecn: self.flags & TCP_CWR != 0 && !self.udp,
            hdr_len: 999, // only a hint; nothing may depend on it
            gso_size: self.gso_size,
            csum_start,
            csum_offset: csum_offset as u16,
            ..VnetHdr::default()
        };
        (hdr, frame)
    }
}

fn cut(hdr: &VnetHdr, frame: &[u8]) -> Vec<Vec<u8>> {
    let mut cutter = Segmenter::new(hdr, frame).unwrap();
    let mut out = vec![0xee; cutter.longest()];
    let mut segments = Vec::new();
    while let Some(len) = cutter.next_into(frame, &mut out).unwrap() {
        segments.push(out[..len].to_vec());
    }
    assert_eq!(segments.len(), cutter.segments());
    assert_eq!(cutter.next_into(frame, &mut out).unwrap(), None);
    segments
}

/// Checks every property of the segments of a super-frame built by `plan`.
fn judge(plan: &Plan) {
    let (hdr, frame) = plan.build();
    let segments = cut(&hdr, &frame);
    let shape = Shape::of(&hdr, &frame).unwrap();
    let l4 = usize::from(hdr.csum_start);
    let ip = 14 + 4 * plan.tags;
    let header_len = frame.len() - plan.payload.len();
    assert_eq!(shape.header_len, header_len);
    assert_eq!(shape.segments, segments.len());
    assert_eq!(segments.len(), plan.payload.len().div_ceil(plan.gso_size.into()).max(1));
    assert_eq!(shape.wire_len, segments.iter().map(Vec::len).sum::<usize>());
    let mut payload = Vec::new();
    for (index, segment) in segments.iter().enumerate() {
        let last = index + 1 == segments.len();
        let data = &segment[header_len..];
        assert!(data.len() == usize::from(plan.gso_size) || last && data.len() <= plan.gso_size.into());
        judge_ip(plan, segment, ip, index);
        let addresses = if plan.v6 { &segment[ip + 8..ip + 40] } else { &segment[ip + 12..ip + 20] };
        let pseudo = plan.pseudo(addresses, segment.len() - l4);
        assert_eq!(naive(&[&pseudo, &segment[l4..]]), 0xffff, "transport checksum of segment {index}");
        assert_eq!(segment[..ip], frame[..ip], "Ethernet header and tags");
        assert_eq!(segment[l4..l4 + 4], frame[l4..l4 + 4], "ports");
        if plan.udp {
            assert_eq!(word(segment, l4 + 4), Ok((segment.len() - l4) as u16));
        } else {
            let seq = u32::from_be_bytes(segment[l4 + 4..l4 + 8].try_into().unwrap());
            assert_eq!(seq, plan.seq.wrapping_add(payload.len() as u32));
            assert_eq!(segment[l4 + 8..l4 + 13], frame[l4 + 8..l4 + 13], "acknowledgement and offset");
            let mut flags = plan.flags;
            flags &= if last { 0xff } else { !0x09 };
            flags &= if index == 0 { 0xff } else { !0x80 };
            assert_eq!(segment[l4 + 13], flags, "flags of segment {index}");
        }
        payload.extend_from_slice(data);
    }
    assert_eq!(payload, plan.payload);
}

fn judge_ip(plan: &Plan, segment: &[u8], ip: usize, index: usize) {
    if plan.v6 {
        assert_eq!(word(segment, ip + 4), Ok((segment.len() - ip - 40) as u16), "IPv6 payload length");
        return;
    }
    let header = &segment[ip..ip + 20 + 4 * plan.ip_options];
    assert_eq!(naive(&[header]), 0xffff, "IPv4 header checksum");
    assert_eq!(word(segment, ip + 2), Ok((segment.len() - ip) as u16), "IPv4 total length");
    assert_eq!(word(segment, ip + 4), Ok(plan.id.wrapping_add(index as u16)), "IPv4 identification");
}

/// A frame of three segments, spelled out: 3 000 bytes at 1 448.
#[test]
fn three_tcp_segments_by_hand() {
    let plan = Plan { flags: 0x99, ..Plan::tcp4(3000, 1448) };
    let (hdr, frame) = plan.build();
    let segments = cut(&hdr, &frame);
    assert_eq!(segments.iter().map(Vec::len).collect::<Vec<_>>(), [1514, 1514, 170]);
    // Total length 1500, 1500, 156; identification wraps; sequence wraps.
    assert_eq!(segments.iter().map(|s| [s[16], s[17]]).collect::<Vec<_>>(), [[5, 220], [5, 220], [0, 156]]);
    assert_eq!(segments.iter().map(|s| [s[18], s[19]]).collect::<Vec<_>>(), [[255, 254], [255, 255], [0, 0]]);
    let seqs: Vec<_> = segments.iter().map(|s| u32::from_be_bytes(s[38..42].try_into().unwrap())).collect();
    assert_eq!(seqs, [0xffff_fff0, 1432, 2880]);
    // CWR|ACK|PSH|FIN: CWR first only, PSH and FIN last only.
    assert_eq!(segments.iter().map(|s| s[47]).collect::<Vec<_>>(), [0x90, 0x10, 0x19]);
    assert_eq!(Shape::of(&hdr, &frame), Ok(Shape { header_len: 66, segments: 3, wire_len: 3198 }));
    judge(&plan);
}

/// Cuts the largest possible frame: 65 535 bytes of IP.
#[test]
fn the_largest_super_frame() {
    let plan = Plan::tcp4(65_535 - 20 - 32, 1448);
    assert_eq!(plan.build().1.len(), 65_549);
    judge(&plan);
    judge(&Plan { udp: true, gso_size: 1472, ..Plan::tcp4(65_535 - 28, 0) });
}

#[test]
fn an_ordinary_frame_measures_as_itself() {
    assert_eq!(
        Shape::of(&VnetHdr::default(), &[0; 60]),
        Ok(Shape { header_len: 0, segments: 1, wire_len: 60 })
    );
}

/// A header of the sender's choosing makes no more work than `SEGMENTS_MAX` segments.
#[test]
fn a_super_frame_has_a_bound_of_segments() {
    for (size, segments) in [(32, 2048), (31, 2115), (1, 65_536)] {
        let (hdr, frame) = Plan { gso_size: 32, ..Plan::tcp4(65_536 - 100, 32) }.build();
        let frame = [frame, vec![0; 100]].concat();
        let hdr = VnetHdr { gso_size: size, ..hdr };
        match Segmenter::new(&hdr, &frame) {
            Ok(cut) => assert_eq!((size, cut.segments()), (32, SEGMENTS_MAX)),
            Err(error) => {
                assert_eq!((error, segments > SEGMENTS_MAX), (SegmentError::Segments(segments), true))
            }
        }
        assert_eq!(Shape::of(&hdr, &frame).is_err(), segments > SEGMENTS_MAX);
    }
}

#[test]
fn what_cannot_be_cut_says_why() {
    let (hdr, frame) = Plan::tcp4(3000, 1448).build();
    let refused = |hdr: &VnetHdr, frame: &[u8]| Segmenter::new(hdr, frame).unwrap_err();
    assert_eq!(refused(&VnetHdr { gso_size: 0, ..hdr }, &frame), SegmentError::Size);
    assert_eq!(refused(&VnetHdr { gso: Gso::TcpV6, ..hdr }, &frame), SegmentError::Protocol(6));
    assert_eq!(refused(&VnetHdr { gso: Gso::UdpL4, ..hdr }, &frame), SegmentError::Protocol(6));
    assert_eq!(refused(&VnetHdr { gso: Gso::Other(3), ..hdr }, &frame), SegmentError::Unsupported(3));
    assert_eq!(refused(&VnetHdr { needs_csum: false, ..hdr }, &frame), SegmentError::Checksum);
    assert_eq!(refused(&VnetHdr { csum_start: 38, ..hdr }, &frame), SegmentError::Checksum);
    assert_eq!(refused(&hdr, &frame[..60]), SegmentError::Truncated);
    assert_eq!(refused(&hdr, &[]), SegmentError::Truncated);
    let mut other = frame.clone();
    other[12..14].copy_from_slice(&[0x08, 0x06]);
    assert_eq!(refused(&hdr, &other), SegmentError::NotIp(0x0806));
    let mut other = frame.clone();
    other[20] = 0x20; // more fragments
    assert_eq!(refused(&hdr, &other), SegmentError::Fragment);
    let mut cutter = Segmenter::new(&hdr, &frame).unwrap();
    assert_eq!(cutter.next_into(&frame, &mut [0; 1513]), Err(SegmentError::Room(1514)));
    assert_eq!(cutter.next_into(&frame, &mut [0; 1514]), Ok(Some(1514)));
}

/// Eight extension headers are accepted, nine are refused.
#[test]
fn extension_headers_are_bounded() {
    for (count, expected) in [(8, Ok(())), (9, Err(SegmentError::Extensions))] {
        let (hdr, frame) = Plan { v6: true, ip_options: 0, ..Plan::tcp4(100, 50) }.build();
        let mut long = frame[..54].to_vec();
        long[20] = 60;
        for left in (0..count).rev() {
            long.extend([if left == 0 { 6 } else { 60 }, 0, 1, 4, 0, 0, 0, 0]);
        }
        long.extend(&frame[54..]);
        let hdr = VnetHdr { csum_start: 54 + 8 * count, ..hdr };
        assert_eq!(Segmenter::new(&hdr, &long).map(|_| ()), expected);
    }
}

/// A super-frame with a routing header sums its final destination (RFC 8200 section 8.1). Only such
/// a frame shows the difference between the sum that was left in the field and a sum over the
/// addresses.
#[test]
fn the_left_sum_is_trusted_over_the_addresses() {
    let (hdr, mut frame) = Plan { v6: true, ..Plan::tcp4(2000, 1400) }.build();
    frame[14 + 24..14 + 40].fill(0xab); // the current hop; the sum still has the final destination 17..=32
    let plan = Plan { v6: true, ..Plan::tcp4(0, 0) };
    let finally: Vec<u8> = (1..=32).collect();
    for segment in cut(&hdr, &frame) {
        let pseudo = plan.pseudo(&finally, segment.len() - 54);
        assert_eq!(naive(&[&pseudo, &segment[54..]]), 0xffff);
    }
}

#[test]
fn completion_is_what_the_addresses_say() {
    for udp in [false, true] {
        let plan = Plan { udp, ..Plan::tcp4(777, 0) };
        let (hdr, mut frame) = plan.build();
        let mut hdr = VnetHdr { gso: Gso::None, ..hdr };
        complete_checksum(&mut hdr, &mut frame).unwrap();
        assert_eq!(hdr, VnetHdr::default());
        assert_eq!(naive(&[&plan.pseudo(&frame[26..34], frame.len() - 34), &frame[34..]]), 0xffff);
        let before = frame.clone();
        complete_checksum(&mut hdr, &mut frame).unwrap();
        assert_eq!(frame, before, "a complete frame is unchanged");
    }
}

#[test]
fn completion_refuses_what_lies_outside() {
    let mut hdr = VnetHdr { needs_csum: true, csum_start: 50, csum_offset: 16, ..VnetHdr::default() };
    assert_eq!(complete_checksum(&mut hdr, &mut [0; 67]), Err(SegmentError::Checksum));
    assert!(complete_checksum(&mut hdr, &mut [0; 68]).is_ok());
    let mut gso = VnetHdr { gso: Gso::TcpV4, ..VnetHdr::default() };
    assert_eq!(complete_checksum(&mut gso, &mut [0; 68]), Err(SegmentError::Unsupported(1)));
}

prop_compose! {
    fn plan()(
        v6: bool, udp: bool, tags in 0usize..3, ip_options in 0usize..4, tcp_options in 0usize..11,
        flags: u8, seq: u32, id: u16, payload in prop::collection::vec(any::<u8>(), 0..6000),
        gso_size in 1u16..3000,
    ) -> Plan {
        // Small segments of large payloads would only cost time.
        let gso_size = gso_size.max((payload.len() / 100) as u16).max(1);
        Plan { v6, udp, tags, ip_options, tcp_options, flags, seq, id, payload, gso_size }
    }
}

/// A complete frame whose checksum happens to be the sum of its pseudo-header is told from one
/// whose checksum was left undone.
#[test]
fn a_checksum_that_looks_undone_by_chance() {
    let mut plan = Plan { udp: true, payload: vec![0; 8], ..Plan::tcp4(8, 1000) };
    let mut found = 0;
    for word in 0..=u16::MAX {
        plan.payload[..2].copy_from_slice(&word.to_be_bytes());
        let (hdr, mut frame) = plan.build();
        let at = usize::from(hdr.csum_start + hdr.csum_offset);
        let seed = [frame[at], frame[at + 1]];
        let mut hdr = VnetHdr { gso: Gso::None, ..hdr };
        complete_checksum(&mut hdr, &mut frame).unwrap();
        if frame[at..at + 2] == seed {
            found += 1;
            assert_eq!(left_undone(&frame), None);
        }
    }
    assert!(found > 0, "some payload has this checksum");
}

proptest! {
    #[test]
    fn segments_are_the_super_frame(plan in plan()) {
        judge(&plan);
    }

    /// A frame without its header is described again, also behind padding; a complete one is not.
    #[test]
    fn an_undone_checksum_is_found(plan in plan(), padding in 0usize..30) {
        let (hdr, mut frame) = plan.build();
        frame.extend(vec![0; padding]);
        let mut found = left_undone(&frame).expect("an undone checksum");
        prop_assert_eq!((found.csum_start, found.csum_offset, found.gso), (hdr.csum_start, hdr.csum_offset, Gso::None));
        complete_checksum(&mut found, &mut frame).unwrap();
        prop_assert_eq!(left_undone(&frame), None);
    }

    /// Any bytes under any header give an answer, never a panic, and never more segments than
    /// bytes.
    #[test]
    fn total_on_any_bytes(
        raw in any::<[u8; 12]>(), gso in 0usize..4, start in 0u16..80, offset in prop::sample::select(vec![6u16, 16]),
        head in prop::sample::select(vec![[0x08u8, 0x00, 0x45], [0x86, 0xdd, 0x60], [0x81, 0x00, 0x00]]),
        mut frame in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        if frame.len() > 30 {
            frame[12..15].copy_from_slice(&head);
            frame[20] &= 0x40; // seldom a fragment
        }
        let _ = left_undone(&frame);
        let mut hdr = VnetHdr {
            needs_csum: true,
            gso: [Gso::TcpV4, Gso::TcpV6, Gso::UdpL4, Gso::None][gso],
            csum_start: start,
            csum_offset: offset,
            ..VnetHdr::decode(&raw)
        };
        if let Ok(mut cutter) = Segmenter::new(&hdr, &frame) {
            let mut out = vec![0; cutter.longest()];
            let mut count = 0;
            while cutter.next_into(&frame, &mut out).unwrap().is_some() {
                count += 1;
            }
            prop_assert!(count <= frame.len());
        }
        let _ = Shape::of(&hdr, &frame);
        let _ = complete_checksum(&mut hdr, &mut frame);
    }

    /// A well-formed super-frame with one byte changed is cut or refused, never worse.
    #[test]
    fn total_on_damaged_frames(plan in plan(), at in any::<prop::sample::Index>(), value: u8) {
        let (hdr, mut frame) = plan.build();
        let at = at.index(frame.len().min(130));
        frame[at] = value;
        if let Ok(mut cutter) = Segmenter::new(&hdr, &frame) {
            let mut out = vec![0; cutter.longest()];
            while cutter.next_into(&frame, &mut out).unwrap().is_some() {}
        }
    }
}
