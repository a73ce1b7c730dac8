//! Choice among classes: in strict order, as prio does with all of its bands and ets with the first
//! of them; and in turns by deficit round robin, as drr does with all of its classes and ets with
//! those that share. `law::deficit` has the members of the round and their credit; this module
//! connects it with the classes' qdiscs.
//!
//! - I1: a class at the front that may not send yet holds up the others: its answer is that of all.
//! - I2: one call asks each class at most twice more than it finds classes empty.

use crate::base::bound::Bound;
use crate::base::time::Instant;
use crate::law::deficit::Round;
use crate::packet::pool::{Pkt, Pool};
use crate::packet::reason::WakeReason;
use crate::packet::scouts::Way;
use crate::sched::answer::{Next, Within};
use crate::sched::cx::Cx;
use crate::sched::node::{Class, Node, Peek};

/// Least quantum: Linux raises smaller ones to it silently. A packet then costs few turns.
pub(crate) const QUANTUM_MIN: u32 = 256;
/// Greatest quantum: Linux lowers greater ones to it silently. One turn is then bounded.
pub(crate) const QUANTUM_MAX: u32 = 1 << 20;

/// Returns the effective quantum.
pub(crate) fn quantum_in_range(quantum: u32) -> u32 {
    quantum.clamp(QUANTUM_MIN, QUANTUM_MAX)
}

/// Returns the packet of the first class that may send; if none may, the earliest time that any of
/// them named. A bit of `active` is set for each class that has had a packet since it last answered
/// that it is empty: only those are asked.
#[inline(always)]
pub(crate) fn take_strictly(active: &mut u32, classes: &mut [Class], cx: &mut Cx) -> Next {
    let mut earliest = Next::Empty;
    let mut todo = *active;
    // Bound: 32 turns, one for each bit.
    while todo != 0 {
        let band = todo.trailing_zeros();
        todo &= todo - 1;
        match classes[band as usize].node.dequeue(cx) {
            Next::Packet(p) => return Next::Packet(p),
            Next::Empty => *active &= !(1 << band),
            at @ Next::At(..) => earliest = earlier(earliest, at),
        }
    }
    earliest
}

/// Returns the class that `take_strictly` comes to after so many others: see `Classes::in_turn`.
pub(crate) fn strictly_in_turn(active: u32, turns: u32) -> Option<usize> {
    let mut todo = active;
    // Bound: 32 turns, one for each bit.
    for _ in 0..turns.min(u32::BITS) {
        todo &= todo.wrapping_sub(1);
    }
    (todo != 0).then_some(todo.trailing_zeros() as usize)
}

/// Returns the way of packets out of these classes, for scouts: see `Class::way_out`.
#[inline]
pub(crate) fn ways_out(classes: &[Class]) -> impl Fn(u32, u8, u8, &mut Pool) -> Way + '_ {
    |i, step, queue, pool| match classes.get(i as usize) {
        Some(class) => class.way_out(step, queue, pool),
        None => Way::End,
    }
}

/// Returns the earlier of two answers that no packet may leave now; `b` is an `At`.
pub fn earlier(a: Next, b: Next) -> Next {
    match (&a, &b) {
        (Next::At(t, _), Next::At(u, _)) if t <= u => a,
        _ => b,
    }
}

/// Returns the packet of the class whose turn it is. Members of the round are the indexes of
/// `classes`; a class that is found empty loses its turn, and the next is asked.
#[inline(always)]
pub fn take_turn(round: &mut Round, classes: &mut [Class], cx: &mut Cx) -> Next {
    if let Some(i) = round.front() {
        let node = &mut classes[i].node;
        if let (Within::Packet(p), bytes) = node.dequeue_within(round.deficit(i), cx) {
            round.pay(i, bytes);
            if node.is_empty() {
                round.leave(i);
            }
            return Next::Packet(p);
        }
    }
    seek_turn(round, classes, cx)
}

/// Does the work of `take_turn` if the first class cannot pay or does not know its next packet
/// cheaply. Out of line: inlined, it would make the common path spill registers.
#[inline(never)]
fn seek_turn(round: &mut Round, classes: &mut [Class], cx: &mut Cx) -> Next {
    let mut unpaid = 0;
    // Each class is asked three times, and once more for each class that is found empty.
    let mut bound = Bound::of((round.len() + 3).saturating_mul(round.len()));
    while let Some(i) = round.front() {
        bound.turn();
        let node = &mut classes[i].node;
        match offer_within(node, round.deficit(i), cx) {
            Offer::Packet(p) => {
                round.pay(i, cx.meta(&p).wire_len.into());
                if node.is_empty() {
                    round.leave(i);
                }
                return Next::Packet(p);
            }
            Offer::Larger => round.defer(i),
            Offer::At(t, why) => return Next::At(t, why),
            Offer::Empty => {
                round.leave(i);
                unpaid = 0;
                continue;
            }
        }
        unpaid += 1;
        if unpaid == round.len() {
            unpaid = 0;
            pass_rounds(round, classes, cx);
        }
    }
    Next::Empty
}

/// Answer of a class whose turn it is.
enum Offer {
    /// This packet is to be sent now.
    Packet(Pkt),
    /// The next packet has more wire bytes than the class may send. It stays.
    Larger,
    /// Nothing is queued.
    Empty,
    /// Packets are queued, but none may leave before this instant.
    At(Instant, WakeReason),
}

/// Returns the next packet of a class, if it may leave now and has at most `most` wire bytes.
fn offer_within(node: &mut Node, most: u64, cx: &mut Cx) -> Offer {
    match node.dequeue_within(most, cx) {
        (Within::Packet(p), _) => Offer::Packet(p),
        (Within::Larger, _) => Offer::Larger,
        (Within::Unknown, _) => match node.peek(cx) {
            Peek::Ready { wire_len, .. } if u64::from(wire_len) > most => Offer::Larger,
            Peek::Ready { .. } => match node.dequeue(cx) {
                Next::Packet(p) => Offer::Packet(p),
                Next::Empty => Offer::Empty,
                Next::At(t, why) => Offer::At(t, why),
            },
            Peek::Empty => Offer::Empty,
            Peek::At(t, why) => Offer::At(t, why),
        },
    }
}

/// Goes on to the round in which the first class can pay, in one pass: all had a turn and could
/// not.
#[cold]
fn pass_rounds(round: &mut Round, classes: &mut [Class], cx: &mut Cx) {
    let mut rounds = u64::MAX;
    for i in round.iter() {
        let short = match classes[i].node.peek(cx) {
            Peek::Ready { wire_len, .. } => round.turns_short(i, wire_len),
            // This class ends the search as soon as its turn comes.
            Peek::At(..) | Peek::Empty => 0,
        };
        rounds = rounds.min(short);
    }
    if rounds != u64::MAX {
        round.advance(rounds);
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    use super::*;
    use crate::base::env::Env;
    use crate::base::handle::Handle;
    use crate::packet::meta::Meta;
    use crate::path::tree::Tree;
    use crate::text::value::Words;

    const MEMBERS: u16 = 256;

    /// Returns the percentage of packets that are asked for before they leave, of those that leave
    /// while at least 70 000 wait: `depth` in each of 256 classes with `inner` in each, or flows.
    /// With fewer packets, of all.
    fn asked_for(kind: &str, class: Option<&str>, inner: Option<(&str, &str)>, depth: u32) -> u32 {
        fn words(text: &str) -> Vec<&str> {
            text.split_whitespace().collect()
        }
        let count = depth * u32::from(MEMBERS);
        let mut tree = Tree::new(Env { memory: 1 << 40, ..Env::default() });
        let cx = &mut Cx::new(count as usize, 1);
        let (name, options) = kind.split_once(' ').unwrap_or((kind, ""));
        let root = Handle::new(1, 0);
        tree.edit(cx).replace(Handle::ROOT, Some(root), name, &mut Words::new(&words(options))).unwrap();
        for minor in (1..=MEMBERS).filter(|_| class.is_some()) {
            let (id, options) = (Handle::new(1, minor), words(class.unwrap_or_default()));
            tree.edit(cx).add_class(root, id, None, &mut Words::new(&options)).unwrap();
            if let Some((kind, options)) = inner {
                tree.edit(cx).replace(id, None, kind, &mut Words::new(&words(options))).unwrap();
            }
        }
        for n in 0..depth {
            for minor in 1..=MEMBERS {
                let mut m = Meta::new(600).priority(n % 4);
                m.class = Handle::new(1, minor);
                let p = cx.pool.alloc(m, Instant::ZERO).unwrap();
                tree.root_mut().enqueue(p, cx);
            }
        }
        let (mut asked, mut met) = (BTreeSet::new(), 0);
        let deep = count.checked_sub(70_000).unwrap_or(count);
        for _ in 0..deep {
            let Next::Packet(p) = tree.root_mut().dequeue(cx) else { panic!("packets wait") };
            met += u32::from(asked.remove(&(p.index() as u32)));
            cx.pool.free(p);
            asked.extend(cx.pool.take_asked());
        }
        met * 100 / deep
    }

    /// With more packets than the caches hold, nearly all are asked for before they leave, and
    /// with few packets none is. Below a class with bands, the first packet of a band may come
    /// before its scout.
    #[test]
    fn packets_of_deep_queues_are_asked_for() {
        let htb = Some("rate 1gbit burst 100mb cburst 100mb quantum 6000");
        let ets = Some(("ets", "bands 4 strict 2 quanta 1500 1500 priomap 0 1 2 3"));
        let prio = Some(("prio", "bands 4 priomap 3 2 1 0 1 1 1 1 1 1 1 1 1 1 1 1"));
        let drr = Some("quantum 6000");
        for (kind, class, inner, most) in
            [("drr", drr, None, 99), ("htb", htb, None, 99), ("htb", htb, prio, 85), ("htb", htb, ets, 75)]
        {
            let (few, many) = (asked_for(kind, class, inner, 8), asked_for(kind, class, inner, 960));
            assert!(few == 0 && many >= most, "{kind} over {inner:?}: {few} % and {many} %");
        }
        for kind in ["fq_codel flows 8192 limit 300000 memory_limit 1gb", "fq_pie flows 8192 limit 300000"] {
            let many = asked_for(kind, None, None, 960);
            assert!(many >= 95, "{kind}: {many} %");
        }
    }
}
