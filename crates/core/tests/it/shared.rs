//! Shapers of several transmit queues with one rate (`tbf ... shared NAME`), and the queues that
//! have joined a rate.

use std::sync::{Barrier, Mutex, OnceLock};
use std::time::{Duration, Instant as Wall};

use crate::common::lane::{Lane, Out};
use txweir_core::path::rates::{Agreed, SharedRates};
use txweir_core::text::value::{Name, Words};
use txweir_core::{ConfigError, Handle, Instant, Meta, Rate, Tree};

const MS: u64 = 1_000_000;
const GIGABIT: &str = "rate 1gbit burst 125000 limit 100mb shared up";

fn up() -> Name {
    Name::new("up").expect("a name")
}

fn agree(rates: &mut SharedRates, lanes: &mut [Lane]) -> Result<(), ConfigError> {
    let trees: Vec<_> = lanes.iter().map(|l| l.path.tree()).collect();
    let agreed: Agreed = rates.agree(&trees)?;
    for lane in lanes {
        lane.path.configure(Instant::ZERO, &mut lane.dev, |tree, _| agreed.join(tree));
    }
    Ok(())
}

/// Checks that the trees could take the place of the present ones.
fn check(rates: &SharedRates, trees: &[&Tree], present: &[&Tree]) -> Result<(), ConfigError> {
    let mut asked = rates.ask(trees)?;
    present.iter().for_each(|tree| asked.without(tree));
    asked.check(trees)
}

fn joined(rates: &mut SharedRates, count: usize, options: &str) -> Vec<Lane> {
    let mut lanes: Vec<Lane> = (0..count).map(|_| Lane::new("tbf", options)).collect();
    agree(rates, &mut lanes).expect("all say the same");
    lanes
}

/// Lets every queue send until `end`. Returns the bytes that left after `from`, by queue.
fn run(lanes: &mut [Lane], wakes: &mut [u64], from: u64, end: u64) -> Vec<u64> {
    let mut sent = vec![0; lanes.len()];
    while let Some((at, now)) = wakes.iter().copied().enumerate().min_by_key(|(_, t)| *t) {
        if now >= end {
            break;
        }
        wakes[at] = match lanes[at].take(Instant(now)) {
            Out::Sent(_, m) => {
                sent[at] += if now >= from { u64::from(m.wire_len) } else { 0 };
                now
            }
            Out::Wait(t) => t.0,
            Out::Nothing => u64::MAX,
        };
    }
    sent
}

#[test]
fn eight_queues_have_one_rate_and_the_busy_ones_have_all_of_it() {
    let mut lanes = joined(&mut SharedRates::new(), 8, GIGABIT);
    lanes.iter_mut().for_each(|l| l.fill(Instant::ZERO, 0, 2_000, Meta::new(1500)));
    let mut wakes = [0; 8];
    // The first queue had the burst. Each may hold less than a packet's worth of bytes.
    let sent = run(&mut lanes, &mut wakes, 0, 2 * MS);
    assert!(sent[0] >= 125_000 && sent.iter().sum::<u64>().abs_diff(375_000) <= 8 * 1_500, "{sent:?}");
    let sent = run(&mut lanes, &mut wakes, 2 * MS, 50 * MS);
    let (sum, share) = (sent.iter().sum::<u64>(), 6_000_000 / 8);
    assert!(sum.abs_diff(6_000_000) <= 8 * 1_500, "{sum}");
    assert!(sent.iter().all(|s| s.abs_diff(share) <= 12_500 + 1_500), "{sent:?}");
    // Six of them have no packets any more: the others have a half each, from the next millisecond
    // on.
    for lane in &mut lanes[2..] {
        lane.path.configure(Instant(50 * MS), &mut lane.dev, |tree, cx| tree.root_mut().purge(cx));
    }
    wakes[2..].fill(u64::MAX);
    let sent = run(&mut lanes, &mut wakes, 51 * MS, 61 * MS);
    assert!(sent[..2].iter().all(|s| s.abs_diff(625_000) <= 12_500 + 1_500), "{sent:?}");
    assert_eq!(sent[2..], [0; 6]);
}

/// Makes an htb whose root class shares its ceiling. Below it are two leaves that borrow, the
/// second for packets that name no class.
fn htb() -> Lane {
    let mut lane = Lane::new("htb", "default 20");
    let root = lane.path.tree().root().handle();
    let classes = [
        (0, 1, "rate 1gbit burst 125000 cburst 125000 shared up"),
        (1, 0x10, "rate 8kbit ceil 1gbit cburst 125000"),
        (1, 0x20, "rate 8kbit ceil 1gbit cburst 125000"),
    ];
    for (above, minor, options) in classes {
        let words: Vec<&str> = options.split_whitespace().collect();
        let (parent, class) = (Handle::new(root.major(), above), Handle::new(root.major(), minor));
        lane.path
            .configure(Instant::ZERO, &mut lane.dev, |tree, cx| {
                tree.edit(cx).add_class(parent, class, None, &mut Words::new(&words))
            })
            .expect(options);
    }
    lane
}

#[test]
fn classes_of_several_queues_share_a_ceiling() {
    let mut rates = SharedRates::new();
    let mut lanes: Vec<Lane> = (0..4).map(|_| htb()).collect();
    agree(&mut rates, &mut lanes).expect("all say the same");
    assert_eq!(rates.find(&up()).map(|s| s.queues()), Some(4));
    lanes.iter_mut().for_each(|l| l.fill(Instant::ZERO, 0, 900, Meta::new(1500)));
    let mut wakes = [0; 4];
    run(&mut lanes, &mut wakes, 0, 2 * MS);
    let sent = run(&mut lanes, &mut wakes, 2 * MS, 22 * MS);
    let sum = sent.iter().sum::<u64>();
    assert!(sum.abs_diff(2_500_000) <= 8 * 1_500, "{sum}");
    assert!(sent.iter().all(|s| s.abs_diff(625_000) <= 12_500 + 1_500), "{sent:?}");
    // Three have no packets any more: the fourth has the ceiling for itself.
    for lane in &mut lanes[1..] {
        lane.path.configure(Instant(22 * MS), &mut lane.dev, |tree, cx| tree.root_mut().purge(cx));
    }
    wakes[1..].fill(u64::MAX);
    let sent = run(&mut lanes, &mut wakes, 23 * MS, 26 * MS);
    assert!(sent[0].abs_diff(375_000) <= 12_500 + 1_500, "{sent:?}");
    // All its packets are sent, and no time is held.
    run(&mut lanes, &mut wakes, 0, 100 * MS);
    assert_eq!((lanes[0].backlog(), lanes[0].take(Instant(100 * MS))), (0, Out::Nothing));
    let clock = rates.find(&up()).map(|s| s.clock()).expect("it is used");
    let sent: usize = lanes.iter().map(|l| l.dev.sent().len()).sum();
    // The bucket was full 1 ms before the start. The clock has moved by the time of the sent bytes,
    // to the nanosecond by which a lease is rounded up, less the time that could not be returned
    // because the bucket had been filled in between.
    let paid = clock + MS as i64;
    assert!(
        paid >= sent as i64 * 12_000 && paid <= sent as i64 * 12_000 + MS as i64,
        "{paid} for {sent} packets"
    );
}

#[test]
fn a_class_leaves_when_it_is_deleted_and_names_itself_in_errors() {
    let mut rates = SharedRates::new();
    let mut lanes = [htb(), htb()];
    agree(&mut rates, &mut lanes).expect("all say the same");
    let root = lanes[0].path.tree().root().handle();
    let at = |minor| Handle::new(root.major(), minor);
    let mut change = |options: &str| {
        let words: Vec<&str> = options.split_whitespace().collect();
        let Lane { path, dev, .. } = &mut lanes[0];
        path.configure(Instant::ZERO, dev, |tree, cx| {
            tree.edit(cx).change_class(Some(root), at(1), None, &mut Words::new(&words))
        })
        .expect(options);
        path.configure(Instant::ZERO, dev, |tree, _| rates.join(tree)).map_err(|e| e.to_string())
    };
    assert_eq!(
        change("rate 1gbit burst 125000 cburst 125001 shared up"),
        Err("class 8001:1 shared: expected rate 1Gbit and a bucket of 125000 bytes, as others have that share up, \
             given \"rate 1Gbit and a bucket of 125001 bytes\" (change all of them in one step, or take another name)"
            .into())
    );
    assert_eq!(change("rate 2gbit ceil 1gbit burst 125000 cburst 125000 shared up"), Ok(()));
    assert_eq!(rates.find(&up()).map(|s| s.queues()), Some(2));
    for minor in [0x10, 0x20, 1] {
        let Lane { path, dev, .. } = &mut lanes[0];
        path.configure(Instant::ZERO, dev, |tree, cx| tree.edit(cx).delete_class(at(minor)))
            .expect("it is there");
    }
    assert_eq!(rates.find(&up()).map(|s| s.queues()), Some(1));
}

#[test]
fn a_name_is_there_as_long_as_somebody_uses_it() {
    let mut rates = SharedRates::new();
    let mut lanes = joined(&mut rates, 3, GIGABIT);
    let shared = rates.find(&up()).expect("it is used");
    assert_eq!((shared.queues(), shared.rate()), (3, Some((Rate(125_000_000), 1_000_000))));
    assert_eq!(rates.names().collect::<Vec<_>>(), [&up()]);
    drop(shared);
    // Joining again changes nothing; a queue that leaves is out.
    agree(&mut rates, &mut lanes).expect("as before");
    lanes[0].change(Instant::ZERO, Handle::ROOT, "rate 1gbit burst 125000 limit 1mb").expect("a tbf");
    lanes.pop();
    assert_eq!(rates.find(&up()).map(|s| s.queues()), Some(1));
    lanes.clear();
    assert!(rates.find(&up()).is_none() && rates.names().next().is_none());
}

#[test]
fn who_shares_a_name_has_its_rate() {
    let mut rates = SharedRates::new();
    let mut lanes = joined(&mut rates, 2, GIGABIT);
    let mut other = [Lane::new("tbf", "rate 2gbit burst 125000 limit 1mb shared up")];
    let err = agree(&mut rates, &mut other).expect_err("another rate");
    assert_eq!(
        err.to_string(),
        "qdisc 8001: shared: expected rate 1Gbit and a bucket of 125000 bytes, as others have that share up, \
         given \"rate 2Gbit and a bucket of 125000 bytes\" (change all of them in one step, or take another name)"
    );
    // A queue that was refused shapes alone; and one of two cannot change the common rate.
    other[0].fill(Instant::ZERO, 0, 200, Meta::new(1500));
    assert_eq!(run(&mut other, &mut [0], 0, 1), [124_500]);
    lanes[0]
        .change(Instant::ZERO, Handle::ROOT, "rate 2gbit burst 125000 limit 1mb shared up")
        .expect("a tbf");
    let trees = [lanes[0].path.tree()];
    assert_eq!(check(&rates, &trees, &trees).map_err(|e| e.object.to_string()), Err("qdisc 8001:".into()));
    // All of them can change it in one step; and then the other may join.
    lanes[1]
        .change(Instant::ZERO, Handle::ROOT, "rate 2gbit burst 125000 limit 1mb shared up")
        .expect("a tbf");
    agree(&mut rates, &mut lanes).expect("both say so");
    agree(&mut rates, &mut other).expect("as they have it");
    let shared = rates.find(&up()).expect("it is used");
    assert_eq!((shared.queues(), shared.rate()), (3, Some((Rate(250_000_000), 500_000))));
}

#[test]
fn a_tree_is_checked_in_the_place_of_the_one_that_it_is_a_copy_of() {
    let mut rates = SharedRates::new();
    let lanes = joined(&mut rates, 1, GIGABIT);
    let copy = Lane::new("tbf", "rate 2gbit burst 125000 limit 1mb shared up");
    let present = [lanes[0].path.tree()];
    assert_eq!(check(&rates, &[copy.path.tree()], &present), Ok(()));
    assert!(check(&rates, &[copy.path.tree()], &[]).is_err());
    assert_eq!(rates.find(&up()).and_then(|s| s.rate()), Some((Rate(125_000_000), 1_000_000)));
}

#[test]
fn the_packets_of_an_aqm_below_are_not_waited_for() {
    let mut rates = SharedRates::new();
    let mut lanes = joined(&mut rates, 2, GIGABIT);
    lanes[0].fill(Instant::ZERO, 0, 200, Meta::new(1250));
    lanes[1].fill(Instant::ZERO, 0, 10, Meta::new(1250));
    // The first queue takes the bucket and reserves the time of ten packets; then its packets are
    // dropped.
    assert_eq!(run(&mut lanes[..1], &mut [0], 0, 1), [125_000]);
    assert_eq!(lanes[1].take(Instant::ZERO), Out::Wait(Instant(110_000)));
    let clock = rates.find(&up()).map(|s| s.clock());
    assert_eq!(clock, Some(200_000));
    let lane = &mut lanes[0];
    lane.path.configure(Instant::ZERO, &mut lane.dev, |tree, cx| tree.root_mut().purge(cx));
    assert_eq!(rates.find(&up()).map(|s| s.clock()), Some(100_000));
}

/// Threads with paths of their own, and a clock that runs. The upper bound is exact by the times of
/// their requests; their speed depends on the machine.
#[test]
fn threads_with_paths_of_their_own_share_a_rate() {
    const THREADS: u64 = 4;
    let rates = Mutex::new(SharedRates::new());
    let (begin, ready) = (OnceLock::new(), Barrier::new(THREADS as usize));
    let clock = || u64::try_from(begin.get_or_init(Wall::now).elapsed().as_nanos()).expect("not for ever");
    let end = 100 * MS;
    let sent: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    let mut lane = Lane::new("tbf", GIGABIT);
                    let mut rates = rates.lock().expect("no thread panics");
                    lane.path
                        .configure(Instant::ZERO, &mut lane.dev, |tree, _| rates.join(tree))
                        .expect("the same rate");
                    drop(rates);
                    lane.fill(Instant::ZERO, 0, 10_000, Meta::new(1500));
                    ready.wait();
                    let mut sent = 0;
                    loop {
                        let now = clock();
                        if now >= end {
                            return sent;
                        }
                        match lane.take(Instant(now)) {
                            Out::Sent(_, m) => sent += u64::from(m.wire_len),
                            Out::Wait(t) => std::thread::sleep(Duration::from_nanos(t.0 - now)),
                            Out::Nothing => panic!("the queue has more than the rate allows"),
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().expect("no panic")).collect()
    });
    let sum: u64 = sent.iter().sum();
    assert!(sum <= 12_500_000 + 125_000 + THREADS * 12_500, "{sum}");
    assert!(sent.iter().all(|s| *s > 0) && sum >= 1_250_000, "{sent:?}");
}

#[test]
fn names_are_names() {
    for good in ["a", "up", "0", "eth0.100_up-link", "abcdefghijklmnopqrstuvwxyz012345"] {
        assert_eq!(Name::new(good).map(|n| n.as_str().to_owned()).as_deref(), Some(good));
    }
    for bad in ["", "-999", ".a", "a b", "\u{e9}", "a/b", "abcdefghijklmnopqrstuvwxyz0123456"] {
        assert_eq!(Name::new(bad), None, "{bad}");
    }
    let refused = |options: &str| {
        let words: Vec<&str> = options.split_whitespace().collect();
        let mut words = Words::new(&words);
        let spec = txweir_core::qdisc::kind("tbf").expect("it is there");
        spec.build(&mut words, &txweir_core::Env::default()).map(|_| ()).expect_err(options).to_string()
    };
    assert_eq!(
        refused("rate 1gbit burst 2000 limit 1mb shared a/b"),
        "tbf shared: expected a name (1 to 32 letters, digits, _ . -, first no . or -), given \"a/b\""
    );
}
