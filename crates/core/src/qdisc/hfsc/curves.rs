//! The words of a class: its service curves (tc-hfsc(8)).
//!
//! A curve is `[m1 RATE d TIME] m2 RATE`, or `[umax SIZE dmax TIME] rate RATE`: a first packet of
//! `umax` bytes within `dmax`, then the rate. Each word may be cut short, as tc takes it.

use core::fmt;

use crate::base::env::Env;
use crate::base::time::Nanos;
use crate::base::units::{Bytes, Rate};
use crate::law::curve::Curve;
use crate::law::service::Curves;
use crate::text::error::ErrorKind;
use crate::text::params::{Param, Params, SetOutcome, Shown};
use crate::text::value::{Json, Quantity, Refusal, Show, Value, Words};

/// Microseconds in a second.
const MICROS: u64 = 1_000_000;

/// Parameters of a class of hfsc.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClassConfig {
    /// Real-time curve, `rt`.
    pub rt: Option<Curve>,
    /// Link-sharing curve, `ls`.
    pub ls: Option<Curve>,
    /// Upper limit curve, `ul`.
    pub ul: Option<Curve>,
    /// The curves that the present command has given.
    pub(super) said: Said,
}

impl PartialEq for ClassConfig {
    /// True if the curves are the same, whichever a command has given.
    fn eq(&self, other: &Self) -> bool {
        (self.rt, self.ls, self.ul) == (other.rt, other.ls, other.ul)
    }
}

/// The curves that a command gives: rt, ls, ul.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Said(pub(super) [bool; 3]);

impl ClassConfig {
    /// Returns all its curves.
    pub const fn curves(&self) -> Curves {
        Curves { real_time: self.rt, share: self.ls, limit: self.ul }
    }
    /// Returns the curves that the present command has given, and ends the command.
    pub(super) fn take_said(&mut self) -> Curves {
        let Said([rt, ls, ul]) = core::mem::take(&mut self.said);
        Curves {
            real_time: self.rt.filter(|_| rt),
            share: self.ls.filter(|_| ls),
            limit: self.ul.filter(|_| ul),
        }
    }
    fn sc(&self) -> Option<Curve> {
        self.rt.filter(|_| self.rt == self.ls)
    }
}

/// Declares a curve.
const fn param(key: &'static str, words: &'static [&'static str], about: &'static str) -> Param {
    Param {
        key,
        words,
        flag: false,
        alone: &[],
        about,
        expected: <Curve as Value>::EXPECTED,
        quantity: Quantity::Other,
        range: "",
        default: "None",
        attribute: None,
    }
}

impl Params for ClassConfig {
    const TABLE: &'static [Param] = &[
        param("rt", &["rt"], "Real-time curve: service that is due to a leaf, whatever the others want."),
        param("ls", &["ls"], "Link-sharing curve: the part of the class in what real-time service leaves."),
        param("sc", &["sc"], "Both of these."),
        param(
            "ul",
            &["ul"],
            "Upper limit curve: most that link-sharing gives; needs `ls` or `sc` beside it.",
        ),
    ];
    const CUT: &'static [&'static str] = &["rt", "ls", "sc", "ul"];

    fn defaults(_env: &Env) -> Self {
        Self::default()
    }
    fn set(&mut self, key: &str, words: &mut Words<'_>) -> SetOutcome {
        let Some(at) = Self::TABLE.iter().position(|p| p.key == key) else { return SetOutcome::UnknownKey };
        let curve = match Curve::take(words) {
            Ok(curve) => Some(curve),
            Err(refusal) => return SetOutcome::BadValue(&Self::TABLE[at], refusal),
        };
        let Said([rt, ls, ul]) = &mut self.said;
        match key {
            "rt" => (self.rt, *rt) = (curve, true),
            "ls" => (self.ls, *ls) = (curve, true),
            "ul" => (self.ul, *ul) = (curve, true),
            _ => (self.rt, self.ls, *rt, *ls) = (curve, curve, true, true),
        }
        SetOutcome::Set
    }
    fn visit(&self, f: &mut dyn FnMut(Shown<'_>)) {
        let sc = self.sc();
        let apart = |curve: Option<Curve>| curve.filter(|_| sc.is_none());
        let values = [apart(self.rt), apart(self.ls), sc, self.ul];
        for (param, value) in Self::TABLE.iter().zip(&values) {
            f(Shown { param, word: Some(param.key), value });
        }
    }
}

impl Show for Curve {
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        let (m1, d, m2) = self.parts();
        f.write_str("m1 ")?;
        m1.text(f)?;
        f.write_str(" d ")?;
        d.text(f)?;
        f.write_str(" m2 ")?;
        m2.text(f)
    }
    fn exact(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        write!(f, "m1 {}bps d {}us m2 {}bps", self.m1, self.d, self.m2)
    }
    fn json(&self) -> Json {
        let (m1, d, m2) = self.parts();
        Json::Members(alloc::vec![("m1", m1.json()), ("d", d.json()), ("m2", m2.json())])
    }
}

impl Curve {
    fn parts(&self) -> (Rate, Nanos, Rate) {
        (Rate(self.m1.into()), Nanos::from_micros(self.d.into()), Rate(self.m2.into()))
    }
}

impl Value for Curve {
    const EXPECTED: &'static str = "a curve ([m1 RATE d TIME] m2 RATE, or [umax SIZE dmax TIME] rate RATE)";
    /// Reads either form; the second if the words are not of the first.
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        let from = words.at();
        let curve = match two_slopes(words) {
            Err(Refusal::NotSuch) => {
                words.rewind(from);
                first_packet(words)?
            }
            read => read?,
        };
        if curve.m1 == 0 && curve.m2 == 0 {
            return Err(refusal(ErrorKind::OutOfRange, "a slope above zero", from));
        }
        Ok(curve)
    }
}

/// Reads `[m1 RATE] [d TIME] m2 RATE`.
fn two_slopes(words: &mut Words<'_>) -> Result<Curve, Refusal> {
    let m1 = optional(words, "m1", rate)?;
    let d = optional(words, "d", micros)?;
    needed(words, "m2")?;
    Ok(Curve { m1, d, m2: rate(words)? })
}

/// Reads `[umax SIZE] [dmax TIME] rate RATE`.
fn first_packet(words: &mut Words<'_>) -> Result<Curve, Refusal> {
    let from = words.at();
    let umax = optional(words, "umax", size)?;
    let dmax = optional(words, "dmax", micros)?;
    needed(words, "rate")?;
    let m2 = rate(words)?;
    if umax != 0 && dmax == 0 {
        return Err(refusal(ErrorKind::Missing, "dmax beside umax", from));
    }
    let slope = match dmax {
        0 => 0,
        _ => (u64::from(umax) * MICROS).div_ceil(dmax.into()),
    };
    if slope > m2.into() {
        // The first packet needs more than the rate. tc keeps 32 bits of the slope.
        return Ok(Curve { m1: slope as u32, d: dmax, m2 });
    }
    // At the rate the packet takes less than `dmax`: the service may begin later. tc reckons that
    // time in 32 bits.
    let taken = umax.wrapping_mul(MICROS as u32).checked_div(m2).unwrap_or(0);
    Ok(Curve { m1: 0, d: dmax.wrapping_sub(taken), m2 })
}

/// Reads a word that may be cut short and its value, if they come next.
fn optional(
    words: &mut Words<'_>,
    key: &str,
    value: fn(&mut Words<'_>) -> Result<u32, Refusal>,
) -> Result<u32, Refusal> {
    if !is(words, key) {
        return Ok(0);
    }
    words.take();
    more(words)?;
    value(words)
}

/// Takes a word that must come next, before a value; it may be cut short.
fn needed(words: &mut Words<'_>, key: &str) -> Result<(), Refusal> {
    more(words)?;
    if !is(words, key) {
        return Err(Refusal::NotSuch);
    }
    words.take();
    more(words)
}

/// Refuses the end of the line: tc does not look for another form then.
fn more(words: &Words<'_>) -> Result<(), Refusal> {
    match words.peek() {
        Some(_) => Ok(()),
        None => Err(refusal(ErrorKind::BadValue, Curve::EXPECTED, words.at())),
    }
}

fn is(words: &Words<'_>, key: &str) -> bool {
    words.peek().is_some_and(|w| !w.is_empty() && key.starts_with(w))
}

fn rate(words: &mut Words<'_>) -> Result<u32, Refusal> {
    narrow(words, |words| Rate::take(words).map(|rate| rate.0), "at most 4294967295 bytes/s")
}

fn size(words: &mut Words<'_>) -> Result<u32, Refusal> {
    narrow(words, |words| Bytes::take(words).map(|size| size.0), "at most 4294967295 bytes")
}

fn micros(words: &mut Words<'_>) -> Result<u32, Refusal> {
    narrow(words, |words| Nanos::take(words).map(Nanos::as_micros), "at most 4294967295us")
}

/// Reads a value of 32 bits.
fn narrow(
    words: &mut Words<'_>,
    take: fn(&mut Words<'_>) -> Result<u64, Refusal>,
    expected: &str,
) -> Result<u32, Refusal> {
    let at = words.at();
    u32::try_from(take(words)?).map_err(|_| refusal(ErrorKind::OutOfRange, expected, at))
}

fn refusal(kind: ErrorKind, expected: &str, at: usize) -> Refusal {
    Refusal::because(kind, expected, None).at(at)
}
