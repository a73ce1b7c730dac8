//! Drives a path through a trace, in the trace's time.

use std::collections::VecDeque;

use serde_json::Value;
use txweir_core::classify::action::State;
use txweir_core::classify::filter::Filters;
use txweir_core::classify::packet::PortId;
use txweir_core::packet::hash::FlowHasher;
use txweir_core::path::qdiscs::Qdiscs;
use txweir_core::path::trees::Trees;
use txweir_core::{
    Admitted, Completed, Detail, DeviceError, Env, Handle, Instant, Meta, PathConfig, Role, TxPath, TxQueue,
    Wake,
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
}

/// Plays the trace with flow hashes of this key, and with the laws of this code or of Linux.
pub(super) fn play(trace: &Trace, key: u64, strict_linux: bool) -> Played {
    let mut player = Player::new(trace, key, strict_linux);
    for step in &trace.steps {
        player.run_until(step.at());
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
    hasher: FlowHasher,
    lane: Lane,
    /// Time of the path's next call.
    wake: Option<i64>,
    /// Times of future departures in the kernel.
    recorded: VecDeque<i64>,
    played: Played,
}

/// The device as tc sees it.
struct Lane {
    path: TxPath<Frame>,
    device: Always,
    now: Instant,
    queues: u32,
    hook: Option<Hook>,
    filters: Filters,
    state: State,
}

impl<'a> Player<'a> {
    fn new(trace: &'a Trace, key: u64, strict_linux: bool) -> Self {
        let d = &trace.head.device;
        let env = Env {
            mtu: d.mtu,
            tx_queue_len: d.txqueuelen,
            queues: u16::try_from(d.queues).unwrap_or(u16::MAX),
            seed: key,
            strict_linux,
            ..Env::default()
        };
        let config = PathConfig { env, role: Role::Forwarder, bql: None, ..PathConfig::default() };
        // Without a byte limit the configuration cannot be refused.
        let path = TxPath::new(config).unwrap_or_else(|e| unreachable!("{e}"));
        let lane = Lane {
            path,
            device: Always::default(),
            now: Instant::ZERO,
            queues: d.queues,
            hook: None,
            filters: Filters::new(),
            state: State::new(key),
        };
        let recorded = trace.departures.iter().map(|d| d.at).collect();
        let (hasher, played) = (FlowHasher::new(key), Played::default());
        Self { trace, hasher, lane, wake: None, recorded, played }
    }

    /// Fires every timer that is due before the event at `at`, and advances to that time. The
    /// process that causes the event woke one grain earlier, read the clock, which took the grain,
    /// and continued before any timer that was due in between.
    fn run_until(&mut self, at: i64) {
        let woke = at.saturating_sub(GRAIN_NS);
        while let Some(fires) = self.wake.map(|due| self.fires(due)).filter(|fires| *fires <= woke) {
            self.now(fires);
            self.drain();
            // A path that asks for the same instant again is called at the next grain, so that time
            // advances.
            self.wake = self.wake.map(|due| due.max(fires + 1));
        }
        self.now(at);
    }

    /// Returns the time at which a timer due at `due` fires: the time of a departure in the kernel,
    /// if there is one within the tolerance, otherwise the next grain of the clock.
    fn fires(&mut self, due: i64) -> i64 {
        let grain = due.saturating_add(GRAIN_NS - 1).div_euclid(GRAIN_NS) * GRAIN_NS;
        let grain = grain.max(self.time());
        while self.recorded.front().is_some_and(|t| *t < grain) {
            self.recorded.pop_front();
        }
        self.recorded.front().copied().filter(|t| *t <= grain + TOLERANCE_NS).unwrap_or(grain)
    }

    fn time(&self) -> i64 {
        self.lane.now.0.cast_signed() - ZERO
    }

    fn now(&mut self, at: i64) {
        self.lane.now = Instant(ZERO.saturating_add(at.max(self.time())).cast_unsigned());
    }

    fn drain(&mut self) {
        let lane = &mut self.lane;
        loop {
            match lane.path.drain(lane.now, BUDGET, &mut lane.device) {
                Wake::More => {}
                Wake::At(t, _) => {
                    self.wake = Some(i64::try_from(t.0).unwrap_or(i64::MAX) - ZERO);
                    break;
                }
                Wake::Idle | Wake::Device => {
                    self.wake = None;
                    break;
                }
            }
        }
        let at = self.time();
        for ((packet, len), m) in std::mem::take(&mut self.lane.device.sent) {
            let arrived = packet::ds(&self.trace.rows[self.trace.arrivals[packet].row]);
            let ds = if m.washed { arrived & 3 } else { arrived };
            let ds = if m.marked { ds | 3 } else { ds };
            self.played.departures.push(Departure { at, packet, len, ds });
        }
    }

    fn arrive(&mut self, number: usize) {
        let arrival = self.trace.arrivals[number];
        let row = &self.trace.rows[arrival.row];
        let seq = u32::try_from(number).unwrap_or(u32::MAX);
        // Reading the trace has checked the rows and sizes.
        let bytes = packet::frame(row, seq, arrival.size, arrival.extra).unwrap_or_default();
        let mut meta = packet::meta(&bytes, row, &self.hasher);
        if let Some(at) = arrival.extra.txtime {
            // The kernel takes a launch time before its start as 0, which means none.
            meta.txtime = Instant((ZERO + at).max(0).cast_unsigned());
        }
        let lane = &mut self.lane;
        let detail = lane.path.wants_detail().then(|| packet::detail(&bytes, &self.hasher));
        let (now, frame) = (lane.now, (number, meta.len));
        match lane.path.submit_with(now, frame, meta, detail.as_ref(), &mut lane.device) {
            Admitted::Cut(frame, _) => {
                for piece in packet::pieces(&meta) {
                    let frame = (frame.0, piece.len);
                    // A piece is sent, queued or dropped; the departures show drops.
                    let detail = detail.map(Detail::piece);
                    let _ = lane.path.submit_with(now, frame, piece, detail.as_ref(), &mut lane.device);
                }
            }
            // The departures show drops, and a forwarder is never told to wait.
            Admitted::Sent | Admitted::Queued | Admitted::Dropped(_) | Admitted::Full(_) => {}
        }
        self.drain();
    }

    fn tool(&mut self, words: &str) -> tool::Outcome {
        let args = words.split_whitespace().map(String::from).collect();
        tool::run(&Request { args, ..Request::default() }, &mut self.lane)
    }

    fn command(&mut self, line: &str) {
        let outcome = self.tool(line);
        self.played.commands.push((outcome.status, outcome.stderr));
        // A running timer keeps its time, as in the kernel: a change that lets a packet leave
        // earlier takes effect only then.
        if self.wake.is_none() {
            self.drain();
        }
    }

    fn show(&mut self) {
        let json = |text: &str| serde_json::from_str::<Vec<Value>>(text).ok();
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
        // A trace has one device, with the first number.
        (name == DEVICE).then_some(PortId(1))
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
        *self.path.tree().env()
    }
    fn tree(&self) -> Trees<'_> {
        Trees::with_pool(self.path.tree(), &self.path.cx().pool)
    }
    fn hook(&self) -> Option<Hook> {
        self.hook
    }
    fn set_hook(&mut self, hook: Option<Hook>) {
        self.hook = hook;
    }
    fn configure(&mut self, f: &mut dyn FnMut(&mut Qdiscs<'_>)) {
        self.path.configure(self.now, &mut self.device, |tree, cx| f(&mut tree.edit(cx)));
    }
    /// Makes a swap without atomicity: no line of a trace asks for one, as `--atomic` is not tc's.
    fn swap(&mut self, f: &mut dyn FnMut(&mut Qdiscs<'_>)) -> SwapDone {
        self.configure(f);
        SwapDone::default()
    }
    fn queued(&self, f: &mut dyn FnMut(Handle, Handle, &Meta)) {
        self.path.tree().queued(&self.path.cx().pool, f);
    }
}
