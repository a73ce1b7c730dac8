//! Memory asked ahead of departures: packets leave in the same order whether scouts go along them
//! or not. They go with 65 536 waiting packets or more.

use crate::common::classes::{T, class, on_class};
use crate::common::lane::Lane;
use txweir_core::{Admitted, Handle, Meta};

const CLASSES: u16 = 320;

/// Makes a qdisc of so many classes, with `inner` in each, in which each class has `depth` packets
/// in four bands, one behind the other. A packet's number is that of its class and its place there.
fn filled(kind: &str, words: &str, inner: Option<(&str, &str)>, depth: u32) -> Lane {
    let mut lane = Lane::new(kind, "");
    for minor in 1..=CLASSES {
        on_class(&mut lane, "add", minor, words).unwrap();
        if let Some((kind, options)) = inner {
            lane.graft(T, class(minor), kind, options);
        }
    }
    for n in 0..depth {
        for minor in 1..=CLASSES {
            let mut m = Meta::new(600).priority(n % 4);
            m.class = Handle::new(0x8001, minor);
            assert_eq!(lane.put(T, u32::from(minor) << 16 | n, m), Admitted::Queued);
        }
    }
    lane
}

#[test]
fn packets_leave_in_the_same_order_with_scouts_and_without() {
    let ets = Some(("ets", "bands 4 strict 2 quanta 1000 2000 priomap 0 1 2 3"));
    let prio = Some(("prio", "bands 4 priomap 3 2 1 0 1 1 1 1 1 1 1 1 1 1 1 1"));
    let htb = "rate 1gbit burst 100mb cburst 100mb quantum 1500";
    for (kind, words, inner) in [
        ("drr", "quantum 1500", None),
        ("drr", "quantum 4000", ets),
        ("htb", htb, None),
        ("htb", htb, ets),
        ("htb", htb, prio),
    ] {
        let (mut few, mut many) = (filled(kind, words, inner, 80), filled(kind, words, inner, 240));
        // No band of the few runs empty before: strict bands have twenty packets each.
        let first = usize::from(CLASSES) * 9;
        assert!(few.ids(T, first) == many.ids(T, first), "{kind} over {inner:?}");
        // Classes come and go between packets that scouts have seen.
        for minor in (1..=CLASSES).step_by(7) {
            on_class(&mut many, "delete", minor, "").unwrap();
        }
        let left = many.backlog() as usize;
        let rest = many.ids(T, left);
        assert_eq!((rest.len(), many.backlog()), (left, 0), "{kind} over {inner:?}");
        let mut last = std::collections::BTreeMap::new();
        for id in rest {
            // Packets of one band of one class leave in their order.
            let before = last.insert((id >> 16, id % 4), id);
            assert!(before.is_none_or(|before| before < id), "{kind} over {inner:?}: {id:x}");
        }
    }
}
