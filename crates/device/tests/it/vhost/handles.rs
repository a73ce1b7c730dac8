//! Several handles of one card, each with a part of the guest's pairs of queues.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::*;

/// The handles of a card, and a guest that is connected to it.
fn handles(path: &std::path::Path, most: usize, setup: Setup) -> (Vec<LinkIo>, TestGuest) {
    let endpoint: Endpoint = format!("vhost:{}", path.display()).parse().unwrap();
    let mut handles = endpoint.open_queues(&LinkOptions::default(), most).unwrap();
    let guest = TestGuest::connect(path, setup, || attend(&mut handles));
    attend(&mut handles);
    (handles, guest)
}

fn attend(handles: &mut [LinkIo]) {
    handles.iter_mut().for_each(|handle| handle.attend().unwrap());
}

fn is_ready(handle: &LinkIo) -> bool {
    wait(&mut [PollFd::new(handle, PollFlags::IN)], Some(0), 0).unwrap() == 1
}

fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[14..18].try_into().unwrap())
}

/// A handle receives by its own pairs alone, and sends by them alone.
#[test]
fn each_handle_has_its_pairs() {
    let setup = Setup { pairs: 4, ..Setup::default() };
    let path = path("parts");
    let (mut handles, mut guest) = handles(&path, 2, setup);
    assert_eq!(handles.len(), 2);
    for at in 0..16 {
        assert!(guest.send(at as usize % 4, NONE, &numbered(at, 60)));
    }
    // The second one does not wait for the first.
    for (me, handle) in handles.iter_mut().enumerate().rev() {
        assert!(is_ready(handle) && handle.is_up().unwrap() && handle.first_may_have_all());
        let got: Vec<u32> = std::iter::from_fn(|| received(handle)).map(|(_, f)| number(&f)).collect();
        assert_eq!(got, (0..16).filter(|at| *at as usize % 2 == me).collect::<Vec<_>>());
        assert!(!handle.has_frames() && !is_ready(handle));
        // The same hash has chosen the handle.
        for hash in (me as u32..32).step_by(2) {
            push_as(handle, VnetHdr::default(), &numbered(hash, 60), |meta| meta.hash = hash);
        }
        handle.commit().unwrap();
        let came = [0, 1, 2, 3].map(|pair| std::iter::from_fn(|| guest.receive(pair)).count());
        assert_eq!(came, if me == 0 { [8, 0, 8, 0] } else { [0, 8, 0, 8] });
        assert_eq!((handle.counters().rx_frames, handle.counters().tx_frames), (8, 16));
    }
    // The first handle serves the monitor: the one that has a ring learns that it goes on.
    guest.enable(3, false, &mut || attend(&mut handles));
    assert!(guest.send(1, NONE, &numbered(1, 60)));
    attend(&mut handles);
    assert!(received(&mut handles[1]).is_none() && !is_ready(&handles[1]));
    guest.enable(3, true, &mut || handles[0].attend().unwrap());
    assert!(is_ready(&handles[1]));
    assert_eq!(received(&mut handles[1]).unwrap().1, numbered(1, 60));
    // A ring that makes no sense is named by its handle, and the others go on.
    handles.iter_mut().for_each(|handle| drop(news(handle)));
    let index = guest.rings[3].avail.wrapping_add(65);
    guest.show(3, index);
    guest.kick(3);
    attend(&mut handles);
    assert!(received(&mut handles[1]).is_none());
    let said = handles.iter_mut().map(news).collect::<Vec<_>>();
    assert_eq!([said[0].len(), said[1].len()], [0, 1], "{said:?}");
    assert!(guest.send(3, NONE, &numbered(1, 60)) && guest.send(0, NONE, &numbered(2, 60)));
    assert_eq!(received(&mut handles[1]).unwrap().1, numbered(1, 60));
    assert_eq!(received(&mut handles[0]).unwrap().1, numbered(2, 60));
    let many = format!("vhost:{}2", path.display()).parse::<Endpoint>().unwrap();
    assert_eq!(many.open_queues(&LinkOptions::default(), 64).unwrap().len(), 8);
}

/// A guest with one pair sends by the first handle. Frames for it go by every handle, and one that
/// waits for room learns of it.
#[test]
fn a_guest_with_one_pair_serves_every_handle() {
    let setup = Setup { size: 16, ..Setup::default() };
    let (mut handles, mut guest) = handles(&path("one-pair"), 3, setup);
    for at in 0..8 {
        assert!(guest.send(0, NONE, &numbered(at, 60)));
    }
    assert!(received(&mut handles[1]).is_none() && received(&mut handles[2]).is_none());
    assert_eq!(std::iter::from_fn(|| received(&mut handles[0])).count(), 8);
    // The ring has 16 places, and two handles have 20 frames each.
    for (by, handle) in handles.iter_mut().enumerate().skip(1) {
        for at in 0..20 {
            push(handle, VnetHdr::default(), &numbered(100 * by as u32 + at, 60), 0);
        }
        handle.commit().unwrap();
        assert!(handle.is_full());
    }
    let mut came: [Vec<u32>; 3] = Default::default();
    for round in 0..100 {
        assert!(!is_ready(&handles[1]) && !is_ready(&handles[2]), "{round}: there is no room yet");
        let Some((_, frame, _)) = guest.receive(0) else { break };
        came[number(&frame) as usize / 100].push(number(&frame) % 100);
        let waiting = [1, 2].map(|by| handles[by].is_full());
        // The guest tells the handle that has the pair, and this one the others.
        handles[0].attend().unwrap();
        for (at, was_waiting) in waiting.into_iter().enumerate() {
            let handle = &mut handles[at + 1];
            assert!(is_ready(handle) || !was_waiting, "{round}: {at}");
            handle.attend().unwrap();
            handle.commit().unwrap();
        }
    }
    let all: Vec<u32> = (0..20).collect();
    assert_eq!(came, [vec![], all.clone(), all]);
    assert!(handles.iter().all(|handle| !handle.is_full()));
}

/// A handle that waits for many buffers is told of them, though another one finds enough for a
/// small frame meanwhile and needs no word.
#[test]
fn a_handle_that_waits_is_not_forgotten_for_another_that_does_not() {
    for features in [ALL, ALL & !EVENT_IDX] {
        let (mut handles, mut guest) = handles(&path("both"), 2, Setup { features, ..Setup::default() });
        guest.kicks_if_asked = true;
        let (hdr, frame) = super_frame(40_000);
        for _ in 0..4 {
            push(&mut handles[1], hdr, &frame, 0);
        }
        // Three frames of 20 buffers each, and 4 buffers are left.
        handles[1].commit().unwrap();
        push(&mut handles[0], VnetHdr::default(), &numbered(1, 60), 0);
        handles[0].commit().unwrap();
        assert_eq!([handles[1].is_full(), handles[0].is_full()], [true, false]);
        assert!(!is_ready(&handles[0]) && guest.receive(0).is_some());
        assert!(is_ready(&handles[0]), "{features:#x}");
        handles[0].attend().unwrap();
        assert!(is_ready(&handles[1]));
        handles[1].commit().unwrap();
        assert!(!handles[1].is_full());
        let came = std::iter::from_fn(|| guest.receive(0)).map(|(_, got, _)| got.len());
        assert_eq!(came.collect::<Vec<_>>(), [frame.len(), frame.len(), 60, frame.len()]);
    }
}

/// A guest that leaves takes the frames that wait for it at any handle along, and the next one is
/// that of all handles.
#[test]
fn every_handle_learns_that_the_guest_has_gone() {
    let path = path("leave");
    let setup = Setup { pairs: 2, size: 16, ..Setup::default() };
    let (mut handles, guest) = handles(&path, 2, setup);
    for at in 0..20 {
        push(&mut handles[1], VnetHdr::default(), &numbered(at, 60), 0);
    }
    handles[1].commit().unwrap();
    assert!(handles[1].is_full());
    attend(&mut handles);
    assert!(!is_ready(&handles[1]));
    drop(guest);
    // A process that another test begins may have the connection until it runs its program.
    let until = Instant::now() + Duration::from_secs(60);
    while handles[0].is_up().unwrap() && Instant::now() < until {
        handles[0].attend().unwrap();
        thread::yield_now();
    }
    assert!(is_ready(&handles[1]) && !handles[1].is_up().unwrap());
    handles[1].attend().unwrap();
    handles[1].commit().unwrap();
    assert!(!handles[1].is_full() && !is_ready(&handles[1]));
    assert_eq!(handles[1].counters().tx_lost_down, 4);
    assert_eq!(handles[1].take_fates(), Fates { delivered: 16, lost: 4 });
    let mut guest = TestGuest::connect(&path, setup, || attend(&mut handles));
    assert!(guest.send(1, NONE, &numbered(1, 60)));
    assert_eq!(received(&mut handles[1]).unwrap().1, numbered(1, 60));
    push(&mut handles[1], VnetHdr::default(), &numbered(2, 60), 0);
    handles[1].commit().unwrap();
    assert_eq!(guest.receive(1).unwrap().1, numbered(2, 60));
    // The card goes with its first handle.
    handles.remove(0);
    push(&mut handles[0], VnetHdr::default(), &numbered(3, 60), 0);
    handles[0].commit().unwrap();
    assert_eq!((handles[0].counters().tx_lost_down, guest.receive(1)), (5, None));
}

/// Threads with a handle each, beside a guest that stops its rings, starts them again and tells of
/// its memory anew: every frame comes once, or is counted as lost.
#[test]
fn handles_on_threads_lose_nothing_while_rings_stop() {
    const FRAMES: u32 = 3000;
    let setup = Setup { pairs: 2, ..Setup::default() };
    let (handles, mut guest) = handles(&path("threads"), 2, setup);
    let (stop, got, pushed) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let until = Instant::now() + Duration::from_secs(60);
    let work = |me: u32, mut handle: LinkIo| {
        let (mut mine, mut next) = (Vec::new(), 0);
        while !stop.load(Ordering::Relaxed) && Instant::now() < until {
            handle.attend().unwrap();
            while let Some((_, frame)) = received(&mut handle) {
                mine.push(number(&frame));
                got.fetch_add(1, Ordering::Relaxed);
            }
            if next < FRAMES && !handle.is_full() {
                push(&mut handle, VnetHdr::default(), &numbered(me << 16 | next, 60), 0);
                next += 1;
            }
            handle.commit().unwrap();
            handle.reap(&mut |done| {
                pushed.fetch_add(done.packets.into(), Ordering::Relaxed);
            });
            thread::yield_now();
        }
        (mine, handle.counters().tx_lost_down)
    };
    let (mut sent, mut came) = ([0; 2], BTreeSet::new());
    let results = thread::scope(|scope| {
        let spawn = |(me, handle)| scope.spawn(move || work(me, handle));
        let threads: Vec<_> = (0..).zip(handles).map(spawn).collect();
        let mut round = 0;
        let done = |sent: [u32; 2]| {
            let all = 2 * u64::from(FRAMES);
            sent == [FRAMES; 2] && got.load(Ordering::Relaxed) == all && pushed.load(Ordering::Relaxed) == all
        };
        while !done(sent) && Instant::now() < until {
            for (pair, sent) in sent.iter_mut().enumerate() {
                while *sent < FRAMES && guest.send(pair, NONE, &numbered(*sent, 60)) {
                    *sent += 1;
                }
                while let Some((_, frame, _)) = guest.receive(pair) {
                    assert!(came.insert(number(&frame)), "a frame came twice");
                }
            }
            round += 1;
            if round % 20 == 0 {
                let ring = round / 20 % 4;
                let base = guest.stop(ring, &mut thread::yield_now);
                guest.start(ring, u16::try_from(base).unwrap(), &mut thread::yield_now);
            }
            if round % 110 == 0 {
                guest.tell_memory(&mut thread::yield_now);
            }
            thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    while let Some((_, frame, _)) = guest.receive(0).or_else(|| guest.receive(1)) {
        assert!(came.insert(number(&frame)), "a frame came twice");
    }
    let lost: u64 = results.iter().map(|(_, lost)| lost).sum();
    for (mine, _) in &results {
        assert_eq!(*mine, (0..FRAMES).collect::<Vec<_>>(), "of its pair, in order");
    }
    assert_eq!(came.len() as u64 + lost, 2 * u64::from(FRAMES), "{lost} lost");
}
