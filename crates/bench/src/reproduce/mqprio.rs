//! Traffic classes of transmit queues: "Qdisc Experiments at 10Gbps", John Fastabend, Linux
//! Plumbers Conference 2012.

mod machine;

use txweir_core::base::env::Offload;
use txweir_core::path::qdiscs::Qdiscs;
use txweir_core::sched::traffic::Range;
use txweir_core::text::value::Words;
use txweir_core::{Env, Handle, Instant, Nanos, PathConfig, Rate, Role};
use txweir_core::{
    model::wire::{Completion, WireConfig},
    sched::schedule::{ClassConfig, LineConfig, Service},
};
use txweir_tc::Policy;

use super::plot::{Panel, Plot};
use super::{Band, Experiment, Extent, Headline, Place, Published, Row};
use machine::{CLASSES, Census, Got, Load, Machine};

const NAME: &str = "mqprio";

/// Bits per second that the published machine served with eight queues: the sum over its classes.
const LINE: u64 = 3_513_000_000;
/// Bytes of a frame: by Little's law the 1000 packets of a full queue at 400 Mbit/s are the 24.24
/// ms that were measured.
const FRAME: u32 = 1212;
/// Bits per second that each class is offered.
const OFFERED: u64 = 554_000_000;
/// Sending threads.
const THREADS: usize = 16;
/// Time from the start of a thread to that of the next: each class meets a machine that is not full
/// yet, as its published minimum shows.
const APART: Nanos = Nanos::from_millis(2);
/// Time that one operation holds a lock: fitted on the rate of class 6 below prio and htb.
const HOLD: Nanos = Nanos(1_305);
/// Time of every packet beside, before the lock and after the line: fitted on the least time of
/// class 0.
const BESIDE: Nanos = Nanos(4_300);
/// Rates, means and maxima are taken from this time on: by then queues that fill slowly are full.
/// Minima are of the whole run, because the queues of the published one were empty once too.
const FROM: Instant = Instant::from_millis(700);
const TO: Instant = Instant::from_millis(1000);

/// Strict priority for classes 7 and 6, and a sixth of the rest for each of the others.
const PRIO_HTB: &str = "\
qdisc add root handle 1: prio bands 3 priomap 2 2 2 2 2 2 1 0 2 2 2 2 2 2 2 2
qdisc add parent 1:3 handle 20: htb
class add parent 20: classid 20:1 htb rate 10gbit quantum 1514
class add parent 20:1 classid 20:10 htb rate 400mbit ceil 10gbit quantum 1514
class add parent 20:1 classid 20:11 htb rate 400mbit ceil 10gbit quantum 1514
class add parent 20:1 classid 20:12 htb rate 400mbit ceil 10gbit quantum 1514
class add parent 20:1 classid 20:13 htb rate 400mbit ceil 10gbit quantum 1514
class add parent 20:1 classid 20:14 htb rate 400mbit ceil 10gbit quantum 1514
class add parent 20:1 classid 20:15 htb rate 400mbit ceil 10gbit quantum 1514
";
/// One queue for each class.
const MQPRIO: &str = "num_tc 8 map 0 1 2 3 4 5 6 7 0 0 0 0 0 0 0 0 queues 1@0 1@1 1@2 1@3 1@4 1@5 1@6 1@7 hw";

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "traffic classes in the device against one queue with one lock, and what each part of the gain is due to",
    sources: &[
        "Published: \"Qdisc Experiments at 10Gbps\", John Fastabend, Linux Plumbers Conference 2012, figures 1 and 2.",
        "Bands: with mqprio rx +-1 %, mean of classes 0-5 +-3 %, of 6-7 at most 100 us; with prio + htb rx +-5 %, means 2x,",
        "class 7 at least 40x later than with mqprio, capacity lost 4.6 +-0.5 %; minima +-10 %, maxima 2x. \"law\" is not a",
        "published measurement: an eighth of the line for each queue, 1000 frames at that rate, and 7 before 6. Rates of",
        "classes 0-5 differ by +-1 % of the published difference.",
        "From the source: 8 classes of 554 Mbit/s, 16 threads, 6 and 7 strict in the device, the others by weight.",
        "Fitted on mqprio: line rate (3513 Mbit/s) on \"rx\" of all, frame size (1212 B) on the mean, and time beside queues and",
        "line (4.3 us) on the minimum of class 0. On prio + htb: how long a lock is held (1.305 us) on \"rx\" of class 6.",
        "Every other row is predicted with these. Not in the source, and assumed: the tree (6 and 7 strict by prio, htb shares",
        "the rest), weights equal, 1000 packets per class, 1024 descriptors, byte limits with mqprio and none with prio + htb,",
        "threads that begin 2 ms apart.",
    ],
    headline: Headline {
        about: "us to the line, class 6, prio+htb -> hw",
        places: [
            Place { row: "prio + htb: class 6", metric: "mean" },
            Place { row: "mqprio hw 1: class 6", metric: "mean" },
        ],
        between: " -> ",
    },
    plot: &PLOT,
    run,
};

const PLOT: Plot = Plot {
    panels: &[
        Panel {
            title: "from sender to receiver: least, mean, greatest",
            metrics: &["mean"],
            spread: Some(["least", "greatest"]),
            log: true,
            share: 5,
        },
        Panel {
            title: "received of each class, Mbit/s",
            metrics: &["rx", "rx each"],
            spread: None,
            log: false,
            share: 3,
        },
    ],
    without: &["all"],
};

/// Mbit/s received, and mean, least and greatest time in ns, as published: of each class, 0 first.
type Figure = [[f64; 4]; CLASSES];

/// "mqprio HW ETS with link strict".
const FIGURE_1: Figure = [
    [400.0, 24_262_244.0, 8_180.0, 32_271_560.0],
    [400.0, 24_248_749.0, 8_180.0, 32_345_920.0],
    [401.0, 24_226_728.0, 8_220.0, 32_159_100.0],
    [400.0, 24_231_051.0, 8_120.0, 32_150_900.0],
    [400.0, 24_272_766.0, 8_060.0, 31_926_380.0],
    [400.0, 24_254_297.0, 8_080.0, 31_930_020.0],
    [556.0, 66_999.0, 7_980.0, 219_960.0],
    [556.0, 67_055.0, 7_960.0, 231_720.0],
];
/// "Prio qdisc with HTB".
const FIGURE_2: Figure = [
    [404.0, 32_771_322.0, 8_380.0, 37_955_640.0],
    [404.0, 25_221_387.0, 8_320.0, 36_395_920.0],
    [404.0, 34_155_207.0, 8_300.0, 38_338_500.0],
    [404.0, 24_823_041.0, 8_300.0, 36_603_520.0],
    [404.0, 32_342_354.0, 8_300.0, 38_334_140.0],
    [403.0, 27_109_380.0, 8_360.0, 37_964_860.0],
    [463.0, 2_913_085.0, 7_900.0, 15_697_840.0],
    [465.0, 6_802_623.0, 7_760.0, 15_770_720.0],
];

/// The way of packets to the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// mqprio; `hw` leaves the classes to the device, without it its rings take turns.
    Mqprio { hw: bool },
    /// prio and htb above one queue.
    PrioHtb,
}

/// The published or expected values of a column, known beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Figure1,
    Figure2,
    /// Each queue gets an eighth of the line.
    Turns,
    /// No value: each class is shown.
    Classes,
    /// No value: the two groups of classes are shown.
    Groups,
}

/// A column of the table.
#[derive(Clone, Copy, Debug)]
struct Column {
    name: &'static str,
    way: Way,
    /// The commands of `prio` and `htb`, or the options of mqprio before `hw`.
    policy: &'static str,
    bql: bool,
    hold: Nanos,
    known: Known,
}

const fn column(name: &'static str, way: Way, bql: bool, hold: Nanos, known: Known) -> Column {
    let policy = match way {
        Way::PrioHtb => PRIO_HTB,
        Way::Mqprio { .. } => MQPRIO,
    };
    Column { name, way, policy, bql, hold, known }
}

const COLUMNS: [Column; 7] = [
    column("mqprio hw 1", Way::Mqprio { hw: true }, true, HOLD, Known::Figure1),
    column("prio + htb", Way::PrioHtb, false, HOLD, Known::Figure2),
    column("mqprio hw 0", Way::Mqprio { hw: false }, true, HOLD, Known::Turns),
    column("prio + htb, BQL", Way::PrioHtb, true, HOLD, Known::Classes),
    column("prio + htb, no lock", Way::PrioHtb, false, Nanos::ZERO, Known::Groups),
    column("same, BQL", Way::PrioHtb, true, Nanos::ZERO, Known::Groups),
    column("mqprio hw 1, no BQL", Way::Mqprio { hw: true }, false, HOLD, Known::Groups),
];

fn machine(c: &Column, away: [Nanos; 2], seed: u64) -> Result<Machine, String> {
    let queues: u16 = if c.way == Way::PrioHtb { 1 } else { 8 };
    let env = Env { queues, offload: Offload::ALL, seed, ..Env::default() };
    let bql = PathConfig::default().bql.filter(|_| c.bql);
    let path = PathConfig { env, role: Role::Forwarder, pool: 10_000, bql, trace: 0 };
    let wire = WireConfig {
        rate: Rate::from_bits(LINE),
        overhead: 0,
        min_frame: 0,
        completion: Completion::Every { packets: 4, within: Nanos::from_micros(20) },
        rings: queues,
        seed,
        ..WireConfig::default()
    };
    let gap = u64::from(FRAME) * 8 * 1_000_000_000 * (THREADS / CLASSES) as u64 / OFFERED;
    let load = Load {
        threads: THREADS,
        apart: APART,
        gap: Nanos(gap),
        len: FRAME,
        priority: 0x20_0010,
        hold: c.hold,
        beside: BESIDE,
        away,
        seed,
    };
    let mut machine = Machine::new(path, wire, load)?;
    let Machine { port, rings, .. } = &mut machine;
    match c.way {
        Way::PrioHtb => {
            let policy = Policy::parse(c.policy, "prio + htb").map_err(|e| e.to_string())?;
            let mut control = port.control(Instant::ZERO, rings);
            control.configure_path(0, |tree, cx| policy.apply(tree, cx)).map_err(|e| e.to_string())?;
        }
        Way::Mqprio { hw } => {
            let line = format!("{} {}", c.policy, u8::from(hw));
            let words: Vec<&str> = line.split(' ').collect();
            let added = port.control(Instant::ZERO, rings).configure(|q: &mut Qdiscs<'_>| {
                q.add(Handle::ROOT, Some(Handle::new(1, 0)), NAME, &mut Words::new(&words))
            });
            added.map_err(|e| e.to_string())?;
            let classes = port.chooser().selector().classes().ok_or("mqprio without classes")?;
            let line = scheduler(classes.ranges(), hw);
            rings.0.configure_scheduler(&line).map_err(|e| e.to_string())?;
        }
    }
    Ok(machine)
}

/// Returns the device's scheduler for mqprio's classes: with `hw 1` the last two before all others,
/// and those alike; else turns.
fn scheduler(ranges: &[Range], hw: bool) -> LineConfig {
    if !hw {
        return LineConfig::round_robin(8);
    }
    let class = |(tc, r): (usize, &Range)| {
        ClassConfig::new(r.count, r.offset, if tc < 6 { Service::Ets(16) } else { Service::Strict })
    };
    LineConfig::classes(8, &ranges.iter().enumerate().map(class).collect::<Vec<_>>())
}

/// The results of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Measured {
    classes: [Got; CLASSES],
    census: Census,
}

impl Measured {
    fn of(c: &Column, seed: u64) -> Result<Self, String> {
        let mut machine = machine(c, [Nanos::ZERO; 2], seed)?;
        machine.run(FROM);
        let before = machine.take();
        machine.run(TO);
        let mut classes = machine.take();
        for (class, before) in classes.iter_mut().zip(before) {
            class.min = class.min.min(before.min);
        }
        Ok(Self { classes, census: machine.census() })
    }
    /// Returns the received Mbit/s of some classes together, and their mean, least and greatest
    /// time in us.
    fn numbers(&self, classes: std::ops::Range<usize>) -> [f64; 4] {
        let all = || self.classes[classes.clone()].iter();
        let packets = all().map(|g| g.packets).sum::<u64>() as f64;
        let us = |ns: u64| ns as f64 / 1e3;
        [
            packets * f64::from(FRAME) * 8.0 * 1e3 / TO.saturating_since(FROM).0 as f64,
            us(all().map(|g| g.sum).sum()) / packets.max(1.0),
            us(all().map(|g| g.min).min().unwrap_or(0)),
            us(all().map(|g| g.max).max().unwrap_or(0)),
        ]
    }
}

const METRICS: [(&str, &str); 4] = [("rx", "Mbit/s"), ("mean", "us"), ("least", "us"), ("greatest", "us")];

/// Returns a row of the measured value alone.
fn plain(row: String, metric: usize, measured: f64) -> Row {
    Row::measured(NAME, row, METRICS[metric], measured)
}

/// Returns the expected value of a metric of a class, and its band.
fn expected(known: Known, class: usize, metric: usize) -> Option<(f64, Band)> {
    let high = class >= 6;
    let (figure, band) = match known {
        Known::Figure1 => {
            let mean = if high { Band::AtMost(100.0) } else { Band::Percent(3.0) };
            (&FIGURE_1, [Band::Percent(1.0), mean, Band::Percent(10.0), Band::Factor(2.0)][metric])
        }
        Known::Figure2 => {
            let bands = [Band::Percent(5.0), Band::Factor(2.0), Band::Percent(10.0), Band::Factor(2.0)];
            (&FIGURE_2, bands[metric])
        }
        Known::Turns => {
            let rx = LINE as f64 / 1e6 / CLASSES as f64;
            return match metric {
                0 => Some((rx, Band::Percent(1.0))),
                1 => Some((1000.0 * f64::from(FRAME) * 8.0 / rx, Band::Percent(3.0))),
                _ => None,
            };
        }
        Known::Classes | Known::Groups => return None,
    };
    let unit = if metric == 0 { 1.0 } else { 1e3 };
    Some((figure[class][metric] / unit, band))
}

/// Returns the rows of a column.
fn rows(c: &Column, m: &Measured) -> Vec<Row> {
    if c.known == Known::Groups {
        let groups = [("classes 0-5", 0..6), ("classes 6-7", 6..8)];
        let of = |(name, classes): (&str, std::ops::Range<usize>)| {
            let (each, numbers) = (classes.len() as f64, m.numbers(classes));
            let row = |i: usize| plain(format!("{}: {name}", c.name), i, numbers[i]);
            [Row { metric: "rx each", measured: numbers[0] / each, ..row(0) }, row(1), row(2), row(3)]
        };
        return groups.into_iter().flat_map(of).collect();
    }
    let mut rows = Vec::new();
    for class in 0..CLASSES {
        let numbers = m.numbers(class..class + 1);
        for (metric, measured) in numbers.into_iter().enumerate() {
            let mut row = plain(format!("{}: class {class}", c.name), metric, measured);
            if let Some((published, band)) = expected(c.known, class, metric) {
                (row.published, row.band, row.law) =
                    (Some(Published::one(published)), band, c.known == Known::Turns);
            }
            row.fitted = match (c.known, class, metric) {
                (Known::Figure1, 0, 1) => Some("frame size"),
                (Known::Figure1, 0, 2) => Some("time beside"),
                (Known::Figure2, 6, 0) => Some("lock"),
                _ => None,
            };
            row.follows = follows(c.known, class, metric);
            rows.push(row);
        }
    }
    let mut total = plain(format!("{}: all", c.name), 0, m.numbers(0..CLASSES)[0]);
    if let Known::Figure1 | Known::Figure2 = c.known {
        let first = c.known == Known::Figure1;
        let figure = if first { &FIGURE_1 } else { &FIGURE_2 };
        total.published = Some(Published::one(figure.iter().map(|class| class[0]).sum()));
        (total.band, total.fitted) =
            (Band::Percent(if first { 1.0 } else { 3.0 }), first.then_some("line rate"));
    }
    rows.push(total);
    rows.extend(comparisons(c, m));
    rows
}

/// Returns the number that a row repeats by arithmetic, if it does.
const fn follows(known: Known, class: usize, metric: usize) -> Option<&'static str> {
    match (known, class, metric) {
        (Known::Figure1, 0..6, 0) => Some("the line's rate"),
        (Known::Figure1, _, 0) => Some("the load"),
        (Known::Figure1, 1..6, 1) | (Known::Figure1, 1.., 2) => Some("class 0"),
        (Known::Figure2, 6, 1) => Some("the ring"),
        (Known::Figure2, 7, 0) => Some("class 6"),
        _ => None,
    }
}

/// Returns the comparisons between the classes of a column, which tell its mechanism from another
/// one: equal turns of classes 0 to 5, and class 7 before class 6 in the device. The latter is a
/// law: the publication has the same time for both.
fn comparisons(c: &Column, m: &Measured) -> Vec<Row> {
    let figure = match c.known {
        Known::Figure1 => &FIGURE_1,
        Known::Figure2 => &FIGURE_2,
        Known::Turns | Known::Classes | Known::Groups => return Vec::new(),
    };
    let row = |case: &str, metric, published, measured, band| {
        Row::measured(NAME, format!("{}: {case}", c.name), (metric, "times"), measured)
            .beside(Published::one(published), band)
    };
    let spread = |rates: [f64; 6]| {
        let most = rates.iter().copied().fold(0.0, f64::max);
        most / rates.iter().copied().fold(f64::INFINITY, f64::min)
    };
    let measured = spread(std::array::from_fn(|class| m.numbers(class..class + 1)[0]));
    let published = spread(std::array::from_fn(|class| figure[class][0]));
    let mut rows = vec![row("classes 0-5", "rx, most over least", published, measured, Band::Percent(1.0))];
    if c.known == Known::Figure1 {
        let later = m.numbers(6..7)[1] / m.numbers(7..8)[1];
        let strict = row("class 6", "mean over class 7", 1.0, later, Band::Between(1.01, 2.0));
        rows.push(Row { law: true, ..strict });
    }
    rows
}

/// Returns the conclusions of the slides: the factor by which the highest class is later on one
/// queue, and the capacity lost there.
fn conclusions(mqprio: &Measured, one: &Measured) -> [Row; 2] {
    let sum = |figure: &Figure| figure.iter().map(|class| class[0]).sum::<f64>();
    let row = |metric, unit, published, measured, band| {
        Row::measured(NAME, "prio + htb over mqprio".into(), (metric, unit), measured)
            .beside(Published::one(published), band)
    };
    let later = one.numbers(7..8)[1] / mqprio.numbers(7..8)[1];
    let lost = |one: f64, mqprio: f64| 100.0 * (1.0 - one / mqprio);
    let lost_here = lost(one.numbers(0..CLASSES)[0], mqprio.numbers(0..CLASSES)[0]);
    [
        row("class 7 later", "times", FIGURE_2[7][1] / FIGURE_1[7][1], later, Band::AtLeast(40.0)),
        row("capacity lost", "%", lost(sum(&FIGURE_2), sum(&FIGURE_1)), lost_here, Band::Absolute(0.5)),
    ]
}

fn run(extent: Extent, progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>, String> {
    let mut measured = Vec::new();
    let mut all = Vec::new();
    let is_published = |c: &&Column| !matches!(c.known, Known::Classes | Known::Groups);
    for c in COLUMNS.iter().filter(|c| extent == Extent::Every || is_published(c)) {
        progress(&format!("8 classes into one line: {}", c.name));
        let m = Measured::of(c, 1)?;
        all.extend(rows(c, &m));
        measured.push(m);
    }
    all.extend(conclusions(&measured[0], &measured[1]));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each comparison of two columns shows one part of the gain, as a factor.
    #[test]
    fn each_part_of_the_gain_is_seen_alone() {
        let measured: Vec<Measured> = COLUMNS.iter().map(|c| Measured::of(c, 5).unwrap()).collect();
        let [hw, one, turns, bql, unlocked, unlocked_bql, deep] = &measured[..] else {
            panic!("seven columns")
        };
        let mean = |m: &Measured, classes| m.numbers(classes)[1];
        let rx = |m: &Measured, classes| m.numbers(classes)[0];
        // With a byte limit on the one queue the strict classes wait 40 times less, and their rate
        // stays the same.
        assert!(mean(one, 6..8) > 40.0 * mean(bql, 6..8));
        assert!((rx(one, 6..8) / rx(bql, 6..8) - 1.0).abs() < 0.01);
        // Without a lock the strict classes get all that they offer and wait less than half as
        // long; without a byte limit the lock makes no difference to them.
        assert!(
            rx(unlocked_bql, 6..8) > 1.15 * rx(bql, 6..8) && 2.0 * mean(unlocked_bql, 6..8) < mean(bql, 6..8)
        );
        assert!((mean(unlocked, 6..8) / mean(one, 6..8) - 1.0).abs() < 0.03);
        // The device's scheduler gains the rest of the 290 times over prio and htb without lock and
        // deep ring.
        let left = mean(unlocked_bql, 6..8) / mean(hw, 6..8);
        assert!((2.0..4.0).contains(&left), "{left}");
        // Queues alone, without classes in the device, are worse than prio on one queue.
        assert!(mean(turns, 6..8) > 5.0 * mean(one, 6..8));
        // Deep rings do no harm to strict classes that have rings of their own, and double the
        // waits of the others.
        assert!((mean(deep, 6..8) / mean(hw, 6..8) - 1.0).abs() < 0.1);
        assert!((mean(deep, 0..6) / mean(hw, 0..6) - 2.02).abs() < 0.05);
    }

    /// The bands tell the mechanism from others: each change below takes the rows of its effect out
    /// of their bands.
    #[test]
    fn another_mechanism_leaves_the_bands() {
        let outside = |c: &Column| -> Vec<String> {
            let rows = rows(c, &Measured::of(c, 1).unwrap());
            let missed = rows.iter().filter(|r| r.within() == Some(false));
            missed.map(|r| format!("{}, {}", r.row, r.metric)).collect()
        };
        // The device serves class 6 before class 7.
        let reversed =
            "num_tc 8 map 0 1 2 3 4 5 7 6 0 0 0 0 0 0 0 0 queues 1@0 1@1 1@2 1@3 1@4 1@5 1@6 1@7 hw";
        let of = outside(&Column { policy: reversed, ..COLUMNS[0] });
        assert!(of.contains(&"mqprio hw 1: class 6, mean over class 7".to_string()), "{of:?}");
        // The device serves all rings in turn.
        let of = outside(&Column { way: Way::Mqprio { hw: false }, ..COLUMNS[0] });
        for row in ["class 6, mean", "class 7, mean", "class 6, rx", "class 0, rx"] {
            assert!(of.contains(&format!("mqprio hw 1: {row}")), "{of:?}");
        }
        // The classes of htb have turns of different lengths.
        let uneven = PRIO_HTB.replace("20:15 htb rate 400mbit ceil 10gbit quantum 1514", UNEVEN);
        let uneven: &'static str = uneven.leak();
        let of = outside(&Column { policy: uneven, ..COLUMNS[1] });
        assert!(of.contains(&"prio + htb: classes 0-5, rx, most over least".to_string()), "{of:?}");
    }

    /// A longer turn of the last class.
    const UNEVEN: &str = "20:15 htb rate 400mbit ceil 10gbit quantum 6056";

    /// An absence of the drainer now and then would account for most of the rows that miss below
    /// prio and htb, but not for all. The greatest time of the strict classes and the capacity lost
    /// set the two times; no publication names them.
    #[test]
    fn an_absence_now_and_then_would_account_for_the_capacity() {
        let (every, long) = (Nanos::from_millis(279), Nanos::from_micros(15_700));
        let mut machine = machine(&COLUMNS[1], [every, long], 1).unwrap();
        machine.run(Instant(3 * every.0));
        machine.take();
        machine.run(Instant(5 * every.0));
        let got = machine.take();
        let rx = |g: &Got| g.packets as f64 * f64::from(FRAME) * 8e3 / (2 * every.0) as f64;
        let near = |measured: f64, published: f64, percent: f64| {
            assert!((measured / published - 1.0).abs() * 100.0 < percent, "{measured} {published}");
        };
        near(got.iter().map(rx).sum(), 3352.0, 0.5);
        for (class, published) in FIGURE_2.iter().enumerate().take(6) {
            near(rx(&got[class]), published[0], 1.5);
            near(got[class].max as f64, published[3], 16.0);
        }
        for class in 6..8 {
            near(got[class].max as f64, FIGURE_2[class][3], 1.0);
            near(rx(&got[class]), FIGURE_2[class][0], 2.5);
        }
        let mean = |class: usize| got[class].sum as f64 / got[class].packets as f64;
        near(mean(6), FIGURE_2[6][1], 6.0);
        // Class 7 is no later than class 6, as before.
        near(mean(7), mean(6), 1.0);
    }

    /// Every packet is in one place, in every column.
    #[test]
    fn every_packet_is_in_one_place() {
        for c in &COLUMNS {
            let Census { made, at_locks, dropped, queued, in_rings, left } =
                Measured::of(c, 2).unwrap().census;
            assert_eq!(made, at_locks + dropped + queued + in_rings + left, "{}", c.name);
            // Six classes of 1000 packets wait at least, and packets offered beyond the line are
            // dropped.
            assert!(
                left > 340_000 && queued > 5_900 && dropped > 1_000 && in_rings <= 6 * 1024 + 40,
                "{}",
                c.name
            );
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_run() {
        for c in &COLUMNS[..2] {
            let of = |seed| Measured::of(c, seed).unwrap();
            assert_eq!(of(3), of(3), "{}", c.name);
            assert_ne!(of(3), of(4), "{}", c.name);
        }
    }
}
