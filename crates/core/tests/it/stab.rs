//! Size tables in a tree: the bytes that each part counts, with literal numbers. The swarm of
//! operations (`laws.rs`) checks that every node's books balance under random tables.

use crate::common::lane::Lane;
use txweir_core::{Admitted, ConfigError, ErrorKind, Handle, Instant, Meta, Tally};
use txweir_core::{base::link::LinkLayer, sched::stab::Stab};

const T0: Instant = Instant::ZERO;
const ATM: Stab = Stab { overhead: 0, mpu: 0, linklayer: Some(LinkLayer::Atm), mtu: 2047, tsize: 512 };

fn set(lane: &mut Lane, parent: Handle, stab: Option<Stab>) -> Result<(), ConfigError> {
    lane.path.configure(T0, &mut lane.dev, |tree, cx| tree.edit(cx).set_stab(parent, stab))
}

fn tally(packets: u64, bytes: u64) -> Tally {
    Tally { packets, bytes }
}

#[test]
fn a_class_counts_cells_and_its_parent_frames() {
    let mut lane = Lane::new("prio", "");
    let class = Handle::new(0x8001, 1);
    lane.graft(T0, class, "bfifo", "limit 500");
    set(&mut lane, class, Some(ATM)).unwrap();
    assert_eq!(lane.root().qdisc().classes()[0].node.front().stab(), Some(&ATM));
    // 100 bytes are 159 in cells: three fit into 500.
    for (id, fits) in [(0, true), (1, true), (2, true), (3, false)] {
        let answer = lane.put(T0, id, Meta::new(100).priority(6));
        assert_eq!(answer == Admitted::Queued, fits, "{id}: {answer:?}");
    }
    let books = |lane: &Lane| (lane.root().books(), lane.root().qdisc().classes()[0].node.books());
    let (above, below) = books(&lane);
    assert_eq!((above.queued, above.dropped, above.admitted), (tally(3, 300), tally(1, 100), tally(4, 400)));
    assert_eq!((below.queued, below.dropped, below.admitted), (tally(3, 477), tally(1, 159), tally(4, 636)));
    // A visitor, the device and the owner of a dropped packet see wire bytes.
    lane.path.tree().queued(&lane.path.cx().pool, &mut |_, _, m| assert_eq!(m.wire_len, 100));
    assert_eq!(lane.path.cx().dropped(), tally(1, 100));
    assert_eq!(lane.ids(T0, 1), [0]);
    assert_eq!(lane.dev.metas()[0].wire_len, 100);
    let (above, below) = books(&lane);
    assert_eq!((above.sent, below.sent), (tally(1, 100), tally(1, 159)));
    // The table is removed while packets wait: they leave as they were charged, the next packet is
    // charged without it.
    set(&mut lane, class, None).unwrap();
    assert_eq!(lane.put(T0, 4, Meta::new(100).priority(6)), Admitted::Queued);
    assert_eq!(books(&lane).1.queued, tally(3, 159 + 159 + 100));
    assert_eq!(lane.ids(T0, 9), [1, 2, 4]);
    let (above, below) = books(&lane);
    assert_eq!((above.queued, below.queued), (tally(0, 0), tally(0, 0)));
    assert_eq!((above.sent, below.sent), (tally(4, 400), tally(4, 3 * 159 + 100)));
}

/// Tokens are spent on cells: 53 bytes a millisecond carry 48 bytes of frames.
#[test]
fn a_shaper_spends_tokens_on_what_the_link_carries() {
    let mut lane = Lane::new("tbf", "rate 424kbit burst 1590 limit 100kb");
    set(&mut lane, Handle::ROOT, Some(ATM)).unwrap();
    lane.fill(T0, 0, 20, Meta::new(100));
    // The bucket holds ten packets of three cells, and each further one takes 3 ms.
    assert_eq!(lane.ids(T0, 20).len(), 10);
    assert_eq!(lane.ids(Instant(2_990_000), 20).len(), 0);
    assert_eq!(lane.ids(Instant(3_000_000), 20).len(), 1);
    assert_eq!(lane.ids(Instant(9_000_000), 20).len(), 2);
    assert_eq!(lane.path.stats().tx_bytes, 1300);
}

/// stab-gso
#[test]
fn a_super_packet_is_charged_cell_by_cell_and_cut_by_the_wire() {
    let mut lane = Lane::new("pfifo", "");
    set(&mut lane, Handle::ROOT, Some(Stab { overhead: 10, ..ATM })).unwrap();
    let m = Meta::new(54 + 2200).gso(54, 1000);
    assert_eq!(lane.put(T0, 0, m), Admitted::Queued);
    // Segments of 1054, 1054 and 254 bytes, 10 more each: 23, 23 and 6 cells.
    assert_eq!(lane.root().books().queued, tally(1, 52 * 53));
    assert_eq!(lane.ids(T0, 1), [0]);
    assert_eq!(lane.dev.metas()[0], m);
    // A bucket of 30 cells accepts segments of at most 1430 bytes; a bucket of 20 cells accepts
    // none of these.
    for (burst, answer) in [(30 * 53, Admitted::Cut(1, 1430)), (20 * 53, Admitted::Dropped(OVERSIZE))] {
        let mut lane = Lane::new("tbf", &format!("rate 1mbit burst {burst} limit 100kb"));
        set(&mut lane, Handle::ROOT, Some(Stab { overhead: 10, ..ATM })).unwrap();
        assert_eq!(lane.put(T0, 1, m), answer);
    }
}

const OVERSIZE: txweir_core::DropReason = txweir_core::DropReason::Oversize;

/// stab-once
#[test]
fn a_second_size_table_on_a_path_is_refused() {
    let mut lane = Lane::new("prio", "");
    let [one, two] = [1, 2].map(|minor| Handle::new(0x8001, minor));
    lane.graft(T0, one, "prio", "");
    lane.graft(T0, two, "pfifo", "");
    let below = Handle::new(0x8002, 1);
    lane.graft(T0, below, "pfifo", "");
    set(&mut lane, one, Some(ATM)).unwrap();
    for (place, other) in [(Handle::ROOT, "8002:"), (below, "8002:")] {
        let err = set(&mut lane, place, Some(ATM)).unwrap_err();
        assert_eq!((err.kind, err.key.as_deref()), (ErrorKind::Conflict, Some("stab")));
        assert_eq!(err.given, format!("a second one, beside that of qdisc {other}"));
    }
    // A second table may stand beside it, or replace it; after their removal one may stand above.
    set(&mut lane, two, Some(Stab { overhead: 4, ..Stab::default() })).unwrap();
    set(&mut lane, one, Some(Stab { overhead: 4, ..ATM })).unwrap();
    for place in [one, two] {
        set(&mut lane, place, None).unwrap();
    }
    set(&mut lane, Handle::ROOT, Some(ATM)).unwrap();
    // The default qdisc of a class has no table, as it has no handle.
    let err = set(&mut lane, Handle::new(0x8001, 3), Some(ATM)).unwrap_err();
    assert_eq!(err.kind, ErrorKind::NotFound);
}
