//! A tree as `tc qdisc show` prints it, in text and JSON, and as the commands that would make it.
//!
//! What is printed comes from the declarations of parameters and counters; the few things that tc prints
//! otherwise than declared are in `STYLES` and in `tbf`.

use std::fmt::Write;

use txweir_core::cx::Cx;
use txweir_core::node::Node;
use txweir_core::qdisc::{Qdisc, pfifo_fast};
use txweir_core::time::Nanos;
use txweir_core::tree::Place;
use txweir_core::value::{Json, PrioMap, Show, Words, exact_of, text_of};
use txweir_core::{Bytes, ConfigError, Handle, Rate, Tree};

use crate::json::{self, Object};

/// How tc prints a kind where its declarations do not say it.
struct Style {
    kind: &'static str,
    /// Its options end in a blank.
    trailing: bool,
    /// Counters that begin a line.
    breaks: &'static [&'static str],
    /// Counters that are left out while they are zero.
    hidden: &'static [&'static str],
    /// Counters that are microseconds.
    times: &'static [&'static str],
    /// Counters that are printed as a word alone, while they are not zero.
    words: &'static [&'static str],
}

const PLAIN: Style = Style { kind: "", trailing: false, breaks: &[], hidden: &[], times: &[], words: &[] };

const STYLES: [Style; 3] = [
    Style {
        kind: "codel",
        trailing: true,
        breaks: &["maxpacket"],
        hidden: &["ce_mark"],
        times: &["ldelay", "drop_next"],
        words: &["dropping"],
    },
    Style {
        kind: "fq_codel",
        trailing: true,
        breaks: &["new_flows_len"],
        hidden: &["ce_mark", "memory_used", "drop_overmemory"],
        ..PLAIN
    },
    Style { kind: "tbf", trailing: true, ..PLAIN },
];

fn style(kind: &str) -> &'static Style {
    STYLES.iter().find(|s| s.kind == kind).unwrap_or(&PLAIN)
}

/// One option as printed: key, text (`None`: the key alone), JSON. What has no text or no JSON is not printed
/// there.
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

/// As `tc qdisc show` prints it, with `stats` as `tc -s`; `dev` is printed if given, as tc does where more
/// than one device is asked for. Default qdiscs below a class are not shown.
pub fn text(tree: &Tree, dev: Option<&str>, stats: bool) -> String {
    let mut out = String::new();
    shown(tree, &mut |place, node| {
        // Writing into a String cannot fail.
        let _ = write_text(&mut out, place, node, dev, stats);
    });
    out
}

/// As `tc -j qdisc show` prints it: a list of objects, rates in bytes per second, times in microseconds.
pub fn json(tree: &Tree, dev: Option<&str>, stats: bool) -> String {
    let mut items = Vec::new();
    shown(tree, &mut |place, node| items.push(object(place, node, dev, stats)));
    json::list(items)
}

/// The commands that make the tree, without loss, one a line, parents first. A default root takes none.
pub fn commands(tree: &Tree, dev: Option<&str>) -> String {
    let mut out = String::new();
    for made in made_by(tree) {
        out.push_str("qdisc replace");
        if let Some(dev) = dev {
            out.push_str(&format!(" dev {dev}"));
        }
        match made.parent {
            Handle::ROOT => out.push_str(" root"),
            parent => out.push_str(&format!(" parent {parent}")),
        }
        out.push_str(&format!(" handle {} {}", made.handle, made.kind));
        for word in made.options {
            out.push(' ');
            out.push_str(&word);
        }
        out.push('\n');
    }
    out
}

/// A tree of the same structure and options, with nothing queued and nothing counted.
pub(crate) fn copy(tree: &Tree, cx: &mut Cx) -> Result<Tree, ConfigError> {
    let mut copy = Tree::new(*tree.env());
    for made in made_by(tree) {
        let options: Vec<&str> = made.options.iter().map(String::as_str).collect();
        copy.replace(made.parent, Some(made.handle), made.kind, &mut Words::new(&options), cx)?;
    }
    Ok(copy)
}

/// What makes one qdisc.
struct Made {
    parent: Handle,
    handle: Handle,
    kind: &'static str,
    options: Vec<String>,
}

fn made_by(tree: &Tree) -> Vec<Made> {
    let mut all = Vec::new();
    tree.visit(&mut |place, node| {
        if node.handle().is_none() {
            return;
        }
        let mut options = Vec::new();
        node.qdisc().options(&mut |o| {
            if !o.value.is_set() {
                return;
            }
            options.extend(o.word.map(String::from));
            if !o.param.flag {
                options.extend(exact_of(o.value).split(' ').map(String::from));
            }
        });
        let (parent, handle, kind) = (place.parent, node.handle(), node.qdisc().spec().kind);
        all.push(Made { parent, handle, kind, options });
    });
    all
}

/// Calls `f` on what is shown: the root, and what was added below.
fn shown(tree: &Tree, f: &mut dyn FnMut(Place, &Node)) {
    tree.visit(&mut |place, node| {
        if place.depth == 0 || !node.handle().is_none() {
            f(place, node);
        }
    });
}

fn handle_text(handle: Handle) -> String {
    if handle.is_none() { "0:".into() } else { handle.to_string() }
}

fn write_text(
    out: &mut String,
    place: Place,
    node: &Node,
    dev: Option<&str>,
    stats: bool,
) -> std::fmt::Result {
    let kind = node.qdisc().spec().kind;
    write!(out, "qdisc {kind} {}", handle_text(node.handle()))?;
    if let Some(dev) = dev {
        write!(out, " dev {dev}")?;
    }
    match place.depth {
        // One reference from the device and one from its queue, as tc counts on a device of one queue.
        0 => write!(out, " root refcnt 2")?,
        _ => write!(out, " parent {}", place.parent)?,
    }
    for option in options(node.qdisc()) {
        if let Some(text) = option.text {
            write!(out, " {text}")?;
        }
    }
    writeln!(out, "{}", if style(kind).trailing { " " } else { "" })?;
    if stats { write_stats(out, node) } else { Ok(()) }
}

fn write_stats(out: &mut String, node: &Node) -> std::fmt::Result {
    let b = node.books();
    writeln!(
        out,
        " Sent {} bytes {} pkt (dropped {}, overlimits {} requeues 0) ",
        b.sent.bytes, b.sent_segs, b.dropped.packets, b.overlimits
    )?;
    writeln!(out, " backlog {} {}p requeues 0", text_of(&Bytes(b.queued.bytes)), b.queued.packets)?;
    let style = style(node.qdisc().spec().kind);
    let mut line = String::new();
    node.qdisc().counters(&mut |counter, n| {
        let key = counter.key;
        if n == 0 && (style.hidden.contains(&key) || style.words.contains(&key)) {
            return;
        }
        if style.breaks.contains(&key) {
            line.push_str("\n ");
        } else if line.is_empty() {
            line.push(' ');
        }
        line.push(' ');
        line.push_str(key);
        if style.times.contains(&key) {
            line.push_str(&format!(" {}", text_of(&Nanos::from_micros(n))));
        } else if !style.words.contains(&key) {
            line.push_str(&format!(" {n}"));
        }
    });
    if line.is_empty() { Ok(()) } else { writeln!(out, "{line}") }
}

fn object(place: Place, node: &Node, dev: Option<&str>, stats: bool) -> String {
    let kind = node.qdisc().spec().kind;
    let mut o = Object::new().text("kind", kind).text("handle", &handle_text(node.handle()));
    if let Some(dev) = dev {
        o = o.text("dev", dev);
    }
    o = match place.depth {
        0 => o.bool("root", true).uint("refcnt", 2),
        _ => o.text("parent", &place.parent.to_string()),
    };
    let printed = options(node.qdisc());
    let members = printed.iter().filter_map(|p| Some((p.key, p.json.as_ref()?)));
    let inner = members.fold(Object::new(), |o, (key, value)| o.value(key, value));
    o = o.raw("options", &inner.finish());
    if stats {
        let b = node.books();
        for (key, n) in [
            ("bytes", b.sent.bytes),
            ("packets", b.sent_segs),
            ("drops", b.dropped.packets),
            ("overlimits", b.overlimits),
            ("requeues", 0),
            ("backlog", b.queued.bytes),
            ("qlen", b.queued.packets),
        ] {
            o = o.uint(key, n);
        }
        o = counters(o, node.qdisc());
    }
    o.finish()
}

fn counters(o: Object, qdisc: &dyn Qdisc) -> Object {
    let style = style(qdisc.spec().kind);
    let mut o = Some(o);
    qdisc.counters(&mut |counter, n| {
        let key = counter.key;
        let word = style.words.contains(&key);
        if n == 0 && (word || style.hidden.contains(&key)) {
            return;
        }
        o = o.take().map(|o| if word { o.bool(key, true) } else { o.uint(key, n) });
    });
    o.unwrap_or_default()
}

/// The options as tc prints them.
fn options(qdisc: &dyn Qdisc) -> Vec<Printed> {
    let mut printed = Vec::new();
    qdisc.options(&mut |o| {
        let json = o.value.json();
        // A flag that is off is not printed.
        if !o.value.is_set() || o.param.flag && json == Json::Bool(false) {
            return;
        }
        printed.push(match o.param.flag {
            true => Printed { key: o.param.key, text: o.word.map(String::from), json: Some(json) },
            false => Printed::new(o.param.key, o.value),
        });
    });
    match qdisc.spec().kind {
        "tbf" => tbf(&printed),
        "prio" => {
            printed.push(Printed { key: "multiqueue", text: None, json: Some(Json::Bool(false)) });
            printed
        }
        "pfifo_fast" => vec![
            Printed::new("bands", &3u32),
            Printed::new("priomap", &PrioMap(pfifo_fast::PRIOMAP)),
            Printed { key: "multiqueue", text: None, json: Some(Json::Bool(false)) },
        ],
        _ => printed,
    }
}

/// tbf as tc prints it: the bucket as packets are charged for it, overhead and minimum included; the limit as
/// the latency that it amounts to once the bucket is empty, at the slower of the two rates, unless that is
/// negative.
fn tbf(options: &[Printed]) -> Vec<Printed> {
    let given = |key: &str| match options.iter().find(|o| o.key == key)?.json {
        Some(Json::Uint(n)) => Some(n),
        _ => None,
    };
    let (overhead, mpu) = (given("overhead").unwrap_or(0), given("mpu").unwrap_or(0));
    let charged = |size: u64| size.saturating_add(overhead).max(mpu);
    let time = |bytes: u64, rate: u64| i128::from(bytes) * 1_000_000_000 / i128::from(rate.max(1));
    let (rate, limit) = (given("rate").unwrap_or(0), given("limit").unwrap_or(0));
    let burst = charged(given("burst").unwrap_or(0));
    let peak = given("peakrate").map(|peak| (peak, charged(given("mtu").unwrap_or(0))));
    let mut latency = time(limit, rate) - time(burst, rate);
    let mut printed = vec![Printed::new("rate", &Rate(rate)), Printed::new("burst", &Bytes(burst))];
    if let Some((peak, bucket)) = peak {
        printed.push(Printed::new("peakrate", &Rate(peak)));
        printed.push(Printed::new("minburst", &Bytes(bucket)));
        latency = latency.max(time(limit, peak) - time(bucket, peak));
    }
    printed.push(match u64::try_from(latency) {
        Ok(ns) => Printed::new("lat", &Nanos(ns)),
        Err(_) => Printed::new("limit", &Bytes(limit)),
    });
    if overhead > 0 {
        printed.push(Printed::new("overhead", &Bytes(overhead)));
        if let Some(last) = printed.last_mut() {
            last.text = Some(format!("overhead {overhead}"));
        }
    }
    printed
}
