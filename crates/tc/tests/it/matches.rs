//! The filters that match a frame are those of Linux: `spec/filters/*.txt`, recorded by
//! `oracle/matches`.

use std::path::Path;

use txweir_core::classify::action::Run;
use txweir_core::classify::packet::{NoOutlet, Packet, PortId, Way};
use txweir_core::packet::headers::{Fragment, Headers, L3};
use txweir_core::{Instant, Meta};
use txweir_tc::Source;
use txweir_tc::memory::Memory;
use txweir_tc::tool::{Hook, Request, run};

/// Frames for which the engine differs from Linux on purpose, by a row of PARITY.md.
struct Meant {
    row: &'static str,
    frame: fn(&Headers, &[u8]) -> bool,
}

fn unhex(text: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    (0..text.len()).step_by(2).map(byte).collect()
}

/// Compares for each frame the rules that match it with those that matched it in Linux.
fn compare(name: &str, meant: &[Meant]) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/filters").join(name);
    let text = std::fs::read_to_string(file).expect("a recording");
    let rules: Vec<&str> = text.lines().filter_map(|l| l.strip_prefix("> ")).collect();
    let hook = text.lines().next().and_then(|l| l.strip_prefix("# ")).expect("a hook");
    let (way, at) =
        if hook == "ingress" { (Way::Ingress, Hook::INGRESS) } else { (Way::Egress, Hook::EGRESS) };
    let mut lines = String::from("qdisc add dev a clsact\n");
    for (number, rule) in (1..).zip(&rules) {
        let (protocol, words) = rule.split_once(' ').expect("a protocol");
        let at = format!("filter add dev a {hook} protocol {protocol} prio {number}");
        lines.push_str(&format!("{at} {words} action continue\n"));
    }
    let mut devices = Memory::new(&["a"]);
    let batch = Some(Source::new("b", lines));
    let done =
        run(&Request { args: vec!["-b".into(), "b".into()], batch, ..Request::default() }, &mut devices);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""));
    let block = devices.get("a").expect("there").block(at).expect("filters");
    let (filters, state) = devices.classify();
    let ids: Vec<_> =
        (1..=rules.len() as u32).map(|n| filters.actions.find("gact", n).expect("held")).collect();
    let (mut wrong, mut frames, mut excused) = (Vec::new(), 0, vec![0; meant.len()]);
    for line in text.lines().filter_map(|l| l.strip_prefix("= ")) {
        let mut words = line.split(' ');
        let mut frame = unhex(words.next().unwrap_or(""));
        let linux: Vec<usize> = words.map(|n| n.parse().expect("a number")).collect();
        let counted = |state: &txweir_core::classify::action::State| -> Vec<u64> {
            ids.iter().map(|id| state.memory(*id).map_or(0, |m| m.packets)).collect()
        };
        let before = counted(state);
        let headers = Headers::parse_ethernet(&frame);
        let bytes = frame.clone();
        let mut meta = Meta::new(frame.len() as u32);
        let mut packet = Packet::new(&mut frame, &mut meta, headers).at(PortId(1), way);
        let (actions, outlet) = (&filters.actions, &mut NoOutlet);
        let mut run = Run { actions, state, outlet, now: Instant::ZERO, queues: 1 };
        filters.classify(block, &mut packet, &mut run);
        let ours: Vec<usize> = (1..)
            .zip(before.iter().zip(counted(state)))
            .filter(|(_, (before, after))| *before != after)
            .map(|(number, _)| number)
            .collect();
        frames += 1;
        if ours == linux {
            continue;
        }
        if let Some(at) = meant.iter().position(|m| (m.frame)(&headers, &bytes)) {
            excused[at] += 1;
            continue;
        }
        let names = |mine: &[usize], other: &[usize]| -> Vec<&str> {
            mine.iter().filter(|n| !other.contains(n)).map(|n| rules[n - 1]).collect()
        };
        wrong.push(format!(
            "{line}\n  only Linux: {:?}\n  only here: {:?}",
            names(&linux, &ours),
            names(&ours, &linux)
        ));
    }
    assert!(wrong.is_empty(), "{} of {frames} frames\n{}", wrong.len(), wrong.join("\n"));
    for (meant, count) in meant.iter().zip(excused) {
        assert!(count > 0, "no frame shows the row {}", meant.row);
    }
}

#[test]
fn flower_matches_what_linux_matches() {
    let atomic = |h: &Headers, f: &[u8]| h.l3 == L3::Ipv6 && f[20] == 44 && h.fragment == Fragment::Whole;
    let authenticated = |h: &Headers, f: &[u8]| h.l3 == L3::Ipv4 && f[23] == 51;
    compare(
        "flower.txt",
        &[
            Meant { row: "flower-atomic-fragment", frame: atomic },
            Meant { row: "flower-authentication", frame: authenticated },
        ],
    );
}

#[test]
fn basic_matches_what_linux_matches() {
    let not_ip = |h: &Headers, _: &[u8]| matches!(h.ethertype, 0x8847 | 0x8848 | 0x8864);
    compare("basic.txt", &[Meant { row: "ematch-transport", frame: not_ip }]);
}
