//! u32: words of 32 bits of a packet, masked and compared (tc-u32(8)); hash tables of such filters, and links to them.
//!
//! A priority has a table of its own, the root, in which the walk begins. Filters stand in the buckets of a table in the order
//! of their ids, and a packet must have all words that a filter names, at offsets from its network header, or from where the
//! filter that led here has said that the next header begins. A filter that links to another table goes on there, in the bucket
//! that a word of the packet chooses; if nothing decides there, the filter itself does, if it leads anywhere, and then the one
//! behind it. A word that the packet does not have ends the walk: nothing has matched.
//!
//! The tables of all priorities of a block are in one `Common`: a filter of one priority can link to a table of another.
//! Between changes every priority has the same one, shared.
//!
//! Cost: a look at each filter of a bucket up to the one that decides, and one of the packet's words to choose the bucket of
//! each table that is gone to. Memory: 12 bytes a key, and two lists a bucket.
//!
//! - U1: the walk goes at most `DEPTH_MAX` links deep and looks at most at `STEPS_MAX` filters; beyond, nothing has matched.
//! - U2: `refs` of a table is the number of filters that link to it; a table with any stays.
//!
//! Differs from Linux: `u32-chains`, `u32-headroom`, `u32-replace`, `u32-steps`.

mod tables;
mod walk;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Bound, Decision, Filtering, Visit, What};
use crate::classify::action::Run;
use crate::classify::counters::Counters;
use crate::classify::packet::{Packet, PortId};
use crate::text::error::ConfigError;

pub(crate) use tables::Common;

/// Links that one walk follows, one within another, at most (tc(8): beyond it a packet matches nothing).
pub const DEPTH_MAX: usize = 8;
/// Keys of one filter, at most: what tc has room for.
pub const KEYS_MAX: usize = 128;
/// Buckets of one table, at most.
pub(crate) const DIVISOR_MAX: u16 = 256;
/// Filters that one walk looks at, at most. Tables that link to tables can be gone through once for each way that leads there,
/// which is more than a packet may cost; no walk through filters that are each looked at once comes near.
pub const STEPS_MAX: u32 = 1 << 20;

/// A word of a packet and what it is to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// What the bits of the mask are to be.
    pub value: u32,
    /// The bits that count.
    pub mask: u32,
    /// Offset of the word from the network header; negative in the link header.
    pub at: i32,
    /// The offset is from the next header, as `Offset` of the filter that led here has it.
    pub next: bool,
}

/// Where the next header is, for the filters of the table that a filter links to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offset {
    /// So many bytes, in any case.
    pub plus: u16,
    /// And what the packet says.
    pub read: Option<Read>,
}

/// Bytes by two bytes of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// Their offset from the network header.
    pub at: i16,
    /// Their bits that count.
    pub mask: u16,
    /// How far those are shifted to the right: below 16.
    pub shift: u8,
}

/// Which word of a packet chooses the bucket of the table that a filter links to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HashKey {
    /// Its bits that count: the lowest of them is the lowest of the bucket's number.
    pub mask: u32,
    /// Its offset from the network header.
    pub at: i16,
}

/// What a filter looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// All of these are to match.
    pub keys: Vec<Key>,
    /// Where the next header is.
    pub offset: Option<Offset>,
    /// Offsets are from there, from now on.
    pub eat: bool,
    /// What chooses a bucket.
    pub hash: HashKey,
}

/// A port by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The port.
    pub port: PortId,
    /// Its name.
    pub name: String,
}

/// A filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// The table and the bucket that it stands in, as a handle has them; `None` for the root of its priority.
    pub table: Option<u32>,
    /// What it looks at; may be left out for a filter that is there, which keeps all that is not given then.
    pub selector: Option<Selector>,
    /// What the mark is to be, and its bits that count.
    pub mark: Option<(u32, u32)>,
    /// The table that it links to, as a handle has it.
    pub link: Option<u32>,
    /// Where the packet has come in.
    pub indev: Option<Device>,
    /// It decides, also if it has neither class nor actions.
    pub decides: bool,
    /// It was said not to be done in hardware; it never is.
    pub skip_hw: bool,
}

/// Parameters of u32.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum U32 {
    /// The first table of a priority, which is there by itself; it is shown, and cannot be put.
    Root,
    /// A table of so many buckets, a power of two.
    Table(u16),
    /// A filter.
    Filter(Box<Match>),
}

/// The bits of a handle that name a table.
pub(super) const TABLE: u32 = 0xfff0_0000;
/// The bits that name a bucket.
pub(super) const BUCKET: u32 = 0x000f_f000;
/// The bits that name a filter.
pub(super) const NODE: u32 = 0x0000_0fff;

/// A chain and a priority: whose a table is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) chain: u32,
    pub(super) prio: u16,
}

/// The filters of a priority: where they begin, in what the block has.
#[derive(Clone, Debug)]
pub struct Table {
    common: Arc<Common>,
    root: u32,
}

impl Default for Table {
    fn default() -> Self {
        Self::join(Arc::default(), 0, 0)
    }
}

impl Table {
    /// A priority of a block that has these tables, with a root.
    pub(super) fn join(mut common: Arc<Common>, chain: u32, prio: u16) -> Self {
        let root = Arc::make_mut(&mut common).add_root(Place { chain, prio });
        Self { common, root }
    }
    /// Gives the tables of the block away, to be changed by one who has them alone.
    pub(super) fn lift(&mut self) -> Arc<Common> {
        core::mem::take(&mut self.common)
    }
    /// Has the tables of the block.
    pub(super) fn settle(&mut self, common: Arc<Common>) {
        self.common = common;
    }
    /// Goes, with its root; with everything if it was the last. Gives the goals of the filters that go with it.
    pub(super) fn leave(&mut self) -> Vec<Bound> {
        Arc::make_mut(&mut self.common).remove_root(self.root)
    }
}

impl Filtering for Table {
    type Rule = U32;

    fn put(
        &mut self,
        handle: Option<u32>,
        rule: &U32,
        goal: Bound,
        what: What,
        ids: &mut Counters,
    ) -> Result<(u32, Option<Bound>), (ConfigError, Bound)> {
        Arc::make_mut(&mut self.common).put(self.root, handle.unwrap_or(0), rule, goal, what, ids)
    }

    fn delete(&mut self, handle: u32) -> Result<Vec<Bound>, ConfigError> {
        Arc::make_mut(&mut self.common).delete(handle)
    }

    fn is_empty(&self) -> bool {
        self.common.is_empty()
    }

    fn visit(&self, f: Visit<'_, U32>) {
        self.common.visit(self.root, f);
    }

    fn find(&self, handle: u32, f: &mut dyn FnMut(&U32, &Bound, u32)) {
        self.common.find(handle, f);
    }

    #[inline]
    fn classify(&self, packet: &mut Packet<'_>, run: &mut Run<'_>) -> Decision {
        walk::classify(&self.common, self.root, packet, run)
    }
}
