//! The qdiscs of a device as `tc qdisc show` prints them, in text and JSON, and as the commands
//! that would make them.
//!
//! The output comes from the declarations of kinds, parameters and counters; the modules of kinds
//! have the exceptions of tc.

mod cake;
mod class;
#[cfg(feature = "kinds")]
mod dualpi2;
mod etf;
mod fq;
mod fq_codel;
#[cfg(feature = "kinds")]
mod gred;
#[cfg(feature = "kinds")]
mod htb;
mod made;
pub mod measured;
#[cfg(feature = "kinds")]
mod netem;
mod number;
mod queues;
mod reasons;
#[cfg(feature = "kinds")]
mod red;
mod sfb;
#[cfg(feature = "kinds")]
mod sfq;
mod stab;
mod taprio;
mod tbf;

use std::fmt::Write;

#[cfg(feature = "kinds")]
use txweir_core::law::curve::Curve;
use txweir_core::packet::pool::Pool;
use txweir_core::path::tree::Place;
use txweir_core::path::trees::Trees;
use txweir_core::sched::node::{Books, Node};
use txweir_core::sched::stab::Stab;
use txweir_core::text::params::Shown;
use txweir_core::text::stats::{Counter, Form as CounterForm};
use txweir_core::text::value::{Json, PrioMap, Quantity, Show, Value, exact_of, text_of};
use txweir_core::{Bytes, Handle, Packets, Rate};
use txweir_core::{qdisc::pfifo_fast, sched::erased::Qdisc};

pub use crate::class_names::ClassNames;
use crate::json::{self, Object};
use measured::Usual;
use queues::Below;

pub(crate) use class::class_option_texts;
pub(crate) use class::{Classes, one as one_class};
pub use class::{Seen, What, each as each_class};
#[cfg(test)]
pub(crate) use made::COPIES;
pub(crate) use made::{Copying, objects};
pub use made::{commands, copy};
pub(crate) use number::rate_text;
use number::{general, three_digits, time_text};
pub use queues::OfQueues;

/// The form of the output: tc's options, and tc's knowledge of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// The device's name, printed where several devices are listed.
    pub dev: Option<String>,
    /// References to the root: one for each transmit queue of the device, and one more.
    pub refcnt: u32,
    /// Counters too (`-s`).
    pub statistics: bool,
    /// Details too (`-d`).
    pub details: bool,
    /// Raw numbers too (`-r`).
    pub raw: bool,
    /// Rates in units of 1024 (`-iec`).
    pub iec: bool,
    /// Default qdiscs below classes too (`invisible`).
    pub invisible: bool,
    /// Names of classes (`-nm`), printed in front of their numbers.
    pub names: ClassNames,
}

impl Form {
    /// Returns a class as it is printed.
    fn named(&self, class: Handle) -> String {
        self.names.shown(class)
    }
}

impl Default for Form {
    /// Returns the form without options, on a device of one queue.
    fn default() -> Self {
        Self {
            dev: None,
            refcnt: 2,
            statistics: false,
            details: false,
            raw: false,
            iec: false,
            invisible: false,
            names: ClassNames::default(),
        }
    }
}

/// One option as printed: key, text (`None`: not in text), JSON (`None`: not in JSON).
struct Printed {
    key: &'static str,
    text: Option<String>,
    json: Option<Json>,
}

impl Printed {
    fn new(key: &'static str, value: &dyn Show) -> Self {
        Self { key, text: Some(format!("{key} {}", text_of(value))), json: Some(value.json()) }
    }
}

/// Prints qdiscs as `tc qdisc show` does, with `stats` as `tc -s`; `dev` is printed if given, as tc
/// does where several devices are listed. Default qdiscs below a class are left out.
pub fn text<'a>(trees: impl Into<Trees<'a>>, dev: Option<&str>, stats: bool) -> String {
    let form = Form { dev: dev.map(String::from), statistics: stats, ..Form::default() };
    qdiscs(trees, &form, &|_, _| true)
}

/// Prints qdiscs as `tc -j qdisc show` does: a list of objects, rates in bytes per second, times in
/// microseconds.
pub fn json<'a>(trees: impl Into<Trees<'a>>, dev: Option<&str>, stats: bool) -> String {
    let form = Form { dev: dev.map(String::from), statistics: stats, ..Form::default() };
    json::list(qdisc_objects(trees, &form, &|_, _| true))
}

/// A test for the qdiscs to print, by place and node.
pub type Wanted<'a> = &'a dyn Fn(Place, &Node) -> bool;

/// Prints qdiscs as `tc qdisc show` does.
pub fn qdiscs<'a>(trees: impl Into<Trees<'a>>, form: &Form, wanted: Wanted<'_>) -> String {
    let mut out = String::new();
    let trees = trees.into();
    let below = queues::below(&trees);
    shown(&trees, form, wanted, &mut |place, node| {
        // Writing into a String cannot fail.
        let _ = write_text(&mut out, place, node, &below, form);
    });
    out
}

/// Returns a listed qdisc whose counters are its own, as text or as an object.
pub(crate) fn one_qdisc(place: Place, node: &Node, form: &Form, as_json: bool) -> String {
    if as_json {
        return object(place, node, &[], form);
    }
    let mut out = String::new();
    // Writing into a String cannot fail.
    let _ = write_text(&mut out, place, node, &[], form);
    out
}

/// Calls `f` on each listed qdisc with its counters, in the order of the list; with `invisible`
/// also on default qdiscs below classes.
pub fn each_qdisc<'a>(trees: impl Into<Trees<'a>>, invisible: bool, f: &mut dyn FnMut(Place, &Node, &Books)) {
    let trees = trees.into();
    let below = queues::below(&trees);
    let form = Form { invisible, ..Form::default() };
    shown(&trees, &form, &|_, _| true, &mut |place, node| f(place, node, &queues::books(node, &below)));
}

/// True if the counts of a root, and the references to it, are those of the qdiscs of transmit
/// queues (mq, mqprio).
#[must_use]
pub fn counts_below(node: &Node) -> bool {
    queues::counts_below(node)
}

/// Returns qdiscs as `tc -j qdisc show` prints them, each an object.
pub(crate) fn qdisc_objects<'a>(trees: impl Into<Trees<'a>>, form: &Form, wanted: Wanted<'_>) -> Vec<String> {
    let mut items = Vec::new();
    let trees = trees.into();
    let below = queues::below(&trees);
    shown(&trees, form, wanted, &mut |place, node| items.push(object(place, node, &below, form)));
    items
}

/// Returns the options of a qdisc and its size table without loss, as the words that make them.
pub(crate) fn exact_options(node: &Node) -> String {
    let table = node.front().stab().map(stab::words);
    let options = table.into_iter().chain(words_of(node.qdisc()));
    options.collect::<Vec<String>>().join(" ")
}

/// Returns a size table as `tc -d` prints it.
pub(crate) fn stab_text(table: &Stab) -> String {
    stab::text(table)
}

fn words_of(qdisc: &dyn Qdisc) -> Vec<String> {
    let mut words = Vec::new();
    qdisc.options(&mut |o| push_words(&mut words, &o));
    words
}

fn push_words(words: &mut Vec<String>, o: &Shown<'_>) {
    if !o.value.is_set() {
        return;
    }
    words.extend(o.word.map(String::from));
    if !o.param.flag {
        words.extend(exact_of(o.value).split(' ').map(String::from));
    }
}

/// Calls `f` on the listed qdiscs: the root, those added below, and the default ones of transmit
/// queues.
fn shown(trees: &Trees<'_>, form: &Form, wanted: Wanted<'_>, f: &mut dyn FnMut(Place, &Node)) {
    let queues = queues::stand(trees.root());
    let mut with_child = Vec::new();
    trees.visit_with(&mut |_, node, _| {
        with_child.extend(node.qdisc().spec().style.lists_child.then_some(node.handle().major()));
    });
    in_order(trees, &mut |mut place, node, _| {
        let mut of_queue = queues && place.depth == 1;
        if place.depth > 0 && node.handle().is_none() && with_child.contains(&place.parent.major()) {
            of_queue = true;
            place.parent = Handle::new(place.parent.major(), 0);
        }
        let visible = place.depth == 0 || !node.handle().is_none() || form.invisible || of_queue;
        if visible && wanted(place, node) {
            f(place, node);
        }
    });
}

/// Calls `f` on every qdisc in the order in which Linux lists them: the root, then by a hash of the
/// handle, and of those with the same hash the later ones first. Default qdiscs count as the
/// oldest.
fn in_order<'a>(trees: &Trees<'a>, f: &mut dyn FnMut(Place, &'a Node, Option<&'a Pool>)) {
    let mut all: Vec<(Place, &Node, Option<&Pool>)> = Vec::new();
    trees.visit_with(&mut |place, node, pool| all.push((place, node, pool)));
    let mut order: Vec<usize> = (0..all.len()).collect();
    let hashed = |handle: Handle| (bucket(handle), handle.is_none());
    order.sort_by_key(|i| (*i > 0, hashed(all[*i].1.handle()), std::cmp::Reverse(*i)));
    for (place, node, pool) in order.into_iter().map(|i| all[i]) {
        f(place, node, pool);
    }
}

/// Returns one of 16 buckets: the top bits of the product with 2^32 over the golden ratio (Knuth,
/// TAOCP 3, section 6.4).
const fn bucket(handle: Handle) -> u32 {
    handle.0.wrapping_mul(0x61c8_8647) >> 28
}

pub(crate) fn handle_text(handle: Handle) -> String {
    if handle.is_none() { "0:".into() } else { handle.to_string() }
}

fn write_text(
    out: &mut String,
    place: Place,
    node: &Node,
    below: Below<'_, '_>,
    form: &Form,
) -> std::fmt::Result {
    let kind = node.qdisc().spec().kind;
    write!(out, "qdisc {kind} {}", handle_text(node.handle()))?;
    if form.raw {
        write!(out, "[{:08x}]", node.handle().0)?;
    }
    if let Some(dev) = &form.dev {
        write!(out, " dev {dev}")?;
    }
    match place.depth {
        // The queues hold references to their own qdiscs.
        0 if queues::counts_below(node) => write!(out, " root")?,
        0 => write!(out, " root refcnt {}", form.refcnt)?,
        _ => write!(out, " parent {}", form.named(place.parent))?,
    }
    for option in options(node.qdisc(), form) {
        if let Some(text) = option.text {
            write!(out, " {text}")?;
        }
    }
    writeln!(out, "{}", if node.qdisc().spec().style.options_end_blank { " " } else { "" })?;
    if let Some(stab) = node.front().stab().filter(|_| form.details) {
        writeln!(out, " {} ", stab::text(stab))?;
    }
    if form.statistics { write_stats(out, node, below, form) } else { Ok(()) }
}

/// Writes the two lines of counters that every qdisc has.
fn write_books(out: &mut String, node: &Node, below: Below<'_, '_>) -> std::fmt::Result {
    book_lines(out, &queues::books(node, below))
}

fn book_lines(out: &mut String, b: &Books) -> std::fmt::Result {
    writeln!(
        out,
        " Sent {} bytes {} pkt (dropped {}, overlimits {} requeues 0) ",
        b.sent.bytes + b.peeked.bytes,
        b.sent_segs + b.peeked_segs,
        b.dropped.packets,
        b.overlimits
    )?;
    writeln!(out, " backlog {} {}p requeues 0", text_of(&Bytes(b.queued.bytes)), b.queued.packets)
}

fn write_stats(out: &mut String, node: &Node, below: Below<'_, '_>, form: &Form) -> std::fmt::Result {
    write_books(out, node, below)?;
    match node.qdisc().spec().kind {
        "fq" => {
            out.push_str(&fq::counters_text(node.qdisc()));
            return Ok(());
        }
        #[cfg(feature = "kinds")]
        "dualpi2" => {
            out.push_str(&dualpi2::counters_text(node.qdisc()));
            return Ok(());
        }
        "cake" => return cake::write_stats(out, node.qdisc(), form),
        _ => {}
    }
    let mut line = String::new();
    own_counters(node.qdisc(), false, &mut |counter, n| {
        if counter.print.line {
            line.push_str("\n ");
        } else if line.is_empty() {
            line.push(' ');
        }
        line.push(' ');
        line.push_str(counter.key);
        match counter.print.form {
            CounterForm::Number => line.push_str(&format!(" {n}")),
            CounterForm::Micros => line.push_str(&format!(" {}", time_text(n))),
            CounterForm::Part => line.push_str(&format!(" {}", part(n))),
            CounterForm::Word => {}
        }
    });
    let end = if node.qdisc().spec().style.counters_end_blank { " " } else { "" };
    if line.is_empty() { Ok(()) } else { writeln!(out, "{line}{end}") }
}

fn object(place: Place, node: &Node, below: Below<'_, '_>, form: &Form) -> String {
    let kind = node.qdisc().spec().kind;
    let mut o = Object::new().text("kind", kind).text("handle", &handle_text(node.handle()));
    if let Some(dev) = &form.dev {
        o = o.text("dev", dev);
    }
    o = match place.depth {
        0 if queues::counts_below(node) => o.bool("root", true),
        0 => o.bool("root", true).uint("refcnt", form.refcnt.into()),
        _ => o.text("parent", &form.named(place.parent)),
    };
    let printed = options(node.qdisc(), form);
    let members = printed.iter().filter_map(|p| Some((p.key, p.json.as_ref()?)));
    let inner = members.fold(Object::new(), |o, (key, value)| o.value(key, value));
    o = o.raw("options", &inner.finish());
    if let Some(stab) = node.front().stab().filter(|_| form.details) {
        o = o.raw("stab", &stab::object(stab));
    }
    if form.statistics {
        o = counters(books(o, node, below), node.qdisc());
        o = reasons::members(o, &queues::reasons(node, below));
    }
    o.finish()
}

/// Adds the counters that every qdisc has.
fn books(o: Object, node: &Node, below: Below<'_, '_>) -> Object {
    book_object(o, &queues::books(node, below))
}

fn book_object(o: Object, b: &Books) -> Object {
    Usual::from(b).members(o)
}

fn counters(o: Object, qdisc: &dyn Qdisc) -> Object {
    match qdisc.spec().kind {
        "fq" => return fq::counters_json(o, qdisc),
        #[cfg(feature = "kinds")]
        "dualpi2" => return dualpi2::counters_json(o, qdisc),
        _ => {}
    }
    let mut o = Some(o);
    own_counters(qdisc, false, &mut |counter, n| {
        o = o.take().map(|o| match counter.print.form {
            CounterForm::Word => o.bool(counter.key, true),
            CounterForm::Part => o.raw(counter.key, &part(n)),
            CounterForm::Number | CounterForm::Micros => o.uint(counter.key, n),
        });
    });
    let o = o.unwrap_or_default();
    if qdisc.spec().kind == "cake" { o.raw("tins", &cake::tin_objects(qdisc)) } else { o }
}

/// Visits the counters of a kind that are printed behind those of every qdisc, with `all` also
/// those that are printed elsewhere, or left out while they are 0.
fn own_counters(qdisc: &dyn Qdisc, all: bool, f: &mut dyn FnMut(&'static Counter, u64)) {
    if qdisc.spec().style.counters_in_options && !all {
        return;
    }
    let mut on = Vec::new();
    qdisc.options(&mut |o| on.extend((o.value.json() == Json::Bool(true)).then_some(o.param.key)));
    qdisc.counters(&mut |counter, n| {
        let off = counter.print.with.is_some_and(|flag| !on.contains(&flag));
        let silent = n == 0 && counter.print.nonzero;
        if !off && (all || !silent) {
            f(counter, n);
        }
    });
}

/// Returns a number of parts of 2^64 as tc prints a fraction.
fn part(n: u64) -> String {
    general(n as f64 / u64::MAX as f64, 6)
}

/// Returns the options as tc prints them.
fn options(qdisc: &dyn Qdisc, form: &Form) -> Vec<Printed> {
    match qdisc.spec().kind {
        #[cfg(feature = "kinds")]
        "dualpi2" => return dualpi2::options(qdisc, form),
        "fq" => return fq::options(qdisc, form),
        "fq_codel" => return fq_codel::options(qdisc, form),
        #[cfg(feature = "kinds")]
        "gred" => return gred::options(qdisc, form),
        #[cfg(feature = "kinds")]
        "htb" => return htb::options(qdisc, form),
        #[cfg(feature = "kinds")]
        "netem" => return netem::options(qdisc, form),
        #[cfg(feature = "kinds")]
        "red" => return red::options(qdisc, form, &Bytes),
        #[cfg(feature = "kinds")]
        "choke" => return red::options(qdisc, form, &|n| Packets(u32::try_from(n).unwrap_or(u32::MAX))),
        "etf" => return etf::options(qdisc),
        // tc prints none of plug's.
        "plug" => return Vec::new(),
        "cake" | "cake_mq" => return cake::options(qdisc, form),
        "sfb" => return sfb::options(qdisc),
        #[cfg(feature = "kinds")]
        "sfq" => return sfq::options(qdisc, form),
        "mqprio" => return queues::options(qdisc, form),
        "taprio" => return taprio::options(qdisc),
        "tbf" => return tbf::options(qdisc, form),
        _ => {}
    }
    let mut printed = Vec::new();
    qdisc.options(&mut |o| printed.extend(option(&o, form)));
    // No qdisc has it since Linux 2.6.27.
    let multiqueue = Printed { key: "multiqueue", text: None, json: Some(Json::Bool(false)) };
    match qdisc.spec().kind {
        "multiq" => {
            // The number of queues of the device, and the number of classes that it can have.
            let bands = qdisc.classes().len() as u64;
            let text = Some(format!("bands {bands}/{bands}"));
            printed.push(Printed { key: "bands", text, json: Some(Json::Uint(bands)) });
        }
        "prio" => printed.push(multiqueue),
        "pfifo_fast" => {
            printed.push(Printed::new("bands", &3u32));
            printed.push(Printed::new("priomap", &PrioMap(pfifo_fast::PRIOMAP)));
            printed.push(multiqueue);
        }
        _ => {}
    }
    printed
}

/// Returns the options of a qdisc as `tc qdisc show` prints them, each with its key; those of
/// mqprio, which tc prints in several lines, as its words.
pub(crate) fn option_texts(qdisc: &dyn Qdisc) -> Vec<(&'static str, String)> {
    if qdisc.spec().kind == "mqprio" {
        return queues::option_words(qdisc);
    }
    let all = options(qdisc, &Form::default());
    all.into_iter().filter_map(|p| Some((p.key, p.text?))).collect()
}

fn option(o: &Shown<'_>, form: &Form) -> Option<Printed> {
    let json = o.value.json();
    // A flag that is off is not printed.
    if !o.value.is_set() || o.param.flag && json == Json::Bool(false) {
        return None;
    }
    let key = o.param.key;
    Some(match (o.param.flag, &json) {
        (true, _) => Printed { key, text: o.word.map(String::from), json: Some(json) },
        (false, Json::Uint(n)) if o.param.quantity == Quantity::Rate => rate(key, Rate(*n), form),
        (false, Json::Uint(us)) if o.param.quantity == Quantity::Time => time(key, *us),
        #[cfg(feature = "kinds")]
        (false, Json::Members(parts)) if o.param.expected == Curve::EXPECTED => {
            Printed { key, text: Some(curve(key, parts, form)), json: Some(json) }
        }
        (false, _) => Printed::new(key, o.value),
    })
}

/// Returns a service curve as tc prints it.
#[cfg(feature = "kinds")]
fn curve(key: &str, parts: &[(&'static str, Json)], form: &Form) -> String {
    parts.iter().fold(key.into(), |text: String, (part, value)| match value {
        Json::Uint(us) if *part == "d" => format!("{text} {part} {}", time_text(*us)),
        Json::Uint(n) => format!("{text} {part} {}", rate_text(Rate(*n), form.iec)),
        _ => text,
    })
}

fn time(key: &'static str, us: u64) -> Printed {
    Printed { key, text: Some(format!("{key} {}", time_text(us))), json: Some(Json::Uint(us)) }
}

fn rate(key: &'static str, rate: Rate, form: &Form) -> Printed {
    Printed { key, text: Some(format!("{key} {}", rate_text(rate, form.iec))), json: Some(rate.json()) }
}
