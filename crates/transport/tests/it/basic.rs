//! Two ends over a wire: throughput, repair, closing.

use txweir_core::{Instant, Nanos};
use txweir_transport::{Algorithm, Config, State};

use crate::common::{Net, Wire};

fn config(algorithm: Algorithm) -> Config {
    Config { algorithm, ..Config::default() }
}

#[test]
fn fills_a_link() {
    for (name, algorithm) in Algorithm::ALL {
        let c = config(algorithm);
        let mut net = Net::new(&c, &c, Wire::default());
        net.run(Instant::from_secs(20));
        let mbit = net.read as f64 * 8.0 / 20e6;
        println!("{name}: {mbit:.2} Mbit/s, {} lost, {:?}", net.dropped, net.ends[0].counters());
        assert!(mbit > 17.5, "{name}: {mbit}");
        assert_eq!(net.ends[0].counters().timeouts, 0, "{name}");
    }
}

#[test]
fn everything_arrives_and_both_close() {
    let c = config(Algorithm::Cubic);
    let wire = Wire { lose: [3, 4, 7, 20, 21, 22, 60].into(), ..Wire::default() };
    let mut net = Net::new(&c, &c, wire);
    (net.to_write, net.close) = (300_000, true);
    net.run(Instant::from_secs(60));
    assert_eq!(net.read, 300_000);
    assert_eq!([net.ends[0].state(), net.ends[1].state()], [State::Closed; 2]);
    assert_eq!(net.ends[0].deadline(), None);
}

#[test]
fn survives_heavy_loss() {
    let c = config(Algorithm::Reno);
    let lose = (0..4000_u64).filter(|i| (i * 2_654_435_761) % 100 < 15).collect();
    let mut net = Net::new(&c, &c, Wire { lose, ..Wire::default() });
    (net.to_write, net.close) = (1_500_000, true);
    net.run(Instant::from_secs(600));
    println!("{:?} at {:?}", net.ends[0].counters(), net.now);
    assert_eq!(net.read, 1_500_000);
    assert_eq!(net.ends[0].state(), State::Closed);
}

#[test]
fn one_loss_is_repaired_after_a_round_trip() {
    let c = config(Algorithm::Reno);
    let mut net = Net::new(&c, &c, Wire { rate: 1_000_000_000, lose: [2].into(), ..Wire::default() });
    (net.to_write, net.close) = (14_480, true);
    net.run(Instant::from_secs(5));
    let again: Vec<_> = net.sent.iter().filter(|(_, s)| s.again).collect();
    assert_eq!(again.len(), 1, "{again:?}");
    let took = again[0].0.saturating_since(Instant::from_millis(30));
    assert!(took < Nanos::from_millis(32), "{took:?}");
}

/// The memory of an end while nothing is in flight, without its congestion control and the
/// configuration, which ends share. `lab/tests/it/size.rs` counts the whole memory of a flow.
#[test]
fn an_idle_end_is_small() {
    let bytes = size_of::<txweir_transport::Connection>();
    println!("{bytes} bytes, and {} of the shared configuration", size_of::<Config>());
    assert!(bytes <= 896, "{bytes}");
}
