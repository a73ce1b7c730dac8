//! Packets are taken out of a tree without being dropped, and put into another.

mod common;

use std::collections::BTreeMap;

use common::options::{legal, with_words};
use txweir_core::cx::{Cx, Tally};

use txweir_core::pool::List;
use txweir_core::qdisc::KINDS;
use txweir_core::rng::Rng;
use txweir_core::{Env, Handle, Instant, Meta, Nanos, Tree};

/// Counters of every qdisc but those that tell of the present.
fn counters(tree: &Tree) -> Vec<(Handle, &'static str, u64)> {
    let mut all = Vec::new();
    tree.visit(&mut |_, node| {
        node.qdisc().counters(&mut |c, n| {
            if c.key != "memory_used" {
                all.push((node.handle(), c.key, n));
            }
        });
    });
    all
}

/// Everything that waits is handed out, as it was shown, each flow in its order; the books forget it, and the
/// counters stay.
#[test]
fn what_is_taken_out_is_what_was_shown() {
    let env = Env::default();
    let mut taken = 0;
    for spec in KINDS {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let (mut tree, mut cx) = (Tree::new(env), Cx::new(4000, seed));
            let words = legal(spec, &env, &mut rng);
            let root = with_words(&words, |w| {
                tree.add(Handle::ROOT, Some(Handle::new(1, 0)), spec.kind, w, &mut cx)
            });
            root.unwrap();
            if spec.flags.classful {
                let words = legal(KINDS[seed as usize % KINDS.len()], &env, &mut rng);
                let kind = KINDS[seed as usize % KINDS.len()].kind;
                let _ = with_words(&words, |w| tree.add(Handle::new(1, 1), None, kind, w, &mut cx));
            }
            for n in 0..200 {
                cx.now = Instant(n * 1000);
                let m = Meta::new(60 + rng.below(1400) as u32);
                let mut m = m.hash(rng.below(7) as u32 * 0x1111_1111).priority(rng.below(16) as u32);
                m.mark = n as u32;
                let p = cx.pool.alloc(m, cx.now).unwrap();
                tree.root_mut().enqueue(p, &mut cx);
                if n % 3 == 0
                    && let txweir_core::qdisc::Next::Packet(p) = tree.root_mut().dequeue(&mut cx)
                {
                    cx.pool.free(p);
                }
            }
            cx.now += Nanos(1000);
            let (before, told) = (tree.root().books().queued, counters(&tree));
            let gone = (tree.root().books().sent, tree.root().books().dropped);
            let mut shown = Vec::new();
            tree.queued(&cx.pool, &mut |_, _, m| shown.push(*m));
            let mut out = List::new();
            tree.drain(&mut out, &mut cx);
            let (mut sum, mut last) = (Tally::default(), BTreeMap::new());
            for (i, m) in out.metas(&cx.pool).enumerate() {
                assert_eq!(*m, shown[i], "{}", spec.kind);
                let before = last.insert((m.hash, m.priority), m.mark);
                assert!(before.is_none_or(|before| before < m.mark), "{}: order of a flow", spec.kind);
                sum.packets += 1;
                sum.bytes += u64::from(m.wire_len);
            }
            assert_eq!((sum, sum.packets), (before, shown.len() as u64), "{}", spec.kind);
            assert_eq!(told, counters(&tree), "{}", spec.kind);
            tree.visit(&mut |_, node| {
                let b = node.books();
                assert_eq!(b.queued, Tally::default(), "{}", spec.kind);
                assert_eq!(b.admitted.packets, b.sent.packets + b.dropped.packets, "{}", spec.kind);
                assert_eq!(b.admitted.bytes, b.sent.bytes + b.dropped.bytes, "{}", spec.kind);
            });
            assert_eq!(gone, (tree.root().books().sent, tree.root().books().dropped));
            taken += sum.packets;
            while let Some(p) = out.pop_front(&cx.pool) {
                cx.pool.free(p);
            }
        }
    }
    assert!(taken > 10_000, "{taken}");
}
