//! Packets that are taken out of their qdiscs and put into others: nothing is lost, nothing is there twice, and each
//! flow stays in order.

mod common;

use common::device::{Device, Frame};
use common::ops::{Op, Scope};
use common::options::legal;
use common::run::Plan;
use common::world::World;
use txweir_core::cx::Tally;
use txweir_core::qdisc::KINDS;
use txweir_core::rng::Rng;
use txweir_core::value::Words;
use txweir_core::{DropReason, Handle, Meta, TxPath};

/// Worlds with packets in them, of every kind.
fn loaded(mut f: impl FnMut(World)) {
    for spec in KINDS {
        for seed in 0..40 {
            let plan = Plan::new(spec, seed, Scope::Traffic, 50);
            let mut world = plan.world().unwrap();
            world.run_all(&plan.ops).unwrap();
            if seed % 3 == 0 {
                // Below a slow shaper, which holds what it has asked for.
                let (now, dev) = (world.now, &mut world.dev);
                let put =
                    |path: &mut TxPath<Frame>, parent, kind: &str, options: &[&str], dev: &mut Device| {
                        path.configure(now, dev, |tree, cx| {
                            tree.replace(parent, None, kind, &mut Words::new(options), cx)
                        })
                        .unwrap()
                    };
                let slow = ["rate", "1kbit", "burst", "2kb", "limit", "1mb"];
                let tbf = put(&mut world.path, Handle::ROOT, "tbf", &slow, dev);
                let options = legal(spec, &world.env, &mut Rng::new(seed));
                let options: Vec<&str> = options.iter().map(String::as_str).collect();
                put(&mut world.path, Handle::new(tbf.major(), 1), spec.kind, &options, dev);
                world.account().unwrap();
                world.checker.input();
                world.configured().unwrap();
            }
            let mut rng = Rng::new(seed);
            for _ in 0..rng.below(40) {
                let meta = Meta::new(60 + rng.below(1400) as u32)
                    .hash((rng.below(6) as u32).wrapping_mul(0x9e37_79b9))
                    .priority(rng.below(16) as u32);
                world.run(&Op::Submit { meta, class: rng.below(100) as u32, burst: 1 }).unwrap();
                // A shaper that is asked holds one.
                world.run(&Op::Drain(1)).unwrap();
            }
            f(world);
        }
    }
}

#[test]
fn a_look_at_what_waits_sees_every_packet_where_it_is_counted() {
    let (mut packets, mut held) = (0, 0);
    loaded(|world| {
        let (tree, pool) = (world.path.tree(), &world.path.cx().pool);
        let mut seen: Vec<(Handle, Handle, Tally)> = Vec::new();
        tree.queued(pool, &mut |parent, handle, m| {
            if seen.last().is_none_or(|(p, h, _)| (*p, *h) != (parent, handle)) {
                seen.push((parent, handle, Tally::default()));
            }
            seen.last_mut().unwrap().2.add(m.wire_len);
            packets += 1;
        });
        tree.visit(&mut |place, node| {
            // What waits here and not in a class.
            let mut own = node.books().queued;
            for class in node.qdisc().classes() {
                own = own.since(class.node.books().queued);
            }
            let told = seen.iter().filter(|(p, h, _)| (*p, *h) == (place.parent, node.handle()));
            let told = told.map(|s| s.2).next().unwrap_or_default();
            assert_eq!(told, own, "{} at {}", node.qdisc().spec().kind, place.parent);
            held += u64::from(node.held(pool).is_some());
        });
    });
    assert!(packets > 1000 && held > 10, "{packets} packets, {held} held");
}

#[test]
fn what_is_taken_out_was_never_there_and_nothing_else_changes() {
    let mut packets = 0;
    loaded(|mut world| {
        let before: Vec<_> = books(&world);
        let mut expected = Vec::new();
        world
            .path
            .tree()
            .queued(&world.path.cx().pool, &mut |_, _, m| expected.push((m.enqueued, m.hash, m.len)));
        let counters = |world: &World| {
            let mut all = Vec::new();
            world.path.tree().visit(&mut |_, node| {
                node.qdisc().counters(&mut |c, n| {
                    // What they hold is gone; what they know is not.
                    if c.key != "memory_used" {
                        all.push((c.key, n));
                    }
                });
            });
            all
        };
        let known = counters(&world);
        let now = world.now;
        let mut taken = Vec::new();
        world.path.configure(now, &mut world.dev, |tree, cx| {
            tree.drain(cx, &mut |p, cx| {
                let m = cx.meta(&p);
                taken.push((m.enqueued, m.hash, m.len));
                cx.drop(p, DropReason::Purged);
            });
        });
        packets += taken.len();
        for (m, hash) in taken.iter().map(|m| (m, m.1)) {
            assert!(expected.contains(m), "{m:?}");
            let flow =
                |all: &[(_, u32, u32)]| all.iter().filter(|m| m.1 == hash).copied().collect::<Vec<_>>();
            let (got, told) = (flow(&taken), flow(&expected));
            assert_eq!(got, told, "both in order");
        }
        for (old, new) in before.iter().zip(books(&world)) {
            assert_eq!((new.queued, new.dropped, new.sent), (Tally::default(), old.dropped, old.sent));
            assert_eq!(new.admitted, old.admitted.since(old.queued));
        }
        assert_eq!(world.path.cx().pool.live(), 0);
        assert_eq!(counters(&world), known);
    });
    assert!(packets > 1000, "{packets}");
}

fn books(world: &World) -> Vec<txweir_core::node::Books> {
    let mut all = Vec::new();
    world.path.tree().visit(&mut |_, node| all.push(*node.books()));
    all
}
