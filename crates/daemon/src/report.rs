//! The counters of links: the report of `txweir run` as text and as JSON, and the objects of
//! `txweir link show --json`. Counters come from their declarations (`stats!`), reasons from the
//! lists of the core.

use std::fmt::{self, Write};

use txweir_core::Nanos;
use txweir_core::text::stats::Counters as _;
use txweir_core::text::value::text_of;
use txweir_core::turns::{GateStats, Quota};
use txweir_device::Counters;
use txweir_runtime::{Delays, Direction};
use txweir_tc::json::{self, Object};
use txweir_tc::show;

use crate::end::End;
use crate::links::Links;
use crate::whole_way::Whole;
pub(crate) use crate::whole_way::Why;

/// Returns the report of every direction between a link and its peer, for people.
#[must_use]
pub fn text(links: &mut Links, elapsed: Nanos) -> String {
    text_of_parts(&mut [links], elapsed)
}

/// Returns the same report as one JSON object on one line. `event` is the cause of the report:
/// `stats` or `end`.
#[must_use]
pub fn json(links: &mut Links, event: &str, elapsed: Nanos) -> String {
    json_of_parts(&mut [links], event, elapsed)
}

/// Returns the report of links of which several workers have a part each, as one: for people.
///
/// # Panics
/// There is no part.
#[must_use]
pub fn text_of_parts(parts: &mut [&mut Links], elapsed: Nanos) -> String {
    let mut out = String::new();
    each_way(parts, |way, ends| {
        // Writing into a String cannot fail.
        let _ = write_direction(&mut out, way, ends, elapsed);
    });
    out
}

/// Returns the same report as one JSON object on one line.
///
/// # Panics
/// There is no part.
#[must_use]
pub fn json_of_parts(parts: &mut [&mut Links], event: &str, elapsed: Nanos) -> String {
    let mut ways = Vec::new();
    each_way(parts, |way, ends| ways.push(direction(way, ends)));
    let ways = json::list(ways);
    Object::new().text("event", event).uint("elapsed_ns", elapsed.0).raw("directions", &ways).finish()
}

/// The two ends of a direction.
struct Ends {
    from: String,
    to: String,
    input: Counters,
    output: Counters,
}

/// Calls `f` with each direction from a link to its peer.
fn each_way(parts: &mut [&mut Links], mut f: impl FnMut(&Whole<'_>, &Ends)) {
    let many = parts[0].all().len();
    let mut counted = vec![Counters::default(); many];
    for part in parts.iter_mut() {
        for (sum, link) in counted.iter_mut().zip(part.all_mut()) {
            *sum = sum.plus(&link.counters().unwrap_or_default());
        }
    }
    let parts: Vec<&Links> = parts.iter().map(|part| &**part).collect();
    let all = parts[0].all();
    for (from, link) in all.iter().enumerate() {
        let Some(to) = link.peer.as_ref().and_then(|peer| all.iter().position(|l| l.name == *peer)) else {
            continue;
        };
        let (input, output) = (counted[from], counted[to]);
        let ends = Ends { from: link.interface(), to: all[to].interface(), input, output };
        let ways = parts.iter().map(|part| &part.all()[to].way).collect();
        let owners = parts[0].seat.as_ref().map(|seat| seat.owners[to].clone());
        f(&Whole::of(ways, owners), &ends);
    }
}

fn write_direction(out: &mut String, whole: &Whole<'_>, ends: &Ends, elapsed: Nanos) -> fmt::Result {
    let (s, way) = (whole.stats(), whole.main());
    let rate = |bytes: u64| per_second(u128::from(bytes) * 8, elapsed);
    writeln!(out, "{} -> {}", ends.from, ends.to)?;
    let gso = ends.input.rx_gso_frames;
    writeln!(out, "  in     {} frames ({gso} super-frames), {}", s.received, size(s.received_bytes))?;
    if s.malformed + s.no_memory + s.unmade + ends.input.rx_lost() > 0 {
        writeln!(
            out,
            "         malformed {} no_memory {} unmade {} missed {} oversize {} refused {}",
            s.malformed,
            s.no_memory,
            s.unmade,
            ends.input.rx_missed,
            ends.input.rx_oversize,
            ends.input.rx_refused
        )?;
    }
    if s.filtered + s.taken > 0 {
        writeln!(out, "         filtered {} taken {}", s.filtered, s.taken)?;
    }
    for line in show::text(whole.trees(), None, true).lines() {
        writeln!(out, "  {}", line.trim_end())?;
    }
    let mut reasons = String::new();
    whole.each_reason(&mut |_, name, n| reasons.push_str(&format!(" {name} {n}")));
    if !reasons.is_empty() {
        writeln!(out, "   reasons{reasons}")?;
    }
    if let Some((gate, g, waiting)) = whole.gate() {
        writeln!(
            out,
            "  gate   fairsend {} passed {} held {} dropped {} turns ended {} waiting {} at most {}",
            gate.segs, g.passed, g.held, g.dropped, g.yields, waiting, g.waiting_max
        )?;
    }
    let path = whole.path();
    writeln!(
        out,
        "  path   direct {} queued {} stopped by ring {} by byte limit {} cut {} into {}",
        path.direct, path.queued, path.stop_drv, path.stop_stack, s.cut, s.pieces
    )?;
    match way.path().tx().limit() {
        None => writeln!(out, "  bql    off")?,
        Some(dql) => {
            let d = dql.stats();
            let every = d.completion_interval.map_or_else(|| "none yet".to_owned(), |i| text_of(&i));
            writeln!(
                out,
                "  bql    limit {} inflight {} starved {} shrinks {} completion interval {every}",
                size(u64::from(d.limit)),
                size(u64::from(d.inflight)),
                d.starved,
                d.shrinks
            )?;
        }
    }
    if let Some(wire) = way.wire() {
        writeln!(
            out,
            "  wire   rate {} ring {} sent {} frames, {}, {}, busy {}%; held at most {}; at most {} late",
            text_of(&wire.config().rate),
            wire.config().ring,
            s.departed,
            size(s.departed_bytes),
            rate(s.departed_bytes),
            percent(s.busy_ns, elapsed),
            size(s.held_max),
            text_of(&Nanos(s.late_max_ns))
        )?;
    }
    if let Some(delays) = whole.delays() {
        writeln!(out, "  delay  {}", delays_text(&delays))?;
    }
    let (full, lost) = (ends.output.tx_full, s.lost);
    let given_up = match s.timeouts {
        0 => String::new(),
        n => format!(", given up {n} times"),
    };
    writeln!(
        out,
        "  out    {} frames, marked {}, full {full}, lost {lost}{given_up}",
        s.delivered, s.marked
    )?;
    if let Some(crossed) = whole.crossed() {
        let in_each: Vec<String> = whole.parts().map(|part| part.stats().received.to_string()).collect();
        writeln!(
            out,
            "  crew   received {}; crossed {} refused {} on the way {}",
            in_each.join(" "),
            crossed.to_others,
            crossed.refused,
            crossed.to_others.saturating_sub(crossed.from_others)
        )?;
    }
    Ok(())
}

fn direction(whole: &Whole<'_>, ends: &Ends) -> String {
    let way = whole.main();
    let mut o = Object::new().text("from", &ends.from).text("to", &ends.to);
    if let Some((quota, stats, waiting)) = whole.gate() {
        o = o.raw("gate", &gate_of(quota, waiting, &stats));
    }
    o = o
        .raw("rx", &rx(&ends.input).finish())
        .raw("qdiscs", &show::json(whole.trees(), None, true))
        .raw("drops", &whole.reasons(Why::Drop))
        .raw("marks", &whole.reasons(Why::Mark))
        .raw("path", &counted(&whole.path()))
        .raw("bql", &bql(way))
        .raw("wire", &wire(way))
        .raw("stats", &counted(&whole.stats()))
        .raw("tx", &tx(&ends.output));
    if let Some(delays) = whole.delays() {
        o = o.raw("delays", &delays_json(&delays));
    }
    if let Some(crossed) = whole.crossed() {
        let parts = whole.parts().map(|part| {
            let o = Object::new().uint("received", part.stats().received);
            o.raw("crossed", &counted(&part.crossed())).finish()
        });
        o = o
            .raw("frames", &counted(&whole.ledger()))
            .raw("crossed", &counted(&crossed))
            .raw("workers", &json::list(parts));
    }
    o.finish()
}

/// Returns counters as an object, as they are declared.
pub(crate) fn counted(counters: &impl txweir_core::text::stats::Counters) -> String {
    let mut o = Some(Object::new());
    counters.visit(&mut |counter, n| o = o.take().map(|o| o.uint(counter.key, n)));
    o.unwrap_or_default().finish()
}

/// Returns the counters of frames that an interface has received.
pub(crate) fn rx(counters: &Counters) -> Object {
    of_prefix(counters, "rx_")
}

/// Returns the counters of frames that an interface has sent.
pub(crate) fn tx(counters: &Counters) -> String {
    of_prefix(counters, "tx_").finish()
}

/// Returns the counters of an interface whose names begin with `prefix`, without it.
fn of_prefix(counters: &Counters, prefix: &str) -> Object {
    let mut o = Some(Object::new());
    counters.visit(&mut |counter, n| {
        if let Some(key) = counter.key.strip_prefix(prefix) {
            o = o.take().map(|o| o.uint(key, n));
        }
    });
    o.unwrap_or_default()
}

/// Returns the state of the gate ahead of a direction's qdiscs, as JSON; `None` if flows do not
/// take turns.
#[must_use]
pub(crate) fn gate(way: &Whole<'_>) -> Option<String> {
    let (quota, stats, waiting) = way.gate()?;
    Some(gate_of(quota, waiting, &stats))
}

fn gate_of(quota: Quota, waiting: usize, stats: &GateStats) -> String {
    let mut o = Some(
        Object::new()
            .uint("fairsend", u64::from(quota.segs))
            .uint("waiting", u64::try_from(waiting).unwrap_or(u64::MAX)),
    );
    stats.visit(&mut |counter, n| o = o.take().map(|o| o.uint(counter.key, n)));
    o.unwrap_or_default().finish()
}

/// Returns the delays of each stage for people: the number of frames, and bounds of the delay of
/// half of them and of 99 %.
pub(crate) fn delays_text(delays: &Delays) -> String {
    let below = |time: Option<Nanos>| time.map_or_else(|| "-".to_owned(), |time| text_of(&time));
    let stages = delays.stages().map(|(name, times)| {
        let [half, most] = [50, 99].map(|percent| below(times.percentile(percent)));
        format!("{name} {} p50 {half} p99 {most}", times.count())
    });
    stages.join(", ")
}

/// Returns the delays of each stage as an object: the number of frames, the sum of their delays,
/// and the number in each bucket; buckets without a frame are left out.
pub(crate) fn delays_json(delays: &Delays) -> String {
    let stages = delays.stages().map(|(name, times)| {
        let buckets = times.buckets().filter(|(_, count)| *count > 0).map(|(bound, count)| {
            let bound = bound.map_or_else(|| "null".to_owned(), |bound| bound.0.to_string());
            Object::new().raw("below_ns", &bound).uint("frames", count).finish()
        });
        let o = Object::new().uint("frames", times.count()).uint("sum_ns", times.sum().0);
        (name, o.raw("buckets", &json::list(buckets)).finish())
    });
    stages.into_iter().fold(Object::new(), |o, (name, stage)| o.raw(name, &stage)).finish()
}

fn bql(way: &Direction<End>) -> String {
    let Some(dql) = way.path().tx().limit() else { return "null".to_owned() };
    let d = dql.stats();
    let o = Object::new()
        .uint("limit", u64::from(d.limit))
        .uint("limit_min", u64::from(d.limit_min))
        .uint("limit_max", u64::from(d.limit_max))
        .uint("hold_ns", d.hold_time.0)
        .uint("inflight", u64::from(d.inflight))
        .uint("completions", d.completions)
        .uint("starved", d.starved)
        .uint("shrinks", d.shrinks);
    match d.completion_interval {
        Some(interval) => o.uint("completion_interval_ns", interval.0).finish(),
        None => o.raw("completion_interval_ns", "null").finish(),
    }
}

fn wire(way: &Direction<End>) -> String {
    let Some(wire) = way.wire() else { return "null".to_owned() };
    Object::new()
        .uint("rate_bit_s", wire.config().rate.bits())
        .uint("ring", u64::from(wire.config().ring))
        .uint("descriptors_used", u64::from(wire.descriptors_used()))
        .uint("held_packets", wire.held().packets)
        .uint("held_bytes", wire.held().bytes)
        .uint("completion_rounds", wire.rounds())
        .finish()
}

/// Returns a size in decimal units, three digits: `3.12 MB`.
fn size(bytes: u64) -> String {
    scaled(u128::from(bytes), "B")
}

fn per_second(amount: u128, elapsed: Nanos) -> String {
    scaled(amount * 1_000_000_000 / u128::from(elapsed.0.max(1)), "bit/s")
}

/// Returns three significant digits and a decimal prefix: `3.12 MB`.
#[must_use]
pub fn scaled(amount: u128, unit: &str) -> String {
    let prefixes = ["", "k", "M", "G", "T", "P"];
    let (mut whole, mut part, mut power) = (amount, 0, 0);
    while whole >= 1000 && power + 1 < prefixes.len() {
        (whole, part) = (whole / 1000, whole % 1000);
        power += 1;
    }
    let prefix = prefixes[power];
    match (power, whole) {
        (0, _) | (_, 100..) => format!("{whole} {prefix}{unit}"),
        (_, 10..) => format!("{whole}.{} {prefix}{unit}", part / 100),
        _ => format!("{whole}.{:02} {prefix}{unit}", part / 10),
    }
}

/// Returns `part` of `whole` in percent, one decimal place.
fn percent(part_ns: u64, whole: Nanos) -> String {
    let tenths = u128::from(part_ns) * 1000 / u128::from(whole.0.max(1));
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        let shown = [0, 999, 1_000, 65_226, 130_452, 3_100_000_000].map(size);
        assert_eq!(shown, ["0 B", "999 B", "1.00 kB", "65.2 kB", "130 kB", "3.10 GB"]);
        assert_eq!(per_second(8_000_000_000, Nanos(8_000_000_000)), "1.00 Gbit/s");
        assert_eq!(per_second(1, Nanos(0)), "1.00 Gbit/s");
        assert_eq!(percent(983_456, Nanos(1_000_000)), "98.3");
    }
}
