//! Links with workers, more of them than processors, between interfaces of the kernel: nothing is
//! lost while roots that each queue has and roots that all share take turns, and each look finds
//! every frame once.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde_json::Value;

use super::{Dir, Net, OnDrop, echo, kinds};
use crate::common::{machine, skip_unless_possible};

/// Checks that the counters named on the left add up to all others.
fn adds_up(object: &Value, left: &[&str]) {
    let counters = object.as_object().expect("an object").iter();
    let (mut came, mut known) = (0, 0);
    for (key, n) in counters {
        let sum = if left.contains(&key.as_str()) { &mut came } else { &mut known };
        *sum += n.as_u64().expect("a number");
    }
    assert_eq!(came, known, "{object}");
}

/// Checks the sums of both links, and returns the frames that crossed and found no place.
fn refused(net: &Net) -> u64 {
    let shown: Value = serde_json::from_str(&net.dir.ok("link show -j")).expect("JSON");
    let mut refused = 0;
    for link in shown.as_array().expect("links") {
        let sums = &link["sums"];
        adds_up(&sums["rx"], &["seen", "redirected"]);
        adds_up(&sums["in"], &["submitted"]);
        adds_up(&sums["tx"], &["submitted", "pieces", "copies"]);
        refused += sums["tx"]["refused"].as_u64().expect("a number");
    }
    refused
}

/// A daemon that would take the processor would look for the directory next.
#[test]
fn a_processor_that_is_not_there_keeps_the_daemon_from_starting() {
    let _machine = machine::shared();
    let dir = Dir::new();
    let (code, out, err) = dir.run(&["daemon", "--pin", "1023", "--state", "none"]);
    assert_eq!((code, out.as_str()), (1, ""));
    let named = err.starts_with("txweir: --pin: expected processors that this process may use (");
    assert!(named && err.contains("), given 1023: "), "{err}");
    assert!(!dir.socket().exists());
}

#[test]
fn workers_forward_and_lose_nothing_while_roots_are_replaced() {
    let _machine = machine::shared();
    skip_unless_possible!();
    for kind in kinds(&["tap", "packet", "xdp"]) {
        let net = Net::with(kind, "--workers 4 --queue-map hash");
        let roots = [
            "root handle 1: mq",
            "root handle 2: tbf rate 20mbit burst 3kb limit 1mb",
            "root handle 3: mq",
            "root handle 4: fq_codel target 1s interval 10s",
        ];
        let files = roots.map(|root| {
            let name = format!("{}.tc", &root[12..13]);
            net.dir.file(&name, &format!("qdisc replace dev right {root}\n"))
        });
        let (done, replaced) = (AtomicBool::new(false), AtomicU32::new(0));
        let came = std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                for file in files.iter().cycle() {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    net.dir.ok(&format!("tc -b {} --atomic", file.display()));
                    assert_eq!(refused(&net), 0);
                    replaced.fetch_add(1, Ordering::Relaxed);
                }
            });
            // As many rounds as it takes until every root was put in under them.
            let _done = OnDrop(|| done.store(true, Ordering::Relaxed));
            let mut came = Vec::new();
            while replaced.load(Ordering::Relaxed) < 5 && !looking.is_finished() {
                came.push(echo(&net, 1000));
            }
            came
        });
        assert_eq!(came, vec![1000; came.len()], "{kind}: {}", net.dir.ok("link show -j"));
        refused(&net);
        let shown: Value = serde_json::from_str(&net.dir.ok("link show right -j")).expect("JSON");
        assert_eq!((&shown[0]["workers"], &shown[0]["state"]), (&4.into(), &"up".into()), "{kind}");
        assert!(net.count("right", "packets") >= 1000 * came.len() as u64, "{kind}");
        assert_eq!((net.count("right", "drops"), net.count("right", "lost")), (0, 0), "{kind}");
    }
}
