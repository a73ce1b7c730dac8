//! The numbers of a run over time: one value for each of its steps.

use txweir_core::{Instant, Nanos};

use super::results::payload;
use super::site::{PROVIDERS, TRIED, tried};
use crate::net::{GroupWatch, Net};
use crate::nic::{Gauge, Nic, NodeProbe};
use crate::report::per_second;
use crate::trial::{ClassSeries, GroupSeries};

/// A gauge's mean in each step.
#[derive(Default)]
pub(super) struct Means {
    area: u128,
    pub(super) values: Vec<u64>,
}

impl Means {
    fn sample(&mut self, gauges: &[&Gauge], now: Instant, step: Nanos) {
        let area = gauges.iter().map(|gauge| gauge.area(now)).sum::<u128>();
        let mean = (area - self.area) / u128::from(step.0);
        self.values.push(u64::try_from(mean).unwrap_or(u64::MAX));
        self.area = area;
    }
}

#[derive(Default)]
pub(super) struct GroupSampler {
    bytes: u64,
    pub(super) series: GroupSeries,
}

#[derive(Default)]
pub(super) struct ClassSampler {
    bytes: u64,
    drops: u64,
    pub(super) backlog: Means,
    pub(super) series: ClassSeries,
}

/// The qdiscs of a NIC over time.
pub(super) struct NicSampler {
    pub(super) nic: u32,
    pub(super) classes: Vec<ClassSampler>,
}

/// Everything over time.
pub(super) struct Series {
    step: Nanos,
    pub(super) groups: Vec<GroupSampler>,
    pub(super) nics: Vec<NicSampler>,
    pub(super) ring: Means,
    /// The provider's queue and ring.
    pub(super) provider: Means,
}

fn nodes(nic: &Nic) -> &[NodeProbe] {
    nic.probe().map_or(&[], |p| p.nodes())
}

impl Series {
    pub(super) fn new(net: &Net, step: Nanos) -> Self {
        let groups = net.traffic().groups().len() + usize::from(net.replayed().is_some());
        let sampler = |nic| {
            let count = nodes(net.links().nic(nic)).len();
            NicSampler { nic, classes: (0..count).map(|_| ClassSampler::default()).collect() }
        };
        Self {
            step,
            groups: (0..groups).map(|_| GroupSampler::default()).collect(),
            nics: tried(net).map(sampler).collect(),
            ring: Means::default(),
            provider: Means::default(),
        }
    }

    /// Measuring begins: gauges have begun anew.
    pub(super) fn restart(&mut self) {
        (self.ring.area, self.provider.area) = (0, 0);
        self.nics.iter_mut().flat_map(|n| &mut n.classes).for_each(|c| c.backlog.area = 0);
    }

    /// A step is over.
    pub(super) fn sample(&mut self, net: &mut Net) {
        let (now, step) = (net.engine().now(), self.step);
        for NicSampler { nic, classes } in &mut self.nics {
            net.nic_mut(*nic).look(now);
            for (node, c) in nodes(net.links().nic(*nic)).iter().zip(classes) {
                let (bytes, drops) = (node.books.sent.bytes, node.own.dropped());
                c.backlog.sample(&[&node.backlog], now, step);
                c.series.throughput_bit_s.push(per_second(u128::from(bytes - c.bytes) * 8, step));
                c.series.drops.push(drops - c.drops);
                (c.bytes, c.drops) = (bytes, drops);
            }
        }
        for (i, s) in self.groups.iter_mut().enumerate() {
            let (bytes, watch): (u64, &GroupWatch) = match (net.traffic().groups().get(i), net.replayed()) {
                (Some(_), _) => (payload(net, i), &net.meters().watched()[i]),
                (None, Some(replay)) => (replay.received().bytes, replay.watch()),
                (None, None) => continue,
            };
            let some = |share| (watch.step.count() > 0).then(|| watch.step.quantile(share).0);
            s.series.throughput_bit_s.push(per_second(u128::from(bytes - s.bytes) * 8, step));
            s.series.latency_p50_ns.push(some(0.5));
            s.series.latency_p99_ns.push(some(0.99));
            s.bytes = bytes;
        }
        let [ring, _] = net.links().nic(TRIED).gauges();
        self.ring.sample(&[ring], now, step);
        self.provider.sample(&net.links().nic(PROVIDERS).gauges(), now, step);
    }
}
