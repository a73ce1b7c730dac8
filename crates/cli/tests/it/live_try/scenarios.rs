//! The scenarios: a bottleneck, policies for it, and traffic, described once for `txweir try` and
//! for the kernel.

use std::fmt::Write as _;
use std::time::Duration;

/// The traffic of the members of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// TCP that sends as much as it can.
    Stream,
    /// Requests and responses of this size over TCP, one after the other.
    Rr { bytes: usize },
    /// UDP frames of this size, Ethernet header included, one each `every`.
    Cbr { frame: usize, every: Duration },
}

/// Members with the same traffic.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    pub name: &'static str,
    pub load: Load,
    pub count: usize,
    /// 0, or 6 for packets of low delay (TOS 0x10).
    pub priority: u32,
}

impl Group {
    const fn new(name: &'static str, load: Load, count: usize) -> Self {
        Self { name, load, count, priority: 0 }
    }

    /// Returns the time from the start of a member to that of the next.
    pub fn spread(&self) -> Duration {
        self.stagger() / self.count.max(1) as u32
    }

    /// Calls are spread over the time between two packets, the others over the stagger of a
    /// scenario file.
    const fn stagger(&self) -> Duration {
        match self.load {
            Load::Cbr { every, .. } => every,
            _ => Duration::from_millis(10),
        }
    }
}

/// One policy of a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    pub name: &'static str,
    /// Lines of tc.
    pub text: &'static str,
}

/// One bottleneck with its traffic, and the policies that are compared on it.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    /// Line rate, as tc spells it.
    pub link: &'static str,
    /// Round trip without queues.
    pub rtt: Duration,
    /// Congestion control of both stacks, by the name that both have for it.
    pub congestion: &'static str,
    pub ecn: bool,
    pub groups: &'static [Group],
    pub policies: &'static [Policy],
}

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

const RR: Load = Load::Rr { bytes: 100 };
/// A call with a packet each 20 ms.
const CALL: Load = Load::Cbr { frame: 200, every: ms(20) };

const FIFO: Policy = Policy { name: "default", text: "qdisc add root pfifo_fast\n" };
const FAIR_19: Policy = Policy {
    name: "htb+fq_codel",
    text: "qdisc add root handle 1: htb default 10\n\
           class add parent 1: classid 1:10 htb rate 19mbit\n\
           qdisc add parent 1:10 fq_codel\n",
};
const CAKE_19: Policy = Policy { name: "cake", text: "qdisc add root cake bandwidth 19mbit besteffort\n" };
const FQ_CODEL: Policy = Policy { name: "fq_codel", text: "qdisc add root fq_codel\n" };

/// Each pair of them that `txweir try` tells apart clearly must come out the same way live.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "64 flows",
        link: "20mbit",
        rtt: ms(30),
        congestion: "cubic",
        ecn: false,
        groups: &[Group::new("bulk", Load::Stream, 64)],
        policies: &[FIFO, FAIR_19, CAKE_19],
    },
    Scenario {
        name: "requests beside bulk",
        link: "20mbit",
        rtt: ms(30),
        congestion: "cubic",
        ecn: false,
        groups: &[Group::new("bulk", Load::Stream, 2), Group::new("rr", RR, 4)],
        policies: &[
            FIFO,
            Policy { name: "tbf", text: "qdisc add root tbf rate 19mbit burst 5kb limit 256kb\n" },
            FAIR_19,
        ],
    },
    Scenario {
        name: "marks",
        link: "50mbit",
        rtt: ms(10),
        congestion: "cubic",
        ecn: true,
        groups: &[Group::new("bulk", Load::Stream, 4), Group::new("rr", RR, 2)],
        policies: &[
            Policy { name: "pfifo", text: "qdisc add root pfifo limit 500\n" },
            Policy { name: "codel", text: "qdisc add root codel ecn\n" },
            FQ_CODEL,
        ],
    },
    Scenario {
        name: "calls beside bulk",
        link: "10mbit",
        rtt: ms(20),
        congestion: "cubic",
        ecn: false,
        groups: &[Group { priority: 6, ..Group::new("calls", CALL, 4) }, Group::new("bulk", Load::Stream, 4)],
        policies: &[
            Policy { name: "pfifo", text: "qdisc add root pfifo limit 200\n" },
            Policy {
                name: "prio",
                text: "qdisc add root handle 1: prio\n\
                       qdisc add parent 1:1 pfifo limit 200\n\
                       qdisc add parent 1:2 pfifo limit 200\n",
            },
            FQ_CODEL,
        ],
    },
    Scenario {
        name: "BBR",
        link: "20mbit",
        rtt: ms(40),
        congestion: "bbr",
        ecn: false,
        groups: &[Group::new("bulk", Load::Stream, 4), Group::new("rr", RR, 2)],
        policies: &[
            Policy { name: "pfifo 1000", text: "qdisc add root pfifo limit 1000\n" },
            Policy { name: "pfifo 20", text: "qdisc add root pfifo limit 20\n" },
            FQ_CODEL,
        ],
    },
    Scenario {
        name: "one against eight",
        link: "40mbit",
        rtt: ms(20),
        congestion: "reno",
        ecn: false,
        groups: &[Group::new("one", Load::Stream, 1), Group::new("eight", Load::Stream, 8)],
        policies: &[
            Policy { name: "pfifo", text: "qdisc add root pfifo limit 200\n" },
            Policy {
                name: "htb halves",
                text: "qdisc add root handle 1: htb default 20\n\
                       class add parent 1: classid 1:1 htb rate 38mbit\n\
                       class add parent 1:1 classid 1:10 htb rate 19mbit ceil 38mbit\n\
                       class add parent 1:1 classid 1:20 htb rate 19mbit ceil 38mbit\n\
                       qdisc add parent 1:10 pfifo limit 100\n\
                       qdisc add parent 1:20 pfifo limit 100\n\
                       filter add parent 1: protocol ip u32 match ip dport 2000 0xffff classid 1:10\n",
            },
            FQ_CODEL,
        ],
    },
];

/// The first port; each member of each group has the next one, as in the lab.
const FIRST_PORT: u16 = 2000;

impl Scenario {
    /// Returns the members of all groups: each with its group and its port.
    pub fn members(&self) -> impl Iterator<Item = (usize, usize, u16)> + '_ {
        let all = self.groups.iter().enumerate().flat_map(|(g, group)| (0..group.count).map(move |m| (g, m)));
        all.zip(FIRST_PORT..).map(|((group, member), port)| (group, member, port))
    }

    /// Renders the traffic as a scenario file, for `txweir try --traffic`.
    pub fn toml(&self) -> String {
        let mut text = format!("title = \"{}\"\nduration = \"10s\"\n", self.name);
        text += "[[host]]\nname = \"near\"\n[[host]]\nname = \"far\"\n";
        text += "[[link]]\nfrom = \"near\"\nto = \"far\"\nrate = \"1gbit\"\n";
        for group in self.groups {
            let (name, count, stagger) = (group.name, group.count, group.stagger().as_millis());
            let _ = writeln!(
                text,
                "[[traffic]]\nname = \"{name}\"\nfrom = \"near\"\nto = \"far\"\ncount = {count}\n\
                 priority = {}\nstagger = \"{stagger}ms\"",
                group.priority
            );
            let _ = match group.load {
                Load::Stream => writeln!(text, "kind = \"stream\""),
                Load::Rr { bytes } => writeln!(text, "kind = \"rr\"\nsize = \"{bytes}\""),
                Load::Cbr { frame, every } => {
                    let rate = (frame as u128 * 8 * 1_000_000) / every.as_micros();
                    writeln!(text, "kind = \"cbr\"\nsize = \"{frame}\"\nrate = \"{rate}bit\"")
                }
            };
        }
        text
    }
}
