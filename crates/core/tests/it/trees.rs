//! Mistakes that schedulers of trees have made in the field, each as a test of every kind with
//! several classes: a child that empties inside a dequeue, counts that go below zero, lists of
//! active classes that lose or double a member, a class that is told twice that it is empty. Other
//! tests show the refusals of a tree.

use txweir_core::classify::filter::Filters;
use txweir_core::model::testing::VecDevice;
use txweir_core::packet::route::DEPTH_MAX;
use txweir_core::path::qdiscs::Qdiscs;
use txweir_core::qdisc::KINDS;
use txweir_core::sched::cx::Cx;
use txweir_core::sched::node::Node;
use txweir_core::sched::spec::ClassShape;
use txweir_core::sched::spec::Spec;
use txweir_core::text::value::Words;
use txweir_core::{
    Admitted, ConfigError, Env, ErrorKind, Handle, Instant, Meta, PathConfig, Role, Tally, Tree, TxPath, Wake,
};

/// taprio with one class of four queues, whose gate is always open.
const TAPRIO: [&str; 12] =
    ["num_tc", "1", "map", "0", "queues", "4@0", "clockid", "TAI", "sched-entry", "S", "1", "1000000"];

/// Returns the options of the root of this kind, and those of each of its classes.
fn words(kind: &str) -> (&'static [&'static str], &'static [&'static str]) {
    match kind {
        "ets" => (&["bands", "3"], &[]),
        "hfsc" => (&[], &["ls", "m2", "8gbit"]),
        "htb" => (&[], &["rate", "100gbit", "burst", "1mb", "cburst", "1mb"]),
        "mqprio" => (&["num_tc", "2", "map", "0", "1", "1", "queues", "1@0", "3@1", "hw", "0"], &[]),
        "taprio" => (&TAPRIO, &[]),
        "red" => (&["limit", "100000", "avpkt", "1000", "bandwidth", "10mbit"], &[]),
        "tbf" => (&["rate", "8mbit", "burst", "2000", "limit", "100000"], &[]),
        _ => (&[], &[]),
    }
}

/// Makes a path whose root has this kind and classes 1:1 to 1:3, with a device without room; `None`
/// if the kind has fewer classes.
struct Lane {
    path: TxPath<u32>,
    dev: VecDevice<u32>,
    now: Instant,
    next: u32,
}

impl Lane {
    fn new(spec: &'static Spec) -> Option<Self> {
        let (root, class) = words(spec.kind);
        let env = Env { queues: 4, ..Env::default() };
        let config = PathConfig { env, role: Role::Forwarder, bql: None, ..PathConfig::default() };
        let path = TxPath::new(config).unwrap();
        let mut lane = Self { path, dev: VecDevice::with_slots(0), now: Instant::from_secs(1), next: 0 };
        if spec.shape == ClassShape::One {
            return None;
        }
        lane.add(Handle::ROOT, 1, spec.kind, root).unwrap();
        if spec.classes.is_some_and(|c| c.made) {
            for minor in 1..=3 {
                let id = Handle::new(1, minor);
                lane.path
                    .configure(lane.now, &mut lane.dev, |tree, cx| {
                        tree.edit(cx).add_class(Handle::new(1, 0), id, None, &mut Words::new(class))
                    })
                    .unwrap();
            }
        }
        let classes = lane.path.tree().root().qdisc().classes().iter().filter(|c| c.minor != 0).count();
        (classes >= 3).then_some(lane)
    }

    fn add(
        &mut self,
        parent: Handle,
        major: u16,
        kind: &str,
        options: &[&str],
    ) -> Result<Handle, ConfigError> {
        self.path.configure(self.now, &mut self.dev, |tree, cx| {
            tree.edit(cx).replace(parent, Some(Handle::new(major, 0)), kind, &mut Words::new(options))
        })
    }

    fn change(&mut self, parent: Handle, options: &[&str]) {
        self.path
            .configure(self.now, &mut self.dev, |tree, cx| {
                tree.edit(cx).change(parent, None, &mut Words::new(options))
            })
            .unwrap();
    }

    /// Returns a packet for a class of the root, and in it for a class of the qdisc there.
    fn put(&mut self, minor: u16, below: Handle, len: u32) -> Admitted<u32> {
        let mut meta = Meta::new(len).priority(Handle::new(1, minor).0);
        meta.class = below;
        meta.queue = minor - 1;
        self.next += 1;
        self.path.submit(self.now, self.next, meta, &mut self.dev)
    }

    /// Lets at most this number of packets out.
    fn out(&mut self, slots: u32) -> Wake {
        let sent = self.dev.sent().len();
        self.dev.set_slots(slots);
        let wake = self.path.drain(self.now, slots, &mut self.dev);
        assert!(self.dev.sent().len() - sent <= slots as usize);
        self.dev.finish(usize::MAX);
        self.path.reap(self.now, &mut self.dev, |_| {});
        self.dev.set_slots(0);
        wake
    }

    fn sent(&self) -> &[u32] {
        self.dev.sent()
    }

    /// Checks that the books of every node agree with themselves and with those below.
    fn audit(&self) {
        fn sum(node: &Node) -> Tally {
            let mut below = Tally::default();
            let classes = node.qdisc().classes();
            for class in classes {
                let queued = sum(&class.node);
                below.packets += queued.packets;
                below.bytes += queued.bytes;
            }
            let books = node.books();
            assert_eq!(
                books.admitted.packets,
                books.sent.packets + books.dropped.packets + books.queued.packets,
                "{books:?}"
            );
            if !classes.is_empty() {
                // A packet that a peek holds counts here, and has left those below.
                below.packets += books.peeked.packets;
                below.bytes += books.peeked.bytes;
                assert_eq!(books.queued, below, "{}", node.qdisc().spec().kind);
            }
            books.queued
        }
        let queued = sum(self.path.tree().root());
        assert_eq!(queued.packets, self.path.cx().pool.live() as u64);
    }
}

/// Runs `test` on every kind with several classes, and returns the number of these kinds.
fn every_kind(test: impl Fn(&'static str, Lane)) {
    let mut met = 0;
    for spec in KINDS.iter().filter(|s| s.shape.is_classful() && !s.fixed) {
        if let Some(lane) = Lane::new(spec) {
            met += 1;
            test(spec.kind, lane);
        }
    }
    assert!(met >= 2, "{met}");
}

/// Puts a tbf in class 1:1 whose bucket was made too small for its waiting packets: at a dequeue it
/// drops all of them.
fn hollow(lane: &mut Lane) {
    lane.add(Handle::new(1, 1), 10, "tbf", &["rate", "100gbit", "burst", "10kb", "limit", "1mb"]).unwrap();
    for _ in 0..3 {
        assert_eq!(lane.put(1, Handle::NONE, 1500), Admitted::Queued);
    }
    lane.change(Handle::new(1, 1), &["rate", "100gbit", "burst", "1000", "limit", "1mb"]);
}

/// Packets of a hollow class that its parent has taken hold of: qfq looks at the first when the
/// second comes, as in Linux.
fn held(kind: &str) -> u64 {
    u64::from(kind == "qfq")
}

/// Ledger: "child empties inside dequeue, its parent leaves the active tree while siblings wait".
#[test]
fn a_child_that_empties_inside_a_dequeue_stalls_nobody() {
    every_kind(|kind, mut lane| {
        hollow(&mut lane);
        assert_eq!(lane.put(2, Handle::NONE, 1000), Admitted::Queued);
        assert_eq!(lane.put(3, Handle::NONE, 1000), Admitted::Queued);
        assert_eq!(lane.out(64), Wake::Idle, "{kind}");
        let mut sent = lane.sent().to_vec();
        sent.sort_unstable();
        assert_eq!(sent, [1, 4, 5][1 - held(kind) as usize..], "{kind}");
        lane.audit();
        // The class takes its place again, once.
        assert_eq!(lane.put(1, Handle::NONE, 900), Admitted::Queued);
        assert_eq!(lane.put(2, Handle::NONE, 900), Admitted::Queued);
        assert_eq!((lane.out(64), lane.sent().len()), (Wake::Idle, 4 + held(kind) as usize), "{kind}");
        lane.audit();
    });
}

/// Ledger: "notification twice". A class is emptied by its own dequeue, by a change, by a purge and
/// by a graft, each while it is empty already.
#[test]
fn a_class_emptied_twice_takes_nothing_from_its_siblings() {
    every_kind(|kind, mut lane| {
        hollow(&mut lane);
        assert_eq!(lane.put(2, Handle::NONE, 1000), Admitted::Queued);
        assert_eq!(lane.put(2, Handle::NONE, 1000), Admitted::Queued);
        assert_ne!(lane.out(1), Wake::Idle, "{kind}: one is left");
        lane.change(Handle::new(1, 1), &["rate", "1gbit", "burst", "900", "limit", "1kb"]);
        lane.add(Handle::new(1, 1), 11, "fq_codel", &[]).unwrap();
        let place = Handle::new(1, 1);
        for _ in 0..2 {
            let delete = lane.path.configure(lane.now, &mut lane.dev, |tree, cx| tree.edit(cx).delete(place));
            lane.audit();
            // After the first deletion the class has its default qdisc.
            let _ = delete;
        }
        let (packets, held) = (1 + held(kind), held(kind) as usize);
        assert_eq!(lane.path.backlog(), Tally { packets, bytes: packets * 1000 }, "{kind}");
        assert_eq!((lane.out(64), lane.sent().len()), (Wake::Idle, 2 + held), "{kind}");
        lane.audit();
    });
}

/// Ledger: "qlen underflow". A drop three levels down, for a packet of another flow, is subtracted
/// from every ancestor once.
#[test]
fn a_drop_deep_down_is_taken_off_every_ancestor_once() {
    every_kind(|kind, mut lane| {
        lane.add(Handle::new(1, 1), 10, "prio", &[]).unwrap();
        lane.add(Handle::new(10, 1), 20, "tbf", &["rate", "1gbit", "burst", "10kb", "limit", "1mb"]).unwrap();
        lane.add(Handle::new(20, 1), 30, "fq_codel", &["limit", "4", "flows", "8"]).unwrap();
        for i in 0..40 {
            let mut meta = Meta::new(1000).priority(Handle::new(1, 1).0).hash(u32::MAX / 8 * (i % 3));
            meta.class = Handle::new(10, 1);
            let answer = lane.path.submit(lane.now, i, meta, &mut lane.dev);
            assert!(matches!(answer, Admitted::Queued | Admitted::Dropped(_)), "{kind} {answer:?}");
            lane.audit();
            if i % 7 == 0 {
                let _ = lane.out(1);
                lane.audit();
            }
        }
        lane.change(Handle::new(20, 1), &["limit", "1"]);
        lane.audit();
        while lane.path.backlog().packets > 0 {
            if let Wake::At(t, _) = lane.out(64) {
                lane.now = t;
            }
            lane.audit();
        }
        let books = lane.path.tree().root().books();
        assert_eq!(books.queued, Tally::default(), "{kind}");
        assert!(books.dropped.packets > 20 && books.sent.packets > 3, "{kind} {books:?}");
    });
}

/// Ledger: "active-list corruption". Classes are emptied from outside while they are active, and
/// filled again: each is served in its turn, none is lost and none is doubled.
#[test]
fn a_class_emptied_from_outside_and_filled_again_is_active_once() {
    every_kind(|kind, mut lane| {
        let mut all = 0;
        for round in 0..200 {
            for minor in 1..=3 {
                for _ in 0..1 + (round + u32::from(minor)) % 4 {
                    assert_eq!(lane.put(minor, Handle::NONE, 500), Admitted::Queued, "{kind}");
                    all += 1;
                }
            }
            let place = Handle::new(1, 1 + (round % 3) as u16);
            let before = lane.path.backlog().packets;
            match round % 4 {
                0 => drop(lane.add(place, 10 + (round % 3) as u16, "pfifo", &[])),
                1 => {
                    drop(lane.path.configure(lane.now, &mut lane.dev, |tree, cx| tree.edit(cx).delete(place)))
                }
                _ => {}
            }
            all -= before - lane.path.backlog().packets;
            let _ = lane.out(round % 5);
            lane.audit();
            if round % 3 == 0 {
                assert_eq!(lane.out(1000), Wake::Idle, "{kind} {round}");
                assert_eq!(lane.path.backlog(), Tally::default(), "{kind} {round}");
            }
        }
        let _ = lane.out(1000);
        let mut sent = lane.sent().to_vec();
        assert_eq!(sent.len() as u64, all, "{kind}");
        sent.sort_unstable();
        sent.dedup();
        assert_eq!(sent.len() as u64, all, "{kind}: none twice");
    });
}

/// A removed class drops its own packets, and no others.
#[test]
fn a_class_that_is_deleted_takes_its_own_packets_only() {
    let mut met = 0;
    for spec in KINDS.iter().filter(|s| s.classes.is_some_and(|c| c.made)) {
        let mut lane = Lane::new(spec).unwrap_or_else(|| panic!("{}: no three classes", spec.kind));
        for minor in [1, 2, 3, 2, 1] {
            assert_eq!(lane.put(minor, Handle::NONE, 700), Admitted::Queued, "{}", spec.kind);
        }
        let delete = |lane: &mut Lane, minor| {
            lane.path.configure(lane.now, &mut lane.dev, |tree, cx| {
                tree.edit(cx).delete_class(Handle::new(1, minor))
            })
        };
        delete(&mut lane, 2).unwrap();
        lane.audit();
        assert_eq!(lane.path.backlog(), Tally { packets: 3, bytes: 2100 }, "{}", spec.kind);
        assert_eq!(
            delete(&mut lane, 2).unwrap_err().to_string(),
            "class 1:2: expected a class that is there, given nothing",
            "{}",
            spec.kind
        );
        assert_eq!(lane.out(64), Wake::Idle, "{}", spec.kind);
        let mut sent = lane.sent().to_vec();
        sent.sort_unstable();
        assert_eq!(sent, [1, 3, 5], "{}", spec.kind);
        lane.audit();
        met += 1;
    }
    assert!(met > 0);
}

/// A tree that would be too deep is refused with the place and the bound, for all kinds.
#[test]
fn a_tree_is_bounded_in_depth() {
    every_kind(|kind, mut lane| {
        let mut parent = Handle::new(1, 1);
        for level in 1..DEPTH_MAX as u16 - 1 {
            lane.add(parent, 1 + level, "prio", &[]).unwrap();
            parent = Handle::new(1 + level, 1);
        }
        let err =
            lane.add(parent, 90, "tbf", &["rate", "1mbit", "burst", "10kb", "limit", "1mb"]).unwrap_err();
        assert_eq!(
            err.to_string(),
            "class 7:1: expected at most 8 levels of qdiscs, given \"tbf\"",
            "{kind}"
        );
        lane.add(parent, 90, "fq_codel", &[]).unwrap();
    });
}

/// The answers of a tree to impossible class commands.
#[test]
fn class_commands_that_are_refused() {
    let drr = KINDS.iter().find(|s| s.kind == "drr").unwrap();
    let mut lane = Lane::new(drr).unwrap();
    lane.add(Handle::new(1, 3), 2, "prio", &[]).unwrap();
    let mut said = |parent: Handle, class: Handle, kind: Option<&str>, options: &[&str]| {
        let done = lane.path.configure(lane.now, &mut lane.dev, |tree, cx| {
            tree.edit(cx).add_class(parent, class, kind, &mut Words::new(options))
        });
        done.unwrap_err().to_string()
    };
    let of = Handle::new;
    for (parent, class, kind, options, expected) in [
        (
            of(1, 0),
            of(1, 2),
            None,
            &[][..],
            "class 1:2: expected a class that is not there yet, given \"class 1:2\"",
        ),
        (
            of(1, 0),
            of(7, 1),
            None,
            &[],
            "class 7:1 parent: expected 7:, its qdisc, or a class of that, given \"1:\"",
        ),
        (of(7, 0), of(7, 1), None, &[], "qdisc 7: classid: expected a qdisc of this tree, given \"7:\""),
        (
            of(2, 0),
            of(2, 9),
            None,
            &[],
            "class 2:9: expected a qdisc whose classes commands make: prio is not one, given \"this\"",
        ),
        (
            of(1, 0),
            of(1, 9),
            Some("prio"),
            &[],
            "class 1:9 kind: expected drr, the kind of qdisc 1:, given \"prio\"",
        ),
        (of(1, 0), of(1, 0), None, &[], "class classid: expected a class, MAJOR:MINOR, given nothing"),
        (
            of(1, 0),
            of(1, 9),
            None,
            &["quantum", "0"],
            "drr quantum: expected 1 to 4294967295 bytes, given \"0\"",
        ),
        (of(1, 0), of(1, 9), None, &["quanta", "1"], "drr: expected one of quantum, given \"quanta\""),
    ] {
        assert_eq!(said(parent, class, kind, options), expected);
    }
}

/// class-only
#[test]
fn any_number_names_the_only_class() {
    let mut kinds = Vec::new();
    for spec in KINDS.iter().filter(|s| s.shape.is_classful() && s.classes.is_none_or(|c| !c.made)) {
        let env = Env { queues: 4, ..Env::default() };
        let config = PathConfig { env, role: Role::Forwarder, bql: None, ..PathConfig::default() };
        let path = TxPath::new(config).unwrap();
        let mut lane = Lane { path, dev: VecDevice::with_slots(0), now: Instant::from_secs(1), next: 0 };
        lane.add(Handle::ROOT, 1, spec.kind, words(spec.kind).0).unwrap();
        let class = |minor| Handle::new(1, minor);
        let tree = |lane: &mut Lane, f: fn(&mut Tree, Handle, &mut Cx) -> Result<(), ConfigError>, minor| {
            lane.path.configure(lane.now, &mut lane.dev, |tree, cx| f(tree, class(minor), cx))
        };
        let parent_of = |lane: &mut Lane| {
            let ten = Handle::new(10, 0);
            lane.path.configure(lane.now, &mut lane.dev, |tree, cx| tree.edit(cx).parent_of(ten))
        };
        // Beyond the bands of prio, ets and multiq.
        let added = lane.add(class(0xfff0), 10, "pfifo", &["limit", "5"]);
        assert_eq!(added.is_ok(), spec.shape == ClassShape::One, "{}: {added:?}", spec.kind);
        if spec.shape != ClassShape::One {
            continue;
        }
        kinds.push(spec.kind);
        let again =
            tree(&mut lane, |t, c, cx| t.edit(cx).add(c, None, "pfifo", &mut Words::new(&[])).map(|_| ()), 3);
        assert_eq!(
            again.unwrap_err().to_string(),
            "class 1:1: expected no qdisc there yet, given \"a:\" (use replace, or delete it first)"
        );
        tree(&mut lane, |t, c, cx| t.edit(cx).change(c, None, &mut Words::new(&["limit", "9"])), 0xffff)
            .unwrap();
        assert_eq!(parent_of(&mut lane).unwrap(), class(1));
        tree(&mut lane, |t, c, cx| t.edit(cx).delete(c), 7).unwrap();
        assert!(parent_of(&mut lane).is_err());
        lane.add(class(0), 10, "pfifo", &[]).unwrap();
        assert_eq!(parent_of(&mut lane).unwrap(), class(1));
    }
    assert_eq!(kinds, ["cbs", "netem", "red", "sfb", "tbf"]);
}

/// The place of the root has the major number of this handle, and is no class of it.
#[test]
fn the_root_is_no_class_of_a_qdisc_with_the_last_handle() {
    let (mut tree, mut cx) = (Tree::new(Env::default()), Cx::new(1, 0));
    let mut add = |parent, major, kind| {
        let added = tree.edit(&mut cx).add(parent, Some(Handle::new(major, 0)), kind, &mut Words::new(&[]));
        added.map_err(|err| err.kind)
    };
    assert_eq!(add(Handle::ROOT, 1, "netem"), Ok(Handle::new(1, 0)));
    assert_eq!(add(Handle::new(1, 1), 0xffff, "netem"), Ok(Handle::new(0xffff, 0)));
    assert_eq!(add(Handle::ROOT, 2, "pfifo"), Err(ErrorKind::Exists));
    assert_eq!(add(Handle::new(0xffff, 7), 2, "pfifo"), Ok(Handle::new(2, 0)));
}

/// Runs `f` on the qdiscs of a new tree.
fn on_tree(f: impl FnOnce(&mut Qdiscs<'_>)) {
    let (mut tree, mut cx) = (Tree::new(Env::default()), Cx::new(16, 0));
    f(&mut tree.edit(&mut cx));
}

const NONE: &[&str] = &[];

/// A band that a change takes away takes the qdiscs below it along, and their handles are free.
#[test]
fn handles_of_a_band_that_is_gone_are_free() {
    on_tree(|q| {
        let at = |major, minor| Handle::new(major, minor);
        let add = |q: &mut Qdiscs<'_>, parent, kind| q.add(parent, None, kind, &mut Words::new(NONE));
        q.add(Handle::ROOT, Some(at(1, 0)), "prio", &mut Words::new(NONE)).unwrap();
        assert_eq!(add(q, at(1, 3), "prio"), Ok(at(0x8001, 0)));
        assert_eq!(add(q, at(0x8001, 2), "pfifo"), Ok(at(0x8002, 0)));
        assert_eq!(add(q, at(1, 2), "pfifo"), Ok(at(0x8003, 0)));
        let map = ["bands", "2", "priomap"].into_iter().chain([["1"; 16]].as_flattened().iter().copied());
        q.change(Handle::ROOT, None, &mut Words::new(&map.collect::<Vec<_>>())).unwrap();
        for gone in [at(0x8001, 0), at(0x8002, 0)] {
            assert_eq!(q.parent_of(gone).unwrap_err().kind, ErrorKind::NotFound);
        }
        assert_eq!(q.parent_of(at(0x8003, 0)), Ok(at(1, 2)));
        assert_eq!(add(q, at(1, 1), "pfifo"), Ok(at(0x8001, 0)));
        // The number of the qdisc that is replaced is free.
        let again = q.replace(at(1, 1), None, "prio", &mut Words::new(NONE));
        assert_eq!(again, Ok(at(0x8001, 0)));
        // A handle that is named is free as well, and one that is in use is not.
        let named = q.replace(at(1, 1), Some(at(0x8002, 0)), "pfifo", &mut Words::new(NONE));
        assert_eq!(named, Ok(at(0x8002, 0)));
        let taken = q.replace(at(1, 1), Some(at(0x8003, 0)), "pfifo", &mut Words::new(NONE));
        assert_eq!(taken.unwrap_err().kind, ErrorKind::Exists);
    });
}

/// A class that gets a class below it loses its qdisc, with the handle and the filters of that.
#[test]
fn a_class_that_becomes_an_inner_one_gives_its_qdisc_up() {
    on_tree(|q| {
        let at = |major, minor| Handle::new(major, minor);
        let mut filters = Filters::default();
        let class = |q: &mut Qdiscs<'_>, parent, minor| {
            q.add_class(parent, at(1, minor), None, &mut Words::new(&["rate", "1mbit"])).unwrap();
        };
        q.add(Handle::ROOT, Some(at(1, 0)), "htb", &mut Words::new(NONE)).unwrap();
        class(q, at(1, 0), 1);
        q.add(at(1, 1), Some(at(0x10, 0)), "prio", &mut Words::new(NONE)).unwrap();
        q.add(at(0x10, 2), Some(at(0x11, 0)), "prio", &mut Words::new(NONE)).unwrap();
        let [below, deeper, own] = [(); 3].map(|()| filters.add_block());
        q.set_block(at(0x10, 0), Some(below));
        q.set_block(at(0x11, 0), Some(deeper));
        q.set_block(at(1, 1), Some(own));
        class(q, at(1, 1), 2);
        assert_eq!(q.take_orphans(), [below, deeper]);
        assert_eq!(q.trees().blocks(), [(at(1, 1), own)]);
        q.add(at(1, 2), Some(at(0x10, 0)), "pfifo", &mut Words::new(NONE)).unwrap();
        assert_eq!(q.parent_of(at(0x10, 0)), Ok(at(1, 2)));
        q.delete_class(at(1, 2)).unwrap();
        q.delete_class(at(1, 1)).unwrap();
        assert_eq!(q.take_orphans(), [own]);
        assert_eq!(q.parent_of(at(0x10, 0)).unwrap_err().kind, ErrorKind::NotFound);
    });
}

/// A root that is put past the commands is one that no command finds, and neither is the old one.
#[test]
fn a_root_of_another_tree_has_no_name() {
    let (mut tree, mut other) = (Tree::new(Env::default()), Tree::new(Env::default()));
    let (mut cx, handle) = (Cx::new(16, 0), Handle::new(1, 0));
    tree.edit(&mut cx).add(Handle::ROOT, Some(handle), "prio", &mut Words::new(NONE)).unwrap();
    assert_eq!(tree.edit(&mut cx).parent_of(handle), Ok(Handle::ROOT));
    std::mem::swap(tree.root_mut(), other.root_mut());
    for tree in [&mut tree, &mut other] {
        let mut qdiscs = tree.edit(&mut cx);
        assert_eq!(qdiscs.parent_of(handle).unwrap_err().kind, ErrorKind::NotFound);
        let below = qdiscs.add(Handle::new(1, 1), None, "pfifo", &mut Words::new(NONE));
        assert_eq!(below.unwrap_err().kind, ErrorKind::NotFound);
    }
}
