//! Extended matches: conditions on a packet, joined by and, or, not (tc-ematch(8)). What basic and flow filters may demand.
//!
//! A row of terms is read from the left, and ended by the first that settles it: one that fails before `and`, or one that
//! holds before `or`. So `a and b or c` is `a and (b or c)`, as in the reference, and groups make it otherwise.
//!
//! - Cost: each term is looked at once at most. Memory: 32 bytes for each.
//! - Bounds: groups are `DEPTH_MAX` deep at most; terms are as many as were given.
//!
//! Differences from Linux (PARITY.md): `ematch-depth`, `ematch-transport`, `ematch-meta`.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::classify::action::Run;
use crate::classify::packet::{Packet, Way};
use crate::packet::headers::{Fragment, L3};
use crate::text::error::{ConfigError, ErrorKind, Object};

/// Groups within groups, at most: the depth that Linux evaluates.
pub const DEPTH_MAX: usize = 32;

/// Terms, and how each is joined to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expr {
    /// In order; an expression of none holds.
    pub terms: Vec<Term>,
}

/// A condition in a row of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// It must not hold.
    pub not: bool,
    /// The condition.
    pub what: Condition,
    /// How the next one is joined; of no meaning for the last.
    pub then: Join,
}

/// How terms are joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Join {
    /// All that follows must hold too.
    #[default]
    And,
    /// Or what follows.
    Or,
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// A number in the packet.
    Cmp(Cmp),
    /// Bits of four bytes of the packet.
    U32(U32),
    /// Bytes of the packet.
    Nbyte(Nbyte),
    /// What is known of the packet.
    Meta(Meta),
    /// An expression in parentheses.
    Group(Expr),
}

/// Which header an offset is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Layer {
    /// The first byte of the frame.
    Link = 0,
    /// Behind link header and tags.
    Network = 1,
    /// Behind the IP header and its extensions.
    Transport = 2,
}

/// A comparison.
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

/// `cmp`: a number in the packet, compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cmp {
    /// Bytes: 1, 2 or 4.
    pub bytes: u8,
    /// Where it stands.
    pub layer: Layer,
    /// How far behind the beginning of that header.
    pub offset: u16,
    /// The bits that count; 0 for all.
    pub mask: u32,
    /// Its bytes stand in the other order: the lowest first.
    pub trans: bool,
    /// How it is compared.
    pub op: Op,
    /// With what.
    pub value: u32,
}

/// `u32`: four bytes of the packet under a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct U32 {
    /// What they are to be.
    pub value: u32,
    /// The bits that count.
    pub mask: u32,
    /// How far behind the network header.
    pub offset: i32,
    /// It was said to be the offset behind the next header; here, as in Linux, nobody has said which that is.
    pub next_header: bool,
}

/// `nbyte`: bytes of the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nbyte {
    /// What they are to be.
    pub needle: Box<[u8]>,
    /// Where they stand.
    pub layer: Layer,
    /// How far behind the beginning of that header.
    pub offset: u16,
}

/// `meta`: what is known of a packet, compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// What is compared.
    pub left: Operand,
    /// How.
    pub op: Op,
    /// With what.
    pub right: Operand,
}

/// One side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A number.
    Value(u32),
    /// What is known of the packet, shifted right, in the bits of a mask (0 for all).
    Known {
        /// What.
        id: MetaId,
        /// Bits that it is shifted by.
        shift: u8,
        /// The bits that count; 0 for all.
        mask: u32,
    },
}

/// What can be known of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaId {
    /// A number that is drawn each time.
    Random,
    /// Its priority.
    Priority,
    /// The protocol in its link header, in the order of the wire: IPv4 is 8.
    Protocol,
    /// Bytes; of what comes in, without the link header.
    PktLen,
    /// Bytes that are not in its first piece: none.
    DataLen,
    /// Bytes of its link header.
    MacLen,
    /// Its mark.
    NfMark,
    /// The control information of its outermost VLAN tag.
    Vlan,
}

impl Expr {
    /// Refuses what is deeper than can be looked at.
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

    /// Whether it holds for a packet. Recursion ends at `DEPTH_MAX`, which `check` has seen to.
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

/// Where the transport header is, or would be in a later fragment of IPv4.
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

/// So many bytes of a packet.
fn bytes_at<'p>(packet: &'p Packet<'_>, layer: Layer, offset: i64, len: usize) -> Option<&'p [u8]> {
    let base = match layer {
        Layer::Link => 0,
        Layer::Network => packet.network(),
        Layer::Transport => transport(packet)?,
    };
    let at = usize::try_from(i64::try_from(base).ok()?.checked_add(offset)?).ok()?;
    packet.frame.bytes().get(at..at.checked_add(len)?)
}

impl Cmp {
    fn holds(&self, packet: &Packet<'_>) -> bool {
        let Some(bytes) = bytes_at(packet, self.layer, self.offset.into(), self.bytes.into()) else {
            return false;
        };
        let fold = |value: u32, byte: &u8| value << 8 | u32::from(*byte);
        let value = match self.trans {
            true => bytes.iter().rev().fold(0, fold),
            false => bytes.iter().fold(0, fold),
        };
        let value = if self.mask == 0 { value } else { value & self.mask };
        self.op.holds(value.into(), self.value.into())
    }
}

impl U32 {
    fn holds(&self, packet: &Packet<'_>) -> bool {
        let word = bytes_at(packet, Layer::Network, self.offset.into(), 4).and_then(<[u8]>::first_chunk);
        word.is_some_and(|word| (u32::from_be_bytes(*word) ^ self.value) & self.mask == 0)
    }
}

impl Nbyte {
    fn holds(&self, packet: &Packet<'_>) -> bool {
        bytes_at(packet, self.layer, self.offset.into(), self.needle.len()) == Some(&*self.needle)
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
    /// None if the packet has none.
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
                Way::Ingress => packet.meta.len.saturating_sub(h.link_len.into()).into(),
            },
            Self::DataLen => 0,
            Self::MacLen => h.link_len.into(),
            Self::NfMark => packet.meta.mark.into(),
            Self::Vlan => h.vlan?.into(),
        })
    }
}
