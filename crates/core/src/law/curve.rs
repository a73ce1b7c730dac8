//! Service curves of two slopes, on numbers (I. Stoica, H. Zhang, T. S. E. Ng, "A Hierarchical Fair
//! Service Curve Algorithm for Link-Sharing, Real-Time and Priority Services", SIGCOMM 1997;
//! tc-hfsc(7)).
//!
//! A curve says how much service, in bytes, is due a time after its start: the slope `m1` for the
//! time `d`, then `m2`. A class has its curve from a point on, the *anchor*. When it has packets
//! again after a pause, its curve becomes the lower one of the old curve and of the same curve from
//! now on ([`Anchored::lower`]): a pause is no credit.
//!
//! The reference computes in whole numbers: ticks of 64 ns, slopes in bytes per tick times 2^24,
//! their inverses in ticks per byte times 2^14, both rounded up, products of their two halves
//! rounded down. Schedules depend on each of these roundings, so they are the same here. Sums wrap
//! around as there: with a slope of zero the inverse is 2^64 - 1, and a point plus that is one tick
//! before the point.

use super::bucket::TICK_NS;
use crate::base::time::Instant;

/// Ticks in a second.
const TICKS_PER_S: u64 = 1_000_000_000 / TICK_NS;
const MICROS_PER_S: u64 = 1_000_000;
/// Fraction bits of a slope, bytes per tick.
const SLOPE_BITS: u32 = 24;
/// Fraction bits of an inverse slope, ticks per byte.
const INVERSE_BITS: u32 = 14;
/// Inverse of a slope of zero.
const NEVER: u64 = u64::MAX;

/// A point in time, in ticks since the caller's origin; in the reference since the machine's start.
/// A new class has its curves since tick 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tick(pub u64);

impl Tick {
    /// Returns the tick of an instant.
    #[inline]
    #[must_use]
    pub const fn of(now: Instant) -> Self {
        Self(now.0 / TICK_NS)
    }
    /// Returns the first instant of the tick, `Instant::MAX` for one too far in the future.
    #[must_use]
    pub const fn instant(self) -> Instant {
        Instant(self.0.saturating_mul(TICK_NS))
    }
}

/// A service curve as it is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Curve {
    /// First slope, bytes per second.
    pub m1: u32,
    /// Time that the first slope lasts, microseconds.
    pub d: u32,
    /// Second slope, bytes per second.
    pub m2: u32,
}

/// A service curve in the units of the arithmetic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slopes {
    /// Slopes, bytes per tick, with `SLOPE_BITS` of fraction.
    slopes: [u64; 2],
    /// Their inverses, ticks per byte, with `INVERSE_BITS` of fraction.
    inverses: [u64; 2],
    /// Length of the first part, ticks.
    dx: u64,
    /// Service in the first part, bytes.
    dy: u64,
}

/// Returns a slope for a rate in bytes per second.
const fn slope(rate: u32) -> u64 {
    ((rate as u64) << SLOPE_BITS).div_ceil(TICKS_PER_S)
}

/// Returns the inverse of the slope for a rate in bytes per second.
const fn inverse(rate: u32) -> u64 {
    if rate == 0 { NEVER } else { (TICKS_PER_S << INVERSE_BITS).div_ceil(rate as u64) }
}

/// Returns the ticks of a time in microseconds.
const fn duration(micros: u32) -> u64 {
    (micros as u64 * TICKS_PER_S).div_ceil(MICROS_PER_S)
}

/// Returns `n` times `factor`, a number with `bits` bits of fraction: whole and fractional part
/// apart, each rounded down.
#[inline]
const fn scaled(n: u64, factor: u64, bits: u32) -> u64 {
    let (whole, rest) = (n >> bits, n & ((1 << bits) - 1));
    whole.wrapping_mul(factor).wrapping_add(rest.wrapping_mul(factor) >> bits)
}

/// Returns the bytes of a slope after a time in ticks.
#[inline]
const fn bytes_in(ticks: u64, slope: u64) -> u64 {
    scaled(ticks, slope, SLOPE_BITS)
}

/// Returns the ticks that a number of bytes takes.
#[inline]
const fn ticks_for(bytes: u64, inverse: u64) -> u64 {
    match (bytes, inverse) {
        (0, _) => 0,
        (_, NEVER) => NEVER,
        _ => scaled(bytes, inverse, INVERSE_BITS),
    }
}

impl Slopes {
    /// Returns a curve in the units of the arithmetic.
    #[must_use]
    pub const fn new(curve: Curve) -> Self {
        let Curve { m1, d, m2 } = curve;
        let (dx, first) = (duration(d), slope(m1));
        Self { slopes: [first, slope(m2)], inverses: [inverse(m1), inverse(m2)], dx, dy: bytes_in(dx, first) }
    }
    /// True if the curve is straight or bends upwards: the service is rather late than early.
    #[inline]
    #[must_use]
    pub const fn is_convex(&self) -> bool {
        self.slopes[0] <= self.slopes[1]
    }
}

/// The place of a curve: its start, and the first part as far as it is left. The slopes are those
/// of the class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anchored {
    /// Time of the start, ticks.
    pub x: u64,
    /// Service at the start, bytes.
    pub y: u64,
    /// Length of the first part, ticks.
    pub dx: u64,
    /// Service in the first part, bytes.
    pub dy: u64,
}

impl Anchored {
    /// Returns a whole curve that starts at a time, with the service so far.
    #[must_use]
    pub const fn new(curve: &Slopes, x: u64, y: u64) -> Self {
        Self { x, y, dx: curve.dx, dy: curve.dy }
    }
    /// Returns the time at which service in total is due.
    #[inline]
    #[must_use]
    pub const fn time_of(&self, curve: &Slopes, y: u64) -> u64 {
        let end = self.x.wrapping_add(self.dx);
        if y < self.y {
            self.x
        } else if y > self.y.wrapping_add(self.dy) {
            end.wrapping_add(ticks_for(y.wrapping_sub(self.y).wrapping_sub(self.dy), curve.inverses[1]))
        } else if self.dy == 0 {
            // The first part is flat.
            end
        } else {
            self.x.wrapping_add(ticks_for(y.wrapping_sub(self.y), curve.inverses[0]))
        }
    }
    /// Returns the service that is due at a time, in total.
    #[inline]
    #[must_use]
    pub(crate) const fn due_at(&self, curve: &Slopes, x: u64) -> u64 {
        let end = self.x.wrapping_add(self.dx);
        if x <= self.x {
            self.y
        } else if x <= end {
            self.y.wrapping_add(bytes_in(x.wrapping_sub(self.x), curve.slopes[0]))
        } else {
            let second = bytes_in(x.wrapping_sub(end), curve.slopes[1]);
            self.y.wrapping_add(self.dy).wrapping_add(second)
        }
    }
    /// Lowers the curve to the minimum of itself and of a whole one that starts at `x` with the
    /// service `y`. Where two concave curves cross, the first part goes on to the crossing.
    pub const fn lower(&mut self, curve: &Slopes, x: u64, y: u64) {
        let due = self.due_at(curve, x);
        if curve.is_convex() {
            // A convex curve that starts at a higher point stays above.
            if due >= y {
                (self.x, self.y) = (x, y);
            }
            return;
        }
        if due <= y {
            return;
        }
        let due_later = self.due_at(curve, x.wrapping_add(curve.dx));
        if due_later >= y.wrapping_add(curve.dy) {
            *self = Self::new(curve, x, y);
            return;
        }
        // They cross: the lead of this curve, over the rate at which the new one catches up. The
        // reference divides by the low 32 bits.
        let gain = (curve.slopes[0] - curve.slopes[1]) as u32 as u64;
        let lead = (due - y) << SLOPE_BITS;
        let mut dx = match lead.checked_div(gain) {
            Some(dx) => dx,
            None => 0,
        };
        let end = self.x.wrapping_add(self.dx);
        if end > x {
            dx = dx.wrapping_add(end - x);
        }
        *self = Self { x, y, dx, dy: bytes_in(dx, curve.slopes[0]) };
    }
    /// Returns the curve by which a class becomes eligible for the service of this deadline curve:
    /// for a concave curve the same; for a convex one a line with the second slope.
    #[inline]
    #[must_use]
    pub const fn eligible(self, curve: &Slopes) -> Self {
        if curve.is_convex() { Self { dx: 0, dy: 0, ..self } } else { self }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The law in exact fractions: no more than the roundings apart.
    struct Exact {
        m1: f64,
        d: f64,
        m2: f64,
    }

    impl Exact {
        fn of(c: Curve) -> Self {
            let per_tick = |m: u32| f64::from(m) / TICKS_PER_S as f64;
            let d = f64::from(c.d) * 15.625;
            Self { m1: per_tick(c.m1), d, m2: per_tick(c.m2) }
        }
        fn due(&self, x: f64) -> f64 {
            self.m1 * x.min(self.d) + self.m2 * (x - self.d).max(0.0)
        }
    }

    #[test]
    fn numbers_are_rounded_as_by_the_reference() {
        let s = Slopes::new(Curve { m1: 125_000, d: 10_000, m2: 1 });
        // 125 000 bytes/s are 0.008 bytes/tick; 125 ticks/byte. 10 ms are 156 250 ticks.
        assert_eq!(s.slopes, [134_218, 2]);
        assert_eq!(s.inverses, [125 << 14, 15_625_000 << 14]);
        assert_eq!((s.dx, s.dy), (156_250, 1_250));
        assert_eq!(inverse(0), u64::MAX);
        assert_eq!((slope(u32::MAX), slope(0)), (4_611_686_018, 0));
        assert_eq!((duration(1), duration(2), duration(u32::MAX)), (16, 32, 67_108_863_985));
        assert_eq!(Tick::of(Instant(64_000)).0 - Tick::of(Instant(0)).0, 1000);
        assert_eq!(Tick::of(Instant(64_063)).instant(), Instant(64_000));
        assert_eq!((Tick(5).instant(), Tick(u64::MAX).instant()), (Instant(320), Instant::MAX));
    }

    #[test]
    fn a_flat_slope_is_never_over() {
        let flat = Slopes::new(Curve { m1: 1_000_000, d: 1000, m2: 0 });
        let at = Anchored::new(&flat, 5000, 100);
        assert_eq!((flat.dx, flat.dy), (15_625, 1000));
        assert_eq!(at.time_of(&flat, 1100), 5000 + 15_625);
        // One tick before the end of the first part: the sum wraps around.
        assert_eq!(at.time_of(&flat, 1101), 5000 + 15_625 - 1);
        assert_eq!(at.due_at(&flat, u64::MAX), 1100);
        let late = Slopes::new(Curve { m1: 0, d: 1000, m2: 1_000_000 });
        let at = Anchored::new(&late, 5000, 100);
        assert_eq!((at.time_of(&late, 99), at.time_of(&late, 100)), (5000, 20_625));
        assert_eq!(at.time_of(&late, 164), 20_625 + 1000);
    }

    #[test]
    fn a_pause_is_no_credit() {
        // Concave: 1000 bytes in the first ms, then 100 bytes a ms.
        let s = Slopes::new(Curve { m1: 1_000_000, d: 1000, m2: 100_000 });
        let ms = |n: u64| n * 15_625;
        let mut a = Anchored::new(&s, 0, 0);
        // Much service is due: the curve starts anew.
        a.lower(&s, ms(100), 500);
        assert_eq!(a, Anchored::new(&s, ms(100), 500));
        // Nothing is due beyond the service: it stays.
        let before = a;
        a.lower(&s, ms(101), 1_500);
        assert_eq!(a, before);
        // In between, the curves cross: 45 bytes of lead at 0.9 bytes a us last 50 us.
        a.lower(&s, ms(106), 1_955);
        assert_eq!((a.x, a.y), (ms(106), 1_955));
        let lead = before.due_at(&s, ms(106)) - 1_955;
        assert!((43..=45).contains(&lead) && a.dx.abs_diff(lead * 15_625 / 900) < 10, "{lead} {a:?}");
        // A convex curve moves as soon as it is not below.
        let s = Slopes::new(Curve { m1: 100_000, d: 1000, m2: 1_000_000 });
        let mut a = Anchored::new(&s, 0, 0);
        a.lower(&s, ms(1), 101);
        assert_eq!(a, Anchored::new(&s, 0, 0));
        a.lower(&s, ms(1), 99);
        assert_eq!(a, Anchored::new(&s, ms(1), 99));
    }

    fn rate() -> impl Strategy<Value = u32> {
        prop_oneof![Just(0), 1..5000u32, 100_000..20_000_000u32, any::<u32>()]
    }

    fn curve() -> impl Strategy<Value = Curve> {
        let d = prop_oneof![Just(0), 1..1000u32, 1000..1_000_000u32];
        (rate(), d, rate()).prop_map(|(m1, d, m2)| Curve { m1, d, m2 })
    }

    proptest! {
        /// Service and time are those of exact fractions, but for the rounding of a slope in its
        /// last place, of the products, and of `d` to a tick.
        #[test]
        fn is_the_curve_in_fractions(c in curve(), x in 0..1u64 << 36) {
            let (s, exact) = (Slopes::new(c), Exact::of(c));
            let at = Anchored::new(&s, 0, 0);
            let (due, most) = (at.due_at(&s, x) as f64, x as f64 / f64::from(1 << 24));
            let want = exact.due(x as f64);
            let slack = 3.0 + most + (exact.m1 + exact.m2) + want * 1e-9;
            prop_assert!((due - want).abs() <= slack, "{due} for {want} +- {slack}");
        }

        /// The time of a service is the first at which it is due, but for the same roundings.
        #[test]
        fn time_is_the_inverse_of_service(c in curve(), y in 1..1u64 << 32) {
            let s = Slopes::new(c);
            let at = Anchored::new(&s, 1000, 500);
            let t = at.time_of(&s, 500 + y);
            prop_assume!(s.inverses[0] != NEVER || c.d == 0 || c.m2 > 0);
            let exact = Exact::of(c);
            prop_assume!(exact.m2 > 0.0 || y <= s.dy);
            let first = exact.m1 * exact.d;
            let after = exact.d + (y as f64 - first) / exact.m2;
            let want = if y as f64 <= first { y as f64 / exact.m1 } else { after };
            // An inverse is at most 2^-14 ticks per byte too large. At the corner are the bytes of
            // a tick and of the roundings of the first slope.
            let corner = 3.0 + exact.m1 + exact.d / f64::from(1 << 24);
            let slack = 3.0 + y as f64 / f64::from(1 << 14) + corner / exact.m1.min(exact.m2).max(1e-12);
            prop_assert!(((t - 1000) as f64 - want).abs() <= slack, "{t} for {want} +- {slack}");
        }

        /// A lowered curve is at no time above the old one, nor above a new one, and at each time
        /// about as high as the lower of both.
        #[test]
        fn lower_is_the_minimum(c in curve(), x0 in 0..1u64 << 20, x in 0..1u64 << 22, y in 0..1u64 << 20) {
            let s = Slopes::new(c);
            prop_assume!(c.m1 < 1 << 30 && c.m2 < 1 << 30);
            let old = Anchored::new(&s, x0, 0);
            let new = Anchored::new(&s, x, y);
            prop_assume!(x >= x0);
            let mut low = old;
            low.lower(&s, x, y);
            let slope = Exact::of(c).m1.max(Exact::of(c).m2);
            for later in [0, 1, 100, 15_625, 156_250, 1_000_000, 10_000_000] {
                let t = x + later;
                let (a, b, min) = (old.due_at(&s, t), new.due_at(&s, t), low.due_at(&s, t));
                let slack = 8 + (4.0 * slope) as u64 + t / (1 << 22);
                if s.is_convex() {
                    // The reference takes one of both: the one that is lower now.
                    let one = if old.due_at(&s, x) >= y { b } else { a };
                    prop_assert!(min == one || min.abs_diff(one) <= slack);
                } else {
                    prop_assert!(min.abs_diff(a.min(b)) <= slack, "{min} for {a}, {b} at +{later}");
                }
            }
        }
    }
}
