//! In place of a channel of 512 packets that drops when it is full: a path that hands the packet
//! back to its producer and says when to try again. No packet is lost, and few wait in the device.

use txweir::{Admitted, Instant, Meta, PathConfig, TxPath, testing::VecDevice};

/// Sends `count` packets. Returns the device that they went to, and the number of times the
/// producer had to wait.
pub fn run(count: u32) -> Result<(VecDevice<u32>, u32), Box<dyn std::error::Error>> {
    let mut device = VecDevice::with_slots(64);
    let mut path = TxPath::new(PathConfig::default())?.with_qdisc("pfifo", &["limit", "512"])?;
    let (mut frames, mut held, mut waits) = (0..count, None, 0);
    for tick in 0.. {
        let now = Instant::from_micros(tick);
        // The producer: it goes on until a packet comes back, keeps that packet, and waits to be
        // woken.
        while let Some(frame) = held.take().or_else(|| frames.next()) {
            match path.submit(now, frame, Meta::new(1500), &mut device) {
                Admitted::Full(frame) | Admitted::Cut(frame, _) => held = Some(frame),
                Admitted::Sent | Admitted::Queued => continue,
                Admitted::Dropped(reason) => return Err(format!("packet {frame}: {reason}").into()),
            }
            waits += 1;
            break;
        }
        // The device: it finishes a few packets at a time, until the producer is to be woken or no
        // packet waits.
        while !path.take_wake() {
            device.finish(16);
            if path.reap(now, &mut device, |_| {}) == 0 && held.is_none() {
                return Ok((device, waits));
            }
            let _ = path.drain(now, 64, &mut device);
        }
    }
    unreachable!("ticks do not end")
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (device, waits) = run(100_000)?;
    println!(
        "{} sent, {} lost, producer waited {waits} times",
        device.sent().len(),
        device.discarded().len()
    );
    Ok(())
}
