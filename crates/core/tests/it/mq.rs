//! mq and mqprio: a qdisc for each transmit queue; traffic classes, and their refusals.

use txweir_core::base::env::Offload;
use txweir_core::model::testing::VecDevice;
use txweir_core::qdisc::mqprio;
use txweir_core::sched::traffic::Range;
use txweir_core::text::value::Words;
use txweir_core::{Admitted, ConfigError, Env, Handle, Instant, Meta, PathConfig, Role, TxPath, Wake};

struct Lane {
    path: TxPath<u32>,
    dev: VecDevice<u32>,
}

const T0: Instant = Instant::ZERO;

impl Lane {
    fn new(queues: u16, offload: Offload) -> Self {
        let env = Env { queues, offload, ..Env::default() };
        let config = PathConfig { env, role: Role::Forwarder, bql: None, ..PathConfig::default() };
        Self { path: TxPath::new(config).unwrap(), dev: VecDevice::with_slots(0) }
    }
    fn add(&mut self, parent: Handle, line: &str) -> Result<Handle, ConfigError> {
        let (kind, options) = line.split_once(' ').unwrap_or((line, ""));
        let words: Vec<&str> = options.split_whitespace().collect();
        self.path.configure(T0, &mut self.dev, |tree, cx| {
            tree.edit(cx).add(parent, None, kind, &mut Words::new(&words))
        })
    }
    fn refused(&mut self, line: &str) -> String {
        self.add(Handle::ROOT, line).unwrap_err().to_string()
    }
    fn options(&self) -> Vec<String> {
        let mut all = Vec::new();
        self.path.tree().root().qdisc().options(&mut |s| {
            if s.value.is_set() {
                all.push(format!("{} {}", s.param.key, txweir_core::text::value::text_of(s.value)));
            }
        });
        all
    }
    fn put(&mut self, n: u32, queue: u16) {
        let mut m = Meta::new(100);
        m.queue = queue;
        assert_eq!(self.path.submit(T0, n, m, &mut self.dev), Admitted::Queued);
    }
    fn sent(&mut self, slots: u32) -> Vec<u32> {
        let before = self.dev.sent().len();
        self.dev.set_slots(slots + before as u32);
        let _ = self.path.drain(T0, 64, &mut self.dev);
        self.dev.sent()[before..].to_vec()
    }
}

#[test]
fn classes_of_mq_are_the_queues() {
    let mut lane = Lane::new(3, Offload::default());
    lane.add(Handle::ROOT, "mq").unwrap();
    let mut places = Vec::new();
    lane.path
        .tree()
        .visit(&mut |place, node| places.push((place.parent.to_string(), node.qdisc().spec().kind)));
    let own = |minor| (format!("8001:{minor}"), "pfifo_fast");
    assert_eq!(places, [("root".into(), "mq"), own(1), own(2), own(3)]);
    lane.add(Handle::new(0x8001, 3), "pfifo limit 1").unwrap();
    for (n, queue) in [(1, 0), (2, 0), (3, 1), (4, 2), (5, 9)] {
        lane.put(n, queue);
    }
    // In turn; a packet for a missing queue belongs to the first.
    assert_eq!(lane.sent(5), [3, 4, 1, 2, 5]);
}

#[test]
fn a_queue_that_is_stopped_holds_up_no_other() {
    let mut lane = Lane::new(2, Offload::default());
    lane.add(Handle::ROOT, "mq").unwrap();
    for n in 0..6 {
        lane.put(n, (n % 2) as u16);
    }
    lane.path.stopped_queues().insert(0);
    assert_eq!(lane.sent(6), [1, 3, 5]);
    assert_eq!(lane.path.drain(T0, 64, &mut lane.dev), Wake::Device);
    lane.path.stopped_queues().remove(0);
    assert_eq!(lane.sent(3), [0, 2, 4]);
}

#[test]
fn mq_is_for_the_root_of_a_device_with_queues() {
    let err = Lane::new(1, Offload::default()).refused("mq");
    assert_eq!(err, "mq: expected a device with several transmit queues, given \"one queue\"");
    let mut lane = Lane::new(4, Offload::default());
    lane.add(Handle::ROOT, "prio").unwrap();
    for kind in ["mq", "mqprio num_tc 1 map 0 queues 1@0 hw 0"] {
        let err = lane.add(Handle::new(0x8001, 1), kind).unwrap_err().to_string();
        let name = kind.split(' ').next().unwrap();
        assert_eq!(
            err,
            format!(
                "class 8001:1 parent: expected root, given \"{name}\" (the classes of {name} are the device's transmit queues)"
            )
        );
    }
}

#[test]
fn mqprio_says_what_cannot_be() {
    let mut lane = Lane::new(8, Offload::default());
    // Options that Linux 6.12 refuses, with its words beside ours.
    for (line, error) in [
        // "Device does not support hardware offload."
        (
            "mqprio num_tc 1 map 0 queues 1@0",
            "hw: expected a device that schedules traffic classes itself, given \"1\" \
             (hw 0 serves the queues in turn, on any device)",
        ),
        (
            "mqprio num_tc 1 map 0 queues 1@0 hw 2",
            "hw: expected a device that schedules traffic classes itself, given \"2\" \
             (hw 0 serves the queues in turn, on any device)",
        ),
        // "No queues for TC 0."
        (
            "mqprio hw 0",
            "queues: expected at least one queue for each traffic class, given \"0@0 for traffic class 0\"",
        ),
        (
            "mqprio num_tc 2 map 0 1 queues 1@0 hw 0",
            "queues: expected at least one queue for each traffic class, given \"0@0 for traffic class 1\"",
        ),
        // "Number of traffic classes is outside valid range."
        ("mqprio num_tc 17 hw 0", "num_tc: expected 1 to 16, given \"17\""),
        // "Invalid traffic class in priority to traffic class mapping."
        (
            "mqprio num_tc 2 map 0 1 2 queues 1@0 1@1 hw 0",
            "map: expected traffic classes below 2, given \"2 for priority 2\"",
        ),
        // "Queues 1:8 for TC 1 exceed the 8 TX queues available."
        (
            "mqprio num_tc 2 map 0 1 queues 1@0 1@8 hw 0",
            "queues: expected queues below 8, which the device has, given \"1@8 for traffic class 1\"",
        ),
        (
            "mqprio num_tc 2 map 0 1 queues 2@7 1@1 hw 0",
            "queues: expected queues below 8, which the device has, given \"2@7 for traffic class 0\"",
        ),
        // "TC 0 queues 2@0 overlap with TC 1 queues 2@1."
        (
            "mqprio num_tc 2 map 0 1 queues 2@0 2@1 hw 0",
            "queues: expected queues that traffic class 0 has not (2@0), given \"2@1 for traffic class 1\"",
        ),
        (
            "mqprio num_tc 2 map 0 1 queues 1@0 1@1 hw 0 mode channel",
            "mode: expected hw 1 beside it, given \"hw 0\"",
        ),
        (
            "mqprio num_tc 2 map 0 1 queues 1@0 1@1 hw 0 shaper bw_rlimit",
            "shaper: expected hw 1 beside it, given \"hw 0\"",
        ),
        ("mqprio num_tc 2 map 0 1 queues 1@0 1@1 hw 0 fp E P", "fp: expected hw 1 beside it, given \"hw 0\""),
        (
            "mqprio num_tc 2 map 0 1 queues 1@0 1@1 1@2 hw 0",
            "queues: expected one for each of the 2 traffic classes, given \"3\"",
        ),
        (
            "mqprio num_tc 1 map 0 queues 1-0",
            "queues: expected up to 16 ranges of queues, COUNT@OFFSET (2@0 2@2 1@4), given \"1-0\"",
        ),
    ] {
        assert_eq!(lane.refused(line), format!("mqprio {error}"), "{line}");
    }
    // Adjacent ranges are accepted.
    lane.add(Handle::ROOT, "mqprio num_tc 2 map 0 1 queues 2@6 6@0 hw 0").unwrap();
}

#[test]
fn a_refused_mqprio_changes_nothing() {
    let mut lane = Lane::new(8, Offload::default());
    lane.add(Handle::ROOT, "mqprio num_tc 2 map 0 1 queues 1@0 1@1 hw 0").unwrap();
    let before = lane.options();
    assert_eq!(before, ["num_tc 2", "map 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0", "queues 1@0 1@1", "hw 0"]);
    lane.add(Handle::new(0x8001, 1), "mqprio hw 0").unwrap_err();
    let change = |lane: &mut Lane, words: &[&str]| {
        lane.path.configure(T0, &mut lane.dev, |tree, cx| {
            tree.edit(cx).change(Handle::ROOT, None, &mut Words::new(words))
        })
    };
    let err = change(&mut lane, &["queues", "2@0", "2@2"]).unwrap_err();
    assert_eq!(
        err.to_string(),
        "mqprio: expected the options that it was made with, given \"a change\" (delete it and add it anew)"
    );
    change(&mut lane, &["num_tc", "2"]).unwrap();
    assert_eq!(lane.options(), before);
}

#[test]
fn a_device_that_can_is_told() {
    let can = Offload { fp: false, ..Offload::ALL };
    let mut lane = Lane::new(8, can);
    let rates = "mqprio num_tc 2 map 0 1 queues 4@0 4@4 hw 1 mode channel shaper bw_rlimit";
    assert_eq!(
        lane.refused(&format!("{rates} fp E P")),
        "mqprio fp: expected a device that interrupts frames, given \"E P\" (hw 0 serves the queues in turn, on any device)"
    );
    lane.add(Handle::ROOT, &format!("{rates} min_rate 1gbit 2gbit max_rate 4gbit 5gbit")).unwrap();
    assert!(lane.options().contains(&"min_rate 1Gbit 2Gbit".to_string()), "{:?}", lane.options());
    // Without queues the device chooses ranges as even as possible.
    let mut lane = Lane::new(8, can);
    lane.add(Handle::ROOT, "mqprio num_tc 3 map 0 0 1 2").unwrap();
    assert!(lane.options().contains(&"queues 3@0 3@3 2@6".to_string()), "{:?}", lane.options());
    let without = Offload { bw_rlimit: false, ..can };
    assert_eq!(
        Lane::new(8, without).refused(rates),
        "mqprio shaper: expected a device that keeps rates for traffic classes, given \"bw_rlimit\" \
         (hw 0 serves the queues in turn, on any device)"
    );
    for (line, error) in [
        ("hw 1 mode dcb shaper bw_rlimit", "mqprio shaper: expected dcb, with mode dcb, given \"bw_rlimit\""),
        ("hw 1 mode channel min_rate 1gbit", "mqprio shaper: expected bw_rlimit, with rates, given \"dcb\""),
    ] {
        let line = format!("mqprio num_tc 2 map 0 1 queues 4@0 4@4 {line}");
        assert!(Lane::new(8, can).refused(&line).starts_with(error), "{line}");
    }
}

/// The configuration of the talk (LPC 2012), and its trap: class :4 is queue 3, and `queue_mapping
/// 4` is class :5.
#[test]
fn the_example_of_the_talk() {
    let mut lane = Lane::new(5, Offload::default());
    let talk = "mqprio num_tc 3 map 0 0 0 1 1 1 2 queues 2@0 2@2 1@4";
    // The options as written ask the device to schedule: `hw 1` is the default.
    assert!(
        lane.refused(talk).starts_with("mqprio hw: expected a device that schedules traffic classes itself")
    );
    let root = lane.add(Handle::ROOT, &format!("{talk} hw 0")).unwrap();
    for minor in [4, 5] {
        lane.add(Handle::new(root.major(), minor), "fq_codel").unwrap();
    }
    let mut kinds = Vec::new();
    lane.path.tree().visit(&mut |_, node| kinds.push(node.qdisc().spec().kind));
    assert_eq!(kinds, ["mqprio", "pfifo_fast", "pfifo_fast", "pfifo_fast", "fq_codel", "fq_codel"]);
    let queues =
        mqprio::Ranges([(2, 0), (2, 2), (1, 4)].map(|(count, offset)| Range { count, offset }).into());
    assert!(lane.options().contains(&format!("queues {}", txweir_core::text::value::text_of(&queues))));
    lane.put(118, 4);
    let mut waiting = Vec::new();
    lane.path.tree().queued(&lane.path.cx().pool, &mut |parent, _, _| waiting.push(parent.minor()));
    assert_eq!(waiting, [5]);
}

/// Row mq-graft. A qdisc for one queue, or its deletion, leaves the packets of the others waiting.
#[test]
fn a_new_qdisc_of_one_queue_leaves_the_packets_of_the_others() {
    for root in ["mq", "mqprio num_tc 2 map 0 1 queues 1@0 1@1 hw 0"] {
        let mut lane = Lane::new(2, Offload::default());
        let root = lane.add(Handle::ROOT, root).unwrap();
        let class = Handle::new(root.major(), 2);
        lane.put(1, 0);
        lane.put(2, 1);
        lane.add(class, "pfifo limit 5").unwrap();
        lane.put(3, 1);
        lane.put(4, 0);
        lane.path.configure(T0, &mut lane.dev, |tree, cx| tree.edit(cx).delete(class)).unwrap();
        assert_eq!(lane.sent(2), [1, 4], "{root}");
    }
}

#[test]
fn a_deleted_qdisc_gives_place_to_what_the_queue_had_at_first() {
    for root in ["mq", "mqprio num_tc 2 map 0 1 queues 1@0 1@1 hw 0"] {
        let mut lane = Lane::new(2, Offload::default());
        let root = lane.add(Handle::ROOT, root).unwrap();
        let class = Handle::new(root.major(), 2);
        lane.add(class, "pfifo limit 1").unwrap();
        lane.path.configure(T0, &mut lane.dev, |tree, cx| tree.edit(cx).delete(class)).unwrap();
        let mut kinds = Vec::new();
        lane.path.tree().visit(&mut |_, node| kinds.push(node.qdisc().spec().kind));
        assert_eq!(kinds[1..], ["pfifo_fast"; 2]);
        lane.put(1, 1);
        lane.put(2, 1);
        assert_eq!(lane.sent(2), [1, 2]);
    }
}
