//! Counters: those of every qdisc and class, and those of a kind as its C struct
//! (`linux/gen_stats.h`, `linux/pkt_sched.h`).

use txweir_core::Tally;
use txweir_core::sched::erased::Qdisc;
use txweir_core::sched::node::Books;

use crate::given::Given;
use crate::wire::{Writer, u32_of};

/// Attributes of messages about qdiscs and classes.
const STATS: u16 = 3;
const XSTATS: u16 = 4;
const STATS2: u16 = 7;
/// Attributes within [`STATS2`].
const BASIC: u16 = 1;
const QUEUE: u16 = 3;
const APP: u16 = 4;
const PKT64: u16 = 8;

/// The counters that tc prints of every qdisc and class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usual {
    /// Bytes and segments that left; `None` for a flow, which does not count them.
    pub(crate) sent: Option<(u64, u64)>,
    pub(crate) drops: u64,
    pub(crate) overlimits: u64,
    pub(crate) backlog: Tally,
}

impl From<&Books> for Usual {
    fn from(b: &Books) -> Self {
        // tc counts a packet as sent that a peek has taken.
        let sent = Some((b.sent.bytes + b.peeked.bytes, b.sent_segs + b.peeked_segs));
        Self { sent, drops: b.dropped.packets, overlimits: b.overlimits, backlog: b.queued }
    }
}

impl Usual {
    /// Writes the counters, and those of the kind; both in the old form, too.
    pub(crate) fn write(&self, own: Option<&[u8]>, w: &mut Writer) {
        let (bytes, packets) = self.sent.unwrap_or_default();
        let (qlen, backlog) = (u32_of(self.backlog.packets), u32_of(self.backlog.bytes));
        let (drops, overlimits) = (u32_of(self.drops), u32_of(self.overlimits));
        // Numbers of 32 bits begin again at 0, as those of the kernel.
        let wrapped = packets as u32;
        w.nest(STATS2, |w| {
            if self.sent.is_some() {
                w.nest(BASIC, |w| {
                    w.put(&bytes.to_ne_bytes());
                    w.put_all(&[wrapped, 0]);
                });
                if u64::from(wrapped) != packets {
                    w.u64(PKT64, packets);
                }
            }
            w.nest(QUEUE, |w| w.put_all(&[qlen, backlog, drops, 0, overlimits]));
            if let Some(own) = own {
                w.bytes(APP, own);
            }
        });
        w.nest(STATS, |w| {
            w.put(&bytes.to_ne_bytes());
            w.put_all(&[wrapped, drops, overlimits, 0, 0, qlen, backlog, 0]);
        });
        if let Some(own) = own {
            w.bytes(XSTATS, own);
        }
    }
}

/// Writes the counters of a class that has none.
pub(crate) fn write_none(w: &mut Writer) {
    w.nest(STATS2, |_| {});
}

/// A field of a C struct: the key of its counter (empty: always 0), and whether it has 64 bits.
type Field = (&'static str, bool);

const fn n(key: &'static str) -> Field {
    (key, false)
}
const fn wide(key: &'static str) -> Field {
    (key, true)
}

/// The structs of kinds.
const STRUCTS: [(&str, &[Field]); 10] = [
    (
        "codel",
        &[
            n("maxpacket"),
            n("count"),
            n("lastcount"),
            n("ldelay"),
            n("drop_next"),
            n("drop_overlimit"),
            n("ecn_mark"),
            n("dropping"),
            n("ce_mark"),
        ],
    ),
    (
        // The first field says that these are counters of the qdisc: 0.
        "fq_codel",
        &[
            n(""),
            n("maxpacket"),
            n("drop_overlimit"),
            n("ecn_mark"),
            n("new_flow_count"),
            n("new_flows_len"),
            n("old_flows_len"),
            n("ce_mark"),
            n("memory_used"),
            n("drop_overmemory"),
        ],
    ),
    (
        "fq",
        &[
            wide("gc"),
            wide("highprio"),
            wide(""),
            wide("throttled"),
            wide("flows_plimit"),
            wide("pkts_too_long"),
            wide(""),
            wide("next_packet_delay"),
            n("flows"),
            n("inactive"),
            n("throttled_flows"),
            n("latency"),
            wide("ce_mark"),
            wide("horizon_drops"),
            wide("horizon_caps"),
        ],
    ),
    (
        "pie",
        &[
            wide("prob"),
            n("delay"),
            n("avg_dq_rate"),
            n("dq_rate_estimator"),
            n("pkts_in"),
            n("dropped"),
            n("overlimit"),
            n("maxq"),
            n("ecn_mark"),
        ],
    ),
    (
        "fq_pie",
        &[
            n("pkts_in"),
            n("dropped"),
            n("overlimit"),
            n("overmemory"),
            n("ecn_mark"),
            n("new_flow_count"),
            n("new_flows_len"),
            n("old_flows_len"),
            n("memory_used"),
        ],
    ),
    (
        "dualpi2",
        &[
            n("prob"),
            n("delay_c"),
            n("delay_l"),
            n("pkts_in_c"),
            n("pkts_in_l"),
            n("maxq"),
            n("ecn_mark"),
            n("step_marks"),
            n("credit"),
            n("memory_used"),
            n("max_memory_used"),
            n("memory_limit"),
        ],
    ),
    ("hhf", &[n("drop_overlimit"), n("hh_overlimit"), n("tot_hh"), n("cur_hh")]),
    (
        "sfb",
        &[
            n("earlydrop"),
            n("penaltydrop"),
            n("bucketdrop"),
            n("queuedrop"),
            n("childdrop"),
            n("marked"),
            n("maxqlen"),
            n("maxprob"),
            n("avgprob"),
        ],
    ),
    ("red", &[n("early"), n("pdrop"), n("other"), n("marked")]),
    ("choke", &[n("early"), n("pdrop"), n("other"), n("marked"), n("matched")]),
];

/// Returns the counters of a kind as Linux has them; `None` for a kind without any.
pub(crate) fn of_qdisc(qdisc: &dyn Qdisc, given: &Given) -> Option<Vec<u8>> {
    let kind = qdisc.spec().kind;
    if kind == "cake" {
        return Some(cake(qdisc, given));
    }
    let (_, fields) = STRUCTS.iter().find(|(name, _)| *name == kind)?;
    let mut w = Writer::default();
    for (key, wide) in *fields {
        let n = match given.on(key) {
            true => 1,
            false => given.signed(key).map_or(0, i64::cast_unsigned),
        };
        // Probabilities of sfb are parts of 65535 there, the upper 16 bits of those of 2^64 here.
        let n = if kind == "sfb" && key.ends_with("prob") { n >> 48 } else { n };
        match wide {
            true => w.put(&n.to_ne_bytes()),
            false => w.put_all(&[n as u32]),
        }
    }
    Some(w.finish())
}

/// Attributes of the counters of cake, each with its counter.
const CAKE: [(u16, &str); 7] = [
    (3, "memory_limit"),
    (4, "memory_used"),
    (5, "avg_hdr_offset"),
    (6, "min_network_size"),
    (7, "max_network_size"),
    (8, "min_adj_size"),
    (9, "max_adj_size"),
];
const CAPACITY: u16 = 2;
const TINS: u16 = 10;
/// Attributes of the counters of a tin; `true` for those of 64 bits.
const TIN: [(u16, &str, bool); 24] = [
    (2, "sent_packets", false),
    (3, "sent_bytes", true),
    (4, "drops", false),
    (5, "", true),
    (6, "ack_drops", false),
    (7, "", true),
    (8, "ecn_mark", false),
    (9, "", true),
    (10, "", false),
    (11, "backlog_bytes", false),
    (12, "threshold_rate", true),
    (13, "target_us", false),
    (14, "interval_us", false),
    (15, "way_indirect_hits", false),
    (16, "way_misses", false),
    (17, "way_collisions", false),
    (18, "peak_delay_us", false),
    (19, "avg_delay_us", false),
    (20, "base_delay_us", false),
    (21, "sparse_flows", false),
    (22, "bulk_flows", false),
    (23, "unresponsive_flows", false),
    (24, "max_pkt_len", false),
    (25, "flow_quantum", false),
];

fn cake(qdisc: &dyn Qdisc, given: &Given) -> Vec<u8> {
    let mut tins: Vec<(&'static str, Vec<(&'static str, u64)>)> = Vec::new();
    qdisc.parts(&mut |name, counter, n| match tins.last_mut() {
        Some((last, counted)) if *last == name => counted.push((counter.key, n)),
        _ => tins.push((name, vec![(counter.key, n)])),
    });
    let mut w = Writer::default();
    w.u64(CAPACITY, given.number("capacity_estimate"));
    CAKE.iter().for_each(|(number, key)| w.u32(*number, given.u32(key)));
    w.nest(TINS, |w| {
        for (at, (_, counted)) in (1u16..).zip(&tins) {
            let of = |key: &str| counted.iter().find(|(k, _)| *k == key).map_or(0, |(_, n)| *n);
            w.nest(at, |w| {
                for (number, key, wide) in TIN {
                    match wide {
                        true => w.u64(number, of(key)),
                        false => w.u32(number, u32_of(of(key))),
                    }
                }
            });
        }
    });
    w.finish()
}

/// Returns the counters of a class of a kind as Linux has them.
pub(crate) fn of_class(kind: &str, values: &[i64]) -> Option<Vec<u8>> {
    let mut w = Writer::default();
    let bits32 = |n: &i64| *n as u32;
    match (kind, values) {
        ("htb", [lent, borrowed, giants, tokens, ctokens, ..]) => {
            w.put_all(&[lent, borrowed, giants, tokens, ctokens].map(bits32));
        }
        ("drr", [deficit]) => w.put_all(&[bits32(deficit)]),
        ("hfsc", [period, work, rtwork, level]) => {
            w.put(&work.to_ne_bytes());
            w.put(&rtwork.to_ne_bytes());
            w.put_all(&[period, level].map(bits32));
        }
        _ => return None,
    }
    Some(w.finish())
}

/// Fields of the counters of a flow of fq_codel, behind the number that says that it is a flow.
const FLOW: [&str; 6] = ["deficit", "ldelay", "count", "lastcount", "dropping", "drop_next"];

/// Returns the counters of a flow that a kind keeps apart.
pub(crate) fn of_flow(kind: &str, values: &[(&'static str, i64)]) -> Option<Vec<u8>> {
    let of = |key: &str| values.iter().find(|(k, _)| *k == key).map_or(0, |(_, n)| *n as u32);
    let mut w = Writer::default();
    match kind {
        "fq_codel" => {
            w.put_all(&[1]);
            w.put_all(&FLOW.map(of));
        }
        "sfq" => w.put_all(&[of("allot")]),
        "cake" => {
            let some = |key: &str| of(key) != 0;
            for (number, key, is_there) in [
                (11, "deficit", true),
                (12, "count", true),
                (13, "dropping", true),
                (14, "drop_next", some("dropping")),
                (15, "blue_prob", true),
                (16, "blue_timer", some("blue_prob")),
            ] {
                if is_there {
                    w.u32(number, of(key));
                }
            }
        }
        _ => return None,
    }
    Some(w.finish())
}
