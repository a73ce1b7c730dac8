//! The least that a forwarder does: it waits, and gives each frame that comes in by one interface
//! to the other. No header is read, and no frame waits in a queue of its own.

use std::sync::atomic::{AtomicBool, Ordering};

use txweir_core::Meta;
use txweir_device::poll::{self, PollFd, PollFlags};
use txweir_device::{Endpoint, FRAME_MEMORY, Landed, LinkIo, LinkOptions, Store, clock, cpu};

use super::beside::beside;
use super::hosts::Net;

/// Frames that pass in one direction before the other has its turn.
const BURST: usize = 64;
/// Longest wait for frames, nanoseconds: the end is noticed as soon.
const LOOK: u64 = 50_000_000;

/// Calls `f` while a forwarder runs between the hosts, on this processor if there is one of that
/// number.
pub fn between<T: Send>(net: &Net, processor: usize, f: impl FnOnce() -> T + Send) -> T {
    let forwarder = |ends: &AtomicBool| {
        let _ = cpu::pin(processor);
        net.middle.enter(|| forward(net, ends));
    };
    beside(forwarder, f)
}

fn forward(net: &Net, ends: &AtomicBool) {
    let options = LinkOptions { memory: FRAME_MEMORY / 4, ..LinkOptions::default() };
    let [mut a, mut b] = [&net.input, &net.output].map(|text| {
        let endpoint: Endpoint = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        endpoint.open(&options).unwrap_or_else(|error| panic!("{error}"))
    });
    let _ = poll::sharpen_timers();
    while !ends.load(Ordering::Relaxed) {
        {
            let mut fds = [PollFd::new(&a, PollFlags::IN), PollFd::new(&b, PollFlags::IN)];
            let look = [a.look_again(), b.look_again()].into_iter().flatten().map(|time| time.0).min();
            let until = clock::now_ns() + look.unwrap_or(LOOK);
            poll::wait(&mut fds, Some(until), 0).expect("wait");
        }
        pass(&mut a, &mut b);
        pass(&mut b, &mut a);
    }
}

/// Gives the frames that have come in by one interface to the other.
fn pass(from: &mut LinkIo, to: &mut LinkIo) {
    for _ in 0..BURST {
        match to.store().receive(from).expect("the interface") {
            Landed::Nothing => break,
            Landed::NoRoom => {}
            Landed::Frame(frame) if to.reserve(1) == 1 => {
                let len = u32::try_from(frame.bytes().len()).unwrap_or(u32::MAX);
                to.push(frame, &Meta::new(len));
            }
            Landed::Frame(frame) => to.store().give(frame),
        }
    }
    to.commit().expect("the interface");
    to.reap(&mut |_| {});
}
