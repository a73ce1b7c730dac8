//! Byte Queue Limits: "[PATCH v4 0/10] bql: Byte Queue Limits", Tom Herbert, netdev, 28 November
//! 2011.

use txweir_core::Instant;

use super::plot::{Panel, Plot};
use super::{Band, Experiment, Extent, Headline, Place, Published, Row, each};
use txweir_lab::scenario::{Built, Scenario};

const PRIORITY: &str = include_str!("../../scenarios/bql-priority.toml");
const SIZES: &str = include_str!("../../scenarios/bql-rr-sizes.toml");
const STEP: &str = include_str!("../../scenarios/bql-rate-step.toml");

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "bql",
    about: "what a byte queue limit does to the device queue and to those who wait behind it",
    sources: &[
        "Published: \"[PATCH v4 0/10] bql: Byte Queue Limits\", Tom Herbert, netdev, 28 November 2011.",
        "\"queue\" is the mean of bytes posted to the device and not yet completed. Bands: queue +-10 % and tps +-15 % for the",
        "priority rows; queue within 2x and tps +-3 % for the size rows. A range as published is widened by its band.",
        "From the source: streams, sizes, ring 1024, pfifo_fast, TSO, 1 Gbit/s. From the device's driver: completions every",
        "250 us, two descriptors for the smallest frame. Fitted on the priority rows without BQL: descriptors per full frame",
        "(3.4) and per 64 KB unit (21.5) on the queues, link delay (0.34 ms) on \"no BQL, no TSO\". Fitted on the size rows",
        "without BQL: processor time per message on \"1 B\", per byte on \"140 B\". Every other row is predicted with these.",
        "tps of the size rows repeat the line's rate or a fitted row, so arithmetic gives them.",
        "\"law\" is not a published measurement: a saturated queue settles at 2 x rate x completion interval, +- one packet.",
        "Scenarios: scenarios/bql-priority.toml, bql-rr-sizes.toml, bql-rate-step.toml (run one with `txweir lab run`).",
    ],
    headline: Headline {
        about: "transactions/s, byte limit off -> on",
        places: [
            Place { row: "priority: no BQL, TSO", metric: "tps" },
            Place { row: "priority: BQL, TSO", metric: "tps" },
        ],
        between: " -> ",
    },
    plot: &PLOT,
    run,
};

const PLOT: Plot = Plot {
    panels: &[
        Panel {
            title: "in the device (rate step: the limit), bytes",
            metrics: &["queue", "limit"],
            spread: None,
            log: true,
            share: 1,
        },
        Panel { title: "transactions per second", metrics: &["tps"], spread: None, log: true, share: 1 },
    ],
    without: &[],
};

fn run(_: Extent, progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>, String> {
    let mut rows = priority(progress, true)?;
    rows.extend(sizes(progress)?);
    rows.extend(rate_step(progress)?);
    Ok(rows)
}

/// Runs a scenario with some values set to its end, and measures it from its warm-up on.
fn finished(text: &str, name: &str, set: &[(&str, &str)]) -> Result<(Built, Instant), String> {
    let scenario = Scenario::parse_with(text, name, set).map_err(|e| e.to_string())?;
    let mut built = scenario.build(scenario.seed()).map_err(|e| e.to_string())?;
    let end = Instant(scenario.duration().0);
    built.net.run(Instant(scenario.warmup().0));
    built.net.measure();
    built.net.run(end);
    Ok((built, end))
}

/// Returns the mean bytes in the device of the first link, and the transactions per second of a
/// group.
fn queue_and_tps(built: &Built, end: Instant, group: usize) -> [f64; 2] {
    let [ring, _] = built.net.links().nic(0).gauges();
    let seconds = end.saturating_since(built.net.meters().measuring_from()).0 as f64 / 1e9;
    [ring.mean(end) as f64, built.net.traffic().groups()[group].latency.len() as f64 / seconds]
}

/// Returns both metrics of one case as rows.
fn pair(
    case: String,
    [queue, tps]: [Published; 2],
    measured: [f64; 2],
    bands: [Band; 2],
    fitted: [Option<&'static str>; 2],
) -> [Row; 2] {
    let row = |metric, unit, published, measured, band, fitted| {
        let row = Row::measured("bql", case.clone(), (metric, unit), measured).beside(published, band);
        Row { fitted, ..row }
    };
    [
        row("queue", "bytes", queue, measured[0], bands[0], fitted[0]),
        row("tps", "1/s", tps, measured[1], bands[1], fitted[1]),
    ]
}

/// Measures a high-priority RR under 100 bulk streams; `limit` is false to leave the limit off in
/// the rows named "BQL".
fn priority(progress: &mut dyn FnMut(&str), limit: bool) -> Result<Vec<Row>, String> {
    let k = 1000.0;
    let cases = [
        (
            "no BQL, TSO",
            false,
            true,
            Published::range(3000.0 * k, 3200.0 * k),
            36.0,
            [Some("descriptors"), None],
        ),
        ("BQL, TSO", true, true, Published::range(156.0 * k, 194.0 * k), 535.0, [None, None]),
        (
            "no BQL, no TSO",
            false,
            false,
            Published::range(453.0 * k, 454.0 * k),
            234.0,
            [Some("descriptors"), Some("delay")],
        ),
        ("BQL, no TSO", true, false, Published::one(66.0 * k), 914.0, [None, None]),
    ];
    progress("priority RR under 100 streams, with a byte limit and without");
    let rows = each(cases.len(), |job| {
        let (case, bql, tso, queue, tps, fitted) = cases[job];
        let set = [
            ("link.0.bql", if bql && limit { "true" } else { "false" }),
            ("host.0.tso", if tso { "\"65240\"" } else { "\"0\"" }),
        ];
        let (built, end) = finished(PRIORITY, "bql-priority.toml", &set)?;
        let measured = queue_and_tps(&built, end, 1);
        let published = [queue, Published::one(tps)];
        let bands = [Band::Percent(10.0), Band::Percent(15.0)];
        Ok(pair(format!("priority: {case}"), published, measured, bands, fitted))
    });
    Ok(rows?.into_iter().flatten().collect())
}

/// Measures 200 RR streams of one size.
fn sizes(progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>, String> {
    // Size; queue in thousands of bytes and tps, with BQL and without; the parameter that was
    // fitted on the row without.
    let table = [
        (140_000_u32, [80.0, 215.0], 856.0, [2700.0, 2930.0], 854.0, None),
        (14_000, [25.0, 55.0], 8_500.0, [1500.0, 1622.0], 8_523.0, None),
        (1_400, [20.0, 38.0], 86_582.0, [29.0, 117.0], 85_738.0, None),
        (140, [1.0, 10.0], 320_540.0, [1.0, 13.0], 323_158.0, Some("time per byte")),
        (1, [0.0, 3.0], 338_811.0, [0.0, 3.0], 339_947.0, Some("time per message")),
    ];
    progress("200 RR streams of five sizes, with a byte limit and without");
    let rows = each(2 * table.len(), |job| {
        let (size, queue_bql, tps_bql, queue_none, tps_none, fitted) = table[job / 2];
        let (bql, queue, tps, fitted) = match job % 2 {
            0 => (false, queue_none, tps_none, fitted),
            _ => (true, queue_bql, tps_bql, None),
        };
        let case = format!("{size} B, {}", if bql { "BQL" } else { "no BQL" });
        let text = format!("\"{size}\"");
        let set = [("link.0.bql", if bql { "true" } else { "false" }), ("traffic.0.size", &text)];
        let (built, end) = finished(SIZES, "bql-rr-sizes.toml", &set)?;
        let measured = queue_and_tps(&built, end, 0);
        let published = [Published::range(queue[0] * 1e3, queue[1] * 1e3), Published::one(tps)];
        let bands = [Band::Factor(2.0), Band::Percent(3.0)];
        let mut both = pair(format!("sizes: {case}"), published, measured, bands, [None, fitted]);
        // Large answers fill the line, and the limit costs small ones nothing.
        both[1].follows = Some(if size >= 1_400 { "the line's rate" } else { "the row without BQL" });
        Ok(both)
    });
    Ok(rows?.into_iter().flatten().collect())
}

/// Measures the limit after a change of the line rate.
fn rate_step(progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>, String> {
    progress("the line rate steps 1 Gbit/s, 100 Mbit/s, 10 Gbit/s");
    let scenario = Scenario::parse(STEP, "bql-rate-step.toml").map_err(|e| e.to_string())?;
    let mut built = scenario.build(scenario.seed()).map_err(|e| e.to_string())?;
    // Start and end of each phase in ms, and its rate in bytes per completion interval of 250 us.
    let phases = [
        ("1 Gbit/s", 0, 4_000, 31_250.0),
        ("100 Mbit/s", 4_000, 10_000, 3_125.0),
        ("10 Gbit/s", 10_000, 12_000, 312_500.0),
    ];
    let mut rows = Vec::new();
    for (case, start, end, per_interval) in phases {
        // The loop reads the limit every 10 ms; its last value is the settled one.
        let mut limits: Vec<(u64, f64)> = Vec::new();
        for ms in (start + 10..=end).step_by(10) {
            built.net.run(Instant::from_millis(ms));
            let limit = built.net.links().nic(0).port().paths()[0].tx().limit().map_or(0, |d| d.limit());
            limits.push((ms - start, f64::from(limit)));
        }
        let settled = limits.last().map_or(0.0, |l| l.1);
        let away = limits.iter().rev().find(|l| (l.1 - settled).abs() > 0.1 * settled).map_or(0, |l| l.0);
        let row = |metric, unit, published, measured, band| {
            let row = Row::measured("bql", format!("rate step: {case}"), (metric, unit), measured);
            Row { law: true, ..row.beside(published, band) }
        };
        // The limit counts bytes of posted and completed frames; the line also carries 24 bytes
        // with each frame.
        let law = 2.0 * per_interval * 1514.0 / 1538.0;
        rows.push(row("limit", "bytes", Published::one(law), settled, Band::Absolute(1514.0)));
        if start > 0 {
            // The limit rises at once, which is within the 10 ms between two readings. It falls
            // within a few hold times of 1 s.
            let most = if per_interval > 10_000.0 { 0.02 } else { 4.0 };
            rows.push(row(
                "settled after",
                "s",
                Published::range(0.0, most),
                away as f64 / 1e3,
                Band::Absolute(0.0),
            ));
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bands tell the mechanism from none: without a limit, the rows of its effect leave their
    /// bands.
    #[test]
    fn without_the_limit_its_rows_leave_their_bands() {
        let rows = priority(&mut |_| {}, false).unwrap();
        let with: Vec<&Row> = rows.iter().filter(|r| r.row.starts_with("priority: BQL")).collect();
        assert_eq!(with.len(), 4);
        for row in with {
            assert_eq!(row.within(), Some(false), "{}, {}: {}", row.row, row.metric, row.measured);
        }
    }
}
