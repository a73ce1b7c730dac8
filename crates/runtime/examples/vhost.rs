//! Nanoseconds a frame from the ring of one virtual machine to the ring of another, through
//! fq_codel: two guests without a kernel, in memory of this process. Only the work of the device
//! counts, the copies out of the first guest and into the second among it.
//!
//! `cargo run --release -p txweir-runtime --example vhost [rounds]`

use std::time::{Duration, Instant as Wall};

use txweir_core::text::value::Words;
use txweir_core::{Handle, Instant};
use txweir_device::testguest::{Setup, TestGuest};
use txweir_device::{IfName, Nic, VhostQueue, clock};
use txweir_runtime::{Direction, DirectionConfig, Received};

/// Frames that a guest sends before the device has its turn: half of its ring.
const BURST: usize = 128;
/// Bursts of a round.
const BURSTS: usize = 400;

fn connected(name: &str) -> (VhostQueue, TestGuest) {
    let path = std::env::temp_dir().join(format!("txw-{}-{name}.sock", std::process::id()));
    let name = IfName::new(name).expect("a name");
    let mut card = VhostQueue::open(&path, &name, 64 << 20).unwrap_or_else(|error| panic!("{error}"));
    let setup = Setup { size: 256, ..Setup::default() };
    let guest = TestGuest::connect(&path, setup, || card.attend().expect("a card"));
    (card, guest)
}

fn main() {
    let rounds: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(9);
    let (mut from, mut sender) = connected("from");
    let (to, mut receiver) = connected("to");
    let config = DirectionConfig { wire: None, ..DirectionConfig::default() };
    let mut way = Direction::new(config, to).expect("a direction");
    way.control(now()).configure(|tree, cx| {
        let none = &mut Words::new(&[]);
        tree.edit(cx).replace(Handle::ROOT, None, "fq_codel", none).expect("a known kind");
    });
    for len in [60, 1514] {
        let mut frame = vec![0x5a; len];
        frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 0x88, 0xb5]);
        let one = |_| round(&mut from, &mut sender, &mut way, &mut receiver, &frame);
        let mut all: Vec<f64> = (0..rounds).map(one).collect();
        all.sort_by(f64::total_cmp);
        println!(
            "{len} bytes: {:.0} ns a frame [{:.0}-{:.0}]",
            all[all.len() / 2],
            all[0],
            all[all.len() - 1]
        );
    }
}

fn now() -> Instant {
    Instant(clock::now_ns())
}

/// Returns the nanoseconds of the device a frame.
fn round(
    from: &mut VhostQueue,
    sender: &mut TestGuest,
    way: &mut Direction<VhostQueue>,
    receiver: &mut TestGuest,
    frame: &[u8],
) -> f64 {
    let (mut spent, mut passed) = (Duration::ZERO, 0);
    for _ in 0..BURSTS {
        while sender.send(0, [0; 12], frame) {}
        let begun = Wall::now();
        for _ in 0..BURST {
            match way.receive(from).expect("a card") {
                Received::Frame(arrival) => way.admit(now(), arrival).expect("a card"),
                Received::LeftOut => {}
                Received::Nothing => break,
            }
        }
        way.advance(now()).expect("a card");
        spent += begun.elapsed();
        while receiver.receive(0).is_some() {
            passed += 1;
        }
    }
    spent.as_nanos() as f64 / f64::from(passed.max(1))
}
