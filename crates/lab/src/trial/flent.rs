//! The run of a policy as a file of flent.

use std::io::Write as _;

use flate2::{Compression, GzBuilder};
use serde_json::{Map, Value, json};

use super::{GroupTrial, PolicyTrial, Trial};

/// Version of the format.
const VERSION: u64 = 4;
/// Time before and after TCP in a run of flent, seconds: its plots leave it out.
const DELAY: f64 = 5.0;
/// The instant of a run in virtual time.
const EPOCH: &str = "1970-01-01T00:00:00.000000Z";

/// A group of flows in one direction, with the name of their series in flent's test.
struct Way<'a> {
    /// `upload` or `download`.
    word: &'static str,
    /// The words of each flow's series, before its number.
    flow: &'static str,
    groups: Vec<&'a GroupTrial>,
}

/// Returns the shown run of a policy as a file `.flent.gz`: the throughput of each flow and of all,
/// and the median time of each group of requests in each step as a ping. The test is flent's
/// `tcp_nup`, `tcp_ndown`, `rrul_be_nflows` or `ping`, by the directions of the streams. The bytes
/// follow from the trial alone.
pub fn written(trial: &Trial, policy: &PolicyTrial) -> Vec<u8> {
    let text = json_of(trial, policy).to_string();
    // No time, so that equal runs are equal files. Writing to memory does not fail.
    let mut packed = GzBuilder::new().mtime(0).write(Vec::new(), Compression::default());
    let all = packed.write_all(text.as_bytes()).and_then(|()| packed.finish());
    all.unwrap_or_default()
}

fn json_of(trial: &Trial, policy: &PolicyTrial) -> Value {
    let of = |direction: &str| -> Vec<&GroupTrial> {
        let streams = policy.groups.iter().filter(|g| ["stream", "quic"].contains(&g.kind));
        streams.filter(|g| g.direction == direction).collect()
    };
    let (up, down) = (of("up"), of("down"));
    let (test, prefix) = match (up.is_empty(), down.is_empty()) {
        (true, true) => ("ping", ["", ""]),
        (false, true) => ("tcp_nup", ["TCP upload", "TCP download"]),
        (true, false) => ("tcp_ndown", ["TCP upload", "TCP download"]),
        (false, false) => ("rrul_be_nflows", ["TCP upload BE", "TCP download BE"]),
    };
    let ways = [
        Way { word: "upload", flow: prefix[0], groups: up },
        Way { word: "download", flow: prefix[1], groups: down },
    ];
    let steps = policy.groups.iter().map(|g| g.series.throughput_bit_s.len()).max().unwrap_or(0);
    let step = trial.step_ns as f64 / 1e9;
    let times: Vec<f64> = (1..=steps).map(|n| rounded(DELAY + n as f64 * step)).collect();
    let mut series = Map::new();
    let mut parameters = Map::new();
    for way in ways.iter().filter(|way| !way.groups.is_empty()) {
        let flows = way.put(&mut series, steps);
        parameters.insert(format!("{}_streams", way.word), flows.to_string().into());
    }
    pings(policy, &mut series, steps);
    let length = rounded(steps as f64 * step);
    // Flent has one version for a run.
    let ip_version = if trial.ipv6 { 6 } else { 4 };
    let raw: Map<String, Value> = series
        .iter()
        .map(|(name, values)| {
            let each = times.iter().zip(values.as_array().into_iter().flatten());
            let known = each.filter(|(_, v)| !v.is_null()).map(|(t, v)| json!({"t": t, "val": v}));
            (name.clone(), known.collect())
        })
        .collect();
    json!({
        "version": VERSION,
        "metadata": {
            "NAME": test, "TITLE": policy.name, "NOTE": format!("txweir try, virtual time: {}", trial.title),
            "HOST": "virtual", "HOSTS": ["virtual"], "LOCAL_HOST": "txweir", "TIME": EPOCH, "T0": EPOCH,
            "LENGTH": length, "TOTAL_LENGTH": rounded(length + 2.0 * DELAY), "STEP_SIZE": step,
            "TEST_PARAMETERS": parameters, "FLENT_VERSION": "2.3.0", "IP_VERSION": ip_version,
            "BATCH_NAME": null, "BATCH_TIME": null, "BATCH_TITLE": null, "BATCH_UUID": null,
            "DATA_FILENAME": null, "SERIES_META": {}, "EXTRA_PLOT_DATA": null,
        },
        "x_values": times,
        "results": series,
        "raw_values": raw,
    })
}

/// Rounds to a microsecond, so that sums print with few digits.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// Returns a rate in Mbit/s.
fn mega(bit_s: u64) -> f64 {
    rounded(bit_s as f64 / 1e6)
}

impl Way<'_> {
    /// Adds the series of each flow that has one, their sum and their mean; returns how many flows
    /// have one.
    fn put(&self, series: &mut Map<String, Value>, steps: usize) -> usize {
        let members: u64 = self.groups.iter().map(|g| u64::from(g.count)).sum();
        let at = |of: &[u64], i: usize| of.get(i).copied().unwrap_or(0);
        let sum: Vec<u64> =
            (0..steps).map(|i| self.groups.iter().map(|g| at(&g.series.throughput_bit_s, i)).sum()).collect();
        let mean = |n: &u64| mega(n / members.max(1));
        series.insert(format!("TCP {} sum", self.word), sum.iter().map(|n| mega(*n)).collect());
        series.insert(format!("TCP {} avg", self.word), sum.iter().map(mean).collect());
        let flows = self.groups.iter().flat_map(|g| &g.series.flows_bit_s);
        let mut number = 0;
        for flow in flows {
            number += 1;
            let values = (0..steps).map(|i| mega(at(flow, i))).collect();
            series.insert(format!("{}::{number}", self.flow), values);
        }
        number
    }
}

/// Adds the time of each group of requests. Flent's plots of a test want the first one.
fn pings(policy: &PolicyTrial, series: &mut Map<String, Value>, steps: usize) {
    let groups = policy.groups.iter().filter(|g| ["rr", "udprr"].contains(&g.kind));
    for (n, group) in groups.enumerate() {
        let name = if n == 0 { "Ping (ms) ICMP".into() } else { format!("Ping (ms) {}", group.name) };
        let at = |i: usize| group.series.latency_p50_ns.get(i).copied().flatten().map(mega);
        series.insert(name, (0..steps).map(|i| at(i).map_or(Value::Null, Value::from)).collect());
    }
}
