//! The qdiscs, classes and filters of one device, and the order in which lines make them: parents
//! first.

use std::collections::{BTreeMap, BTreeSet};

use txweir_core::Handle;
use txweir_core::qdisc::kind as spec_of;
use txweir_core::sched::spec::{ClassShape, Spec};
use txweir_core::text::stats::Counters as _;
use txweir_tc::show::measured::Usual;

use super::documents::{Kind, Object, member};
use super::json::Value;
use super::members::Members;
use super::{Counted, Dump, Refusal, class, filter, qdisc};

type Done<T = ()> = Result<T, Refusal>;

/// The root qdiscs that have a class for each transmit queue.
const OF_QUEUES: [&str; 5] = ["mq", "mqprio", "cake_mq", "multiq", "taprio"];
/// A class below which a hook is listed.
const HOOK: u16 = 0xffff;

/// A qdisc or class of a device.
struct Item<'a> {
    value: &'a Value,
    /// The handle of a qdisc, `NONE` for one that the kernel made; the number of a class.
    at: Handle,
    /// Its parent as lines name it.
    parent: Handle,
    kind: &'static Spec,
    is_class: bool,
}

/// The objects of a device.
pub(super) struct Placed<'a> {
    dev: Option<&'a str>,
    items: Vec<Item<'a>>,
    /// `ingress` or `clsact`, if the device has a hook.
    hook: Option<&'static str>,
    filters: Vec<&'a Object>,
    /// The major number that a root gets which the kernel made and lines refer to.
    root_major: Option<u16>,
}

impl<'a> Placed<'a> {
    pub(super) fn of(dev: Option<&'a str>, objects: &[&'a Object]) -> Done<Self> {
        let mut placed = Self { dev, items: Vec::new(), hook: None, filters: Vec::new(), root_major: None };
        let majors: BTreeSet<u16> =
            objects.iter().filter_map(|o| handle(&o.value, "handle")).map(Handle::major).collect();
        let is_child =
            |o: &&&Object| handle(&o.value, "parent").is_some_and(|p| p.major() == 0 && p.minor() != 0);
        if objects.iter().any(|o| is_child(&o)) {
            placed.root_major = (1..HOOK).find(|major| !majors.contains(major));
        }
        for object in objects {
            match object.kind {
                Kind::Qdisc => placed.qdisc(&object.value)?,
                Kind::Class => placed.class(&object.value)?,
                Kind::Filter | Kind::Ingress | Kind::Egress => placed.filters.push(object),
            }
        }
        Ok(placed)
    }

    /// Returns the name of an object for messages.
    fn called(&self, what: &str, value: &Value) -> String {
        let part = |key: &str| match member(value, key) {
            Some(Value::Text(text)) => format!(" {}", text.chars().take(40).collect::<String>()),
            _ => String::new(),
        };
        let dev = self.dev.map(|dev| format!("{dev}: ")).unwrap_or_default();
        let kind = if what == "class" { part("class") } else { part("kind") };
        format!("{dev}{what}{}{kind}", part("handle"))
    }

    /// Returns the kind of an object, which the engine has to have.
    fn kind(&self, called: &str, o: &mut Members<'_>, key: &str) -> Done<&'static Spec> {
        let kind = o.need_word(key)?;
        if kind == "noqueue" {
            return Err(Refusal::new(format!("{called}: a device without a queue cannot be at the line")));
        }
        let none = || Refusal::new(format!("{called}: there is no qdisc \"{kind}\" in the engine"));
        spec_of(kind).map_err(|_| none())
    }

    fn qdisc(&mut self, value: &'a Value) -> Done {
        let called = self.called("qdisc", value);
        let mut o = Members::of(&called, value)?;
        if let Some(Value::Text(kind)) = member(value, "kind")
            && let Some(hook) = ["ingress", "clsact"].into_iter().find(|hook| hook == kind)
        {
            if self.hook.replace(hook).is_some() {
                return Err(o.refused("it stands twice in the dump"));
            }
            for key in ["kind", "handle", "parent", "dev"] {
                o.pass(key);
            }
            if let Some(options) = o.object("options")? {
                options.end(|_| false)?;
            }
            return o.end(is_statistic);
        }
        let kind = self.kind(&called, &mut o, "kind")?;
        let Some(at) = handle(value, "handle") else { return Err(o.missing("handle")) };
        let parent = match (o.flag("root")?, handle(value, "parent")) {
            (true, None) => Handle::ROOT,
            (false, Some(parent)) => self.renamed(parent),
            _ => return Err(o.refused("expected either \"root\" or \"parent\"")),
        };
        let at = if at == Handle::new(0, 0) {
            match (parent, self.root_major) {
                (Handle::ROOT, Some(major)) => Handle::new(major, 0),
                _ => Handle::NONE,
            }
        } else {
            at
        };
        self.items.push(Item { value, at, parent, kind, is_class: false });
        Ok(())
    }

    fn class(&mut self, value: &'a Value) -> Done {
        let called = self.called("class", value);
        let mut o = Members::of(&called, value)?;
        let kind = self.kind(&called, &mut o, "class")?;
        // Classes that a kind has of itself follow from its options; flows are statistics.
        if !kind.classes.is_some_and(|classes| classes.made) {
            return Ok(());
        }
        let Some(at) = handle(value, "handle") else { return Err(o.missing("handle")) };
        let parent = match (o.flag("root")?, handle(value, "parent")) {
            (true, None) => Handle::new(at.major(), 0),
            (false, Some(parent)) => parent,
            _ => return Err(o.refused("expected either \"root\" or \"parent\"")),
        };
        self.items.push(Item { value, at, parent, kind, is_class: true });
        Ok(())
    }

    /// Returns a class of a root that the kernel made by the number that the root gets.
    fn renamed(&self, class: Handle) -> Handle {
        match self.root_major {
            Some(major) if class.major() == 0 => Handle::new(major, class.minor()),
            _ => class,
        }
    }

    /// Returns the number of queues that the root has classes for.
    pub(super) fn queues(&self) -> u16 {
        let root = self.items.iter().find(|item| item.parent == Handle::ROOT && !item.is_class);
        let Some(root) = root.filter(|root| OF_QUEUES.contains(&root.kind.kind)) else { return 1 };
        if let Some(Value::Number(bands)) = member(root.value, "options").and_then(|o| member(o, "bands")) {
            return bands.parse().unwrap_or(1);
        }
        let below = self.items.iter().filter(|item| !item.is_class && item.parent.major() == root.at.major());
        below.map(|item| item.parent.minor()).max().unwrap_or(1).max(1)
    }

    /// Returns the counters of the root.
    pub(super) fn counted(&self) -> Option<Counted> {
        let root = self.items.iter().find(|item| item.parent == Handle::ROOT && !item.is_class)?;
        let number = |key| match member(root.value, key) {
            Some(Value::Number(digits)) => digits.parse().ok(),
            _ => None,
        };
        let (bytes, packets) = (number("bytes")?, number("packets")?);
        let or_none = |key| number(key).unwrap_or(0);
        Some(Counted { bytes, packets, drops: or_none("drops"), backlog: or_none("backlog") })
    }

    /// Writes the lines.
    pub(super) fn write(&self, dump: &mut Dump, made: &mut BTreeSet<(String, u64)>) -> Done {
        let owners = self.owners();
        if let Some(plain) = self.items.iter().find(|item| lacks_details(item)) {
            let called = self.called("qdisc", plain.value);
            dump.notes.push(format!(
                "{called}: the dump is without -d: size tables (stab), quantum and mpu of htb's classes, mpu of \
                 tbf and flows of sfq are the defaults"
            ));
        }
        for at in self.order(&owners)? {
            let item = &self.items[at];
            let line = if item.is_class {
                self.class_line(item, &owners, dump)?
            } else {
                self.qdisc_line(item, dump)?
            };
            dump.lines.push_str(&line);
        }
        let dev = self.dev.map(|dev| format!(" dev {dev}")).unwrap_or_default();
        if let Some(hook) = self.hook {
            dump.lines.push_str(&format!("qdisc replace{dev} {hook}\n"));
            self.note_of_hook(hook, dump);
        }
        self.filter_lines(&dev, dump, made)
    }

    /// Adds a note for each place of a hook whose filters are not in the dump.
    fn note_of_hook(&self, hook: &str, dump: &mut Dump) {
        let ends = [("ingress", Kind::Ingress), ("egress", Kind::Egress)];
        for (word, kind) in ends.into_iter().filter(|(word, _)| hook == "clsact" || *word == "ingress") {
            if !self.filters.iter().any(|f| f.kind == kind) {
                let dev = self.dev.unwrap_or("the device");
                dump.notes.push(format!(
                    "{dev} has a hook ({hook}), and no filters of its {word} are in the dump: tc -j filter show \
                     dev {dev} {word} prints them, for the key \"{word}\""
                ));
            }
        }
    }

    /// Returns the items, parents first, of one parent by their numbers.
    fn order(&self, owners: &BTreeMap<u16, &Item<'a>>) -> Done<Vec<usize>> {
        let mut seen = BTreeSet::new();
        let mut below: BTreeMap<Handle, Vec<usize>> = BTreeMap::new();
        for (at, item) in self.items.iter().enumerate() {
            let name = if item.is_class { item.at } else { item.parent };
            if !seen.insert((name, item.is_class)) {
                let what = if item.is_class { "class" } else { "qdisc" };
                return Err(Refusal::new(format!(
                    "{}: it stands twice in the dump",
                    self.called(what, item.value)
                )));
            }
            // A class that commands make has to be there; others are with their qdisc.
            let owner = owners.get(&item.parent.major());
            let makes = owner.is_some_and(|owner| owner.kind.shape == ClassShape::Made);
            let needed = match item.parent {
                Handle::ROOT => Handle::ROOT,
                parent if item.is_class || makes => parent,
                parent => Handle::new(parent.major(), 0),
            };
            below.entry(needed).or_default().push(at);
        }
        for waiting in below.values_mut() {
            waiting.sort_by_key(|at| {
                let item = &self.items[*at];
                (item.is_class, if item.is_class { item.at } else { item.parent })
            });
        }
        let mut order = Vec::with_capacity(self.items.len());
        let mut next = below.remove(&Handle::ROOT).unwrap_or_default();
        let mut from = 0;
        // Bound: each item is in `next` once.
        while let Some(at) = next.get(from).copied() {
            from += 1;
            order.push(at);
            let item = &self.items[at];
            next.extend(below.remove(&item.at).filter(|_| !item.at.is_none()).unwrap_or_default());
        }
        match below.values().flatten().next() {
            None => Ok(order),
            Some(at) => {
                let item = &self.items[*at];
                let what = if item.is_class { "class" } else { "qdisc" };
                let called = self.called(what, item.value);
                Err(Refusal::new(format!("{called}: its parent {} is not in the dump", item.parent)))
            }
        }
    }

    /// Returns the qdiscs by their major numbers.
    fn owners(&self) -> BTreeMap<u16, &Item<'a>> {
        let qdiscs = self.items.iter().filter(|item| !item.is_class && !item.at.is_none());
        qdiscs.map(|item| (item.at.major(), item)).collect()
    }

    fn qdisc_line(&self, item: &Item<'_>, dump: &mut Dump) -> Done<String> {
        let called = self.called("qdisc", item.value);
        let mut o = Members::of(&called, item.value)?;
        ["kind", "handle", "dev", "root", "parent", "refcnt"].into_iter().for_each(|key| o.pass(key));
        let mut words = match o.object("options")? {
            Some(mut options) => {
                let words = qdisc::words(item.kind, &mut options)?;
                options.end(|key| is_counter(item.kind, key))?;
                words
            }
            None => String::new(),
        };
        // `delay 10000us 2000us`: the second time is the jitter.
        let behind = words.split_once(" delay ").and_then(|(_, rest)| rest.split(' ').nth(1));
        if item.kind.kind == "netem" && behind.is_some_and(|word| word.ends_with("us")) {
            dump.notes.push(format!("{called}: tc does not print the distribution of the jitter"));
        }
        if matches!(item.kind.kind, "red" | "gred") {
            dump.notes
                .push(format!("{called}: tc does not print the bandwidth, 10Mbit (tc's default) is taken"));
        }
        let table = o.object("stab")?.map(qdisc::stab).transpose()?.unwrap_or_default();
        o.end(|key| is_statistic(key) || is_counter(item.kind, key))?;
        // The queue that cbs makes has no handle, and names cbs itself; taprio makes one for each
        // queue of the device. Their limit is the length of the device's queue, 1000 by default.
        let is_below = |kind: &str| {
            let root = self.items.iter().find(|item| item.parent == Handle::ROOT && !item.is_class);
            root.is_some_and(|root| root.kind.kind == kind && root.at.major() == item.parent.major())
        };
        let made = item.kind.kind == "pfifo"
            && item.parent != Handle::ROOT
            && words.trim() == "limit 1000"
            && (item.parent.minor() == 0 || is_below("taprio"));
        // The cakes of cake_mq have its options.
        let made = made || item.kind.kind == "cake" && is_below("cake_mq");
        if item.at.is_none() && (item.kind.kind == "pfifo_fast" || made) {
            // A device and a queue have it of themselves.
            return Ok(String::new());
        }
        words.insert_str(0, item.kind.kind);
        let dev = self.dev.map(|dev| format!(" dev {dev}")).unwrap_or_default();
        let parent =
            if item.parent == Handle::ROOT { " root".into() } else { format!(" parent {}", item.parent) };
        let handle = if item.at.is_none() { String::new() } else { format!(" handle {}", item.at) };
        Ok(format!("qdisc replace{dev}{parent}{handle}{table} {words}\n"))
    }

    fn class_line(
        &self,
        item: &Item<'_>,
        owners: &BTreeMap<u16, &Item<'a>>,
        dump: &mut Dump,
    ) -> Done<String> {
        let called = self.called("class", item.value);
        let mut o = Members::of(&called, item.value)?;
        ["class", "handle", "dev", "root", "parent", "leaf", "stats"].into_iter().for_each(|key| o.pass(key));
        if let Some(options) = o.take("options") {
            o.add(options)?;
        }
        let Some(spec) = item.kind.classes else { return Err(o.refused("the kind has no classes")) };
        if spec.root_class && item.at.minor() == 0 {
            // It is the qdisc itself.
            return Ok(String::new());
        }
        if spec.kind == "drr"
            && member(item.value, "quantum").is_none()
            && member(item.value, "options").is_none()
        {
            dump.notes.push(format!(
                "{called}: tc prints no quantum in JSON, the MTU is taken: the text of tc class show has it"
            ));
        }
        let words = class::words(spec, r2q(owners.get(&item.at.major())), &mut o)?;
        o.end(|key| is_statistic(key) || spec.counters.iter().any(|counter| counter.key == key))?;
        let dev = self.dev.map(|dev| format!(" dev {dev}")).unwrap_or_default();
        Ok(format!(
            "class replace{dev} parent {} classid {} {}{words}\n",
            item.parent, item.at, item.kind.kind
        ))
    }

    /// Writes the filters: the hash tables first, because filters of any priority lead to them.
    fn filter_lines(&self, dev: &str, dump: &mut Dump, made: &mut BTreeSet<(String, u64)>) -> Done {
        let mut lines: Vec<(String, Line<'_>)> = Vec::new();
        let mut roots: BTreeMap<String, u32> = BTreeMap::new();
        for object in &self.filters {
            let Some((line, group)) = self.filter_head(object, dev)? else { continue };
            if let Some((table, _)) =
                self.table(&line)?.filter(|(table, divisor)| *table >= 0x800 && *divisor == 1)
            {
                let root = roots.entry(group.clone()).or_insert(table);
                *root = table.min(*root);
            }
            lines.push((group, line));
        }
        for (group, line) in &lines {
            let Some((table, divisor)) = self.table(line)? else { continue };
            if roots.get(group) != Some(&table) {
                dump.lines.push_str(&format!("{} handle {table:x}: u32 divisor {divisor}\n", line.head));
            }
        }
        let mut from = 0;
        while let Some((group, _)) = lines.get(from) {
            let end = from + lines[from..].iter().take_while(|(g, _)| g == group).count();
            let mut said = Vec::new();
            for (_, line) in &lines[from..end] {
                if self.table(line)?.is_some() {
                    continue;
                }
                let o = Members::of(&line.called, line.options)?;
                let words = filter::words(line.kind, o, roots.get(group).copied(), made)?;
                said.push(format!("{} handle {} {}{}\n", line.head, words.handle, line.kind, words.words));
            }
            // The list has the newest first, and the newest has to be made last.
            if matches!(lines[from].1.kind, "bpf" | "fw") {
                said.reverse();
            }
            dump.lines.extend(said);
            from = end;
        }
        Ok(())
    }

    /// Returns the line up to the handle, and the priority that the filter belongs to; `None` for
    /// the object that tc prints for a priority as a whole.
    fn filter_head(&self, object: &'a Object, dev: &str) -> Done<Option<(Line<'a>, String)>> {
        let called = self.called("filter", &object.value);
        let mut o = Members::of(&called, &object.value)?;
        let kind = o.need_word("kind")?;
        let place = match (object.kind, o.word("parent")?) {
            (Kind::Ingress, _) => "ingress".into(),
            (Kind::Egress, _) => "egress".into(),
            (_, Some(parent)) => match parent.parse::<Handle>() {
                Ok(parent) => format!("parent {}", self.renamed(parent)),
                Err(_) => {
                    let given = Value::Text(parent.into());
                    return Err(o.wrong("parent", "MAJOR:MINOR", &given));
                }
            },
            (_, None) => {
                let reason = "the dump does not tell its place: expected \"parent\", or a list below the key \
                              \"ingress\" or \"egress\"";
                return Err(o.refused(reason));
            }
        };
        let protocol = o.word("protocol")?.unwrap_or("all");
        let protocol = protocol.strip_prefix('[').and_then(|p| p.strip_suffix(']')).unwrap_or(protocol);
        let (prio, chain) = (o.uint("pref")?.unwrap_or(0), o.uint("chain")?.unwrap_or(0));
        o.pass("dev");
        let options = o.take("options");
        o.what = format!("{} pref {prio}", o.what);
        let called = o.what.clone();
        o.end(|_| false)?;
        let Some(options) = options else { return Ok(None) };
        let of_chain = if chain == 0 { String::new() } else { format!(" chain {chain}") };
        let group = format!("{place}{of_chain} protocol {protocol} prio {prio}");
        let head = format!("filter replace{dev} {group}");
        Ok(Some((Line { head, called, kind, options }, group)))
    }

    /// Returns the hash table that an object is, if it is one.
    fn table(&self, line: &Line<'_>) -> Done<Option<(u32, u64)>> {
        if line.kind != "u32" {
            return Ok(None);
        }
        filter::table(&mut Members::of(&line.called, line.options)?)
    }
}

/// A filter, and its line up to the handle.
struct Line<'a> {
    head: String,
    called: String,
    kind: &'a str,
    options: &'a Value,
}

/// Returns the divisor by which the quanta of an htb follow from the rates.
fn r2q(owner: Option<&&Item<'_>>) -> u64 {
    let given = owner.and_then(|owner| member(member(owner.value, "options")?, "r2q"));
    match given {
        Some(Value::Number(digits)) => digits.parse().unwrap_or(10),
        _ => 10,
    }
}

/// The options that tc prints of a qdisc with details only, whatever their values are.
const DETAILS: [(&str, &str); 3] = [("htb", "ver"), ("sfq", "flows"), ("tbf", "linklayer")];

/// True for a qdisc that tc has printed without details.
fn lacks_details(item: &Item<'_>) -> bool {
    let detail = DETAILS.iter().find(|(kind, _)| *kind == item.kind.kind && !item.is_class);
    let options = member(item.value, "options");
    detail.is_some_and(|(_, key)| options.is_some_and(|options| member(options, key).is_none()))
}

/// Returns a handle of an object.
fn handle(value: &Value, key: &str) -> Option<Handle> {
    match member(value, key)? {
        Value::Text(text) => text.parse().ok(),
        _ => None,
    }
}

/// True for the statistics that tc prints of every object.
fn is_statistic(key: &str) -> bool {
    let usual = Usual::TABLE.iter().any(|counter| counter.key == key);
    let own = ["drop_reasons", "mark_reasons", "linux_drop_reasons"];
    usual || matches!(key, "rate" | "pps" | "stats" | "active_queues") || own.contains(&key)
}

/// The counters of kinds that tc prints under other names than they are declared by.
const OTHER_NAMES: [(&str, &[&str]); 4] = [
    ("cake", &["tins"]),
    ("fq", &["throttled"]),
    (
        "dualpi2",
        &[
            "delay-c",
            "delay-l",
            "pkts-in-c",
            "pkts-in-l",
            "ecn-mark",
            "step-mark",
            "memory-used",
            "max-memory-used",
            "memory-limit",
            "credit",
        ],
    ),
    ("htb", &["direct_packets_stat"]),
];

/// True for a counter of a kind.
fn is_counter(kind: &Spec, key: &str) -> bool {
    let other = OTHER_NAMES.iter().find(|(name, _)| *name == kind.kind);
    kind.counters.iter().any(|counter| counter.key == key)
        || other.is_some_and(|(_, keys)| keys.contains(&key))
}
