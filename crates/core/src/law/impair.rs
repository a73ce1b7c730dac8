//! Impairments of a bad link, on numbers: correlated chances, two models of loss in bursts, times
//! drawn from a distribution, and the time that a packet takes in cells (tc-netem(8)).

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::base::rng::Rng;
use crate::base::units::Rate;

/// Draws a number for a decision: 32 bits.
fn draw(rng: &mut Rng) -> u32 {
    (rng.next_u64() >> 32) as u32
}

/// A sequence of random numbers, each a mixture of the last one and a fresh one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Correlated {
    /// Weight of the last number, minus one, in units of 2^-32; 0 for no correlation.
    rho: u32,
    last: Option<u32>,
}

impl Correlated {
    /// Returns a sequence with this correlation, in units of 1/(2^32 - 1).
    pub const fn new(rho: u32) -> Self {
        Self { rho, last: None }
    }

    /// Forgets the last number.
    pub const fn forget(&mut self) {
        self.last = None;
    }

    /// Returns the next number. The mixture is a moving average: with a high correlation the
    /// numbers stay near the middle, and small chances occur more seldom than configured
    /// (tc-netem(8) warns of it).
    #[inline]
    pub fn next(&mut self, rng: &mut Rng) -> u32 {
        let fresh = draw(rng);
        if self.rho == 0 {
            return fresh;
        }
        let last = self.last.unwrap_or_else(|| draw(rng));
        let rho = u64::from(self.rho) + 1;
        // The weights add up to 2^32 and the numbers are below it, so the sum is below 2^64.
        let mixed = (u64::from(fresh) * ((1 << 32) - rho) + u64::from(last) * rho) >> 32;
        self.last = Some(mixed as u32);
        mixed as u32
    }
}

/// A chance in units of 1/(2^32 - 1), decided by correlated numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dice {
    chance: u32,
    numbers: Correlated,
}

impl Dice {
    /// Returns a decision with this chance and correlation, both in units of 1/(2^32 - 1).
    pub const fn new(chance: u32, rho: u32) -> Self {
        Self { chance, numbers: Correlated::new(rho) }
    }
    /// True if the chance is zero.
    pub(crate) const fn is_never(&self) -> bool {
        self.chance == 0
    }
    /// Forgets the last number.
    pub const fn forget(&mut self) {
        self.numbers.forget();
    }
    /// Draws a number and returns true if the event happens. A chance of zero draws nothing.
    #[inline]
    pub(crate) fn roll(&mut self, rng: &mut Rng) -> bool {
        self.chance > 0 && self.chance >= self.numbers.next(rng)
    }
}

/// A model of loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LossModel {
    /// Independent or correlated losses.
    Random(Dice),
    /// A chain of four states: received, received within a burst of losses, lost in a burst, lost
    /// alone (Salsano, Ludovici, Ordine, "Definition of a general and intuitive loss model for
    /// packet networks").
    Markov {
        /// Chance of the step from received to lost in a burst.
        p13: u32,
        /// Chance of the step back.
        p31: u32,
        /// Chance of the step from lost in a burst to received within it.
        p32: u32,
        /// Chance of the step back.
        p23: u32,
        /// Chance of the step from received to lost alone; the next packet takes the way back.
        p14: u32,
        /// The present state.
        state: MarkovState,
    },
    /// A link that is good or bad, and loses packets with a chance in each state (Gilbert 1960,
    /// Elliott 1963).
    GilbertElliott {
        /// Chance of the step from good to bad.
        p: u32,
        /// Chance of the step from bad to good.
        r: u32,
        /// Chance of a loss in the bad state.
        bad: u32,
        /// Chance of a loss in the good state.
        good: u32,
        /// True in the bad state.
        is_bad: bool,
    },
}

/// A state of the chain of four.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MarkovState {
    /// Packets are received.
    #[default]
    Gap,
    /// Packets are received, within a burst of losses.
    Burst,
    /// Packets are lost, in a burst.
    LostInBurst,
    /// One packet was lost by itself.
    LostAlone,
}

impl LossModel {
    /// Returns to the first, good state.
    pub fn forget(&mut self) {
        match self {
            Self::Random(dice) => dice.forget(),
            Self::Markov { state, .. } => *state = MarkovState::default(),
            Self::GilbertElliott { is_bad, .. } => *is_bad = false,
        }
    }

    /// Moves the model by one packet and returns true if that packet is lost.
    #[inline]
    pub fn loses(&mut self, rng: &mut Rng) -> bool {
        match self {
            Self::Random(dice) => dice.roll(rng),
            Self::Markov { p13, p31, p32, p23, p14, state } => {
                *state = markov(*state, [*p13, *p31, *p32, *p23, *p14], draw(rng));
                matches!(state, MarkovState::LostInBurst | MarkovState::LostAlone)
            }
            Self::GilbertElliott { p, r, bad, good, is_bad } => {
                // The state before the step decides about the packet.
                let (turn, loss) = if *is_bad { (*r, *bad) } else { (*p, *good) };
                *is_bad ^= draw(rng) < turn;
                loss == u32::MAX || draw(rng) < loss
            }
        }
    }
}

fn markov(state: MarkovState, [p13, p31, p32, p23, p14]: [u32; 5], drawn: u32) -> MarkovState {
    // Two chances share one draw: a number below the first takes the first way, a number between
    // the first and the sum of both takes the second.
    let of_two =
        |first: u32, second: u32| (drawn < first, u64::from(drawn) < u64::from(first) + u64::from(second));
    match state {
        MarkovState::Gap => match of_two(p14, p13) {
            (true, _) => MarkovState::LostAlone,
            (_, true) => MarkovState::LostInBurst,
            _ => MarkovState::Gap,
        },
        MarkovState::Burst if drawn < p23 => MarkovState::LostInBurst,
        MarkovState::Burst => MarkovState::Burst,
        MarkovState::LostInBurst => match of_two(p32, p31) {
            (true, _) => MarkovState::Burst,
            (_, true) => MarkovState::Gap,
            _ => MarkovState::LostInBurst,
        },
        MarkovState::LostAlone => MarkovState::Gap,
    }
}

/// Number of entries of the tables that this module computes.
pub const TABLE: usize = 4096;

/// One standard deviation in a table.
const SIGMA: i64 = 8192;

/// Largest number of entries of a table from the caller.
pub(crate) const TABLE_MAX: usize = 16_384;

/// Distribution of times around their mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// All times within the deviation are equally likely.
    Uniform,
    /// The inverse of the distribution function. Entry i of n is the deviation below which a share
    /// of i/n lies; 8192 is one standard deviation.
    Table(Arc<[i16]>),
}

impl Distribution {
    /// Returns a time in ns around `middle`. `deviation`, at most 2^31 ns, is the half width of the
    /// uniform distribution and the standard deviation of a table.
    #[inline]
    pub fn time(&self, middle: i64, deviation: i64, numbers: &mut Correlated, rng: &mut Rng) -> i64 {
        if deviation == 0 {
            return middle;
        }
        let drawn = i64::from(numbers.next(rng));
        match self {
            Self::Uniform => middle.saturating_add(drawn % (2 * deviation) - deviation),
            Self::Table(table) => {
                // A table has 1 to 16 384 entries.
                let entry = table.get(drawn as usize % table.len().max(1)).copied().unwrap_or(0);
                let product = i128::from(deviation) * i128::from(entry);
                let rounded = product + product.signum() * i128::from(SIGMA / 2);
                middle.saturating_add((rounded / i128::from(SIGMA)) as i64)
            }
        }
    }
}

/// Returns the table of the standard normal distribution.
pub fn normal() -> Vec<i16> {
    // One half of the bell, in steps of 1/8192 of a standard deviation. The density in the middle
    // of a step is the density of the last step times a ratio, exp(-h x), and the ratio shrinks by
    // exp(-h^2) with each step. Units are 2^-62.
    const ONE: u128 = 1 << 62;
    // exp(-2^-26) = 1 - 2^-26 + 2^-53 - ...
    const SHRINK: u128 = ONE - (ONE >> 26) + (ONE >> 53);
    // h / sqrt(2 pi), h = 2^-13: 0.398 942 280 401 432 677 94.
    const DENSITY: u128 = (398_942_280_401_432_678 * ONE / 1_000_000_000_000_000_000) >> 13;
    // The density in the middle of the first step, at h/2: exp(-h^2 / 8) = 1 - 2^-29.
    let (mut density, mut ratio) = (DENSITY - (DENSITY >> 29), SHRINK);
    let (mut below, mut x) = (0u128, 0i16);
    let half = TABLE / 2;
    let mut upper = Vec::with_capacity(half);
    for entry in 0..half {
        let share = entry as u128 * ONE / TABLE as u128;
        // Bound: 2^15 turns for the whole table, which is made once.
        while x < i16::MAX && below + density / 2 < share {
            below += density;
            density = (density * ratio) >> 62;
            ratio = (ratio * SHRINK) >> 62;
            x += 1;
        }
        upper.push(x);
    }
    // No deviation lies below the first entry.
    let lower = core::iter::once(i16::MIN).chain(upper[1..].iter().rev().map(|x| -x));
    lower.chain(upper.iter().copied()).collect()
}

/// Returns the table of a Pareto distribution with exponent 3. Its mean is entry 0, and 4/3 of its
/// deviation count as one standard deviation.
pub fn pareto() -> Vec<i16> {
    // ((1 - i/n)^(-1/3) - 3/2) 4/3 8192: twice the first part is a cube root of 2^60 / (27 m), m =
    // n - i.
    let entry = |m: u128| {
        let twice = cube_root((1u128 << 60) / (27 * m));
        i16::try_from(twice.div_ceil(2) as i64 - 2 * SIGMA).unwrap_or(i16::MAX)
    };
    (1..=TABLE as u128).rev().map(entry).collect()
}

/// Returns the largest whole number whose cube is at most `n`.
fn cube_root(n: u128) -> u128 {
    let mut root = 0u128;
    for bit in (0..42).rev() {
        let tried = root | 1 << bit;
        if tried * tried * tried <= n {
            root = tried;
        }
    }
    root
}

/// Returns the table of one quarter normal and three quarters Pareto.
pub(crate) fn pareto_normal() -> Vec<i16> {
    let mix = |(normal, pareto): (i16, i16)| {
        let mixed = (i32::from(normal) + 3 * i32::from(pareto) + 2).div_euclid(4);
        // The average of 16-bit numbers fits 16 bits.
        mixed as i16
    };
    normal().into_iter().zip(pareto()).map(mix).collect()
}

/// Transmission time of packets on a link, in cells if the link has any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CellRate {
    /// The rate; above 0.
    pub rate: Rate,
    /// Bytes added to each packet; a negative number takes bytes off.
    pub overhead: i32,
    /// Bytes of a packet that one cell carries; 0 for no cells.
    pub cell: u32,
    /// Bytes added to each cell; a negative number takes bytes off.
    pub cell_overhead: i32,
}

impl CellRate {
    /// Returns the nanoseconds for a packet of `len` bytes, rounded down.
    #[inline]
    pub fn time(&self, len: u32) -> i64 {
        let mut len = (i64::from(len) + i64::from(self.overhead)).max(0);
        if self.cell > 0 {
            let cell = i64::from(self.cell);
            let cells = (len + cell - 1) / cell;
            len = cells.saturating_mul((cell + i64::from(self.cell_overhead)).max(0));
        }
        let ns = i128::from(len) * 1_000_000_000 / i128::from(self.rate.0.max(1));
        i64::try_from(ns).unwrap_or(i64::MAX)
    }
}

/// Wraps the entries of a table, which all users then share.
pub fn shared(entries: Vec<i16>) -> Distribution {
    Distribution::Table(Box::<[i16]>::from(entries).into())
}

#[cfg(test)]
mod tests;
