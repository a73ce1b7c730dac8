//! The words of gred, and the parameters that follow from them.
//!
//! Two lines of tc make one: `setup` and the words of the qdisc, or the words of one virtual queue
//! with its number, in any order. A line with `setup` may go on with virtual queues, each from its
//! `vq` on: so one line makes the whole.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use crate::base::chance::Probability;
use crate::base::env::Env;
use crate::base::units::{Bytes, Rate};
use crate::law::red::RedParams;
use crate::qdisc::red::{Average, BANDWIDTH};
use crate::text::error::{ConfigError, ErrorKind, Object, Reason};
use crate::text::params::{Param, Params, SetOutcome, Shown};
use crate::text::value::{Json, Quantity, Show, Value, Words, exact_of};

use super::{KIND, QUEUES};

/// Words of a virtual queue.
pub const QUEUE_EXPECTED: &str = "a whole number; the words of the queue stand beside it";

/// The priority of a queue for which none is given, as in Linux.
const PRIO: u8 = 8;

/// Parameters of gred.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Number of virtual queues.
    pub vqs: u8,
    /// The queue of packets that name none.
    pub default: u8,
    /// True if the averages of queues of lower priority numbers count for a queue.
    pub grio: bool,
    /// Most bytes of packets without a queue.
    pub limit: u32,
    /// Marks and drops of all queues.
    pub flags: Flags,
    /// The queues that have parameters, by their numbers.
    pub queues: Vec<(u8, QueueConfig)>,
    /// The words that the present command has given.
    said: Vec<Said>,
}

impl PartialEq for Config {
    /// True if the parameters are the same, whichever a command has given.
    fn eq(&self, other: &Self) -> bool {
        let all = |c: &Self| (c.vqs, c.default, c.grio, c.limit, c.flags);
        all(self) == all(other) && self.queues == other.queues
    }
}

/// The choice between marks and drops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// ECN-capable packets are marked and not dropped.
    pub ecn: bool,
    /// Packets are dropped, and not marked, while the average is at `max` or above.
    pub harddrop: bool,
}

impl Flags {
    const NONE: Self = Self { ecn: false, harddrop: false };
}

/// Parameters of a virtual queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Most bytes that wait.
    pub limit: u32,
    /// Average from which on packets are marked, bytes.
    pub min: u32,
    /// Average from which on every packet is marked, bytes.
    pub max: u32,
    /// Size of an average packet, bytes.
    pub avpkt: u32,
    /// Packets that may arrive at once at an empty queue without a mark.
    pub burst: u32,
    /// Rate at which the average of an idle queue decays.
    pub bandwidth: Rate,
    /// Chance of a mark when the average is just below `max`.
    pub probability: Probability,
    /// Priority: the lower the number, the more queues count this one.
    pub prio: u8,
    /// Marks and drops.
    pub flags: Flags,
}

impl QueueConfig {
    /// Returns the law's parameters.
    fn law(&self) -> Result<RedParams, ConfigError> {
        let Self { min, max, avpkt, burst, bandwidth, probability, .. } = *self;
        Average { min, max, avpkt, burst, bandwidth, probability }.law(KIND)
    }
}

/// Result of a command for the qdisc: the laws of the queues that it has given parameters.
pub type Rules = Vec<(u8, RedParams)>;

/// A word of a command with its value; a flag has none.
#[derive(Clone, Copy, Debug)]
struct Said {
    key: &'static str,
    /// The key as it was written.
    word: &'static str,
    value: u64,
    /// Its place in the line.
    at: usize,
}

/// Declares a parameter.
const fn param(
    words: &'static [&'static str],
    (expected, quantity): (&'static str, Quantity),
    range: &'static str,
    default: &'static str,
    about: &'static str,
) -> Param {
    Param {
        key: words[0],
        words,
        flag: false,
        alone: &[],
        about,
        expected,
        quantity,
        range,
        default,
        attribute: None,
    }
}

const fn flag(words: &'static [&'static str], about: &'static str) -> Param {
    Param { flag: true, ..param(words, (<bool as Value>::EXPECTED, Quantity::Other), "", "false", about) }
}

const NUMBER: (&str, Quantity) = (<u32 as Value>::EXPECTED, Quantity::Other);
const SIZE: (&str, Quantity) = (<Bytes as Value>::EXPECTED, Quantity::Bytes);
const RATE: (&str, Quantity) = (<Rate as Value>::EXPECTED, Quantity::Rate);
const CHANCE: (&str, Quantity) = (<Probability as Value>::EXPECTED, Quantity::Other);
const QUEUE: (&str, Quantity) = (QUEUE_EXPECTED, Quantity::Other);
/// The range of sizes.
const BITS_32: &str = "at most 4294967295 bytes";

impl Params for Config {
    const TABLE: &'static [Param] = &[
        flag(
            &["setup"],
            "Begins the words of the qdisc; without it those of one virtual queue follow. Must be given to a new qdisc.",
        ),
        param(
            &["vqs", "DPs"],
            NUMBER,
            "1 to 16",
            "0",
            "Number of virtual queues. Must be given with `setup`.",
        ),
        param(
            &["default"],
            NUMBER,
            "",
            "0",
            "The virtual queue of packets that name none with parameters. Must be given with `setup`.",
        ),
        flag(
            &["grio"],
            "Add the averages of queues of lower `prio` to that of a queue; queues of one `prio` share an average.",
        ),
        param(
            &["limit"],
            SIZE,
            BITS_32,
            "0",
            concat!(
                "With `setup`, most bytes of packets without a queue, and the greatest limit of one; 0 is the ",
                "length of the device's queue in full frames. Of a queue, most bytes that wait."
            ),
        ),
        flag(
            &["ecn"],
            "Mark ECN-capable packets instead of dropping them: of all queues with `setup`, or of one.",
        ),
        flag(&["harddrop"], "Drop, and do not mark, when the average is at `max` or above."),
        param(&["vq", "DP"], QUEUE, "0 to 15", "0", "The virtual queue that the other words are about."),
        param(&["min"], SIZE, BITS_32, "0", "Average queue from which on packets are marked. Must be given."),
        param(
            &["max"],
            SIZE,
            BITS_32,
            "0",
            "Average queue from which on every packet is marked. Must be given.",
        ),
        param(
            &["avpkt"],
            SIZE,
            BITS_32,
            "0",
            "Size of an average packet: it and `burst` set the weight of the average. Must be given.",
        ),
        param(
            &["burst"],
            NUMBER,
            "",
            "0",
            "Packets that may arrive at once at an empty queue without a mark; 0 is `(2 min + max) / (3 avpkt)`.",
        ),
        param(
            &["bandwidth"],
            RATE,
            "at most 34359738360bit",
            "10Mbit",
            "Rate of the link: the average of an idle queue decays at this rate.",
        ),
        param(
            &["probability"],
            CHANCE,
            "at most 1",
            "0.02",
            "Chance of a mark when the average is just below `max`.",
        ),
        param(
            &["prio"],
            NUMBER,
            "0 to 255",
            "0",
            "Priority with `grio`: the averages of lower numbers count too; 0 is that of the default queue, or 8.",
        ),
    ];

    fn defaults(_env: &Env) -> Self {
        Self::default()
    }
    fn set(&mut self, key: &str, words: &mut Words<'_>) -> SetOutcome {
        let find = |param: &'static Param| Some((param, param.words.iter().find(|word| **word == key)?));
        let Some((param, word)) = Self::TABLE.iter().find_map(find) else { return SetOutcome::UnknownKey };
        let at = words.at().saturating_sub(1);
        let read = match param.key {
            _ if param.flag => Ok(1),
            "limit" | "min" | "max" | "avpkt" => Bytes::take(words).map(|b| b.0),
            "bandwidth" => Rate::take(words).map(|r| r.0),
            "probability" => Probability::take(words).map(|p| p.0),
            _ => u32::take(words).map(u64::from),
        };
        let value = match read {
            Ok(value) => value,
            Err(refusal) => return SetOutcome::BadValue(param, refusal),
        };
        let good = match param.key {
            "vqs" => (1..=QUEUES as u64).contains(&value),
            "vq" => value < QUEUES as u64,
            "prio" => value <= u8::MAX.into(),
            "probability" => value <= Probability::ONE.0,
            _ => value <= u32::MAX.into(),
        };
        if !good {
            return SetOutcome::OutOfRange(param);
        }
        self.said.push(Said { key: param.key, word, value, at });
        SetOutcome::Set
    }
    fn visit(&self, f: &mut dyn FnMut(Shown<'_>)) {
        let (vqs, default, limit) = (u32::from(self.vqs), u32::from(self.default), Bytes(self.limit.into()));
        let setup = self.vqs > 0;
        let queues = Queues { all: &self.queues, own_flags: self.flags == Flags::NONE };
        for param in Self::TABLE {
            let word = Some(param.key);
            let on = |value: bool| word.filter(|_| value);
            let (word, value): (_, &dyn Show) = match param.key {
                "setup" => (on(setup), &setup),
                "vqs" => (word, &vqs),
                "default" => (word, &default),
                "grio" => (on(self.grio), &self.grio),
                "limit" => (word, &limit),
                "ecn" => (on(self.flags.ecn), &self.flags.ecn),
                "harddrop" => (on(self.flags.harddrop), &self.flags.harddrop),
                "vq" => (word, &queues),
                _ => (word, &Within),
            };
            f(Shown { param, word, value });
        }
    }
}

/// A parameter of the virtual queues, which `vq` shows.
struct Within;

impl Show for Within {
    fn is_set(&self) -> bool {
        false
    }
    fn text(&self, _f: &mut dyn fmt::Write) -> fmt::Result {
        Ok(())
    }
    fn json(&self) -> Json {
        Json::Bool(false)
    }
}

/// The virtual queues in words, without the first `vq`.
struct Queues<'a> {
    all: &'a [(u8, QueueConfig)],
    /// False if the flags are those of the qdisc.
    own_flags: bool,
}

impl Show for Queues<'_> {
    fn is_set(&self) -> bool {
        !self.all.is_empty()
    }
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        for (nth, (number, queue)) in self.all.iter().enumerate() {
            let QueueConfig { limit, min, max, avpkt, burst, prio, flags, .. } = queue;
            f.write_str(if nth > 0 { " vq " } else { "" })?;
            write!(f, "{number} limit {limit}b min {min}b max {max}b avpkt {avpkt}b burst {burst}")?;
            let (rate, chance) = (exact_of(&queue.bandwidth), exact_of(&queue.probability));
            write!(f, " bandwidth {rate} probability {chance} prio {prio}")?;
            for (word, _) in [("ecn", flags.ecn), ("harddrop", flags.harddrop)]
                .iter()
                .filter(|(_, on)| *on && self.own_flags)
            {
                write!(f, " {word}")?;
            }
        }
        Ok(())
    }
    fn json(&self) -> Json {
        if self.is_set() { Json::Text(exact_of(self)) } else { Json::Bool(false) }
    }
}

fn error(kind: ErrorKind, key: &str, expected: &str, given: &str) -> ConfigError {
    ConfigError::new(kind, Object::Kind(KIND), expected, given).key(key)
}

/// Returns the last value of a key in some words; 0 if there is none.
fn value(said: &[Said], key: &str) -> u64 {
    said.iter().rfind(|s| s.key == key).map_or(0, |s| s.value)
}

/// Returns the same where it has at most 32 bits, which `set` has checked.
fn bits32(said: &[Said], key: &str) -> u32 {
    u32::try_from(value(said, key)).unwrap_or(u32::MAX)
}

/// Returns the same where it has at most 8 bits, which `set` has checked.
fn bits8(said: &[Said], key: &str) -> u8 {
    u8::try_from(value(said, key)).unwrap_or(u8::MAX)
}

fn flags(said: &[Said]) -> Flags {
    Flags { ecn: value(said, "ecn") > 0, harddrop: value(said, "harddrop") > 0 }
}

/// Refuses words that do not belong to the others of their line.
fn foreign(said: &[Said], own: fn(&str) -> bool, expected: &str) -> Result<(), ConfigError> {
    match said.iter().find(|s| !own(s.key)) {
        Some(s) => {
            Err(ConfigError::new(ErrorKind::UnknownKey, Object::Kind(KIND), expected, s.word).word(s.at))
        }
        None => Ok(()),
    }
}

impl Config {
    /// Applies the words of the present command to the parameters, which were the `old` ones.
    /// Returns the laws of the queues that it gives parameters.
    pub(super) fn settle(&mut self, env: &Env) -> Result<Rules, ConfigError> {
        let said = core::mem::take(&mut self.said);
        if !said.iter().any(|s| s.key == "setup") {
            foreign(&said, |key| !matches!(key, "vqs" | "default" | "grio"), "setup before it")?;
            let (queue, law) = Self::queue_of(&said)?;
            self.check_queue(&said)?;
            self.put(&said, queue);
            return Ok(vec![(bits8(&said, "vq"), law)]);
        }
        let first = said.iter().position(|s| s.key == "vq").unwrap_or(said.len());
        let (table, mut rest) = said.split_at(first);
        let is_table =
            |key: &str| matches!(key, "setup" | "vqs" | "default" | "grio" | "limit" | "ecn" | "harddrop");
        foreign(table, is_table, "vq before it")?;
        foreign(rest, |key| !matches!(key, "setup" | "vqs" | "default" | "grio"), "setup in front of vq")?;
        let own = self.set_up(table, env)?;
        let mut laws = Rules::new();
        // Bound: as many turns as there are words.
        while let [begin, more @ ..] = rest {
            let count = more.iter().position(|s| s.key == "vq").map_or(rest.len(), |at| at + 1);
            let (words, others) = rest.split_at(count);
            rest = others;
            let (mut queue, law) = Self::queue_of(words)?;
            let number = begin.value;
            if number >= self.vqs.into() {
                return Err(beyond(number, self.vqs));
            }
            if own != Flags::NONE {
                if queue.flags != Flags::NONE {
                    return Err(both_flags("vq"));
                }
                queue.flags = own;
            }
            self.put_as_given(words, queue);
            let number = bits8(words, "vq");
            laws.retain(|(other, _)| *other != number);
            laws.push((number, law));
        }
        Ok(laws)
    }

    /// Takes the words of the qdisc; returns its flags.
    fn set_up(&mut self, said: &[Said], env: &Env) -> Result<Flags, ConfigError> {
        let given = |key: &str| said.iter().rfind(|s| s.key == key);
        let (Some(vqs), Some(default)) = (given("vqs"), given("default")) else {
            let what = "vqs and default with setup";
            return Err(error(ErrorKind::Missing, "vqs", what, ""));
        };
        if default.value >= vqs.value {
            let expected = format!("a queue below {}, the number of them", vqs.value);
            let given = format!("{}", default.value);
            return Err(error(ErrorKind::OutOfRange, "default", &expected, &given).word(default.at + 1));
        }
        let own = flags(said);
        if own != Flags::NONE
            && self.flags == Flags::NONE
            && self.queues.iter().any(|(_, queue)| queue.flags != Flags::NONE)
        {
            return Err(both_flags("setup"));
        }
        if own != self.flags {
            self.queues.iter_mut().for_each(|(_, queue)| queue.flags = own);
        }
        (self.vqs, self.default) = (bits8(said, "vqs"), bits8(said, "default"));
        (self.grio, self.flags) = (value(said, "grio") > 0, own);
        match bits32(said, "limit") {
            // tc does not send a limit of 0 to the kernel.
            0 if self.limit > 0 => {}
            0 => {
                let all = u64::from(env.tx_queue_len) * u64::from(env.frame_max());
                self.limit = u32::try_from(all).unwrap_or(u32::MAX);
            }
            limit => self.limit = limit,
        }
        let vqs = self.vqs;
        self.queues.retain(|(number, _)| *number < vqs);
        Ok(own)
    }

    /// Returns the parameters of a queue by its words, and their law: tc works both out before it
    /// asks the kernel.
    fn queue_of(said: &[Said]) -> Result<(QueueConfig, RedParams), ConfigError> {
        let sizes = ["limit", "min", "max", "avpkt"];
        let missing = |key: &&&str| value(said, key) == 0;
        if let Some(key) =
            sizes.iter().find(missing).or(["vq"].iter().find(|_| !said.iter().any(|s| s.key == "vq")))
        {
            return Err(error(
                ErrorKind::Missing,
                key,
                "vq, limit, min, max and avpkt, none of the sizes 0",
                "",
            ));
        }
        let [limit, min, max, avpkt] = sizes.map(|key| bits32(said, key));
        let burst = match bits32(said, "burst") {
            0 => (2 * u64::from(min) + u64::from(max)) / (3 * u64::from(avpkt)),
            given => given.into(),
        };
        let bandwidth = match value(said, "bandwidth") {
            0 => BANDWIDTH,
            given => Rate(given),
        };
        let chance = said.iter().rfind(|s| s.key == "probability");
        let mut queue = QueueConfig {
            limit,
            min,
            max,
            avpkt,
            burst: u32::try_from(burst).unwrap_or(u32::MAX),
            bandwidth,
            probability: Probability(chance.map_or(PROBABILITY, |s| s.value)),
            prio: bits8(said, "prio"),
            flags: flags(said),
        };
        let law = queue.law()?;
        queue.probability = Probability(law.probability().into());
        Ok((queue, law))
    }

    /// Refuses a queue of its own line, as the kernel does.
    fn check_queue(&self, said: &[Said]) -> Result<(), ConfigError> {
        if self.vqs == 0 {
            let err = error(ErrorKind::Missing, "setup", "setup, vqs and default for a new qdisc", "");
            return Err(err.reason(Reason::Part));
        }
        let number = value(said, "vq");
        if number >= self.vqs.into() {
            return Err(beyond(number, self.vqs));
        }
        if self.flags != Flags::NONE {
            return Err(both_flags("vq"));
        }
        Ok(())
    }

    /// Gives a queue its parameters, as a line of its own does.
    fn put(&mut self, said: &[Said], mut queue: QueueConfig) {
        queue.limit = queue.limit.min(self.limit);
        if !self.grio {
            // Linux then ignores it.
            queue.prio = PRIO;
        }
        self.put_as_given(said, queue);
    }

    /// Gives a queue its parameters, as a line for the whole does, which may restore any state.
    fn put_as_given(&mut self, said: &[Said], mut queue: QueueConfig) {
        let number = bits8(said, "vq");
        if queue.prio == 0 {
            queue.prio = self.queue(self.default).filter(|_| self.grio).map_or(PRIO, |default| default.prio);
        }
        match self.queues.binary_search_by_key(&number, |(number, _)| *number) {
            Ok(at) => self.queues[at].1 = queue,
            Err(at) => self.queues.insert(at, (number, queue)),
        }
    }

    /// Returns the parameters of a queue, if it has any.
    pub fn queue(&self, number: u8) -> Option<&QueueConfig> {
        self.queues.iter().find(|(n, _)| *n == number).map(|(_, queue)| queue)
    }

    /// True if queues that have parameters share one average: if two of them have the same
    /// priority.
    pub fn shares_average(&self) -> bool {
        let alike = |at: usize, prio: u8| self.queues[at + 1..].iter().any(|(_, other)| other.prio == prio);
        self.grio && self.queues.iter().enumerate().any(|(at, (_, queue))| alike(at, queue.prio))
    }
}

/// 0.02, as tc has it, in units of 2^-32.
const PROBABILITY: u64 = 85_899_345;

fn beyond(number: u64, vqs: u8) -> ConfigError {
    let expected = format!("a queue below {vqs}, the number of them");
    error(ErrorKind::OutOfRange, "vq", &expected, &format!("{number}"))
}

/// Returns the refusal of flags of the qdisc beside those of a queue; `key` begins the words that
/// are refused.
fn both_flags(key: &str) -> ConfigError {
    let expected = "ecn and harddrop either with setup or with the virtual queues";
    error(ErrorKind::Conflict, key, expected, "both")
}
