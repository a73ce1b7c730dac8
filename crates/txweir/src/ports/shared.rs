//! The port of many threads as a device of tc.

use txweir_core::path::qdiscs::Qdiscs;
use txweir_core::path::trees::Trees;
use txweir_core::sched::cx::Cx;
use txweir_core::{ConfigError, Env, Instant, Swapped, Tree, TxQueue};
use txweir_handoff::{Gathered, Policy, SharedControl};
use txweir_tc::show;
use txweir_tc::tool::{Devices, Hook};

use super::{BURIED, Changed, Open, TcPort, whole};

impl TcPort {
    /// Calls `f` with a port that threads send by as a device of tc, as [`TcPort::with`] does with
    /// a port of one thread, and has senders classify by its filters from then on. Senders list
    /// their packets meanwhile, and go on.
    ///
    /// The counters of filters and actions are the sums of all senders
    /// ([`SharedPort::state`](txweir_handoff::SharedPort::state)) at the begin of the call.
    ///
    /// # Errors
    /// Filters are bound to a qdisc of a tree that has values which no words express, as typed
    /// calls make: senders ask the filters there as before the call.
    pub fn change<D, R>(
        &mut self,
        control: &mut SharedControl<D>,
        f: impl FnOnce(&mut dyn Devices) -> R,
    ) -> Result<R, ConfigError>
    where
        D: TxQueue + Send + 'static,
        D::Frame: Send + 'static,
    {
        let shared = std::sync::Arc::clone(control.port());
        self.state = shared.state();
        let mut open = Open { tc: self, port: control.gather() };
        let r = f(&mut open);
        let Open { tc, port: mut all } = open;
        let shape = shape(&all.port().trees());
        let egress = all.port().block(Hook::EGRESS);
        let port = tc.ports.of(&tc.name);
        let publish = |policy: &mut Policy| -> Result<(), std::convert::Infallible> {
            policy.filters.clone_from(&tc.filters);
            (policy.egress, policy.port) = (egress, port);
            Ok(())
        };
        let Ok(()) = shared.change(publish);
        all.set_shape(shape?);
        Ok(r)
    }
}

/// Returns the qdiscs of a port as one tree, if they have filters.
fn shape(trees: &Trees<'_>) -> Result<Option<Tree>, ConfigError> {
    let filtered = trees.trees().any(Tree::has_filters);
    filtered.then(|| show::copy(trees.clone(), &mut Cx::new(1, trees.env().seed))).transpose()
}

impl<D> Changed for Gathered<'_, D>
where
    D: TxQueue + Send + 'static,
    D::Frame: Send + 'static,
{
    fn now(&self) -> Instant {
        Gathered::now(self)
    }
    fn queues(&self) -> u16 {
        self.port().queues()
    }
    fn env(&self) -> Env {
        *self.port().env()
    }
    fn trees(&self) -> Trees<'_> {
        self.port().trees()
    }
    fn configure(&mut self, f: &mut dyn FnMut(&mut Qdiscs<'_>)) {
        self.control().configure(f);
    }
    fn swap(&mut self, f: &mut dyn FnMut(&mut Qdiscs<'_>)) -> Swapped {
        self.control().swap(f, whole).1
    }
    fn bury(&mut self) -> bool {
        Gathered::bury(self, BURIED)
    }
    fn pause(&mut self) {
        Gathered::pause(self);
    }
}
