//! Time for which a change of a large policy stops packets: the longest time between two turns of
//! the links. The policies are those that LibreQoS makes: four queues below mq, and for each
//! circuit a class of htb and a cake.
//!
//! Each job runs by two clocks: that of the wall, and the processor time of the thread, which other
//! programs of the machine do not lengthen.
//!
//!     cargo run --release -p txweir-daemon --example reload -- 1024 10000

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use txweir_core::Instant;
use txweir_daemon::Daemon;
use txweir_daemon::protocol::{Ask, Batch};
use txweir_device::clock::now_ns;

/// The allocator of the command `txweir`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs of each job by each clock.
const RUNS: usize = 11;

/// Returns the processor time of this thread, nanoseconds.
fn worked_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
}

/// Returns a policy of so many circuits, of which the first have other rates.
fn circuits(number: u32, other: u32) -> String {
    let mut text = String::from("qdisc replace dev lan root handle 7fff: mq\n");
    for queue in 1..=4 {
        text += &format!("qdisc replace dev lan parent 7fff:{queue} handle {queue}: htb default 2\n");
        text +=
            &format!("class replace dev lan parent {queue}: classid {queue}:1 htb rate 1gbit ceil 1gbit\n");
        for class in 2..2 + number / 4 {
            let rate = if (class - 2) * 4 + queue - 1 < other { 7 } else { 5 };
            let rates = format!("htb rate {rate}mbit ceil 50mbit prio 3");
            text += &format!("class replace dev lan parent {queue}:1 classid {queue}:{class:x} {rates}\n");
            text += &format!("qdisc replace dev lan parent {queue}:{class:x} cake diffserv4\n");
        }
    }
    text
}

fn batch(daemon: &mut Daemon, flags: &str, text: &str) -> Duration {
    let args = format!("{flags} -b b").split_whitespace().map(String::from).collect();
    let batch = Some(Batch { name: "b".into(), text: text.into(), lines_before: 0, more: false });
    let ask = Ask::Tc { args, batch, class_names: None };
    let begun = now_ns();
    let reply = daemon.answer(Instant(0), &ask);
    assert_eq!((reply.status, reply.stderr.as_str()), (0, ""));
    Duration::from_nanos(now_ns() - begun)
}

/// Prints the median, the least and the greatest stop of a job, and its median duration.
fn report(name: &str, mut runs: Vec<(u64, Duration)>) {
    let mut took: Vec<Duration> = runs.iter().map(|run| run.1).collect();
    took.sort();
    runs.sort();
    let ms = |nanos: u64| format!("{:.2}", nanos as f64 / 1e6);
    println!(
        "{name:<48} stop {} ms [{}-{}], took {:.1} ms",
        ms(runs[runs.len() / 2].0),
        ms(runs[0].0),
        ms(runs[runs.len() - 1].0),
        took[took.len() / 2].as_secs_f64() * 1e3
    );
}

fn jobs(number: u32, clock: fn() -> u64) {
    let mut daemon = Daemon::new();
    let words = "add lan --type wire --rate 10gbit --queues 4".split_whitespace().map(String::from);
    assert_eq!(daemon.answer(Instant(0), &Ask::Link { args: words.collect() }).status, 0);
    daemon.links_mut().set_tables(20 << 30);
    daemon.links_mut().set_clock(Box::new(move || Instant(clock())));
    let mut job = |name: &str, flags: &str, texts: [String; 2]| {
        let mut runs = Vec::new();
        for run in 0..RUNS {
            let _ = daemon.links_mut().take_longest();
            let took = batch(&mut daemon, flags, &texts[run % 2]);
            runs.push((daemon.links_mut().take_longest().0, took));
        }
        report(name, runs);
    };
    let all = circuits(number, 0);
    let anew = |other| format!("qdisc del dev lan root\n{}", circuits(number, other));
    job("loaded line by line", "", [format!("qdisc replace dev lan root pfifo\n{all}"), anew(0)]);
    job("--atomic: the same text", "--atomic", [all.clone(), all.clone()]);
    job("--atomic: the text with another rate", "--atomic", [circuits(number, 1), all.clone()]);
    job("--atomic: the text with other rates for all", "--atomic", [circuits(number, number), all.clone()]);
    job("--atomic: the root deleted and made anew", "--atomic", [anew(0), anew(1)]);
    let more = circuits(number + 40, 0);
    let fewer = (0..4).flat_map(|q| (0..10).map(move |n| (q + 1, 2 + number / 4 + n)));
    let fewer: String = fewer.map(|(q, n)| format!("class del dev lan classid {q}:{n:x}\n")).collect();
    job("--atomic: 40 circuits more or fewer", "--atomic", [more, fewer]);
    let one = |rate| format!("class change dev lan classid 2:10 htb rate {rate}mbit ceil 50mbit prio 3\n");
    job("--atomic: one line, another rate", "--atomic", [one(6), one(5)]);
    job("one line, another rate", "", [one(6), one(5)]);
    let runs = (0..RUNS).map(|_| {
        let _ = daemon.links_mut().take_longest();
        let begun = now_ns();
        let saved = daemon.answer(Instant(0), &Ask::Save);
        assert_eq!(saved.status, 0);
        (daemon.links_mut().take_longest().0, Duration::from_nanos(now_ns() - begun))
    });
    report("tc save", runs.collect());
}

fn main() {
    let numbers: Vec<u32> = std::env::args().skip(1).filter_map(|n| n.parse().ok()).collect();
    for number in numbers {
        println!("{number} circuits, by the clock of the wall");
        jobs(number, now_ns);
        println!("{number} circuits, by the processor time of the thread");
        jobs(number, worked_ns);
    }
}
