//! The walk of a packet through the tables.

use core::slice::Iter;

use super::tables::{Common, Node};
use super::{DEPTH_MAX, STEPS_MAX};
use crate::base::bound::Bound;
use crate::classify::action::Run;
use crate::classify::action::State;
use crate::classify::filter::Decision;
use crate::classify::packet::{Packet, PortId, place};

/// The data of a packet that the walk reads.
struct View<'p> {
    bytes: &'p [u8],
    /// Length of the packet in bytes, including bytes that the frame does not hold.
    len: i64,
    /// See `Packet::front`.
    front: i64,
    mark: u32,
    iif: PortId,
}

impl View<'_> {
    /// Returns the four bytes at an offset, if the packet has them.
    #[inline]
    fn word(&self, at: i64) -> Option<u32> {
        if at < self.front {
            return self.in_front(at).map(u32::from_be_bytes);
        }
        let bytes = self.bytes.get(usize::try_from(at).ok()?..)?.first_chunk()?;
        Some(u32::from_be_bytes(*bytes))
    }
    /// Returns the two bytes at an offset, if the packet has them.
    #[inline]
    fn half(&self, at: i64) -> Option<u16> {
        if at < self.front {
            return self.in_front(at).map(u16::from_be_bytes);
        }
        let bytes = self.bytes.get(usize::try_from(at).ok()?..)?.first_chunk()?;
        Some(u16::from_be_bytes(*bytes))
    }
    /// Returns the bytes at an offset below 0, or in front of the end of a tag that has been taken
    /// off. Bytes in front of the frame are 0, if the last one is not there.
    #[cold]
    fn in_front<const N: usize>(&self, at: i64) -> Option<[u8; N]> {
        let mut found = [0; N];
        let mut last = None;
        for (byte, at) in found.iter_mut().zip(at..) {
            last = usize::try_from(place(at, self.front)).ok();
            *byte = last.map_or(Some(0), |at| self.bytes.get(at).copied())?;
        }
        last.map(|_| found)
    }
}

/// A link that the walk has followed: the linking filter, the filters behind it, and the base of
/// offsets there.
#[derive(Clone, Copy)]
struct Left<'c> {
    node: &'c Node,
    rest: &'c [Node],
    base: i64,
}

/// Position of the walk.
struct Walk<'c> {
    common: &'c Common,
    left: [Option<Left<'c>>; DEPTH_MAX],
    depth: usize,
    /// Rest of the bucket.
    rest: Iter<'c, Node>,
    /// Base of offsets.
    base: i64,
    /// Offset of the next header from the base.
    next: i64,
    /// Number of filters that may still be tried.
    steps: u32,
}

/// Tries the filters, from the root of a priority.
#[inline]
pub(super) fn classify(common: &Common, root: u32, packet: &mut Packet<'_>, run: &mut Run<'_>) -> Decision {
    let first = common.table(root).and_then(|t| t.buckets.first()).map_or(&[][..], |b| b);
    // Offsets of headers have 16 bits.
    let base = i64::from(u16::try_from(packet.network()).unwrap_or(u16::MAX));
    let (left, rest) = ([None; DEPTH_MAX], first.iter());
    let mut walk = Walk { common, left, depth: 0, rest, base, next: 0, steps: STEPS_MAX };
    // A turn tries a filter, or goes back to one that was tried.
    let mut bound = Bound::of(2 * STEPS_MAX as usize + 1);
    loop {
        bound.turn();
        // The view is made anew each time, because actions may have changed the packet.
        let view = View {
            bytes: packet.frame.bytes(),
            len: i64::from(packet.meta.len),
            front: packet.front(),
            mark: packet.meta.mark,
            iif: packet.iif,
        };
        let Some(node) = walk.find(&view, run.state) else { return Decision::Next };
        match node.goal.decide(packet, run) {
            Decision::Next => {}
            made => return made,
        }
    }
}

impl<'c> Walk<'c> {
    /// Returns the next matching filter with a goal; `None` if the walk has ended, at its end or at
    /// a word outside the packet.
    #[inline]
    fn find(&mut self, view: &View<'_>, state: &mut State) -> Option<&'c Node> {
        let mut bound = Bound::of(2 * STEPS_MAX as usize + 1);
        loop {
            bound.turn();
            let node = match self.rest.next() {
                Some(node) => {
                    self.steps = self.steps.checked_sub(1)?;
                    state.hit(node.goal.hits);
                    if !self.matches(node, view, state)? {
                        continue;
                    }
                    match node.link {
                        None => node,
                        // If no filter of the linked table can see this packet, this filter
                        // decides.
                        Some(link) if self.enter(node, link, view)? => continue,
                        Some(_) => node,
                    }
                }
                None => self.back()?,
            };
            if node.terminal() && node.rest.indev.as_ref().is_none_or(|dev| came_in(dev.port, view.iif)) {
                state.hit(node.goal.hits + 1);
                return Some(node);
            }
        }
    }

    /// True if a packet has all words of a filter; `None` if it ends before one of them.
    #[inline]
    fn matches(&self, node: &Node, view: &View<'_>, state: &mut State) -> Option<bool> {
        if let Some((value, mask)) = node.rest.mark {
            if (view.mark ^ value) & mask != 0 {
                return Some(false);
            }
            state.hit(node.goal.hits + 2);
        }
        for (number, key) in (node.goal.hits + 3..).zip(&node.selector.keys) {
            let next = if key.next { self.next } else { 0 };
            let word = view.word(self.base + i64::from(key.at) + next)?;
            if (word ^ key.value) & key.mask != 0 {
                return Some(false);
            }
            state.hit(number);
        }
        Some(true)
    }

    /// Follows a filter's link. False if the packet ends before the next header; `None` if the link
    /// is too deep, or a word that is needed is outside the packet.
    fn enter(&mut self, node: &'c Node, link: u32, view: &View<'_>) -> Option<bool> {
        let table = self.common.table(link)?;
        let left = Left { node, rest: self.rest.as_slice(), base: self.base };
        let place = self.left.get_mut(self.depth)?;
        let selector = &node.selector;
        let mut bucket = 0;
        if table.mask != 0 {
            let word = view.word(self.base + i64::from(selector.hash.at))? & selector.hash.mask;
            bucket = table.mask & word.checked_shr(selector.hash.mask.trailing_zeros()).unwrap_or(0);
        }
        if let Some(offset) = selector.offset {
            // The offset is rounded up to whole words.
            let mut next = i64::from(offset.plus) + 3;
            if let Some(read) = offset.read {
                let half = view.half(self.base + i64::from(read.at))?;
                next += i64::from((half & read.mask) >> read.shift.min(15));
            }
            self.next = next & !3;
        }
        if selector.eat {
            self.base += self.next;
            self.next = 0;
        }
        if (selector.eat || selector.offset.is_some()) && self.base >= view.len {
            self.base = left.base;
            return Some(false);
        }
        *place = Some(left);
        self.depth += 1;
        self.rest = table.buckets.get(bucket as usize).map_or(&[][..], |b| b).iter();
        Some(true)
    }

    /// Returns from a table to the filter that has linked to it.
    fn back(&mut self) -> Option<&'c Node> {
        self.depth = self.depth.checked_sub(1)?;
        let left = self.left.get(self.depth).copied().flatten()?;
        self.rest = left.rest.iter();
        self.base = left.base;
        Some(left.node)
    }
}

/// True if the packet was received by the port that a filter requires.
fn came_in(wanted: PortId, iif: PortId) -> bool {
    iif != PortId::NONE && wanted == iif
}
