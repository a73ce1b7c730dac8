//! tc lines done to the devices of a host: their qdiscs, filters, actions and hooks.

use std::sync::Arc;

use txweir_core::classify::action::State;
use txweir_core::classify::filter::Filters;
use txweir_core::classify::packet::PortId;
use txweir_core::path::qdiscs::Qdiscs;
use txweir_core::path::trees::Trees;
use txweir_core::{Env, Handle, Instant, Meta};
use txweir_tc::tool::{Device, Devices, Hook, LOOPBACK, Rates, SwapDone};
use txweir_tc::{Command, Diagnostic, Policy};

use super::Nic;
use super::filtering::{Site, Target};
use super::transmit::Transmit;

/// A device of a host while policies are applied.
#[derive(Debug)]
pub struct HostDevice<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its NIC.
    pub nic: &'a mut Nic,
    /// True if packets can come in by it.
    pub receives: bool,
}

/// The devices of a host as tc sees them.
struct Host<'a> {
    devices: Vec<One<'a>>,
    now: Instant,
    /// Rates that the NICs of a net share by name.
    rates: &'a Rates,
    site: &'a mut Site,
}

/// One of them.
struct One<'a> {
    name: &'a str,
    transmit: &'a mut Transmit,
    now: Instant,
    /// Where actions send packets for it.
    target: Target,
}

/// Applies a policy to the devices of a host, whole or not at all. Lines that name no device are
/// for `unnamed`.
///
/// # Errors
/// The policy asks for something that a device or its line cannot do, or names a device that the
/// host has not.
pub fn apply(
    devices: Vec<HostDevice<'_>>,
    unnamed: &str,
    now: Instant,
    policy: &Policy,
    (site, rates): (&mut Site, &Rates),
) -> Result<(), Diagnostic> {
    let one = |d| {
        let HostDevice { name, nic, receives } = d;
        let target = Target { nic: nic.actor, receives };
        One { name, transmit: &mut nic.transmit, now, target }
    };
    let devices = devices.into_iter().map(one).collect();
    let mut host = Host { devices, now, rates, site };
    let done = policy.apply_to(&mut host, &[unnamed]);
    let Host { devices, site, .. } = host;
    site.filters.fit(&mut site.state);
    for One { name, transmit, target, .. } in devices {
        let Transmit { port, gates, paces, asks, .. } = transmit;
        (gates.nic, gates.port) = (target.nic, site.port_of(name, target));
        gates.fit(port);
        *paces = false;
        port.trees().visit(&mut |_, node| *paces |= node.qdisc().spec().kind == "fq");
        // A NIC without filters stays as fast as it was.
        *asks = gates.hook.is_some() || !port.trees().blocks().is_empty();
    }
    done
}

/// Returns the devices that actions of a policy send packets to.
pub fn targets(policy: &Policy) -> Vec<String> {
    let mut all = Vec::new();
    for cmd in policy.commands() {
        let words = match cmd {
            Command::Filter(cmd) => &cmd.options,
            Command::Actions(cmd) => &cmd.options,
            _ => continue,
        };
        // The device is one of the few words after `mirred egress redirect`.
        let mut mirred = false;
        for pair in words.windows(2) {
            mirred |= pair[0].text == "mirred";
            if mirred && pair[0].text == "dev" {
                all.push(pair[1].text.clone());
                mirred = false;
            }
        }
    }
    all
}

impl Site {
    /// Returns the number by which actions know a device.
    fn port_of(&mut self, name: &str, target: Target) -> PortId {
        let port = self.ports.of(name);
        let at = port.0 as usize - 1;
        if self.devices.len() <= at {
            self.devices.resize(at + 1, None);
        }
        self.devices[at] = Some(target);
        port
    }
}

impl Devices for Host<'_> {
    fn names(&self) -> Vec<String> {
        self.devices.iter().map(|d| d.name.into()).collect()
    }
    fn device(&mut self, name: &str) -> Option<&mut dyn Device> {
        self.devices.iter_mut().find(|d| d.name == name).map(|d| d as &mut dyn Device)
    }
    fn filters(&self) -> &Filters {
        &self.site.filters
    }
    fn filters_mut(&mut self) -> &mut Filters {
        &mut self.site.filters
    }
    fn state(&self) -> &State {
        &self.site.state
    }
    fn port(&mut self, name: &str) -> Option<PortId> {
        match self.devices.iter().find(|d| d.name == name) {
            Some(device) => Some(self.site.port_of(name, device.target)),
            None => (name == LOOPBACK).then(|| self.site.ports.of(name)),
        }
    }
    fn now(&self) -> Instant {
        self.now
    }
    fn rates(&mut self) -> Option<Rates> {
        Some(Arc::clone(self.rates))
    }
    fn room(&mut self, names: &[&str]) -> u64 {
        let others = self.devices.iter().filter(|device| !names.contains(&device.name));
        others.fold(self.site.room, |room, device| room.saturating_sub(device.transmit.port.trees().tables()))
    }
}

impl Device for One<'_> {
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
        self.transmit.gates.hook
    }
    fn set_hook(&mut self, hook: Option<Hook>) {
        self.transmit.gates.hook = hook;
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
