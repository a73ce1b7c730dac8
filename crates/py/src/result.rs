//! `txweir.Result`: the measurements of a scenario's run, as tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StringArray};
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use serde_json::Value;
use txweir_core::Ecn;
use txweir_lab::link::Fate;
use txweir_lab::page::Page;
use txweir_lab::passed::{PacketLog, Passed};
use txweir_lab::report::{Report, told_apart};
use txweir_lab::sweep::measurements;

use crate::columns::{Column, Kind, Long, rows};
use crate::error::Wrong;
use crate::series::{Series, Side};
use crate::table::Table;

use Kind::{Count, Number, Text, Whole};

/// Columns of the groups of traffic. Those of other kinds of traffic are empty.
const TRAFFIC: &[Column] = &[
    ("name", Text, &["name"]),
    ("from", Text, &["from"]),
    ("to", Text, &["to"]),
    ("kind", Text, &["kind"]),
    ("count", Whole, &["count"]),
    ("throughput_bit_s", Whole, &["throughput_bit_s"]),
    ("jain", Number, &["jain"]),
    ("retransmitted_bytes", Whole, &["retransmitted_bytes"]),
    ("transactions", Whole, &["transactions"]),
    ("transactions_per_s", Number, &["transactions_per_s"]),
    ("latency_count", Whole, &["latency", "count"]),
    ("latency_mean_ns", Whole, &["latency", "mean_ns"]),
    ("latency_p50_ns", Whole, &["latency", "p50_ns"]),
    ("latency_p95_ns", Whole, &["latency", "p95_ns"]),
    ("latency_p99_ns", Whole, &["latency", "p99_ns"]),
    ("latency_max_ns", Whole, &["latency", "max_ns"]),
    ("delay_count", Whole, &["delay", "count"]),
    ("delay_mean_ns", Whole, &["delay", "mean_ns"]),
    ("delay_p50_ns", Whole, &["delay", "p50_ns"]),
    ("delay_p95_ns", Whole, &["delay", "p95_ns"]),
    ("delay_p99_ns", Whole, &["delay", "p99_ns"]),
    ("delay_max_ns", Whole, &["delay", "max_ns"]),
    ("packets_sent", Whole, &["packets", "sent"]),
    ("packets_received", Whole, &["packets", "received"]),
    ("packets_lost", Whole, &["packets", "lost"]),
    ("packets_refused", Whole, &["packets", "refused"]),
    ("packets_reordered", Whole, &["packets", "reordered"]),
    ("flows_opened", Whole, &["flows", "opened"]),
    ("flows_finished", Whole, &["flows", "finished"]),
    ("flows_failed", Whole, &["flows", "failed"]),
    ("flows_turned_away", Whole, &["flows", "turned_away"]),
    ("flows_open", Whole, &["flows", "open"]),
    ("completion_count", Whole, &["flows", "completion", "count"]),
    ("completion_mean_ns", Whole, &["flows", "completion", "mean_ns"]),
    ("completion_p50_ns", Whole, &["flows", "completion", "p50_ns"]),
    ("completion_p95_ns", Whole, &["flows", "completion", "p95_ns"]),
    ("completion_p99_ns", Whole, &["flows", "completion", "p99_ns"]),
    ("completion_max_ns", Whole, &["flows", "completion", "max_ns"]),
    ("voice_late", Whole, &["voice", "late"]),
    ("voice_unplayed", Number, &["voice", "unplayed"]),
    ("voice_jitter_ns", Whole, &["voice", "jitter_ns"]),
    ("voice_mouth_to_ear_ns", Whole, &["voice", "mouth_to_ear_ns"]),
    ("voice_r", Number, &["voice", "r"]),
    ("voice_mos", Number, &["voice", "mos"]),
    ("video_frames", Whole, &["video", "frames"]),
    ("video_delivered", Whole, &["video", "delivered"]),
    ("video_frames_late", Whole, &["video", "frames_late"]),
    ("frame_delay_count", Whole, &["video", "frame_delay", "count"]),
    ("frame_delay_mean_ns", Whole, &["video", "frame_delay", "mean_ns"]),
    ("frame_delay_p50_ns", Whole, &["video", "frame_delay", "p50_ns"]),
    ("frame_delay_p95_ns", Whole, &["video", "frame_delay", "p95_ns"]),
    ("frame_delay_p99_ns", Whole, &["video", "frame_delay", "p99_ns"]),
    ("frame_delay_max_ns", Whole, &["video", "frame_delay", "max_ns"]),
    ("questions_asked", Whole, &["questions", "asked"]),
    ("questions_failed", Whole, &["questions", "failed"]),
    ("questions_again", Whole, &["questions", "again"]),
];

/// Columns of the directions of links.
const LINKS: &[Column] = &[
    ("from", Text, &["from"]),
    ("to", Text, &["to"]),
    ("rate_bit_s", Whole, &["rate_bit_s"]),
    ("tx_packets", Whole, &["tx_packets"]),
    ("tx_bytes", Whole, &["tx_bytes"]),
    ("utilisation", Number, &["utilisation"]),
    ("direct", Whole, &["direct"]),
    ("queued", Whole, &["queued"]),
    ("stops_ring", Whole, &["stops_ring"]),
    ("stops_bql", Whole, &["stops_bql"]),
    ("full", Whole, &["full"]),
    ("stolen", Count, &["stolen"]),
    ("turned_away", Count, &["turned_away"]),
    ("lost", Whole, &["lost"]),
    ("late", Whole, &["late"]),
];

/// Columns of the queues before them.
const QUEUES: &[Column] = &[
    ("from", Text, &["from"]),
    ("to", Text, &["to"]),
    ("qdisc", Text, &["qdisc"]),
    ("backlog_mean_bytes", Whole, &["backlog_bytes", "mean"]),
    ("backlog_max_bytes", Whole, &["backlog_bytes", "max"]),
    ("ring_mean_bytes", Whole, &["ring_bytes", "mean"]),
    ("ring_max_bytes", Whole, &["ring_bytes", "max"]),
    ("bql_limit_bytes", Whole, &["bql_limit"]),
    ("completion_interval_ns", Whole, &["completion_interval_ns"]),
];

/// The measurements of a run, before Python has them.
#[derive(Debug)]
pub struct Measured {
    text: String,
    json: String,
    seed: u64,
    notes: String,
    tables: BTreeMap<&'static str, Table>,
}

impl Measured {
    /// Makes the tables of a run.
    pub fn of(report: &Report, page: &Page, log: Option<&PacketLog>) -> std::result::Result<Self, Wrong> {
        let mut long = Long::<3, 0>::default();
        let all = measurements(report);
        for one in &all {
            long.add([&one.section, &one.object, &one.metric], [], Some(one.value));
        }
        let value = serde_json::to_value(report).unwrap_or_default();
        let list = |section: &str| -> Vec<&Value> {
            value.get(section).and_then(Value::as_array).into_iter().flatten().collect()
        };
        let mut drops = Long::<3, 1>::default();
        let ways: Vec<[String; 2]> = (page.ways.iter())
            .map(|way| way.name.replace(" -> ", "."))
            .map(|name| [name.clone(), name])
            .collect();
        let ways = told_apart(&ways);
        for (way, name) in page.ways.iter().zip(&ways) {
            for (fate, counts) in [("drop", &way.drops), ("mark", &way.marks)] {
                for (reason, packets) in counts {
                    drops.add([name, fate, reason], [*packets], None);
                }
            }
        }
        let mut objects: Vec<&str> =
            all.iter().filter(|one| one.section == "traffic").map(|one| one.object.as_str()).collect();
        objects.dedup();
        let groups = page.policies.iter().flat_map(|policy| &policy.groups);
        // The report has the groups in the same order, if it has them at all.
        let groups: Vec<(&str, _)> = (groups.enumerate())
            .map(|(n, group)| (objects.get(n).copied().unwrap_or(&group.name), group))
            .collect();
        let sides: Vec<Side<'_>> = (page.ways.iter().zip(&ways))
            .map(|(way, name)| Side {
                name,
                classes: &way.classes,
                device: Some(&way.device),
                stages: &way.stages,
            })
            .collect();
        let series = Series::new(&groups, &sides, page.step_ns)?;
        let Series { samples, flows, latency, stages, classes } = series;
        let mut measured = Self {
            text: report.to_string(),
            json: report.json(),
            seed: report.seed,
            notes: page.about.clone(),
            tables: BTreeMap::from([
                ("traffic", rows(TRAFFIC, &list("traffic"))?),
                ("links", rows(LINKS, &list("links"))?),
                ("queues", rows(QUEUES, &list("queues"))?),
                ("drops", drops.table(["object", "fate", "reason"], ["packets"], None)?),
                ("measurements", long.table(["section", "object", "metric"], [], Some("value"))?),
                ("samples", samples),
                ("flows", flows),
                ("latency", latency),
                ("stages", stages),
                ("classes", classes),
            ]),
        };
        if let Some(log) = log {
            measured.tables.insert("packets", packets(log)?);
        }
        Ok(measured)
    }
}

/// Makes the table of the packets that a log has, and empties the log.
fn packets(log: &PacketLog) -> std::result::Result<Table, Wrong> {
    let (all, ways) = (log.take(), log.ways());
    let ways: Vec<String> = ways.iter().map(|name| name.replace(" -> ", ".")).collect();
    let whole = |of: fn(&Passed) -> u64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(all.iter().map(|p| of(p).cast_signed())))
    };
    let words = |of: fn(&Passed) -> &'static str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(all.iter().map(of)))
    };
    let links = all.iter().map(|p| ways.get(p.way as usize).map_or("", String::as_str));
    let links: ArrayRef = Arc::new(StringArray::from_iter_values(links));
    let fate: fn(&Passed) -> &'static str = |p| match p.fate {
        Fate::Arrives => "arrives",
        Fate::Lost => "lost",
        Fate::Late(_) => "late",
    };
    let ecn: fn(&Passed) -> &'static str = |p| match p.ecn {
        Ecn::NotEct => "not-ect",
        Ecn::Ect1 => "ect1",
        Ecn::Ect0 => "ect0",
        Ecn::Ce => "ce",
    };
    Table::of_arrays(vec![
        ("object", links),
        ("protocol", words(|p| if p.udp { "udp" } else { "tcp" })),
        ("ecn", words(ecn)),
        ("fate", words(fate)),
        ("source_port", whole(|p| p.ports[0].into())),
        ("destination_port", whole(|p| p.ports[1].into())),
        ("packet", whole(|p| p.id)),
        ("sent_ns", whole(|p| p.sent.0)),
        ("time_ns", whole(|p| p.at.0)),
        ("length_bytes", whole(|p| p.bytes.into())),
    ])
}

/// The measurements of a run of a scenario, from the end of the warm-up on; `samples`, `flows` and
/// `packets` are from the very start.
#[pyclass(frozen, module = "txweir")]
#[derive(Debug)]
pub struct Result {
    text: String,
    json: String,
    /// The seed of the run.
    #[pyo3(get)]
    seed: u64,
    /// The parts that the tables leave out; empty if nothing.
    #[pyo3(get)]
    notes: String,
    tables: BTreeMap<String, Py<Table>>,
}

impl Result {
    /// Makes the object.
    pub fn new(py: Python<'_>, measured: Measured) -> PyResult<Self> {
        let Measured { text, json, seed, notes, tables } = measured;
        let own = |(name, table): (&str, Table)| Ok((name.to_owned(), Py::new(py, table)?));
        Ok(Self { text, json, seed, notes, tables: tables.into_iter().map(own).collect::<PyResult<_>>()? })
    }

    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Py<Table>> {
        let found = self.tables.get(name).map(|table| table.clone_ref(py));
        found.ok_or_else(|| {
            PyAttributeError::new_err(format!("this result has no {name}: run(packets=True) keeps them"))
        })
    }
}

/// Words of a result: the text, the JSON, the notes.
type Said = (String, String, String);

/// Makes a result of its parts, for `pickle`.
#[pyfunction]
pub fn result(words: Said, seed: u64, tables: BTreeMap<String, Py<Table>>) -> Result {
    let (text, json, notes) = words;
    Result { text, json, seed, notes, tables }
}

#[pymethods]
impl Result {
    /// Groups of traffic, a row for each.
    #[getter]
    fn traffic(&self, py: Python<'_>) -> PyResult<Py<Table>> {
        self.table(py, "traffic")
    }
    /// Directions of links.
    #[getter]
    fn links(&self, py: Python<'_>) -> PyResult<Py<Table>> {
        self.table(py, "links")
    }
    /// Queues before directions of links.
    #[getter]
    fn queues(&self, py: Python<'_>) -> PyResult<Py<Table>> {
        self.table(py, "queues")
    }
    /// Packets that the queues dropped or marked, by reason.
    #[getter]
    fn drops(&self, py: Python<'_>) -> PyResult<Py<Table>> {
        self.table(py, "drops")
    }
    /// All numbers of the report, a row for each, as a sweep's table has them.
    #[getter]
    fn measurements(&self, py: Python<'_>) -> PyResult<Py<Table>> {
        self.table(py, "measurements")
    }
    /// Quantities over time: in each hundredth of the run, from its begin at `time_ns` on.
    #[getter]
    fn samples(&self, py: Python<'_>) -> PyResult<Py<Table>> {
        self.table(py, "samples")
    }
    /// Throughput of the first 16 flows of each group of streams over time.
    #[getter]
    fn flows(&self, py: Python<'_>) -> PyResult<Py<Table>> {
        self.table(py, "flows")
    }
    /// Latency of each group of traffic at each whole percent.
    #[getter]
    fn latency(&self, py: Python<'_>) -> PyResult<Py<Table>> {
        self.table(py, "latency")
    }
    /// Time of packets in the stages of each direction of a link.
    #[getter]
    fn stages(&self, py: Python<'_>) -> PyResult<Py<Table>> {
        self.table(py, "stages")
    }
    /// Qdiscs and classes of each direction of a link.
    #[getter]
    fn classes(&self, py: Python<'_>) -> PyResult<Py<Table>> {
        self.table(py, "classes")
    }
    /// Packets, each as it leaves a wire; only of a run with `packets=True`. `packet` is the same
    /// on each link of a packet's way.
    #[getter]
    fn packets(&self, py: Python<'_>) -> PyResult<Py<Table>> {
        self.table(py, "packets")
    }

    /// One number of the report: of a section (`traffic`, `links`, `queues`) and an object in it,
    /// by its metric, as `measurements` names them.
    fn value(&self, py: Python<'_>, section: &str, object: &str, metric: &str) -> PyResult<f64> {
        let keys = [("section", section), ("object", object), ("metric", metric)];
        let table = self.table(py, "measurements")?;
        table.get().one(&keys, "value").map_err(|e| e.raised(py))
    }

    /// The report as JSON.
    fn to_json(&self) -> &str {
        &self.json
    }

    /// The report as `txweir lab run` prints it.
    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        format!("<txweir.Result of seed {}>", self.seed)
    }

    fn _repr_html_(&self) -> String {
        format!("<pre>{}</pre>", txweir_lab::trial::html::escaped(&self.text))
    }

    #[allow(clippy::type_complexity, reason = "the form that pickle asks for")]
    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, (Said, u64, BTreeMap<String, Py<Table>>))> {
        let tables = self.tables.iter().map(|(name, table)| (name.clone(), table.clone_ref(py))).collect();
        let made = py.import("txweir._native")?.getattr("result")?;
        let words = (self.text.clone(), self.json.clone(), self.notes.clone());
        Ok((made, (words, self.seed, tables)))
    }
}
