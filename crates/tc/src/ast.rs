//! The syntax tree of a tc line, by object, each part with its place in the text. Reading a line
//! gives one of these; nothing here knows if the qdisc, class or device that it names exists.

use std::ops::Range;

use txweir_core::Handle;
use txweir_core::base::link::LinkLayer;

use crate::lex::Word;

/// A value and its place in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Its bytes in the source.
    pub span: Range<usize>,
}

/// A line of tc, by its object (tc(8)).
#[derive(Clone, Debug)]
pub enum Command {
    /// `qdisc ...`
    Qdisc(QdiscCommand),
    /// `class ...`
    Class(ClassCommand),
    /// `filter ...`
    Filter(FilterCommand),
    /// `chain ...`
    Chain(ChainCommand),
    /// `actions ...`
    Actions(ActionsCommand),
}

/// The operation of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Adds an object where there is none.
    Add,
    /// Adds an object, or replaces the one that is there.
    Replace,
    /// Gives an existing object other options.
    Change,
    /// Gives an existing qdisc other options, or adds it; an existing one must have been made under
    /// this handle (tc(8), "link").
    Link,
    /// Removes an object.
    Delete,
    /// Prints one object.
    Get,
    /// Prints all objects.
    Show,
    /// Removes all actions of a kind.
    Flush,
}

impl Verb {
    /// True for an operation that prints objects, and changes none.
    #[must_use]
    pub const fn looks(self) -> bool {
        match self {
            Self::Get | Self::Show => true,
            Self::Add | Self::Replace | Self::Change | Self::Link | Self::Delete | Self::Flush => false,
        }
    }
}

/// The place of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At the root, or below a class or qdisc: the parent of `Tree`.
    Below(Handle),
    /// The place of the qdisc of this handle.
    Handle(Handle),
    /// The ingress hook (`ingress`).
    Ingress,
    /// Both hooks (`clsact`).
    Clsact,
    /// The egress hook (`filter ... egress`).
    Egress,
}

/// A device, or a block that several devices share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `dev NAME`
    Dev(Word),
    /// `block INDEX`
    Block(At<u32>),
}

/// `stab ...`: the charged sizes of a qdisc (tc-stab(8)); `None` is the default there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stab {
    /// Bytes added to each packet; may be negative.
    pub overhead: Option<i32>,
    /// Smallest size that is charged, bytes.
    pub mpu: Option<u32>,
    /// `ethernet`, `atm` or `adsl`.
    pub linklayer: Option<LinkLayer>,
    /// Largest size in the table, bytes.
    pub mtu: Option<u32>,
    /// Entries of the table.
    pub tsize: Option<u32>,
}

impl From<&Stab> for txweir_core::sched::stab::Stab {
    fn from(said: &Stab) -> Self {
        Self {
            overhead: said.overhead.unwrap_or(0),
            mpu: said.mpu.unwrap_or(0),
            linklayer: said.linklayer,
            mtu: said.mtu.unwrap_or(0),
            tsize: said.tsize.unwrap_or(0),
        }
    }
}

/// A `qdisc` line.
#[derive(Clone, Debug)]
pub struct QdiscCommand {
    /// Add, Replace, Change, Link, Delete, Get or Show.
    pub verb: Verb,
    /// The device, if the line names one.
    pub dev: Option<Word>,
    /// The place, if the line names one; `add`, `replace`, `change`, `link` and `del` always have
    /// one.
    pub place: Option<At<Place>>,
    /// The qdisc's handle, if given.
    pub handle: Option<At<Handle>>,
    /// The kind, if given.
    pub kind: Option<Word>,
    /// The words after the kind; keys that tc lets be cut short are written out.
    pub options: Vec<Word>,
    /// Its size table.
    pub stab: Option<At<Stab>>,
    /// `estimator INTERVAL AVERAGE`, in microseconds.
    pub estimator: Option<At<(u64, u64)>>,
    /// `ingress_block`, `egress_block`.
    pub blocks: [Option<At<u32>>; 2],
    /// `show invisible`: default qdiscs too.
    pub invisible: bool,
    /// The whole line.
    pub span: Range<usize>,
}

/// A `class` line.
#[derive(Clone, Debug)]
pub struct ClassCommand {
    /// Add, Replace, Change, Delete, Get or Show.
    pub verb: Verb,
    /// The device, if the line names one.
    pub dev: Option<Word>,
    /// `root`, `parent MAJOR:MINOR`.
    pub parent: Option<At<Handle>>,
    /// `classid MAJOR:MINOR`.
    pub classid: Option<At<Handle>>,
    /// `show qdisc MAJOR:`: only its classes.
    pub qdisc: Option<At<Handle>>,
    /// The kind, if given.
    pub kind: Option<Word>,
    /// The words after the kind.
    pub options: Vec<Word>,
    /// `estimator INTERVAL AVERAGE`, in microseconds.
    pub estimator: Option<At<(u64, u64)>>,
    /// The whole line.
    pub span: Range<usize>,
}

/// A `filter` line.
#[derive(Clone, Debug)]
pub struct FilterCommand {
    /// Add, Replace, Change, Delete, Get or Show.
    pub verb: Verb,
    /// The device or block, if the line names one.
    pub target: Option<Target>,
    /// The place: `root`, `parent`, `ingress`, `egress`; the root by default.
    pub place: Option<At<Place>>,
    /// `protocol NAME`, as written: `ip`, `ipv6`, `all`, `802.1q`, `0x0800`.
    pub protocol: Option<Word>,
    /// `prio N` (or `pref`, `priority`): 0 to 65535, lower first; with 0 or none the engine chooses
    /// one.
    pub prio: Option<At<u32>>,
    /// `chain N`.
    pub chain: Option<At<u32>>,
    /// `estimator INTERVAL AVERAGE`, in microseconds: for the actions of the filter that have an
    /// average.
    pub estimator: Option<At<(u64, u64)>>,
    /// `handle ID`, as written: each kind reads it in its own way.
    pub handle: Option<Word>,
    /// The kind, if given.
    pub kind: Option<Word>,
    /// The words after the kind, actions included.
    pub options: Vec<Word>,
    /// The whole line.
    pub span: Range<usize>,
}

/// A `chain` line.
#[derive(Clone, Debug)]
pub struct ChainCommand {
    /// Add, Delete, Get or Show.
    pub verb: Verb,
    /// The device or block, if the line names one.
    pub target: Option<Target>,
    /// The place.
    pub place: Option<At<Place>>,
    /// `chain N`.
    pub chain: Option<At<u32>>,
    /// `protocol NAME` of its template.
    pub protocol: Option<Word>,
    /// The template's kind, if it has one.
    pub kind: Option<Word>,
    /// The words of the template.
    pub options: Vec<Word>,
    /// The whole line.
    pub span: Range<usize>,
}

/// An `actions` line: `actions VERB action KIND ...`.
#[derive(Clone, Debug)]
pub struct ActionsCommand {
    /// Add, Replace, Change, Delete, Get, Show or Flush.
    pub verb: Verb,
    /// All words after the verb, the word `action` first if it is given: action specifications, or
    /// a kind, or a kind and `index N`.
    pub options: Vec<Word>,
    /// The whole line.
    pub span: Range<usize>,
}

impl Command {
    /// Returns its operation.
    pub const fn verb(&self) -> Verb {
        match self {
            Self::Qdisc(c) => c.verb,
            Self::Class(c) => c.verb,
            Self::Filter(c) => c.verb,
            Self::Chain(c) => c.verb,
            Self::Actions(c) => c.verb,
        }
    }
    /// Returns the device that it names.
    pub const fn dev(&self) -> Option<&Word> {
        match self {
            Self::Qdisc(c) => c.dev.as_ref(),
            Self::Class(c) => c.dev.as_ref(),
            Self::Filter(FilterCommand { target: Some(Target::Dev(dev)), .. })
            | Self::Chain(ChainCommand { target: Some(Target::Dev(dev)), .. }) => Some(dev),
            Self::Filter(_) | Self::Chain(_) | Self::Actions(_) => None,
        }
    }
    /// Returns the span of the whole line.
    pub const fn span(&self) -> &Range<usize> {
        match self {
            Self::Qdisc(c) => &c.span,
            Self::Class(c) => &c.span,
            Self::Filter(c) => &c.span,
            Self::Chain(c) => &c.span,
            Self::Actions(c) => &c.span,
        }
    }
    /// Returns the number of the block if it is about filters that devices would share.
    pub const fn block(&self) -> Option<u32> {
        match self {
            Self::Filter(FilterCommand { target: Some(Target::Block(at)), .. })
            | Self::Chain(ChainCommand { target: Some(Target::Block(at)), .. }) => Some(at.value),
            _ => None,
        }
    }
    /// True if it is about filters that devices would share.
    pub const fn is_for_block(&self) -> bool {
        self.block().is_some()
    }
    /// Returns the same line for a device. The name's span is the line's, so that errors point
    /// there.
    pub(crate) fn on_device(&self, name: &str) -> Self {
        let mut cmd = self.clone();
        let dev = Word { text: name.into(), span: self.span().clone() };
        match &mut cmd {
            Self::Qdisc(c) => c.dev = Some(dev),
            Self::Class(c) => c.dev = Some(dev),
            Self::Filter(c) => c.target = Some(Target::Dev(dev)),
            Self::Chain(c) => c.target = Some(Target::Dev(dev)),
            Self::Actions(_) => {}
        }
        cmd
    }
}
