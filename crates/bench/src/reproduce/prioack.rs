//! TCP control segments first: "altq: Implement two level "rough" priority queue for plain
//! sub-queue", Sepherosa Ziehau, DragonFly BSD, commit 4cc8caef, June 2013.

use txweir_core::{Instant, Nanos};

use super::dragonfly::{Machine, Setup};
use super::plot::{Panel, Plot};
use super::{Band, Experiment, Extent, Headline, Place, Published, Row, each};

const NAME: &str = "prio-ack";

/// Most segments on the way of a stream: a send buffer of 32 KB, on all hosts. Fitted on the
/// connections of "no TSO, on".
const WINDOW: u32 = 22;
/// Segments that A acknowledges at a time: fitted on the bulk rate beside streams, because its ACKs
/// take a part of the line.
const EVERY: u32 = 4;
/// Processor time of a thread for each of the three messages of a connection: fitted on the
/// connections of a machine without other work.
const STEP_COST: Nanos = Nanos(11_960);
/// Packets of a ring's queue. Fitted on the connections of "no TSO, off": a queue that the windows
/// make overflow loses SYN-ACKs, and each costs its client 3 s.
const LIMIT: u32 = 1000;
/// Hundredths of descriptors: a full frame without TSO is a header and a payload over two clusters,
/// a unit of four segments a header and three clusters.
const DESCRIPTORS: [u32; 2] = [300, 400];

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "what it is worth that SYN-ACKs and pure ACKs go first, beside 128 bulk streams on four rings",
    sources: &[
        "Published: DragonFly BSD, commit 4cc8caef, \"altq: Implement two level \"rough\" priority queue for plain sub-queue\",",
        "Sepherosa Ziehau, June 2013. \"on\" and \"off\" are net.inet.tcp.prio_synack. \"bulk\" counts headers,",
        "\"stream\" does not. Bands: connections and their ratios +-15 %, stream and its ratios +-3 %, bulk +-1 %.",
        "From the source: 1 Gbit/s, 4 rings in turn by TSO unit, 128 streams, 768 clients, the queue (core's rough, df2013).",
        "From DragonFly: 512 descriptors, units of 6000 B (4 segments), 8 protocol threads of i7-2600 with HT.",
        "Fitted: window (22 segments, 32 KB) on the connections of \"no TSO, on\"; segments per ACK of A (4) on \"bulk\" of",
        "\"stream, TSO, on\"; processor time per connection (3 x 11.96 us) on the connections alone; packets per queue",
        "(1000, which never overflow) on the connections of \"no TSO, off\". Every other row is predicted.",
        "Not in the source, and assumed: TCP_CC as netperf has it (the server closes first, the client waits for it); 3 and 4",
        "descriptors for a frame and a unit; streams evenly over threads; C without TSO; 50 us each way beside queues; the lab's",
        "TCP as of RFC 6675, 3 s for a SYN. Of other rings and queues nothing is published.",
    ],
    headline: Headline {
        about: "connections/s, ACKs in turn -> first",
        places: [
            Place { row: "connections, TSO: off", metric: "conns" },
            Place { row: "connections, TSO: on", metric: "conns" },
        ],
        between: " -> ",
    },
    plot: &PLOT,
    run,
};

const PLOT: Plot = Plot {
    panels: &[
        Panel { title: "connections per second", metrics: &["conns"], spread: None, log: false, share: 2 },
        Panel { title: "stream, Mbit/s", metrics: &["stream"], spread: None, log: false, share: 1 },
        Panel { title: "bulk, Mbit/s", metrics: &["bulk"], spread: None, log: false, share: 1 },
    ],
    // On the scale of a machine without other work the other rows would vanish.
    without: &["connections"],
};

/// The traffic beside the bulk streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Connections,
    Streams,
}

fn setup(bulk: bool, beside: Option<Beside>, tso: bool, on: bool) -> Setup {
    Setup {
        senders: if bulk { 128 } else { 0 },
        receivers: if beside == Some(Beside::Streams) { 128 } else { 0 },
        clients: if beside == Some(Beside::Connections) { 768 } else { 0 },
        unit: [if tso { 4 } else { 1 }, 1],
        windows: [WINDOW; 2],
        prio: on,
        fairsend: 4,
        threads: 8,
        rings: 4,
        ring: 512,
        descriptors: DESCRIPTORS,
        limit: LIMIT,
        write: 1,
        late: Nanos(0),
        every: [EVERY, 2],
        costs: [Nanos(1_500), Nanos(500), STEP_COST],
        seed: 1,
    }
}

/// Rates between the second second and the fifth.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rates {
    /// Mbit/s, headers included.
    bulk: f64,
    /// Per second.
    conns: f64,
    /// Mbit/s.
    stream: f64,
}

fn rates(s: Setup) -> Result<Rates, String> {
    let mut machine = Machine::new(s)?;
    machine.run(Instant::from_millis(2_000));
    machine.take();
    machine.run(Instant::from_millis(5_000));
    let done = machine.take();
    let mbit = |bytes: u64| bytes as f64 * 8.0 / 3.0 / 1e6;
    let conns = done.connections as f64 / 3.0;
    Ok(Rates { bulk: mbit(done.sent), conns, stream: mbit(done.received) })
}

fn row(row: String, metric: &'static str, published: Option<f64>, measured: f64) -> Row {
    let (unit, band) = match metric {
        "conns" => ("1/s", Band::Percent(15.0)),
        "stream" => ("Mbit/s", Band::Percent(3.0)),
        "bulk" => ("Mbit/s", Band::Percent(1.0)),
        _ => ("times", Band::Percent(15.0)),
    };
    let published = published.map(Published::one);
    Row { published, band, ..Row::measured(NAME, row, (metric, unit), measured) }
}

/// Runs each traffic alone.
fn alone() -> Result<[Row; 3], String> {
    let runs = [(true, None), (false, Some(Beside::Streams)), (false, Some(Beside::Connections))];
    let got = each(runs.len(), |i| rates(setup(runs[i].0, runs[i].1, true, true)))?;
    let name = |what: &str| format!("alone: {what}");
    let fitted = Some("processor time");
    Ok([
        row(name("bulk"), "bulk", Some(984.0), got[0].bulk),
        row(name("stream"), "stream", Some(942.0), got[1].stream),
        Row { fitted, ..row(name("connections"), "conns", Some(221_199.0), got[2].conns) },
    ])
}

/// The traffic beside, TSO, and for the knob on and off the published rates of bulk and of that
/// traffic.
type Case = (Beside, bool, [[f64; 2]; 2]);

const CASES: [Case; 4] = [
    (Beside::Connections, true, [[948.0, 15_988.0], [965.0, 8_867.0]]),
    (Beside::Connections, false, [[943.0, 18_128.0], [959.0, 11_371.0]]),
    (Beside::Streams, true, [[969.0, 920.0], [969.0, 865.0]]),
    (Beside::Streams, false, [[969.0, 920.0], [969.0, 879.0]]),
];

/// Returns the rows of a case; `knob` is the value of the knob in the rows named "on".
fn case(&(beside, tso, published): &Case, knob: bool) -> Result<Vec<Row>, String> {
    let (what, metric) = match beside {
        Beside::Connections => ("connections", "conns"),
        Beside::Streams => ("stream", "stream"),
    };
    let group = format!("{what}, {}", if tso { "TSO" } else { "no TSO" });
    let mut rows = Vec::new();
    let mut both = [0.0; 2];
    let runs = each(2, |i| rates(setup(true, Some(beside), tso, knob && i == 0)))?;
    for (i, (on, got)) in [true, false].into_iter().zip(runs).enumerate() {
        both[i] = if beside == Beside::Connections { got.conns } else { got.stream };
        let name = format!("{group}: {}", if on { "on" } else { "off" });
        let mut bulk = row(name.clone(), "bulk", Some(published[i][0]), got.bulk);
        let mut its = row(name, metric, Some(published[i][1]), both[i]);
        match (beside, tso, on) {
            (Beside::Connections, false, true) => its.fitted = Some("window"),
            (Beside::Connections, false, false) => its.fitted = Some("packets per queue"),
            (Beside::Streams, true, true) => bulk.fitted = Some("segments per ACK"),
            _ => {}
        }
        rows.extend([bulk, its]);
    }
    let ratio = published[0][1] / published[1][1];
    let ratio = row(format!("{group}: off"), "on over off", Some(ratio), both[0] / both[1]);
    rows.push(match beside {
        Beside::Connections => Row { fitted: (!tso).then_some("both rates"), ..ratio },
        // The published gains of 5 and 6 % are told from none.
        Beside::Streams => Row { band: Band::Percent(3.0), ..ratio },
    });
    Ok(rows)
}

/// Returns rows of connections without a published value: rings of several depths, because the
/// priority is rougher the deeper they are; queues that overflow (512 packets and 16 for each of 8
/// processors); and windows between those that would fit either half.
fn unpublished() -> Result<Vec<Row>, String> {
    let mut jobs: Vec<(String, Setup)> = Vec::new();
    let mut both = |group: &str, of: &dyn Fn(bool) -> Setup| {
        jobs.extend([(true, "on"), (false, "off")].map(|(on, name)| (format!("{group}: {name}"), of(on))));
    };
    let connections = |tso, on| setup(true, Some(Beside::Connections), tso, on);
    both("rings of 64, TSO", &|on| Setup { ring: 64, ..connections(true, on) });
    both("rings of 256, TSO", &|on| Setup { ring: 256, ..connections(true, on) });
    both("rings of 2048, TSO", &|on| Setup { ring: 2048, ..connections(true, on) });
    both("queues of 640, no TSO", &|on| Setup { limit: 640, ..connections(false, on) });
    both("windows of 24, TSO", &|on| Setup { windows: [24; 2], ..connections(true, on) });
    both("windows of 24, no TSO", &|on| Setup { windows: [24; 2], ..connections(false, on) });
    let got = each(jobs.len(), |job| rates(jobs[job].1))?;
    Ok(jobs.into_iter().zip(got).map(|((name, _), got)| row(name, "conns", None, got.conns)).collect())
}

fn run(extent: Extent, progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>, String> {
    progress("128 bulk streams, 768 clients, 128 streams: each alone");
    let mut rows = alone()?.to_vec();
    for c in &CASES {
        let tso = if c.1 { "TSO" } else { "no TSO" };
        progress(&format!("128 bulk streams and {:?}, {tso}, knob on and off", c.0));
        rows.extend(case(c, true)?);
    }
    if extent == Extent::Every {
        progress("other rings, queues and windows");
        rows.extend(unpublished()?);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The windows decide how much waits; the priority is as rough as the rings are deep; no queue
    /// overflows.
    #[test]
    fn the_windows_decide_what_waits_and_the_rings_how_rough_the_priority_is() {
        let held = |ring| {
            let mut m = Machine::new(Setup { ring, ..setup(true, None, true, true) }).unwrap();
            m.run(Instant::from_millis(1_000));
            assert_eq!(m.dropped(), 0);
            m.holds()
        };
        let (shallow, deep) = (held(64), held(512));
        let windows = u64::from(128 * WINDOW * 1514);
        for [queues, rings] in [shallow, deep] {
            assert!((windows * 97 / 100..=windows).contains(&(queues + rings)), "{queues} {rings} {windows}");
        }
        // Units of at most 5858 bytes in four descriptors.
        assert!(shallow[1] <= 4 * 16 * 5_858 && deep[1] > 4 * shallow[1], "{shallow:?} {deep:?}");
    }

    /// The bands tell the mechanism from none: with the knob off in both runs, the rows of its
    /// effect leave their bands.
    #[test]
    fn without_the_knob_its_rows_leave_their_bands() {
        let mut outside = Vec::new();
        for c in [&CASES[0], &CASES[2], &CASES[3]] {
            let missed = case(c, false).unwrap().into_iter().filter(|r| r.within() == Some(false));
            outside.extend(missed.map(|r| format!("{}, {}", r.row, r.metric)));
        }
        for (group, metric) in
            [("connections, TSO", "conns"), ("stream, TSO", "stream"), ("stream, no TSO", "stream")]
        {
            for row in [format!("{group}: on, {metric}"), format!("{group}: off, on over off")] {
                assert!(outside.contains(&row), "{row}: {outside:?}");
            }
        }
    }

    /// A connection that is closed both ways leaves its place to another.
    #[test]
    fn places_of_connections_are_used_again() {
        let mut m = Machine::new(setup(false, Some(Beside::Connections), true, true)).unwrap();
        m.run(Instant::from_millis(500));
        let (opened, [places, free]) = (m.take().connections, m.places());
        assert!(opened > 80_000, "{opened}");
        assert!((768..3 * 768).contains(&places) && free < places, "{opened} {places} {free}");
    }

    #[test]
    fn the_same_seed_gives_the_same_run() {
        let of = |seed| {
            let s = Setup { seed, ..setup(true, Some(Beside::Connections), false, true) };
            let mut m = Machine::new(s).unwrap();
            m.run(Instant::from_millis(400));
            m.take()
        };
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
