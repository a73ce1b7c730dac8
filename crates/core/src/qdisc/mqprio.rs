//! mqprio: traffic classes of transmit queues. A packet's priority gives its class, the class has
//! queues in a row, and the flow hash chooses among them; each queue has a qdisc of its own, as
//! with mq (tc-mqprio(8)). The device decides between the classes: with `hw 1` an able device is
//! told of the classes and schedules them itself (strict priority, ETS, rates); without it the
//! queues are served in turn.
//!
//! The port chooses the queue (`crate::path::select`, by [`Config::classes`]). On a
//! `crate::path::port::Port` each queue is a transmit path of its own and this qdisc only stands
//! for them; where one path feeds all queues, it does the same in one place (`qdisc::by_queue`).
//!
//! - I1: every priority has a class, every class has queues that exist, and no two classes share
//!   one.
//! - Differs from Linux (PARITY.md: mq-deleted-child, mq-graft, mqprio-class-packets,
//!   mqprio-failed-add, mqprio-same-change, mqprio-status): a refused mqprio changes nothing.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::base::env::Env;
use crate::base::env::{Caps, Offload};
use crate::base::units::Rate;
use crate::qdisc::by_queue::{self, ByQueue};
use crate::qdisc::fifo::NoStats;
use crate::qdisc::mq::default_child;
use crate::qdisc::multiq::several_queues;
use crate::sched::capability::{Capability, Classes};
use crate::sched::cx::Cx;
use crate::sched::discipline::Discipline;
use crate::sched::erased::Qdisc;
use crate::sched::node::Class;
use crate::sched::schedule::{ClassConfig, LineConfig, Service};
use crate::sched::spec::{ClassShape, Flags, RefusedBy, Refuser};
use crate::sched::traffic::{CLASSES_MAX, Range, TrafficClasses};
use crate::text::error::{ConfigError, ErrorKind, Object, Reason};
use crate::text::params::{Params, apply};
use crate::text::value::{Json, PrioMap, Quantity, Refusal, Show, Value, Words, exact_of, text_of};

/// Name of the kind.
pub(crate) const KIND: &str = Mqprio::KIND;

/// The class number of traffic class 0, above those of the queues; the others follow.
pub const CLASS_MINOR: u16 = 0xffe0;

/// The map that tc takes if none is given.
const MAP: PrioMap = PrioMap([0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 1, 1, 3, 3, 3, 3]);

crate::params! {
    /// Parameters of mqprio.
    pub struct Config(env) {
        /// Traffic classes.
        num_tc: u32 = 8, keys ["num_tc"], "1 to 16": |n| (1..=16).contains(n);
        /// The traffic class of each priority from 0; those left out are class 0.
        map: PrioMap = MAP, keys ["map"];
        /// The queues of each class, COUNT@OFFSET. With `hw 1` the device may choose if none are
        /// given.
        queues: Ranges = Ranges(Vec::new()), keys ["queues"];
        /// 1 if the device is to schedule the classes, 0 if queues are served in turn.
        hw: u32 = 1, keys ["hw"], "0 to 2": |n| *n <= 2;
        /// Mode of the offload: `dcb`, or `channel` with queues and rates. With `hw 1` only.
        mode: Mode = Mode::Dcb, keys ["mode"];
        /// Shaper of the classes in the device: `dcb`, or `bw_rlimit` with the rates below. With
        /// `hw 1` only.
        shaper: Shaper = Shaper::Dcb, keys ["shaper"];
        /// Minimum rate of each class. With `shaper bw_rlimit` only.
        min_rate: Rates = Rates(Vec::new()), keys ["min_rate"];
        /// Maximum rate of each class. With `shaper bw_rlimit` only.
        max_rate: Rates = Rates(Vec::new()), keys ["max_rate"];
        /// For each class, express frames (E) or preemptible ones (P), IEEE 802.1Qbu. With `hw 1`
        /// only.
        fp: Preemption = Preemption(Vec::new()), keys ["fp"];
    }
}

impl Config {
    /// Returns the traffic classes that it makes of a port's queues.
    pub fn classes(&self) -> Result<TrafficClasses, ConfigError> {
        TrafficClasses::new(self.map.0, &self.queues.0)
    }

    /// Returns the schedule of these classes for a device of `queues` queues: strict priority, the
    /// highest class first. If classes have a minimum rate, they share by equal weights instead,
    /// because a class that goes before the others could not leave them their rates. Queues without
    /// a class come last.
    pub fn line(&self, queues: u16) -> LineConfig {
        let ranges = self.queues.0.iter().take(self.num_tc as usize);
        let shares = !self.min_rate.0.is_empty();
        let service = if shares { Service::Ets(1) } else { Service::Strict };
        let rate = |rates: &Rates, tc: usize| rates.0.get(tc).copied().filter(|rate| rate.0 > 0);
        let classes = ranges.clone().enumerate().map(|(tc, range)| ClassConfig {
            min_rate: rate(&self.min_rate, tc),
            max_rate: rate(&self.max_rate, tc),
            preemptible: self.fp.0.get(tc).copied().unwrap_or(false),
            ..ClassConfig::new(range.count, range.offset, service)
        });
        let mut left = Vec::new();
        let mut at = 0;
        let mut taken: Vec<&Range> = ranges.collect();
        taken.sort_by_key(|range| range.offset);
        for (start, end) in
            taken.iter().map(|r| (r.offset, r.offset.saturating_add(r.count))).chain([(queues, queues)])
        {
            if start > at {
                left.push(ClassConfig::new(start - at, at, service));
            }
            at = at.max(end);
        }
        left.extend(classes);
        LineConfig::classes(queues, &left)
    }

    fn check(&self, env: &Env) -> Result<(), ConfigError> {
        let num_tc = self.num_tc as usize;
        let bad = |kind, key: &str, expected: &dyn core::fmt::Display, given: &dyn core::fmt::Display| {
            Err(ConfigError::new(kind, Object::Kind(Mqprio::KIND), expected, given).key(key))
        };
        if let Some((priority, tc)) =
            self.map.0.iter().enumerate().find(|(_, tc)| usize::from(**tc) >= num_tc)
        {
            let expected = format!("traffic classes below {num_tc}");
            return bad(ErrorKind::OutOfRange, "map", &expected, &format!("{tc} for priority {priority}"));
        }
        for (key, given) in [
            ("queues", self.queues.0.len()),
            ("min_rate", self.min_rate.0.len()),
            ("max_rate", self.max_rate.0.len()),
            ("fp", self.fp.0.len()),
        ] {
            if given > num_tc {
                return bad(
                    ErrorKind::OutOfRange,
                    key,
                    &format!("one for each of the {num_tc} traffic classes"),
                    &given,
                );
            }
        }
        if self.hw == 0 {
            let extra = [
                ("mode", self.mode != Mode::Dcb),
                ("shaper", self.shaper != Shaper::Dcb),
                ("min_rate", !self.min_rate.0.is_empty()),
                ("max_rate", !self.max_rate.0.is_empty()),
                ("fp", !self.fp.0.is_empty()),
            ];
            if let Some((key, _)) = extra.into_iter().find(|(_, given)| *given) {
                return bad(ErrorKind::Conflict, key, &"hw 1 beside it", &"hw 0");
            }
        }
        if self.hw != 0 {
            self.check_offload(env)?;
        }
        self.check_queues(env)?;
        if self.hw != 0 { self.check_line(env) } else { Ok(()) }
    }

    /// Checks that the device can keep the rates and the numbers asked of it.
    fn check_line(&self, env: &Env) -> Result<(), ConfigError> {
        let caps = Caps { queues: env.queues, offload: env.offload };
        let rate = env.link_rate.unwrap_or(Rate(u64::MAX));
        let err = self.line(env.queues).check(&caps, rate);
        err.map_err(|err| ConfigError { object: Object::Kind(KIND), ..err })
    }

    /// Checks that the device offers the offload that is asked of it (`hw` is not 0).
    fn check_offload(&self, env: &Env) -> Result<(), ConfigError> {
        let cannot = |key: &str, expected: &str, given: &dyn core::fmt::Display| {
            let err = ConfigError::new(ErrorKind::Unsupported, Object::Kind(Mqprio::KIND), expected, given)
                .key(key);
            Err(err.hint("hw 0 serves the queues in turn, on any device"))
        };
        let offload = &env.offload;
        let classes = usize::from(offload.classes);
        let told = match self.mode {
            Mode::Dcb => offload.dcb,
            Mode::Channel => offload.channel,
        };
        if self.hw != 1 || !(offload.dcb || offload.channel) {
            return cannot("hw", "a device that schedules traffic classes itself", &self.hw);
        }
        if classes < self.num_tc as usize {
            return cannot(
                "num_tc",
                &format!("at most {classes}, the traffic classes of the device"),
                &self.num_tc,
            );
        }
        if !told {
            return cannot("mode", "a mode that the device knows", &text_of(&self.mode));
        }
        if self.mode == Mode::Dcb && self.shaper != Shaper::Dcb {
            return cannot("shaper", "dcb, with mode dcb", &text_of(&self.shaper));
        }
        let rates = !self.min_rate.0.is_empty() || !self.max_rate.0.is_empty();
        if rates && self.shaper != Shaper::BwRlimit {
            return cannot("shaper", "bw_rlimit, with rates", &text_of(&self.shaper));
        }
        if self.shaper == Shaper::BwRlimit && !offload.bw_rlimit {
            return cannot("shaper", "a device that keeps rates for traffic classes", &text_of(&self.shaper));
        }
        if self.fp.0.contains(&true) && !offload.fp {
            return cannot("fp", "a device that interrupts frames", &text_of(&self.fp));
        }
        Ok(())
    }

    /// Checks that every class has queues that exist, and that no two classes share one.
    fn check_queues(&self, env: &Env) -> Result<(), ConfigError> {
        let bad = |expected: &dyn core::fmt::Display, given: &dyn core::fmt::Display| {
            Err(ConfigError::new(ErrorKind::OutOfRange, Object::Kind(Mqprio::KIND), expected, given)
                .key("queues"))
        };
        for tc in 0..self.num_tc as usize {
            let range = self.queues.0.get(tc).copied().unwrap_or_default();
            let given = format!("{}@{} for traffic class {tc}", range.count, range.offset);
            if range.count == 0 {
                return bad(&"at least one queue for each traffic class", &given);
            }
            if u32::from(range.offset) + u32::from(range.count) > u32::from(env.queues) {
                return bad(&format!("queues below {}, which the device has", env.queues), &given);
            }
            let before = self.queues.0.iter().take(tc).enumerate();
            let meets =
                |r: &Range| range.offset < r.offset + r.count && r.offset < range.offset + range.count;
            if let Some((other, r)) = before.into_iter().find(|(_, r)| meets(r)) {
                let expected =
                    format!("queues that traffic class {other} has not ({}@{})", r.count, r.offset);
                return bad(&expected, &given);
            }
        }
        Ok(())
    }
}

/// Returns the traffic classes that a root makes of the queues; `None` if it is of another kind.
pub fn classes_of(root: &dyn Qdisc) -> Option<TrafficClasses> {
    config_of(root)?.classes().ok()
}

/// Returns the schedule that a root asks of a device with this number of queues; `None` if it
/// leaves the schedule to the device (`hw 0`) or is of another kind.
pub fn line_of(root: &dyn Qdisc, queues: u16) -> Option<LineConfig> {
    config_of(root).filter(|config| config.hw == 1).map(|config| config.line(queues))
}

/// Returns the options of a root; `None` if it is of another kind.
fn config_of(root: &dyn Qdisc) -> Option<Config> {
    if root.spec().kind != KIND {
        return None;
    }
    let mut words: Vec<String> = Vec::new();
    root.options(&mut |s| {
        if s.value.is_set() {
            words.extend(s.word.map(String::from));
            words.extend(exact_of(s.value).split(' ').map(String::from));
        }
    });
    let words: Vec<&str> = words.iter().map(|w| &**w).collect();
    // None of these options depends on the device.
    let mut config = Config::defaults(&Env::default());
    apply(&mut config, KIND, &mut Words::new(&words)).ok()?;
    Some(config)
}

/// Traffic classes of transmit queues.
#[derive(Debug)]
pub struct Mqprio(ByQueue);

impl Discipline for Mqprio {
    const KIND: &'static str = "mqprio";
    const REFUSED_BY: RefusedBy = |err, words| match (err.kind, err.key.as_deref()) {
        (ErrorKind::UnknownKey, _) => Some(Refuser::Usage),
        // A list ends where another key begins, even without a word in it.
        (ErrorKind::BadValue, Some("map" | "queues")) if err.is_given_nothing() => Some(Refuser::Kernel),
        (ErrorKind::BadValue, Some("map" | "queues")) => {
            match Config::TABLE.iter().any(|p| p.words.contains(&&*err.given)) {
                true => Some(Refuser::Kernel),
                false => Some(Refuser::Usage),
            }
        }
        // Without that shaper tc does not know the rates.
        (_, Some("min_rate" | "max_rate")) if !words.contains(&"bw_rlimit") => Some(Refuser::Usage),
        (ErrorKind::BadValue, Some("min_rate" | "max_rate")) => match err.is_given_nothing() {
            true => Some(Refuser::Tool),
            false => Some(Refuser::Usage),
        },
        _ => None,
    };
    const ABOUT: &'static str =
        "Traffic classes of transmit queues, chosen by priority; a qdisc for each queue.";
    const FLAGS: Flags = Flags { shapes: false, reorders: false };
    const SHAPE: ClassShape = ClassShape::ByQueue;
    const TAKES_CLASS: bool = false;
    const ROOT_ONLY: bool = true;
    const CLASSES: Option<Capability<Self, dyn Classes>> = crate::capability!();
    // A class for each queue.
    const TABLES: fn(&Config, &Env) -> u64 = |_, env| u64::from(env.queues) * Class::BYTES;
    type Config = Config;
    type Rules = ();
    type Stats = NoStats;

    fn resolve(cfg: &mut Config, old: Option<&Config>, env: &Env) -> Result<(), ConfigError> {
        if let Some(old) = old {
            if old == cfg {
                return Ok(());
            }
            let expected = "the options that it was made with";
            let err =
                ConfigError::new(ErrorKind::Unsupported, Object::Kind(Self::KIND), expected, "a change")
                    .reason(Reason::Unchangeable);
            return Err(err.hint("delete it and add it anew"));
        }
        several_queues(Self::KIND, env)?;
        if cfg.hw == 1 && env.offload != Offload::NONE && cfg.queues.0.is_empty() {
            cfg.queues = Ranges::even(cfg.num_tc, env.queues);
        }
        cfg.check(env)
    }
    fn new(_cfg: &Config, (): (), env: &Env) -> Self {
        Self(ByQueue::new(env, &|_, env| default_child(env)))
    }
    fn change(&mut self, _cfg: &Config, (): (), env: &Env, cx: &mut Cx) {
        self.0.change(env, &|_, env| default_child(env), cx);
    }
    by_queue::hand_on!();
}

by_queue::classes!(Mqprio, default_child);

/// Reads words while `one` accepts them. Refuses an empty list, and one of more values than there
/// can be traffic classes.
pub(super) fn several<T>(
    words: &mut Words<'_>,
    one: impl Fn(&mut Words<'_>) -> Result<T, Refusal>,
) -> Result<Vec<T>, Refusal> {
    let mut all = Vec::new();
    // Bound: `CLASSES_MAX` and one. No packet waits for this loop.
    while all.len() <= CLASSES_MAX {
        let mut ahead = words.clone();
        let Ok(value) = one(&mut ahead) else { break };
        all.push(value);
        *words = ahead;
    }
    if all.is_empty() || all.len() > CLASSES_MAX { Err(Refusal::NotSuch) } else { Ok(all) }
}

pub(super) fn spaced<T>(
    f: &mut dyn core::fmt::Write,
    all: &[T],
    one: impl Fn(&mut dyn core::fmt::Write, &T) -> core::fmt::Result,
) -> core::fmt::Result {
    for (i, value) in all.iter().enumerate() {
        if i > 0 {
            f.write_char(' ')?;
        }
        one(f, value)?;
    }
    Ok(())
}

/// The queues of each traffic class: `2@0 2@2 1@4`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(pub Vec<Range>);

impl Ranges {
    /// Returns a range for each class, of equal size as far as possible, the first ones larger.
    fn even(classes: u32, queues: u16) -> Self {
        let (n, mut offset) = (classes.clamp(1, CLASSES_MAX as u32) as u16, 0);
        let range = |tc: u16| {
            let range = Range { count: queues / n + u16::from(tc < queues % n), offset };
            offset += range.count;
            range
        };
        Self((0..n).map(range).collect())
    }
}

impl Show for Ranges {
    fn is_set(&self) -> bool {
        !self.0.is_empty()
    }
    fn text(&self, f: &mut dyn core::fmt::Write) -> core::fmt::Result {
        spaced(f, &self.0, |f, r| write!(f, "{}@{}", r.count, r.offset))
    }
    fn json(&self) -> Json {
        Json::Text(text_of(self))
    }
}

impl Value for Ranges {
    const EXPECTED: &'static str = "up to 16 ranges of queues, COUNT@OFFSET (2@0 2@2 1@4)";
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        let one = |words: &mut Words<'_>| {
            let (count, offset) = words.value()?.split_once('@').ok_or(Refusal::NotSuch)?;
            let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
            if !(digits(count) && digits(offset)) {
                return Err(Refusal::NotSuch);
            }
            Ok(Range { count: count.parse()?, offset: offset.parse()? })
        };
        several(words, one).map(Self)
    }
}

/// Rates of traffic classes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rates(pub Vec<Rate>);

impl Show for Rates {
    fn is_set(&self) -> bool {
        !self.0.is_empty()
    }
    fn text(&self, f: &mut dyn core::fmt::Write) -> core::fmt::Result {
        spaced(f, &self.0, |f, rate| rate.text(f))
    }
    fn exact(&self, f: &mut dyn core::fmt::Write) -> core::fmt::Result {
        spaced(f, &self.0, |f, rate| rate.exact(f))
    }
    fn json(&self) -> Json {
        Json::List(self.0.iter().map(|r| r.0).collect())
    }
}

impl Value for Rates {
    const EXPECTED: &'static str = "up to 16 rates (1gbit 2gbit)";
    const QUANTITY: Quantity = Quantity::Rates;
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        several(words, Rate::take).map(Self)
    }
}

/// Frame preemption of each traffic class: true if its frames may be interrupted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preemption(pub Vec<bool>);

impl Preemption {
    const fn letter(preemptible: bool) -> &'static str {
        if preemptible { "P" } else { "E" }
    }
}

impl Show for Preemption {
    fn is_set(&self) -> bool {
        !self.0.is_empty()
    }
    fn text(&self, f: &mut dyn core::fmt::Write) -> core::fmt::Result {
        spaced(f, &self.0, |f, p| f.write_str(Self::letter(*p)))
    }
    fn json(&self) -> Json {
        Json::Texts(self.0.iter().map(|p| Self::letter(*p).into()).collect())
    }
}

impl Value for Preemption {
    const EXPECTED: &'static str = "up to 16 letters, E or P (E E P)";
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        let one = |words: &mut Words<'_>| match words.value()? {
            "E" => Ok(false),
            "P" => Ok(true),
            _ => Err(Refusal::NotSuch),
        };
        several(words, one).map(Self)
    }
}

/// Declares a parameter that is one of two words.
macro_rules! two_words {
    ($(#[$meta:meta])* $name:ident { $first:ident = $a:literal, $second:ident = $b:literal }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            #[doc = concat!("`", $a, "`.")]
            $first,
            #[doc = concat!("`", $b, "`.")]
            $second,
        }

        impl Show for $name {
            // The default is left out: with `hw 0` tc accepts neither word.
            fn is_set(&self) -> bool {
                *self != Self::$first
            }
            fn text(&self, f: &mut dyn core::fmt::Write) -> core::fmt::Result {
                f.write_str(match self { Self::$first => $a, Self::$second => $b })
            }
            fn json(&self) -> Json {
                Json::Text(text_of(self))
            }
        }

        impl Value for $name {
            const EXPECTED: &'static str = concat!($a, " or ", $b);
            fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
                match words.value()? {
                    $a => Ok(Self::$first),
                    $b => Ok(Self::$second),
                    _ => Err(Refusal::NotSuch),
                }
            }
        }
    };
}

two_words! {
    /// The way in which a device is told of traffic classes.
    Mode { Dcb = "dcb", Channel = "channel" }
}

two_words! {
    /// The shaper of a traffic class in the device.
    Shaper { Dcb = "dcb", BwRlimit = "bw_rlimit" }
}
