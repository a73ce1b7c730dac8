//! Runs that somebody ends before their time: no results, and soon.

use std::cell::Cell;

use txweir_core::{Nanos, Rate};
use txweir_lab::passed::PacketLog;
use txweir_lab::run::{Options, RunError, run, run_for_page};
use txweir_lab::scenario::Scenario;
use txweir_lab::stop::{LOOK, Stop};
use txweir_lab::trial::{Entry, Resources, Setup, Traffic, TrialError, run_with};

const HOUR: &str = r#"title = "t"
duration = "3600s"
[[host]]
name = "a"
[[host]]
name = "b"
[[link]]
from = "a"
to = "b"
rate = "1mbit"
[[traffic]]
name = "x"
from = "a"
to = "b"
kind = "stream"
"#;

#[test]
fn a_run_ends_where_it_is_asked_to() {
    let scenario = Scenario::parse(HOUR, "hour.toml").expect("a scenario");
    for over_time in [false, true] {
        let (stop, last) = (Stop::default(), Cell::new(Nanos(0)));
        let options = Options { stop: stop.clone(), ..Options::default() };
        let progress = |now| {
            last.set(now);
            if now >= Nanos::from_secs(2) {
                stop.ask();
            }
        };
        let result = match over_time {
            false => run(&scenario, options, progress).map(|_| ()),
            true => run_for_page(&scenario, options, progress).map(|_| ()),
        };
        assert!(matches!(result, Err(RunError::Stopped)), "{result:?}");
        assert_eq!(last.get(), Nanos::from_secs(2), "a step of the page is 36 s, a look {LOOK}");
    }
}

#[test]
fn a_trial_ends_on_all_threads() {
    let setup = Setup { link: Rate::from_bits(1_000_000), time: Nanos::from_secs(3600), ..Setup::default() };
    let traffic = Traffic::mix("bulk+rr").expect("a mix");
    let resources = Resources::default();
    let mut last = Nanos(0);
    let entry = Entry { name: "default".into(), policy: None };
    let result = run_with(&resources, &setup, &traffic, &[entry], &mut |now, _| {
        last = now;
        if now >= Nanos::from_secs(2) {
            resources.stop.ask();
        }
    });
    assert!(matches!(result, Err(TrialError::Stopped)), "{result:?}");
    // Threads are ahead of what they report by the pieces that wait to be told.
    assert!(last < Nanos::from_secs(600), "{last}");
}

/// A log has each packet of each direction once, in time, and ends a run that has more.
#[test]
fn a_log_keeps_the_packets_that_fit_into_it() {
    let text = HOUR.replace("3600s", "2s");
    let scenario = Scenario::parse(&text, "seconds.toml").expect("a scenario");
    let log = PacketLog::default();
    let options = || Options { packets: Some(log.clone()), ..Options::default() };
    let report = run(&scenario, options(), |_| {}).expect("a run");
    let all = log.take();
    assert_eq!((log.ways(), log.is_full()), (vec!["a -> b".to_owned(), "b -> a".to_owned()], false));
    for (way, link) in report.links.iter().enumerate() {
        let own: Vec<_> = all.iter().filter(|p| p.way as usize == way).collect();
        // Packets that are with the device at the end have not left the wire.
        let sent: u64 = own.iter().map(|p| u64::from(p.bytes)).sum();
        assert!(sent > 0 && sent <= link.tx_bytes && sent + 20_000 > link.tx_bytes, "{sent} {link:?}");
        assert!(own.is_sorted_by_key(|p| p.at) && own.iter().all(|p| p.sent < p.at && !p.udp));
        assert!(own.iter().all(|p| p.ports == [2000, 2000]), "one connection");
    }
    let few = PacketLog::with_max(all.len() - 1);
    let options = Options { packets: Some(few.clone()), ..Options::default() };
    assert!(matches!(run(&scenario, options, |_| {}), Err(RunError::Stopped)));
    assert_eq!((few.take().len(), few.is_full()), (all.len() - 1, true));
}
