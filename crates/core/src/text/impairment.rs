//! Impairments of a link as tc writes them: delays, probabilities of loss, rates in cells, slots
//! (tc-netem(8)).

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::{self, Write};

use crate::base::chance::Percent;
use crate::base::time::Nanos;
use crate::base::units::{Bytes, Rate};
use crate::law::impair::{Distribution, TABLE_MAX, normal, pareto, pareto_normal, shared};
use crate::text::error::ErrorKind;
use crate::text::value::{Json, NanosBare, Quantity, Refusal, Show, Value, Words, exact_of};

/// Reads a value with `read`; takes its words only if `read` accepts them.
fn may<T>(words: &mut Words<'_>, read: impl Fn(&mut Words<'_>) -> Result<T, Refusal>) -> Option<T> {
    let mut ahead = words.clone();
    let value = read(&mut ahead).ok()?;
    words.rewind(ahead.at());
    Some(value)
}

/// Shows these types as the words that make them.
macro_rules! shown_in_words {
    ($($type:ty),+) => { $(
        impl Show for $type {
            fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
                write!(f, "{self}")
            }
            fn json(&self) -> Json {
                Json::Text(exact_of(self))
            }
        }
    )+ };
}

shown_in_words!(Delay, Chance, Loss, LinkRate, Slot, Shape, Places);

/// A number of packets that tc reads as a size: `1k` is 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places(pub u32);

impl fmt::Display for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Value for Places {
    const EXPECTED: &'static str = "a number of packets (1000, 1k)";
    const QUANTITY: Quantity = Quantity::Packets;
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        u32::try_from(Bytes::take(words)?.0).map(Self).map_err(|_| Refusal::NotSuch)
    }
}

/// Reads a time in whole microseconds, at most the 274 s that tc can express.
fn micros(words: &mut Words<'_>) -> Result<Nanos, Refusal> {
    let time = Nanos::take(words)?;
    match time.as_micros() {
        us @ 0..=MICROS_MAX => Ok(Nanos::from_micros(us)),
        _ => Err(Refusal::NotSuch),
    }
}

/// Largest time, in microseconds, that 32 bits of 64 ns hold.
const MICROS_MAX: u64 = 274_877_906;

/// A delay, its jitter, and the correlation of successive delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// Centre of the distribution; whole microseconds.
    pub time: Nanos,
    /// Deviation on either side; whole microseconds.
    pub jitter: Nanos,
    /// Weight of the previous delay.
    pub correlation: Option<Percent>,
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}us {}us", self.time.as_micros(), self.jitter.as_micros())?;
        self.correlation.map_or(Ok(()), |c| write!(f, " {}", exact_of(&c)))
    }
}

impl Value for Delay {
    const EXPECTED: &'static str = "a time (5ms), its jitter if any, and a correlation in percent";
    const QUANTITY: Quantity = Quantity::Time;
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        let time = micros(words)?;
        let jitter = may(words, micros);
        let correlation = jitter.and_then(|_| may(words, Percent::take));
        Ok(Self { time, jitter: jitter.unwrap_or_default(), correlation })
    }
}

/// A probability, and the correlation of successive decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chance {
    /// Probability of the event.
    pub share: Percent,
    /// Weight of the previous random number.
    pub correlation: Option<Percent>,
}

impl fmt::Display for Chance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&exact_of(&self.share))?;
        self.correlation.map_or(Ok(()), |c| write!(f, " {}", exact_of(&c)))
    }
}

impl Value for Chance {
    const EXPECTED: &'static str = "a percentage (1%), and its correlation if any";
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        let share = Percent::take(words)?;
        Ok(Self { share, correlation: may(words, Percent::take) })
    }
}

/// Model of packet loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Independent losses, or correlated ones.
    Random(Chance),
    /// A Markov chain of four states: p13, p31, p32, p23, p14.
    State([Percent; 5]),
    /// A Gilbert-Elliott link, good or bad: p, r, 1-h, 1-k.
    Gemodel([Percent; 4]),
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, values): (_, &[Percent]) = match self {
            Self::Random(chance) => return write!(f, "random {chance}"),
            Self::State(values) => ("state", values),
            Self::Gemodel(values) => ("gemodel", values),
        };
        f.write_str(name)?;
        values.iter().try_for_each(|p| write!(f, " {}", exact_of(p)))
    }
}

/// Reads at most `N` percentages; those left out are defaults that follow from the first.
fn percents<const N: usize>(
    words: &mut Words<'_>,
    defaults: fn(Percent) -> [Percent; N],
) -> Result<[Percent; N], Refusal> {
    let mut values = defaults(Percent::take(words)?);
    for value in &mut values[1..] {
        let Some(given) = may(words, Percent::take) else { break };
        *value = given;
    }
    Ok(values)
}

impl Value for Loss {
    const EXPECTED: &'static str =
        "random P, state P13 [P31 [P32 [P23 [P14]]]], or gemodel P [R [1-H [1-K]]]";
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        const NONE: Percent = Percent(0);
        match words.peek().ok_or(Refusal::NotSuch)? {
            "state" => {
                words.take();
                percents(words, |p| [p, p.rest(), NONE, Percent::ALL, NONE]).map(Self::State)
            }
            "gemodel" => {
                words.take();
                percents(words, |p| [p, p.rest(), Percent::ALL, NONE]).map(Self::Gemodel)
            }
            "random" => {
                words.take();
                Chance::take(words).map(Self::Random)
            }
            _ => Chance::take(words).map(Self::Random),
        }
    }
}

/// A rate, and the bytes added to packets and to cells before their time is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkRate {
    /// The rate; 0 is none.
    pub rate: Rate,
    /// Bytes added to each packet.
    pub overhead: i32,
    /// Payload bytes of a cell; 0 is no cells.
    pub cell: u32,
    /// Bytes added to each cell.
    pub cell_overhead: i32,
}

impl fmt::Display for LinkRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rate, overhead, cell, cell_overhead } = self;
        write!(f, "{} {overhead} {cell} {cell_overhead}", exact_of(rate))
    }
}

fn parsed<T: core::str::FromStr>(words: &mut Words<'_>) -> Result<T, Refusal> {
    words.value()?.parse().map_err(|_| Refusal::NotSuch)
}

impl Value for LinkRate {
    const EXPECTED: &'static str = "a rate (1mbit), then bytes for each packet, of a cell, and for each cell";
    const QUANTITY: Quantity = Quantity::Rate;
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        let rate = Rate::take(words)?;
        let overhead = may(words, parsed::<i32>);
        let cell = overhead.and_then(|_| may(words, parsed::<u32>));
        let cell_overhead = cell.and_then(|_| may(words, parsed::<i32>));
        let [overhead, cell_overhead] = [overhead, cell_overhead].map(Option::unwrap_or_default);
        Ok(Self { rate, overhead, cell: cell.unwrap_or_default(), cell_overhead })
    }
}

/// Shape of a distribution of times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Uniform.
    Uniform,
    /// Normal.
    Normal,
    /// Pareto, exponent 3: a long tail.
    Pareto,
    /// A quarter normal, three quarters Pareto.
    ParetoNormal,
    /// The inverse of a distribution function as numbers, 8192 for a standard deviation.
    Table(Arc<[i16]>),
}

impl Shape {
    /// Returns the distribution that times are drawn from; computes its table.
    pub fn distribution(&self) -> Distribution {
        match self {
            Self::Uniform => Distribution::Uniform,
            Self::Normal => shared(normal()),
            Self::Pareto => shared(pareto()),
            Self::ParetoNormal => shared(pareto_normal()),
            Self::Table(entries) => Distribution::Table(entries.clone()),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = match self {
            Self::Uniform => return f.write_str("uniform"),
            Self::Normal => return f.write_str("normal"),
            Self::Pareto => return f.write_str("pareto"),
            Self::ParetoNormal => return f.write_str("paretonormal"),
            Self::Table(entries) => entries,
        };
        for (at, entry) in entries.iter().enumerate() {
            if at > 0 {
                f.write_char(',')?;
            }
            write!(f, "{entry}")?;
        }
        Ok(())
    }
}

impl Value for Shape {
    const EXPECTED: &'static str = "uniform, normal, pareto, paretonormal, or numbers with commas";
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        let word = words.value()?;
        Ok(match word {
            "uniform" => Self::Uniform,
            "normal" => Self::Normal,
            "pareto" => Self::Pareto,
            "paretonormal" => Self::ParetoNormal,
            numbers if numbers.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
                let entries: Option<Vec<i16>> = numbers.split(',').map(|n| n.parse().ok()).collect();
                let entries = entries.filter(|e| (2..=TABLE_MAX).contains(&e.len()));
                Self::Table(entries.ok_or(Refusal::NotSuch)?.into())
            }
            _ => {
                let hint = "tc reads a table from a file of that name: give its numbers, as in -8192,0,8192";
                return Err(Refusal::because(ErrorKind::Unsupported, Self::EXPECTED, Some(hint)));
            }
        })
    }
}

/// Times at which a link may be used, and the amount that leaves at each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Time between the last slot and the next.
    pub gap: SlotGap,
    /// Most packets in a slot; 0 is no limit.
    pub packets: u32,
    /// Most bytes in a slot; 0 is no limit.
    pub bytes: u32,
}

/// Time between slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotGap {
    /// Uniform from the first to the second.
    Between(Nanos, Nanos),
    /// A distribution around the first, with the second as its deviation.
    Shaped(Shape, Nanos, Nanos),
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.gap {
            SlotGap::Between(min, max) => write!(f, "{}ns {}ns", min.0, max.0)?,
            SlotGap::Shaped(shape, delay, jitter) => {
                write!(f, "distribution {shape} {}ns {}ns", delay.0, jitter.0)?;
            }
        }
        if self.packets > 0 {
            write!(f, " packets {}", self.packets)?;
        }
        if self.bytes > 0 {
            write!(f, " bytes {}", self.bytes)?;
        }
        Ok(())
    }
}

/// Reads a time of at most 292 years, so that sums of two stay in range. Like tc it takes a bare
/// number as nanoseconds, which all other times of netem take as microseconds.
fn slot_time(words: &mut Words<'_>) -> Result<Nanos, Refusal> {
    let time = Nanos(NanosBare::take(words)?.0);
    if i64::try_from(time.0).is_ok() { Ok(time) } else { Err(Refusal::NotSuch) }
}

impl Value for Slot {
    const EXPECTED: &'static str =
        "MIN [MAX] or distribution NAME DELAY JITTER (bare: nanoseconds), then packets N, bytes N";
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        let gap = if words.peek() == Some("distribution") {
            words.take();
            let shape = Shape::take(words)?;
            let (delay, jitter) = (slot_time(words)?, slot_time(words)?);
            if jitter.0 == 0 {
                return Err(Refusal::NotSuch);
            }
            SlotGap::Shaped(shape, delay, jitter)
        } else {
            let min = slot_time(words)?;
            let max = may(words, slot_time).unwrap_or(min);
            if max < min {
                return Err(Refusal::NotSuch);
            }
            SlotGap::Between(min, max)
        };
        let count = |words: &mut Words<'_>, key: &str| match words.peek() == Some(key) {
            true => {
                words.take();
                parsed::<u32>(words)
            }
            false => Ok(0),
        };
        Ok(Self { gap, packets: count(words, "packets")?, bytes: count(words, "bytes")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn back<V: Value + fmt::Debug>(text: &str) -> (Option<V>, usize) {
        let split: Vec<&str> = text.split(' ').collect();
        let mut words = Words::new(&split);
        let value = V::take(&mut words).ok();
        if let Some(value) = &value {
            let exact = exact_of(value);
            let again: Vec<&str> = exact.split(' ').collect();
            assert_eq!(V::take(&mut Words::new(&again)).as_ref(), Ok(value), "{exact}");
        }
        (value, words.at())
    }

    #[test]
    fn words_are_taken_while_they_belong_and_read_back() {
        let ms = Nanos::from_millis;
        let (delay, used) = back::<Delay>("100ms 10ms 25% distribution");
        let correlation = Some(Percent(1_073_741_824));
        assert_eq!((delay, used), (Some(Delay { time: ms(100), jitter: ms(10), correlation }), 3));
        assert_eq!(back::<Delay>("5ms loss").1, 1);
        assert_eq!(back::<Delay>("0.5us").0.unwrap().time, Nanos(0));
        assert_eq!(back::<Delay>("300s").0, None);
        assert_eq!(back::<Loss>("state 1% 2% x").1, 3);
        let Some(Loss::State(p)) = back::<Loss>("state 1%").0 else { panic!() };
        assert_eq!(p.map(|p| p.0), [42_949_673, 4_252_017_622, 0, u32::MAX, 0]);
        let Some(Loss::Gemodel(p)) = back::<Loss>("gemodel 1% 10%").0 else { panic!() };
        assert_eq!(p.map(|p| p.0), [42_949_673, 429_496_730, u32::MAX, 0]);
        assert_eq!(back::<Loss>("random 1% 25% ecn").1, 3);
        assert_eq!(back::<Loss>("-1%").0, None);
        assert_eq!(back::<Loss>("foo").0, None);
        let (rate, used) = back::<LinkRate>("5mbit -14 48 5 3");
        let expected = LinkRate { rate: Rate(625_000), overhead: -14, cell: 48, cell_overhead: 5 };
        assert_eq!((rate, used), (Some(expected), 4));
        assert_eq!(back::<LinkRate>("5mbit delay").1, 1);
        assert_eq!(back::<Slot>("1ms 2ms packets 3 bytes 500").1, 6);
        assert_eq!(back::<Slot>("800us bytes 500").1, 3);
        let bare = back::<Slot>("10 200").0.map(|slot| slot.gap);
        assert_eq!(bare, Some(SlotGap::Between(Nanos(10), Nanos(200))));
        assert_eq!(back::<Slot>("distribution pareto 1ms 100us").1, 4);
        assert_eq!(back::<Slot>("5ms 2ms").0, None);
        assert_eq!(back::<Slot>("1ms packets").0, None);
        assert_eq!(back::<Shape>("-8192,0,8192").0, Some(Shape::Table([-8192, 0, 8192].into())));
        assert_eq!(back::<Shape>("-8192,,8192").0, None);
        assert_eq!(back::<Shape>("0,40000").0, None);
        assert_eq!(back::<Shape>("4000").0, None);
        assert_eq!(back::<Places>("1k").0, Some(Places(1024)));
    }
}
