//! The words of qdiscs: tc(8) and the page of each kind. Those of the engine's own kinds are here too, for whoever
//! wants to know what a line says without an engine.

use super::cake::CAKE;
use super::table::{Arg, Grammar, I32, Key, U8, U32, U64, key};
use super::walk::Walk;
use crate::diagnostic::{Diagnostic, code};

use Arg::{Any, Decimal, Hex, Percent, Queues, Rate, Size, SizeCell, Time, Uint};

type Done = Result<(), Diagnostic>;

const fn qdisc(kinds: &'static [&'static str], keys: &'static [Key]) -> Grammar {
    Grammar::of(kinds, keys)
}

/// Words for the link layer that a rate is reckoned on.
pub(super) const LINKLAYERS: Arg = Arg::Word(&["ethernet", "atm", "adsl"]);

const PRIOMAP: (Arg, usize) = (U8, 16);

/// Those of kinds that the engine has.
pub(super) static ENGINE: &[Grammar] = &[
    qdisc(&["pfifo", "bfifo", "pfifo_head_drop"], &[key(&["limit"], &[Size])]),
    qdisc(&["drr", "mq", "multiq", "pfifo_fast"], &[]),
    qdisc(
        &["mqprio"],
        &[
            key(&["num_tc"], &[U8]),
            key(&["map"], &[]).list(U8, 16),
            key(&["queues"], &[]).list(Queues, 16),
            key(&["hw"], &[U8]),
            key(&["mode"], &[Arg::Word(&["dcb", "channel"])]),
            key(&["shaper"], &[Arg::Word(&["dcb", "bw_rlimit"])]),
            key(&["min_rate"], &[]).list(Rate, 16),
            key(&["max_rate"], &[]).list(Rate, 16),
            key(&["fp"], &[]).list(Arg::Word(&["E", "P"]), 16),
        ],
    ),
    qdisc(
        &["ets"],
        &[
            key(&["bands"], &[Uint(1, 16)]),
            key(&["strict"], &[Uint(0, 16)]),
            key(&["quanta"], &[]).list(Uint(1, u32::MAX as u64), 64),
            key(&["priomap"], &[]).list(Uint(0, 15), 16),
        ],
    ),
    qdisc(
        &["prio"],
        &[
            key(&["bands"], &[Uint(1, 16)]),
            key(&["priomap"], &[]).list(PRIOMAP.0, PRIOMAP.1),
            key(&["multiqueue"], &[]),
            // Not tc's: the engine's own.
            key(&["tcpctl"], &[Percent]),
        ],
    ),
    qdisc(&["cake"], CAKE),
    qdisc(
        &["codel", "fq_codel"],
        &[
            key(&["limit"], &[U32]),
            key(&["flows"], &[U32]),
            key(&["target"], &[Time]),
            key(&["interval"], &[Time]),
            key(&["quantum"], &[Size]),
            key(&["ce_threshold"], &[Time]),
            key(&["ce_threshold_selector"], &[Any]),
            key(&["memory_limit"], &[Size]),
            key(&["drop_batch"], &[U32]),
            key(&["ecn"], &[]),
            key(&["noecn"], &[]),
            // Not tc's: the engine's own.
            key(&["tcpctl"], &[Percent]),
        ],
    ),
    qdisc(
        &["htb"],
        &[
            key(&["r2q"], &[U32]),
            key(&["default"], &[Hex(u32::MAX as u64)]),
            key(&["debug"], &[U32]),
            key(&["direct_qlen"], &[U32]),
            key(&["offload"], &[]),
        ],
    )
    .cut(),
    qdisc(
        &["netem"],
        &[
            key(&["limit"], &[Size]),
            key(&["delay", "latency"], &[Time]).may(&[Time, Percent]),
            key(&["loss", "drop"], &[]).then(netem_loss),
            key(&["ecn"], &[]),
            key(&["reorder"], &[Percent]).may(&[Percent]),
            key(&["corrupt"], &[Percent]).may(&[Percent]),
            key(&["gap"], &[U32]),
            key(&["duplicate"], &[Percent]).may(&[Percent]),
            // Or a table of the machine's own.
            key(&["distribution"], &[Any]),
            key(&["rate"], &[Rate]).may(&[I32, U32, I32]),
            key(&["slot"], &[]).then(netem_slot),
            key(&["seed"], &[U64]),
        ],
    )
    .cut()
    .once(&["loss"]),
    qdisc(
        &["red"],
        &[
            key(&["limit"], &[Size]),
            key(&["min"], &[Size]),
            key(&["max"], &[Size]),
            key(&["burst"], &[U32]),
            key(&["avpkt"], &[Size]),
            key(&["probability"], &[Decimal]),
            key(&["bandwidth"], &[Rate]),
            key(&["adaptive", "adaptative"], &[]),
            key(&["ecn"], &[]),
            key(&["harddrop"], &[]),
            key(&["nodrop"], &[]),
        ],
    ),
    qdisc(
        &["dualpi2"],
        &[
            key(&["limit"], &[U32]),
            key(&["memlimit"], &[Size]),
            key(&["target"], &[Time]),
            key(&["tupdate"], &[Time]),
            key(&["alpha"], &[Decimal]),
            key(&["beta"], &[Decimal]),
            key(&["coupling_factor"], &[Uint(0, 255)]),
            key(&["step_thresh"], &[Any]),
            key(&["min_qlen_step"], &[U32]),
            key(&["classic_protection"], &[Any]),
            key(&["max_rtt"], &[Time]),
            key(&["typical_rtt"], &[Time]),
            key(&["drop_on_overload"], &[]),
            key(&["overflow"], &[]),
            key(&["drop_enqueue"], &[]),
            key(&["drop_dequeue"], &[]),
            key(&["split_gso"], &[]),
            key(&["no_split_gso"], &[]),
            key(&["l4s_ect"], &[]),
            key(&["any_ect"], &[]),
        ],
    ),
    qdisc(
        &["pie"],
        &[
            key(&["limit"], &[U32]),
            key(&["target"], &[Time]),
            key(&["tupdate"], &[Time]),
            key(&["alpha"], &[Uint(0, 32)]),
            key(&["beta"], &[Uint(0, 32)]),
            key(&["ecn"], &[]),
            key(&["noecn"], &[]),
            key(&["bytemode"], &[]),
            key(&["nobytemode"], &[]),
            key(&["dq_rate_estimator"], &[]),
            key(&["no_dq_rate_estimator"], &[]),
        ],
    ),
    qdisc(
        &["sfq"],
        &[
            key(&["limit"], &[U32]),
            key(&["perturb"], &[I32]),
            key(&["quantum"], &[Size]),
            key(&["divisor"], &[U32]),
            key(&["flows"], &[U32]),
            key(&["depth"], &[U32]),
            key(&["headdrop"], &[]),
            key(&["redflowlimit"], &[U32]),
            key(&["min"], &[U32]),
            key(&["max"], &[U32]),
            key(&["avpkt"], &[Size]),
            key(&["burst"], &[U32]),
            key(&["probability"], &[Decimal]),
            key(&["ecn"], &[]),
            key(&["harddrop"], &[]),
        ],
    ),
    // Not tc's: the engine's own.
    qdisc(
        &["rough"],
        &[
            key(&["limit"], &[Size]),
            key(&["bytes"], &[Size]),
            key(&["profile"], &[Arg::Word(&["df2013", "df2017"])]),
            key(&["ack_budget"], &[Percent]),
        ],
    ),
    qdisc(&["skbprio"], &[key(&["limit"], &[U32])]),
    qdisc(
        &["tbf"],
        &[
            key(&["limit"], &[Size]),
            key(&["latency"], &[Time]),
            key(&["burst", "buffer", "maxburst"], &[SizeCell]),
            key(&["rate"], &[Rate]),
            key(&["peakrate"], &[Rate]),
            key(&["mtu", "minburst"], &[SizeCell]),
            key(&["mpu"], &[Size]),
            key(&["overhead"], &[I32]),
            key(&["linklayer"], &[LINKLAYERS]),
        ],
    )
    .cut(),
];

/// Those of all others.
pub(super) static TABLE: &[Grammar] = &[
    qdisc(&["hfsc"], &[key(&["default"], &[Hex(u16::MAX as u64)])]).cut().once(&["default"]),
    qdisc(&["qfq", "teql0", "noqueue", "noop", "ingress", "clsact"], &[]),
    qdisc(
        &["gred"],
        &[
            key(&["setup"], &[]),
            key(&["vqs", "DPs"], &[Uint(1, 16)]),
            key(&["default"], &[U32]),
            key(&["grio"], &[]),
            key(&["vq", "DP"], &[U32]),
            key(&["limit"], &[Size]),
            key(&["min"], &[Size]),
            key(&["max"], &[Size]),
            key(&["burst"], &[U32]),
            key(&["avpkt"], &[Size]),
            key(&["prio"], &[U32]),
            key(&["probability"], &[Decimal]),
            key(&["bandwidth"], &[Rate]),
            key(&["ecn"], &[]),
            key(&["harddrop"], &[]),
        ],
    )
    .needs(&[&["setup", "vq", "limit"]]),
    qdisc(
        &["choke"],
        &[
            key(&["limit"], &[U32]),
            key(&["bandwidth"], &[Rate]),
            key(&["min"], &[U32]),
            key(&["max"], &[U32]),
            key(&["burst"], &[U32]),
            key(&["avpkt"], &[Size]),
            key(&["probability"], &[Decimal]),
            key(&["ecn"], &[]),
        ],
    )
    .needs(&[&["limit"], &["bandwidth"]]),
    qdisc(
        &["fq_pie"],
        &[
            key(&["limit"], &[U32]),
            key(&["target"], &[Time]),
            key(&["tupdate"], &[Time]),
            key(&["alpha"], &[Uint(0, 32)]),
            key(&["beta"], &[Uint(0, 32)]),
            key(&["ecn"], &[]),
            key(&["noecn"], &[]),
            key(&["bytemode"], &[]),
            key(&["nobytemode"], &[]),
            key(&["dq_rate_estimator"], &[]),
            key(&["no_dq_rate_estimator"], &[]),
            key(&["flows"], &[U32]),
            key(&["quantum"], &[Size]),
            key(&["memory_limit"], &[Size]),
            key(&["ecn_prob"], &[Uint(0, 100)]),
        ],
    ),
    qdisc(
        &["sfb"],
        &[
            key(&["rehash"], &[U32]),
            key(&["db"], &[U32]),
            key(&["limit"], &[U32]),
            key(&["max"], &[U32]),
            key(&["target"], &[U32]),
            key(&["increment"], &[Decimal]),
            key(&["decrement"], &[Decimal]),
            key(&["penalty_rate"], &[U32]),
            key(&["penalty_burst"], &[U32]),
        ],
    ),
    qdisc(
        &["hhf"],
        &[
            key(&["limit"], &[U32]),
            key(&["quantum"], &[U32]),
            key(&["hh_limit"], &[U32]),
            key(&["reset_timeout"], &[Time]),
            key(&["admit_bytes"], &[U32]),
            key(&["evict_timeout"], &[Time]),
            key(&["non_hh_weight"], &[U32]),
        ],
    ),
    qdisc(
        &["cbs"],
        &[
            key(&["offload"], &[U8]),
            key(&["hicredit"], &[I32]),
            key(&["locredit"], &[I32]),
            key(&["sendslope"], &[I32]),
            key(&["idleslope"], &[I32]),
        ],
    )
    .once(&["offload", "hicredit", "locredit", "sendslope", "idleslope"]),
    qdisc(
        &["etf"],
        &[
            key(&["offload"], &[]),
            key(&["deadline_mode"], &[]),
            key(&["delta"], &[I32]),
            key(&["clockid"], &[CLOCKS]),
            key(&["skip_sock_check"], &[]),
        ],
    )
    .cut()
    .once(&["offload", "deadline_mode", "delta", "clockid", "skip_sock_check"]),
    qdisc(
        &["taprio"],
        &[
            key(&["num_tc"], &[U8]),
            key(&["map"], &[]).list(U8, 16),
            key(&["queues"], &[]).list(Queues, 16),
            key(&["sched-entry"], &[Arg::Word(&["S", "H", "R"]), Hex(u32::MAX as u64), U32]),
            key(&["base-time"], &[Any]),
            key(&["cycle-time"], &[Any]),
            key(&["cycle-time-extension"], &[Any]),
            key(&["txtime-delay"], &[Any]),
            key(&["flags"], &[U32]),
            key(&["clockid"], &[CLOCKS]),
            key(&["max-sdu"], &[]).list(U32, 16),
            key(&["fp"], &[]).list(Arg::Word(&["E", "P"]), 16),
        ],
    )
    .once(&["cycle-time", "cycle-time-extension", "txtime-delay", "flags", "clockid"]),
    qdisc(
        &["plug"],
        &[
            key(&["block"], &[]),
            key(&["release"], &[]),
            key(&["release_indefinite"], &[]),
            key(&["limit"], &[U32]),
        ],
    ),
    qdisc(&["cake_mq"], CAKE),
];

/// Clocks of Linux, `CLOCK_` in front or not.
const CLOCKS: Arg = Arg::Word(&[
    "CLOCK_TAI",
    "CLOCK_REALTIME",
    "CLOCK_MONOTONIC",
    "CLOCK_BOOTTIME",
    "TAI",
    "REALTIME",
    "MONOTONIC",
    "BOOTTIME",
    "tai",
    "realtime",
    "monotonic",
    "boottime",
]);

/// `loss [random] P [C]`, `loss state P13 [P31 [P32 [P23 [P14]]]]`, `loss gemodel P [R [1-H [1-K]]]`.
fn netem_loss(walk: &mut Walk<'_>) -> Done {
    let more = match walk.peek() {
        Some("state") => 4,
        Some("gemodel") => 3,
        _ => 1,
    };
    walk.eat(&["random", "state", "gemodel"]);
    walk.value(Percent, "loss", None)?;
    for _ in 0..more {
        if walk.peek().is_some_and(|w| Percent.accepts(w)) {
            walk.value(Percent, "loss", None)?;
        }
    }
    Ok(())
}

/// `slot MIN [MAX]` or `slot distribution NAME DELAY JITTER`, then `packets N`, `bytes N`.
fn netem_slot(walk: &mut Walk<'_>) -> Done {
    if walk.eat(&["distribution"]) {
        walk.value(Any, "slot distribution", None)?;
        walk.value(Time, "slot", None)?;
        walk.value(Time, "slot", None)?;
    } else {
        walk.value(Time, "slot", None)?;
        if walk.peek().is_some_and(|w| Time.accepts(w)) {
            walk.value(Time, "slot", None)?;
        }
    }
    walk.part(&SLOT)
}

static SLOT: Grammar = qdisc(&["slot"], &[key(&["packets"], &[U32]), key(&["bytes"], &[U32])]);

/// What tc demands of a whole line, beyond its keys.
pub(super) fn finish(walk: &Walk<'_>, kind: &str) -> Done {
    let has = |key: &str| walk.settings.iter().find(|s| s.key == key);
    match kind {
        "netem" => {
            let delay = has("delay");
            if let Some(s) = has("reorder").filter(|_| delay.is_none()) {
                return Err(walk.error(code::CONFLICT, s.words.start, "netem reorder needs a delay".into()));
            }
            if let Some(s) = has("gap").filter(|_| has("reorder").is_none()) {
                return Err(walk.error(code::CONFLICT, s.words.start, "netem gap needs reorder".into()));
            }
            let jitter = delay.is_some_and(|d| d.words.len() > 2);
            if let Some(s) = has("distribution").filter(|_| !jitter) {
                let message = "netem distribution needs a delay and a jitter".into();
                return Err(walk.error(code::CONFLICT, s.words.start, message));
            }
        }
        "gred" if has("setup").is_some() && (has("vqs").is_none() || has("default").is_none()) => {
            return Err(walk.missing("vqs and default after setup"));
        }
        _ => {}
    }
    Ok(())
}
