//! The time that direct hand-over to the driver saves, measured on this machine in wall-clock time
//! (Robert Watson, "Changes in the network interface queueing handoff model", freebsd-arch, 30 July
//! 2006).

mod line;
mod live;
mod ways;

use std::fmt::Write as _;
use std::sync::Barrier;
use std::sync::atomic::Ordering;
use std::time::Duration;

use txweir_core::Nanos;
use txweir_device::clock::now_ns;

use crate::common::{default_cpu, spread};
use crate::nullring::NullRing;
use crate::reproduce::{Band, Headline, Place, Published, Row};
use line::{FRAME_NS, Line, Shown};
use ways::{Devices, Frame, Way};

/// The name of this measurement on the command line.
pub const NAME: &str = "handoff";

/// The figure that stands for the whole in the summary of all experiments.
pub const HEADLINE: Headline = Headline {
    about: "packets/s over locks, 1 and 2 threads",
    places: [
        Place { row: "null ring, 1 producers: direct", metric: "rate over locks" },
        Place { row: "null ring, 2 producers: direct", metric: "rate over locks" },
    ],
    between: ", ",
};

/// A live packet costs some hundred times as much, so the packets are fewer by this factor.
const LIVE_SHARE: u64 = 64;
/// The same factor for a packet of the line.
const LINE_SHARE: u64 = 64;

/// The place in which the line is the bottleneck.
const LINE: &str = "100 Mbit/s line";

/// Time after which the line is asked for completions: a quarter of the frames in its ring.
const LINE_POLL: Nanos = Nanos(256 * FRAME_NS);

/// The least ratio where the line is the bottleneck: no fewer packets, within the resolution of the
/// measurement.
const NO_LESS: f64 = 0.99;

/// The text that is printed with the numbers.
const SOURCES: &[&str] = &[
    "Published by Robert Watson, freebsd-arch, 30 July 2006: UDP without payload, CPU-bound, +5 % packets on one",
    "processor, +10 % on several, of all that a packet costs in the kernel. Here a packet's way begins where the link layer",
    "hands it over, so that the ratios are of the hand-over alone: frames of 42 bytes stand ready, and the stack above and",
    "the driver's wrapping are left out. No number was published for where the line is the bound: there it is to be no less",
    "(1.00, at least 0.99). The line sends them at 100 Mbit/s, by the clock on the wall, and makes up for no gap.",
];

/// The parameters of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Rounds that count, each of which runs every way once.
    pub rounds: u32,
    /// Packets of a round, of all producers together. The line and the packet socket, where a
    /// packet costs more, get 1/64 of them.
    pub packets: u64,
    /// Threads that send, beside the measurement with one; 0 counts as 1.
    pub producers: usize,
}

impl Options {
    /// A short measurement, for the summary of all experiments.
    pub const SHORT: Self = Self { rounds: 3, packets: 1 << 17, producers: 2 };
}

/// The samples of all ways in all places.
pub struct Measured {
    options: Options,
    all: Vec<Series>,
    notes: Vec<String>,
}

/// Samples of one way in one place.
struct Series {
    place: String,
    key: &'static str,
    about: &'static str,
    producers: usize,
    /// Nanoseconds per packet, one a round.
    ns: Vec<f64>,
    /// Samples of the way with locks, in the same rounds.
    locks: Vec<f64>,
}

/// Runs all ways in all places; `progress` gets the name of each before it begins.
///
/// # Errors
/// A thread that sends or serves has failed, or a device was shown fewer packets than were sent.
pub fn measure(options: Options, progress: &mut dyn FnMut(&str)) -> Result<Measured, String> {
    let options = Options { producers: options.producers.max(1), ..options };
    let (mut all, mut notes) = (Vec::new(), Vec::new());
    let processors = default_cpu() + 1;
    if options.producers > processors {
        notes.push(format!("{} producers share {processors} processors", options.producers));
    }
    let null = || {
        let (dev, frames) = NullRing::<Frame>::new();
        Ok((dev, Shown::at_once(frames)))
    };
    let mut counts = vec![1, options.producers];
    counts.dedup();
    for &producers in &counts {
        let mut set = ways::ways(&Devices { make: &null, poll: None }, producers)?;
        if producers == 1 {
            set.extend(ways::yardsticks());
        }
        all.extend(series("null ring", &set, producers, options.rounds, options.packets, progress)?);
    }
    for &producers in &counts {
        let devices = Devices { make: &|| Ok(Line::new()), poll: Some(LINE_POLL) };
        let mut set = ways::ways(&devices, producers)?;
        // A sender with a device to itself has a line to itself, which is another bound.
        set.retain(|way| !way.key.starts_with("own path"));
        let packets = (options.packets / LINE_SHARE).max(1 << 12);
        all.extend(series(LINE, &set, producers, options.rounds, packets, progress)?);
    }
    for &producers in &counts {
        match ways::ways(&Devices { make: &live::socket, poll: None }, producers) {
            Ok(set) => {
                let packets = (options.packets / LIVE_SHARE).max(1 << 10);
                all.extend(series("packet socket", &set, producers, options.rounds, packets, progress)?);
            }
            Err(e) => {
                notes.push(format!("packet socket skipped, because {e}"));
                break;
            }
        }
    }
    Ok(Measured { options, all, notes })
}

/// Runs all ways in turn, round by round, and returns their samples.
fn series(
    place: &str,
    ways: &[Way],
    producers: usize,
    rounds: u32,
    packets: u64,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Series>, String> {
    let each = (packets / producers as u64).next_multiple_of(32);
    progress(&format!("{NAME}: {place}, {producers} producers"));
    let mut samples = vec![Vec::new(); ways.len()];
    for round in 0..=rounds {
        for (way, samples) in ways.iter().zip(&mut samples) {
            let ns = run(way, producers, each).map_err(|e| format!("{place}, {}: {e}", way.key))?;
            // The first round warms caches.
            if round > 0 {
                samples.push(ns);
            }
        }
    }
    let locks = samples.first().cloned().unwrap_or_default();
    Ok(ways
        .iter()
        .zip(samples)
        .map(|(way, ns)| Series {
            place: place.to_string(),
            key: way.key,
            about: way.about,
            producers,
            ns,
            locks: if way.shown.is_empty() { Vec::new() } else { locks.clone() },
        })
        .collect())
}

/// Sends `each` packets by each producer, each on a processor of its own while there are enough.
/// Returns nanoseconds per packet, of all.
fn run(way: &Way, producers: usize, each: u64) -> Result<f64, String> {
    let shown = || way.shown.iter().map(|s| s.frames.load(Ordering::Acquire)).sum::<u64>();
    let before = shown();
    let gate = Barrier::new(producers);
    let times: Vec<Option<(u64, u64)>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..producers)
            .map(|who| {
                let gate = &gate;
                scope.spawn(move || {
                    let processors = default_cpu() + 1;
                    // A refused pin is no error: it shows as spread.
                    let _ = txweir_device::cpu::pin((processors - 1 + processors * who - who) % processors);
                    gate.wait();
                    let start = now_ns();
                    (way.send)(who, each);
                    (start, now_ns())
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().ok()).collect()
    });
    let times: Vec<(u64, u64)> = times.into_iter().flatten().collect();
    let (Some(start), Some(end), true) =
        (times.iter().map(|t| t.0).min(), times.iter().map(|t| t.1).max(), times.len() == producers)
    else {
        return Err("a producer has failed".into());
    };
    let sent = each * producers as u64;
    if !way.shown.is_empty() {
        // The service may still send packets that the last sender left to it.
        let patience = now_ns() + 10_000_000_000;
        while shown() - before < sent && now_ns() < patience {
            std::thread::sleep(Duration::from_micros(100));
        }
        let got = shown() - before;
        if got != sent {
            let state = (way.state)();
            return Err(format!("{sent} packets were sent and the device was shown {got}{state}"));
        }
    }
    // The measured time ends when the last sender has finished, or when the last packet has left.
    let left = way.shown.iter().map(|s| s.until_ns.load(Ordering::Acquire)).max().unwrap_or(0);
    wait_until(left);
    Ok((end.max(left) - start) as f64 / sent as f64)
}

/// Waits until a time of the clock, so that the next measurement finds its line idle.
fn wait_until(ns: u64) {
    while let Some(left) = ns.checked_sub(now_ns()).filter(|left| *left > 0) {
        std::thread::sleep(Duration::from_nanos(left));
    }
}

impl Series {
    /// Returns the ratio to the packets per second of the way with locks, round by round.
    fn over_locks(&self) -> Option<[f64; 3]> {
        let ratios: Vec<f64> = self.locks.iter().zip(&self.ns).map(|(locks, ns)| locks / ns).collect();
        (!ratios.is_empty() && self.key != "locks").then(|| spread(&ratios))
    }

    /// Returns the published claim for this change, as a factor, and the least accepted factor.
    fn claimed(&self) -> Option<(Published, f64)> {
        let (claim, least) = match (self.place == LINE, self.producers) {
            (true, _) => (1.0, NO_LESS),
            (false, 1) => (1.05, 1.05),
            (false, _) => (1.10, 1.10),
        };
        matches!(self.key, "one lock" | "direct").then(|| (Published::one(claim), least))
    }

    fn row(&self, metric: &'static str, unit: &'static str, measured: f64) -> Row {
        let name = format!("{}, {} producers: {}", self.place, self.producers, self.key);
        Row::measured(NAME, name, (metric, unit), measured)
    }

    /// Returns the rows in the form of the other experiments, each with its least and greatest.
    fn rows(&self) -> Vec<(Row, [f64; 3])> {
        let ns = spread(&self.ns);
        let rate = [1e9 / ns[0], 1e9 / ns[2], 1e9 / ns[1]];
        let mut rows =
            vec![(self.row("time", "ns/packet", ns[0]), ns), (self.row("rate", "packets/s", rate[0]), rate)];
        if let Some(ratio) = self.over_locks() {
            let mut row = self.row("rate over locks", "x", ratio[0]);
            if let Some((published, least)) = self.claimed() {
                (row.published, row.band) = (Some(published), Band::AtLeast(least));
            }
            rows.push((row, ratio));
        }
        rows
    }
}

impl Measured {
    /// Returns the rows in the form of [`crate::reproduce`], each with its median, least and
    /// greatest.
    pub fn rows(&self) -> impl Iterator<Item = (Row, [f64; 3])> {
        self.all.iter().flat_map(Series::rows)
    }

    /// Renders all rows as a table for reading, with its sources.
    pub fn table(&self) -> String {
        table(&self.all, &self.notes, self.options)
    }
}

fn table(all: &[Series], notes: &[String], options: Options) -> String {
    let mut out = format!("{NAME}: direct hand-off to the driver, 2006, measured on this machine\n");
    let mut at = None;
    for s in all {
        if at.replace((&s.place, s.producers)) != Some((&s.place, s.producers)) {
            let producers = if s.producers == 1 { "producer" } else { "producers" };
            let _ = writeln!(
                out,
                "\n{}, {} {producers}\n  {:18} {:>8} {:>8} {:>8} {:>12} {:>23} {:>9}",
                s.place,
                s.producers,
                "way",
                "ns",
                "least",
                "most",
                "packets/s",
                "over the locks",
                "published"
            );
        }
        let [median, least, most] = spread(&s.ns);
        let over = s
            .over_locks()
            .map_or_else(|| "-".into(), |[m, least, most]| format!("{m:.3} [{least:.3} - {most:.3}]"));
        let published = s.claimed().map_or_else(|| "-".into(), |(p, _)| format!("{:.2}", p.low));
        let _ = writeln!(
            out,
            "  {:18} {median:8.1} {least:8.1} {most:8.1} {:>12.0} {over:>23} {published:>9}",
            s.key,
            1e9 / median
        );
    }
    out.push('\n');
    let mut told: Vec<&str> = Vec::new();
    for s in all.iter().filter(|s| s.place == "null ring") {
        if !told.contains(&s.key) {
            told.push(s.key);
            let _ = writeln!(out, "  {:18} {}", s.key, s.about);
        }
    }
    let _ = writeln!(
        out,
        "\n  Median, least and most of {} interleaved rounds of {} packets (line: {}, packet socket: {}); time on\n  \
         the wall over packets of all producers, which have a processor each while there are enough.",
        options.rounds,
        options.packets,
        (options.packets / LINE_SHARE).max(1 << 12),
        (options.packets / LIVE_SHARE).max(1 << 10)
    );
    for line in SOURCES.iter().copied().chain(notes.iter().map(String::as_str)) {
        let _ = writeln!(out, "  {line}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every way hands over every packet, with several senders too: `run` compares the sent packets
    /// with those that the device was shown.
    #[test]
    fn every_way_loses_nothing() {
        let options = Options { rounds: 1, packets: 4096, producers: 3 };
        let Measured { all, notes, .. } = measure(options, &mut |_| {}).unwrap();
        assert!(notes.iter().all(|n| n.contains("skipped, because") || n.contains("share")), "{notes:?}");
        let of = |place, producers| {
            all.iter().filter(|s: &&Series| s.place == place && s.producers == producers).count()
        };
        assert_eq!((of("null ring", 1), of("null ring", 3)), (12, 10));
        assert_eq!((of(LINE, 1), of(LINE, 3)), (8, 8));
        // No way sends more than the line does, whatever other load this machine has.
        for s in all.iter().filter(|s| s.place == LINE) {
            assert!(s.ns.iter().all(|ns| *ns >= FRAME_NS as f64), "{}: {:?}", s.key, s.ns);
        }
        let text = table(&all, &notes, options);
        assert!(
            text.contains("null ring, 1 producer\n") && text.contains("null ring, 3 producers\n"),
            "{text}"
        );
    }

    #[test]
    fn rows_have_what_was_published_beside_them() {
        let series = Series {
            place: "null ring".into(),
            key: "direct",
            about: "",
            producers: 2,
            ns: vec![10.0, 20.0, 40.0],
            locks: vec![30.0, 30.0, 30.0],
        };
        let rows = series.rows();
        assert_eq!(rows[1].1, [50e6, 25e6, 100e6]);
        let (row, over) = &rows[2];
        assert_eq!(
            (row.published, *over, row.within()),
            (Some(Published::one(1.1)), [1.5, 0.75, 3.0], Some(true))
        );
        // On a line that is the bottleneck the ratio must be no less, within a percent.
        let on_a_line = |ns| {
            let series = Series {
                place: LINE.into(),
                key: "direct",
                about: "",
                producers: 1,
                ns,
                locks: vec![6720.0],
            };
            let (row, _) = series.rows().remove(2);
            (row.published, row.within())
        };
        assert_eq!(on_a_line(vec![6780.0]), (Some(Published::one(1.0)), Some(true)));
        assert_eq!(on_a_line(vec![6790.0]), (Some(Published::one(1.0)), Some(false)));
    }
}
