//! The laws that are checked after every call, and their state between calls.

use std::collections::HashMap;

use txweir_core::base::tally::Tally;
use txweir_core::packet::pool::Waiting;
use txweir_core::path::dql::Unit;
use txweir_core::path::txpath::BULK;
use txweir_core::sched::classful::ClassAt;
use txweir_core::sched::node::{BAND_PACKETS, Books, Node};
use txweir_core::text::value::{Json, Value};
use txweir_core::{Bytes, DropReason, Env, Handle, Instant, Nanos, Packets, TxPath, Wake};

use crate::Law;
use crate::device::{Device, Fate, Frame};
use crate::known::{Known, Seen};
use crate::options::{agree, build, classes_of, printed, shown, with_words};
use crate::reasons::Told;

/// Classful kinds that also queue packets of their own, beside those in their classes.
const OWN_QUEUE: &[&str] = &["hfsc", "htb", "netem"];

/// Kinds in which a class that may not send yet holds up the others, as in Linux: below one of
/// these a shaper holds back all packets.
const HELD_UP_BY_ONE: &[&str] = &["drr", "ets", "hfsc", "qfq"];

/// Most wakes without progress: each level of shapers may ask for two.
const STUCK_MAX: u32 = 32;
/// A wake that comes after this time or later is not counted among those: a shared rate leases
/// sending time of 52 days at most, and a packet at a byte a second may need more.
const LONG: Nanos = Nanos(1 << 50);

/// The call that was just made.
#[derive(Clone, Copy, Debug)]
pub enum Called {
    Submit,
    Drain { budget: u32, frozen: bool, wake: Wake, sent: u32, dropped: u32 },
    Other,
}

/// The bounds of a node by its own options, and its properties.
#[derive(Clone, Debug, Default)]
struct NodeRule {
    packets: Option<u64>,
    bytes: Option<u64>,
    memory: Option<u64>,
    leaf: bool,
    /// True if the node or a node above it shapes.
    shaped: bool,
    kind: &'static str,
    /// True if the node has a band for control segments ahead of it, which holds packets of its
    /// own.
    band: bool,
}

/// The state between calls.
#[derive(Debug, Default)]
pub struct Checker {
    /// Number of times that classes were assigned anew.
    pub epoch: u32,
    /// True if a waiting packet was sent or dropped since a sender was last told `Full`.
    pub left_the_qdiscs: bool,
    waiting: bool,
    rules: Vec<NodeRule>,
    places: Vec<Handle>,
    reorders: bool,
    /// True if some kind sends, or has sent, control segments before other packets of their flows.
    control_first: bool,
    /// Number of times that qdiscs that send control first were added or removed: control that
    /// waited then may be overtaken by later control.
    pub controls: u32,
    controlled: Vec<(Handle, Handle)>,
    /// True if a packet with a launch time has come: fq then sends packets of a flow in order of
    /// their times.
    pub stamped: bool,
    timed: bool,
    /// True if the root has, or had, a size table.
    pub sized: bool,
    promise: Option<Instant>,
    promised_at: Instant,
    stuck: u32,
    checked: usize,
    sent: u64,
    last_of_flow: HashMap<(u32, u32, Handle, Option<u32>, u32), u64>,
    discards: [u64; DropReason::COUNT],
    largest: u32,
    /// The reasons that nodes report.
    pub told: Told,
}

/// The objects of a check.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub path: &'a TxPath<Frame>,
    pub dev: &'a Device,
    pub frames: &'a [Known],
    pub seen: &'a [Seen],
    /// Waiting packets, by the frames' fates.
    pub waiting: Tally,
    pub now: Instant,
}

type Verdict = Result<(), (Law, String)>;

macro_rules! hold {
    ($law:ident, $ok:expr, $($what:tt)+) => {
        if !$ok {
            return Err((Law::$law, format!($($what)+)));
        }
    };
}

impl Checker {
    /// Notes an input: the promised time of the next departure is void.
    pub fn input(&mut self) {
        self.promise = None;
        self.stuck = 0;
    }
    /// Returns the instant that the last wake named, if it still holds.
    pub fn promised(&self) -> Option<Instant> {
        self.promise
    }
    /// Notes that a sender was told `Full`.
    pub fn told_full(&mut self) {
        self.waiting = true;
        self.left_the_qdiscs = false;
    }
    /// Returns whether senders must be woken now, and whether they may be.
    pub fn wakes(&self) -> (bool, bool) {
        (self.waiting && self.left_the_qdiscs, self.waiting)
    }
    /// Notes that senders were woken.
    pub fn woken(&mut self) {
        self.waiting = false;
    }
    /// Returns the places of qdiscs.
    pub fn places(&self) -> &[Handle] {
        &self.places
    }

    /// Reads the tree and returns its depth.
    pub fn learn(&mut self, path: &TxPath<Frame>) -> usize {
        let (mut rules, mut places, mut deepest) = (Vec::<NodeRule>::new(), Vec::new(), 0);
        let mut nodes: Vec<(usize, bool)> = Vec::new();
        let mut shaping: Vec<bool> = Vec::new();
        let (mut reorders, mut controlled) = (false, Vec::new());
        path.tree().visit(&mut |place, node| {
            let (qdisc, spec) = (node.qdisc(), node.qdisc().spec());
            shaping.truncate(place.depth);
            let shaped = spec.flags.shapes || shaping.last() == Some(&true);
            shaping.push(shaped);
            nodes.push((place.depth, spec.flags.shapes));
            deepest = deepest.max(place.depth);
            places.push(place.parent);
            reorders |= spec.flags.reorders;
            if spec.control_first || node.front().has_band() {
                controlled.push((place.parent, node.handle()));
            }
            self.timed |= spec.kind == "fq";
            let classes = qdisc.classes();
            let band = node.front().has_band();
            let mut rule = NodeRule {
                leaf: classes.is_empty() && !spec.shape.is_classful(),
                shaped,
                kind: spec.kind,
                band,
                ..NodeRule::default()
            };
            // The limit of a classful qdisc is that of the qdisc that it made below itself; a
            // grafted qdisc has a limit of its own.
            let own = classes.iter().all(|c| c.node.handle().is_none());
            qdisc.options(&mut |s| match (s.param.key, s.value.json()) {
                // The limit holds for each of three bands; 8 packets may exceed the limits.
                ("limit", Json::Uint(n)) if spec.kind == "fq" => rule.packets = Some(3 * n + 8),
                // That of packets without a virtual queue; each queue has its own.
                ("limit", _) if spec.kind == "gred" => {}
                ("limit", Json::Uint(n)) if own && s.param.expected == Packets::EXPECTED => {
                    rule.packets = Some(n)
                }
                ("limit", Json::Uint(n)) if own && s.param.expected == Bytes::EXPECTED => {
                    rule.bytes = Some(n)
                }
                // That of fq_pie is counted, and bounds nothing.
                ("memory_limit", Json::Uint(n)) if spec.kind != "fq_pie" => rule.memory = Some(n),
                ("memlimit", Json::Uint(n)) if spec.kind == "dualpi2" => rule.memory = Some(n),
                _ => {}
            });
            rule.packets = rule.packets.map(|n| n + if band { u64::from(BAND_PACKETS) } else { 0 });
            rules.push(rule);
        });
        for at in 0..nodes.len() {
            let below = nodes[at + 1..].iter().take_while(|(depth, _)| *depth > nodes[at].0);
            let below = at + 1..at + 1 + below.count();
            if HELD_UP_BY_ONE.contains(&rules[at].kind)
                && nodes[below.clone()].iter().any(|(_, shapes)| *shapes)
            {
                rules[below].iter_mut().for_each(|rule| rule.shaped = true);
            }
        }
        self.reorders |= reorders;
        self.control_first |= !controlled.is_empty();
        self.controls += u32::from(self.controlled != controlled);
        self.controlled = controlled;
        // A removed size table still applies to the packets that it has charged.
        let mut charged = false;
        // Each packet is compared by itself: some may be charged above their bytes and others
        // below.
        waiting_below(path, path.tree().root(), &mut |w| {
            charged |= path.cx().pool.wire_len(w) != w.meta.wire_len
        });
        self.sized = path.tree().root().front().stab().is_some() || self.sized && charged;
        (self.rules, self.places) = (rules, places);
        self.told.learn(path);
        deepest
    }

    /// Checks law 8 for every qdisc of the tree, and returns the violation, if any.
    pub fn round_trip(&self, path: &TxPath<Frame>, env: &Env) -> Option<String> {
        let mut wrong = None;
        path.tree().visit(&mut |_, node| {
            let (qdisc, spec) = (node.qdisc(), node.qdisc().spec());
            let (words, before) = (printed(qdisc), shown(qdisc));
            let after = build(spec, &words, env).map(|q| shown(&*q));
            if after.as_ref() != Some(&before) {
                wrong = Some(format!("{} {words:?} shows {before:?}, read back {after:?}", spec.kind));
            }
            for (at, words) in classes_of(qdisc) {
                let read = spec.classes.is_some_and(|c| with_words(&words, |w| c.read(w, env).is_ok()));
                if !read {
                    wrong = Some(format!(
                        "{} class {at:?} is made by {words:?}, which cannot be read",
                        spec.kind
                    ));
                }
            }
            for (param, (key, exact, json)) in spec.params.iter().zip(&before) {
                if !agree(param.expected, exact, json) {
                    wrong = Some(format!("{} {key}: text {exact}, JSON {json:?}", spec.kind));
                }
            }
        });
        wrong
    }

    /// Checks all laws that can be seen from outside.
    pub fn check(&mut self, v: &View<'_>, called: Called) -> Verdict {
        let pushed = self.flow_order(v)?;
        // A look at every packet after each submission of a burst would take most of the time.
        let look = !matches!(called, Called::Submit);
        self.nodes(v.path)?;
        self.told.check(v.path)?;
        self.frames(v, look)?;
        self.in_flight(v, pushed)?;
        if let Called::Drain { budget, frozen, wake, sent, dropped } = called {
            let unseen = v.dev.unseen;
            hold!(Liveness, unseen == 0, "{unseen} packets were pushed and no doorbell rang");
            hold!(Bounds, sent <= budget, "{sent} packets were sent on a budget of {budget}");
            self.wake(v, wake, frozen, (budget, sent))?;
            self.honesty(v, wake, frozen, (budget, sent, dropped))?;
        }
        Ok(())
    }

    /// Checks law 2, and the account of departures. True if a frame was pushed.
    fn flow_order(&mut self, v: &View<'_>) -> Result<bool, (Law, String)> {
        let mut pushed = false;
        for s in &v.seen[self.checked..] {
            match s.fate {
                Fate::Discarded(reason) => self.discards[reason as usize] += 1,
                Fate::Sent => {
                    pushed = true;
                    self.sent += 1;
                    let Known { flow: (hash, priority, class, control), epoch, turn, .. } =
                        v.frames[s.id as usize];
                    let control = control.filter(|_| self.control_first);
                    let last = self.last_of_flow.insert((hash, priority, class, control, epoch), turn);
                    hold!(
                        Order,
                        self.reorders || self.stamped && self.timed || last.is_none_or(|last| last < turn),
                        "frame {} left after {last:?} of the same flow",
                        s.id
                    );
                }
            }
        }
        self.checked = v.seen.len();
        Ok(pushed)
    }

    /// Checks laws 1 and 5 at every node.
    fn nodes(&self, path: &TxPath<Frame>) -> Verdict {
        let mut verdict = Ok(());
        let mut rules = self.rules.iter();
        path.tree().visit(&mut |place, node| {
            if verdict.is_ok() {
                let rule = rules.next().cloned().unwrap_or_default();
                verdict = node_laws(path, node, &rule)
                    .map_err(|(law, what)| (law, format!("{} at {}: {what}", rule.kind, place.parent)));
            }
        });
        verdict
    }

    /// Checks law 1 for frames: each is in one place, each drop is counted.
    fn frames(&self, v: &View<'_>, look: bool) -> Verdict {
        let View { path, dev, waiting, .. } = v;
        hold!(Bounds, dev.breaches.is_empty(), "{:?}", dev.breaches);
        hold!(Bounds, dev.most_wanted <= BULK, "{} slots were asked for at once", dev.most_wanted);
        let queued = path.backlog();
        let live = path.cx().pool.live() as u64;
        hold!(Conservation, live == queued.packets, "{live} live in the pool, {} queued", queued.packets);
        // A size table may charge other than wire bytes; a removed one still applies to its
        // packets.
        let books = if self.sized { Tally { bytes: waiting.bytes, ..queued } } else { queued };
        hold!(Conservation, *waiting == books, "{waiting:?} wait by the frames, {queued:?} by the books");
        hold!(Conservation, queued.packets > 0 || queued.bytes == 0, "no packet waits, of {queued:?}");
        if look {
            let (_, shown) = all_wait(path, path.tree().root(), Handle::ROOT)?;
            hold!(Conservation, shown == *waiting, "{shown:?} are shown, {waiting:?} wait");
        }
        for reason in DropReason::ALL {
            let (counted, discarded) = (path.cx().drops(*reason), self.discards[*reason as usize]);
            hold!(Conservation, counted == discarded, "{reason}: {counted} counted, {discarded} given back");
        }
        let stats = path.stats();
        hold!(
            Conservation,
            stats.tx_packets == self.sent,
            "{} counted, {} sent",
            stats.tx_packets,
            self.sent
        );
        Ok(())
    }

    /// Checks the byte limit: its in-flight equals the bytes of the device, and never exceeds the
    /// limit plus one object.
    fn in_flight(&mut self, v: &View<'_>, pushed: bool) -> Verdict {
        let View { path, dev, .. } = v;
        let Some(dql) = path.tx().limit() else { return Ok(()) };
        let held = match dql.unit() {
            Unit::Bytes => dev.held_bytes(),
            Unit::Packets => u64::from(dev.held_packets()),
        };
        let inflight = u64::from(dql.inflight());
        hold!(InFlight, inflight == held, "{inflight} in flight, the device holds {held}");
        if pushed {
            let last = dev.log.iter().rev().find(|(_, fate, _)| *fate == Fate::Sent);
            self.largest =
                last.map_or(self.largest, |(_, _, m)| self.largest.max(dql.unit().cost(m.wire_len, 1)));
            let most = u64::from(dql.limit()) + u64::from(self.largest);
            hold!(InFlight, inflight <= most, "{inflight} in flight, limit plus one object is {most}");
        }
        Ok(())
    }

    /// Checks laws 3 and 13: the answer names the next caller, and for a reason.
    fn wake(&self, v: &View<'_>, wake: Wake, frozen: bool, (budget, sent): (u32, u32)) -> Verdict {
        let View { path, dev, now, .. } = *v;
        let queued = path.backlog().packets;
        match wake {
            Wake::Idle => hold!(WorkConservation, queued == 0, "Idle with {queued} packets queued"),
            Wake::More => {
                hold!(
                    Liveness,
                    queued > 0 && sent == budget,
                    "More with {queued} queued, {sent} of {budget} sent"
                );
            }
            Wake::Device => {
                let stopped = !path.cx().stopped_queues().is_empty();
                let busy = dev.held_packets() > 0 || dev.last_promise == Some(0) || stopped;
                hold!(Liveness, queued > 0, "Device with nothing queued");
                hold!(Liveness, frozen || busy, "Device, and the device holds nothing and would take more");
            }
            Wake::At(t, _) => {
                hold!(HonestWake, t > now, "At({t}) at {now}");
                hold!(Liveness, queued > 0, "At with nothing queued");
                hold!(Liveness, !frozen, "At while frozen");
                let mut rules = self.rules.iter();
                let mut kept = None;
                path.tree().visit(&mut |place, node| {
                    let rule = rules.next().cloned().unwrap_or_default();
                    // Below multiq a packet may be for a stopped queue, and such a packet at the
                    // front holds up the others.
                    let stopped = !path.cx().stopped_queues().is_empty() && self.by_queue();
                    if rule.leaf && !rule.shaped && !node.is_empty() && !stopped {
                        kept = Some((rule.kind, place.parent));
                    }
                });
                hold!(
                    WorkConservation,
                    kept.is_none(),
                    "At, and no shaper holds back the packets in {kept:?}"
                );
            }
        }
        Ok(())
    }

    /// True if a qdisc of the tree keeps packets for stopped queues.
    fn by_queue(&self) -> bool {
        self.rules.iter().any(|rule| ["mq", "mqprio", "cake_mq", "multiq", "taprio"].contains(&rule.kind))
    }

    /// Checks law 4, from one wake to the next.
    fn honesty(
        &mut self,
        v: &View<'_>,
        wake: Wake,
        frozen: bool,
        (budget, sent, dropped): (u32, u32, u32),
    ) -> Verdict {
        let View { dev, now, .. } = *v;
        let progress = sent + dropped > 0;
        if let Some(t) = self.promise.filter(|t| now < *t) {
            hold!(HonestWake, sent == 0, "{sent} packets left at {now}, before the promised {t}");
            if let Wake::At(again, _) = wake {
                hold!(HonestWake, again >= t || progress, "At({again}) at {now}, after a promise of {t}");
            }
        }
        let asked = !frozen && budget > 0 && dev.last_promise.is_some_and(|p| p > 0) && wake != Wake::Device;
        if progress {
            self.stuck = 0;
        } else if asked && self.promise.is_some_and(|t| now >= t && t < self.promised_at + LONG) {
            self.stuck += 1;
            let most = STUCK_MAX + moves(v.path);
            hold!(HonestWake, self.stuck < most, "{} wakes in a row without progress", self.stuck);
        }
        match wake {
            Wake::At(t, _) => (self.promise, self.promised_at) = (Some(t), now),
            Wake::Idle => self.promise = None,
            Wake::Device | Wake::More => {}
        }
        Ok(())
    }
}

/// Returns how often packets may still pass from a qdisc to one below it: such progress is
/// invisible to the device.
fn moves(path: &TxPath<Frame>) -> u32 {
    let mut moves = 0;
    path.tree().visit(&mut |_, node| {
        if OWN_QUEUE.contains(&node.qdisc().spec().kind) {
            moves += u32::try_from(node.books().queued.packets).unwrap_or(u32::MAX / 16);
        }
    });
    moves
}

/// Checks the packets of one node, and of those below: `queued` is computed from packets admitted,
/// sent and dropped. It must equal the number of waiting packets, which no code counts. Returns the
/// packets that wait with their charges, and with their bytes on the wire.
fn all_wait(path: &TxPath<Frame>, node: &Node, place: Handle) -> Result<(Tally, Tally), (Law, String)> {
    let queued = node.books().queued;
    let (mut waits, mut wire) = (Tally::default(), Tally::default());
    node.queued(&path.cx().pool, &mut |w| {
        waits.add(w.meta.wire_len);
        wire.add(path.cx().pool.wire_len(w));
    });
    for class in node.qdisc().classes() {
        let below = all_wait(path, &class.node, Handle::new(node.handle().major(), class.minor))?;
        (waits, wire) = (waits.plus(below.0), wire.plus(below.1));
    }
    // Above a size table the bytes are those on the wire, and below it those that it charges.
    let alike = queued == waits || queued == wire;
    let kind = node.qdisc().spec().kind;
    hold!(
        Conservation,
        alike,
        "{kind} at {place}: {queued:?} by the books, {waits:?} wait, {wire:?} on the wire"
    );
    Ok((waits, wire))
}

/// Returns the bytes by which the charge of the last packet exceeds its frame: a plug takes a
/// packet by its frame, and counts the charge.
fn last_charge(path: &TxPath<Frame>, node: &Node) -> u64 {
    let mut beyond = 0;
    node.queued(&path.cx().pool, &mut |w| beyond = u64::from(w.meta.wire_len.saturating_sub(w.meta.len)));
    beyond
}

/// Checks laws 1 and 5 at one node.
fn node_laws(path: &TxPath<Frame>, node: &Node, rule: &NodeRule) -> Verdict {
    let queued = node.books().queued;
    let mut own = queued;
    if let Some(m) = node.front().held(&path.cx().pool) {
        own = Tally { packets: queued.packets - 1, bytes: queued.bytes - u64::from(m.wire_len) };
    }
    if !rule.leaf && !rule.band && !OWN_QUEUE.contains(&rule.kind) {
        // The sums are compared by the books of the classes and by wire bytes, because a class with
        // a size table does not count wire bytes.
        let mut below = Tally::default();
        for class in node.qdisc().classes() {
            below.packets += class.node.books().queued.packets;
            below.bytes += class.node.books().queued.bytes;
        }
        if own != below {
            let wire: u64 = node.qdisc().classes().iter().map(|c| wire_bytes(path, &c.node)).sum();
            let alike = own == Tally { bytes: wire, ..below };
            hold!(Conservation, alike, "{own:?} queued, {below:?} in its classes, {wire} bytes on the wire");
        }
    }
    // A packet that a shaper above holds back is not in the qdisc any more.
    hold!(Bounds, rule.packets.is_none_or(|l| own.packets <= l), "{own:?} queued, limit {:?}", rule.packets);
    let beyond = if rule.kind == "plug" { last_charge(path, node) } else { 0 };
    let fits = rule.bytes.is_none_or(|l| own.bytes <= l + beyond);
    hold!(Bounds, fits, "{own:?} queued, limit {:?}, {beyond} beyond", rule.bytes);
    if let Some(limit) = rule.memory {
        let mut used = 0;
        node.qdisc().counters(&mut |c, n| used = if c.key == "memory_used" { n } else { used });
        hold!(Bounds, used <= limit, "memory {used}, limit {limit}");
    }
    Ok(())
}

/// Calls `f` with each packet that waits in a node and below.
fn waiting_below(path: &TxPath<Frame>, node: &Node, f: &mut dyn FnMut(Waiting<'_>)) {
    node.queued(&path.cx().pool, f);
    node.qdisc().classes().iter().for_each(|class| waiting_below(path, &class.node, f));
}

/// Returns the wire bytes of packets that wait in a node and below, independent of charges.
fn wire_bytes(path: &TxPath<Frame>, node: &Node) -> u64 {
    let mut sum = 0;
    waiting_below(path, node, &mut |w| sum += u64::from(path.cx().pool.wire_len(w)));
    sum
}

/// An option as shown: key, exact text, JSON.
type ShownOption = (&'static str, String, Json);

/// The state that a refused change must not alter.
#[derive(Debug, PartialEq)]
pub struct Snapshot {
    nodes: Vec<(Handle, &'static str, Vec<ShownOption>, Books)>,
    classes: Vec<(Handle, ClassAt, Vec<String>)>,
    dropped: Tally,
    live: usize,
}

/// Takes a snapshot.
pub fn snapshot(path: &TxPath<Frame>) -> Snapshot {
    let (mut nodes, mut classes) = (Vec::new(), Vec::new());
    path.tree().visit(&mut |_, node| {
        nodes.push((node.handle(), node.qdisc().spec().kind, shown(node.qdisc()), node.books()));
        classes.extend(classes_of(node.qdisc()).into_iter().map(|(at, words)| (node.handle(), at, words)));
    });
    Snapshot { nodes, classes, dropped: path.cx().dropped(), live: path.cx().pool.live() }
}

impl Snapshot {
    /// Returns the first difference, in words.
    pub fn differs_from(&self, other: &Self) -> Option<String> {
        if self.nodes.len() != other.nodes.len() {
            return Some(format!("{} nodes became {}", self.nodes.len(), other.nodes.len()));
        }
        let changed = self.nodes.iter().zip(&other.nodes).find(|(a, b)| a != b);
        if let Some((a, b)) = changed {
            return Some(format!("{a:?} became {b:?}"));
        }
        if self.classes != other.classes {
            return Some(format!("classes {:?} became {:?}", self.classes, other.classes));
        }
        (self != other)
            .then(|| format!("{:?} became {:?}", (self.dropped, self.live), (other.dropped, other.live)))
    }
}
