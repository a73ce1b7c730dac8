//! The output of a dry run: the qdiscs that would be added, removed and changed, and the fate of
//! the waiting packets.

use std::collections::{BTreeMap, BTreeSet};

use txweir_core::sched::node::Node;
use txweir_core::{Handle, Tally, Tree};

use crate::json::{self, Object};
use crate::queued::Queued;
use crate::show;

/// The changes on a device; without a name, on none of them.
pub(crate) struct Change {
    pub(crate) dev: String,
    pub(crate) lines: Vec<Line>,
    pub(crate) moves: Vec<Move>,
}

/// A qdisc or class that would be added (`+`), removed (`-`) or changed (`~`).
pub(crate) struct Line {
    sign: char,
    text: String,
}

impl Line {
    pub(crate) const fn added(text: String) -> Self {
        Self { sign: '+', text }
    }
    pub(crate) const fn removed(text: String) -> Self {
        Self { sign: '-', text }
    }
    const fn op(&self) -> &'static str {
        match self.sign {
            '+' => "add",
            '-' => "delete",
            _ => "change",
        }
    }
}

/// Packets that wait in `from`, and the place where they would wait; `None`: they would be dropped.
pub(crate) struct Move {
    from: String,
    to: Option<String>,
    packets: Tally,
}

/// A qdisc or class as the plan names it.
struct Seen {
    key: (Handle, Handle, &'static str),
    /// True for a class: then the second of the key is its number.
    class: bool,
    options: Vec<(&'static str, String)>,
    /// Its options without loss.
    exact: String,
}

impl Seen {
    fn name(&self, dev: &str) -> String {
        let (parent, handle, kind) = self.key;
        let top = parent == Handle::ROOT || self.class && parent.minor() == 0;
        let place = if top { "root".into() } else { format!("parent {parent}") };
        let object = if self.class { "class" } else { "qdisc" };
        format!("{object} {kind} {handle} dev {dev} {place}")
    }
    fn text(&self, dev: &str) -> String {
        let options: Vec<&str> = self.options.iter().map(|(_, text)| text.as_str()).collect();
        format!("{} {}", self.name(dev), options.join(" ")).trim_end().to_string()
    }
}

fn seen(tree: &Tree) -> Vec<Seen> {
    let mut all = Vec::new();
    tree.visit(&mut |place, node: &Node| {
        if !node.handle().is_none() {
            let key = (place.parent, node.handle(), node.qdisc().spec().kind);
            let stab = node.front().stab().map(|stab| ("stab", format!("stab {}", show::stab_text(stab))));
            let options = stab.into_iter().chain(show::option_texts(node.qdisc())).collect();
            all.push(Seen { key, class: false, options, exact: show::exact_options(node) });
            let major = node.handle().major();
            let Some(classes) = node.qdisc().user_classes().filter(|c| c.class_spec().made) else { return };
            classes.list(&mut |class| {
                // The qdisc itself.
                if class.at.minor == 0 {
                    return;
                }
                let key = (Handle::new(major, class.at.parent), Handle::new(major, class.at.minor), key.2);
                let (options, exact) = show::class_option_texts(classes, &class);
                all.push(Seen { key, class: true, options, exact });
            });
        }
    });
    all
}

/// Returns the qdiscs in which two trees of a device differ. Default ones are left out.
pub(crate) fn differences(dev: &str, before: &Tree, after: &Tree) -> Vec<Line> {
    let (before, after) = (seen(before), seen(after));
    let id = |s: &Seen| (s.key, s.class);
    let olds: BTreeSet<_> = before.iter().map(id).collect();
    let news: BTreeMap<_, &Seen> = after.iter().map(|new| (id(new), new)).collect();
    let mut lines = Vec::new();
    for old in &before {
        let Some(new) = news.get(&id(old)) else {
            lines.push(Line::removed(old.text(dev)));
            continue;
        };
        let mut changed = changed_options(old, new);
        // The change is smaller than the three digits that tc prints.
        if changed.is_empty() && old.exact != new.exact {
            changed.push(format!("{} -> {}", old.exact, new.exact));
        }
        if !changed.is_empty() {
            lines.push(Line { sign: '~', text: format!("{}: {}", old.name(dev), changed.join(", ")) });
        }
    }
    let new = after.iter().filter(|new| !olds.contains(&id(new)));
    lines.extend(new.map(|new| Line::added(new.text(dev))));
    lines
}

/// Returns the lines that are only before, and those that are only after.
pub(crate) fn line_differences(before: &[String], after: &[String]) -> Vec<Line> {
    let set = |lines: &[String]| lines.iter().cloned().collect::<BTreeSet<String>>();
    let (old, new) = (set(before), set(after));
    // `filter replace dev a ...` is `filter dev a ...`.
    let text = |line: &String| {
        let verbs = [" replace ", " add "];
        let verb = verbs.into_iter().filter_map(|verb| Some((line.find(verb)?, verb))).min();
        verb.map_or_else(|| line.trim_end().into(), |(_, verb)| line.trim_end().replacen(verb, " ", 1))
    };
    let gone = before.iter().filter(|line| !new.contains(*line)).map(|line| Line::removed(text(line)));
    let come = after.iter().filter(|line| !old.contains(*line)).map(|line| Line::added(text(line)));
    gone.chain(come).collect()
}

/// Returns `limit 1000p -> 100p`, and options that are only on one side as `+` and `-`.
fn changed_options(old: &Seen, new: &Seen) -> Vec<String> {
    let mut changed = Vec::new();
    for (key, text) in &old.options {
        match new.options.iter().find(|(k, _)| k == key) {
            None => changed.push(format!("-{text}")),
            Some((_, now)) if now != text => {
                let value = now.strip_prefix(&format!("{key} ")).unwrap_or(now);
                changed.push(format!("{text} -> {value}"));
            }
            Some(_) => {}
        }
    }
    let come = new.options.iter().filter(|(key, _)| !old.options.iter().any(|(k, _)| k == key));
    changed.extend(come.map(|(_, text)| format!("+{text}")));
    changed
}

/// Returns the name of a packet's qdisc; one without a handle is named by the class that it hangs
/// below.
fn place(q: &Queued) -> String {
    let name = format!("{} {}", q.kind, show::handle_text(q.handle));
    match q.handle.is_none() && q.parent != Handle::ROOT {
        true => format!("{name} parent {}", q.parent),
        false => name,
    }
}

/// Returns the moves of packets put into a new tree: from their old places to their new ones.
pub(crate) fn moves(before: &[Queued], after: &[Option<Queued>]) -> Vec<Move> {
    // Dropped packets come last.
    let mut sums: BTreeMap<(String, bool, Option<String>), Tally> = BTreeMap::new();
    for (was, is) in before.iter().zip(after) {
        let key = (place(was), is.is_none(), is.as_ref().map(place));
        sums.entry(key).or_default().add(was.meta.wire_len);
    }
    sums.into_iter().map(|((from, _, to), packets)| Move { from, to, packets }).collect()
}

/// Returns the fate of packets in a tree that was changed under them: as many as a qdisc has left
/// stay, the rest is dropped.
pub(crate) fn stays(before: &[Queued], after: &Tree) -> Vec<Move> {
    let mut sums: BTreeMap<(Handle, Handle), (String, Tally)> = BTreeMap::new();
    for q in before {
        sums.entry((q.parent, q.handle))
            .or_insert_with(|| (place(q), Tally::default()))
            .1
            .add(q.meta.wire_len);
    }
    let mut now: BTreeMap<(Handle, Handle), Tally> = BTreeMap::new();
    after.visit(&mut |at, node| {
        now.insert((at.parent, node.handle()), node.books().queued);
    });
    let mut moves = Vec::new();
    for (at, (from, had)) in sums {
        let left = now.get(&at).copied().unwrap_or_default();
        let stay = Tally { packets: left.packets.min(had.packets), bytes: left.bytes.min(had.bytes) };
        let dropped = had.since(stay);
        for (packets, to) in [(stay, Some(from.clone())), (dropped, None)] {
            if packets.packets > 0 {
                moves.push(Move { from: from.clone(), to, packets });
            }
        }
    }
    moves
}

/// Prints the plan for all devices, as text or as JSON.
pub(crate) fn print(changes: &[Change], json: bool, pretty: bool) -> String {
    let changes = changes.iter().filter(|c| !c.lines.is_empty());
    if json {
        let list = json::list(changes.map(object));
        return if pretty { json::pretty(&list) } else { list } + "\n";
    }
    let mut out = String::new();
    for change in changes {
        for line in &change.lines {
            out.push_str(&format!("{} {}\n", line.sign, line.text));
        }
        for m in &change.moves {
            let Tally { packets, bytes } = m.packets;
            let to = match &m.to {
                None => "dropped".to_string(),
                Some(to) if *to == m.from => "stay".to_string(),
                Some(to) => format!("-> {to}"),
            };
            let noun = if packets == 1 { "packet" } else { "packets" };
            out.push_str(&format!("queued: {packets} {noun} {bytes} bytes in {} {to}\n", m.from));
        }
    }
    out
}

fn object(change: &Change) -> String {
    let line = |l: &Line| Object::new().text("op", l.op()).text("what", &l.text).finish();
    let queued = |m: &Move| {
        let o = Object::new()
            .uint("packets", m.packets.packets)
            .uint("bytes", m.packets.bytes)
            .text("from", &m.from);
        match &m.to {
            Some(to) => o.text("to", to).finish(),
            None => o.bool("dropped", true).finish(),
        }
    };
    // A part without a device is of all.
    let object = if change.dev.is_empty() { Object::new() } else { Object::new().text("dev", &change.dev) };
    object
        .raw("changes", &json::list(change.lines.iter().map(line)))
        .raw("queued", &json::list(change.moves.iter().map(queued)))
        .finish()
}
