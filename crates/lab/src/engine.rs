//! The event engine: a clock, two heaps of small events, and FIFO lanes that put one entry each
//! into a heap.
//!
//! Events are ordered by (time, sequence number). Scheduling an event gives it its number, so
//! events at one instant happen in the order in which they were scheduled, and a run is a function
//! of its inputs.
//!
//! Most events of a network simulation are ordered already: the packets on one link. A [`Lane`]
//! keeps these events, with their packets, in its own queue; only its first event has an entry in
//! a heap. The heaps therefore hold one entry per busy link and per armed timer, not one per packet
//! in flight. Each item of a lane keeps the number it was given when it was pushed, so lanes change
//! the cost, not the order.
//!
//! A net of ten thousand connections has as many timers and a few links, and most of its events are
//! those of the links. Timers ([`Payload::is_timer`]) therefore have a heap of their own: an event
//! of a link costs a walk through a heap of a few entries. The next event is the first of both, so
//! the second heap changes the cost, not the order.

mod heap;

use std::collections::VecDeque;
use std::io::{self, Write};

use txweir_core::base::time::Instant;

use heap::Heap;

/// Meaning of an event to its actor: a small value, no pointer, no closure.
pub trait Payload: Copy {
    /// Returns the payload as a number, for the trace.
    fn word(self) -> u64;
    /// True for events of which there may be as many as there are connections; it decides which
    /// heap keeps them. False by default.
    fn is_timer(self) -> bool {
        false
    }
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<P> {
    /// Time.
    pub at: Instant,
    /// Place among the events of one instant.
    pub seq: u64,
    /// Receiver: an index that the user of the engine interprets.
    pub actor: u32,
    /// Payload.
    pub what: P,
}

impl<P> Event<P> {
    /// Returns time and number as one integer: one comparison instead of two.
    fn key(&self) -> u128 {
        u128::from(self.at.0) << 64 | u128::from(self.seq)
    }
}

/// A clock and the events to come.
#[derive(Debug)]
pub struct Engine<P> {
    now: Instant,
    seq: u64,
    dispatched: u64,
    /// Timers.
    timers: Heap<P>,
    /// All other events.
    others: Heap<P>,
    trace: Option<Box<Trace>>,
}

impl<P: Payload> Default for Engine<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Payload> Engine<P> {
    /// Returns an engine at time zero without events.
    pub fn new() -> Self {
        Self {
            now: Instant::ZERO,
            seq: 0,
            dispatched: 0,
            timers: Heap::new(),
            others: Heap::new(),
            trace: None,
        }
    }

    /// Adds a trace of every event and note. Without a trace, a note costs a test of a pointer.
    #[must_use]
    pub fn with_trace(mut self, trace: Trace) -> Self {
        self.trace = Some(Box::new(trace));
        self
    }

    /// Returns the current time.
    pub const fn now(&self) -> Instant {
        self.now
    }
    /// Returns the number of events that have happened.
    pub const fn dispatched(&self) -> u64 {
        self.dispatched
    }
    /// Returns the number of events to come; of a lane only the first item counts.
    pub fn scheduled(&self) -> usize {
        self.timers.len() + self.others.len()
    }
    /// Returns the trace, if there is one.
    pub fn trace(&self) -> Option<&Trace> {
        self.trace.as_deref()
    }
    /// Returns the trace, for flushing or taking its error.
    pub(crate) fn trace_mut(&mut self) -> Option<&mut Trace> {
        self.trace.as_deref_mut()
    }

    /// Schedules `what` for `actor` at `at`; a time in the past counts as now.
    pub fn schedule(&mut self, at: Instant, actor: u32, what: P) {
        let seq = self.ticket();
        self.arm(Event { at: at.max(self.now), seq, actor, what });
    }

    /// Takes the next sequence number.
    fn ticket(&mut self) -> u64 {
        let seq = self.seq;
        self.seq += 1;
        seq
    }

    /// Puts an event that has its number into its heap.
    fn arm(&mut self, e: Event<P>) {
        let heap = if e.what.is_timer() { &mut self.timers } else { &mut self.others };
        heap.add(e);
    }

    /// Returns the first event of both heaps.
    fn first(&mut self) -> Option<&Event<P>> {
        match (self.timers.first(), self.others.first()) {
            (Some(timer), Some(other)) => Some(if timer.key() < other.key() { timer } else { other }),
            (timer, other) => timer.or(other),
        }
    }

    /// Returns the next event, if it is not after `until`, and sets the clock to its time.
    /// Otherwise returns `None` and sets the clock to `until`, except for `Instant::MAX`, which
    /// runs until no event is left and keeps the clock.
    pub fn next(&mut self, until: Instant) -> Option<Event<P>> {
        let Some(&e) = self.first().filter(|e| e.at <= until) else {
            if until < Instant::MAX {
                self.now = self.now.max(until);
            }
            return None;
        };
        let heap = if e.what.is_timer() { &mut self.timers } else { &mut self.others };
        heap.take_first();
        self.now = e.at;
        self.dispatched += 1;
        if let Some(t) = &mut self.trace {
            t.record([e.at.0, u64::from(e.actor), e.what.word(), e.seq]);
        }
        Some(e)
    }

    /// Returns up to four actors whose timers come soon: while the event of a timer is handled, the
    /// actor of the next one is among them.
    pub(crate) fn timers_coming(&self) -> impl Iterator<Item = u32> {
        self.timers.coming().iter().map(|e| e.actor)
    }

    /// Returns the time of the next event, if there is one.
    pub(crate) fn upcoming(&mut self) -> Option<Instant> {
        self.first().map(|e| e.at)
    }

    /// Records an action of an actor at this instant, like a packet admitted, dropped or delivered.
    pub fn note(&mut self, actor: u32, code: u32, value: u64) {
        if let Some(t) = &mut self.trace {
            t.record([self.now.0, u64::from(actor), u64::from(code) | NOTE, value]);
        }
    }
}

/// Items that reach one actor in order, like the packets on a link. Only the first item has an
/// entry in the heap.
#[derive(Debug)]
pub struct Lane<T, P> {
    actor: u32,
    what: P,
    queue: VecDeque<(Instant, u64, T)>,
}

impl<T, P: Payload> Lane<T, P> {
    /// Returns an empty lane whose items reach `actor` as `what`.
    pub fn new(actor: u32, what: P) -> Self {
        Self { actor, what, queue: VecDeque::new() }
    }

    /// Returns the number of items in it.
    pub fn len(&self) -> usize {
        self.queue.len()
    }
    /// True if the lane has no items.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the item that `n` others precede.
    pub fn get(&self, n: usize) -> Option<&T> {
        self.queue.get(n).map(|(_, _, item)| item)
    }
    /// Returns its items, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.queue.iter().map(|(_, _, item)| item)
    }

    /// Appends an item that is due at `at`. A lane keeps its order, so an item that would overtake
    /// waits for the item before it.
    pub fn push(&mut self, engine: &mut Engine<P>, at: Instant, item: T) {
        let seq = engine.ticket();
        let at = at.max(engine.now).max(self.queue.back().map_or(Instant::ZERO, |b| b.0));
        if self.queue.is_empty() {
            engine.arm(Event { at, seq, actor: self.actor, what: self.what });
        }
        self.queue.push_back((at, seq, item));
    }

    /// Takes the item whose event has come. The caller calls this once for each event of this lane,
    /// and only then.
    pub fn pop(&mut self, engine: &mut Engine<P>) -> Option<T> {
        let (_, _, item) = self.queue.pop_front()?;
        if let Some(&(at, seq, _)) = self.queue.front() {
            engine.arm(Event { at, seq, actor: self.actor, what: self.what });
        }
        Some(item)
    }
}

/// A timer of one actor that moves often and fires seldom. The heap gets an entry only when the
/// alarm moves to an earlier time. An event that fires before the time of the alarm is armed again.
#[derive(Clone, Copy, Debug)]
pub struct Alarm {
    armed: Instant,
}

impl Default for Alarm {
    fn default() -> Self {
        Self { armed: Instant::MAX }
    }
}

impl Alarm {
    /// Makes sure that the actor gets an event at or before `at`, where a time in the past counts
    /// as now; `None` asks for no event.
    pub fn set<P: Payload>(&mut self, engine: &mut Engine<P>, at: Option<Instant>, actor: u32, what: P) {
        // The event of a time in the past comes now, and must be known as the armed one then.
        if let Some(at) = at.map(|at| at.max(engine.now())).filter(|at| *at < self.armed) {
            self.armed = at;
            engine.schedule(at, actor, what);
        }
    }

    /// True if the event at `at` is the armed one, which then is armed no longer. An event that an
    /// earlier one has overtaken returns false, and the caller ignores it.
    pub fn fired(&mut self, at: Instant) -> bool {
        let mine = at == self.armed;
        if mine {
            self.armed = Instant::MAX;
        }
        mine
    }
}

/// Bit that marks a note in the third word of a record.
const NOTE: u64 = 1 << 63;

/// Number of words of a record.
const WORDS: usize = 4;

/// The event log: a rolling hash of every record and, if there is a sink, the records themselves.
///
/// A record is four little-endian 64-bit words: time in nanoseconds, actor, kind (the payload's
/// word; for a note its code, with the top bit set), and the sequence number or the note's value.
#[derive(Default)]
pub struct Trace {
    hash: u64,
    records: u64,
    sink: Option<Box<dyn Write>>,
    error: Option<io::Error>,
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trace")
            .field("hash", &self.hash)
            .field("records", &self.records)
            .finish_non_exhaustive()
    }
}

impl Trace {
    /// Returns a trace of the hash only.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a trace of the hash, with the records written to `sink`, which should be buffered.
    pub fn to(sink: Box<dyn Write>) -> Self {
        Self { sink: Some(sink), ..Self::default() }
    }

    /// Returns the hash of the records so far. Equal logs have equal hashes; the hash is no defence
    /// against an adversary.
    pub const fn hash(&self) -> u64 {
        self.hash
    }
    /// Returns the number of records so far.
    pub const fn records(&self) -> u64 {
        self.records
    }

    /// Flushes the sink and returns the first error of writing; no record is written after an
    /// error.
    pub fn finish(&mut self) -> io::Result<()> {
        if let Some(sink) = &mut self.sink {
            sink.flush()?;
        }
        self.error.take().map_or(Ok(()), Err)
    }

    fn record(&mut self, words: [u64; WORDS]) {
        self.records += 1;
        for w in words {
            // Folded multiplication: every bit of the word affects every bit of the hash.
            let m = u128::from(self.hash ^ w ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
            self.hash = (m as u64) ^ ((m >> 64) as u64) ^ self.hash.rotate_left(29);
        }
        if let Some(sink) = &mut self.sink {
            let mut bytes = [0; WORDS * 8];
            for (b, w) in bytes.chunks_exact_mut(8).zip(words) {
                b.copy_from_slice(&w.to_le_bytes());
            }
            if let Err(e) = sink.write_all(&bytes) {
                self.error = Some(e);
                self.sink = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use txweir_core::base::rng::Rng;

    impl Payload for u32 {
        fn word(self) -> u64 {
            u64::from(self)
        }
        /// Both heaps hold events at the same instants.
        fn is_timer(self) -> bool {
            self % 3 == 1
        }
    }

    /// The order is that of a stable sort by time, whatever is scheduled while events are handled.
    #[test]
    fn order_equals_a_stable_sort() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let mut engine = Engine::new();
            let mut model: Vec<(Instant, u64, u32)> = Vec::new();
            let (mut n, mut seen) = (0_u32, Vec::new());
            let mut add = |engine: &mut Engine<u32>, model: &mut Vec<_>, rng: &mut Rng| {
                let at = engine.now() + crate::Nanos(rng.below(20));
                engine.schedule(at, 0, n);
                model.push((at, u64::from(n), n));
                n += 1;
            };
            for _ in 0..50 {
                add(&mut engine, &mut model, &mut rng);
            }
            while let Some(e) = engine.next(Instant(500)) {
                let first = *model.iter().min_by_key(|m| (m.0, m.1)).unwrap();
                model.retain(|m| m.1 != first.1);
                assert_eq!((e.at, e.seq, e.what), first, "seed {seed}");
                assert_eq!(engine.scheduled(), model.len());
                seen.push(e.what);
                for _ in 0..rng.below(3).min(500 - seen.len().min(500) as u64) {
                    add(&mut engine, &mut model, &mut rng);
                }
            }
            assert!(seen.len() >= 50);
        }
    }

    /// A lane gives the same order as scheduling each of its items separately.
    #[test]
    fn lanes_do_not_change_the_order() {
        let run = |lanes: bool| {
            let mut rng = Rng::new(3);
            let mut engine = Engine::new();
            let mut lane: Vec<Lane<u32, u32>> = (0..3).map(|i| Lane::new(i, 0)).collect();
            let mut last = [Instant::ZERO; 3];
            let (mut n, mut order) = (0, Vec::new());
            for round in 0.. {
                for _ in 0..if round < 100 { rng.below(4) } else { 0 } {
                    let i = rng.below(3) as usize;
                    let at = (engine.now() + crate::Nanos(rng.below(30))).max(last[i]);
                    last[i] = at;
                    n += 1;
                    match lanes {
                        true => lane[i].push(&mut engine, at, n),
                        false => engine.schedule(at, i as u32, n),
                    }
                }
                let Some(e) = engine.next(Instant::MAX) else {
                    match round < 100 {
                        true => continue,
                        false => break,
                    }
                };
                let item = if lanes { lane[e.actor as usize].pop(&mut engine).unwrap() } else { e.what };
                order.push((e.at, e.seq, e.actor, item));
            }
            order
        };
        let order = run(true);
        assert!(order.len() > 100);
        assert_eq!(order, run(false));
    }

    #[test]
    fn a_lane_does_not_overtake() {
        let mut engine = Engine::new();
        let mut lane = Lane::new(7, 0_u32);
        lane.push(&mut engine, Instant(10), 'a');
        lane.push(&mut engine, Instant(5), 'b');
        assert_eq!(engine.next(Instant(9)), None);
        assert_eq!((engine.next(Instant(10)).unwrap().actor, lane.pop(&mut engine)), (7, Some('a')));
        assert_eq!((engine.next(Instant(10)).unwrap().at, lane.pop(&mut engine)), (Instant(10), Some('b')));
        assert_eq!((engine.next(Instant(11)), lane.is_empty(), engine.now()), (None, true, Instant(11)));
    }

    #[test]
    fn an_alarm_arms_only_what_is_earlier() {
        let (mut engine, mut alarm) = (Engine::new(), Alarm::default());
        alarm.set(&mut engine, Some(Instant(100)), 0, 0_u32);
        alarm.set(&mut engine, Some(Instant(200)), 0, 0);
        alarm.set(&mut engine, Some(Instant(50)), 0, 0);
        alarm.set(&mut engine, None, 0, 0);
        assert_eq!(engine.scheduled(), 2);
        assert!(engine.next(Instant::MAX).is_some_and(|e| e.at.0 == 50 && alarm.fired(e.at)));
        assert!(engine.next(Instant::MAX).is_some_and(|e| e.at.0 == 100 && !alarm.fired(e.at)));
    }

    #[test]
    fn an_alarm_in_the_past_fires_now() {
        let (mut engine, mut alarm) = (Engine::new(), Alarm::default());
        for set in [100, 50, 99] {
            alarm.set(&mut engine, Some(Instant(set)), 0, 0_u32);
            assert!(engine.next(Instant::MAX).is_some_and(|e| e.at.0 == 100 && alarm.fired(e.at)), "{set}");
        }
    }

    #[test]
    fn the_hash_is_of_the_bytes_and_sees_each_word() {
        let hash = |words: &[[u64; 4]]| {
            let mut t = Trace::new();
            words.iter().for_each(|w| t.record(*w));
            t.hash()
        };
        let base = [[1, 2, 3, 4], [5, 6, 7, 8]];
        for (i, j) in (0..2).flat_map(|i| (0..4).map(move |j| (i, j))) {
            let mut other = base;
            other[i][j] ^= 1 << (8 * j);
            assert_ne!(hash(&base), hash(&other));
        }
        assert_eq!(hash(&base), hash(&base));
        assert_ne!(hash(&base), hash(&base[..1]));
    }
}
