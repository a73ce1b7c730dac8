//! `show::measured`: the numbers of all qdiscs and classes one by one, and one by its key.

use std::collections::BTreeMap;

use txweir_core::text::value::Words;
use txweir_core::{Env, Handle, Instant, Meta, NoDevice, PathConfig, TxPath, path::port::Port};
use txweir_tc::show::measured::{counter, metrics};
use txweir_tc::{Policy, show};

const POLICY: &str = "
    qdisc add root handle 1: htb default 10
    class add parent 1: classid 1:1 htb rate 10mbit
    class add parent 1:1 classid 1:10 htb rate 1mbit ceil 10mbit
    class add parent 1:1 classid 1:20 htb rate 5mbit
    qdisc add parent 1:10 handle 10: fq_codel limit 3
    qdisc add parent 1:20 handle 20: prio
";

fn path() -> TxPath<u32> {
    let mut path = TxPath::new(PathConfig::for_socket().forwarder()).unwrap();
    let mut none = NoDevice::new();
    let policy = Policy::parse(POLICY, "p").unwrap_or_else(|e| panic!("{e}"));
    path.configure(Instant::ZERO, &mut none, |tree, cx| policy.apply(tree, cx)).unwrap();
    for n in 0..5 {
        let _ = path.submit(Instant::from_secs(1), n, Meta::new(1000), &mut none);
    }
    let _ = path.submit(Instant::from_secs(1), 5, Meta::new(200).priority(0x1_0020), &mut none);
    let mut sent = 0;
    let _ = path.pull(Instant::from_secs(1), 2, &mut none, |_, _| sent += 1);
    assert_eq!(sent, 2);
    path
}

#[test]
fn one_number_by_its_handle_and_key() {
    let path = path();
    let n = |at: &str, key| counter(path.tree(), at.parse().unwrap(), key);
    // Of five packets fq_codel has dropped two; two of the other four are gone.
    assert_eq!([n("1:", "drops"), n("1:", "packets"), n("1:", "qlen")], [Some(2), Some(2), Some(2)]);
    assert_eq!([n("10:", "drops"), n("10:", "drop_overlimit")], [Some(2), Some(2)]);
    assert_eq!(n("10:", "new_flow_count").map(|n| n > 0), Some(true));
    let below = |key| n("1:10", key).unwrap() + n("1:20", key).unwrap();
    assert_eq!([below("packets"), below("qlen"), below("bytes")], [2, 2, n("1:", "bytes").unwrap()]);
    assert!(n("1:10", "tokens").is_some() && n("1:10", "ctokens").is_some());
    for (at, key) in [("1:", "tokens"), ("1:30", "drops"), ("30:", "drops"), ("10:", "drop"), ("0:", "drops")]
    {
        assert_eq!(n(at, key), None, "{at} {key}");
    }
}

#[test]
fn a_default_root_is_named_by_no_handle() {
    let mut path = TxPath::new(PathConfig::for_socket()).unwrap();
    let _ = path.submit(Instant::ZERO, 1, Meta::new(77), &mut NoDevice::new());
    assert_eq!(counter(path.tree(), Handle::NONE, "backlog"), Some(77));
}

/// Every number of the walk is the one that its key gives, and the keys are those of `tc -s -j`.
#[test]
fn the_walk_shows_what_the_keys_give() {
    let path = path();
    let mut all: BTreeMap<(Handle, &str), i128> = BTreeMap::new();
    metrics(path.tree(), &mut |at, counter, n| {
        assert_eq!(all.insert((at, counter.key), n), None, "{at} {} twice", counter.key);
    });
    let places: Vec<String> = all.keys().map(|(at, _)| at.to_string()).collect();
    for at in ["1:", "10:", "20:", "1:1", "1:10", "1:20", "20:1", "20:2", "20:3"] {
        assert!(places.iter().any(|place| place == at), "{at} is not in {places:?}");
    }
    for ((at, key), n) in &all {
        assert_eq!(counter(path.tree(), *at, key), Some(*n), "{at} {key}");
    }
    let json = show::json(path.tree(), None, true);
    for key in ["drop_overlimit", "new_flow_count", "ecn_mark", "overlimits", "qlen"] {
        let shown = format!("\"{key}\":{}", all[&("10:".parse().unwrap(), key)]);
        assert!(json.contains(&shown), "{shown} is not in {json}");
    }
}

#[test]
fn a_root_that_stands_for_queues_has_their_sums() {
    let env = Env { queues: 3, ..Env::default() };
    let mut port = Port::<u32>::new(PathConfig { env, ..PathConfig::for_socket() }).unwrap();
    let mut dev: Vec<NoDevice<u32>> = (0..3).map(|_| NoDevice::new()).collect();
    let root = Some(Handle::new(1, 0));
    let mut control = port.control(Instant::ZERO, &mut dev);
    control.configure(|q| q.replace(Handle::ROOT, root, "mq", &mut Words::new(&[])).map(|_| ())).unwrap();
    for queue in [0, 1, 1] {
        let mut m = Meta::new(100);
        m.queue = queue;
        let _ = port.submit(Instant::ZERO, 7, &m, None, &mut dev);
    }
    let n = |at: &str| counter(port.trees(), at.parse().unwrap(), "qlen");
    assert_eq!([n("1:"), n("1:1"), n("1:2"), n("1:3"), n("1:4")], [Some(3), Some(1), Some(2), Some(0), None]);
}
