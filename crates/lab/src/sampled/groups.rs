//! Reads a group of traffic: in each step, and in all of the measured time.

use txweir_core::Nanos;

use super::results::{FLOWS_MAX, GroupSeries, GroupTrial, NEAR};
use crate::dist::Stepped;
use crate::net::{Load, Net};
use crate::report::{jain, kind, per_second};

/// The transmit side that replayed packets pass: the first one.
const REPLAYED: u32 = 0;

/// A group over time.
#[derive(Default)]
pub(crate) struct GroupSampler {
    bytes: u64,
    /// Bytes that each member had delivered at the end of the last step, of the members with a
    /// series.
    flows: Vec<u64>,
    series: GroupSeries,
}

/// True if the members of a group have a throughput of their own over time.
const fn has_flows(load: Load) -> bool {
    matches!(load, Load::Stream | Load::Quic(_))
}

impl GroupSampler {
    /// A step of the group of that number is over; after the groups comes the replay.
    pub fn sample(&mut self, net: &Net, number: usize, step: Nanos) {
        let rate = |now: u64, before: u64| per_second(u128::from(now - before) * 8, step);
        let (bytes, watch): (u64, &Stepped) = match (net.traffic().groups().get(number), net.replayed()) {
            (Some(state), _) => {
                let delivered = net.traffic().counted(number).delivered();
                if has_flows(state.group.load) {
                    let shown = &delivered[..delivered.len().min(FLOWS_MAX)];
                    self.flows.resize(shown.len(), 0);
                    self.series.flows_bit_s.resize(shown.len(), Vec::new());
                    for ((now, before), of) in
                        shown.iter().zip(&mut self.flows).zip(&mut self.series.flows_bit_s)
                    {
                        of.push(rate(*now, std::mem::replace(before, *now)));
                    }
                }
                let Some(watch) = net.meters().watched().get(number) else { return };
                (payload(net, number, &delivered), watch)
            }
            (None, Some(replay)) => (replay.received().bytes, replay.watch()),
            (None, None) => return,
        };
        let some = |share| (watch.step.count() > 0).then(|| watch.step.quantile(share).0);
        self.series.throughput_bit_s.push(rate(bytes, self.bytes));
        self.series.latency_p50_ns.push(some(0.5));
        self.series.latency_p99_ns.push(some(0.99));
        self.bytes = bytes;
    }

    /// Returns the results of the group of that number.
    pub fn result(self, net: &Net, number: usize, time: Nanos) -> GroupTrial {
        match net.traffic().groups().get(number) {
            Some(_) => group(net, number, time, self.series),
            None => replay(net, time, self.series),
        }
    }
}

/// Payload of a group since the start: what `GroupTrial::throughput_bit_s` counts.
fn payload(net: &Net, group: usize, delivered: &[u64]) -> u64 {
    match net.traffic().groups()[group].group.load {
        Load::Rr { request, response } => {
            net.traffic().counted(group).transactions().saturating_mul(request.saturating_add(response))
        }
        _ => delivered.iter().sum(),
    }
}

fn group(net: &Net, number: usize, time: Nanos, series: GroupSeries) -> GroupTrial {
    let (state, counted) = (&net.traffic().groups()[number], net.traffic().counted(number));
    let watch = &net.meters().watched()[number];
    let members = counted.bytes();
    let (mut bytes, mut done, mut lost) = (members.iter().sum(), None, None);
    let (mut offered, mut received) = (None, None);
    match state.group.load {
        Load::Stream => {}
        Load::Rr { request, response } => {
            let n = watch.whole.count();
            bytes = n.saturating_mul(request.saturating_add(response));
            done = Some(per_second(u128::from(n) * 10, time) as f64 / 10.0);
        }
        Load::Short(_) | Load::Ask(_) | Load::Quic(_) => {}
        Load::Cbr { .. } | Load::Voice | Load::Video(_) => {
            let counts = counted.cbr();
            (lost, offered, received) = (Some(counts.lost), Some(counts.sent), Some(counts.received));
        }
    }
    GroupTrial {
        name: state.group.name.clone(),
        kind: kind(state.group.load),
        count: state.group.count,
        direction: if state.group.from == NEAR { "up" } else { "down" },
        throughput_bit_s: per_second(u128::from(bytes) * 8, time),
        jain: jain(&members),
        retransmitted_bytes: counted.retransmitted(),
        transactions_per_s: done,
        latency: watch.whole.times(),
        latency_percents_ns: watch.whole.percents(),
        lost,
        offered_packets: offered,
        received_packets: received,
        series,
    }
}

fn replay(net: &Net, time: Nanos, series: GroupSeries) -> GroupTrial {
    let found = net.replayed();
    let received = found.map_or_else(Default::default, |r| r.received());
    let whole = found.map(|r| &r.watch().whole);
    GroupTrial {
        name: "replay".into(),
        kind: "replay",
        count: 1,
        direction: "up",
        throughput_bit_s: per_second(u128::from(received.bytes) * 8, time),
        jain: 1.0,
        retransmitted_bytes: 0,
        transactions_per_s: None,
        latency: whole.and_then(|whole| whole.times()),
        latency_percents_ns: whole.map_or_else(Vec::new, |whole| whole.percents()),
        lost: found.map(|_| net.links().nic(REPLAYED).measured().dropped.packets),
        offered_packets: found.map(|r| r.offered().packets),
        received_packets: Some(received.packets),
        series,
    }
}
