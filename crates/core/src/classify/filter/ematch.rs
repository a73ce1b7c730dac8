//! Extended matches: conditions on a packet, joined by and, or, not (tc-ematch(8)). Part of basic
//! and flow filters.
//!
//! A row of terms is evaluated from the left, up to the first term that settles it: one that fails
//! before `and`, or one that holds before `or`. So `a and b or c` is `a and (b or c)`, as in the
//! reference, and groups change that.
//!
//! - Cost: each term is evaluated at most once. Memory: 32 bytes for each.
//! - Bounds: groups are at most `DEPTH_MAX` deep; the number of terms is that of the command.
//!
//! Differences from Linux (PARITY.md): `ematch-transport`, `ematch-meta`, `ematch-json`,
//! `ematch-numbers`, `vlan-in-place`.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::classify::action::Run;
use crate::classify::packet::{Packet, Way, place};
use crate::packet::headers::{Fragment, L3};
use crate::text::error::{ConfigError, ErrorKind, Object};

/// Largest depth of groups within groups, as evaluated by Linux.
pub const DEPTH_MAX: usize = 32;

/// Terms, and the way each is joined to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expr {
    /// The terms in order; an expression without terms holds.
    pub terms: Vec<Term>,
}

/// A condition in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// True if the condition must not hold.
    pub not: bool,
    /// The condition.
    pub what: Condition,
    /// Join to the next term; ignored for the last.
    pub then: Join,
}

/// Join of a term to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Join {
    /// The rest must hold too.
    #[default]
    And,
    /// The rest may hold instead.
    Or,
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// A comparison of a number in the packet.
    Cmp(Cmp),
    /// A comparison of bits in four bytes of the packet.
    U32(U32),
    /// A comparison of bytes of the packet.
    Nbyte(Nbyte),
    /// A comparison of metadata of the packet.
    Meta(Meta),
    /// An expression in parentheses.
    Group(Expr),
}

/// Base of an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Layer {
    /// The first byte of the frame. Offsets pass over the outermost tag of a packet that has
    /// arrived.
    Link = 0,
    /// The end of the link header and its tags.
    Network = 1,
    /// The end of the IP header and its extensions.
    Transport = 2,
}

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Equal.
    Eq,
    /// Greater than.
    Gt,
    /// Less than.
    Lt,
}

impl Op {
    fn holds(self, a: u64, b: u64) -> bool {
        match self {
            Self::Eq => a == b,
            Self::Gt => a > b,
            Self::Lt => a < b,
        }
    }
}

/// `cmp`: compares a number in the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cmp {
    /// Length of the number in bytes: 1, 2 or 4.
    pub bytes: u8,
    /// Base of its offset.
    pub layer: Layer,
    /// Offset from the base.
    pub offset: u16,
    /// The bits that count; 0 for all.
    pub mask: u32,
    /// True if the number is in little-endian order.
    pub trans: bool,
    /// Operator.
    pub op: Op,
    /// Value to compare with.
    pub value: u32,
}

/// `u32`: compares four bytes of the packet under a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct U32 {
    /// Required value.
    pub value: u32,
    /// The bits that count.
    pub mask: u32,
    /// Offset from the network header.
    pub offset: i32,
    /// True if the command has an offset from the next header; as in Linux, no filter defines that
    /// header here, and the flag has no effect.
    pub next_header: bool,
}

/// `nbyte`: compares bytes of the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nbyte {
    /// Required bytes.
    pub needle: Box<[u8]>,
    /// Base of the offset.
    pub layer: Layer,
    /// Offset from the base.
    pub offset: u16,
}

/// `meta`: compares metadata of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Left operand.
    pub left: Operand,
    /// Operator.
    pub op: Op,
    /// Right operand.
    pub right: Operand,
}

/// One side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A constant.
    Value(u32),
    /// Metadata of the packet, shifted right and masked.
    Known {
        /// Kind of metadata.
        id: MetaId,
        /// Number of bits to shift by.
        shift: u8,
        /// The bits that count; 0 for all.
        mask: u32,
    },
}

/// Kind of metadata of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaId {
    /// A random number, drawn each time.
    Random,
    /// The packet's priority.
    Priority,
    /// The protocol in the link header, in network byte order: IPv4 is 8.
    Protocol,
    /// Length in bytes; without the link header and the outermost tag for packets that were
    /// received.
    PktLen,
    /// Number of bytes outside the first fragment of the buffer: always 0.
    DataLen,
    /// Length of the link header in bytes.
    MacLen,
    /// The packet's mark.
    NfMark,
    /// The control information of the outermost VLAN tag.
    Vlan,
}

impl Expr {
    /// Refuses expressions deeper than `DEPTH_MAX`.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        match self.is_within(DEPTH_MAX) {
            true => Ok(()),
            false => {
                let expected = alloc::format!("at most {DEPTH_MAX} groups within each other");
                Err(ConfigError::new(ErrorKind::OutOfRange, Object::Filter(None), expected, "more")
                    .key("match"))
            }
        }
    }

    fn is_within(&self, depth: usize) -> bool {
        self.terms.iter().all(|term| match &term.what {
            Condition::Group(inner) => depth > 0 && inner.is_within(depth - 1),
            _ => true,
        })
    }

    /// True if the expression holds for a packet. `check` has bounded the recursion to `DEPTH_MAX`.
    pub(crate) fn holds(&self, packet: &Packet<'_>, run: &mut Run<'_>) -> bool {
        let mut last = true;
        for term in &self.terms {
            let found = match &term.what {
                Condition::Cmp(cmp) => cmp.holds(packet),
                Condition::U32(u32) => u32.holds(packet),
                Condition::Nbyte(nbyte) => nbyte.holds(packet),
                Condition::Meta(meta) => meta.holds(packet, run),
                Condition::Group(inner) => inner.holds(packet, run),
            };
            last = found != term.not;
            if last == (term.then == Join::Or) {
                return last;
            }
        }
        last
    }
}

/// Returns the offset of the transport header, or of its place in a later fragment of IPv4.
fn transport(packet: &Packet<'_>) -> Option<usize> {
    let h = &packet.headers;
    match (h.l4_offset, h.l3, h.fragment) {
        (Some(at), ..) => Some(at.into()),
        (None, L3::Ipv4, Fragment::Later) => {
            let first = *packet.frame.bytes().get(packet.network())?;
            Some(packet.network() + usize::from(first & 15) * 4)
        }
        _ => None,
    }
}

/// Returns `len` bytes of a packet, in two parts as [`Packet::link_bytes`] does.
fn bytes_at<'p>(packet: &'p Packet<'_>, layer: Layer, offset: u16, len: usize) -> Option<[&'p [u8]; 2]> {
    let base = match layer {
        Layer::Link => return packet.link_bytes(offset.into(), len),
        Layer::Network => packet.network(),
        Layer::Transport => transport(packet)?,
    };
    let at = base + usize::from(offset);
    Some([packet.frame.bytes().get(at..at.checked_add(len)?)?, &[]])
}

impl Cmp {
    fn holds(&self, packet: &Packet<'_>) -> bool {
        let Some([head, tail]) = bytes_at(packet, self.layer, self.offset, self.bytes.into()) else {
            return false;
        };
        let bytes = head.iter().chain(tail);
        let fold = |value: u32, byte: &u8| value << 8 | u32::from(*byte);
        let value = match self.trans {
            true => bytes.rev().fold(0, fold),
            false => bytes.fold(0, fold),
        };
        let value = if self.mask == 0 { value } else { value & self.mask };
        self.op.holds(value.into(), self.value.into())
    }
}

impl U32 {
    fn holds(&self, packet: &Packet<'_>) -> bool {
        self.word(packet).is_some_and(|word| (word ^ self.value) & self.mask == 0)
    }

    /// Returns the four bytes. Offsets in front of the network header pass over the outermost tag
    /// of a packet that has arrived.
    fn word(&self, packet: &Packet<'_>) -> Option<u32> {
        let (bytes, front) = (packet.frame.bytes(), packet.front());
        let from = i64::try_from(packet.network()).ok()?.checked_add(self.offset.into())?;
        let mut word = [0; 4];
        for (byte, at) in word.iter_mut().zip(from..) {
            *byte = *bytes.get(usize::try_from(place(at, front)).ok()?)?;
        }
        Some(u32::from_be_bytes(word))
    }
}

impl Nbyte {
    fn holds(&self, packet: &Packet<'_>) -> bool {
        bytes_at(packet, self.layer, self.offset, self.needle.len())
            .is_some_and(|[head, tail]| head.iter().chain(tail).eq(&*self.needle))
    }
}

impl Meta {
    fn holds(&self, packet: &Packet<'_>, run: &mut Run<'_>) -> bool {
        match (self.left.value(packet, run), self.right.value(packet, run)) {
            (Some(left), Some(right)) => self.op.holds(left, right),
            _ => false,
        }
    }
}

impl Operand {
    /// Returns the value; `None` if the packet has none.
    fn value(self, packet: &Packet<'_>, run: &mut Run<'_>) -> Option<u64> {
        match self {
            Self::Value(value) => Some(value.into()),
            Self::Known { id, shift, mask } => {
                let value = id.value(packet, run)?.checked_shr(shift.into()).unwrap_or(0);
                Some(if mask == 0 { value } else { value & u64::from(mask) })
            }
        }
    }
}

impl MetaId {
    fn value(self, packet: &Packet<'_>, run: &mut Run<'_>) -> Option<u64> {
        let h = &packet.headers;
        Some(match self {
            Self::Random => run.state.rng.next_u64() >> 32,
            Self::Priority => packet.meta.priority.into(),
            Self::Protocol => packet.protocol().swap_bytes().into(),
            Self::PktLen => match packet.way {
                Way::Egress => packet.meta.len.into(),
                Way::Ingress => packet.charged().into(),
            },
            Self::DataLen => 0,
            Self::MacLen => h.link_len.into(),
            Self::NfMark => packet.meta.mark.into(),
            Self::Vlan => h.vlan?.into(),
        })
    }
}
