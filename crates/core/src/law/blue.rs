//! Stochastic fair BLUE on numbers: the chance of a mark for each flow, kept in bins that several
//! flows share, in memory that does not grow with the number of flows (W. Feng, D. Kandlur, D. Saha
//! and K. Shin, "Stochastic Fair Blue: A Queue Management Algorithm for Enforcing Fairness",
//! INFOCOM 2001; here: the paper; tc-sfb(8)).
//!
//! A flow has one bin on each of eight levels, by its hash. A bin counts the waiting packets of its
//! flows. When a packet arrives, each of its bins raises its probability if it is full, and lowers
//! it if it is empty; the flow's probability is the least of them. A flow that does not answer to
//! marks fills all its bins, their probabilities reach one, and its packets pass by tokens alone
//! (the paper, section 4.3). A flow that shares some bins with it has others that are its own.
//!
//! There are two sets of bins with hashes of their own, which take turns, so that no flow shares
//! all its bins with an unresponsive one for ever. The set that comes next learns the unresponsive
//! flows for some time before its turn (section 4.4).
//!
//! - I1: a packet passes only if one of its bins holds fewer than `max` packets.
//! - I2: packets of flows with probability one pass at most at `penalty_rate`, with bursts of
//!   `penalty_burst`, in whole ticks.
//! - I3: a bin's count is the number of its packets that were taken and not released, up to the
//!   65535 that it holds.
//! - As in the reference, a set whose turn has ended keeps its probabilities until its next turn,
//!   and no tokens are saved up while there are any. The packet at which the sets change is counted
//!   in the set whose turn ends, by the hashes of its next turn.
//!
//! O(1) per packet: 8 bins, or 16 for an unresponsive flow before a change of sets.

/// Levels of bins.
const LEVELS: usize = 8;
/// Bins of a level: four bits of the hash select one.
const BINS: usize = 16;
/// Probability one.
pub const CERTAIN: u16 = u16::MAX;
/// Ticks of idle time that make tokens at most.
const TOKEN_TICKS: u64 = 10_000;
/// Ticks of a second, of which the rate of tokens is one.
const TICKS_PER_SECOND: u64 = 1_000;

/// The parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlueParams {
    /// Packets in a bin at which no more are taken, if all bins of a flow have as many.
    pub max: u32,
    /// Packets in a bin from which on its probability rises.
    pub target: u32,
    /// Step up of a probability, parts of 65535.
    pub increment: u16,
    /// Step down of a probability, parts of 65535.
    pub decrement: u16,
    /// Packets per second of all flows with probability one; 0 for none.
    pub penalty_rate: u32,
    /// Largest number of tokens; 0 for none.
    pub penalty_burst: u32,
    /// Ticks between two changes of sets; 0 for no change.
    pub rehash: u64,
    /// Ticks before a change during which the other set learns; 0 for none.
    pub warmup: u64,
}

/// Decision of the law about a packet that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum BlueAction {
    /// It may wait.
    Pass,
    /// It is to be marked; dropped if it cannot be.
    Mark,
    /// It is dropped: the flow's probability is above one half, so that it does not answer to
    /// marks, or the queue is badly congested.
    Drop,
    /// All its bins are at their maximum.
    Full,
    /// Its flow has probability one, and there is no token.
    Penalty,
}

/// The hashes of a packet in both sets; 0 if a set does not count it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted([u32; 2]);

#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    queued: u16,
    probability: u16,
}

#[derive(Clone, Debug)]
struct Set {
    seed: u64,
    bins: [[Bin; BINS]; LEVELS],
}

impl Set {
    const fn new(seed: u64) -> Self {
        Self { seed, bins: [[Bin { queued: 0, probability: 0 }; BINS]; LEVELS] }
    }
    /// Returns the hash of a flow in this set, never 0: one round of SplitMix64's finaliser.
    fn hash(&self, flow: u64) -> u32 {
        let z = (flow ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) as u32).max(1) // the lower half
    }
    /// Calls `f` on the bin of each level.
    fn each(&mut self, hash: u32, mut f: impl FnMut(&mut Bin)) {
        for (level, bins) in self.bins.iter_mut().enumerate() {
            f(&mut bins[(hash >> (4 * level)) as usize & (BINS - 1)]);
        }
    }
    /// Moves the probabilities of a flow's bins. Returns the least count and the least probability.
    fn learn(&mut self, hash: u32, p: &BlueParams) -> (u32, u16) {
        let mut least = (u32::MAX, CERTAIN);
        self.each(hash, |bin| {
            let queued = u32::from(bin.queued);
            if queued == 0 {
                bin.probability = bin.probability.saturating_sub(p.decrement);
            } else if queued >= p.target {
                bin.probability = bin.probability.saturating_add(p.increment);
            }
            least = (least.0.min(queued), least.1.min(bin.probability));
        });
        least
    }
}

/// The bins and the tokens. Two kilobytes.
#[derive(Clone, Debug)]
pub struct Blue {
    params: BlueParams,
    sets: [Set; 2],
    /// The set whose turn it is.
    live: usize,
    /// True while the other set learns.
    learns: bool,
    changed: u64,
    tokens: u32,
    token_time: u64,
}

/// Counts and probabilities of the present bins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlueState {
    /// Packets in the fullest bin.
    pub max_queued: u16,
    /// The highest probability, parts of 65535.
    pub max: u16,
    /// The mean of the probabilities, rounded down.
    pub mean: u16,
}

impl Blue {
    /// Returns empty bins at a tick; the seeds make the hashes of the two sets.
    pub fn new(params: BlueParams, seeds: [u64; 2], now: u64) -> Self {
        let tokens = params.penalty_burst;
        let sets = seeds.map(Set::new);
        Self { params, sets, live: 0, learns: false, changed: now, tokens, token_time: now }
    }
    /// Returns the parameters.
    pub const fn params(&self) -> BlueParams {
        self.params
    }
    /// Tells that the time runs from `now` on.
    pub const fn start(&mut self, now: u64) {
        (self.changed, self.token_time) = (now, now);
    }

    /// Returns the decision about a packet of a flow at a tick, and where it is counted if it is
    /// taken. `seed` is asked for the hashes of a set whose turn ends, `draw` for a random number
    /// of 16 bits.
    pub fn arrive(&mut self, flow: u64, now: u64, mut draw: impl FnMut() -> u64) -> (BlueAction, Counted) {
        let at = self.live;
        self.take_turns(now, &mut draw);
        let (p, mut counted) = (self.params, Counted::default());
        let set = &mut self.sets[at];
        let hash = set.hash(flow);
        counted.0[at] = hash;
        let (queued, probability) = set.learn(hash, &p);
        if queued >= p.max {
            return (BlueAction::Full, counted);
        }
        if probability == CERTAIN {
            if self.learns {
                let other = 1 - at;
                let set = &mut self.sets[other];
                counted.0[other] = set.hash(flow);
                let _ = set.learn(counted.0[other], &p);
            }
            let action = if self.token(now) { BlueAction::Pass } else { BlueAction::Penalty };
            return (action, counted);
        }
        let drawn = draw() as u16; // the lower bits of a random number
        // Beyond one half, the chance of a drop in place of a mark grows from none to all.
        let beyond = probability.saturating_sub(CERTAIN / 2);
        let action = match drawn < probability {
            false => BlueAction::Pass,
            true if u32::from(drawn) < 2 * u32::from(beyond) => BlueAction::Drop,
            true => BlueAction::Mark,
        };
        (action, counted)
    }
    /// Counts a packet that was taken.
    pub fn take(&mut self, counted: Counted) {
        for (set, hash) in self.sets.iter_mut().zip(counted.0).filter(|(_, hash)| *hash != 0) {
            set.each(hash, |bin| bin.queued = bin.queued.saturating_add(1));
        }
    }
    /// Takes a packet off the counts.
    pub fn release(&mut self, counted: Counted) {
        for (set, hash) in self.sets.iter_mut().zip(counted.0).filter(|(_, hash)| *hash != 0) {
            set.each(hash, |bin| bin.queued = bin.queued.saturating_sub(1));
        }
    }
    /// Forgets all counts: no packet waits.
    pub fn release_all(&mut self) {
        self.sets.iter_mut().flat_map(|set| &mut set.bins).flatten().for_each(|bin| bin.queued = 0);
    }
    /// Returns the state of the present bins.
    pub fn state(&self) -> BlueState {
        let bins = || self.sets[self.live].bins.iter().flatten();
        let sum: u32 = bins().map(|bin| u32::from(bin.probability)).sum();
        BlueState {
            max_queued: bins().map(|bin| bin.queued).max().unwrap_or(0),
            max: bins().map(|bin| bin.probability).max().unwrap_or(0),
            // A mean is at most the largest.
            mean: (sum / (LEVELS * BINS) as u32) as u16,
        }
    }

    /// Changes the sets, or lets the other one learn, when it is time.
    fn take_turns(&mut self, now: u64, draw: &mut impl FnMut() -> u64) {
        let p = self.params;
        if p.rehash == 0 {
            return;
        }
        let due = self.changed.saturating_add(p.rehash);
        if now > due {
            self.sets[self.live].seed = draw();
            self.live = 1 - self.live;
            (self.learns, self.changed) = (false, now);
        } else if p.warmup > 0 && now > due.saturating_sub(p.warmup) {
            self.learns = true;
        }
    }
    /// Takes a token; false if there is none.
    fn token(&mut self, now: u64) -> bool {
        let p = self.params;
        if p.penalty_rate == 0 || p.penalty_burst == 0 {
            return false;
        }
        if self.tokens == 0 {
            let age = now.saturating_sub(self.token_time).min(TOKEN_TICKS);
            let made = age * u64::from(p.penalty_rate) / TICKS_PER_SECOND;
            self.tokens = u32::try_from(made).unwrap_or(u32::MAX).min(p.penalty_burst);
            self.token_time = now;
        }
        let some = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        some
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMS: BlueParams = BlueParams {
        max: 5,
        target: 2,
        increment: CERTAIN,
        decrement: CERTAIN / 3,
        penalty_rate: 100,
        penalty_burst: 2,
        rehash: 0,
        warmup: 0,
    };

    fn blue(params: BlueParams) -> Blue {
        Blue::new(params, [1, 2], 0)
    }
    /// Offers packets of a flow at a tick, each of which is taken if it passes; a drawn number of 0
    /// is below any probability above 0.
    fn offer(law: &mut Blue, flow: u64, n: usize, now: u64) -> alloc::vec::Vec<BlueAction> {
        let mut one = || {
            let (action, counted) = law.arrive(flow, now, || 0);
            if action == BlueAction::Pass {
                law.take(counted);
            }
            action
        };
        (0..n).map(|_| one()).collect()
    }

    #[test]
    fn bins_fill_and_the_flow_is_under_penalty() {
        use BlueAction::{Full, Pass, Penalty};
        let mut law = blue(PARAMS);
        // Two packets fill the bins up to the target; the next two spend the tokens.
        assert_eq!(offer(&mut law, 7, 5, 0), [Pass, Pass, Pass, Pass, Penalty]);
        assert_eq!(law.state(), BlueState { max_queued: 4, max: CERTAIN, mean: CERTAIN / 16 });
        // A token comes every 10 ticks, counted from the last time at which there were none.
        assert_eq!(offer(&mut law, 7, 1, 9), [Penalty]);
        assert_eq!(offer(&mut law, 7, 1, 18), [Penalty], "the tick of 9 began a new count");
        assert_eq!(offer(&mut law, 7, 2, 28), [Pass, Full]);
        // Another flow has a bin of its own on some level.
        assert_eq!(offer(&mut law, 8, 1, 28), [Pass]);
    }

    #[test]
    fn a_bin_without_packets_forgets_by_steps() {
        let mut law = blue(BlueParams { penalty_burst: 0, ..PARAMS });
        let counted: alloc::vec::Vec<_> = (0..2).map(|_| law.arrive(7, 0, || 0).1).collect();
        counted.iter().for_each(|c| law.take(*c));
        assert_eq!(law.arrive(7, 0, || 0).0, BlueAction::Penalty);
        counted.iter().for_each(|c| law.release(*c));
        // Two thirds, one third, nothing.
        assert_eq!(law.arrive(7, 0, || 0).0, BlueAction::Drop);
        assert_eq!(law.arrive(7, 0, || 0).0, BlueAction::Mark);
        assert_eq!(law.arrive(7, 0, || 0).0, BlueAction::Pass);
        assert_eq!(law.arrive(7, 0, || u64::MAX).0, BlueAction::Pass);
    }

    #[test]
    fn a_drawn_number_at_the_probability_passes() {
        let mut law = blue(BlueParams { increment: 100, target: 1, max: 99, ..PARAMS });
        let (_, counted) = law.arrive(7, 0, || 0);
        law.take(counted);
        assert_eq!(law.arrive(7, 0, || 100).0, BlueAction::Pass);
        assert_eq!(law.arrive(7, 0, || 199).0, BlueAction::Mark);
    }

    /// At three quarters, numbers below one half are drops, and those up to the probability marks.
    #[test]
    fn beyond_one_half_some_marks_are_drops() {
        let mut law = blue(BlueParams { increment: CERTAIN / 4, decrement: 0, target: 1, max: 99, ..PARAMS });
        let (_, counted) = law.arrive(7, 0, || 0);
        law.take(counted);
        assert_eq!(law.arrive(7, 0, || 0).0, BlueAction::Mark, "a quarter");
        assert_eq!(law.arrive(7, 0, || 0).0, BlueAction::Mark, "a half, less a part of 65535");
        let at = |drawn| law.clone().arrive(7, 0, || drawn).0;
        let half = u64::from(CERTAIN / 2);
        assert_eq!(at(half - 10), BlueAction::Drop);
        assert_eq!(at(half + 10), BlueAction::Mark);
        assert_eq!(at(3 * half / 2 + 10), BlueAction::Pass);
    }

    #[test]
    fn the_other_set_learns_before_its_turn_and_packets_leave_both() {
        let mut law = blue(BlueParams { rehash: 100, warmup: 40, penalty_burst: 9, ..PARAMS });
        assert_eq!(offer(&mut law, 7, 3, 60), [BlueAction::Pass; 3]);
        assert_eq!(
            law.sets[1].bins.iter().flatten().map(|b| b.queued).max(),
            Some(0),
            "it does not learn yet"
        );
        let (action, counted) = law.arrive(7, 61, || 0);
        assert_eq!((action, counted.0.contains(&0)), (BlueAction::Pass, false));
        law.take(counted);
        assert_eq!((law.state().max_queued, law.live), (4, 0));
        assert_eq!((law.arrive(8, 100, || 0).0, law.live), (BlueAction::Pass, 0), "not before it is over");
        assert_eq!((law.arrive(8, 101, || 9).0, law.live), (BlueAction::Pass, 1));
        assert_eq!((law.sets[0].seed, law.changed, law.learns), (9, 101, false));
        assert_eq!(law.state().max_queued, 1);
        // The packet at which they changed is in the set whose turn ended, by its new hashes.
        let (_, last) = law.clone().arrive(8, 202, || 5);
        assert_eq!(last.0, [0, Set::new(5).hash(8)]);
        assert_eq!(law.clone().arrive(8, 201, || 5).1.0, [0, Set::new(2).hash(8)]);
        law.release(counted);
        assert_eq!(law.state().max_queued, 0);
        law.release_all();
        assert_eq!(law.sets[0].bins.iter().flatten().map(|b| b.queued).max(), Some(0));
    }

    /// The emptiest bin of a flow decides, whichever level it is on.
    #[test]
    fn a_flow_that_shares_a_full_bin_passes() {
        let filled = || {
            let mut law = blue(BlueParams { target: 99, ..PARAMS });
            assert_eq!(offer(&mut law, 7, 6, 0).last(), Some(&BlueAction::Full));
            law
        };
        let set = Set::new(1);
        for level in 0..LEVELS {
            let bin = |flow| (set.hash(flow) >> (4 * level)) as usize & (BINS - 1);
            let flow = (8..10_000).find(|flow| bin(*flow) == bin(7)).unwrap();
            assert_eq!(offer(&mut filled(), flow, 1, 0), [BlueAction::Pass], "level {level}");
        }
    }

    #[test]
    fn the_other_set_knows_unresponsive_flows_at_its_turn() {
        let params = BlueParams { rehash: 100, warmup: 40, penalty_burst: 99, max: 99, ..PARAMS };
        let mut law = blue(params);
        let highest = |law: &Blue, at: usize| law.sets[at].bins.iter().flatten().map(|b| b.probability).max();
        offer(&mut law, 7, 9, 60);
        assert_eq!((highest(&law, 0), highest(&law, 1)), (Some(CERTAIN), Some(0)));
        offer(&mut law, 7, 3, 61);
        assert_eq!(highest(&law, 1), Some(CERTAIN));
    }
}
