//! The wire with one ring: the time of a unit, its report, the return of descriptors. The line over
//! many rings: `wire_line.rs`; against a model, `wire_model.rs`.

use txweir_core::model::wire::{Completion, DescriptorCost, Latency, Wire, WireConfig};
use txweir_core::{Instant, Meta, Nanos, Rate, Tally, TxQueue};

fn wire(config: WireConfig) -> Wire<u32> {
    Wire::new(config).unwrap()
}

fn send(w: &mut Wire<u32>, at: Instant, frames: &[(u32, Meta)]) {
    w.advance(at, |_| {});
    assert_eq!(w.reserve(frames.len() as u32), frames.len() as u32);
    for (f, m) in frames {
        w.push(*f, m);
    }
    w.commit().unwrap();
}

#[test]
fn full_frames_take_their_time_at_a_gigabit() {
    let mut w = wire(WireConfig { completion: Completion::Immediate, ..WireConfig::default() });
    send(&mut w, Instant(100), &[(1, Meta::new(1514)), (2, Meta::new(1514)), (3, Meta::new(40))]);
    let mut seen = Vec::new();
    assert!(w.advance(Instant(1_000_000), |d| seen.push((d.frame, d.start.0, d.finish.0))));
    // 1514 + 24 bytes are 12 304 ns; 40 bytes are padded to 60, with overhead 84: 672 ns.
    assert_eq!(seen, [(1, 100, 12_404), (2, 12_404, 24_708), (3, 24_708, 25_380)]);
}

#[test]
fn a_super_packet_is_cut_on_the_line() {
    let mut w = wire(WireConfig::default());
    let m = Meta::new(54 + 45 * 1448).gso(54, 1448);
    assert_eq!(w.line_bytes(&m), 45 * (54 + 1448 + 24));
    send(&mut w, Instant(0), &[(1, m)]);
    assert_eq!(w.next_event(), Some(Instant(45 * 1526 * 8)));
}

#[test]
fn fractions_of_a_nanosecond_are_not_lost() {
    let rate = Rate::from_bits(10_000_000_000);
    let mut w =
        wire(WireConfig { rate, min_frame: 0, completion: Completion::Immediate, ..WireConfig::default() });
    let frames: Vec<_> = (0..10).map(|i| (i, Meta::new(37))).collect();
    send(&mut w, Instant(0), &frames);
    let mut last = 0;
    w.advance(Instant(1_000), |d| last = d.finish.0);
    // 61 bytes at 10 Gbit/s are 48.8 ns; ten of them 488.
    assert_eq!(last, 488);
}

#[test]
fn periodic_rounds_come_on_the_grid_and_free_descriptors() {
    let mut w = wire(WireConfig { ring: 2, ..WireConfig::default() });
    send(&mut w, Instant(0), &[(1, Meta::new(1514)), (2, Meta::new(1514))]);
    assert_eq!(w.reserve(1), 0);
    assert!(!w.advance(Instant(249_999), |_| {}));
    assert_eq!((w.held().bytes, w.descriptors_used()), (3028, 2));
    assert!(w.advance(Instant(250_000), |_| {}));
    let mut done = Vec::new();
    w.reap(&mut |c| done.push((c.packets, c.bytes)));
    assert_eq!((done, w.held(), w.descriptors_used()), (vec![(2, 3028)], Tally::default(), 0));
    assert_eq!((w.reserve(5), w.next_event()), (2, None));
}

#[test]
fn every_n_or_t_takes_whichever_is_first() {
    let completion = Completion::Every { packets: 2, within: Nanos::from_micros(100) };
    let mut w = wire(WireConfig { completion, ..WireConfig::default() });
    send(&mut w, Instant(0), &[(1, Meta::new(1514)), (2, Meta::new(1514)), (3, Meta::new(1514))]);
    assert!(!w.advance(Instant(24_607), |_| {}));
    assert!(w.advance(Instant(24_608), |_| {}), "two are finished");
    w.reap(&mut |_| {});
    assert!(!w.advance(Instant(136_911), |_| {}));
    assert!(w.advance(Instant(136_912), |_| {}), "100 us after the third");
}

#[test]
fn descriptor_costs_interpolate_and_draw_to_their_mean() {
    let cost = DescriptorCost::from_points(&[(65_226, 2150), (1514, 340)]).unwrap();
    assert_eq!([60, 1514, 33_370, 65_226, 70_000].map(|l| cost.hundredths(l)), [340, 340, 1245, 2150, 2150]);
    let config = WireConfig { ring: 1 << 20, descriptors: cost, ..WireConfig::default() };
    let mut w = wire(config);
    for i in 0..10_000 {
        assert_eq!(w.reserve(1), 1);
        w.push(i, &Meta::new(1514));
    }
    assert!((33_700..34_300).contains(&w.descriptors_used()), "{}", w.descriptors_used());
    assert!(DescriptorCost::from_points(&[]).is_err());
    assert!(DescriptorCost::from_points(&[(1, 50)]).is_err());
}

#[test]
fn a_slower_rate_holds_from_the_next_unit() {
    let mut w = wire(WireConfig { completion: Completion::Immediate, ..WireConfig::default() });
    send(&mut w, Instant(0), &[(1, Meta::new(1514)), (2, Meta::new(1514))]);
    w.set_rate(Rate::from_bits(100_000_000));
    let mut seen = Vec::new();
    w.advance(Instant(1_000_000), |d| seen.push(d.finish.0));
    assert_eq!(seen, [12_304, 12_304 + 123_040]);
}

#[test]
fn refuses_what_cannot_be() {
    for config in [
        WireConfig { rate: Rate(0), ..WireConfig::default() },
        WireConfig { ring: 0, ..WireConfig::default() },
        WireConfig { completion: Completion::Periodic(Nanos(0)), ..WireConfig::default() },
        WireConfig { latency: Latency { min: Nanos(2), max: Nanos(1) }, ..WireConfig::default() },
    ] {
        assert!(Wire::<u32>::new(config).is_err());
    }
}

#[test]
fn the_end_of_time_is_reached() {
    let mut w = wire(WireConfig::default());
    assert!(!w.advance(Instant::MAX, |_| {}));
    let mut w = wire(WireConfig::default());
    send(&mut w, Instant(0), &[(1, Meta::new(1514))]);
    assert!(w.advance(Instant::MAX, |_| {}));
    assert_eq!(w.next_event(), None);
}

/// A ring without a byte limit may finish more bytes before a report than a completion can name.
#[test]
fn more_than_four_gibibytes_are_several_completions() {
    let number = 70_000_u32;
    let completion = Completion::Every { packets: number, within: Nanos::from_secs(9) };
    let rate = Rate::from_bits(400_000_000_000);
    let mut w = wire(WireConfig { ring: number, rate, completion, ..WireConfig::default() });
    let frames: Vec<_> = (0..number).map(|frame| (frame, Meta::new(65_535))).collect();
    send(&mut w, Instant(0), &frames);
    assert!(w.advance(Instant::from_secs(1), |_| {}));
    let mut done = Vec::new();
    w.reap(&mut |c| done.push((c.packets, u64::from(c.bytes))));
    let bytes = u64::from(number) * 65_535;
    assert_eq!(done, [(0, u64::from(u32::MAX)), (number, bytes - u64::from(u32::MAX))]);
    assert_eq!((w.held(), w.descriptors_used()), (Tally::default(), 0));
}
