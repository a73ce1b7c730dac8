//! tc lines done to a NIC: its qdiscs, filters, actions and hooks.

use txweir_core::classify::action::State;
use txweir_core::classify::filter::Filters;
use txweir_core::classify::packet::PortId;
use txweir_core::path::qdiscs::Qdiscs;
use txweir_core::path::rates::SharedRates;
use txweir_core::path::trees::Trees;
use txweir_core::{ConfigError, Env, Handle, Instant, Meta, Tree};
use txweir_tc::diagnostic::code;
use txweir_tc::policy::UNNAMED;
use txweir_tc::tool::{Device, Devices, Hook, SwapDone};
use txweir_tc::{Command, Diagnostic, Policy};

use super::filtering::Sieve;
use super::transmit::Transmit;

/// A NIC as tc sees it: the one device that there is.
struct Site<'a> {
    name: &'a str,
    transmit: &'a mut Transmit,
    now: Instant,
    /// Rates that the NICs of a net share by name.
    rates: &'a mut SharedRates,
    /// The NIC's, taken out meanwhile.
    sieve: Box<Sieve>,
}

/// See [`Nic::apply`](super::Nic::apply).
pub(super) fn apply(
    transmit: &mut Transmit,
    now: Instant,
    policy: &Policy,
    rates: &mut SharedRates,
) -> Result<(), Diagnostic> {
    can_do(policy)?;
    let name = policy.device()?.unwrap_or(UNNAMED);
    let sieve = transmit.sieve.take().unwrap_or_else(|| Box::new(Sieve::new(transmit.port.env().seed)));
    let mut site = Site { name, transmit, now, rates, sieve };
    let done = policy.apply_to(&mut site, &[name]);
    let Site { transmit, mut sieve, .. } = site;
    let port = &transmit.port;
    sieve.fit(port);
    transmit.paces = false;
    port.trees().visit(&mut |_, node| transmit.paces |= node.qdisc().spec().kind == "fq");
    // A NIC without filters stays as fast as it was.
    if sieve.hook.is_some() || !port.trees().blocks().is_empty() || !sieve.filters.is_empty() {
        transmit.sieve = Some(sieve);
    }
    done
}

/// Whether devices of the lab can do it.
///
/// # Errors
/// mirred: they send one another nothing.
pub(crate) fn can_do(policy: &Policy) -> Result<(), Diagnostic> {
    for cmd in policy.commands() {
        let words = match cmd {
            Command::Filter(cmd) => &cmd.options,
            Command::Actions(cmd) => &cmd.options,
            _ => continue,
        };
        let mut before = if matches!(cmd, Command::Actions(_)) { "action" } else { "" };
        for word in words {
            if matches!(before, "action" | "actions") && word.text == "mirred" {
                let source = std::sync::Arc::new(policy.source().clone());
                let message = "mirred: devices of the lab send one another nothing";
                let err = Diagnostic::error(code::UNSUPPORTED, &source, word.span.clone(), message);
                return Err(err.hint(Some("txweir run and txweir daemon have it".into())));
            }
            before = &word.text;
        }
    }
    Ok(())
}

impl Devices for Site<'_> {
    fn names(&self) -> Vec<String> {
        vec![self.name.into()]
    }
    fn device(&mut self, name: &str) -> Option<&mut dyn Device> {
        (name == self.name).then_some(self as &mut dyn Device)
    }
    fn filters(&self) -> &Filters {
        &self.sieve.filters
    }
    fn filters_mut(&mut self) -> &mut Filters {
        &mut self.sieve.filters
    }
    fn state(&self) -> &State {
        &self.sieve.state
    }
    fn port(&mut self, _name: &str) -> Option<PortId> {
        None
    }
    fn now(&self) -> Instant {
        self.now
    }
    fn check_rates(&self, trees: &[(&str, &Tree)]) -> Result<(), ConfigError> {
        let present: Vec<&Tree> = self.transmit.port.trees().trees().collect();
        self.rates.check(&trees.iter().map(|(_, tree)| *tree).collect::<Vec<_>>(), &present)
    }
    fn join_rates(&mut self, _names: &[&str]) -> Result<(), ConfigError> {
        let Transmit { port, device, .. } = &mut *self.transmit;
        let agreed = self.rates.agree(&port.trees().trees().collect::<Vec<_>>())?;
        port.control(self.now, device).configure_each(|tree, _| agreed.join(tree));
        Ok(())
    }
}

impl Device for Site<'_> {
    fn name(&self) -> &str {
        self.name
    }
    fn queues(&self) -> u32 {
        u32::from(self.transmit.port.queues())
    }
    fn env(&self) -> Env {
        *self.transmit.port.env()
    }
    fn tree(&self) -> Trees<'_> {
        self.transmit.port.trees()
    }
    fn hook(&self) -> Option<Hook> {
        self.sieve.hook
    }
    fn set_hook(&mut self, hook: Option<Hook>) {
        self.sieve.hook = hook;
    }
    fn configure(&mut self, f: &mut dyn FnMut(&mut Qdiscs<'_>)) {
        self.transmit.configure(self.now, f);
    }
    /// Nothing waits yet: a policy is applied before the run.
    fn swap(&mut self, f: &mut dyn FnMut(&mut Qdiscs<'_>)) -> SwapDone {
        self.configure(f);
        SwapDone::default()
    }
    fn queued(&self, _f: &mut dyn FnMut(Handle, Handle, &Meta)) {}
}
