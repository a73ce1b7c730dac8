//! cbs: a share of the link for a class. (`law::credit` tests the numbers. Against Linux 6.12:
//! spec/traces/cbs.)

use crate::common::lane::{Lane, Out};
use txweir_core::text::value::Words;
use txweir_core::{Admitted, Env, Handle, Instant, Meta, Nanos, Rate, qdisc::kind};

const T0: Instant = Instant::ZERO;

/// Returns the options of a reservation of `idleslope` kbit/s of a link, for frames of 1500 bytes.
fn reserved(idleslope: u32, link_kbit: u32) -> String {
    let r = txweir_core::law::credit::reservation(idleslope, link_kbit, 1500, 1500);
    format!("idleslope {idleslope} sendslope {} hicredit {} locredit {}", r.sendslope, r.hicredit, r.locredit)
}

fn on(link_bits: u64, options: &str) -> Lane {
    let env = Env { link_rate: Some(Rate::from_bits(link_bits)), ..Env::default() };
    Lane::on(env, "cbs", options)
}

/// Returns the times at which packets leave, with a question at each time that is named.
fn departures(lane: &mut Lane, mut now: Instant, n: usize) -> Vec<u64> {
    let mut times = Vec::new();
    for _ in 0..4 * n {
        match lane.take(now) {
            Out::Sent(..) => times.push(now.0),
            Out::Wait(t) => now = t,
            Out::Nothing => break,
        }
        if times.len() == n {
            break;
        }
    }
    times
}

/// The example of tc-cbs(8): 20 Mbit/s of 1 Gbit/s.
#[test]
fn the_example_of_the_manual_keeps_its_rate() {
    let options = reserved(20_000, 1_000_000);
    assert_eq!(options, "idleslope 20000 sendslope -980000 hicredit 30 locredit -1470");
    let mut lane = on(1_000_000_000, &options);
    lane.fill(T0, 0, 100, Meta::new(1500));
    let times = departures(&mut lane, T0, 100);
    // A packet of 1500 bytes at 20 Mbit/s takes 600 us; it is on the port for 12 us of them.
    assert_eq!(times[..3], [0, 600_000, 1_200_000]);
    assert_eq!(times[99], 59_400_000);
}

#[test]
fn a_packet_waits_for_the_end_of_the_one_before_on_the_port() {
    let mut lane = on(1_000_000_000, "");
    lane.fill(T0, 0, 3, Meta::new(1500));
    assert_eq!(departures(&mut lane, T0, 3), [0, 12_000, 24_000]);
}

/// cbs-link-rate
#[test]
fn a_link_without_a_rate_counts_as_ten_megabits() {
    let mut lane = Lane::new("cbs", "");
    lane.fill(T0, 0, 2, Meta::new(1250));
    assert_eq!(departures(&mut lane, T0, 2), [0, 1_000_000]);
}

/// cbs-idle-ask: a flow that has sent is a new one again once the debt is paid, because Linux asks
/// the empty child then.
#[test]
fn an_empty_child_forgets_its_flows_when_the_debt_is_paid() {
    // 1 MB/s of 1 GB/s; a packet of 1000 bytes costs 999.
    let options = "idleslope 8000 sendslope -7992000 hicredit 0 locredit -10000";
    for (wait, first) in [(900_000, 2), (1_100_000, 1)] {
        let mut lane = on(8_000_000_000, options);
        let class = Handle::new(lane.root().handle().major(), 1);
        lane.graft(T0, class, "fq_codel", "quantum 300");
        lane.fill(T0, 0, 1, Meta::new(1000).hash(7));
        assert_eq!(lane.take(T0).id(), Some(0));
        assert_eq!(lane.take(T0).id(), None);
        let later = T0 + Nanos(wait);
        lane.fill(later, 1, 1, Meta::new(1000).hash(7));
        lane.fill(later, 2, 1, Meta::new(1000).hash(1 << 31));
        let mut now = later;
        let next = loop {
            match lane.take(now) {
                Out::Sent(number, _) => break number,
                Out::Wait(t) => now = t,
                Out::Nothing => panic!("two packets wait"),
            }
        };
        assert_eq!(next, first, "after {wait} ns");
    }
}

#[test]
fn credit_is_for_packets_that_wait() {
    // 1 MB/s of 1 GB/s; a packet of 1000 bytes costs 999 and is on the port for 1 us.
    let mut lane = on(8_000_000_000, "idleslope 8000 sendslope -7992000 hicredit 2000 locredit -1000");
    lane.fill(T0, 0, 2, Meta::new(1000));
    assert_eq!(departures(&mut lane, T0, 2), [0, 1_000_000]);
    // The debt is paid while nothing waits; no credit is earned after that.
    let late = Instant(50_000_000);
    lane.fill(late, 10, 3, Meta::new(1000));
    assert_eq!(departures(&mut lane, late, 3), [50_000_000, 51_000_000, 52_000_000]);
}

/// cbs-grain
#[test]
fn credit_grows_however_often_a_packet_is_asked_for() {
    let mut lane = on(8_000_000_000, "idleslope 8 sendslope -7999992 hicredit 0 locredit -1000");
    lane.fill(T0, 0, 2, Meta::new(1000));
    assert_eq!(lane.take(T0).id(), Some(0));
    // A debt of 999 bytes at 1 kB/s from 1 us on: a byte a millisecond, and a question each 100 us.
    let first = (1..20_000).find(|n| lane.take(Instant(n * 100_000)).id().is_some());
    assert_eq!(first, Some(9_991));
}

/// cbs-long-wait
#[test]
fn a_silence_of_days_pays_a_debt() {
    let mut lane = on(10_000_000_000, "idleslope 1000000 sendslope -9000000 hicredit 100 locredit -1000");
    lane.fill(T0, 0, 1, Meta::new(1000));
    assert_eq!(lane.take(T0).id(), Some(0));
    let days = Instant::from_secs(86_400 * 9);
    lane.fill(days, 1, 1, Meta::new(1000));
    assert_eq!(lane.take(days).id(), Some(1));
}

/// cbs-reset
#[test]
fn a_purge_of_cbs_forgets_the_credit() {
    let mut lane = on(1_000_000_000, &reserved(20_000, 1_000_000));
    lane.fill(T0, 0, 2, Meta::new(1500));
    assert_eq!(lane.take(T0).id(), Some(0));
    lane.path.purge(T0, &mut lane.dev);
    lane.fill(T0, 5, 1, Meta::new(1500));
    assert_eq!(lane.take(T0).id(), Some(5));
}

/// cbs-drops
#[test]
fn drops_in_the_class_of_cbs_are_counted_by_it() {
    let mut lane = on(1_000_000_000, &reserved(20_000, 1_000_000));
    lane.graft(T0, Handle::new(0x8001, 1), "pfifo", "limit 1");
    lane.fill(T0, 0, 1, Meta::new(1500));
    let _ = lane.put(T0, 1, Meta::new(1500));
    assert_eq!(lane.root().books().dropped.packets, 1);
}

/// cbs-offload, cbs-range
#[test]
fn what_cbs_refuses() {
    let built = |options: &[&str]| kind("cbs").unwrap().build(&mut Words::new(options), &Env::default());
    for (options, said) in [
        (["offload", "1"], "cbs offload: expected offload 0, given \"1\" (the law runs here: leave it out)"),
        (["offload", "256"], "cbs offload: expected 0 to 255, given \"256\""),
        (["idleslope", "-1"], "cbs idleslope: expected 0 to 2147483647, given \"-1\""),
        (["hicredit", "-1"], "cbs hicredit: expected 0 to 2147483647, given \"-1\""),
        (["locredit", "x"], "cbs locredit: expected a whole number that may be below 0, given \"x\""),
    ] {
        let given = built(&options).err().map(|e| e.to_string());
        assert_eq!(given.as_deref(), Some(said));
    }
}

#[test]
fn a_change_keeps_the_credit_and_what_waits() {
    let mut lane = on(1_000_000_000, &reserved(20_000, 1_000_000));
    lane.fill(T0, 0, 3, Meta::new(1500));
    assert_eq!(lane.take(T0).id(), Some(0));
    lane.change(Instant(12_000), Handle::ROOT, &reserved(40_000, 1_000_000)).unwrap();
    // A debt of 1470 bytes at 5 MB/s, from the end of the packet on.
    assert_eq!(departures(&mut lane, Instant(12_000), 1), [12_000 + 294_000]);
    // Options that are not named are those of a new qdisc: no credit is earned, and the debt stays.
    lane.change(Instant(306_000), Handle::ROOT, "").unwrap();
    assert_eq!(lane.take(Instant(400_000)), Out::Wait(Instant::MAX));
}

#[test]
fn a_packet_behind_one_that_waits_takes_no_credit_away() {
    // 2.5 bytes of credit a microsecond; a packet costs 1470, and is on the port for 12 us.
    let mut lane = on(1_000_000_000, "idleslope 20000 sendslope -980000 hicredit 1000 locredit -1470");
    lane.fill(T0, 0, 3, Meta::new(1500));
    assert_eq!(lane.take(T0).id(), Some(0));
    lane.fill(Instant(999_000), 3, 1, Meta::new(1500));
    // The credit is 1000 at 1 ms, and -470 behind the second packet: 188 us behind its end.
    assert_eq!(departures(&mut lane, Instant(1_000_000), 2), [1_000_000, 1_200_000]);
}

#[test]
fn a_packet_behind_one_that_a_shaper_holds_takes_no_credit_away() {
    // The shaper lets a packet go each 4 ms. In cbs each costs 900 of credit, earned in 14.4 ms.
    let mut lane = Lane::new("tbf", "rate 2mbit burst 1000 limit 100000");
    let child = Handle::new(0x8001, 1);
    lane.graft(T0, child, "cbs", "idleslope 500 sendslope -9000 hicredit 5000 locredit -900");
    lane.fill(T0, 0, 3, Meta::new(1000));
    let ms = |n: u64| Instant(n * 1_000_000);
    assert_eq!(lane.take(T0).id(), Some(0));
    // The second packet has waited until the credit is 4050.
    assert_eq!(lane.take(ms(80)).id(), Some(1));
    assert!(matches!(lane.take(ms(81)), Out::Wait(t) if t == ms(84)), "the shaper holds the third");
    lane.fill(ms(82), 3, 2, Meta::new(1000));
    assert_eq!(lane.take(ms(84)).id(), Some(2));
    assert_eq!(departures(&mut lane, ms(84), 2), [88_000_000, 92_000_000]);
}

#[test]
fn a_packet_that_a_shaper_holds_keeps_the_queue_busy() {
    // The shaper takes the packet out of cbs, and lets it wait for 4 ms.
    let mut lane = Lane::new("tbf", "rate 2mbit burst 1000 limit 100000");
    let child = Handle::new(0x8001, 1);
    lane.graft(T0, child, "cbs", "idleslope 9000 sendslope -1000 hicredit 500 locredit -100");
    lane.fill(T0, 0, 2, Meta::new(1000));
    assert_eq!(lane.take(T0).id(), Some(0));
    let next = Instant(4_000_000);
    assert!(matches!(lane.take(Instant(1_000_000)), Out::Wait(t) if t == next));
    assert_eq!(lane.put(Instant(2_000_000), 2, Meta::new(1000)), Admitted::Queued);
    assert_eq!(lane.take(next).id(), Some(1));
}
