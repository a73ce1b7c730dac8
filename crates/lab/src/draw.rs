//! Random draws from the distributions of traffic, from the seeded generator, and the sizes of
//! short flows.
//!
//! **Determinism.** A platform's `ln` and `exp` may differ in their last bits. The functions here
//! consist of additions, multiplications, divisions and square roots alone, which IEEE 754 defines
//! to the last bit.

use std::f64::consts::{LN_2, SQRT_2};

use txweir_core::Nanos;
use txweir_core::base::rng::Rng;

/// Returns the natural logarithm of a number above zero that is not subnormal, to about 15 digits.
pub fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7ff) as i32 - 1023;
    let mut m = f64::from_bits(bits & 0x000f_ffff_ffff_ffff | 1023 << 52);
    if m > SQRT_2 {
        m /= 2.0;
        exponent += 1;
    }
    // ln m = 2 artanh s, where |s| is at most 0.172: eleven terms.
    let s = (m - 1.0) / (m + 1.0);
    let (mut power, mut sum) = (s, 0.0);
    for k in 0..11 {
        sum += power / f64::from(2 * k + 1);
        power *= s * s;
    }
    f64::from(exponent) * LN_2 + 2.0 * sum
}

/// Returns e to the power of `x`; zero below -700, and never above e^700.
pub fn exp(x: f64) -> f64 {
    if x < -700.0 {
        return 0.0;
    }
    let x = x.min(700.0);
    let k = (x / LN_2).round();
    let r = x - k * LN_2;
    // |r| is at most 0.347: fifteen terms.
    let (mut term, mut sum) = (1.0, 1.0);
    for n in 1..15 {
        term *= r / f64::from(n);
        sum += term;
    }
    sum * f64::from_bits(((k as i64 + 1023) as u64) << 52)
}

/// Returns a random number above 0 and at most 1.
fn unit(rng: &mut Rng) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

/// Returns a time from the exponential distribution with this mean.
pub fn exponential(rng: &mut Rng, mean: Nanos) -> Nanos {
    // The largest draw is 36.7 means; a conversion to an integer saturates.
    Nanos((-ln(unit(rng)) * mean.0 as f64).round() as u64)
}

/// Returns a number from the standard normal distribution (Marsaglia and Bray, SIAM Review 6, 1964:
/// the polar method).
fn normal(rng: &mut Rng) -> f64 {
    // A pair succeeds with a chance of 0.785: 64 misses in a row practically do not occur, and give
    // the mean.
    for _ in 0..64 {
        let (a, b) = (2.0 * unit(rng) - 1.0, 2.0 * unit(rng) - 1.0);
        let square = a * a + b * b;
        if square < 1.0 && square > 0.0 {
            return a * (-2.0 * ln(square) / square).sqrt();
        }
    }
    0.0
}

/// A lognormal distribution truncated to two bounds.
#[derive(Clone, Copy, Debug)]
struct LogNormal {
    mu: f64,
    sigma: f64,
    min: f64,
    max: f64,
}

/// Size of the main object of a web page (NGMN Alliance, "Radio Access Performance Evaluation
/// Methodology", 2008, annex A, from 3GPP2 C.R1002).
const MAIN: LogNormal = LogNormal { mu: 8.37, sigma: 1.37, min: 100.0, max: 2_000_000.0 };
/// Size of an object embedded in a page, from the same table.
const EMBEDDED: LogNormal = LogNormal { mu: 6.17, sigma: 2.36, min: 50.0, max: 2_000_000.0 };
/// Number of embedded objects of a page in hundredths, the mean of the same table.
const EMBEDDED_PER_PAGE: u64 = 564;

/// Shape of the Pareto distribution: Crovella and Bestavros measured 1.1 to 1.2 for files sent over
/// the web ("Self-similarity in World Wide Web traffic", IEEE/ACM ToN 5(6), 1997).
const SHAPE: f64 = 1.2;
/// Largest size of the distribution, as a multiple of the smallest: the tail is cut there, so that
/// a run has a mean.
const SPAN: f64 = 1_000.0;

impl LogNormal {
    fn draw(&self, rng: &mut Rng) -> u64 {
        // The bounds keep more than three quarters of all draws.
        for _ in 0..64 {
            let x = exp(self.mu + self.sigma * normal(rng));
            if (self.min..=self.max).contains(&x) {
                return x.round() as u64;
            }
        }
        self.min as u64
    }

    /// Returns the mean, by the midpoint rule over 16 standard deviations.
    fn mean(&self) -> f64 {
        const STEPS: i32 = 4_000;
        let (mut mass, mut sum) = (0.0, 0.0);
        for i in 0..STEPS {
            let z = -8.0 + 16.0 * (f64::from(i) + 0.5) / f64::from(STEPS);
            let x = exp(self.mu + self.sigma * z);
            if (self.min..=self.max).contains(&x) {
                let weight = exp(-z * z / 2.0);
                mass += weight;
                sum += weight * x;
            }
        }
        sum / mass
    }
}

/// Largest number of sizes of a list.
pub const SIZES_MAX: usize = 8;

/// Distribution of the sizes of short flows, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// The objects of web pages: 8 kB in the mean, many below 1 kB, few of 100 kB and more.
    Web,
    /// Heavy tails: Pareto of shape 1.2, cut at 1000 times the smallest, with this mean.
    Pareto(u64),
    /// Sizes with weights, and the number of entries that count.
    List([(u64, u32); SIZES_MAX], usize),
}

impl Sizes {
    /// Returns the distribution of a list with weights, of which the first [`SIZES_MAX`] count.
    /// `None` if it is empty, or no weight is above zero.
    pub fn list(all: &[(u64, u32)]) -> Option<Self> {
        let mut list = [(0, 0); SIZES_MAX];
        let n = all.len().min(SIZES_MAX);
        list[..n].copy_from_slice(&all[..n]);
        all[..n].iter().any(|(_, weight)| *weight > 0).then_some(Self::List(list, n))
    }

    /// Returns a random size, at least 1.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let size = match self {
            Self::Web => {
                let main = rng.below(100 + EMBEDDED_PER_PAGE) < 100;
                if main { MAIN.draw(rng) } else { EMBEDDED.draw(rng) }
            }
            Self::Pareto(mean) => {
                // The inverse of the distribution function, between 1 and the span.
                let rest = 1.0 - exp(-SHAPE * ln(SPAN));
                let factor = exp(-ln(1.0 - (1.0 - unit(rng)) * rest) / SHAPE);
                (*mean as f64 / pareto_mean() * factor).round() as u64
            }
            Self::List(list, n) => {
                let mut place = rng.below(list[..*n].iter().map(|(_, weight)| u64::from(*weight)).sum());
                let chosen = list[..*n].iter().find(|(_, weight)| {
                    let here = place < u64::from(*weight);
                    place = place.saturating_sub(u64::from(*weight));
                    here
                });
                chosen.map_or(1, |(size, _)| *size)
            }
        };
        size.max(1)
    }

    /// Returns the mean size, bytes.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Web => {
                let embedded = EMBEDDED_PER_PAGE as f64 / 100.0;
                (MAIN.mean() + embedded * EMBEDDED.mean()) / (1.0 + embedded)
            }
            Self::Pareto(mean) => *mean as f64,
            Self::List(list, n) => {
                let weights: f64 = list[..*n].iter().map(|(_, weight)| f64::from(*weight)).sum();
                let sum: f64 =
                    list[..*n].iter().map(|(size, weight)| *size as f64 * f64::from(*weight)).sum();
                sum / weights
            }
        }
    }
}

/// Returns the mean of the cut Pareto distribution whose smallest value is 1: 4.494.
fn pareto_mean() -> f64 {
    let over = |power: f64| exp(-power * ln(SPAN));
    SHAPE / (SHAPE - 1.0) * (1.0 - over(SHAPE - 1.0)) / (1.0 - over(SHAPE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f64, expected: f64, share: f64) {
        assert!((got / expected - 1.0).abs() < share, "{got} against {expected}");
    }

    #[test]
    fn logarithm_and_power_are_those_of_the_library() {
        for x in [1e-300, 1e-9, 0.1, 0.5, 0.9, 1.0, 1.5, 2.0, 10.0, 1e18] {
            assert!((ln(x) - x.ln()).abs() <= 1e-14 * x.ln().abs().max(1.0), "{x}");
        }
        for x in [-600.0, -3.3, -0.1, 0.0, 0.3, 1.0, 20.0, 600.0] {
            close(exp(x), f64::exp(x), 1e-13);
        }
        assert_eq!((exp(-701.0), ln(1.0)), (0.0, 0.0));
    }

    #[test]
    fn an_exponential_draw_has_its_mean_and_its_tail() {
        let (mut rng, n) = (Rng::new(3), 100_000);
        let draws: Vec<u64> = (0..n).map(|_| exponential(&mut rng, Nanos(1_000_000)).0).collect();
        close(draws.iter().sum::<u64>() as f64 / f64::from(n), 1e6, 0.01);
        // A share of e^-2 of all draws is above two means.
        close(draws.iter().filter(|d| **d > 2_000_000).count() as f64 / f64::from(n), 0.1353, 0.03);
    }

    #[test]
    fn sizes_have_the_means_that_they_say() {
        // The published means are 10710 and 7758 bytes; the parameters, to three digits, give 11053
        // and 8200.
        close(MAIN.mean(), 10_710.0, 0.04);
        close(EMBEDDED.mean(), 7_758.0, 0.08);
        close(pareto_mean(), 4.494, 0.001);
        let list = Sizes::list(&[(1_000, 3), (9_000, 1)]).unwrap();
        assert_eq!(list.mean(), 3_000.0);
        for sizes in [Sizes::Web, Sizes::Pareto(30_000), list] {
            let (mut rng, n) = (Rng::new(5), 200_000_u64);
            let sum: u64 = (0..n).map(|_| sizes.draw(&mut rng)).sum();
            close(sum as f64 / n as f64, sizes.mean(), 0.05);
        }
        assert_eq!((Sizes::list(&[]), Sizes::list(&[(5, 0)])), (None, None));
    }

    #[test]
    fn a_list_gives_its_sizes_by_weight() {
        let list = Sizes::list(&[(10, 1), (20, 0), (30, 3)]).unwrap();
        let mut rng = Rng::new(1);
        let draws: Vec<u64> = (0..40_000).map(|_| list.draw(&mut rng)).collect();
        assert!(draws.iter().all(|d| [10, 30].contains(d)));
        close(draws.iter().filter(|d| **d == 10).count() as f64, 10_000.0, 0.03);
    }
}
