//! Captures, read back by a reader that shares no code with the writer, and by tshark if it is
//! installed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use txweir_lab::report::Report;
use txweir_lab::run::{Options, RunError, run};
use txweir_lab::scenario::Scenario;

use crate::common;

/// A packet as read from a file.
struct Packet {
    interface: usize,
    ns: u64,
    captured: Vec<u8>,
    original: u32,
    id: u64,
    comment: Option<String>,
}

/// An interface as read from a file.
struct Interface {
    name: String,
    speed: u64,
    link_type: u16,
    snaplen: u32,
    packets: Vec<Packet>,
}

fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(b[at..at + 2].try_into().unwrap())
}
fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(b[at..at + 4].try_into().unwrap())
}
fn u64_at(b: &[u8]) -> u64 {
    u64::from_le_bytes(b.try_into().unwrap())
}

/// Returns the options by code; the end option must be present.
fn options(mut b: &[u8]) -> BTreeMap<u16, Vec<u8>> {
    let mut all = BTreeMap::new();
    loop {
        let (code, len) = (u16_at(b, 0), usize::from(u16_at(b, 2)));
        if code == 0 {
            assert_eq!((len, b.len()), (0, 4), "options end before their block does");
            return all;
        }
        assert!(all.insert(code, b[4..4 + len].to_vec()).is_none(), "option {code} twice");
        b = &b[4 + len.next_multiple_of(4)..];
    }
}

/// Reads draft-ietf-opsawg-pcapng, as far as the lab uses it.
fn read(path: &Path) -> Vec<Interface> {
    let file = fs::read(path).unwrap();
    let (mut b, mut interfaces, mut first) = (&file[..], Vec::<Interface>::new(), true);
    while !b.is_empty() {
        let (kind, len) = (u32_at(b, 0), u32_at(b, 4) as usize);
        assert!(len % 4 == 0 && u32_at(b, len - 4) as usize == len, "length after the block");
        let body = &b[8..len - 4];
        match kind {
            0x0a0d_0d0a => {
                assert!(
                    first && u32_at(body, 0) == 0x1a2b_3c4d && u16_at(body, 4) == 1 && u16_at(body, 6) == 0
                );
                assert_eq!(options(&body[16..])[&4], b"txweir lab");
            }
            1 => {
                let o = options(&body[8..]);
                assert_eq!(o[&9], [9], "nanoseconds");
                let name = String::from_utf8(o[&2].clone()).unwrap();
                let (link_type, snaplen) = (u16_at(body, 0), u32_at(body, 4));
                interfaces.push(Interface {
                    name,
                    speed: u64_at(&o[&8]),
                    link_type,
                    snaplen,
                    packets: Vec::new(),
                });
            }
            6 => {
                let interface = u32_at(body, 0) as usize;
                let ns = u64::from(u32_at(body, 4)) << 32 | u64::from(u32_at(body, 8));
                let captured = u32_at(body, 12) as usize;
                let o = options(&body[20 + captured.next_multiple_of(4)..]);
                assert_eq!(o[&6], [0; 4], "queue 0");
                let comment = o.get(&1).map(|c| String::from_utf8(c.clone()).unwrap());
                let (id, original) = (u64_at(&o[&5]), u32_at(body, 16));
                let captured = body[20..20 + captured].to_vec();
                interfaces[interface].packets.push(Packet { interface, ns, captured, original, id, comment });
            }
            other => panic!("block type {other:#x}"),
        }
        first = false;
        b = &b[len..];
    }
    interfaces
}

/// Runs a scenario with captures; returns the report, the files by name, and the directory, which
/// the caller removes.
fn capture(text: &str, tag: &str) -> (Report, BTreeMap<String, PathBuf>, PathBuf) {
    let dir = std::env::temp_dir().join(format!("txweir-{tag}-{}", std::process::id()));
    let options = Options { pcap_dir: Some(dir.clone()), ..Options::default() };
    let report = run(&Scenario::parse(text, tag).unwrap(), options, |_| {}).unwrap();
    let files = fs::read_dir(&dir).unwrap().map(|e| {
        let path = e.unwrap().path();
        (path.file_name().unwrap().to_str().unwrap().to_string(), path)
    });
    (report, files.collect(), dir)
}

fn short(text: &str) -> String {
    text.lines()
        .map(|l| match l.split_once(" = ") {
            Some(("duration", _)) => "duration = \"2s\"\n".to_string(),
            Some(("warmup", _)) => "warmup = \"0\"\n".to_string(),
            _ => format!("{l}\n"),
        })
        .collect()
}

#[test]
fn every_packet_that_left_a_wire_is_there() {
    let (report, files, dir) =
        capture(&short(include_str!("../../../../scenarios/home-uplink.toml")), "home");
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "0-laptop-router.pcapng",
            "1-phone-router.pcapng",
            "2-router-server.pcapng",
            "3-server-router.pcapng"
        ]
    );
    let read: Vec<Vec<Interface>> = files.values().map(|p| read(p)).collect();
    let all: Vec<&Interface> = read.iter().flatten().collect();
    assert_eq!(all.len(), report.links.len());
    for (i, l) in all.iter().zip(&report.links) {
        assert_eq!(i.name, format!("{} -> {}", l.from, l.to));
        assert_eq!((i.speed, i.link_type, i.snaplen), (l.rate_bit_s, 1, 122));
        // Packets still in the device at the end have not left.
        let (there, sent) = (i.packets.len() as u64, l.tx_packets);
        assert!(there <= sent && sent - there <= 16, "{}: {there} of {sent}", i.name);
        assert!(i.packets.windows(2).all(|w| w[0].ns < w[1].ns), "{}: in order of time", i.name);
        i.packets.iter().for_each(check_headers);
    }
    // A packet of the laptop has the same id on the uplink, where it left a wire at least a
    // millisecond later.
    let lan: BTreeMap<u64, u64> = read[0][0].packets.iter().map(|p| (p.id, p.ns)).collect();
    assert_eq!(lan.len(), read[0][0].packets.len(), "ids are distinct");
    let known = read[2][0].packets.iter().filter_map(|p| Some(p.ns - lan.get(&p.id)?)).collect::<Vec<u64>>();
    let call = read[1][0].packets.len();
    assert!(known.len() + call + 2 >= read[2][0].packets.len() && known.iter().all(|d| *d > 50 * common::US));
    fs::remove_dir_all(dir).unwrap();
}

fn be16(b: &[u8], at: usize) -> u32 {
    u32::from(b[at]) << 8 | u32::from(b[at + 1])
}

/// Returns the sum of RFC 1071; 0xffff if it covers a right checksum.
fn summed(bytes: &[u8]) -> u32 {
    let sum: u32 =
        bytes.chunks(2).map(|w| u32::from(w[0]) << 8 | w.get(1).map_or(0, |b| u32::from(*b))).sum();
    (sum & 0xffff) + (sum >> 16)
}

fn check_headers(p: &Packet) {
    let b = &p.captured;
    assert_eq!((b[0], b[6]), (2, 2), "addresses of the Ethernet header");
    assert_ne!(b[0..6], b[6..12]);
    let (network, protocol) = match be16(b, 12) {
        0x0800 => {
            assert_eq!(summed(&b[14..34]), 0xffff, "checksum of the IPv4 header");
            assert_eq!(be16(b, 16), p.original - 14, "length of the IP packet");
            (20, b[23])
        }
        0x86dd => {
            assert_eq!(b[14] >> 4, 6, "version");
            assert_eq!(be16(b, 18), p.original - 54, "length behind the header");
            (40, b[20])
        }
        other => panic!("ethertype {other:#x}"),
    };
    assert!(p.interface < 2 && p.comment.is_none());
    let transport = match protocol {
        6 => usize::from(b[14 + network + 12] >> 4) * 4,
        17 => {
            assert_eq!(be16(b, 14 + network + 4), p.original - 14 - network as u32, "length of UDP");
            assert_eq!(be16(b, 14 + network + 6) != 0, network == 40, "a checksum over IPv6 alone");
            8
        }
        other => panic!("protocol {other}"),
    };
    assert_eq!(b.len(), 14 + network + transport, "headers and nothing else");
}

/// The headers of both versions side by side: units as the wire cuts them, a flow label for each
/// direction of each flow, marks, the checksum that UDP must have over IPv6.
#[test]
fn packets_of_ipv6_are_whole() {
    let one = |name: &str, more: &str| {
        format!("[[traffic]]\nname = '{name}'\nfrom = 'a'\nto = 'b'\nipv6 = true\n{more}\n")
    };
    let traffic = one("s", "kind = 'stream'\ncount = 2")
        + &one("c", "kind = 'cbr'\nsize = '100'\nrate = '8kbit'\ndscp = 'ef'")
        + &one("q", "kind = 'quic'\nstart = '1s'");
    let link = "rate = '10mbit'\ndelay = '5ms'\nqueues = 1\npolicy = 'qdisc add root fq_codel'";
    let host = "tso = '65226'\necn = 'accurate'\nsmall_queues = false";
    let text = common::two_hosts("duration = '2s'", host, link, &traffic);
    let (_, files, dir) = capture(&text, "ipv6");
    let interfaces = read(&files["0-a-b.pcapng"]);
    let mut labels: BTreeMap<(usize, u32, u32), Vec<u32>> = BTreeMap::new();
    let mut longest = 0;
    for p in interfaces.iter().flat_map(|i| &i.packets) {
        check_headers(p);
        let b = &p.captured;
        assert_eq!((be16(b, 12), p.original <= 1514), (0x86dd, true));
        longest = longest.max(b.len());
        let label = (u32::from(b[15]) & 15) << 16 | be16(b, 16);
        labels.entry((p.interface, be16(b, 54), be16(b, 56))).or_default().push(label);
        if be16(b, 54) == 2002 {
            // Headers, the number, zeros: the payload of the constant rate.
            assert_eq!((b[14], b[15] & 0xf0), (0x6b, 0x80), "EF, and no mark");
            let number = labels[&(p.interface, be16(b, 54), be16(b, 56))].len() as u64 - 1;
            let pseudo = [&b[22..54], &[0, 17], &b[18..20], &b[54..62], &number.to_be_bytes()].concat();
            assert_eq!(summed(&pseudo), 0xffff, "checksum of UDP");
        }
    }
    assert_eq!(labels.len(), 4 + 1 + 2);
    let mut first: Vec<u32> = labels.values().map(|l| l[0]).collect();
    assert!(labels.values().all(|l| l.iter().all(|label| *label == l[0])), "a label stays");
    first.sort_unstable();
    first.dedup();
    assert!(first.len() == 7 && first[0] > 0, "{first:x?}");
    // Counters of accurate ECN, and blocks, behind time stamps: headers of more than 80 bytes.
    assert!(longest > 14 + 80, "{longest}");
    let up = &interfaces[0].packets;
    let marked = |p: &&Packet| p.captured[15] & 0x30 == 0x30;
    assert!(up.iter().filter(marked).count() > 3, "fq_codel marks");
    // Full segments of one flow: 1440 bytes less the time stamps.
    let flow = |p: &&Packet| p.original == 1514 && p.captured[20] == 6 && be16(&p.captured, 54) == 2000;
    let seqs: Vec<u32> =
        up.iter().filter(flow).map(|p| be16(&p.captured, 58) << 16 | be16(&p.captured, 60)).collect();
    let steps = seqs.windows(2).filter(|w| w[1].wrapping_sub(w[0]) == 1428).count();
    assert!(steps > 100 && steps * 10 > seqs.len() * 9, "{steps} of {}", seqs.len());
    tshark(&files);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn what_the_link_did_is_in_the_comments() {
    let (report, files, dir) = capture(&short(include_str!("../../../../scenarios/lossy.toml")), "lossy");
    let interfaces = read(&files["0-station-base.pcapng"]);
    for (i, l) in interfaces.iter().zip(&report.links) {
        let count =
            |said: &str| i.packets.iter().filter(|p| p.comment.as_deref() == Some(said)).count() as u64;
        assert_eq!((count("lost on the link"), count("late by 4ms")), (l.lost, l.late));
        assert!(l.lost > 3 && l.late > 0);
    }
    fs::remove_dir_all(dir).unwrap();
}

/// A unit is written as its segments, each at the time of its last bit.
#[test]
fn a_unit_is_written_as_the_wire_cuts_it() {
    let rr =
        "[[traffic]]\nname = 'r'\nfrom = 'a'\nto = 'b'\nkind = 'rr'\nrequest = '100'\nresponse = '14480'";
    let link = "rate = '10mbit'\ncompletion = 'immediate'\nreceive_offload = true";
    let text = common::two_hosts("duration = '4s'", "tso = '65226'\nack_delay = '0'", link, rr);
    let (report, files, dir) = capture(&text, "tso");
    let interfaces = read(&files["0-a-b.pcapng"]);
    let back = &interfaces[1].packets;
    assert!(back.len() as u64 > report.links[1].tx_packets * 5);
    // The last complete response.
    let last: Vec<&Packet> = back.iter().filter(|p| p.original == 1514).rev().take(10).collect();
    for w in last.windows(2) {
        assert_eq!(w[0].ns - w[1].ns, 1538 * 8 * 100);
        let seq = |p: &Packet| u32::from_be_bytes(p.captured[38..42].try_into().unwrap());
        assert_eq!(seq(w[0]).wrapping_sub(seq(w[1])), 1448);
    }
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn tshark_reads_it() {
    let (_, files, dir) = capture(&short(include_str!("../../../../scenarios/home-uplink.toml")), "tshark");
    tshark(&files);
    fs::remove_dir_all(dir).unwrap();
}

/// Has tshark read files, if it is installed: nothing is malformed, the checksums of IPv4 headers
/// are good, and none of UDP is missing where it must be.
fn tshark(files: &BTreeMap<String, PathBuf>) {
    if Command::new("tshark").arg("--version").output().is_err() {
        println!("captures: reading with tshark skipped, because it is not installed");
        return;
    }
    let fields =
        ["frame.interface_name", "_ws.malformed", "udp.checksum.zero", "ip.checksum.status", "ip.version"];
    for path in files.values() {
        let out = Command::new("tshark")
            .args(["-o", "ip.check_checksum:TRUE", "-r"])
            .arg(path)
            .args(["-T", "fields"])
            .args(fields.iter().flat_map(|field| ["-e", field]))
            .output()
            .unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for line in String::from_utf8(out.stdout).unwrap().lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            assert!(
                [["", "", "1", "4"], ["", "", "", "6"]]
                    .contains(&[fields[1], fields[2], fields[3], fields[4]]),
                "{line}"
            );
            *seen.entry(fields[0].into()).or_default() += 1;
        }
        for i in read(path) {
            assert_eq!(seen.get(&i.name).copied().unwrap_or(0), i.packets.len());
        }
    }
}

#[test]
fn a_directory_that_cannot_be_made_is_an_error() {
    let scenario = Scenario::parse(include_str!("../../../../scenarios/first.toml"), "first").unwrap();
    let options = Options { pcap_dir: Some("/dev/null/there".into()), ..Options::default() };
    match run(&scenario, options, |_| {}) {
        Err(e @ RunError::Open(..)) => assert!(e.to_string().starts_with("/dev/null/there: "), "{e}"),
        other => panic!("{other:?}"),
    }
}
