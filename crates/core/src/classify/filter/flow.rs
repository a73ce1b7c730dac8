//! flow: computes a class from fields of a packet, by arithmetic or by a hash (tc-flow(8)).
//!
//! `map` takes one key: `((key & mask) ^ xor >> rshift) + addend`; `hash` takes a keyed hash of its
//! keys. The remainder by the divisor, if there is one, is added to the minor of the base class, in
//! 16 bits. With `perturb` the hash changes with each period.
//!
//! - Cost: filters are tried until one decides, each with its keys and one hash. Memory: the
//!   filters, and an index of their handles.
//!
//! Differences from Linux (PARITY.md): `flow-keys-hash`, `flow-mode`, `flow-no-field`,
//! `flow-no-connection`.

use alloc::vec::Vec;

use super::ematch::Expr;
use super::ordered::Ordered;
use super::{Bound, Decision, Existence, Filtering, Visit};
use crate::base::handle::{ClassId, Handle};
use crate::base::time::Nanos;
use crate::classify::action::Run;
use crate::classify::counters::Counters;
use crate::classify::packet::Packet;
use crate::packet::hash::FlowHasher;
use crate::packet::headers::{Fragment, L3};
use crate::text::error::{ConfigError, ErrorKind, Object};

/// A field that a filter may read, in the order of the hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Key {
    /// Source address; the four words of IPv6 folded into one.
    Src = 0,
    /// Destination address.
    Dst = 1,
    /// Protocol over IP.
    Proto = 2,
    /// Source port.
    ProtoSrc = 3,
    /// Destination port.
    ProtoDst = 4,
    /// The port that received the packet.
    Iif = 5,
    /// Priority.
    Priority = 6,
    /// Mark.
    Mark = 7,
    /// The packet's connection: 0, because connections are not tracked.
    Connection = 8,
    /// Source address of the connection; without one that of the packet. The same holds for the
    /// next three.
    ConnectionSrc = 9,
    /// Destination address of the connection.
    ConnectionDst = 10,
    /// Source port of the connection.
    ConnectionProtoSrc = 11,
    /// Destination port of the connection.
    ConnectionProtoDst = 12,
    /// The class of the packet's route: 0, because there are no routes.
    RouteClass = 13,
    /// User of the packet's socket: 0, because there is none.
    SocketUser = 14,
    /// Group of that user.
    SocketGroup = 15,
    /// Identifier of the outermost VLAN tag.
    VlanTag = 16,
    /// The flow hash.
    RxHash = 17,
}

impl Key {
    /// All keys, in their order.
    pub const ALL: [Self; 18] = [
        Self::Src,
        Self::Dst,
        Self::Proto,
        Self::ProtoSrc,
        Self::ProtoDst,
        Self::Iif,
        Self::Priority,
        Self::Mark,
        Self::Connection,
        Self::ConnectionSrc,
        Self::ConnectionDst,
        Self::ConnectionProtoSrc,
        Self::ConnectionProtoDst,
        Self::RouteClass,
        Self::SocketUser,
        Self::SocketGroup,
        Self::VlanTag,
        Self::RxHash,
    ];

    const fn bit(self) -> u32 {
        1 << self as u32
    }

    /// Returns the value of the key in a packet; 0 if the packet has none.
    fn of(self, packet: &Packet<'_>) -> u32 {
        let h = &packet.headers;
        let fold = |address: &[u8; 16]| match h.l3 {
            L3::Ipv4 => u128::from_be_bytes(*address) as u32, // the low 32 bits
            L3::Ipv6 => address
                .chunks(4)
                .fold(0, |sum, word| sum ^ word.first_chunk().map_or(0, |w| u32::from_be_bytes(*w))),
            L3::None | L3::Arp => 0,
        };
        let ports = h.ports().filter(|_| h.fragment == Fragment::Whole);
        match self {
            Self::Src | Self::ConnectionSrc => fold(&h.src),
            Self::Dst | Self::ConnectionDst => fold(&h.dst),
            Self::Proto => h.protocol.into(),
            Self::ProtoSrc | Self::ConnectionProtoSrc => ports.map_or(0, |(src, _)| src.into()),
            Self::ProtoDst | Self::ConnectionProtoDst => ports.map_or(0, |(_, dst)| dst.into()),
            Self::Iif => packet.iif.0,
            Self::Priority => packet.meta.priority,
            Self::Mark => packet.meta.mark,
            Self::Connection | Self::RouteClass | Self::SocketUser | Self::SocketGroup => 0,
            Self::VlanTag => u32::from(h.vlan.unwrap_or(0) & 0xfff),
            Self::RxHash => packet.meta.hash,
        }
    }
}

/// A set of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keys(u32);

impl Keys {
    /// Returns a set of these keys.
    pub fn of(keys: &[Key]) -> Self {
        Self(keys.iter().fold(0, |bits, key| bits | key.bit()))
    }
    /// Returns the keys in their order.
    pub fn iter(self) -> impl Iterator<Item = Key> {
        Key::ALL.into_iter().filter(move |key| self.0 & key.bit() != 0)
    }
}

/// Way from keys to a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Arithmetic on one key.
    Map,
    /// A hash of the keys.
    Hash,
}

/// Parameters of flow. In a change, `None` keeps the old value; in a new filter, it means the
/// default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Mode; map by default.
    pub mode: Option<Mode>,
    /// Keys; one for map.
    pub keys: Option<Keys>,
    /// Mask and exclusive-or: the sum of all `and`, `or` and `xor`.
    pub bits: Option<(u32, u32)>,
    /// Shift to the right, below 32.
    pub rshift: Option<u8>,
    /// Addend after the shift.
    pub addend: Option<u32>,
    /// Divisor of the remainder; 0 for none.
    pub divisor: Option<u32>,
    /// Base class. A major of 0 is that of the qdisc of the filter, a minor of 0 is 1.
    pub baseclass: Option<ClassId>,
    /// The qdisc of the filter.
    pub qdisc: Handle,
    /// Period of the hash in seconds; 0 for no change.
    pub perturb: Option<u32>,
    /// Condition for a match.
    pub expr: Option<Expr>,
}

impl Flow {
    /// Returns the parameters, with missing ones from `old`.
    fn over(&self, old: &Self) -> Self {
        Self {
            mode: self.mode.or(old.mode),
            keys: self.keys.or(old.keys),
            bits: self.bits.or(old.bits),
            rshift: self.rshift.or(old.rshift),
            addend: self.addend.or(old.addend),
            divisor: self.divisor.or(old.divisor),
            baseclass: self.baseclass.or(old.baseclass),
            qdisc: old.qdisc,
            perturb: self.perturb.or(old.perturb),
            expr: self.expr.clone().or_else(|| old.expr.clone()),
        }
    }

    /// Returns the base class.
    pub const fn base(&self) -> ClassId {
        let said = match self.baseclass {
            Some(class) => class,
            None => Handle::NONE,
        };
        let major = if said.major() == 0 { self.qdisc.major() } else { said.major() };
        let minor = if said.minor() == 0 { 1 } else { said.minor() };
        Handle::new(major, minor)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let wrong = |kind, key, expected, given: &str| {
            Err(ConfigError::new(kind, Object::Filter(Some("flow")), expected, given).key(key))
        };
        let map = self.mode != Some(Mode::Hash);
        match self.keys.unwrap_or_default().iter().count() {
            0 => return wrong(ErrorKind::Missing, "keys", "a key", ""),
            1 => {}
            _ if map => return wrong(ErrorKind::OutOfRange, "map", "one key", "several"),
            _ => {}
        }
        if map && self.perturb.is_some_and(|p| p != 0) {
            return wrong(ErrorKind::Conflict, "perturb", "mode hash", "map");
        }
        if self.rshift.is_some_and(|shift| shift > 31) {
            return wrong(ErrorKind::OutOfRange, "rshift", "0 to 31", "more");
        }
        self.expr.as_ref().map_or(Ok(()), Expr::check)
    }

    /// Returns the class of a packet.
    fn class(&self, packet: &Packet<'_>, hasher: &FlowHasher, run: &Run<'_>) -> ClassId {
        let keys = self.keys.unwrap_or_default();
        let value = match self.mode {
            Some(Mode::Hash) => {
                let period = u64::from(self.perturb.unwrap_or(0)).saturating_mul(Nanos::from_secs(1).0);
                let turn = run.now.0.checked_div(period).unwrap_or(0);
                hasher.words([turn].into_iter().chain(keys.iter().map(|key| key.of(packet).into())))
            }
            _ => {
                let key = keys.iter().next().map_or(0, |key| key.of(packet));
                let (mask, xor) = self.bits.unwrap_or((u32::MAX, 0));
                let bits = key & mask ^ xor;
                let shifted = bits.checked_shr(self.rshift.unwrap_or(0).into()).unwrap_or(0);
                shifted.wrapping_add(self.addend.unwrap_or(0))
            }
        };
        let left = value.checked_rem(self.divisor.unwrap_or(0)).unwrap_or(value);
        let base = self.base();
        // The mask leaves the bits of a minor.
        Handle::new(base.major(), (u32::from(base.minor()).wrapping_add(left) & 0xffff) as u16)
    }
}

/// The filters of a table.
#[derive(Clone, Debug)]
pub struct Table {
    filters: Ordered<Flow>,
    hasher: FlowHasher,
}

impl Default for Table {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Filtering for Table {
    type Rule = Flow;

    fn new(seed: u64) -> Self {
        Self { filters: Ordered::default(), hasher: FlowHasher::new(seed) }
    }

    fn put(
        &mut self,
        handle: Option<u32>,
        rule: &Flow,
        goal: Bound,
        existence: Existence,
        _: &mut Counters,
    ) -> Result<(u32, Option<Bound>), (ConfigError, Bound)> {
        if handle.is_none_or(|h| h == 0) {
            let err = ConfigError::new(ErrorKind::Missing, Object::Filter(Some("flow")), "a handle", "");
            return Err((err.key("handle"), goal));
        }
        self.filters.put("flow", handle, goal, existence, |old| {
            let whole = old.map_or_else(|| rule.clone(), |old| rule.over(old));
            whole.check().map(|()| whole)
        })
    }

    fn delete(&mut self, handle: u32) -> Result<Vec<Bound>, ConfigError> {
        self.filters.delete("flow", handle)
    }

    fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    fn visit(&self, f: Visit<'_, Flow>) {
        self.filters.iter().for_each(|filter| f(filter.handle, &filter.rule, &filter.goal, 0));
    }

    fn find(&self, handle: u32, f: &mut dyn FnMut(&Flow, &Bound, u32)) {
        if let Some(filter) = self.filters.get(handle) {
            f(&filter.rule, &filter.goal, 0);
        }
    }

    #[inline]
    fn classify(&self, packet: &mut Packet<'_>, run: &mut Run<'_>) -> Decision {
        for filter in self.filters.iter() {
            if !filter.rule.expr.as_ref().is_none_or(|expr| expr.holds(packet, run)) {
                continue;
            }
            let class = filter.rule.class(packet, &self.hasher, run);
            match filter.goal.decide_to(class, packet, run) {
                Decision::Next => {}
                made => return made,
            }
        }
        Decision::Next
    }
}
