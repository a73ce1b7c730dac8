//! Drops and marks by reason at every node: trees by hand, and the law of reasons against planted
//! bugs.

use crate::common::Law;
use crate::common::lane::Lane;
use crate::common::ops::Scope;
use crate::common::reasons::Planted;
use crate::common::run::Plan;
use txweir_core::model::testing::VecDevice;
use txweir_core::path::port::{Choice, Port};
use txweir_core::path::qdiscs::Qdiscs;
use txweir_core::qdisc::KINDS;
use txweir_core::sched::node::Node;
use txweir_core::text::value::Words;
use txweir_core::{
    DropReason, Ecn, Env, Handle, Instant, MarkReason, Meta, PathConfig, Reasons, Role, TxPath,
};

const T0: Instant = Instant::ZERO;
const ROOT: Handle = Handle::new(1, 0);

fn at(ms: u64) -> Instant {
    Instant(ms * 1_000_000)
}

fn band(minor: u16) -> Handle {
    Handle::new(1, minor)
}

/// Returns a packet for a class of the root.
fn to(minor: u16) -> Meta {
    Meta::new(1000).priority(band(minor).0)
}

/// Puts a prio with the handle 1: at the root.
fn prio() -> Lane {
    let mut lane = Lane::new("pfifo", "");
    let words = ["bands", "3"];
    lane.path
        .configure(T0, &mut lane.dev, |tree, cx| {
            tree.edit(cx).replace(Handle::ROOT, Some(ROOT), "prio", &mut Words::new(&words))
        })
        .expect("a prio");
    lane
}

/// Returns the reasons of the node at a place.
fn told(path: &TxPath<u32>, parent: Handle) -> Vec<(&'static str, u64)> {
    let mut told = Vec::new();
    path.tree().visit(&mut |place, node| {
        if place.parent == parent {
            told = named(node.account().reasons());
        }
    });
    told
}

fn named(reasons: &Reasons) -> Vec<(&'static str, u64)> {
    let drops = reasons.each_drop().map(|(reason, n)| (reason.name(), n));
    drops.chain(reasons.each_mark().map(|(reason, n)| (reason.name(), n))).collect()
}

#[test]
fn a_node_tells_of_itself_and_of_those_below() {
    let mut lane = prio();
    lane.graft(T0, band(1), "pfifo", "limit 2");
    lane.graft(T0, band(2), "pfifo_head_drop", "limit 1");
    lane.graft(T0, band(3), "codel", "target 1ms interval 10ms ecn ce_threshold 2ms");
    for id in 0..5 {
        let _ = lane.put(T0, id, to(1));
        let _ = lane.put(T0, 10 + id, to(2));
        let _ = lane.put(T0, 20 + id, to(3).ecn(Ecn::Ect0));
    }
    assert_eq!(told(&lane.path, band(1)), [("overlimit", 3)]);
    assert_eq!(told(&lane.path, band(2)), [("head_drop", 4)]);
    assert_eq!(told(&lane.path, Handle::ROOT), [("overlimit", 3), ("head_drop", 4)]);
    // Packets in the codel have waited for too long, and are marked as they leave.
    assert_eq!(lane.ids(at(5), 99).len(), 2 + 1 + 5);
    assert_eq!(told(&lane.path, band(3)), [("ce_threshold", 5)]);
    let all = [("overlimit", 3), ("head_drop", 4), ("ce_threshold", 5)];
    assert_eq!(told(&lane.path, Handle::ROOT), all);
    assert_eq!(lane.path.cx().marks(MarkReason::CeThreshold), 5);
}

#[test]
fn marks_of_a_peek_are_told_at_every_level() {
    let mut lane = prio();
    lane.graft(T0, band(1), "tbf", "rate 8mbit burst 1600 limit 100000");
    let tbf = {
        let mut handle = Handle::NONE;
        lane.path.tree().visit(&mut |place, node| {
            if place.parent == band(1) {
                handle = node.handle();
            }
        });
        handle
    };
    let inner = Handle::new(tbf.major(), 1);
    lane.graft(T0, inner, "codel", "ecn ce_threshold 2ms");
    lane.fill(T0, 0, 3, to(1).ecn(Ecn::Ect1));
    assert_eq!(lane.ids(at(5), 99).len(), 1);
    // The second packet was taken out of the codel to see its size: it is marked, and has not left.
    for place in [inner, band(1), Handle::ROOT] {
        assert_eq!(told(&lane.path, place), [("ce_threshold", 2)], "{place}");
    }
}

#[test]
fn a_node_that_goes_takes_its_reasons_along_and_those_above_keep_theirs() {
    let mut lane = prio();
    lane.graft(T0, band(1), "pfifo", "limit 2");
    for id in 0..5 {
        let _ = lane.put(T0, id, to(1));
    }
    lane.graft(T0, band(1), "pfifo_head_drop", "limit 9");
    assert_eq!(told(&lane.path, band(1)), []);
    assert_eq!(told(&lane.path, Handle::ROOT), [("overlimit", 3), ("purged", 2)]);
    // A packet set aside in a swap and queued again is no drop.
    lane.fill(T0, 10, 4, to(1));
    let options = ["limit", "3"];
    let (done, swapped) = lane.path.swap(
        T0,
        &mut lane.dev,
        |tree, cx| tree.edit(cx).replace(band(1), None, "pfifo", &mut Words::new(&options)),
        |_, _, _, _| unreachable!("no packet has segments"),
    );
    assert!(done.is_ok());
    assert_eq!((swapped.moved.packets, swapped.dropped.packets), (3, 1));
    assert_eq!(told(&lane.path, band(1)), [("overlimit", 1)]);
    assert_eq!(told(&lane.path, Handle::ROOT), [("overlimit", 4), ("purged", 2)]);
    // A packet too large for any byte limit is refused before any qdisc.
    let huge = Meta::new(u32::MAX / 2).priority(band(1).0);
    let _ = lane.put(T0, 99, huge);
    assert_eq!(lane.path.cx().drops(DropReason::Oversize), 1);
    assert_eq!(lane.root().account().reasons().dropped(), lane.root().books().dropped.packets);
    assert_eq!(lane.path.cx().dropped().packets, lane.root().books().dropped.packets + 1);
}

#[test]
fn a_port_sums_over_its_queues() {
    let env = Env { queues: 3, ..Env::default() };
    let config = PathConfig { env, role: Role::Forwarder, bql: None, pool: 100, trace: 0 };
    let mut port: Port<u32> = Port::new(config).expect("no byte limit");
    let mut dev: Vec<VecDevice<u32>> = (0..3).map(|_| VecDevice::with_slots(0)).collect();
    let add = |qdiscs: &mut Qdiscs<'_>| {
        qdiscs.add(Handle::ROOT, Some(ROOT), "mq", &mut Words::new(&[])).expect("mq");
        for (queue, limit) in [(1, "1"), (2, "2"), (3, "100")] {
            let options = ["limit", limit];
            qdiscs.add(band(queue), None, "pfifo", &mut Words::new(&options)).expect("a pfifo");
        }
    };
    port.control(T0, &mut dev).swap(add, |frame, m, _, each| each(frame, *m));
    for id in 0..30 {
        let _ = port.send(T0, id, Meta::new(1000), Choice::Queue((id % 3) as u16), &mut dev);
    }
    assert_eq!(named(&port.totals().reasons()), [("overlimit", 9 + 8)]);
    assert_eq!(port.totals().reasons().dropped(), port.totals().books().dropped.packets);
    let mut each = Vec::new();
    port.trees()
        .visit(&mut |place, node: &Node| each.push((place.depth, node.account().reasons().dropped())));
    assert_eq!(each, [(0, 0), (1, 9), (1, 8), (1, 0)]);
}

/// Returns the broken laws that a run over the whole registry finds with this fault in the reasons
/// of nodes.
fn found(planted: Planted) -> Vec<Law> {
    let mut laws = Vec::new();
    for spec in KINDS {
        for seed in 0..6 {
            let plan = Plan::new(spec, seed, Scope::All, 200);
            let Ok(mut world) = plan.world() else { continue };
            world.checker.told.planted = planted;
            world.checker.learn(&world.path);
            laws.extend(world.run_all(&plan.ops).err().map(|v| v.law));
        }
    }
    laws.sort_unstable();
    laws.dedup();
    laws
}

#[test]
fn the_law_of_reasons_cries_out() {
    assert_eq!(found(Planted::Nothing), []);
    for planted in [
        Planted::Forgets,
        Planted::Confuses,
        Planted::LosesOnTheWayUp,
        Planted::MarksStayBelow,
        Planted::MarksTwice,
    ] {
        assert_eq!(found(planted), [Law::Reasons], "{planted:?}");
    }
}
