//! Drives a port through a trace, in the trace's time.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;
use txweir_core::classify::action::State;
use txweir_core::classify::filter::Filters;
use txweir_core::classify::packet::{NoOutlet, Packet, PortId};
use txweir_core::packet::hash::FlowHasher;
use txweir_core::packet::headers::Headers;
use txweir_core::path::entry::{Entry, HookCounts, Hooked, Passed, Ways};
use txweir_core::path::port::{Choice, Port, Queues};
use txweir_core::path::qdiscs::Qdiscs;
use txweir_core::path::select::Sender;
use txweir_core::path::trees::Trees;
use txweir_core::qdisc::{mqprio, taprio};
use txweir_core::{
    Admitted, Completed, Detail, DeviceError, Ecn, Env, Handle, Instant, Meta, PathConfig, Rate, Role, Tree,
    TxPath, TxQueue, Wake, WakeReason,
};
use txweir_tc::tool::{self, Device, Devices, Hook, Request, SwapDone};

use super::packet;
use super::trace::{Departure, Show, Step, Trace};
use super::{GRAIN_NS, TOLERANCE_NS};

/// The trace's time 0 on the path's clock: a multiple of 8.192 s, as in the kernel, so that clocks
/// of other granularities have the same phase, and far enough from 0 for the set-up.
const ZERO: i64 = 8_192_000_000;
/// The device's name in the traces.
const DEVICE: &str = "v0";
/// The only port that there is: the device.
const PORT: PortId = PortId(1);
/// Clock readings of a packet that is sent, up to four of a grain each.
pub(super) const SEND_NS: i64 = 4 * GRAIN_NS;
/// How near to an arrival a timer may be for their order to be unknown.
pub(super) const NEAR_NS: i64 = 4 * GRAIN_NS;
/// Largest number of packets taken in one call.
const BUDGET: u32 = 64;

/// Results of a replay.
#[derive(Debug, Default)]
pub(super) struct Played {
    /// Departures, in order.
    pub(super) departures: Vec<Departure>,
    /// The exit status of each command, and its messages.
    pub(super) commands: Vec<(u8, String)>,
    /// The output of each show.
    pub(super) shows: Vec<Show>,
    /// Packets that arrived so near to a timer that only the kernel knows which was first.
    pub(super) tied: Vec<Tied>,
}

/// A packet that arrived at nearly the time of a timer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tied {
    /// Its number.
    pub(super) packet: usize,
    /// Orders that may have been.
    pub(super) orders: [Order; 2],
}

/// The order of a packet and the timers of nearly the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The packet came after the timers that fire until this time.
    After(i64),
    /// The packet came ahead of the timers that are due after this time, and nothing was as if they
    /// were due.
    Before(i64),
}

/// Freedoms of a replay.
#[derive(Clone, Debug, Default)]
pub(super) struct Manner {
    /// Key of the flow hashes.
    pub(super) key: u64,
    /// True for the laws of Linux in place of this code's.
    pub(super) strict_linux: bool,
    /// True to ask the path at each recorded departure too.
    pub(super) polled: bool,
    /// Time between packets of one instant, nanoseconds.
    pub(super) spacing: i64,
    /// Packets for which an order is given.
    pub(super) orders: BTreeMap<usize, Order>,
}

/// Plays the trace in this manner.
pub(super) fn play(trace: &Trace, manner: &Manner) -> Played {
    let mut player = Player::new(trace, manner);
    let (mut burst, mut instant) = (0, None);
    for step in &trace.steps {
        let at = step.at();
        match step {
            Step::Arrival(_, packet) => {
                burst = if instant.replace(at) == Some(at) { burst + 1 } else { 0 };
                player.run_until_arrival(at, *packet, burst);
            }
            _ => player.run_until(at.saturating_sub(GRAIN_NS), at),
        }
        match step {
            Step::Command { line, .. } => player.command(line),
            Step::Arrival(_, packet) => player.arrive(*packet),
            Step::Show(..) => player.show(),
        }
    }
    player.played
}

/// A packet on its way: its number and its present length.
type Frame = (usize, u32);

struct Player<'a> {
    trace: &'a Trace,
    manner: &'a Manner,
    hasher: FlowHasher,
    lane: Lane,
    /// True if the last command about it made a cake wash.
    washing: bool,
    /// The time at which each path asks to be called, of those that ask.
    wakes: BTreeMap<u16, i64>,
    /// Times of future departures in the kernel.
    recorded: VecDeque<i64>,
    played: Played,
}

/// The device as tc sees it.
struct Lane {
    port: Port<Frame>,
    device: Always,
    now: Instant,
    queues: u32,
    /// True if packets of the trace name their queues.
    asks: bool,
    hook: Option<Hook>,
    hook_counts: HookCounts,
    filters: Filters,
    state: State,
}

impl<'a> Player<'a> {
    fn new(trace: &'a Trace, manner: &'a Manner) -> Self {
        let Manner { key, strict_linux, .. } = *manner;
        let d = &trace.head.device;
        let env = Env {
            mtu: d.mtu,
            tx_queue_len: d.txqueuelen,
            queues: u16::try_from(d.queues).unwrap_or(u16::MAX),
            // The speed that the recorder's device reports.
            link_rate: Some(Rate::from_bits(10_000_000_000)),
            seed: key,
            strict_linux,
            ..Env::default()
        };
        let config = PathConfig { env, role: Role::Forwarder, bql: None, ..PathConfig::default() };
        // Without a byte limit the configuration cannot be refused.
        let port = Port::new(config).unwrap_or_else(|e| unreachable!("{e}"));
        let lane = Lane {
            port,
            device: Always::default(),
            now: Instant::ZERO,
            queues: d.queues,
            asks: trace.rows.iter().any(|row| row.queue > 0),
            hook: None,
            hook_counts: HookCounts::default(),
            filters: Filters::new().with_seed(key),
            state: State::new(key),
        };
        let recorded = trace.departures.iter().map(|d| d.at).collect();
        let (hasher, played) = (FlowHasher::new(key), Played::default());
        Self { trace, manner, hasher, lane, washing: false, wakes: BTreeMap::new(), recorded, played }
    }

    /// Advances to the arrival of a packet at `at`, behind `burst` others of that instant. The
    /// process that sends it woke one grain earlier, read the clock, which took the grain, and
    /// continued before any timer that was due in between; unless the packet has an order.
    fn run_until_arrival(&mut self, at: i64, packet: usize, burst: i64) {
        let woke = at.saturating_sub(GRAIN_NS);
        // Each packet takes readings of the clock, so that a timer may fire within a burst.
        let latest = at.saturating_add(SEND_NS * burst + NEAR_NS);
        self.run_until(woke.saturating_sub(NEAR_NS), at.saturating_sub(NEAR_NS));
        let behind = self.manner.spacing * burst;
        let (until, at) = match self.manner.orders.get(&packet) {
            None => (woke + behind, at + behind),
            Some(Order::After(until)) => (*until, at + behind),
            Some(Order::Before(then)) => (*then, *then),
        };
        let earliest = woke.saturating_sub(NEAR_NS);
        if let Some(due) = self.due_next().filter(|due| (earliest..=at).contains(due)) {
            let ahead = Order::Before(due.saturating_sub(1));
            self.played.tied.push(Tied { packet, orders: [ahead, Order::Before(earliest)] });
        }
        self.run_until(until, at);
        if let Some(timer) = self.fires_next().filter(|timer| *timer <= latest) {
            let orders = [Order::After(latest), Order::After(timer)];
            self.played.tied.push(Tied { packet, orders });
        }
    }

    /// Fires every timer that is due until `until`, and advances to `at`.
    fn run_until(&mut self, until: i64, at: i64) {
        while let Some(fires) = self.next().filter(|fires| *fires <= until) {
            self.now(fires);
            let mut due: Vec<(i64, u16)> = self.wakes.iter().map(|(path, due)| (*due, *path)).collect();
            due.retain(|(due, _)| *due <= fires);
            due.sort_unstable();
            match due.is_empty() {
                true => self.drain_all(),
                false => due.iter().for_each(|(_, path)| self.drain(*path)),
            }
            // A path that asks for the same instant again is called at the next grain, so that time
            // advances.
            self.wakes.values_mut().for_each(|due| *due = (*due).max(fires + 1));
        }
        self.now(at);
    }

    /// Returns the time at which the next timer is due.
    fn due_next(&self) -> Option<i64> {
        self.wakes.values().min().copied()
    }

    /// Returns the time at which the next timer fires.
    fn fires_next(&mut self) -> Option<i64> {
        self.due_next().map(|due| self.fires(due))
    }

    /// Returns the time of the next call of a path.
    fn next(&mut self) -> Option<i64> {
        let fires = self.fires_next();
        if !self.manner.polled {
            return fires;
        }
        let now = self.time();
        let left = self.recorded.iter().copied().find(|t| *t > now);
        [fires, left].into_iter().flatten().min()
    }

    /// Returns the time at which a timer due at `due` fires: the time of a departure in the kernel,
    /// if there is one within the tolerance, otherwise the next grain of the clock.
    fn fires(&mut self, due: i64) -> i64 {
        let grain = due.saturating_add(GRAIN_NS - 1).div_euclid(GRAIN_NS) * GRAIN_NS;
        let grain = grain.max(self.time());
        let now = self.time();
        while self.recorded.front().is_some_and(|t| *t < now) {
            self.recorded.pop_front();
        }
        let near = self.recorded.iter().copied().find(|t| *t >= grain);
        near.filter(|t| *t <= grain + TOLERANCE_NS).unwrap_or(grain)
    }

    fn time(&self) -> i64 {
        self.lane.now.0.cast_signed() - ZERO
    }

    fn now(&mut self, at: i64) {
        self.lane.now = Instant(ZERO.saturating_add(at.max(self.time())).cast_unsigned());
    }

    fn drain_all(&mut self) {
        (0..self.lane.paths()).for_each(|path| self.drain(path));
    }

    fn drain(&mut self, path: u16) {
        let lane = &mut self.lane;
        loop {
            match lane.port.drain(lane.now, path, BUDGET, &mut lane.device) {
                Wake::More => {}
                Wake::At(t, why) if why != WakeReason::Plugged => {
                    self.wakes.insert(path, i64::try_from(t.0).unwrap_or(i64::MAX) - ZERO);
                    break;
                }
                Wake::Idle | Wake::Device | Wake::At(..) => {
                    self.wakes.remove(&path);
                    break;
                }
            }
        }
        let at = self.time();
        for ((packet, len), m) in std::mem::take(&mut self.lane.device.sent) {
            let ds = if m.washed { m.ds & 3 } else { m.ds };
            let ds = if m.marked { ds | 3 } else { ds };
            self.played.departures.push(Departure { at, packet, len, ds });
        }
    }

    fn arrive(&mut self, number: usize) {
        let arrival = self.trace.arrivals[number];
        let row = &self.trace.rows[arrival.row];
        let seq = u32::try_from(number).unwrap_or(u32::MAX);
        // Reading the trace has checked the rows and sizes.
        let mut bytes = packet::frame(row, seq, arrival.size, arrival.extra).unwrap_or_default();
        let mut meta = packet::meta(&bytes, row, &self.hasher);
        if !packet::is_markable(row, arrival.size, self.washing) {
            meta = meta.ecn(Ecn::NotEct);
        }
        if let Some(at) = arrival.extra.txtime {
            // The kernel takes a launch time before its start as 0, which means none.
            meta.txtime = Instant(ZERO.saturating_add(at).max(0).cast_unsigned());
        }
        let lane = &mut self.lane;
        let (queue, route) = match lane.ask(&mut bytes, &mut meta) {
            Passed::Queue(queue, route) => (queue, route),
            // A filter of the hook dropped the packet: no qdisc hears of it.
            Passed::Dropped => return,
            // An action took the packet.
            Passed::Stolen => return self.drain_all(),
        };
        let path = if lane.port.is_split() { queue } else { 0 };
        let wanted = lane.port.path(queue).is_some_and(TxPath::wants_detail);
        let detail = wanted.then(|| Detail { route, ..packet::detail(&bytes, &self.hasher) });
        let (now, frame) = (lane.now, (number, meta.len));
        match lane.port.submit(now, frame, &meta, detail.as_ref(), &mut lane.device) {
            Admitted::Cut(frame, _) => {
                for piece in packet::pieces(&meta) {
                    let frame = (frame.0, piece.len);
                    // A piece is sent, queued or dropped; the departures show drops.
                    let detail = detail.map(Detail::piece);
                    let _ = lane.port.submit(now, frame, &piece, detail.as_ref(), &mut lane.device);
                }
            }
            // The departures show drops, and a forwarder is never told to wait.
            Admitted::Sent | Admitted::Queued | Admitted::Dropped(_) | Admitted::Full(_) => {}
        }
        self.drain(path);
    }

    fn tool(&mut self, words: &str) -> tool::Outcome {
        let args = split(words);
        tool::run(&Request { args, ..Request::default() }, &mut self.lane)
    }

    fn command(&mut self, line: &str) {
        let outcome = self.tool(line);
        for word in line.split_whitespace().filter(|word| ["wash", "nowash"].contains(word)) {
            self.washing = word == "wash";
        }
        self.played.commands.push((outcome.status, outcome.stderr));
        // Counters of new filters and actions need room.
        self.lane.filters.fit(&mut self.lane.state);
        // A running timer keeps its time, as in the kernel: a change that lets a packet leave
        // earlier takes effect only then. A plug that is released asks the device itself.
        let paths = self.lane.paths();
        self.wakes.retain(|path, _| *path < paths);
        let released = line.contains(" plug release");
        for path in (0..paths).filter(|path| released || !self.wakes.contains_key(path)).collect::<Vec<_>>() {
            self.drain(path);
        }
    }

    fn show(&mut self) {
        // tc prints nothing for an empty list of classes.
        let json = |text: &str| match text {
            "" => Some(Vec::new()),
            text => serde_json::from_str::<Vec<Value>>(text).ok(),
        };
        let detail = if self.trace.head.details { "-s -d" } else { "-s" };
        let mut ask = |format: &str, what: &str| {
            self.tool(&format!("{detail} {format} {what} show dev {DEVICE}")).stdout
        };
        let show = Show {
            qdisc: json(&ask("-j", "qdisc")),
            class: json(&ask("-j", "class")),
            qdisc_text: ask("", "qdisc"),
            class_text: ask("", "class"),
        };
        self.played.shows.push(show);
    }
}

/// Splits a command line into its words, as a shell does: text in single quotes is one word.
fn split(line: &str) -> Vec<String> {
    let part = |(at, part): (usize, &str)| -> Vec<String> {
        match at % 2 {
            0 => part.split_whitespace().map(String::from).collect(),
            _ => vec![part.into()],
        }
    };
    line.split('\'').enumerate().flat_map(part).collect()
}

impl Lane {
    /// Returns the number of paths.
    fn paths(&self) -> u16 {
        u16::try_from(self.port.paths().len()).unwrap_or(u16::MAX)
    }

    /// True if the root gives each priority queues of its own.
    fn has_classes(&self) -> bool {
        let trees = self.port.trees();
        let root = trees.root().qdisc();
        mqprio::classes_of(root).or_else(|| taprio::classes_of(root)).is_some()
    }

    /// Runs the filters of the egress hook and of the qdiscs, as for a live frame.
    fn ask(&mut self, bytes: &mut Vec<u8>, meta: &mut Meta) -> Passed {
        let headers = Headers::parse_ethernet(bytes);
        let block = self.hook.and_then(|_| self.port.block(Hook::EGRESS));
        // No sender chooses a queue but by a filter in front, which the trace does not have.
        let asked = (self.asks || !self.has_classes()).then_some(meta.queue);
        let mut outlet = NoOutlet;
        let mut entry = Entry::new(&self.filters, &mut self.state, &mut outlet, self.now);
        (entry.to, entry.queues) = (Some(Hooked { port: PORT, block }), self.queues);
        let mut packet = Packet::new(bytes, meta, headers);
        let passed = entry.pass(&mut packet, &mut Recorded { port: &mut self.port, asked, now: self.now });
        if let Passed::Queue(queue, _) = passed
            && self.port.is_split()
        {
            packet.meta.queue = queue;
        }
        let [_, counted] = entry.counted;
        self.hook_counts.add(counted);
        passed
    }
}

/// A port whose packets are in the queues that the trace says.
struct Recorded<'a> {
    port: &'a mut Port<Frame>,
    asked: Option<u16>,
    now: Instant,
}

impl Ways for Recorded<'_> {
    fn choose(&mut self, meta: &mut Meta, asked: Option<u16>) -> u16 {
        let sender = Sender::default();
        let choice = asked.or(self.asked).map_or(Choice::By(&sender, None), Choice::Queue);
        self.port.chooser_mut().choose_for(meta, choice, self.now)
    }
    fn tree(&self, queue: u16) -> Option<&Tree> {
        self.port.path(queue).map(TxPath::tree)
    }
}

impl Queues for Always {
    type Frame = Frame;
    type Queue<'a> = &'a mut Self;
    fn queue(&mut self, _: u16) -> Option<&mut Self> {
        Some(self)
    }
}

/// A device that takes every packet at once, as veth does.
#[derive(Default)]
struct Always {
    sent: Vec<(Frame, Meta)>,
}

impl TxQueue for Always {
    type Frame = Frame;
    fn reserve(&mut self, want: u32) -> u32 {
        want
    }
    fn push(&mut self, frame: Frame, m: &Meta) {
        self.sent.push((frame, *m));
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn reap(&mut self, _: &mut dyn FnMut(Completed<Frame>)) {}
    fn is_done_at_commit(&mut self) -> bool {
        true
    }
    fn copy(&mut self, frame: &Frame) -> Option<Frame> {
        Some(*frame)
    }
}

impl Devices for Lane {
    fn names(&self) -> Vec<String> {
        vec![DEVICE.into()]
    }
    fn device(&mut self, name: &str) -> Option<&mut dyn Device> {
        (name == DEVICE).then_some(self as &mut dyn Device)
    }
    fn filters(&self) -> &Filters {
        &self.filters
    }
    fn filters_mut(&mut self) -> &mut Filters {
        &mut self.filters
    }
    fn state(&self) -> &State {
        &self.state
    }
    fn port(&mut self, name: &str) -> Option<PortId> {
        (name == DEVICE).then_some(PORT)
    }
    fn now(&self) -> Instant {
        self.now
    }
}

impl Device for Lane {
    fn name(&self) -> &str {
        DEVICE
    }
    fn queues(&self) -> u32 {
        self.queues
    }
    fn env(&self) -> Env {
        *self.port.env()
    }
    fn tree(&self) -> Trees<'_> {
        self.port.trees()
    }
    fn hook(&self) -> Option<Hook> {
        self.hook
    }
    fn set_hook(&mut self, hook: Option<Hook>) {
        if self.hook != hook {
            self.hook_counts = HookCounts::default();
        }
        self.hook = hook;
    }
    fn hook_counts(&self) -> HookCounts {
        self.hook_counts
    }
    fn configure(&mut self, f: &mut dyn FnMut(&mut Qdiscs<'_>)) {
        self.port.control(self.now, &mut self.device).configure(f);
    }
    /// Makes a swap without atomicity: no line of a trace asks for one, as `--atomic` is not tc's.
    fn swap(&mut self, f: &mut dyn FnMut(&mut Qdiscs<'_>)) -> SwapDone {
        self.configure(f);
        SwapDone::default()
    }
    fn queued(&self, f: &mut dyn FnMut(Handle, Handle, &Meta)) {
        self.port.trees().queued(f);
    }
}
