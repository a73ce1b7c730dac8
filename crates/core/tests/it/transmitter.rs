//! The edges of a transmit path towards its device: doorbells, limits that are just reached, the
//! wakes of senders. (`ledger.rs`: its stops.)

use txweir_core::model::testing::VecDevice;
use txweir_core::{Admitted, Instant, Meta, PathConfig, TxPath};

const T0: Instant = Instant::ZERO;

/// A doorbell is a write to the device: none is rung without a packet since the last one.
#[test]
fn a_doorbell_is_rung_once_for_the_packets_before_it() {
    let config = PathConfig { bql: None, ..PathConfig::default() };
    let mut path: TxPath<u32> = TxPath::new(config).unwrap();
    let mut dev = VecDevice::with_slots(10);
    for (packets, rung) in [(0, 0), (3, 1), (0, 1), (1, 2), (0, 2)] {
        for n in 0..packets {
            assert_eq!(path.submit(T0, n, Meta::new(100), &mut dev), Admitted::Sent);
        }
        path.doorbell(&mut dev);
        let _ = path.drain(T0, 64, &mut dev);
        assert_eq!((dev.doorbells(), path.stats().commits), (rung, rung), "{packets} packets");
    }
}
