//! Each packet matches the same filter as in Linux: `spec/filters/*.jsonl`, recorded by
//! `oracle/classify`.

use std::path::Path;

use serde_json::Value;
use txweir_core::classify::action::{Actions, State};
use txweir_core::classify::packet::{NoOutlet, Packet, PortId, Way};
use txweir_core::classify::{action::Run, filter::Verdict};
use txweir_core::packet::headers::Headers;
use txweir_core::{Env, Instant, Meta};
use txweir_tc::Source;
use txweir_tc::memory::{Memory, MemoryDevice};
use txweir_tc::tool::{Hook, Request, run};

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
    (0..hex.len()).step_by(2).map(byte).collect()
}

fn line(devices: &mut Memory, line: &str) -> u8 {
    // In a batch, quotes join words.
    let args = ["-b", "b"].map(String::from).to_vec();
    let text = format!("{line}\n");
    run(&Request { args, batch: Some(Source::new("b", &text)), ..Request::default() }, devices).status
}

/// Returns the class of a packet, or the index of the action that ran on it; 0 if no filter
/// decides.
fn classify(devices: &mut Memory, mark: u32, frame: &str) -> u32 {
    let Some(block) = devices.get("lan").and_then(|lan| lan.block(Hook::EGRESS)) else { return 0 };
    let mut frame = bytes(frame);
    let mut meta = Meta::new(u32::try_from(frame.len()).expect("a packet"));
    meta.mark = mark;
    let headers = Headers::parse_ethernet(&frame);
    let mut packet = Packet::new(&mut frame, &mut meta, headers).at(PortId(1), Way::Egress);
    let (filters, state) = devices.classify();
    filters.fit(state);
    let now = Instant::from_secs(1);
    let mut run = Run { actions: &filters.actions, state, outlet: &mut NoOutlet, now, queues: 1 };
    match filters.classify(block, &mut packet, &mut run) {
        Verdict::Unmatched => 0,
        Verdict::Class(class) => match done(&filters.actions, state) {
            0 => u32::from(class.minor()),
            index => index,
        },
        other => panic!("{other:?}"),
    }
}

/// Returns the index of the action that ran on the last packet, and resets the counters.
fn done(actions: &Actions, state: &mut State) -> u32 {
    let used = |id| state.counted(actions, id).used.is_some();
    let index = actions.of_kind("gact").find(|(id, _)| used(*id)).map_or(0, |(_, entry)| entry.index);
    *state = State::new(1);
    index
}

/// Compares all cases of a file: the status of each line is zero exactly if it is in Linux, and
/// each packet has the same class.
fn compare(name: &str, by_action: bool) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/filters").join(name);
    let text = std::fs::read_to_string(path).expect("cases");
    let (mut decided, mut undecided) = (0, 0);
    for (number, case) in text.lines().enumerate() {
        let case: Value = serde_json::from_str(case).expect("a case");
        let list = |key: &str| case[key].as_array().expect("a list").clone();
        let mut devices = Memory::default().with(MemoryDevice::new("lan", 1, Env::default()));
        assert_eq!(line(&mut devices, "qdisc add dev lan clsact"), 0);
        for (filter, said) in list("filters").iter().zip(list("said")) {
            let filter = filter.as_str().expect("a line");
            let filter = match by_action {
                true => with_action(filter),
                false => filter.into(),
            };
            let status = line(&mut devices, &format!("filter add dev lan egress {filter}"));
            assert_eq!(status == 0, said == 0, "case {}: {filter}", number + 1);
        }
        for (packet, class) in list("packets").iter().zip(list("classes")) {
            let mark = u32::try_from(packet[0].as_u64().expect("a mark")).expect("of 32 bits");
            let frame = packet[1].as_str().expect("a frame");
            let linux = u32::try_from(class.as_u64().expect("a class")).expect("of 32 bits");
            let ours = classify(&mut devices, mark, frame);
            assert_eq!(ours, linux, "case {}: mark {mark:#x}, {frame}", number + 1);
            *(if linux == 0 { &mut undecided } else { &mut decided }) += 1;
        }
    }
    assert!(decided > 100 && undecided > 100, "{decided} {undecided}");
}

/// Returns the line with an action in place of the class; the index of the action is the minor
/// number of the class.
fn with_action(line: &str) -> String {
    let (before, class) = line.rsplit_once("flowid 1:").expect("a class");
    let class = u32::from_str_radix(class, 16).expect("hexadecimal");
    format!("{before}action gact pass index {class}")
}

#[test]
fn u32_finds_what_linux_finds() {
    compare("u32.jsonl", false);
}

#[test]
fn fw_finds_what_linux_finds() {
    compare("fw.jsonl", false);
}

#[test]
fn bpf_finds_what_linux_finds() {
    // A program may return a class of its own, so that only the action identifies the filter.
    compare("bpf.jsonl", true);
}
