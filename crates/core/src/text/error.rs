//! The one control-plane error: its kind, the object, the key, the expected and the given value.
//! Failures on the data path are counted reasons, not errors.
//!
//! `kind`, `object` and `reason` are for programs. `expected`, `given` and `hint` are texts for
//! people; no program decides by them.

use alloc::string::{String, ToString};
use core::fmt;

use crate::base::handle::Handle;

/// The kind of a configuration error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No qdisc kind of that name.
    UnknownKind,
    /// The kind has no such parameter.
    UnknownKey,
    /// The words after the key are not a value of its type.
    BadValue,
    /// A well-formed value outside its range.
    OutOfRange,
    /// A percentage of a link whose rate is not known.
    NoLinkRate,
    /// A required parameter was not given.
    Missing,
    /// Two parameters contradict each other, or a change is not possible while running.
    Conflict,
    /// No qdisc or class of that name.
    NotFound,
    /// The place or the name is taken.
    Exists,
    /// The object does not support this.
    Unsupported,
}

/// The finer reason of an error, where a program does different things for errors of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The kind of qdisc stands only at the root of a device (`Unsupported`).
    RootOnly,
    /// The qdisc cannot be changed while it runs (`Unsupported`).
    Unchangeable,
    /// The object itself exists already (`Exists`); without this reason, another one holds its
    /// place or its name.
    AlreadyThere,
    /// The option needs another one, which is missing (`Conflict`).
    Alone,
    /// Other qdiscs share the rate of that name at another rate or burst (`Conflict`).
    SharedRate,
    /// The value is outside the range that its parameter declares (`OutOfRange`); without this
    /// reason, it does not fit the values of other parameters, or its type refuses it.
    DeclaredRange,
    /// The memory budget of the device (`Env::memory`) would not hold (`OutOfRange`).
    Memory,
    /// The qdisc at the place has another handle than the given one (`Exists`).
    OtherHandle,
    /// No qdisc has the handle (`NotFound`); without this reason, the qdisc has no such class.
    NoQdisc,
    /// The qdisc has no classes (`NotFound`).
    Classless,
    /// There are more elements than the object can have (`OutOfRange`); without this reason, there
    /// are too few.
    TooMany,
    /// The words change a part of a qdisc, and there is none (`Missing`).
    Part,
    /// Other objects refer to it (`Conflict`).
    InUse,
    /// It came with another object, and leaves with that only (`Conflict`).
    OfParent,
    /// The number for a new object is taken, or none is free (`Exists`, `OutOfRange`); without this
    /// reason, the command names an object that exists.
    NumberTaken,
    /// The place is a block that devices share (`Missing`).
    SharedBlock,
}

/// The object that an error is about. Its text begins the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Object {
    /// The options of a kind of qdisc, or of its classes: `fq_codel`.
    Kind(&'static str),
    /// A qdisc, named by its handle if it has one: `qdisc 1:`, `qdisc`.
    Qdisc(Option<Handle>),
    /// A class, or the place in it, named as far as it is known: `class 1:4`, `class`.
    Class(Option<Handle>),
    /// The root of a device: `root`.
    Root,
    /// A tree of qdiscs: `a tree`.
    Tree,
    /// A size table: `stab`.
    SizeTable,
    /// The traffic classes of a device: `traffic classes`.
    TrafficClasses,
    /// Several transmit queues together: `port`.
    Port,
    /// A modelled device: `wire`.
    Wire,
    /// A traffic class of a modelled device, counted from 0: `wire class 1`.
    WireClass(usize),
    /// A filter, with its kind if that is known: `filter u32`, `filter`.
    Filter(Option<&'static str>),
    /// A chain of filters: `chain`.
    Chain,
    /// A block of chains: `block`.
    Block,
    /// An action, with its kind if that is known: `action gact`, `action`.
    Action(Option<&'static str>),
    /// An action of a kind by its index: `action gact index 1`.
    ActionAt(&'static str, u32),
    /// The options of a kind of action: `police`.
    ActionOptions(&'static str),
}

impl Object {
    /// Returns the place of a qdisc: `Root`, or the class that `parent` names.
    pub fn place(parent: Handle) -> Self {
        if parent == Handle::ROOT { Self::Root } else { Self::Class(Some(parent)) }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Kind(kind) | Self::ActionOptions(kind) => kind,
            Self::Qdisc(Some(handle)) => return write!(f, "qdisc {handle}"),
            Self::Qdisc(None) => "qdisc",
            Self::Class(Some(class)) => return write!(f, "class {class}"),
            Self::Class(None) => "class",
            Self::Root => "root",
            Self::Tree => "a tree",
            Self::SizeTable => "stab",
            Self::TrafficClasses => "traffic classes",
            Self::Port => "port",
            Self::Wire => "wire",
            Self::WireClass(index) => return write!(f, "wire class {index}"),
            Self::Filter(Some(kind)) => return write!(f, "filter {kind}"),
            Self::Filter(None) => "filter",
            Self::Chain => "chain",
            Self::Block => "block",
            Self::Action(Some(kind)) => return write!(f, "action {kind}"),
            Self::Action(None) => "action",
            Self::ActionAt(kind, index) => return write!(f, "action {kind} index {index}"),
        };
        f.write_str(text)
    }
}

/// Nouns of several words with which an expected value begins.
const NOUNS: [&str; 5] =
    ["a whole number", "a whole percentage", "a hexadecimal number", "a part of one", "a qdisc handle"];

/// Refusal of a configuration, of which nothing was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The kind.
    pub kind: ErrorKind,
    /// The finer reason, where programs tell errors of one kind apart.
    pub reason: Option<Reason>,
    /// The object: `fq_codel`, `qdisc 1:`, `class 1:4`.
    pub object: Object,
    /// The parameter, if the error is about one.
    pub key: Option<String>,
    /// Expected value, in words.
    pub expected: String,
    /// Given words; empty if there were none.
    pub given: String,
    /// Advice to the user.
    pub hint: Option<String>,
    /// Index of the offending word among those passed in, for a caret.
    pub word: Option<usize>,
}

impl ConfigError {
    /// Returns an error about `object`.
    pub fn new(kind: ErrorKind, object: Object, expected: impl ToString, given: impl ToString) -> Self {
        Self {
            kind,
            reason: None,
            object,
            key: None,
            expected: expected.to_string(),
            given: given.to_string(),
            hint: None,
            word: None,
        }
    }
    /// Sets the finer reason.
    #[must_use]
    pub const fn reason(mut self, reason: Reason) -> Self {
        self.reason = Some(reason);
        self
    }
    /// Sets the parameter that the error is about.
    #[must_use]
    pub fn key(mut self, key: impl ToString) -> Self {
        self.key = Some(key.to_string());
        self
    }
    /// Sets the advice.
    #[must_use]
    pub fn hint(mut self, hint: impl ToString) -> Self {
        self.hint = Some(hint.to_string());
        self
    }
    /// Sets the index of the offending word.
    #[must_use]
    pub const fn word(mut self, word: usize) -> Self {
        self.word = Some(word);
        self
    }
    /// True if no word was given.
    pub fn is_given_nothing(&self) -> bool {
        self.given.is_empty()
    }
    /// True if this word was given.
    pub fn is_given(&self, word: &str) -> bool {
        self.given == word
    }
    /// Returns the noun of the expected value: `a rate` of `a rate (10mbit, 1.5gbit)`. `None` where
    /// the text does not begin with one.
    pub fn expected_noun(&self) -> Option<&str> {
        if let Some(noun) = NOUNS.iter().copied().find(|noun| self.expected.starts_with(*noun)) {
            return Some(noun);
        }
        let noun = self.expected.strip_prefix("a ")?;
        let end = noun.find([' ', '(', ',']).unwrap_or(noun.len());
        self.expected.get(.."a ".len() + end)
    }
}

impl fmt::Display for ConfigError {
    /// Writes `fq_codel limit: expected at least 1 packet, given "0" (hint)`; for a percentage of
    /// an unknown rate, `tbf rate: 50% of a link whose rate is not known (hint)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.object)?;
        if let Some(key) = &self.key {
            write!(f, " {key}")?;
        }
        match (self.kind, self.given.as_str()) {
            (ErrorKind::NoLinkRate, given) => write!(f, ": {given} of a link whose rate is not known")?,
            (_, "") => write!(f, ": expected {}, given nothing", self.expected)?,
            (_, given) => write!(f, ": expected {}, given \"{given}\"", self.expected)?,
        }
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_noun_of_an_expected_value_has_all_its_words() {
        for (expected, noun) in [
            ("a rate (10mbit, 1.5gbit)", Some("a rate")),
            ("a number of packets", Some("a number")),
            ("a whole number", Some("a whole number")),
            ("a whole number, at most 1048576", Some("a whole number")),
            ("a whole percentage (10, 10%)", Some("a whole percentage")),
            ("a hexadecimal number up to ffff", Some("a hexadecimal number")),
            ("a part of one (0.0005), at most 1", Some("a part of one")),
            ("a qdisc handle, minor 0", Some("a qdisc handle")),
            ("at least 1 packet", None),
        ] {
            let err = ConfigError::new(ErrorKind::BadValue, Object::Wire, expected, "x");
            assert_eq!(err.expected_noun(), noun, "{expected}");
        }
    }
}
