//! Runs of the matrix packet by packet: the first departures from the policy in Linux leave it here
//! at the same times. `oracle/tcp/departures` wrote the file.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use txweir_lab::recorded::matrix;

/// Largest difference of times, microseconds: as in packet-exact cases.
const BAND_US: u64 = 100;

/// The first packets of a run, in the order in which they left the policy.
#[derive(Deserialize)]
struct First {
    name: String,
    dt_us: Vec<u64>,
    /// Flows, if there are several.
    #[serde(default)]
    flow: Vec<u32>,
    /// Numbers relative to the SYN of the flow.
    seq: Vec<u32>,
    len: Vec<u32>,
}

/// Returns the run of this name.
fn run(name: &str) -> matrix::Run {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/tcp");
    ["seen", "held"]
        .into_iter()
        .flat_map(|set| fs::read_dir(folder.join(set)).unwrap())
        .flat_map(|f| matrix::read(&fs::read_to_string(f.unwrap().path()).unwrap()).unwrap())
        .find(|r| r.name == name)
        .expect("the run is recorded")
}

#[test]
fn packets_leave_the_policy_when_they_left_it_in_linux() {
    let text = include_str!("departures.jsonl");
    let mut runs = 0;
    for first in text.lines().map(|l| serde_json::from_str::<First>(l).unwrap()) {
        let here = run(&first.name).packets(1).unwrap();
        let mut syns = HashMap::new();
        let mut at_us = 0;
        for (i, packet) in here.iter().take(first.seq.len()).enumerate() {
            at_us += first.dt_us[i];
            let syn = *syns.entry(packet.flow).or_insert(packet.seq);
            let (seq, left_us) = (packet.seq.wrapping_sub(syn), packet.at.0 / 1_000);
            let flow = first.flow.get(i).copied().unwrap_or(0);
            let same = (packet.flow, seq, packet.len) == (flow, first.seq[i], first.len[i]);
            assert!(
                same && left_us.abs_diff(at_us) <= BAND_US,
                "{}: packet {i}: there {at_us} us, {} bytes from {}; here {left_us} us, {} bytes from {seq}",
                first.name,
                first.len[i],
                first.seq[i],
                packet.len
            );
        }
        assert!(here.len() > first.seq.len());
        runs += 1;
    }
    assert_eq!(runs, 10);
}
