//! The numbers of links, queues, qdiscs and classes, collected a part at a time: the links have
//! their turn between two parts.

use txweir_core::Reasons;
use txweir_core::text::stats::{Counter, Counters, Unit};
use txweir_tc::show::measured::{Measured, measure};

use super::page::{Labels, Page, Scope};
use crate::link::Link;
use crate::links::Links;
use crate::show::{ByteLimit, LinkCounts, QueueCounts};
use crate::whole_way::{Whole, Why};

static DROPS: Counter = Counter::new("drop_reasons", "Packets dropped, by reason.");
static MARKS: Counter = Counter::new("mark_reasons", "Packets marked, by reason.");
static DELAYS: Counter =
    Counter::new("delay_ns", "Time of frames in each stage of the link.").of(Unit::Nanos);
static UP: Counter = Counter::new("up", "1 while the link is up; 0 while its interface is not.").falls();
static LINK_RATE: Counter = Counter::new("rate", "Configured rate of the wire.").falls().of(Unit::Rate);
/// The rates of a kind by their keys. A key that is not here has no metric.
static RATES: [Counter; 5] = [
    rate("rate", "Configured rate."),
    rate("ceil", "Configured ceiling: the rate with what other classes lend."),
    rate("peakrate", "Configured peak rate."),
    rate("bandwidth", "Configured rate of the shaper."),
    rate("maxrate", "Configured rate of a flow at most."),
];

const fn rate(key: &'static str, about: &'static str) -> Counter {
    Counter::new(key, about).falls().of(Unit::Rate)
}

/// The place of the next object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Index of a link.
    link: usize,
    part: Part,
}

/// The parts of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Link,
    /// Its queues with paths of their own, from this one; queue 0 stands for the path of all
    /// queues. The byte limit of a link is nowhere else.
    Queues(usize),
    /// Its qdiscs and classes, from this one.
    Qdiscs(usize),
}

impl Cursor {
    /// Adds the numbers of at most `most` objects. Returns true if there are no more.
    pub fn step(&mut self, links: &mut Links, page: &mut Page, most: usize) -> bool {
        let mut left = most;
        while left > 0 {
            let Some(link) = links.all_mut().get_mut(self.link) else { return true };
            let labels = Labels::default().and("link", link.name.as_str());
            let next = match self.part {
                Part::Link => {
                    left -= 1;
                    of_link(link, &labels, page);
                    Some(Part::Queues(0))
                }
                Part::Queues(from) => {
                    let whole = Whole::to(link);
                    let paths = whole.paths().enumerate().skip(from).take(left);
                    let mut at = from;
                    for (queue, path) in paths {
                        let labels = labels.and("queue", &queue.to_string());
                        counters(page, Scope("queue", ""), labels.text(), &QueueCounts::of(path));
                        if let Some(limit) = ByteLimit::of(path) {
                            counters(page, Scope("queue", "bql"), labels.text(), &limit);
                        }
                        at = queue + 1;
                    }
                    left -= at - from;
                    let there_are_more = at > from && at < whole.paths().count();
                    Some(if there_are_more { Part::Queues(at) } else { Part::Qdiscs(0) })
                }
                Part::Qdiscs(from) => {
                    let trees = Whole::to(link).trees();
                    let next = measure(trees, from, left, &mut |object| {
                        left -= 1;
                        of_object(object, &labels, page);
                    });
                    next.map(Part::Qdiscs)
                }
            };
            match next {
                Some(part) => self.part = part,
                None => *self = Self { link: self.link + 1, part: Part::Link },
            }
        }
        self.link >= links.all().len()
    }
}

/// Adds counters as they are declared.
fn counters(page: &mut Page, scope: Scope, labels: &str, counters: &impl Counters) {
    counters.visit(&mut |counter, n| page.add(scope, counter, labels, n.into()));
}

/// Adds the numbers of a link itself.
fn of_link(link: &mut Link, labels: &Labels, page: &mut Page) {
    let interface = link.counters_of_all();
    let link = &*link;
    let whole = Whole::to(link);
    counters(page, Scope("link", ""), labels.text(), &LinkCounts::of(&whole));
    page.add(Scope("link", ""), &UP, labels.text(), i128::from(link.state() == "up"));
    if let Some(rate) = link.env().link_rate {
        page.add(Scope("link", ""), &LINK_RATE, labels.text(), rate.0.into());
    }
    counters(page, Scope("path", ""), labels.text(), &whole.path());
    counters(page, Scope("frames", ""), labels.text(), &whole.stats());
    if let Some(crossed) = whole.crossed() {
        counters(page, Scope("crossed", ""), labels.text(), &crossed);
    }
    if let Some(delays) = whole.delays() {
        for (stage, times) in delays.stages() {
            page.add_times(Scope("link", ""), &DELAYS, labels.and("stage", stage).text(), times);
        }
    }
    if let Some((_, gate, _)) = whole.gate() {
        counters(page, Scope("gate", ""), labels.text(), &gate);
    }
    if let Some(interface) = interface {
        counters(page, Scope("interface", ""), labels.text(), &interface);
    }
    whole.each_reason(&mut |why, name, n| {
        let counter = if why == Why::Drop { &DROPS } else { &MARKS };
        page.add(Scope("link", ""), counter, labels.and("reason", name).text(), n.into());
    });
}

/// Adds the numbers of a qdisc or a class.
fn of_object(object: &Measured<'_>, link: &Labels, page: &mut Page) {
    let labels = link.and("qdisc", &object.qdisc).and("kind", object.kind).and("parent", &object.parent);
    let (labels, usual, own) = match &object.class {
        None => (labels, Scope("qdisc", ""), Scope(object.kind, "")),
        Some(class) => (labels.and("class", class), Scope("class", ""), Scope(object.kind, "class")),
    };
    counters(page, usual, labels.text(), &object.usual);
    if let Some(reasons) = &object.reasons {
        of_reasons(reasons, usual, &labels, page);
    }
    object.counters(&mut |counter, n| page.add(own, counter, labels.text(), n));
    object.parts(&mut |tin, counter, n| {
        page.add(Scope(object.kind, "tin"), counter, labels.and("tin", tin).text(), n.into());
    });
    object.rates(&mut |key, n| {
        if let Some(counter) = RATES.iter().find(|counter| counter.key == key) {
            page.add(own, counter, labels.text(), n.into());
        }
    });
}

fn of_reasons(reasons: &Reasons, scope: Scope, labels: &Labels, page: &mut Page) {
    for (reason, n) in reasons.each_drop() {
        page.add(scope, &DROPS, labels.and("reason", reason.name()).text(), n.into());
    }
    for (reason, n) in reasons.each_mark() {
        page.add(scope, &MARKS, labels.and("reason", reason.name()).text(), n.into());
    }
}
