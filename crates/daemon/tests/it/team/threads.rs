//! Teams on threads. Nothing here depends on the speed of a machine: a test waits for a count, and
//! fails if it does not come within a minute.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use txweir_core::Nanos;
use txweir_daemon::{Ended, Links, RunError, RunOptions, Team, TeamOptions, report};

use super::{Crew, count, frame, sums};

const MINUTE: Duration = Duration::from_secs(60);

fn directions(parts: &mut [&mut Links]) -> Vec<serde_json::Value> {
    let text = report::json_of_parts(parts, "stats", Nanos(1));
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    report["directions"].as_array().expect("ways").clone()
}

/// More workers than processors, frames that cross between them and a report in the middle of it:
/// at every instant each frame is counted once, and all arrive.
#[test]
fn more_workers_than_processors_count_every_frame() {
    const FRAMES: u32 = 20_000;
    for (busy_poll, root, map) in [
        (false, "", "hash"),
        (true, "", "hash"),
        (false, "qdisc replace dev right root handle 1: pfifo limit 1000000\n", "arrival"),
    ] {
        let Crew { left, right, parts } = Crew::new(16, [16, 16], None, root, map);
        let mut team = Team::new(parts).expect("a team");
        team.start(&TeamOptions { pins: Vec::new(), busy_poll }).expect("threads");
        let give_up = Instant::now() + MINUTE;
        let mut given = 0;
        let done = loop {
            // A burst that no mailbox and no qdisc is too short for.
            if given < FRAMES {
                let taken: usize = right.iter().map(|card| card.seen().sent.as_ref().unwrap().len()).sum();
                if (given as usize) < taken + 500 {
                    for number in given..given + 250 {
                        let card = &left[number as usize % 16];
                        card.seen().incoming.push_back(frame((number % 64) as u16, number));
                    }
                    given += 250;
                }
            }
            let mut stopped = team.stop().expect("every worker ends its turn");
            let mut parts = stopped.parts();
            // The cards of this test have no descriptor that is readable: a turn is asked for.
            let clock = || txweir_core::Instant(txweir_device::clock::now_ns());
            if !busy_poll {
                for part in &mut parts {
                    part.turn(&clock, &[]);
                }
            }
            let ways = directions(&mut parts);
            for way in &ways {
                let [came, known] = sums(way);
                assert_eq!(came, known, "{way}");
            }
            let way = ways.iter().find(|way| way["to"] == "packet:right").expect("the way").clone();
            if given == FRAMES && count(&way, "delivered") == u64::from(FRAMES) {
                break way;
            }
            drop(parts);
            drop(stopped);
            assert!(Instant::now() < give_up, "{given} given: {way}");
        };
        assert_eq!((count(&done, "dropped"), count(&done, "lost")), (0, 0), "{done}");
        assert!(done["crossed"]["to_others"].as_u64() > Some(0), "{done}");
        team.end();
    }
}

/// A panic of a worker ends the run with its text, and the counts can still be read.
#[test]
fn a_worker_that_panics_is_seen() {
    let Crew { left, parts, .. } = Crew::new(2, [2, 2], None, "", "arrival");
    let mut team = Team::new(parts).expect("a team");
    // A frame longer than any buffer makes the card of the test panic.
    left[1].seen().incoming.push_back((txweir_device::VnetHdr::default(), vec![0; 1 << 20]));
    team.start(&TeamOptions { pins: Vec::new(), busy_poll: true }).expect("threads");
    let (never, _other) = UnixStream::pair().expect("a pair");
    let end = Some(txweir_core::Instant(txweir_device::clock::now_ns()) + Nanos::from_secs(60));
    let ended = team.run(&never, &RunOptions { end, ..RunOptions::default() }, &mut |_| {}, &mut |_| {});
    match ended {
        Err(RunError::Worker { number: 1, error }) => assert!(error.contains("out of range"), "{error}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(team.stop().expect("the locks are free").parts().len(), 2);
}

/// A worker that cannot have its processor says so.
#[test]
fn a_processor_that_is_not_there_is_named() {
    let Crew { parts, .. } = Crew::new(2, [1, 1], None, "", "arrival");
    let mut team = Team::new(parts).expect("a team");
    team.start(&TeamOptions { pins: vec![usize::MAX], busy_poll: false }).expect("threads");
    let (never, _other) = UnixStream::pair().expect("a pair");
    let end = Some(txweir_core::Instant(txweir_device::clock::now_ns()) + Nanos::from_secs(60));
    let ended = team.run(&never, &RunOptions { end, ..RunOptions::default() }, &mut |_| {}, &mut |_| {});
    let text = ended.expect_err("it cannot").to_string();
    assert!(
        text.ends_with("cannot run on processor 18446744073709551615: Invalid argument (os error 22)"),
        "{text}"
    );
}

/// A worker in a turn that does not end is named, once, and nobody waits for it for long.
#[test]
fn a_worker_that_stalls_is_named() {
    let Crew { left, parts, .. } = Crew::new(2, [2, 2], None, "", "arrival");
    let mut team = Team::new(parts).expect("a team");
    let held = Arc::new(AtomicBool::new(false));
    let (cards, holds) = (left.clone(), Arc::clone(&held));
    let release = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&release);
    // While the test holds the card, the worker waits in the middle of its turn.
    let holder = std::thread::spawn(move || {
        let _card = cards[1].seen();
        holds.store(true, Ordering::SeqCst);
        while !end.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    while !held.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    team.start(&TeamOptions { pins: Vec::new(), busy_poll: true }).expect("threads");
    let (mut stop, stopped) = UnixStream::pair().expect("a pair");
    let mut said = Vec::new();
    let mut say = |line: String| {
        said.push(line);
        // The end of the wait below.
        std::io::Write::write_all(&mut stop, b"x").expect("a byte");
    };
    let end = Some(txweir_core::Instant(txweir_device::clock::now_ns()) + Nanos::from_secs(60));
    let ended = team.run(&stopped, &RunOptions { end, ..RunOptions::default() }, &mut |_| {}, &mut say);
    assert!(matches!(ended, Ok(Ended::Stopped)), "{ended:?}");
    assert!(said[0].starts_with("worker 1 does not answer: it is in one turn for "), "{said:?}");
    let stuck = team.stop().expect_err("it is still in its turn");
    assert_eq!(stuck.worker, 1);
    assert_eq!(team.stalls(), [], "it was named already");
    release.store(true, Ordering::SeqCst);
    holder.join().expect("the holder");
    assert_eq!(team.stop().expect("it has ended its turn").parts().len(), 2);
}
