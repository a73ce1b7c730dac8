//! Filters and actions on frames: what tc says, and what becomes of what is sent.

use txweir_core::Instant;
use txweir_daemon::Daemon;
use txweir_daemon::protocol::Ask;

struct Bench(Daemon);

impl Bench {
    fn new(lines: &[&str]) -> Self {
        let mut bench = Self(Daemon::new());
        for line in ["link add a", "link add b"].iter().chain(lines) {
            let (status, _, stderr) = bench.run(line);
            assert_eq!(status, 0, "{line}: {stderr}");
        }
        bench
    }
    /// Status, standard output, standard error.
    fn run(&mut self, line: &str) -> (u8, String, String) {
        let (object, rest) = line.split_once(' ').unwrap();
        let args: Vec<String> = rest.split(' ').map(String::from).collect();
        let ask = match object {
            "link" => Ask::Link { args },
            _ => Ask::Tc { args, batch: None, class_names: None },
        };
        let reply = self.0.answer(Instant::from_secs(1), &ask);
        (reply.status, reply.stdout, reply.stderr)
    }
    fn send(&mut self, line: &str) -> String {
        let (status, stdout, stderr) = self.run(&format!("link send {line}"));
        assert_eq!(status, 0, "{stderr}");
        stdout.trim().into()
    }
    fn show(&mut self, line: &str) -> String {
        self.run(&format!("tc {line}")).1
    }
}

#[test]
fn a_hook_drops_takes_and_lets_go() {
    let mut b = Bench::new(&["tc qdisc add dev a clsact"]);
    assert_eq!(b.send("a --packets 5 --size 100"), "5 packets of 100 bytes: 5 sent, 0 dropped, 0 queued now");
    b.run("tc filter add dev a egress matchall action drop");
    assert_eq!(b.send("a --packets 5 --size 100"), "5 packets of 100 bytes: 0 sent, 5 dropped, 0 queued now");
    let shown = b.show("-s filter show dev a egress");
    assert!(shown.contains("Sent 500 bytes 5 pkt (dropped 5, overlimits 0 requeues 0)"), "{shown}");
    b.run("tc filter del dev a egress");
    b.run("tc filter add dev a egress protocol arp matchall action drop");
    assert_eq!(b.send("a --packets 5 --size 100"), "5 packets of 100 bytes: 5 sent, 0 dropped, 0 queued now");
}

#[test]
fn a_copy_goes_to_another_link_and_a_redirected_frame_there_alone() {
    let mut b = Bench::new(&[
        "tc qdisc add dev a clsact",
        "tc filter add dev a egress matchall action mirred egress mirror dev b",
    ]);
    assert_eq!(b.send("a --packets 3 --size 100"), "3 packets of 100 bytes: 3 sent, 0 dropped, 0 queued now");
    assert!(
        b.show("-s qdisc show dev b").contains("Sent 300 bytes 3 pkt"),
        "{}",
        b.show("-s qdisc show dev b")
    );
    b.run("tc filter del dev a egress");
    b.run("tc filter add dev a egress matchall action mirred egress redirect dev b");
    assert_eq!(
        b.send("a --packets 4 --size 100"),
        "4 packets of 100 bytes: 0 sent, 0 dropped, 4 taken by actions, 0 queued now"
    );
    assert!(b.show("-s qdisc show dev b").contains("Sent 700 bytes 7 pkt"));
    // Round in a circle: three redirections, and no more.
    b.run("tc qdisc add dev b clsact");
    b.run("tc filter add dev b egress matchall action mirred egress redirect dev a");
    b.send("a --packets 1 --size 100");
    assert!(b.show("-s qdisc show dev b").contains("Sent 700 bytes 7 pkt"));
}

#[test]
fn filters_of_a_qdisc_choose_the_class() {
    let mut b = Bench::new(&[
        "tc qdisc add dev a root handle 1: htb default 20",
        "tc class add dev a parent 1: classid 1:10 htb rate 1mbit",
        "tc class add dev a parent 1: classid 1:20 htb rate 1mbit",
        "tc filter add dev a parent 1: protocol ip matchall flowid 1:10",
    ]);
    b.send("a --packets 2 --size 100");
    let class = |b: &mut Bench, id: &str| b.show(&format!("-s class show dev a classid {id}"));
    assert!(class(&mut b, "1:10").contains("Sent 200 bytes 2 pkt"), "{}", class(&mut b, "1:10"));
    b.run("tc filter del dev a parent 1:");
    b.send("a --packets 3 --size 100");
    assert!(class(&mut b, "1:20").contains("Sent 300 bytes 3 pkt"), "{}", class(&mut b, "1:20"));
}

#[test]
fn a_policer_lets_its_burst_through() {
    let mut b = Bench::new(&[
        "tc qdisc add dev a clsact",
        "tc filter add dev a egress matchall action police rate 8kbit burst 1000 conform-exceed drop/pass",
    ]);
    assert_eq!(
        b.send("a --packets 15 --size 100"),
        "15 packets of 100 bytes: 10 sent, 5 dropped, 0 queued now"
    );
}

#[test]
fn what_an_action_says_of_a_packet_the_qdisc_sees() {
    let mut b = Bench::new(&[
        "tc qdisc add dev a clsact",
        "tc qdisc add dev a root handle 1: prio",
        "tc filter add dev a egress matchall action skbedit priority 6",
    ]);
    b.send("a --packets 2 --size 100");
    assert!(b.show("-s class show dev a").contains("class prio 1:1 parent 1: \n Sent 200 bytes 2 pkt"));
}
