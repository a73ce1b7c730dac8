//! A trial in a few sentences: the latency that matters most, and the groups that a policy starves.

use super::measure::{MARKED_FROM, Measure};
use super::{GroupTrial, PolicyTrial};

/// Kinds of groups, those that wait for answers first, bulk last.
pub(super) const ORDER: [&str; 10] =
    ["rr", "udprr", "dns", "cbr", "replay", "voice", "video", "short", "stream", "quic"];

/// Returns the place of a kind in [`ORDER`]; an unknown one comes last.
pub(super) fn rank(kind: &str) -> usize {
    ORDER.iter().position(|k| *k == kind).unwrap_or(ORDER.len())
}

/// Returns one sentence on the latency, and one on each policy that served a group nothing which
/// another one served, because that group's latency is in no table.
pub(super) fn verdict(policies: &[PolicyTrial]) -> Vec<String> {
    latency(policies).into_iter().chain(starved(policies)).collect()
}

/// Returns the measure of a group.
fn of<'a>(policy: &'a PolicyTrial, group: &str, measure: &str) -> Option<&'a Measure> {
    policy.measures.iter().find(|m| m.measure == measure && m.group.as_deref() == Some(group))
}

/// Compares the first policy's 99th percentile with the best one of the others, in the group that
/// waits for answers.
fn latency(policies: &[PolicyTrial]) -> Option<String> {
    let first = policies.first()?;
    let p99 = |p, group: &GroupTrial| of(p, &group.name, "latency_p99_ns").filter(|m| m.median.is_some());
    let group = first.groups.iter().filter(|g| p99(first, g).is_some()).min_by_key(|g| rank(g.kind))?;
    let was = p99(first, group)?;
    let what = if group.kind == "stream" { "RTT p99" } else { "p99" };
    let head = format!("{} {what}", group.title());
    let said = |m: &Measure| m.median.map_or_else(String::new, |v| m.unit.text(v));
    let others = policies.iter().skip(1).filter_map(|p| Some((p, p99(p, group)?)));
    let Some((best, now)) = others.min_by(|a, b| value(a.1).total_cmp(&value(b.1))) else {
        return Some(format!("{head}: {} with {}", said(was), first.name));
    };
    let runs = was.runs.len();
    Some(if was.differs(now) && value(now) < value(was) {
        let times = value(was) / value(now).max(1.0);
        let times = if times < 9.95 { format!("{times:.1}") } else { format!("{times:.0}") };
        format!(
            "{head}: {} with {}, {} with {}: {times} times lower",
            said(was),
            first.name,
            said(now),
            best.name
        )
    } else {
        let pair = format!("{head}: {} with {}, {} with {}", said(was), first.name, said(now), best.name);
        match (was.differs(now), runs < MARKED_FROM as usize) {
            (true, _) => pair,
            (false, true) => format!("{pair}; {} not enough to tell them apart", runs_are(runs)),
            (false, false) => format!("{pair}: not told apart by {runs} runs each"),
        }
    })
}

fn value(m: &Measure) -> f64 {
    m.median.unwrap_or(f64::INFINITY)
}

fn runs_are(runs: usize) -> String {
    if runs == 1 { "one run each is".into() } else { format!("{runs} runs each are") }
}

/// Returns a sentence on each policy under which a group got no service in some run, while another
/// policy always served it.
fn starved(policies: &[PolicyTrial]) -> Vec<String> {
    let rate = |p, g: &GroupTrial| {
        of(p, &g.name, "throughput_bit_s").or_else(|| of(p, &g.name, "transactions_per_s"))
    };
    let empty = |p, g: &GroupTrial| {
        rate(p, g).map_or(0, |m| m.runs.iter().filter(|v| v.is_none_or(|v| v <= 0.0)).count())
    };
    let served = |g: &GroupTrial| policies.iter().any(|p| rate(p, g).is_some() && empty(p, g) == 0);
    let each = policies.iter().filter_map(|p| {
        let some = p.groups.iter().filter(|g| served(g) && empty(p, g) > 0);
        let some: Vec<String> = some
            .map(|g| match (empty(p, g), rate(p, g).map_or(0, |m| m.runs.len())) {
                (n, all) if n == all => g.title(),
                (n, all) => format!("{} (in {n} of {all} runs)", g.title()),
            })
            .collect();
        (!some.is_empty()).then(|| format!("starved with {}: {}", p.name, some.join(", ")))
    });
    each.collect()
}
