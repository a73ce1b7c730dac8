//! u32: compares masked words of 32 bits of a packet (tc-u32(8)); has hash tables of such filters,
//! and links to them.
//!
//! A priority has a table of its own, the root, in which the walk begins. Filters stand in the
//! buckets of a table in the order of their ids. A packet matches a filter if it has all words of
//! the filter, at offsets from its network header, or from the next header, the start of which the
//! filter that led here has computed. A filter that links to another table continues there, in the
//! bucket that a word of the packet chooses; if no filter decides there, the linking filter itself
//! does, if it has a goal, and then the one behind it. A word outside the packet ends the walk
//! without a match; of a word that begins in front of the frame, and ends in it, the bytes in front
//! are 0.
//!
//! Offsets in front of the network header pass over the outermost tag of a packet that has arrived,
//! as in Linux, which has taken it off.
//!
//! The tables of all priorities of a block are in one `Common`: a filter of one priority can link
//! to a table of another. The block owns it.
//!
//! Cost: a comparison with each filter of a bucket up to the one that decides, and one read to
//! choose the bucket of each linked table. Memory: 12 bytes per key, and two lists per bucket.
//!
//! - U1: the walk goes at most `DEPTH_MAX` links deep and tries at most `STEPS_MAX` filters;
//!   beyond, it ends without a match.
//! - U2: `refs` of a table is the number of filters that link to it; a linked table cannot be
//!   removed.
//!
//! Differs from Linux: `u32-chains`, `u32-headroom`, `u32-replace`, `u32-steps`, `vlan-in-place`.

mod numbers;
mod tables;
mod walk;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::{Bound, Decision, Existence, Visit};
use crate::classify::action::Run;
use crate::classify::counters::Counters;
use crate::classify::packet::{Packet, PortId};
use crate::text::error::ConfigError;

pub(crate) use tables::Common;

/// Largest number of nested links that one walk follows (tc(8): beyond it a packet matches
/// nothing).
pub const DEPTH_MAX: usize = 8;
/// Largest number of keys of one filter, as in tc.
pub const KEYS_MAX: usize = 128;
/// Largest number of buckets of one table.
pub(crate) const DIVISOR_MAX: u16 = 256;
/// Largest number of filters that one walk tries. Tables that link to tables can be walked once for
/// each path to them, which is more than a packet may cost; a walk that tries each filter once
/// stays far below.
pub const STEPS_MAX: u32 = 1 << 20;

/// A word of a packet and its required value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// Required value of the bits of the mark.
    pub value: u32,
    /// The bits that count.
    pub mask: u32,
    /// Offset of the word from the network header; negative in the link header.
    pub at: i32,
    /// True if the offset is from the next header, as computed by `Offset` of the linking filter.
    pub next: bool,
}

/// Start of the next header, for the filters of the linked table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offset {
    /// Constant part in bytes.
    pub plus: u16,
    /// Part that is read from the packet.
    pub read: Option<Read>,
}

/// A number of bytes that is read from two bytes of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// Offset of the two bytes from the network header.
    pub at: i16,
    /// The bits that count.
    pub mask: u16,
    /// Number of bits to shift right by: below 16.
    pub shift: u8,
}

/// The word of a packet that chooses the bucket of the linked table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HashKey {
    /// The bits that count: the lowest of them is the lowest bit of the bucket's number.
    pub mask: u32,
    /// Offset of the word from the network header.
    pub at: i16,
}

/// The words of a packet that a filter reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// Keys, all of which must match.
    pub keys: Vec<Key>,
    /// Start of the next header.
    pub offset: Option<Offset>,
    /// True if the next header becomes the base of later offsets.
    pub eat: bool,
    /// The word that chooses the bucket.
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
    /// The table and the bucket of the filter, as a handle; `None` for the root of its priority.
    pub table: Option<u32>,
    /// Selector; `None` in a change of a filter keeps the old one and the other missing parameters.
    pub selector: Option<Selector>,
    /// Required value of the mark, and the bits of it that count.
    pub mark: Option<(u32, u32)>,
    /// The table that it links to, as a handle.
    pub link: Option<u32>,
    /// Port that must have received the packet.
    pub indev: Option<Device>,
    /// True if the filter decides even without class and actions.
    pub decides: bool,
    /// True if the command asked not to offload to hardware; nothing is ever offloaded.
    pub skip_hw: bool,
}

/// Parameters of u32.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum U32 {
    /// The root of a priority, which is made implicitly; it is listed, and cannot be put.
    Root,
    /// A table with this number of buckets, a power of two.
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

/// Owner of a table: a chain and a priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) chain: u32,
    pub(super) prio: u16,
}

/// The filters of a priority: its root among the tables of the block.
#[derive(Clone, Debug)]
pub struct Table {
    root: u32,
}

impl Table {
    /// Adds a priority, with a root, to a block with these tables.
    pub(super) fn join(common: &mut Common, chain: u32, prio: u16) -> Self {
        Self { root: common.add_root(Place { chain, prio }) }
    }
    /// Removes this priority with its root, and all tables if it was the last. Returns the goals
    /// that die with it.
    pub(super) fn leave(&mut self, common: &mut Common) -> Vec<Bound> {
        common.remove_root(self.root)
    }

    pub(super) fn put(
        &mut self,
        common: &mut Common,
        handle: Option<u32>,
        rule: &U32,
        goal: Bound,
        existence: Existence,
        ids: &mut Counters,
    ) -> Result<(u32, Option<Bound>), (ConfigError, Bound)> {
        common.put(self.root, handle.unwrap_or(0), rule, goal, existence, ids)
    }

    pub(super) fn visit(&self, common: &Common, f: Visit<'_, U32>) {
        common.visit(self.root, f);
    }

    #[inline]
    pub(super) fn classify(&self, common: &Common, packet: &mut Packet<'_>, run: &mut Run<'_>) -> Decision {
        walk::classify(common, self.root, packet, run)
    }
}
