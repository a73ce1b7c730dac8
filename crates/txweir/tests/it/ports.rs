//! tc's lines on a port of one thread and on one that threads send by: the same lines, the same
//! answers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use txweir::core::classify::packet::NoOutlet;
use txweir::core::path::port::{Choice, Port};
use txweir::core::path::select::Sender;
use txweir::handoff::{Handed, Lane, Passed, Queue, QueueConfig, SharedControl, Wakeup};
use txweir::ports::TcPort;
use txweir::tc::tool::{Devices, Outcome, Request, run};
use txweir::{Admitted, Env, Instant, Meta, PathConfig, testing::VecDevice};

const QUEUES: u16 = 4;
const NOW: Instant = Instant(1_000_000_000);

fn config() -> PathConfig {
    let env = Env { queues: QUEUES, ..Env::default() };
    PathConfig { env, bql: None, ..PathConfig::default() }
}

fn devices<F>() -> Vec<VecDevice<F>> {
    (0..QUEUES).map(|_| VecDevice::with_slots(1)).collect()
}

fn shared<F: Clone + Send + 'static>() -> SharedControl<VecDevice<F>> {
    let rules = |_| QueueConfig::new(|| NOW);
    SharedControl::new(config(), devices(), rules, 7, Wakeup::calling(|| {})).expect("no byte limit")
}

fn tc(devices: &mut dyn Devices, line: &str) -> Outcome {
    run(&Request { args: line.split_whitespace().map(String::from).collect(), ..Request::default() }, devices)
}

/// Runs a line, or sends packets (`send N`), one to each flow.
fn on_both(lines: &[&str]) {
    let (mut port, mut dev) = (Port::<u32>::new(config()).expect("no byte limit"), devices());
    let mut control = shared::<u32>();
    let (mut one, mut many) = (TcPort::new("eth0", 7), TcPort::new("eth0", 7));
    let mut sent = 0;
    for line in lines {
        if let Some(n) = line.strip_prefix("send ") {
            for _ in 0..n.parse::<u32>().expect("a number") {
                let m = Meta::new(1000).flow(u64::from(sent % 16)).priority(sent % 4);
                let (queue, fate) = port.send(NOW, sent, m, Choice::By(&Sender::default(), None), &mut dev);
                let _ = port.drain(NOW, queue, 64, &mut dev);
                let Handed::Done(handed) = control.port().sender().send(sent, m).1 else { panic!("alone") };
                assert_eq!(handed, fate, "packet {sent}");
                sent += 1;
            }
            continue;
        }
        let wanted = one.with(&mut port, &mut dev, NOW, |devices| tc(devices, line));
        let got = many.change(&mut control, |devices| tc(devices, line)).expect("words");
        assert_eq!(got, wanted, "{line}");
        assert!(line.contains("refused") || wanted.status == 0, "{line}: {}", wanted.stderr);
        for queue in 0..QUEUES {
            let _ = port.drain(NOW, queue, 64, &mut dev);
        }
        // The frames that the device has, by queue.
        let given: Vec<Vec<u32>> = control.port().queues().iter().flat_map(|queue| sent_by(queue)).collect();
        assert_eq!(given, dev.iter().map(|dev| dev.sent().to_vec()).collect::<Vec<_>>(), "{line}");
    }
}

fn sent_by(queue: &Queue<Lane<VecDevice<u32>>>) -> Vec<Vec<u32>> {
    let sent = |o: &mut txweir::handoff::Owned<Lane<VecDevice<u32>>>| {
        o.dev.devices().iter().map(|dev| dev.sent().to_vec()).collect()
    };
    queue.control().try_with(sent).expect("no thread has it")
}

#[test]
fn the_same_lines_have_the_same_answers() {
    on_both(&[
        "-s qdisc show dev eth0",
        "qdisc add dev eth0 root handle 1: mq",
        "qdisc add dev eth0 parent 1:2 handle 12: fq_codel limit 100",
        "send 40",
        "-s -d qdisc show dev eth0",
        "-s class show dev eth0",
        "qdisc replace dev eth0 root handle 2: mqprio num_tc 2 map 0 0 1 1 queues 2@0 2@2 hw 0",
        "-s -j qdisc show dev eth0",
        "send 40",
        "-s qdisc show dev eth0",
        "qdisc replace dev eth0 root handle 3: htb default 10",
        "class add dev eth0 parent 3: classid 3:10 htb rate 100mbit",
        "class add dev eth0 parent 3: classid 3:20 htb rate 100mbit",
        "qdisc add dev eth0 clsact",
        "filter add dev eth0 egress protocol ip matchall action skbedit mark 5",
        "filter add dev eth0 parent 3: protocol ip basic match cmp(u8 at 9 layer network eq 17) classid 3:20",
        "filter show dev eth0",
        "filter show dev eth0 egress",
        "send 20",
        "-s -d class show dev eth0",
        "qdisc del dev eth0 root",
        "-s qdisc show dev eth0",
        "filter show dev eth0",
    ]);
}

/// Returns an Ethernet frame with an IPv4 header of this protocol.
fn frame(protocol: u8) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    (frame[14], frame[23]) = (0x45, protocol);
    frame
}

#[test]
fn threads_classify_by_the_filters_of_the_lines() {
    let mut control = shared::<Vec<u8>>();
    let mut eth0 = TcPort::new("eth0", 7);
    let lines = [
        "qdisc add dev eth0 root handle 1: mqprio num_tc 2 map 0 1 queues 2@0 2@2 hw 0",
        "qdisc add dev eth0 parent 1:1 handle 11: prio",
        "filter add dev eth0 parent 11: protocol ip prio 1 basic match cmp(u8 at 9 layer network eq 17) classid 11:1",
        "filter add dev eth0 parent 11: protocol ip prio 2 matchall classid 11:3",
        "qdisc add dev eth0 clsact",
        "filter add dev eth0 egress protocol ip prio 1 basic match cmp(u8 at 9 layer network eq 1) action drop",
        "filter add dev eth0 egress protocol ip prio 2 matchall action skbedit queue_mapping 0",
    ];
    for line in lines {
        let done = eth0.change(&mut control, |devices| tc(devices, line)).expect("words");
        assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{line}");
    }
    let handed = AtomicU64::new(0);
    thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                let mut sender = control.port().sender();
                for n in 0..30u8 {
                    let protocol = [1, 6, 17][usize::from(n) % 3];
                    match (protocol, sender.send_frame(frame(protocol), |_| {}, &mut NoOutlet)) {
                        (1, Passed::Filtered(_)) => {}
                        (
                            6 | 17,
                            Passed::Handed(
                                0,
                                Handed::Listed | Handed::Done(Admitted::Sent | Admitted::Queued),
                            ),
                        ) => {
                            handed.fetch_add(1, Ordering::Relaxed);
                        }
                        (_, other) => panic!("{protocol}: {other:?}"),
                    }
                }
            });
        }
    });
    assert_eq!(handed.into_inner(), 60);
    // The senders have ended, and their counts are there.
    let lists =
        eth0.change(&mut control, |devices| tc(devices, "-s filter show dev eth0 egress")).expect("words");
    let sent: Vec<&str> = lists.stdout.lines().filter_map(|line| line.trim().strip_prefix("Sent ")).collect();
    assert!(
        sent.len() == 2 && sent[0].contains(" 30 pkt") && sent[1].contains(" 60 pkt"),
        "{}",
        lists.stdout
    );
    let all = control.gather();
    let prio = all.port().trees().qdisc("11:".parse().unwrap()).expect("it is there");
    let bands: Vec<u64> =
        prio.qdisc().classes().iter().map(|class| class.node.account().queued().packets).collect();
    // The first packet went to the device.
    let (udp, tcp) = (bands[0], bands[2]);
    assert_eq!((udp + tcp, bands[1]), (59, 0));
    assert!(udp >= 29 && tcp >= 29, "{bands:?}");
}
