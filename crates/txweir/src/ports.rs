//! A port as tc(8) sees it: its qdiscs, filters and hooks, changed and shown by tc's lines.
//!
//! [`TcPort`] keeps the parts that a port of this crate does not have by itself: a name, filters
//! and actions, a hook. Lines are the same for a port of one thread ([`TcPort::with`]) and, with
//! the feature `handoff`, for one that any number of threads send by (`TcPort::change`).
//!
//! ```
//! use txweir::core::path::port::Port;
//! use txweir::{Env, Instant, NoDevice, PathConfig, ports::TcPort, tc::Policy, tc::tool};
//!
//! let env = Env { queues: 2, ..Env::default() };
//! let mut port = Port::<u32>::new(PathConfig { env, ..PathConfig::for_socket() })?;
//! let mut queues = vec![NoDevice::new(), NoDevice::new()];
//! let mut tc = TcPort::new("eth0", 7);
//!
//! let policy = Policy::parse("
//!     qdisc add root handle 1: mq
//!     qdisc add parent 1:1 handle 10: fq_codel
//! ", "eth0.tc")?;
//! let shown = tc.with(&mut port, &mut queues, Instant::ZERO, |devices| {
//!     policy.apply_to(devices, &["eth0"])?;
//!     let show = tool::Request { args: vec!["qdisc".into(), "show".into()], ..Default::default() };
//!     Ok::<_, txweir::tc::Diagnostic>(tool::run(&show, devices).stdout)
//! })?;
//! assert!(shown.starts_with("qdisc mq 1: dev eth0 root"), "{shown}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "handoff")]
mod shared;

use txweir_core::classify::action::State;
use txweir_core::classify::filter::Filters;
use txweir_core::classify::packet::PortId;
use txweir_core::path::port::{Port, Queues};
use txweir_core::path::qdiscs::Qdiscs;
use txweir_core::path::trees::Trees;
use txweir_core::{Env, Handle, Instant, Meta, Swapped};
use txweir_tc::tool::{Device, Devices, Hook, LOOPBACK, Ports, Rates, SwapDone};

/// Replaced qdiscs that are freed in one step.
const BURIED: usize = 16;

/// The parts of a device that tc knows beside the qdiscs of its port.
#[derive(Debug)]
pub struct TcPort {
    name: String,
    hook: Option<Hook>,
    filters: Filters,
    state: State,
    ports: Ports,
    rates: Rates,
}

impl TcPort {
    /// Returns a device of this name, without filters and hooks. The seed keys the random numbers
    /// of actions; it must be secret where strangers send.
    #[must_use]
    pub fn new(name: &str, seed: u64) -> Self {
        Self {
            name: name.into(),
            hook: None,
            filters: Filters::new().with_seed(seed),
            state: State::new(seed),
            ports: Ports::default(),
            rates: Rates::default(),
        }
    }

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its hook.
    #[must_use]
    pub const fn hook(&self) -> Option<Hook> {
        self.hook
    }

    /// Returns the number by which actions know it.
    pub fn id(&mut self) -> PortId {
        self.ports.of(&self.name)
    }

    /// Returns the filters and actions with their counters, to classify the packets of a port of
    /// one thread ([`Port::pass`]); [`Port::block`] has the blocks of the hooks.
    pub const fn classify(&mut self) -> (&Filters, &mut State) {
        (&self.filters, &mut self.state)
    }

    /// Calls `f` with a port of one thread as a device of tc: for
    /// [`Policy::apply_to`](crate::tc::Policy::apply_to) and [`tool::run`](crate::tc::tool::run).
    /// The caller drains all queues afterwards.
    pub fn with<F, Q, R>(
        &mut self,
        port: &mut Port<F>,
        dev: &mut Q,
        now: Instant,
        f: impl FnOnce(&mut dyn Devices) -> R,
    ) -> R
    where
        Q: Queues<Frame = F>,
    {
        let r = f(&mut Open { tc: self, port: OfThread { port, dev, now } });
        self.filters.fit(&mut self.state);
        r
    }
}

/// A port whose qdiscs are changed, of one thread or of many.
trait Changed {
    fn now(&self) -> Instant;
    fn queues(&self) -> u16;
    fn env(&self) -> Env;
    fn trees(&self) -> Trees<'_>;
    fn configure(&mut self, f: &mut dyn FnMut(&mut Qdiscs<'_>));
    fn swap(&mut self, f: &mut dyn FnMut(&mut Qdiscs<'_>)) -> Swapped;
    fn bury(&mut self) -> bool;
    /// Lets other threads have their turn, where there are some.
    fn pause(&mut self) {}
}

struct OfThread<'a, F, Q> {
    port: &'a mut Port<F>,
    dev: &'a mut Q,
    now: Instant,
}

impl<F, Q: Queues<Frame = F>> Changed for OfThread<'_, F, Q> {
    fn now(&self) -> Instant {
        self.now
    }
    fn queues(&self) -> u16 {
        self.port.queues()
    }
    fn env(&self) -> Env {
        *self.port.env()
    }
    fn trees(&self) -> Trees<'_> {
        self.port.trees()
    }
    fn configure(&mut self, f: &mut dyn FnMut(&mut Qdiscs<'_>)) {
        self.port.control(self.now, self.dev).configure(f);
    }
    fn swap(&mut self, f: &mut dyn FnMut(&mut Qdiscs<'_>)) -> Swapped {
        self.port.control(self.now, self.dev).swap(f, whole).1
    }
    fn bury(&mut self) -> bool {
        self.port.bury(BURIED)
    }
}

/// Passes on a super-packet in one piece.
fn whole<F>(frame: F, m: &Meta, _: u32, each: &mut dyn FnMut(F, Meta)) {
    each(frame, *m);
}

/// A port while lines are run on it.
struct Open<'a, P> {
    tc: &'a mut TcPort,
    port: P,
}

impl<P: Changed> Devices for Open<'_, P> {
    fn kinds(&self) -> txweir_core::qdisc::Registry {
        self.port.trees().kinds()
    }
    fn names(&self) -> Vec<String> {
        vec![self.tc.name.clone()]
    }
    fn device(&mut self, name: &str) -> Option<&mut dyn Device> {
        (name == self.tc.name).then_some(self as &mut dyn Device)
    }
    fn filters(&self) -> &Filters {
        &self.tc.filters
    }
    fn filters_mut(&mut self) -> &mut Filters {
        &mut self.tc.filters
    }
    fn state(&self) -> &State {
        &self.tc.state
    }
    fn port(&mut self, name: &str) -> Option<PortId> {
        (name == self.tc.name || name == LOOPBACK).then(|| self.tc.ports.of(name))
    }
    fn now(&self) -> Instant {
        self.port.now()
    }
    fn pause(&mut self) {
        self.port.pause();
    }
    fn rates(&mut self) -> Option<Rates> {
        Some(Rates::clone(&self.tc.rates))
    }
}

impl<P: Changed> Device for Open<'_, P> {
    fn name(&self) -> &str {
        &self.tc.name
    }
    fn queues(&self) -> u32 {
        self.port.queues().into()
    }
    fn env(&self) -> Env {
        self.port.env()
    }
    fn tree(&self) -> Trees<'_> {
        self.port.trees()
    }
    fn hook(&self) -> Option<Hook> {
        self.tc.hook
    }
    fn set_hook(&mut self, hook: Option<Hook>) {
        self.tc.hook = hook;
    }
    fn configure(&mut self, f: &mut dyn FnMut(&mut Qdiscs<'_>)) {
        self.port.configure(f);
    }
    fn swap(&mut self, f: &mut dyn FnMut(&mut Qdiscs<'_>)) -> SwapDone {
        let Swapped { kept, moved, dropped, .. } = self.port.swap(f);
        SwapDone { kept, moved, dropped }
    }
    fn bury(&mut self) -> bool {
        self.port.bury()
    }
    fn queued(&self, f: &mut dyn FnMut(Handle, Handle, &Meta)) {
        self.port.trees().queued(f);
    }
}
