//! The course of groups of traffic and of transmit sides over time, and their distributions, as
//! tables. A scenario's run and each policy of a trial have the same.

use serde_json::{Value, json};
use txweir_lab::trial::{ClassTrial, DeviceTrial, GroupTrial, StageTrial};

use crate::columns::{Column, Kind, Long, rows};
use crate::error::Wrong;
use crate::table::Table;

/// A transmit side: a direction of a link, the bottleneck of a trial, an ifb.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its qdiscs.
    pub classes: &'a [ClassTrial],
    /// Its device, if it has one.
    pub device: Option<&'a DeviceTrial>,
    /// The stages of a packet's time.
    pub stages: &'a [StageTrial],
}

/// The tables.
#[derive(Clone, Debug)]
pub struct Series {
    /// Quantities in each step of the run.
    pub samples: Table,
    /// Throughput of single flows in each step.
    pub flows: Table,
    /// Latency of each group at each whole percent.
    pub latency: Table,
    /// Time of packets in each stage.
    pub stages: Table,
    /// Qdiscs and classes.
    pub classes: Table,
}

/// Columns of the stages.
const STAGES: &[Column] = &[
    ("object", Kind::Text, &["object"]),
    ("stage", Kind::Text, &["stage"]),
    ("mean_ns", Kind::Whole, &["mean_ns"]),
    ("p50_ns", Kind::Whole, &["p50_ns"]),
    ("p95_ns", Kind::Whole, &["p95_ns"]),
    ("p99_ns", Kind::Whole, &["p99_ns"]),
    ("max_ns", Kind::Whole, &["max_ns"]),
];

/// Columns of the qdiscs and classes.
const CLASSES: &[Column] = &[
    ("object", Kind::Text, &["object"]),
    ("handle", Kind::Text, &["handle"]),
    ("parent", Kind::Text, &["parent"]),
    ("kind", Kind::Text, &["kind"]),
    ("qdisc", Kind::Text, &["qdisc"]),
    ("sent_packets", Kind::Whole, &["sent_packets"]),
    ("sent_bytes", Kind::Whole, &["sent_bytes"]),
    ("throughput_bit_s", Kind::Whole, &["throughput_bit_s"]),
    ("dropped_packets", Kind::Whole, &["dropped"]),
    ("marked_packets", Kind::Whole, &["marked"]),
    ("backlog_mean_bytes", Kind::Whole, &["backlog_bytes", "mean"]),
    ("backlog_max_bytes", Kind::Whole, &["backlog_bytes", "max"]),
];

/// Rows of `samples`: section, object, part and metric; the begin of the step; the value.
type Samples = Long<4, 1>;

/// Adds a series, whose steps are so long.
fn add(to: &mut Samples, names: [&str; 4], step_ns: u64, values: impl Iterator<Item = Option<u64>>) {
    for (number, value) in (0..).zip(values) {
        to.add(names, [step_ns * number], value.map(|v| v as f64));
    }
}

fn some(values: &[u64]) -> impl Iterator<Item = Option<u64>> {
    values.iter().copied().map(Some)
}

/// Returns an object with the name of its side.
fn of_side(name: &str, one: &impl serde::Serialize) -> Value {
    let mut value = serde_json::to_value(one).unwrap_or_default();
    value["object"] = json!(name);
    value
}

impl Series {
    /// Makes the tables of groups, each with its name, and of sides.
    pub fn new(groups: &[(&str, &GroupTrial)], sides: &[Side<'_>], step_ns: u64) -> Result<Self, Wrong> {
        let (mut samples, mut flows, mut latency) =
            (Samples::default(), Long::<1, 3>::default(), Long::<1, 2>::default());
        for (name, group) in groups {
            let series = &group.series;
            let mut add = |metric: &str, values: &mut dyn Iterator<Item = Option<u64>>| {
                add(&mut samples, ["traffic", name, "", metric], step_ns, values);
            };
            add("throughput_bit_s", &mut some(&series.throughput_bit_s));
            add("latency_p50_ns", &mut series.latency_p50_ns.iter().copied());
            add("latency_p99_ns", &mut series.latency_p99_ns.iter().copied());
            for (flow, values) in (0..).zip(&series.flows_bit_s) {
                for (number, value) in (0..).zip(values) {
                    flows.add([name], [flow, step_ns * number, *value], None);
                }
            }
            for (percent, time) in (0..).zip(&group.latency_percents_ns) {
                latency.add([name], [percent, *time], None);
            }
        }
        let (mut stages, mut classes) = (Vec::new(), Vec::new());
        for side in sides {
            let mut add = |part: &str, metric: &str, values: &mut dyn Iterator<Item = Option<u64>>| {
                add(&mut samples, ["links", side.name, part, metric], step_ns, values);
            };
            if let Some(device) = side.device {
                add("ring", "ring_bytes", &mut some(&device.series.ring_bytes));
            }
            for stage in side.stages {
                add(stage.stage, "p50_ns", &mut stage.series.p50_ns.iter().copied());
                add(stage.stage, "p99_ns", &mut stage.series.p99_ns.iter().copied());
                stages.push(of_side(side.name, stage));
            }
            for class in side.classes {
                let series = &class.series;
                add(&class.handle, "throughput_bit_s", &mut some(&series.throughput_bit_s));
                add(&class.handle, "backlog_bytes", &mut some(&series.backlog_bytes));
                add(&class.handle, "drops", &mut some(&series.drops));
                let mut value = of_side(side.name, class);
                value["dropped"] = json!(class.drops.values().sum::<u64>());
                value["marked"] = json!(class.marks.values().sum::<u64>());
                classes.push(value);
            }
        }
        Ok(Self {
            samples: samples.table(["section", "object", "part", "metric"], ["time_ns"], Some("value"))?,
            flows: flows.table(["object"], ["flow", "time_ns", "throughput_bit_s"], None)?,
            latency: latency.table(["object"], ["percent", "latency_ns"], None)?,
            stages: rows(STAGES, &stages.iter().collect::<Vec<_>>())?,
            classes: rows(CLASSES, &classes.iter().collect::<Vec<_>>())?,
        })
    }
}
