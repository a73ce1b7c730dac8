//! The qdiscs, classes and tins of a link in the order of their tree.

use std::collections::HashMap;

use serde_json::Value;

use super::snapshot::{Counters, Row, text};

/// Most levels of the tree that are indented apart. The tree itself has at most 8 levels of qdiscs,
/// and each may have levels of classes.
const DEPTH_MAX: usize = 10;

/// An object of `tc -s -j qdisc show` or `tc -s -j class show`, and its place.
struct Node<'a> {
    object: &'a Value,
    /// True for a class.
    class: bool,
    kind: String,
    handle: String,
    parent: String,
}

impl<'a> Node<'a> {
    fn new(object: &'a Value, class: bool) -> Self {
        let kind = text(&object[if class { "class" } else { "kind" }]);
        Self { object, class, kind, handle: text(&object["handle"]), parent: text(&object["parent"]) }
    }

    /// Returns the handle of the node above it; `None` at the top.
    fn above(&self, known: &HashMap<&str, usize>) -> Option<String> {
        let qdisc_of = |handle: &str| handle.split_once(':').map(|(major, _)| format!("{major}:"));
        let above = match (self.parent.is_empty(), self.class) {
            (false, _) if known.contains_key(self.parent.as_str()) => Some(self.parent.clone()),
            (false, false) => qdisc_of(&self.parent),
            (_, true) => qdisc_of(&self.handle),
            (true, false) => None,
        };
        above.filter(|above| known.contains_key(above.as_str()) && *above != self.handle)
    }

    fn row(&self, depth: usize) -> Row {
        let what = if self.class { "class" } else { "qdisc" };
        let name = format!("{what} {} {}", self.kind, self.handle);
        Row {
            key: format!("{name} {}", self.parent),
            name,
            depth: depth.min(DEPTH_MAX),
            counters: self.counters(),
        }
    }

    fn counters(&self) -> Counters {
        let n = |key: &str| self.object[key].as_u64();
        // A qdisc has its marks by reason, as far as there are any; classes have none.
        let marks = self.object["mark_reasons"].as_object();
        let marks = marks.map_or(0, |all| all.values().filter_map(Value::as_u64).sum());
        Counters {
            bytes: n("bytes"),
            packets: n("packets"),
            drops: n("drops"),
            marks: (!self.class).then_some(marks),
            backlog: n("backlog"),
            qlen: n("qlen"),
        }
    }

    /// Returns the rows of the tins of a cake. A tin counts what came to it.
    fn tins(&self, depth: usize) -> impl Iterator<Item = Row> {
        let tins = self.object["tins"].as_array().into_iter().flatten().enumerate();
        tins.map(move |(at, tin)| {
            let n = |key: &str| tin[key].as_u64();
            let counters = Counters {
                bytes: n("sent_bytes"),
                packets: n("sent_packets"),
                drops: n("drops"),
                marks: n("ecn_mark"),
                backlog: n("backlog_bytes"),
                qlen: None,
            };
            let (name, depth) = (format!("tin {at}"), depth.min(DEPTH_MAX));
            Row { key: format!("{name} of {}", self.handle), name, depth, counters }
        })
    }
}

/// Returns the rows of a link: each qdisc, then its tins and classes, each followed by those below
/// it. The classes that stand for the flows of a qdisc (fq_codel, cake) are left out: they are many
/// and count no bytes.
pub fn rows(qdiscs: &[Value], classes: &[Value]) -> Vec<Row> {
    let of_flow = |class: &&Value| class.get("bytes").is_none() && class.get("deficit").is_some();
    let nodes: Vec<Node<'_>> = qdiscs
        .iter()
        .map(|object| Node::new(object, false))
        .chain(classes.iter().filter(|class| !of_flow(class)).map(|object| Node::new(object, true)))
        .collect();
    // The default qdiscs below classes all have the handle 0:, and nothing is below them.
    let handles = nodes.iter().enumerate().filter(|(_, node)| node.handle != "0:");
    let known: HashMap<&str, usize> = handles.map(|(at, node)| (node.handle.as_str(), at)).collect();
    let mut below: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut top = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        match node.above(&known).and_then(|above| known.get(above.as_str())) {
            Some(above) => below.entry(*above).or_default().push(at),
            None => top.push(at),
        }
    }
    let mut rows = Vec::new();
    let mut todo: Vec<(usize, usize)> = top.into_iter().rev().map(|at| (at, 0)).collect();
    // Bound: each node is below at most one other, so it is taken at most once.
    while let Some((at, depth)) = todo.pop() {
        rows.push(nodes[at].row(depth));
        rows.extend(nodes[at].tins(depth + 1));
        let children = below.remove(&at).unwrap_or_default();
        todo.extend(children.into_iter().rev().map(|child| (child, depth + 1)));
    }
    rows
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(qdiscs: Value, classes: Value) -> Vec<String> {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let rows = rows(&list(&qdiscs), &list(&classes));
        rows.iter().map(|row| format!("{}{}", " ".repeat(row.depth), row.name)).collect()
    }

    #[test]
    fn classes_stand_below_their_qdisc_and_qdiscs_below_their_class() {
        let qdiscs = json!([
            {"kind": "htb", "handle": "1:", "root": true},
            {"kind": "fq_codel", "handle": "20:", "parent": "1:20"},
            {"kind": "clsact", "handle": "ffff:", "parent": "ffff:fff1"},
        ]);
        let classes = json!([
            {"class": "htb", "handle": "1:1", "root": true},
            {"class": "htb", "handle": "1:10", "parent": "1:1"},
            {"class": "htb", "handle": "1:20", "parent": "1:1", "leaf": "20:"},
            {"class": "fq_codel", "handle": "20:3f", "parent": "20:", "deficit": 1514},
        ]);
        assert_eq!(
            shown(qdiscs, classes),
            [
                "qdisc htb 1:",
                " class htb 1:1",
                "  class htb 1:10",
                "  class htb 1:20",
                "   qdisc fq_codel 20:",
                "qdisc clsact ffff:",
            ]
        );
    }

    #[test]
    fn default_qdiscs_of_one_handle_stay_apart() {
        let qdiscs = json!([
            {"kind": "mq", "handle": "1:", "root": true},
            {"kind": "pfifo_fast", "handle": "0:", "parent": "1:2"},
            {"kind": "pfifo_fast", "handle": "0:", "parent": "1:1"},
        ]);
        let classes = json!([
            {"class": "mq", "handle": "1:1", "root": true},
            {"class": "mq", "handle": "1:2", "root": true},
        ]);
        let rows = rows(qdiscs.as_array().expect("a list"), classes.as_array().expect("a list"));
        let keys: Vec<&str> = rows.iter().map(|row| row.key.as_str()).collect();
        assert_eq!(
            keys,
            [
                "qdisc mq 1: ",
                "class mq 1:1 ",
                "qdisc pfifo_fast 0: 1:1",
                "class mq 1:2 ",
                "qdisc pfifo_fast 0: 1:2"
            ]
        );
    }

    #[test]
    fn tins_and_marks_are_counted() {
        let cake = json!([{
            "kind": "cake", "handle": "8001:", "root": true, "mark_reasons": {"codel": 5, "blue": 1},
            "tins": [{"sent_bytes": 10, "sent_packets": 1, "drops": 2, "ecn_mark": 6, "backlog_bytes": 7}],
        }]);
        let rows = rows(cake.as_array().expect("a list"), &[]);
        assert_eq!(rows[0].counters.marks, Some(6));
        let tin = Counters {
            bytes: Some(10),
            packets: Some(1),
            drops: Some(2),
            marks: Some(6),
            backlog: Some(7),
            qlen: None,
        };
        assert_eq!((rows[1].name.as_str(), rows[1].depth, &rows[1].counters), ("tin 0", 1, &tin));
    }

    #[test]
    fn parents_in_a_circle_are_not_shown() {
        // No daemon prints it; a broken one ends no client.
        let classes = json!([
            {"class": "htb", "handle": "1:1", "parent": "1:2"},
            {"class": "htb", "handle": "1:2", "parent": "1:1"},
        ]);
        assert_eq!(shown(json!([{"kind": "htb", "handle": "1:", "root": true}]), classes), ["qdisc htb 1:"]);
    }
}
