//! The examples do what they say.

#[path = "../examples/backpressure.rs"]
#[allow(dead_code)]
mod backpressure;
#[path = "../examples/smoltcp_device.rs"]
#[allow(dead_code)]
mod smoltcp_device;

#[test]
fn back_pressure_loses_nothing_and_keeps_order() {
    let (device, waits) = backpressure::run(10_000).expect("no packet dropped");
    assert!(device.sent().iter().copied().eq(0..10_000));
    assert_eq!(device.discarded().len(), 0);
    // 10 000 packets through 512 + 64 places: the producer did wait.
    assert!(waits > 100, "{waits}");
    let (device, waits) = backpressure::run(500).expect("no packet dropped");
    assert_eq!((device.sent().len(), waits), (500, 0));
}

fn numbers() -> Vec<u8> {
    (0..100_000u64).map(|n| ((n * n) >> 7) as u8).collect()
}

#[test]
fn smoltcp_sends_at_the_rate_of_the_path_and_loses_nothing() {
    let shaper = ["rate", "1mbit", "burst", "5kb", "limit", "64kb"];
    let t = smoltcp_device::run(&numbers(), "tbf", &shaper).expect("runs");
    assert_eq!((t.received == numbers(), t.dropped), (true, 0));
    // 800 ms of payload at 1 Mbit/s, less a bucket of 41 ms; headers, and acknowledgements, which share the
    // loopback, take a little more.
    assert!((760_000..1_000_000).contains(&t.micros), "{} us", t.micros);
    let t = smoltcp_device::run(&numbers(), "pfifo", &[]).expect("runs");
    assert_eq!((t.received == numbers(), t.dropped), (true, 0));
    // Without a shaper it takes what the timers of TCP take.
    assert!(t.micros < 400_000, "{} us", t.micros);
}

#[test]
fn smoltcp_waits_while_the_path_is_full() {
    // Room for five packets where TCP's window is eleven: the stack is held back, and nothing is lost.
    let shaper = ["rate", "1mbit", "burst", "5kb", "limit", "8kb"];
    let t = smoltcp_device::run(&numbers(), "tbf", &shaper).expect("runs");
    assert_eq!((t.received == numbers(), t.dropped), (true, 0));
    assert!((760_000..1_000_000).contains(&t.micros), "{} us", t.micros);
}
