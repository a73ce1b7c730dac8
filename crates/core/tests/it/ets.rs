//! ets: named behaviours, with literal expectations. Its traces of the kernel are in `spec/traces/ets`.

use crate::common::lane::{Lane, Out};
use txweir_core::text::value::{Words, exact_of};
use txweir_core::{ConfigError, DropReason, ErrorKind, Handle, Instant, Meta, Nanos};

const T: Instant = Instant::from_secs(1);

fn meta(len: u32, priority: u32) -> Meta {
    Meta::new(len).priority(priority)
}

/// The options as they are shown.
fn options(lane: &Lane) -> String {
    let mut text = String::new();
    lane.root().qdisc().options(&mut |s| {
        if s.value.is_set() {
            text += &format!("{} {} ", s.param.key, exact_of(s.value));
        }
    });
    text.trim_end().into()
}

fn class(minor: u16) -> Handle {
    Handle::new(0x8001, minor)
}

fn change_class(lane: &mut Lane, minor: u16, words: &str) -> Result<(), ConfigError> {
    let words: Vec<&str> = words.split_whitespace().collect();
    lane.path.configure(T, &mut lane.dev, |tree, cx| {
        tree.edit(cx).change_class(None, class(minor), Some("ets"), &mut Words::new(&words))
    })
}

#[test]
fn what_is_not_said_is_filled_in() {
    let shown = |words: &str| options(&Lane::new("ets", words));
    let map = |band: &str| [band; 16].join(" ");
    assert_eq!(shown("bands 2"), format!("bands 2 quanta 1514 1514 priomap {}", map("1")));
    assert_eq!(shown("strict 3"), format!("bands 3 strict 3 priomap {}", map("2")));
    assert_eq!(
        shown("bands 4 strict 2 quanta 1000 priomap 0 1"),
        "bands 4 strict 2 quanta 1000 1514 priomap 0 1 3 3 3 3 3 3 3 3 3 3 3 3 3 3"
    );
    // As Linux: quanta are brought into 256 bytes to 1 MiB.
    assert_eq!(shown("quanta 1 4294967295"), format!("bands 2 quanta 256 1048576 priomap {}", map("1")));
}

#[test]
fn what_contradicts_itself_is_refused() {
    let refusal = |words: &str| {
        let words: Vec<&str> = words.split_whitespace().collect();
        let built = txweir_core::qdisc::kind("ets")
            .and_then(|spec| spec.build(&mut Words::new(&words), &txweir_core::Env::default()));
        match built {
            Ok(_) => panic!("{words:?} was taken"),
            Err(e) => e.to_string(),
        }
    };
    for (words, said) in [
        ("", "ets bands: expected at least one of bands, strict and quanta, given nothing"),
        ("bands 0", "ets bands: expected 1 to 16, given \"0\""),
        ("bands 17", "ets bands: expected 1 to 16, given \"17\""),
        ("strict 17", "ets strict: expected 0 to 16, given \"17\""),
        (
            "strict 0",
            "ets quanta: expected 1 to 16 bands, strict ones and those with a quantum together, given \"0\"",
        ),
        (
            "strict 9 quanta 1 2 3 4 5 6 7 8",
            "ets quanta: expected 1 to 16 bands, strict ones and those with a quantum together, given \"17\"",
        ),
        (
            "bands 2 strict 1 quanta 5 5",
            "ets bands: expected at least 3, for those that are strict or have a quantum, given \"2\"",
        ),
        ("bands 2 quanta 0", "ets quanta: expected at least 1 byte for each band, given \"0\""),
        ("bands 2 priomap 0 2", "ets priomap: expected bands 0 to 1, given \"2\""),
    ] {
        assert_eq!(refusal(words), said, "{words}");
    }
}

#[test]
fn strict_bands_go_first_and_the_others_share_what_is_left() {
    let mut lane = Lane::new("ets", "bands 4 strict 2 quanta 1000 2000 priomap 0 1 2 3");
    // Three of 1000 bytes in each band, the last first.
    for priority in [3, 2, 1, 0] {
        lane.fill(T, priority * 10, 3, meta(1000, priority));
    }
    assert_eq!(lane.ids(T, 12), [0, 1, 2, 10, 11, 12, 30, 31, 20, 32, 21, 22]);
}

#[test]
fn a_priority_with_the_qdiscs_handle_names_the_band() {
    let mut lane = Lane::new("ets", "strict 3 priomap 1 0 2");
    for (id, priority) in [(0, 0x8001_0003), (1, 0x8001_0001), (2, 0x8001_0009), (3, 0x0007_0001), (4, 1)] {
        assert!(matches!(lane.put(T, id, meta(100, priority)), txweir_core::Admitted::Queued));
    }
    // 2 (a band that is not there) and 3 (a foreign handle) count as priority 0, hence band 1.
    assert_eq!(lane.ids(T, 5), [1, 4, 2, 3, 0]);
}

#[test]
fn bytes_are_shared_by_quanta() {
    let mut lane = Lane::new("ets", "quanta 600 1200 2400 priomap 0 1 2");
    for i in 0..300 {
        for priority in 0..3 {
            let _ = lane.put(T, i * 3 + priority, meta(60 + (i * 131 + priority * 71) % 1450, priority));
        }
    }
    let mut bytes = [0u64; 3];
    for _ in 0..350 {
        let Out::Sent(id, m) = lane.take(T) else { panic!("nothing left") };
        bytes[id as usize % 3] += u64::from(m.wire_len);
    }
    // I2: divided by quanta they differ by at most one packet and one quantum each.
    for (a, b) in [(0, 1), (1, 2), (0, 2)] {
        let share = |i: usize| bytes[i] as f64 / [600.0, 1200.0, 2400.0][i];
        let bound = |i: usize| 1.0 + 1510.0 / [600.0, 1200.0, 2400.0][i];
        assert!((share(a) - share(b)).abs() <= bound(a) + bound(b), "{bytes:?}");
    }
}

#[test]
fn a_strict_band_keeps_its_packets_when_it_comes_to_share() {
    let mut lane = Lane::new("ets", "bands 3 strict 2 quanta 1000 priomap 0 1 2");
    for priority in 0..3 {
        lane.fill(T, priority * 10, 3, meta(1000, priority));
    }
    assert_eq!(lane.ids(T, 1), [0]);
    // Band 0 joins the turns behind band 2, which was there, and band 1 behind that.
    lane.change(T, Handle::ROOT, "quanta 1000 2000 1000 priomap 0 1 2").unwrap();
    assert_eq!(lane.ids(T, 8), [20, 1, 10, 11, 21, 2, 12, 22]);
    assert_eq!(lane.drops(), []);
}

#[test]
fn a_band_that_goes_drops_its_own_packets_only() {
    let mut lane = Lane::new("ets", "bands 3 strict 1 quanta 1000 1000 priomap 0 1 2");
    for priority in 0..3 {
        lane.fill(T, priority * 10, 2, meta(1000, priority));
    }
    lane.change(T, Handle::ROOT, "bands 2 strict 1 priomap 0 1").unwrap();
    assert_eq!(lane.drops(), [(20, DropReason::Purged), (21, DropReason::Purged)]);
    assert_eq!(lane.ids(T, 9), [0, 1, 10, 11]);
    // It comes back empty; what came for the last band meanwhile is in the one that was last then.
    lane.change(T, Handle::ROOT, "bands 3 strict 1 priomap 0 1 2").unwrap();
    lane.fill(T, 30, 1, meta(1000, 2));
    assert_eq!(lane.ids(T, 9), [30]);
}

#[test]
fn a_class_has_its_quantum_changed_and_the_qdisc_shows_it() {
    let mut lane = Lane::new("ets", "bands 3 strict 1 quanta 1000 2000 priomap 0 1 2");
    change_class(&mut lane, 2, "quantum 3000").unwrap();
    change_class(&mut lane, 3, "").unwrap();
    change_class(&mut lane, 1, "").unwrap();
    let map = "priomap 0 1 2 2 2 2 2 2 2 2 2 2 2 2 2 2";
    assert_eq!(options(&lane), format!("bands 3 strict 1 quanta 3000 2000 {map}"));
    let refused = change_class(&mut lane, 1, "quantum 1000").unwrap_err();
    assert_eq!(
        (refused.kind, refused.to_string().as_str()),
        (
            ErrorKind::Conflict,
            "class 8001:1 quantum: expected none: a strict band has no quantum, given \"1000\""
        )
    );
    assert_eq!(change_class(&mut lane, 4, "").unwrap_err().kind, ErrorKind::NotFound);
    let add = lane.path.configure(T, &mut lane.dev, |tree, cx| {
        tree.edit(cx).add_class(Handle::new(0x8001, 0), class(4), None, &mut Words::new(&[]))
    });
    assert_eq!(add.unwrap_err().kind, ErrorKind::Unsupported);
    let del = lane.path.configure(T, &mut lane.dev, |tree, cx| tree.edit(cx).delete_class(class(2)));
    assert_eq!(del.unwrap_err().kind, ErrorKind::Unsupported);
}

#[test]
fn a_shaper_in_a_strict_band_holds_nobody_up_and_one_at_the_front_of_the_turns_does() {
    let mut lane = Lane::new("ets", "bands 3 strict 1 quanta 1514 1514 priomap 0 1 2");
    lane.graft(T, class(1), "tbf", "rate 8mbit burst 1000 limit 100000");
    for priority in 0..3 {
        lane.fill(T, priority * 10, 2, meta(1000, priority));
    }
    // 1 has to wait for a millisecond; meanwhile the others go.
    assert_eq!(lane.ids(T, 9), [0, 10, 20, 11, 21]);
    assert_eq!(lane.take(T), Out::Wait(T + Nanos::from_millis(1)));
    assert_eq!(lane.ids(T + Nanos::from_millis(1), 9), [1]);

    let mut lane = Lane::new("ets", "quanta 1514 1514 priomap 0 1");
    lane.graft(T, class(1), "tbf", "rate 8mbit burst 1000 limit 100000");
    for priority in 0..2 {
        lane.fill(T, priority * 10, 2, meta(1000, priority));
    }
    // Packet 1 costs more than is left of the credit: its band goes to the back once, and then stands in front.
    assert_eq!(lane.ids(T, 9), [0]);
    assert_eq!(lane.take(T), Out::Wait(T + Nanos::from_millis(1)));
    assert_eq!(lane.backlog(), 3);
    assert_eq!(lane.ids(T + Nanos::from_millis(1), 9), [10, 1, 11]);
}

/// ets-asks-again.
#[test]
fn a_shaper_in_a_strict_band_is_asked_once_for_each_packet() {
    let mut lane = Lane::new("ets", "bands 2 strict 1 quanta 256 priomap 0 1");
    lane.graft(T, class(1), "tbf", "rate 8mbit burst 1000 limit 100000");
    lane.fill(T, 0, 2, meta(1000, 0));
    lane.fill(T, 10, 2, meta(1000, 1));
    // Each packet of the other band needs four turns.
    assert_eq!(lane.ids(T, 9), [0, 10, 11]);
    assert_eq!(lane.take(T), Out::Wait(T + Nanos::from_millis(1)));
    assert_eq!(lane.root().qdisc().classes()[0].node.books().overlimits, 4);
}
