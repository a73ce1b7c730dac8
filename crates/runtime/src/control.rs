//! `Control`: changes of a direction while frames flow, each at one time, between two bursts.

use txweir_core::classify::filter::BlockId;
use txweir_core::path::device::DeviceError;
use txweir_core::path::qdiscs::Qdiscs;
use txweir_core::path::txpath::Swapped;
use txweir_core::qdisc::mqprio;
use txweir_core::sched::cx::Cx;
use txweir_core::sched::schedule::LineConfig;
use txweir_core::turns::Quota;
use txweir_core::{ConfigError, Env, Instant, Meta, Rate, Tree};
use txweir_device::{Backend, Store};

use crate::cut::cut;
use crate::drain::Drain;
use crate::line::Exit;

/// A direction while it is changed, at one time.
#[derive(Debug)]
pub struct Control<'a, D: Backend> {
    pub(crate) drain: &'a mut Drain<D>,
    pub(crate) now: Instant,
}

/// A function that cuts super-frames while a port is changed.
type Cutter<'a, F> = &'a mut dyn FnMut(F, &Meta, u32, &mut dyn FnMut(F, Meta));

impl<D: Backend> Control<'_, D> {
    /// Changes the qdiscs of the first path, which all queues share unless each has a path of its
    /// own. `f` gets the tree and the context that its operations need.
    pub fn configure<R>(&mut self, f: impl FnOnce(&mut Tree, &mut Cx) -> R) -> R {
        let Drain { port, exit, .. } = &mut *self.drain;
        let r = port.control(self.now, exit).configure_path(0, f);
        self.drain.drain_all(self.now);
        r
    }

    /// Changes the qdiscs of every path: `f` makes the same change to each tree.
    pub fn configure_each(&mut self, f: impl FnMut(&mut Tree, &mut Cx)) {
        let Drain { port, exit, .. } = &mut *self.drain;
        port.control(self.now, exit).configure_each(f);
        self.drain.drain_all(self.now);
    }

    /// Changes the qdiscs of all paths by their handles. Packets that wait in a removed qdisc are
    /// dropped.
    pub fn change<R>(&mut self, f: impl FnOnce(&mut Qdiscs<'_>) -> R) -> R {
        let before = self.drain.port.chooser().stats().reshaped;
        let Drain { port, exit, .. } = &mut *self.drain;
        let r = port.control(self.now, exit).configure(f);
        self.reshaped(before);
        r
    }

    /// Like [`change`](Self::change), but waiting packets are kept: see `port::Control::swap` of
    /// the core. A super-frame that the new tree takes only in pieces is cut.
    pub fn swap<R>(&mut self, f: impl FnOnce(&mut Qdiscs<'_>) -> R) -> (R, Swapped) {
        let (now, before) = (self.now, self.drain.port.chooser().stats().reshaped);
        let done = self.while_cutting(|port, exit, cut| port.control(now, exit).swap(f, cut));
        self.reshaped(before);
        done
    }

    /// Frees at most so many of the qdiscs that a swap has replaced as a whole: see `Port::bury` of
    /// the core.
    pub fn bury(&mut self, most: usize) -> bool {
        self.drain.port.bury(most)
    }

    /// Changes the number of transmit queues. Waiting packets are kept: see
    /// `port::Control::set_queues` of the core.
    ///
    /// # Errors
    /// The options of the root do not fit this number of queues, or the wire cannot have as many
    /// rings. Then nothing has changed.
    pub fn set_queues(&mut self, queues: u16) -> Result<(), ConfigError> {
        let (now, before) = (self.now, self.drain.port.chooser().stats().reshaped);
        self.drain.port.check_queues(queues)?;
        self.drain.exit.line.add_queues(queues)?;
        let done = self.while_cutting(|port, exit, cut| port.control(now, exit).set_queues_with(queues, cut));
        self.reshaped(before);
        done
    }

    /// Ends a change of the queues or of their qdiscs; `before` is the number of times that the
    /// queues had been changed. Frames that wait ahead of the qdiscs, for a turn or for room, go to
    /// the queues that later frames of their flows will go to.
    fn reshaped(&mut self, before: u64) {
        let Drain { port, exit, held, .. } = &mut *self.drain;
        let chooser = port.chooser_mut();
        if chooser.stats().reshaped != before {
            let gated = exit.gate.iter_mut().flat_map(|gate| gate.waiting_mut());
            for arrival in gated.chain(held.iter_mut()).filter(|arrival| arrival.facts.queue_chosen) {
                chooser.choose_again(&mut arrival.facts.meta);
            }
        }
        fit_scheduler(self.drain);
        self.drain.drain_all(self.now);
    }

    /// Changes the description of the output, except its queues, that qdiscs made from now on get.
    pub fn set_env(&mut self, env: Env) {
        let Drain { port, exit, .. } = &mut *self.drain;
        port.control(self.now, exit).set_env(env);
        self.drain.drain_all(self.now);
    }

    /// Changes the rate of the wire, if there is one, from the next frame on.
    pub fn set_rate(&mut self, rate: Rate) {
        if let Some(wire) = self.drain.exit.line.wire_mut() {
            wire.set_rate(rate);
        }
    }

    /// Bounds the share of a flow in the qdiscs from now on: at most this quota and one unit at
    /// a time; its other frames wait their turn. With [`Quota::OFF`] the waiting frames enter the
    /// qdiscs at once.
    pub fn set_fairsend(&mut self, quota: Quota) {
        self.drain.set_fairsend(self.now, quota);
    }

    /// Sets whether frames may bypass empty qdiscs, on the present queues: see
    /// `Transmitter::set_direct`.
    pub fn set_direct(&mut self, on: bool) {
        self.drain.port.transmitters_mut().for_each(|tx| tx.set_direct(on));
    }

    /// Goes on without the frames that the device holds and does not finish: they are lost, and
    /// counted. Returns their number, and the answer of [`Direction::advance`](crate::Direction).
    pub fn give_up(&mut self) -> (u64, Result<(), DeviceError>) {
        let before = self.drain.stats.lost;
        self.drain.stats.timeouts += 1;
        self.drain.exit.line.output_mut().device.abandon();
        let done = self.drain.advance(self.now);
        (self.drain.stats.lost - before, done)
    }

    /// Returns the blocks of filters that no longer have an owner: see `Qdiscs::take_orphans`.
    #[must_use]
    pub fn take_orphans(&mut self) -> Vec<BlockId> {
        let Drain { port, exit, .. } = &mut *self.drain;
        port.control(self.now, exit).configure(|qdiscs| qdiscs.take_orphans())
    }

    /// Runs an operation that may cut super-frames.
    fn while_cutting<R>(
        &mut self,
        f: impl FnOnce(&mut txweir_core::path::port::Port<D::Frame>, &mut Exit<D>, Cutter<'_, D::Frame>) -> R,
    ) -> R {
        let Drain { port, exit, stats, .. } = &mut *self.drain;
        // The cutter has the frames meanwhile: a stand-in store gathers those that are dropped.
        let mut frames = std::mem::take(exit.store());
        let done = f(port, exit, &mut |whole, meta, _, each| {
            cut(&mut frames, stats, whole, meta, &mut |_, piece, m| each(piece, m));
        });
        let dropped = std::mem::replace(exit.store(), frames);
        exit.store().absorb(dropped);
        done
    }
}

/// Makes the rings of the wire share the line as the root asks.
pub(crate) fn fit_scheduler<D: Backend>(drain: &mut Drain<D>) {
    let queues = drain.port.queues();
    let Some(wire) = drain.exit.line.wire_mut() else { return };
    let line = mqprio::line_of(drain.port.trees().root().qdisc(), queues);
    let line = line.unwrap_or_else(|| LineConfig::round_robin(queues));
    if *wire.scheduler() != line && wire.configure_scheduler(&line).is_err() {
        // The request of the root was checked when the root was made, against a line that may have
        // another rate now.
        let _ = wire.configure_scheduler(&LineConfig::round_robin(queues));
    }
}
