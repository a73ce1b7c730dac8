//! A run in steps: what each group of traffic and each transmit side does in each step, and in
//! all of the measured time.

mod gates;
pub(crate) mod groups;
pub mod results;
pub(crate) mod side;

use txweir_core::{Instant, Nanos};

use crate::net::Net;
use crate::stop::Stop;
use groups::GroupSampler;
use results::GroupTrial;
use side::{Side, SideSampler};

/// Reads a run at the end of each of its steps.
pub(crate) struct Sampler {
    step: Nanos,
    groups: Vec<GroupSampler>,
    sides: Vec<SideSampler>,
}

impl Sampler {
    /// Returns a sampler of all groups, and of the transmit sides of these numbers. Classes and
    /// stages are there only for sides with a probe.
    pub fn new(net: &Net, sides: &[u32], step: Nanos) -> Self {
        let groups = net.traffic().groups().len() + usize::from(net.replayed().is_some());
        Self {
            step,
            groups: (0..groups).map(|_| GroupSampler::default()).collect(),
            sides: sides.iter().map(|nic| SideSampler::new(net, *nic)).collect(),
        }
    }

    /// Runs the net to its end, in at most so many steps, and begins measuring at `warmup`, which
    /// may lie inside a step. The last step may be shorter. Ends in a step if somebody asks.
    pub fn play(
        &mut self,
        net: &mut Net,
        (last, steps): (Instant, u64),
        warmup: Instant,
        stop: &Stop,
        advanced: &mut dyn FnMut(Nanos),
    ) {
        for n in 0..steps {
            let begin = Instant(self.step.0 * n);
            let end = Instant(last.0.min(self.step.0 * (n + 1)));
            if begin >= end {
                return;
            }
            net.next_step();
            if (begin.0..end.0).contains(&warmup.0) {
                // At the very start nothing has happened yet, and everything counts.
                if warmup > begin {
                    stop.run(net, warmup, advanced);
                }
                self.sides.iter_mut().for_each(|side| side.keep(net));
                net.measure();
            }
            stop.run(net, end, advanced);
            if stop.is_asked() {
                return;
            }
            self.sample(net);
        }
    }

    /// A step is over.
    fn sample(&mut self, net: &mut Net) {
        self.groups.iter_mut().enumerate().for_each(|(i, group)| group.sample(net, i, self.step));
        self.sides.iter_mut().for_each(|side| side.sample(net, self.step));
    }

    /// Returns the results of a run that has lasted for `measured` since measuring began.
    pub fn results(self, net: &Net, measured: Nanos) -> (Vec<GroupTrial>, Vec<Side>) {
        let groups = self.groups.into_iter().enumerate();
        let groups = groups.map(|(i, group)| group.result(net, i, measured)).collect();
        (groups, self.sides.into_iter().map(|side| side.result(net, measured)).collect())
    }
}
