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
        assert_eq!((i.speed, i.link_type, i.snaplen), (l.rate_bit_s, 1, 102));
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

fn check_headers(p: &Packet) {
    let b = &p.captured;
    assert_eq!((b[0], b[6], b[12], b[13]), (2, 2, 8, 0), "addresses and type of the Ethernet header");
    assert_ne!(b[0..6], b[6..12]);
    let ip = &b[14..34];
    let sum: u32 = ip.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "checksum of the IPv4 header");
    assert_eq!(u32::from(ip[2]) << 8 | u32::from(ip[3]), p.original - 14, "length of the IP packet");
    assert!(p.interface < 2 && p.comment.is_none());
    let transport = match ip[9] {
        6 => usize::from(b[14 + 20 + 12] >> 4) * 4,
        17 => 8,
        other => panic!("protocol {other}"),
    };
    assert_eq!(b.len(), 34 + transport, "headers and nothing else");
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
    if Command::new("tshark").arg("--version").output().is_err() {
        println!("captures: reading with tshark skipped, because it is not installed");
        return;
    }
    let (_, files, dir) = capture(&short(include_str!("../../../../scenarios/home-uplink.toml")), "tshark");
    for path in files.values() {
        let out = Command::new("tshark")
            .args(["-o", "ip.check_checksum:TRUE", "-r"])
            .arg(path)
            .args([
                "-T",
                "fields",
                "-e",
                "frame.interface_name",
                "-e",
                "_ws.malformed",
                "-e",
                "ip.checksum.status",
            ])
            .output()
            .unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for line in String::from_utf8(out.stdout).unwrap().lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            assert_eq!(fields[1..], ["", "1"], "{line}");
            *seen.entry(fields[0].into()).or_default() += 1;
        }
        for i in read(path) {
            assert_eq!(seen.get(&i.name).copied().unwrap_or(0), i.packets.len());
        }
    }
    fs::remove_dir_all(dir).unwrap();
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
