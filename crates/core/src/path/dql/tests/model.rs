//! The limit against an independent model.

use super::*;

/// The same rule told differently: positions on a line of `i64` that never wraps, the slack samples
/// of the hold time as a list, and sets instead of differences.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) posted: i64,
    pub(super) done: i64,
    /// Last position that a post may begin at.
    pub(super) fence: i64,
    pub(super) limit: i64,
    pub(super) bounds: (i64, i64),
    pub(super) hold: u64,
    pub(super) last: i64,
    pub(super) before: (i64, i64, i64), // posted, beyond the limit, last: at the previous round
    pub(super) slack: Vec<i64>,
    pub(super) since: u64,
    /// True for the 2011 comparison: the previous round counts as done only when more than all of
    /// it is done.
    pub(super) completed_means_more: bool,
}

impl Model {
    pub(super) fn new(config: &DqlConfig) -> Self {
        let min = i64::from(config.limit_min);
        Self {
            posted: 0,
            done: 0,
            fence: if config.strict_linux { 0 } else { min },
            limit: min,
            bounds: (min, config.limit_max.into()),
            hold: config.hold_time.as_nanos(),
            last: 0,
            before: (0, 0, 0),
            slack: Vec::new(),
            since: 0,
            completed_means_more: false,
        }
    }

    pub(super) fn post(&mut self, n: u32) {
        self.last = n.into();
        self.posted += self.last;
    }

    pub(super) fn complete(&mut self, n: u32, now: u64) -> u32 {
        let (n, (posted_before, beyond_before, last_before)) = (i64::from(n), self.before);
        let mut beyond = (self.posted - (self.done + self.limit)).max(0);
        let reached = self.done + n;
        let drained = reached == self.posted;
        let caught_up =
            if self.completed_means_more { reached > posted_before } else { reached >= posted_before };
        let mut limit = self.limit;
        if drained && beyond > 0 || caught_up && beyond_before > 0 {
            limit += (reached - posted_before).max(0) + beyond_before;
            self.slack.clear();
            self.since = now;
        } else if !(drained || caught_up) && posted_before > self.done {
            let spare = limit + beyond_before - 2 * n;
            let tail = if beyond_before > 0 { last_before - beyond_before } else { 0 };
            self.slack.push([0, spare, tail].into_iter().max().unwrap());
            if now > self.since + self.hold {
                limit = (limit - self.slack.iter().min().unwrap()).max(0);
                self.slack.clear();
                self.since = now;
            }
        }
        limit = limit.min(self.bounds.1).max(self.bounds.0);
        if limit != self.limit {
            beyond = 0;
        }
        self.limit = limit;
        self.done = reached;
        self.fence = reached + limit;
        self.before = (self.posted, beyond, self.last);
        u32::try_from(limit).unwrap()
    }
}

#[derive(Clone, Debug)]
enum Op {
    Post(u32),
    /// Completes this many 256ths of the amount in flight, at least one unit if there is any.
    Complete(u32),
    Wait(u64),
    Bounds(u32, u32),
    Limit(u32),
    Reset,
}

fn object() -> impl Strategy<Value = u32> {
    prop_oneof![6 => Just(MTU), 2 => 1..200_000_u32, 2 => Just(TSO), 1 => Just(0), 1 => 0..=OBJECT_MAX]
}

fn op() -> impl Strategy<Value = Op> {
    let ns = prop_oneof![Just(250_000), 0..5_000_000_u64, 0..2_000_000_000_u64];
    let limit = || prop_oneof![0..300_000_u32, 0..=LIMIT_MAX];
    prop_oneof![
        40 => object().prop_map(Op::Post),
        20 => (1..=256_u32).prop_map(Op::Complete),
        10 => Just(Op::Complete(256)),
        20 => ns.prop_map(Op::Wait),
        1 => (limit(), limit()).prop_map(|(a, b)| Op::Bounds(a.min(b), a.max(b))),
        1 => limit().prop_map(Op::Limit),
        1 => Just(Op::Reset),
    ]
}

fn share(inflight: u32, parts: u32) -> u32 {
    u32::try_from(u64::from(inflight) * u64::from(parts) / 256).unwrap().max(1).min(inflight)
}

proptest! {
    /// Any order of operations, from totals anywhere, those about to wrap included. The limit, the
    /// threshold and the amount in flight agree with the model at every step; `A = L + C` after
    /// each completion; and a poster that respects `available` stays within the limit plus one
    /// object.
    #[test]
    fn agrees_with_the_model_and_keeps_its_bounds(
        start in prop_oneof![Just(0), any::<u32>(), u32::MAX - 400_000..=u32::MAX],
        strict_linux in any::<bool>(),
        respects in any::<bool>(),
        ops in prop::collection::vec(op(), 1..400),
    ) {
        let config = DqlConfig { strict_linux, ..DqlConfig::default() };
        let mut dql = starting_at(start, &config);
        let mut model = Model::new(&config);
        let mut now = 0;
        let mut force = config.limit_min; // the limit that the threshold was computed from
        for op in ops {
            match op {
                Op::Post(n) => {
                    // The amount in flight stays in the range that signed comparison covers, as
                    // with any poster that asks `available`.
                    let room = dql.inflight() <= LIMIT_MAX;
                    if if respects { dql.available() >= 0 } else { room } {
                        dql.queued(n, Instant(now)).unwrap();
                        model.post(n);
                        if respects && !strict_linux {
                            prop_assert!(dql.inflight() <= force + n);
                        }
                    }
                }
                Op::Complete(parts) => {
                    let n = share(dql.inflight(), parts);
                    dql.completed(n, Instant(now)).unwrap();
                    if n > 0 {
                        model.complete(n, now);
                        force = dql.limit();
                        let a = force.wrapping_add(dql.completed);
                        prop_assert_eq!(dql.available(), a.wrapping_sub(dql.queued).cast_signed());
                    }
                }
                Op::Wait(ns) => now += ns,
                Op::Bounds(min, max) => {
                    dql.set_bounds(min, max).unwrap();
                    model.bounds = (min.into(), max.into());
                }
                Op::Limit(limit) => {
                    dql.set_limit(limit).unwrap();
                    model.limit = limit.into();
                }
                Op::Reset => {
                    if strict_linux {
                        continue; // the stale threshold needs no second description
                    }
                    dql.reset(Instant(now));
                    let (bounds, min) = (model.bounds, dql.limit_min());
                    model = Model { bounds, since: now, ..Model::new(&config) };
                    (model.limit, model.fence) = (min.into(), min.into());
                    force = min;
                    prop_assert_eq!(dql.available(), min.cast_signed());
                }
            }
            prop_assert_eq!(i64::from(dql.limit()), model.limit);
            prop_assert_eq!(i64::from(dql.inflight()), model.posted - model.done);
            prop_assert_eq!(i64::from(dql.available()), model.fence - model.posted);
        }
    }
}
