//! The requests of clients: of every sort, mostly right, sometimes wrong.

use txweir_daemon::protocol::{Ask, Batch, LINE_MAX, Request};

use super::clients::What;
use super::world::World;

/// The configuration of the first daemon of a run.
pub const FIRST: &str = "\
link replace led --type null
link replace gx --type null
link replace gy --type null
link replace ia --type packet --if ia
link replace ib --type packet --if ib --peer ia
link replace it --type tap --if it --rate 200mbit
qdisc replace dev gx root handle 1: pfifo limit 2
qdisc replace dev gy root handle 1: pfifo limit 2
";

/// The links whose qdiscs clients change.
const LINKS: [&str; 7] = ["ia", "ib", "ic", "it", "w", "x", "y"];

/// Qdiscs that keep the order of flows.
const ORDERED: [&str; 12] = [
    "pfifo limit 100",
    "bfifo limit 60kb",
    "fq_codel limit 200 flows 16",
    "codel limit 200",
    "tbf rate 20mbit burst 20kb limit 200kb",
    "tbf rate 9mbit burst 20kb limit 100kb shared wan",
    "netem delay 2ms limit 300",
    "sfq limit 100 divisor 64",
    "prio bands 3",
    "fq limit 200 buckets 64",
    "red limit 400kb min 30kb max 90kb avpkt 1000 burst 55 bandwidth 50mbit",
    "drr",
];

/// Lines about filters and actions.
const FILTERS: [&str; 14] = [
    "qdisc add dev D clsact",
    "qdisc add dev D ingress",
    "qdisc del dev D clsact",
    "filter add dev D egress protocol ip pref P matchall action drop",
    "filter add dev D egress protocol ip pref P u32 match ip dst 10.0.0.P/32 action pass",
    "filter add dev D ingress protocol ip pref P flower ip_proto udp dst_port 9 action skbedit mark 7",
    "filter add dev D parent 1: protocol ip pref P u32 match ip dst 10.0.0.P/32 flowid 1:1",
    "filter add dev D egress pref P matchall action mirred egress mirror dev x",
    "filter add dev D egress pref P matchall action mirred ingress redirect dev ia",
    "filter del dev D egress pref P",
    "filter del dev D parent 1:",
    "filter show dev D egress",
    "action add action gact drop index P",
    "filter add dev D egress protocol ip pref P u32 match ip dst 10.0.0.P/32 action gact index P",
];

/// A batch that makes classes.
const CLASSES: [&str; 3] = [
    "qdisc replace dev D root handle 1: htb default 10\n\
     class replace dev D parent 1: classid 1:10 htb rate 20mbit ceil 50mbit\n\
     class replace dev D parent 1: classid 1:1 htb rate 5mbit ceil 50mbit\n\
     qdisc replace dev D parent 1:10 handle 10: fq_codel limit 100 flows 16\n",
    "qdisc replace dev D root handle 1: prio bands 3\n\
     qdisc replace dev D parent 1:2 handle 20: tbf rate 30mbit burst 20kb limit 100kb\n",
    "qdisc replace dev D root handle 1: drr\n\
     class replace dev D parent 1: classid 1:1 drr quantum 1514\n\
     class replace dev D parent 1: classid 1:2 drr quantum 3000\n\
     qdisc replace dev D parent 1:2 handle 20: pfifo limit 50\n",
];

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(String::from).collect()
}

pub fn tc(line: &str) -> Ask {
    Ask::Tc { args: words(line), batch: None, class_names: None }
}

pub fn batch(flags: &str, text: &str) -> Ask {
    let batch = Some(Batch { name: "b".into(), text: text.into(), lines_before: 0, more: false });
    Ask::Tc { args: words(&format!("{flags} -b b")), batch, class_names: None }
}

pub fn link(line: &str) -> Ask {
    Ask::Link { args: words(line) }
}

impl World {
    /// Returns a part of a batch that the daemon puts together.
    fn part(&mut self) -> Ask {
        let more = !self.once_in(3);
        let both = ["gx", "gy"].map(|dev| format!("qdisc replace dev {dev} root handle 1: pfifo limit 2\n"));
        let text = both.concat();
        let batch = Some(Batch { name: "p".into(), text, lines_before: 0, more });
        Ask::Tc { args: words("--atomic -b p"), batch, class_names: None }
    }

    fn one_of(&mut self, all: &[&'static str]) -> &'static str {
        all[self.rng.below(all.len() as u64) as usize]
    }

    /// Returns a request as a line with its end, and what its answer has to be like.
    pub fn compose(&mut self, id: u64) -> (Vec<u8>, What) {
        let (ask, what) = match self.rng.below(100) {
            0..2 => return (self.garbage(), What::Garbage),
            2..8 => (Ask::Version, What::Version),
            8..14 => (Ask::Save, What::Save),
            14..20 => (link("show -j"), What::Show),
            20..32 => {
                let n = self.between(1, 9);
                (link(&format!("send led --packets {n} --size 60")), What::Send(n))
            }
            32..44 => self.pair(),
            44..60 => (self.about_links(), What::Any),
            61 => (self.part(), What::Any),
            60 if self.once_in(100) => (self.too_much(), What::Refused),
            _ => (self.about_qdiscs(), What::Any),
        };
        (Request::line(id, &ask), what)
    }

    /// Returns lines that are no requests.
    fn garbage(&mut self) -> Vec<u8> {
        match self.rng.below(20) {
            0 => {
                let mut line = vec![b'x'; LINE_MAX + 1 + self.rng.below(70_000) as usize];
                line.push(b'\n');
                line
            }
            1..8 => b"\n".to_vec(),
            8..14 => b"{\"id\":7\n".to_vec(),
            _ => b"[1]\n".to_vec(),
        }
    }

    /// Returns a request that changes two qdiscs together, or changes nothing. An odd number never
    /// becomes part of the state.
    fn pair(&mut self) -> (Ask, What) {
        self.pairs += 1;
        let n = 2 * self.pairs;
        let lines = |n: u64| {
            format!(
                "qdisc replace dev gx root handle 1: pfifo limit {n}\n\
                 qdisc replace dev gy root handle 1: pfifo limit {n}\n"
            )
        };
        match self.rng.below(6) {
            0 => (batch("--atomic --dry-run", &lines(n + 1)), What::Done),
            1 => {
                let wrong = "qdisc replace dev gy parent 9:1 pfifo\n";
                (batch("--atomic", &(lines(n + 1) + wrong)), What::Refused)
            }
            2 => {
                let wrong = "qdisc replace dev gy root fq_codel flows 65536 flows 7 limt 1\n";
                (batch("--atomic", &(lines(n + 1) + wrong)), What::Refused)
            }
            _ => (batch("--atomic", &lines(n)), What::Done),
        }
    }

    /// Returns a configuration that changes two qdiscs together; with `wrong` it has a wrong line.
    pub fn edited(&mut self, wrong: bool) -> String {
        self.pairs += 1;
        let n = 2 * self.pairs + u64::from(wrong);
        let mtu = self.between(1000, 2000);
        let wrongs = [
            "qdisc replace dev gy parent 9:1 pfifo\n",
            "qdisc replace dev gx root fq_codel limt 1\n",
            "link replace led --type wire\n",
            "link replace new --type packet --if a/b/c\n",
            "qdisc replace dev nowhere root pfifo\n",
        ];
        let wrong = if wrong { self.one_of(&wrongs) } else { "" };
        let new = self.one_of(&["", "link add y\n", "link set x --mtu 700\nlink set x --mtu 800\n"]);
        format!(
            "link replace led --mtu {mtu}\n\
             link replace x\n\
             link replace ic --type packet --if ic\n\
             link replace ia --type packet --if ia --peer ib\n\
             qdisc replace dev gx root handle 1: pfifo limit {n}\n\
             qdisc replace dev gy root handle 1: pfifo limit {n}\n\
             {new}\
             qdisc replace dev x root handle 7: pfifo limit {mtu}\n{wrong}"
        )
    }

    fn about_links(&mut self) -> Ask {
        let name = self.one_of(&LINKS);
        let n = self.rng.below(1000);
        let line = match self.rng.below(22) {
            0 | 6 if n < 800 => {
                let live = self.one_of(&LINKS[..3]);
                format!("add {live} --type packet --if {live}")
            }
            1 if n < 500 => {
                let live = self.one_of(&LINKS[..3]);
                format!("replace {live} --type packet --if {live} --peer {}", self.one_of(&LINKS[..3]))
            }
            1 | 2 => format!("replace {name} --type packet --if {name} --rate {}mbit", 20 + n),
            3 => "add w --type wire --rate 50mbit --txqueuelen 100".to_owned(),
            4 => format!("add {}", self.one_of(&LINKS[5..])),
            5 => format!("replace it --type tap --if it --mtu {}", 1000 + n),
            0 | 6 => format!("del {name}"),
            7 => format!("set {name} --mtu {}", 600 + n),
            8 => format!("set {name} --rate {}mbit", 20 + n),
            9 => format!("set {name} --queues {}", 1 + n % 4),
            10 => format!("set {name} --fairsend {}", n % 6),
            11 => format!("set {name} --txqueuelen {}", 1 + n % 200),
            12 => format!("set {name} --peer {}", self.one_of(&LINKS)),
            13 => "set ia --peer ib".to_owned(),
            14 => format!("set {name} --peer none"),
            15 => format!("set {name} --prio-synack {}", if n < 500 { "on" } else { "off" }),
            16 => format!("show {name} --stats"),
            17 => "set led --mtu fast".to_owned(),
            _ => format!("send {name} --packets {} --flows 3 --size {}", 1 + n % 40, 60 + n % 900),
        };
        link(&line)
    }

    /// Returns a batch of more tables than all links may have, each of which alone a link may have.
    fn too_much(&mut self) -> Ask {
        let dev = self.one_of(&LINKS);
        let mut text = format!("qdisc replace dev {dev} root handle 1: drr\n");
        for class in 1..=60 {
            text += &format!("class replace dev {dev} parent 1: classid 1:{class:x} drr\n");
            text += &format!("qdisc replace dev {dev} parent 1:{class:x} fq_codel flows 65536\n");
        }
        batch("--atomic", &text)
    }

    fn about_qdiscs(&mut self) -> Ask {
        let dev = self.one_of(&LINKS);
        let p = self.between(1, 5);
        match self.rng.below(20) {
            0..7 if self.plan.filters => {
                let line = self.one_of(&FILTERS).replace("dev D", &format!("dev {dev}"));
                tc(&line.replace('P', &p.to_string()))
            }
            0..2 if self.plan.filters => tc(&format!("qdisc show dev {dev}")),
            7 | 8 if self.plan.filters => {
                let text = self.one_of(&CLASSES).replace("dev D", &format!("dev {dev}"));
                let flags = self.one_of(&["--atomic", "", "--dry-run", "-force"]);
                batch(flags, &text)
            }
            9 => tc(&format!("qdisc del dev {dev} root")),
            10 => tc(&format!("-s -j qdisc show dev {dev}")),
            11 => tc(&format!("class show dev {dev}")),
            12 => tc(&format!("qdisc add dev {dev} root fq_codel limt 9")),
            13..16 => {
                let kind = self.one_of(&ORDERED);
                batch("--atomic", &format!("qdisc replace dev {dev} root handle 1: {kind}\n"))
            }
            _ => {
                let kind = self.one_of(&ORDERED);
                tc(&format!("qdisc replace dev {dev} root handle 1: {kind}"))
            }
        }
    }
}
