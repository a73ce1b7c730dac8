//! Senders that yield: "tcp: Improve sender-sender and sender-receiver fairness on the same
//! netisr", Sepherosa Ziehau, DragonFly BSD, commit 2fb3a851, January 2013.

use txweir_core::{Instant, Nanos};

use super::dragonfly::{Machine, Setup};
use super::plot::{Panel, Plot};
use super::{Band, Experiment, Extent, Headline, Place, Published, Row, each};

const NAME: &str = "fairsend";

/// Processor time of the thread for a message, and for a segment that it sends. Fitted on the rate
/// received beside 8 senders that yield.
const COST: Nanos = Nanos(4_500);
/// Most frames that wait for the ring: one less than it has descriptors, as in BSD's drivers.
const LIMIT: u32 = 511;
/// Most segments on the way of a stream of A, and of a stream to A: the first fitted with `LATE`,
/// on the rate received beside 8 senders that do not yield, the second 57344 B.
const WINDOWS: [u32; 2] = [88, 39];
/// Greatest delay of an application before it writes.
const LATE: Nanos = Nanos::from_millis(10);

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "what it is worth that a sender yields after four segments, to those whose ACKs share its thread and its ring",
    sources: &[
        "Published: DragonFly BSD, commit 2fb3a851, \"tcp: Improve sender-sender and sender-receiver fairness on the same",
        "netisr\", Sepherosa Ziehau, January 2013. Rates are those of `systat -if 1`: bytes of frames, second by second; 8+8:",
        "8 streams sent and 8 received; \"fair\" is net.inet.tcp.fairsend. Bands: rates +-1 %, without turns +-3 %, on over",
        "off as published (32+32: +-1 %), Jain's index better by 0.05 to 5 %. Here: 5 s each of three seeds;",
        "the index over 3 s of ten seeds.",
        "From the source: 1 Gbit/s, one ring for both directions, the rule (core's FairSend, N = 4), one protocol thread",
        "(\"on the same netisr\"). From DragonFly and its drivers: 512 descriptors, 511 frames of queue above them, first in,",
        "first out; windows to A of 57344 B.",
        "Fitted: 4.5 us of the thread per message and per segment sent, on \"received\" of \"8+8: fair 4\"; windows from A of 88",
        "segments and applications that write when half of that is free, up to 10 ms late, on \"received\" of \"8+8: fair 0\".",
        "Every other row is predicted. From \"turns\" on it is 8+8 with another number of segments in a turn, frames of",
        "queue, descriptors (ACKs go first, and no sender yields), us per message, segments in a window of A, ms that an",
        "application is late at most, threads of 4.5 us, or segments in a unit (4).",
        "Not in the source, and assumed: two descriptors for a frame; no TSO; 50 us each way beside queues; the lab's TCP",
        "as of RFC 6675, and a sender refused by its own queue begins anew with one segment (4.4BSD).",
    ],
    headline: Headline {
        about: "Mbit/s received, no turns -> turns",
        places: [
            Place { row: "8+8: fair 0", metric: "received" },
            Place { row: "8+8: fair 4", metric: "received" },
        ],
        between: " -> ",
    },
    plot: &PLOT,
    run,
};

const PLOT: Plot = Plot {
    panels: &[
        Panel {
            title: "received, Mbit/s",
            metrics: &["received"],
            spread: Some(["received, least", "received, most"]),
            log: false,
            share: 2,
        },
        Panel { title: "sent, Mbit/s", metrics: &["sent"], spread: None, log: false, share: 2 },
        Panel { title: "Jain's index", metrics: &["Jain"], spread: None, log: false, share: 1 },
    ],
    without: &[],
};

fn setup(senders: u32, receivers: u32, fairsend: u32, seed: u64) -> Setup {
    Setup {
        senders,
        receivers,
        clients: 0,
        unit: [1, 1],
        windows: WINDOWS,
        prio: false,
        fairsend,
        threads: 1,
        rings: 1,
        ring: 512,
        descriptors: [200, 500],
        limit: LIMIT,
        write: WINDOWS[0] / 2,
        late: LATE,
        every: [2, 2],
        costs: costs(COST),
        seed,
    }
}

/// Returns the same cost for messages and segments; no connections are opened.
const fn costs(each: Nanos) -> [Nanos; 3] {
    [each, each, Nanos::ZERO]
}

/// Rates in Mbit/s of frames, as `systat -if` counts them: from the second second on, second by
/// second.
struct Rates {
    received: Vec<f64>,
    sent: f64,
}

impl Rates {
    fn mean(&self) -> f64 {
        self.received.iter().sum::<f64>() / self.received.len() as f64
    }
    fn least(&self) -> f64 {
        self.received.iter().copied().fold(f64::INFINITY, f64::min)
    }
    fn most(&self) -> f64 {
        self.received.iter().copied().fold(0.0, f64::max)
    }
}

/// Runs a number of seconds. Returns the rates of each.
fn seconds(setup: Setup, seconds: u64) -> Result<Rates, String> {
    let mut machine = Machine::new(setup)?;
    machine.run(Instant::from_millis(1_000));
    machine.take();
    let (mut received, mut sent) = (Vec::new(), 0.0);
    for second in 1..=seconds {
        machine.run(Instant::from_millis(1_000 * (1 + second)));
        let done = machine.take();
        received.push(done.received as f64 * 8.0 / 1e6 * 1514.0 / 1448.0);
        sent += done.out as f64 * 8.0 / 1e6 / seconds as f64;
    }
    Ok(Rates { received, sent })
}

/// Runs five seconds of three seeds.
fn rates(setup: impl Fn(u64) -> Setup + Sync) -> Result<Rates, String> {
    let seeds = each(3, |job| seconds(setup(1 + job as u64), 5))?;
    let sent = seeds.iter().map(|r| r.sent).sum::<f64>() / seeds.len() as f64;
    Ok(Rates { received: seeds.into_iter().flat_map(|r| r.received).collect(), sent })
}

/// Returns Jain's index of the bytes that senders deliver in three seconds, the mean of ten seeds.
fn jain(setup: impl Fn(u64) -> Setup + Sync) -> Result<f64, String> {
    let index = |setup: Setup| {
        let mut machine = Machine::new(setup)?;
        machine.run(Instant::from_millis(1_000));
        let before = machine.delivered();
        machine.run(Instant::from_millis(4_000));
        let got = machine.delivered().into_iter().zip(before).map(|(now, before)| (now - before) as f64);
        let (total, squares) = got.fold((0.0, 0.0), |(t, s), g| (t + g, s + g * g));
        Ok::<f64, String>(total * total / (f64::from(setup.senders) * squares))
    };
    let seeds = each(10, |job| index(setup(1 + job as u64)))?;
    Ok(seeds.iter().sum::<f64>() / 10.0)
}

fn row(row: String, metric: &'static str, published: Option<Published>, measured: f64, band: Band) -> Row {
    let unit = match metric {
        "Jain" => "1",
        "on over off" | "Jain, on over off" => "times",
        "swing" => "%",
        _ => "Mbit/s",
    };
    Row { published, band, ..Row::measured(NAME, row, (metric, unit), measured) }
}

fn unpublished(name: String, metric: &'static str, measured: f64) -> Row {
    row(name, metric, None, measured, Band::Percent(0.0))
}

/// Streams each way, the published received rate without turns, and the band of on over off, in
/// percent. The publication says of more than 16 that there is no difference.
type Case = (u32, Option<Published>, f64);

const CASES: [Case; 3] = [
    (8, Some(Published::range(670.0, 850.0)), 0.0),
    (16, Some(Published::range(960.0, 980.0)), 0.0),
    (32, None, 1.0),
];
const RECEIVED: f64 = 981.0;
const SENT: f64 = 975.0;

/// Returns the rows of a case; `quota` is the segments of a turn in the rows named "fair 4".
fn case(&(n, without, percent): &Case, quota: u32) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    let mut means = [0.0; 2];
    for (mean, fair) in means.iter_mut().zip([0, 4]) {
        let got = rates(|seed| setup(n, n, fair.min(quota), seed))?;
        *mean = got.mean();
        let name = format!("{n}+{n}: fair {fair}");
        let (received, band) = match fair {
            0 => (without, Band::Percent(3.0)),
            _ => (without.map(|_| Published::one(RECEIVED)), Band::Percent(1.0)),
        };
        let mut add = |metric, published, measured, band| {
            rows.push(row(name.clone(), metric, published, measured, band));
        };
        add("received", received, got.mean(), band);
        add("received, least", received.map(|p| Published::one(p.low)), got.least(), band);
        add("received, most", received.map(|p| Published::one(p.high)), got.most(), band);
        if let Some(p) = received.filter(|_| n == 8) {
            let swing = Published::one((p.high - p.low) / p.middle() * 100.0);
            let band = if fair == 0 { Band::AtLeast(10.0) } else { Band::AtMost(1.0) };
            add("swing", Some(swing), (got.most() - got.least()) / got.mean() * 100.0, band);
        }
        add("sent", without.map(|_| Published::one(SENT)), got.sent, Band::Percent(1.0));
    }
    for mean in rows.iter_mut().filter(|r| n == 8 && r.metric == "received") {
        mean.fitted = Some(if mean.row.ends_with('0') { "windows, lateness" } else { "time per message" });
    }
    let ratio =
        without.map_or(Published::one(1.0), |p| Published::range(RECEIVED / p.high, RECEIVED / p.low));
    let on_over_off = means[1] / means[0];
    rows.push(Row {
        fitted: (n == 8).then_some("both rates"),
        ..row(format!("{n}+{n}: fair 4"), "on over off", Some(ratio), on_over_off, Band::Percent(percent))
    });
    Ok(rows)
}

/// "A little bit" better.
const BETTER: Band = Band::Between(1.0005, 1.05);

/// "Improves Jain's fairness index between various amount of senders (8 ~ 128) a little bit
/// (sending only tests)": the index must be greater, and not by more than a twentieth.
fn indices() -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for n in [8, 16, 32, 64, 128] {
        let name = |fair| format!("{n} senders: fair {fair}");
        let off = jain(|seed| setup(n, 0, 0, seed))?;
        let on = jain(|seed| setup(n, 0, 4, seed))?;
        rows.push(unpublished(name(0), "Jain", off));
        rows.push(unpublished(name(4), "Jain", on));
        rows.push(row(name(4), "Jain, on over off", Some(Published::one(1.0)), on / off, BETTER));
    }
    Ok(rows)
}

/// Returns rows without a published value: other turns, rings, threads.
fn others() -> Result<Vec<Row>, String> {
    let mut jobs: Vec<(&str, String, Setup)> = Vec::new();
    for n in [0, 1, 2, 4, 8, 16, 64] {
        jobs.push(("turns", format!("N = {n}"), setup(8, 8, n, 1)));
    }
    for (fair, group) in [(0, "queue, fair 0"), (4, "queue, fair 4")] {
        for limit in [64, 128, 256, 1000] {
            jobs.push((group, format!("{limit}"), Setup { limit, ..setup(8, 8, fair, 1) }));
        }
    }
    for ring in [64, 256, 512, 1024, 2048] {
        let s = Setup { ring, prio: true, ..setup(8, 8, 0, 1) };
        jobs.push(("ring, ACKs first", format!("{ring}"), s));
    }
    for (fair, group) in [(0, "thread, fair 0"), (4, "thread, fair 4")] {
        for us in [1, 3, 4, 5] {
            let s = Setup { costs: costs(Nanos::from_micros(us)), ..setup(8, 8, fair, 1) };
            jobs.push((group, format!("{us} us"), s));
        }
    }
    for window in [60, 132] {
        let s = Setup { windows: [window, WINDOWS[1]], write: window / 2, ..setup(8, 8, 0, 1) };
        jobs.push(("windows, fair 0", format!("{window}"), s));
    }
    for ms in [5, 20] {
        let s = Setup { late: Nanos::from_millis(ms), ..setup(8, 8, 0, 1) };
        jobs.push(("late, fair 0", format!("{ms} ms"), s));
    }
    for fair in [0, 4] {
        jobs.push(("eight threads", format!("fair {fair}"), Setup { threads: 8, ..setup(8, 8, fair, 1) }));
    }
    for fair in [0, 4] {
        jobs.push(("TSO", format!("fair {fair}"), Setup { unit: [4, 1], ..setup(8, 8, fair, 1) }));
    }
    jobs.push(("16+16, queue of 256", "fair 0".into(), Setup { limit: 256, ..setup(16, 16, 0, 1) }));
    let got = each(jobs.len(), |job| seconds(jobs[job].2, 3))?;
    let mut rows = Vec::new();
    for ((group, name, _), got) in jobs.iter().zip(got) {
        rows.push(unpublished(format!("{group}: {name}"), "received", got.mean()));
        rows.push(unpublished(format!("{group}: {name}"), "sent", got.sent));
    }
    for (fair, name) in [(0, "fair 0"), (4, "fair 4")] {
        let slow = |seed| Setup { costs: costs(Nanos::from_micros(8)), ..setup(64, 0, fair, seed) };
        rows.push(unpublished(format!("64 senders, 8 us: {name}"), "Jain", jain(slow)?));
    }
    Ok(rows)
}

fn run(extent: Extent, progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for c in &CASES {
        progress(&format!("{0} streams each way, with and without turns", c.0));
        rows.extend(case(c, 4)?);
    }
    progress("8 to 128 senders, with and without turns, ten seeds each");
    rows.extend(indices()?);
    if extent == Extent::Every {
        progress("8 streams each way with other turns, rings and threads");
        rows.extend(others()?);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bands tell the mechanism from none: without turns in both runs, the rows of their effect
    /// leave their bands.
    #[test]
    fn without_turns_their_rows_leave_their_bands() {
        for c in &CASES[..2] {
            let rows = case(c, 0).unwrap();
            let n = c.0;
            let with: Vec<&Row> = rows.iter().filter(|r| r.row == format!("{n}+{n}: fair 4")).collect();
            let metrics = ["received", "received, least", "received, most", "on over off"];
            for metric in metrics {
                let row = with.iter().find(|r| r.metric == metric).expect("such a row");
                assert_eq!(row.within(), Some(false), "{}, {metric}: {}", row.row, row.measured);
            }
        }
        // The index without turns over itself is one.
        let same = row(String::new(), "Jain, on over off", Some(Published::one(1.0)), 1.0, BETTER);
        assert_eq!(same.within(), Some(false));
    }

    /// With turns more of the waiting segments wait with the senders, where no ACK is behind them.
    #[test]
    fn turns_move_what_waits_from_the_queue_to_the_senders() {
        let held = |fair| {
            let mut m = Machine::new(setup(8, 8, fair, 1)).unwrap();
            let mut sum = 0;
            for ms in 0..1_000 {
                m.run(Instant::from_millis(1_000 + ms));
                sum += m.holds().iter().sum::<u64>();
            }
            sum / 1_000
        };
        let (off, on) = (held(0), held(4));
        assert!((396_000..416_000).contains(&off) && (152_000..172_000).contains(&on), "{off} {on}");
    }
}
