//! Values of few parameters: a map of priorities, a mask, bare nanoseconds, three numbers.

use core::fmt;

use super::scale::{scaled, significant, time_factor};
use super::{Json, Refusal, Show, Value, Words};

/// Sixteen band numbers, one for each value of the low four bits of a packet's priority
/// (tc-prio(8)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrioMap(pub [u8; 16]);

impl Show for PrioMap {
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        for (i, b) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_char(' ')?;
            }
            write!(f, "{b}")?;
        }
        Ok(())
    }
    fn json(&self) -> Json {
        Json::List(self.0.iter().map(|b| u64::from(*b)).collect())
    }
}

impl Value for PrioMap {
    const EXPECTED: &'static str = "up to 16 numbers of bands or classes";
    /// Takes words while they are numbers, at most 16; those left out are band 0.
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        let mut map = [0; 16];
        let mut given = 0;
        while given < 16 {
            let Some(band) = words.peek().and_then(|w| w.parse().ok()) else { break };
            map[given] = band;
            given += 1;
            words.take();
        }
        if given > 0 { Ok(Self(map)) } else { Err(Refusal::NotSuch) }
    }
}

/// Bits of a hash that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mask(pub u32);

impl Show for Mask {
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        write!(f, "{}", self.0)
    }
    fn json(&self) -> Json {
        Json::Uint(u64::from(self.0))
    }
}

impl Value for Mask {
    const EXPECTED: &'static str = "a mask (1023, 0x3ff)";
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        let w = words.value()?;
        match w.strip_prefix("0x") {
            Some(hex) if !hex.starts_with('+') => Ok(Self(u32::from_str_radix(hex, 16)?)),
            Some(_) => Err(Refusal::NotSuch),
            None => Ok(Self(w.parse()?)),
        }
    }
}

/// A time that is in nanoseconds as a bare number and in JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NanosBare(pub u64);

impl Show for NanosBare {
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        let (unit, name) = match self.0 {
            1_000_000_000.. => (1_000_000_000, "s"),
            1_000_000.. => (1_000_000, "ms"),
            1_000.. => (1_000, "us"),
            _ => (1, "ns"),
        };
        significant(f, self.0, unit, 3)?;
        f.write_str(name)
    }
    fn exact(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        write!(f, "{}ns", self.0)
    }
    fn json(&self) -> Json {
        Json::Uint(self.0)
    }
}

impl Value for NanosBare {
    const EXPECTED: &'static str = "a time (5ms, 100us, 2s; bare: nanoseconds)";
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        let word = words.value()?;
        scaled(word, |suffix| if suffix.is_empty() { Some((1, 1)) } else { time_factor(suffix) })
            .map(Self)
            .ok_or(Refusal::NotSuch)
    }
}

/// Three numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triple(pub [u32; 3]);

impl Show for Triple {
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        let [a, b, c] = self.0;
        write!(f, "{a} {b} {c}")
    }
    fn json(&self) -> Json {
        Json::List(self.0.iter().map(|n| u64::from(*n)).collect())
    }
}

impl Value for Triple {
    const EXPECTED: &'static str = "three numbers";
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        let mut numbers = [0; 3];
        for n in &mut numbers {
            *n = words.value()?.parse()?;
        }
        Ok(Self(numbers))
    }
}
