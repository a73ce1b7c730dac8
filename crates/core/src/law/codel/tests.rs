use super::*;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use proptest::prelude::*;

const MTU: u32 = 1514;

fn defaults() -> CodelParams {
    CodelParams::new(Nanos::from_millis(5), Nanos::from_millis(100), MTU).unwrap()
}

/// Returns a packet far above any target, with a backlog.
fn bad() -> Head {
    Head::new(Ticks(40_000), 100_000)
}

const SENT: Decision = Decision::Deliver(Marks { ecn: false, ce_threshold: false });
const MARKED: Decision = Decision::Deliver(Marks { ecn: true, ce_threshold: false });

#[derive(Clone, Copy, Debug)]
struct Packet {
    id: u32,
    arrived: Instant,
    bytes: u32,
    ecn: bool,
}

/// Outcome of one dequeue: the packets dropped, and the one delivered with its marks.
type Outcome = (Vec<u32>, Option<(u32, Marks)>);

/// A FIFO driven by the law, as in a qdisc.
#[derive(Default)]
struct Fifo {
    queue: VecDeque<Packet>,
    backlog: u64,
    law: CodelState,
}

impl Fifo {
    fn enqueue(&mut self, packet: Packet) {
        self.backlog += u64::from(packet.bytes);
        self.queue.push_back(packet);
    }

    fn dequeue(&mut self, p: &CodelParams, now: Instant) -> Outcome {
        let (mut dropped, now) = (Vec::new(), Ticks::at(now));
        while let Some(packet) = self.queue.pop_front() {
            self.backlog -= u64::from(packet.bytes);
            let sojourn = now.since(Ticks::at(packet.arrived));
            let head = Head::new(sojourn, self.backlog).with_ecn_capable(packet.ecn);
            match self.law.on_dequeue(p, &head, now) {
                Decision::Drop => dropped.push(packet.id),
                Decision::Deliver(marks) => return (dropped, Some((packet.id, marks))),
            }
        }
        self.law.on_empty();
        (dropped, None)
    }
}

#[test]
fn clock_and_sizes() {
    assert_eq!(size_of::<CodelState>(), 20);
    assert_eq!(Ticks::span(Nanos::from_millis(5)), Ticks(4882));
    assert_eq!(Ticks::span(Nanos::from_millis(100)), Ticks(97_656));
    assert_eq!(Ticks::span(Nanos(u64::MAX)), Ticks(2_147_483_647));
    assert_eq!(Ticks::at(Instant(1 << 42)), Ticks(0));
    assert_eq!(Ticks(97_656).as_nanos().as_micros(), 99_999);
    assert!(Ticks(u32::MAX).is_before(Ticks(1)) && !Ticks(1).is_before(Ticks(u32::MAX)));
    assert!(!Ticks(7).is_before(Ticks(7)));
}

#[test]
fn parameters_that_do_not_fit_the_clock_are_refused() {
    let ms = Nanos::from_millis;
    for (target, interval, error) in [
        (ms(0), Nanos(1024), None),
        (ms(5), Nanos(1023), Some(CodelError::Interval(Nanos(1023)))),
        (ms(5), Nanos(134_217_727 << 10), None),
        (ms(5), Nanos(134_217_728 << 10), Some(CodelError::Interval(Nanos(134_217_728 << 10)))),
        (Nanos(1 << 41), ms(100), Some(CodelError::Target(Nanos(1 << 41)))),
        (Nanos((1 << 41) - 1), ms(100), None),
    ] {
        assert_eq!(CodelParams::new(target, interval, MTU).err(), error);
    }
}

/// Drop times after the first, in ticks, from an arithmetic run of the reference's law.
const GOLDEN: [u32; 10] =
    [97_654, 146_483, 201_414, 249_049, 292_165, 331_624, 368_262, 402_589, 434_992, 465_758];

#[test]
fn drop_times_of_a_standing_queue() {
    for start in [0, 1, u32::MAX - 97_656, u32::MAX - 300_000] {
        let (p, start, mut law) = (defaults(), Ticks(start), CodelState::default());
        // Above target from `start` on; the first drop comes in the first tick after a whole
        // interval.
        let mut drops = Vec::new();
        for tick in 0..700_000 {
            let now = start.after(Ticks(tick));
            while law.on_dequeue(&p, &bad(), now) == Decision::Drop {
                drops.push(now.since(start).0);
            }
        }
        assert_eq!(drops[0], 97_657, "start {start:?}");
        let after_first: Vec<u32> = drops[1..].iter().map(|t| t - drops[0]).collect();
        assert_eq!(after_first[..10], GOLDEN, "start {start:?}");
        // From the sixth spacing on, within 1 % of the ideal interval / sqrt(count).
        for (count, pair) in (2_u32..).zip(after_first.windows(2)).skip(5) {
            let (spacing, ideal) = (f64::from(pair[1] - pair[0]), 97_656.0 / f64::from(count).sqrt());
            assert!((spacing / ideal - 1.0).abs() < 0.01, "count {count}: {spacing} against {ideal}");
        }
    }
}

/// 10 Mbit/s, one 1500-byte packet sent and one arriving every 1.2 ms, a queue that never drains.
#[test]
fn fifo_with_a_standing_queue_follows_the_control_law() {
    let (p, mut fifo) = (defaults(), Fifo::default());
    let mut next_id = 0;
    let mut arrive = |fifo: &mut Fifo, now, n| {
        for _ in 0..n {
            fifo.enqueue(Packet { id: next_id, arrived: now, bytes: 1500, ecn: false });
            next_id += 1;
        }
    };
    arrive(&mut fifo, Instant::ZERO, 100);
    let mut drops = Vec::new();
    for slot in 1..2000_u64 {
        let now = Instant::from_micros(1200 * slot);
        let (dropped, sent) = fifo.dequeue(&p, now);
        assert!(sent.is_some());
        drops.extend(dropped.iter().map(|_| slot));
        arrive(&mut fifo, now, 1 + dropped.len()); // unresponsive: dropped packets are replaced
    }
    // Sojourn reaches 5 ms in slot 5 (6 ms); after an interval comes the first drop, and then one
    // in the first slot at or after each golden time.
    let first = (6_000_000_u64.div_ceil(1024) - 1 + 97_656 + 1) * 1024 / 1_200_000 + 1;
    assert_eq!(drops[0], first);
    let base = first * 1_200_000 / 1024;
    for (drop, offset) in drops[1..].iter().zip(GOLDEN) {
        assert_eq!(*drop, ((base + u64::from(offset)) * 1024).div_ceil(1_200_000));
    }
    assert!(drops.len() > 150, "{}", drops.len());
}

#[test]
fn below_target_or_within_one_packet_nothing_is_dropped() {
    for (sojourn, backlog) in [(4881, 1_000_000), (4_000_000, 1514), (4881, 0)] {
        let (p, mut law) = (defaults(), CodelState::default());
        for tick in (0..10_000_000).step_by(1171) {
            let head = Head::new(Ticks(sojourn), backlog);
            assert_eq!(law.on_dequeue(&p, &head, Ticks(tick)), SENT);
        }
        assert!(!law.dropping());
    }
    // One step further on both sides, the same packets are dropped.
    let (p, mut law) = (defaults(), CodelState::default());
    let head = Head::new(Ticks(4882), 1515);
    let dropped = (0..10_000_000)
        .step_by(1171)
        .filter(|&t| law.on_dequeue(&p, &head, Ticks(t)) == Decision::Drop)
        .count();
    assert!(dropped > 100);
}

/// Returns the law armed at tick 0 and about to enter the dropping state at `97 657`.
fn armed(p: &CodelParams) -> CodelState {
    let mut law = CodelState::default();
    assert_eq!(law.on_dequeue(p, &bad(), Ticks(0)), SENT);
    assert_eq!(law.on_dequeue(p, &bad(), Ticks(97_656)), SENT);
    law
}

#[test]
fn one_good_packet_disarms() {
    let p = defaults();
    let mut law = armed(&p);
    assert_eq!(law.on_dequeue(&p, &Head::new(Ticks(4881), 100_000), Ticks(97_656)), SENT);
    assert_eq!(law.on_dequeue(&p, &bad(), Ticks(97_657)), SENT);
    assert_eq!(law.on_dequeue(&p, &bad(), Ticks(97_657 + 97_656)), SENT);
    assert_eq!(law.on_dequeue(&p, &bad(), Ticks(97_657 + 97_657)), Decision::Drop);
}

#[test]
fn entering_drops_one_and_delivers_the_next_whatever_it_is() {
    for next in [bad(), Head::new(Ticks(0), 0)] {
        let p = defaults();
        let mut law = armed(&p);
        assert_eq!(law.on_dequeue(&p, &bad(), Ticks(97_657)), Decision::Drop);
        assert_eq!(law.on_dequeue(&p, &next, Ticks(97_657)), SENT);
        assert!(law.dropping());
        assert_eq!((law.count(), law.lastcount(), law.drop_next()), (1, 1, Ticks(97_657 + 97_654)));
    }
}

#[test]
fn an_empty_queue_ends_dropping_and_disarms() {
    let p = defaults();
    let mut law = armed(&p);
    assert_eq!(law.on_dequeue(&p, &bad(), Ticks(97_657)), Decision::Drop);
    assert_eq!(law.on_dequeue(&p, &bad(), Ticks(97_657)), SENT);
    law.on_empty();
    assert!(!law.dropping());
    assert_eq!(law.on_dequeue(&p, &bad(), Ticks(97_658)), SENT);
    // An armed queue that empties starts afresh.
    let mut law = armed(&p);
    law.on_empty();
    assert_eq!(law.on_dequeue(&p, &bad(), Ticks(10_000_000)), SENT);
}

#[test]
fn overdue_drops_come_together_and_overdue_marks_one_per_dequeue() {
    let p = defaults().with_ecn(true);
    for capable in [false, true] {
        let head = bad().with_ecn_capable(capable);
        let mut law = armed(&p);
        let entered = law.on_dequeue(&p, &head, Ticks(97_657));
        if capable {
            assert_eq!(entered, MARKED);
        } else {
            assert_eq!(entered, Decision::Drop);
            assert_eq!(law.on_dequeue(&p, &head, Ticks(97_657)), SENT);
        }
        // 331 624 ticks later six spacings have passed: counts 2 to 7 are due at once.
        let late = Ticks(97_657 + 331_624);
        let mut dropped = 0;
        let last = loop {
            match law.on_dequeue(&p, &head, late) {
                Decision::Drop => dropped += 1,
                delivered => break delivered,
            }
        };
        if capable {
            assert_eq!((dropped, last, law.count()), (0, MARKED, 2));
            assert_eq!(law.drop_next(), Ticks(97_657 + GOLDEN[1]));
            // The next packet is marked again, and so on until the schedule has caught up.
            let marks = (0..20).filter(|_| law.on_dequeue(&p, &head, late) == MARKED).count();
            assert_eq!((marks, law.count()), (5, 7));
        } else {
            assert_eq!((dropped, last, law.count()), (6, SENT, 7));
        }
        assert_eq!(law.drop_next(), Ticks(97_657 + GOLDEN[6]));
    }
}

#[test]
fn marking_is_off_by_default_and_for_packets_that_cannot_carry_it() {
    let capable = bad().with_ecn_capable(true);
    assert_eq!(armed(&defaults()).on_dequeue(&defaults(), &capable, Ticks(97_657)), Decision::Drop);
    let ecn = defaults().with_ecn(true);
    assert_eq!(armed(&ecn).on_dequeue(&ecn, &bad(), Ticks(97_657)), Decision::Drop);
}

#[test]
fn ce_threshold_marks_beside_the_law() {
    let p = defaults().with_ce_threshold(Some(Nanos::from_millis(1)));
    let mark = |sojourn, capable| {
        let head = Head::new(Ticks(sojourn), 0).with_ecn_capable(capable);
        match CodelState::default().on_dequeue(&p, &head, Ticks(5)) {
            Decision::Deliver(marks) => marks.any(),
            Decision::Drop => panic!("dropped"),
        }
    };
    assert_eq!((mark(976, true), mark(977, true), mark(977, false)), (false, true, false));
    let p = p.with_ecn(true);
    let both = Decision::Deliver(Marks { ecn: true, ce_threshold: true });
    let mut law = armed(&p);
    assert_eq!(law.on_dequeue(&p, &bad().with_ecn_capable(true), Ticks(97_657)), both);
    // A selector that does not choose the packet: the law still marks it.
    let head = Head { ce_threshold_applies: false, ..bad().with_ecn_capable(true) };
    assert_eq!(armed(&p).on_dequeue(&p, &head, Ticks(97_657)), MARKED);
}

/// Returns the law dropping since tick 97 657, with `drops` drops, and then a good packet at the
/// time of the last drop.
fn ended_after(p: &CodelParams, drops: u32) -> (CodelState, Ticks) {
    let (mut law, mut now) = (armed(p), Ticks(97_657));
    loop {
        assert_eq!(law.on_dequeue(p, &bad(), now), Decision::Drop);
        if law.count() == drops {
            break;
        }
        assert_eq!(law.on_dequeue(p, &bad(), now), SENT);
        now = law.drop_next();
    }
    let good = Head::new(Ticks(0), 0);
    assert_eq!(law.on_dequeue(p, &good, now), SENT);
    if drops == 1 {
        assert_eq!(law.on_dequeue(p, &good, now), SENT);
    }
    assert!(!law.dropping());
    (law, now)
}

#[test]
fn returning_soon_resumes_near_the_rate_that_was_reached() {
    let p = defaults();
    // After n drops the next entry finds n - 1 beyond the last entry; it counts if that is more
    // than one and fewer than 16 intervals have passed since the next drop would have been due.
    for (drops, wait, count) in [
        (8, 16 * 97_656 - 1, 7),
        (8, 16 * 97_656, 1),
        (3, 16 * 97_656 - 1, 2),
        (2, 16 * 97_656 - 1, 1),
        (1, 200_000, 1),
    ] {
        let (mut law, _) = ended_after(&p, drops);
        let enter = law.drop_next().after(Ticks(wait));
        assert_eq!(law.on_dequeue(&p, &bad(), Ticks(enter.0 - 97_657)), SENT);
        assert_eq!(law.on_dequeue(&p, &bad(), enter), Decision::Drop);
        assert_eq!((law.count(), law.lastcount()), (count, count), "{drops} drops, {wait} ticks");
        let spacing = law.drop_next().since(enter).0;
        let ideal = 97_656.0 / f64::from(count).sqrt();
        assert!((f64::from(spacing) / ideal - 1.0).abs() < 0.06, "{drops} drops: {spacing}");
    }
}

#[test]
fn newton_steps_of_a_count_that_grows_by_one() {
    // The reference's values, from a run of its arithmetic.
    let (mut inverse, mut seen) = (InvSqrt::ONE, Vec::new());
    for count in 2..=100_000 {
        inverse.step(count, false);
        if [10, 100, 1000, 10_000, 65_536, 100_000].contains(&count) {
            seen.push(inverse.0);
        }
    }
    assert_eq!(seen, [20_647, 6553, 2072, 655, 256, 207]);
    // Rounded down twice on the way.
    let mut inverse = InvSqrt(7193);
    inverse.step(143, false);
    assert_eq!(inverse.0, 4593);
}

#[test]
fn newton_step_stays_in_range_after_overflow_drops() {
    // The first step after a jump lands below the root, at no less than two thirds of it.
    for count in 4..5000 {
        let mut inverse = InvSqrt::ONE;
        inverse.step(count, false);
        let share = f64::from(inverse.0) / 65_536.0 * f64::from(count).sqrt();
        assert!((0.66..1.0).contains(&share), "{count}: {share}");
    }
    // A step that would end at zero, where every later one would stay, ends just above.
    for (strict, end) in [(false, 1), (true, 0)] {
        let mut inverse = InvSqrt(2);
        inverse.step(3_221_225_471, strict);
        assert_eq!(inverse.0, end);
    }
    // Whatever the jump, a few steps lead to the root.
    for jump in [2, 3, 4, 64, 1000, 1 << 20, u32::MAX - 64] {
        let (mut inverse, mut count) = (InvSqrt::ONE, 1 + jump);
        for _ in 0..8 {
            count += 1;
            inverse.step(count, false);
        }
        let root = 65_536.0 / f64::from(count).sqrt();
        assert!((f64::from(inverse.0) - root).abs() <= 0.02 * root + 1.0, "{jump}: {inverse:?} {root}");
    }
    // The reference's own values, from a run of its arithmetic.
    for (start, count, expected) in [
        (u16::MAX, 65, [32_865, 34_565, 52_617, 22_898, 2046, 2998]),
        (u16::MAX, 4, [5, 7, 10, 14, 20, 29]),
        (20_724, 510, [25_891, 52_921, 9812, 23_728, 21_082, 58_593]),
        (0, 69, [0; 6]),
    ] {
        let mut inverse = InvSqrt(start);
        let steps = (1..=6).map(|step| {
            inverse.step(count + step, true);
            inverse.0
        });
        assert_eq!(steps.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn overflow_drops_before_first_use_raise_the_rate() {
    for (strict, spacing) in [(false, 10_000..12_500), (true, 0..1)] {
        let p = defaults().with_strict_linux(strict);
        let mut law = armed(&p);
        law.count_overflow(64);
        assert_eq!(law.on_dequeue(&p, &bad(), Ticks(97_657)), Decision::Drop);
        assert_eq!(law.count(), 64);
        assert!(spacing.contains(&law.drop_next().since(Ticks(97_657)).0), "{:?}", law.drop_next());
    }
}

// --- a source that responds ---

/// One window-limited sender: slow start, then one packet more per round trip; halved on loss, at
/// most once per round trip.
#[derive(Clone)]
struct Sender {
    /// Window in thousandths of a packet.
    window: u64,
    threshold: u64,
    inflight: u64,
    recovered_at: u64,
}

/// Eight senders over 100 Mbit/s with 40 ms of delay, one packet per 120 us slot. Returns the
/// sojourn times in us of the packets sent over the last 20 of 40 seconds: as many as there were
/// busy slots.
fn responsive(mut dequeue: impl FnMut(&mut Fifo, Instant) -> Outcome, limit: usize) -> Vec<u64> {
    const RTT: u64 = 40_000_000;
    const SLOT: u64 = 120_000;
    let mut fifo = Fifo::default();
    let mut senders =
        [const { Sender { window: 10_000, threshold: u64::MAX, inflight: 0, recovered_at: 0 } }; 8];
    // In order of arrival: the time, the sender, and true for a loss.
    let mut feedback: VecDeque<(u64, usize, bool)> = VecDeque::new();
    let mut sent: Vec<(usize, u64)> = Vec::new(); // by packet: sender, time
    let mut sojourns = Vec::new();
    for slot in 0..40_000_000_000 / SLOT {
        let now = slot * SLOT;
        while feedback.front().is_some_and(|f| f.0 <= now) {
            let (_, who, lost) = feedback.pop_front().unwrap();
            let s = &mut senders[who];
            s.inflight -= 1;
            if !lost {
                s.window += if s.window < s.threshold { 1000 } else { 1_000_000 / s.window };
            } else if now >= s.recovered_at {
                s.window = (s.window / 2).max(2000);
                s.threshold = s.window;
                s.recovered_at = now + RTT + RTT / 4;
            }
        }
        for (who, s) in senders.iter_mut().enumerate() {
            while s.inflight * 1000 < s.window {
                s.inflight += 1;
                if fifo.queue.len() >= limit {
                    feedback.push_back((now + RTT, who, true));
                    continue;
                }
                let id = u32::try_from(sent.len()).unwrap();
                sent.push((who, now));
                fifo.enqueue(Packet { id, arrived: Instant(now), bytes: 1500, ecn: false });
            }
        }
        let (dropped, delivered) = dequeue(&mut fifo, Instant(now));
        feedback.extend(dropped.iter().map(|&id| (now + RTT, sent[id as usize].0, true)));
        if let Some((id, _)) = delivered {
            let (who, at) = sent[id as usize];
            feedback.push_back((now + RTT, who, false));
            if now >= 20_000_000_000 {
                sojourns.push((now - at) / 1000);
            }
        }
    }
    sojourns
}

#[test]
fn delay_of_a_responsive_source_converges_to_the_target() {
    let p = defaults();
    let mut controlled = responsive(|fifo, now| fifo.dequeue(&p, now), usize::MAX);
    let mut bloated =
        responsive(|fifo, _| (Vec::new(), fifo.queue.pop_front().map(|p| (p.id, Marks::default()))), 1000);
    controlled.sort_unstable();
    bloated.sort_unstable();
    let quantile = |v: &[u64], percent| v[v.len() * percent / 100];
    // The target is 5 ms, a busy link sends 166 667 packets in 20 s, and a queue of 1000 packets is
    // 120 ms long.
    let (middle, high, sent) = (quantile(&controlled, 50), quantile(&controlled, 95), controlled.len());
    assert!((2500..7500).contains(&middle) && high < 10_000, "{middle} us, {high} us");
    assert!(sent > 165_000, "{sent} packets");
    assert!(quantile(&bloated, 50) > 50_000, "{} us without the law", quantile(&bloated, 50));
}

// --- against the RFC's structure ---

/// RFC 8289 sections 5.5 and 5.6 with ECN, written as a procedure that owns its queue, on times
/// that never wrap.
struct Procedure {
    queue: VecDeque<Packet>,
    backlog: i64,
    target: i64,
    interval: i64,
    ce_threshold: i64,
    ecn: bool,
    first_above: Option<i64>,
    drop_next: i64,
    count: i64,
    lastcount: i64,
    dropping: bool,
    inverse: i128,
}

impl Procedure {
    fn tick(t: Instant) -> i64 {
        i64::try_from(t.as_nanos() / 1024).unwrap()
    }

    fn take(&mut self, now: i64) -> (Option<Packet>, bool) {
        let Some(packet) = self.queue.pop_front() else {
            self.first_above = None;
            return (None, false);
        };
        self.backlog -= i64::from(packet.bytes);
        let mut ok_to_drop = false;
        if now - Self::tick(packet.arrived) < self.target || self.backlog <= i64::from(MTU) {
            self.first_above = None;
        } else if let Some(first) = self.first_above {
            ok_to_drop = now > first;
        } else {
            self.first_above = Some(now + self.interval);
        }
        (Some(packet), ok_to_drop)
    }

    fn newton(&mut self) {
        let x = self.inverse << 16;
        let square = (x * x) >> 32;
        let factor = (3 << 32) - i128::from(self.count) * square;
        assert!(factor > 0);
        self.inverse = ((factor / 4 * x) >> 31) >> 16;
    }

    fn control_law(&self, t: i64) -> i64 {
        t + i64::try_from(i128::from(self.interval) * self.inverse / 65_536).unwrap()
    }

    fn dequeue(&mut self, now: Instant) -> Outcome {
        let now = Self::tick(now);
        let mut dropped = Vec::new();
        let mut marks = Marks::default();
        let (mut packet, mut ok_to_drop) = self.take(now);
        if self.dropping {
            self.dropping = ok_to_drop;
            while self.dropping && now >= self.drop_next {
                self.count += 1;
                self.newton();
                let head = packet.take().unwrap();
                if self.ecn && head.ecn {
                    marks.ecn = true;
                    packet = Some(head);
                    self.drop_next = self.control_law(self.drop_next);
                    break;
                }
                dropped.push(head.id);
                (packet, ok_to_drop) = self.take(now);
                if ok_to_drop {
                    self.drop_next = self.control_law(self.drop_next);
                } else {
                    self.dropping = false;
                }
            }
        } else if ok_to_drop {
            let head = packet.take().unwrap();
            if self.ecn && head.ecn {
                marks.ecn = true;
                packet = Some(head);
            } else {
                dropped.push(head.id);
                (packet, _) = self.take(now);
            }
            self.dropping = true;
            let delta = self.count - self.lastcount;
            if delta > 1 && now - self.drop_next < 16 * self.interval {
                self.count = delta;
                self.newton();
            } else {
                self.count = 1;
                self.inverse = 65_535;
            }
            self.lastcount = self.count;
            self.drop_next = self.control_law(now);
        }
        if let Some(head) = packet {
            let sojourn = now - Self::tick(head.arrived);
            marks.ce_threshold = head.ecn && sojourn > self.ce_threshold;
        }
        (dropped, packet.map(|head| (head.id, marks)))
    }
}

#[derive(Clone, Debug)]
enum Op {
    Arrive(u32, bool),
    Wait(u64),
    Dequeue(u32),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (1..40_u32, any::<bool>()).prop_map(|(n, ecn)| Op::Arrive(n, ecn)),
        6 => prop_oneof![0..2_000_000_u64, 0..60_000_000_u64].prop_map(Op::Wait),
        8 => (1..8_u32).prop_map(Op::Dequeue),
        1 => (1..400_u32).prop_map(Op::Dequeue),
    ]
}

proptest! {
    #[test]
    fn agrees_with_the_procedure(
        origin in prop_oneof![Just(0), 0..(1_u64 << 43), (1_u64 << 42) - 2_000_000_000..(1_u64 << 42)],
        target_us in 0..20_000_u64,
        interval_ms in 1..120_u64,
        ecn in any::<bool>(),
        threshold_us in prop_oneof![Just(u64::MAX / 1000), 0..50_000_u64],
        ops in prop::collection::vec(op(), 1..600),
    ) {
        let (target, interval) = (Nanos::from_micros(target_us), Nanos::from_millis(interval_ms));
        let threshold = Nanos::from_micros(threshold_us);
        let p = CodelParams::new(target, interval, MTU).unwrap();
        let p = p.with_ecn(ecn).with_ce_threshold(Some(threshold));
        let (mut fifo, mut now) = (Fifo::default(), Instant(origin));
        // The two clocks agree about "recently" only where the origin is not mistaken for a drop.
        fifo.law.drop_next = Ticks::at(now);
        let mut procedure = Procedure {
            queue: VecDeque::new(),
            backlog: 0,
            target: i64::try_from(target.as_nanos() / 1024).unwrap(),
            interval: i64::try_from(interval.as_nanos() / 1024).unwrap(),
            ce_threshold: i64::try_from(threshold.as_nanos() / 1024).unwrap(),
            ecn,
            first_above: None,
            drop_next: Procedure::tick(now),
            count: 0,
            lastcount: 0,
            dropping: false,
            inverse: 65_535,
        };
        let mut id = 0;
        for op in ops {
            match op {
                Op::Arrive(n, ecn) => for _ in 0..n {
                    id += 1;
                    let packet = Packet { id, arrived: now, bytes: 40 + id * 7919 % 1460, ecn };
                    fifo.enqueue(packet);
                    procedure.backlog += i64::from(packet.bytes);
                    procedure.queue.push_back(packet);
                },
                Op::Wait(ns) => now += Nanos(ns),
                Op::Dequeue(n) => for _ in 0..n {
                    let expected = procedure.dequeue(now);
                    prop_assert_eq!(fifo.dequeue(&p, now), expected);
                    prop_assert_eq!(i64::from(fifo.law.count()), procedure.count);
                    now += Nanos(20_000);
                },
            }
        }
    }
}

/// A law that has seen one packet above target waits for the end of an interval: that is no rest,
/// although it drops nothing.
#[test]
fn a_law_that_waits_for_the_end_of_an_interval_is_not_at_rest() {
    let (p, mut law) = (defaults(), CodelState::default());
    assert!(law.at_rest());
    assert_eq!(law.on_dequeue(&p, &bad(), Ticks(1)), SENT);
    assert!(!law.at_rest() && !law.dropping());
    // A packet below target, or the end of the queue, forgets it.
    let mut emptied = law;
    emptied.on_empty();
    assert!(emptied.at_rest());
    assert_eq!(law.on_dequeue(&p, &Head::new(Ticks(0), 100_000), Ticks(2)), SENT);
    assert!(law.at_rest());
}

/// The drop that begins dropping took the last packet: Linux shows the queue as dropping until it
/// is asked again, and the next packet, which begins a delay of its own, is delivered.
#[test]
fn a_queue_that_its_first_drop_empties_is_dropping_until_the_next_packet() {
    let (p, mut law) = (defaults(), CodelState::default());
    assert_eq!(law.on_dequeue(&p, &bad(), Ticks(1)), SENT);
    let late = Ticks(1).after(Ticks::span(Nanos::from_millis(200)));
    assert_eq!(law.on_dequeue(&p, &bad(), late), Decision::Drop);
    law.on_empty();
    assert!(law.dropping() && !law.at_rest());
    assert_eq!(law.on_dequeue(&p, &bad(), late.after(Ticks(1))), SENT);
    assert!(!law.dropping());

    // A later drop that empties the queue ends dropping.
    let mut law = CodelState::default();
    assert_eq!(law.on_dequeue(&p, &bad(), Ticks(1)), SENT);
    assert_eq!(law.on_dequeue(&p, &bad(), late), Decision::Drop);
    assert_eq!(law.on_dequeue(&p, &bad(), late), SENT);
    assert_eq!(law.on_dequeue(&p, &bad(), late.after(Ticks::span(Nanos::from_millis(200)))), Decision::Drop);
    law.on_empty();
    assert!(!law.dropping());
}
