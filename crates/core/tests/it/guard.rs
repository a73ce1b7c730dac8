//! Code of an embedder that replaces what it was lent: no frame is lost, and the path goes on.

use txweir_core::model::testing::VecDevice;
use txweir_core::sched::cx::Cx;
use txweir_core::text::value::Words;
use txweir_core::{Admitted, Env, Handle, Instant, Meta, PathConfig, Role, Tree, TxPath, Wake};

const T0: Instant = Instant::ZERO;
/// Packets that wait when the code is called.
const WAIT: u32 = 9;

type Misuse = fn(&mut Tree, &mut Cx);

/// Each misuse, and true if it keeps the tree that it has made.
const MISUSES: [(&str, bool, Misuse); 7] = [
    ("another tree", true, |tree, _| *tree = Tree::new(Env::default())),
    ("another tree with a policy", true, |tree, cx| {
        *tree = Tree::new(Env::default());
        let words = &mut Words::new(&["limit", "5"]);
        assert!(tree.edit(cx).replace(Handle::ROOT, None, "pfifo", words).is_ok());
    }),
    ("a smaller pool", false, |_, cx| cx.pool = Cx::new(2, 0).pool),
    ("a pool of the same size", false, |_, cx| cx.pool = Cx::new(64, 0).pool),
    ("another context", false, |_, cx| *cx = Cx::new(7, 0)),
    ("everything", true, |tree, cx| (*tree, *cx) = (Tree::new(Env::default()), Cx::new(1, 0))),
    ("a packet freed behind the tree's back", false, |tree, cx| {
        if let txweir_core::sched::answer::Next::Packet(p) = tree.root_mut().dequeue(cx) {
            cx.pool.free(p);
        }
    }),
];

fn check(what: &str, keeps: bool, dev: &VecDevice<u32>, path: &mut TxPath<u32>) {
    let mut back: Vec<u32> = dev.discarded().iter().map(|(frame, _)| *frame).collect();
    back.sort_unstable();
    assert!(back.iter().copied().eq(1..=WAIT), "{what}: {back:?}");
    assert_eq!(
        (path.backlog().packets, path.cx().pool.live(), path.cx().pool.capacity()),
        (0, 0, 64),
        "{what}"
    );
    if keeps && what.contains("policy") {
        assert_eq!(path.tree().root().qdisc().spec().kind, "pfifo", "{what}");
    }
}

#[test]
fn a_function_that_replaces_the_tree_or_the_pool_loses_no_frame() {
    for (what, keeps, misuse) in MISUSES {
        for swap in [false, true] {
            let mut dev = VecDevice::with_slots(1);
            let config = PathConfig { bql: None, pool: 64, role: Role::Forwarder, ..PathConfig::default() };
            let mut path = TxPath::new(config).unwrap().with_qdisc("fq_codel", &[]).unwrap();
            assert_eq!(path.submit(T0, 0, Meta::new(60), &mut dev), Admitted::Sent);
            for i in 1..=WAIT {
                assert_eq!(path.submit(T0, i, Meta::new(60).flow(i.into()), &mut dev), Admitted::Queued);
            }
            match swap {
                false => path.configure(T0, &mut dev, misuse),
                true => path.swap(T0, &mut dev, misuse, |_, _, _, _| {}).0,
            }
            check(what, keeps, &dev, &mut path);
            // The path goes on.
            for i in 100..103 {
                assert_eq!(path.submit(T0, i, Meta::new(60), &mut dev), Admitted::Queued, "{what}");
            }
            dev.set_slots(10);
            assert_eq!(
                (path.drain(T0, 64, &mut dev), dev.sent()),
                (Wake::Idle, &[0, 100, 101, 102][..]),
                "{what}"
            );
        }
    }
}
