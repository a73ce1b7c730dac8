//! mq, mqprio and taprio as tc prints them: roots with a qdisc for each transmit queue. The
//! counters of mq and mqprio are the sums over those qdiscs, and the default qdiscs of queues are
//! printed as well.

use txweir_core::path::trees::Trees;
use txweir_core::sched::node::{Books, Node};
use txweir_core::sched::traffic::Range;
use txweir_core::text::value::{Json, Show, exact_of, text_of};
use txweir_core::{Handle, Rate, Reasons};
use txweir_core::{qdisc::mqprio, sched::erased::Qdisc};

use super::class::{Classes, name_object, name_of, write_name};
use super::{Form, Printed, book_lines, book_object, rate_text};

/// The beginning of mqprio's lines.
const INDENT: &str = "\n             ";

/// True if a root only stands for the qdiscs of the queues.
pub(super) fn stand(node: &Node) -> bool {
    matches!(node.qdisc().spec().kind, "mq" | "mqprio" | "cake_mq" | "taprio")
}

/// True if the counts of a root are those of the qdiscs of the queues: taprio has its own.
pub(super) fn counts_below(node: &Node) -> bool {
    stand(node) && node.qdisc().spec().kind != "taprio"
}

/// The qdiscs of the queues below a root that stands for them, in the order of the queues; empty
/// for other roots.
pub(super) type Below<'a, 'n> = &'a [&'n Node];

/// Returns the [`Below`] of a device: of one tree the qdiscs in the classes of its root, of several
/// the roots of those.
pub(super) fn below<'n>(trees: &Trees<'n>) -> Vec<&'n Node> {
    let mut all = Vec::new();
    if stand(trees.root()) {
        trees.visit(&mut |place, node| all.extend((place.depth == 1).then_some(node)));
    }
    all
}

/// Returns the counts of a root, or of a traffic class: the sums over its queues.
fn sums(below: Below<'_, '_>, range: Range) -> Books {
    let queues = below.iter().skip(range.offset.into()).take(range.count.into());
    queues.fold(Books::default(), |sum, node| sum.plus(&node.books()))
}

/// Returns the books of a qdisc as tc prints them.
pub(super) fn books(node: &Node, below: Below<'_, '_>) -> Books {
    if counts_below(node) { sums(below, Range { count: u16::MAX, offset: 0 }) } else { node.books() }
}

/// Returns the reasons of drops and marks in a qdisc and below: for a root that stands for the
/// qdiscs of queues, the sums over these.
pub(super) fn reasons(node: &Node, below: Below<'_, '_>) -> Reasons {
    match counts_below(node) {
        true => below.iter().fold(Reasons::default(), |sum, node| sum.plus(node.account().reasons())),
        false => *node.account().reasons(),
    }
}

/// Returns the options of mqprio.
pub(super) fn options(qdisc: &dyn Qdisc, form: &Form) -> Vec<Printed> {
    let Some(classes) = mqprio::classes_of(qdisc) else { return Vec::new() };
    let mut given = Vec::new();
    qdisc.options(&mut |o| given.push((o.param.key, text_of(o.value), o.value.json(), o.value.is_set())));
    let word = |key: &str| {
        let said = given.iter().find(|(k, _, _, _)| *k == key);
        said.map_or_else(String::new, |(_, text, _, _)| text.clone())
    };
    let tc = classes.ranges().len() as u64;
    let map = classes.map().map(|tc| tc.to_string()).join(" ");
    let map_json = Json::List(classes.map().iter().map(|tc| u64::from(*tc)).collect());
    let ends = |r: &Range| [r.offset, r.offset + r.count.saturating_sub(1)].map(u64::from);
    let rows: Vec<Vec<u64>> = classes.ranges().iter().map(|r| ends(r).to_vec()).collect();
    let queues: Vec<String> = rows.iter().map(|row| format!("({}:{})", row[0], row[1])).collect();
    let (mode, shaper) = (word("mode"), word("shaper"));
    let mut lines = format!("{INDENT}mode:{mode}{INDENT}shaper:{shaper}");
    let mut more = Vec::new();
    for (key, _, json, _) in given.iter().filter(|(_, _, _, set)| *set) {
        if let ("min_rate" | "max_rate", Json::List(rates)) = (*key, json) {
            let texts: Vec<String> = rates.iter().map(|rate| rate_text(Rate(*rate), form.iec)).collect();
            lines.push_str(&format!("   {key}:{}", texts.join(" ")));
            more.push(Printed { key, text: None, json: Some(json.clone()) });
        }
    }
    if let Some((key, text, json, _)) = given.iter().find(|(key, _, _, set)| *key == "fp" && *set) {
        lines.push_str(&format!("{INDENT}fp:{text}"));
        more.push(Printed { key, text: None, json: Some(json.clone()) });
    }
    let mut printed = vec![
        Printed { key: "tc", text: Some(format!("tc {tc}")), json: Some(Json::Uint(tc)) },
        Printed { key: "map", text: Some(format!("map {map}")), json: Some(map_json) },
        Printed {
            key: "queues",
            text: Some(format!("{INDENT}queues:{}", queues.join(" "))),
            json: Some(Json::Rows(rows)),
        },
        Printed { key: "mode", text: Some(lines), json: Some(Json::Text(mode)) },
        Printed { key: "shaper", text: None, json: Some(Json::Text(shaper)) },
    ];
    printed.append(&mut more);
    printed
}

/// Returns the options of mqprio in one line, each with its key.
pub(super) fn option_words(qdisc: &dyn Qdisc) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    let mut push =
        |key: &'static str, value: &dyn Show| all.push((key, format!("{key} {}", exact_of(value))));
    qdisc.options(&mut |o| {
        if o.value.is_set() {
            push(o.param.key, o.value);
        }
    });
    all
}

/// A class of a root that stands for queues.
pub struct OfQueues {
    parent: Parent,
    /// The qdisc of a queue; [`Handle::NONE`] for a traffic class.
    pub leaf: Handle,
    /// Its counters.
    pub books: Books,
}

impl OfQueues {
    /// Returns its parent, [`Handle::ROOT`] for the root; `None` if it has none.
    pub(super) fn parent(&self) -> Option<Handle> {
        match self.parent {
            Parent::Root => Some(Handle::ROOT),
            Parent::Class(class) => Some(class),
            Parent::None => None,
        }
    }
}

/// Calls `f` on the classes: for mqprio the traffic classes, then for both kinds the queues.
pub(super) fn each_class(node: &Node, below: Below<'_, '_>, f: &mut dyn FnMut(Handle, &OfQueues)) {
    let major = node.handle().major();
    let traffic = mqprio::classes_of(node.qdisc());
    let minor = |tc: usize| mqprio::CLASS_MINOR.saturating_add(u16::try_from(tc).unwrap_or(u16::MAX));
    for (tc, range) in traffic.iter().flat_map(|t| t.ranges()).enumerate() {
        let class = OfQueues { parent: Parent::Root, leaf: Handle::NONE, books: sums(below, *range) };
        f(Handle::new(major, minor(tc)), &class);
    }
    for (queue, node) in (0u16..).zip(below) {
        let parent = match &traffic {
            None => Parent::Root,
            Some(traffic) => match traffic.class_of_queue(queue) {
                Some(tc) => Parent::Class(Handle::new(major, minor(tc))),
                None => Parent::None,
            },
        };
        let class = OfQueues { parent, leaf: node.handle(), books: node.books() };
        f(Handle::new(major, queue.saturating_add(1)), &class);
    }
}

/// The parent of a class.
#[derive(Clone, Copy)]
enum Parent {
    Root,
    Class(Handle),
    /// A queue without a traffic class.
    None,
}

/// Writes a class.
pub(super) fn write_class(
    out: &mut String,
    owner: &Node,
    id: Handle,
    OfQueues { parent, leaf, books }: &OfQueues,
    form: &Form,
    asked: &Classes,
) -> std::fmt::Result {
    write_name(out, owner, id, form, asked)?;
    out.push_str(&match parent {
        Parent::Root => "root ".to_string(),
        Parent::Class(class) => format!("parent {} ", name_of(*class, form, asked)),
        Parent::None => "parent none ".to_string(),
    });
    if !leaf.is_none() {
        out.push_str(&format!("leaf {leaf} "));
    }
    out.push('\n');
    if form.statistics { book_lines(out, books) } else { Ok(()) }
}

/// Returns a class as an object.
pub(super) fn class_object(
    owner: &Node,
    id: Handle,
    OfQueues { parent, leaf, books }: &OfQueues,
    form: &Form,
) -> String {
    let mut o = name_object(owner, id, form);
    o = match parent {
        Parent::Root => o.bool("root", true),
        Parent::Class(class) => o.text("parent", &form.named(*class)),
        Parent::None => o.text("parent", "none"),
    };
    if !leaf.is_none() {
        o = o.text("leaf", &leaf.to_string());
    }
    if form.statistics { book_object(o, books).finish() } else { o.finish() }
}
