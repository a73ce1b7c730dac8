//! Byte queue limits on virtio: "[PATCH net-next v2] virtio_net: add support for Byte Queue Limits", Jiri Pirko, netdev, June
//! 2024.

use txweir_core::Instant;

use super::plot::{Panel, Plot};
use super::{Band, Experiment, Published, Row};
use crate::scenario::Scenario;

const STORY: &str = include_str!("../../../../scenarios/virtio-bql.toml");
const NAME: &str = "virtio";

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "what byte limits bring on a device of 1, 2 and 4 queues, with and without a qdisc that keeps flows apart",
    sources: &[
        "Published: \"[PATCH net-next v2] virtio_net: add support for Byte Queue Limits\", Jiri Pirko, netdev, June 2024:",
        "transactions per second of one RR beside 50 bulk streams, means of four runs. Band: 1.5x. Here too means of four runs,",
        "where there are several queues: the seed decides which streams share the RR's queue.",
        "Fitted on one queue with fq_codel: line rate (12.75 Gbit/s) without BQL, completions (every 390 us) with it. Every",
        "other row is predicted with these. From the source: queues, qdiscs, streams. Assumed: 256 descriptors, units of 64 KB,",
        "two of a socket below it, 1 B each way. Not modelled: processors, and what carries packets behind the device.",
        "Scenario: scenarios/virtio-bql.toml (run it with `txweir lab run`).",
    ],
    plot: &PLOT,
    run,
};

const PLOT: Plot = Plot {
    panels: &[Panel {
        title: "transactions per second of one RR",
        metrics: &["tps"],
        spread: None,
        log: true,
        share: 1,
    }],
    without: &[],
};

/// Queues, qdisc, byte limits, what was published, what was fitted on it.
type Case = (u16, &'static str, bool, f64, Option<&'static str>);

const CASES: [Case; 12] = [
    (1, "fq_codel", false, 157.9, Some("rate")),
    (1, "fq_codel", true, 1282.4, Some("completions")),
    (1, "pfifo_fast", false, 148.3, None),
    (1, "pfifo_fast", true, 149.5, None),
    (2, "fq_codel", false, 179.6, None),
    (2, "fq_codel", true, 856.2, None),
    (2, "pfifo_fast", false, 170.7, None),
    (2, "pfifo_fast", true, 1271.0, None),
    (4, "fq_codel", false, 588.1, None),
    (4, "fq_codel", true, 897.4, None),
    (4, "pfifo_fast", false, 2159.8, None),
    (4, "pfifo_fast", true, 6119.2, None),
];

fn run(progress: &mut dyn FnMut(&str)) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for case in &CASES {
        let (queues, qdisc, bql, published, fitted) = *case;
        let row = format!("{queues} q, {}, {qdisc}", if bql { "BQL" } else { "no BQL" });
        progress(&format!("RR under 50 streams on virtio: {row}"));
        rows.push(Row {
            experiment: NAME,
            row,
            metric: "tps",
            unit: "1/s",
            published: Some(Published::one(published)),
            law: false,
            measured: measured(case)?,
            band: Band::Factor(1.5),
            fitted,
        });
    }
    Ok(rows)
}

/// Transactions per second: over four seeds, where those make a difference.
fn measured(&(queues, qdisc, bql, ..): &Case) -> Result<f64, String> {
    let (queues_text, bql_text) = (queues.to_string(), bql.to_string());
    let policy = format!("\"qdisc add root {qdisc}\"");
    let set = [("link.0.queues", &*queues_text), ("link.0.policy", &policy), ("link.0.bql", &bql_text)];
    let scenario = Scenario::parse_with(STORY, "virtio-bql.toml", &set).map_err(|e| e.to_string())?;
    let (from, to) = (Instant(scenario.warmup().0), Instant(scenario.duration().0));
    let seeds = if queues == 1 { 1 } else { 4 };
    let mut transactions = 0;
    for seed in 1..=seeds {
        let mut built = scenario.build(seed).map_err(|e| e.to_string())?;
        built.net.run(from);
        built.net.measure();
        built.net.run(to);
        transactions += built.net.groups()[1].latency.len();
    }
    Ok(transactions as f64 * 1e9 / to.saturating_since(from).0 as f64 / seeds as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::assert_drawn;

    /// A byte limit alone does nothing for a FIFO, and eight times as much where flows are kept apart; and which rows miss.
    #[test]
    fn a_byte_limit_needs_a_qdisc_that_keeps_flows_apart() {
        let rows = run(&mut |_| {}).unwrap();
        let [fq_off, fq_on, fifo_off, fifo_on] = [0, 1, 2, 3].map(|i| rows[i].measured);
        assert!((7.0..9.0).contains(&(fq_on / fq_off)), "{fq_on} {fq_off}");
        assert!((0.95..1.05).contains(&(fifo_on / fifo_off)), "{fifo_on} {fifo_off}");
        let outside: Vec<&str> = rows.iter().filter(|r| r.within() == Some(false)).map(|r| &*r.row).collect();
        let expected = [
            "2 q, BQL, pfifo_fast",
            "4 q, no BQL, fq_codel",
            "4 q, no BQL, pfifo_fast",
            "4 q, BQL, pfifo_fast",
        ];
        assert_eq!(outside, expected);
        assert_drawn(&rows, "virtio-2024.svg", include_str!("../../../../docs/virtio-2024.svg"));
    }
}
