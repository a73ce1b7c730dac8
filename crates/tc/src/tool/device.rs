//! What the tool needs of devices.

use std::fmt::{self, Debug};

use txweir_core::classify::action::State;
use txweir_core::classify::filter::Filters;
use txweir_core::classify::packet::PortId;
use txweir_core::path::entry::HookCounts;
use txweir_core::path::qdiscs::Qdiscs;
use txweir_core::path::trees::Trees;
use txweir_core::qdisc::Registry;
use txweir_core::{ConfigError, Env, Handle, Instant, Meta, Tally, Tree};

/// The ingress and egress hooks of a device: places for filters. As in Linux there is one handle, `ffff:`, for either of
/// the two. The device's tree knows which filters they have, by [`Hook::INGRESS`] and [`Hook::EGRESS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// `qdisc ingress ffff:`: for what the device receives.
    Ingress,
    /// `qdisc clsact ffff:`: for what the device receives and for what is sent to it.
    Clsact,
}

impl Hook {
    /// Where the tree of a device has the filters for what it receives.
    pub const INGRESS: Handle = Handle::new(0xffff, 0xfff2);
    /// Where it has the filters for what is sent to it, ahead of its qdiscs.
    pub const EGRESS: Handle = Handle::new(0xffff, 0xfff3);

    /// The word that tc has for it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ingress => "ingress",
            Self::Clsact => "clsact",
        }
    }
}

/// What became of the packets that were queued when a configuration was swapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwapDone {
    /// Those that wait where they waited before, in their order.
    pub kept: Tally,
    /// Those that were queued anew in what took the place of their qdisc.
    pub moved: Tally,
    /// Those that the new limits had no room for.
    pub dropped: Tally,
}

/// What a `link ...` line of a batch did, or would do.
#[derive(Default)]
pub struct LinkLine {
    /// What changes, each in one line (`+ link a0 type veth peer b0`); empty if all is as the line says already.
    pub changes: Vec<String>,
    /// The device that it would make, when it is only to say so: later lines of a dry run are about it.
    pub would_be: Option<Box<dyn Device>>,
}

impl Debug for LinkLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let new = self.would_be.as_ref().map(|device| device.name());
        f.debug_struct("LinkLine").field("changes", &self.changes).field("would_be", &new).finish()
    }
}

/// The numbers by which actions know devices: each name has its own, and keeps it.
#[derive(Clone, Debug, Default)]
pub struct Ports {
    names: Vec<String>,
}

impl Ports {
    /// The number of a name, which it gets now if it has none.
    pub fn of(&mut self, name: &str) -> PortId {
        let at = self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.into());
            self.names.len() - 1
        });
        // 0 is no port.
        PortId(u32::try_from(at + 1).unwrap_or(u32::MAX))
    }
    /// The name that has a number.
    pub fn name(&self, port: PortId) -> Option<&str> {
        let at = usize::try_from(port.0).ok()?.checked_sub(1)?;
        self.names.get(at).map(String::as_str)
    }
}

/// The loopback device of a machine: actions may name it, and it takes nothing here.
pub const LOOPBACK: &str = "lo";

/// The devices that there are.
pub trait Devices {
    /// The kinds that commands may name: those that the trees of all devices make.
    fn kinds(&self) -> Registry {
        Registry::BUILT_IN
    }
    /// Their names, in the order in which they are listed.
    fn names(&self) -> Vec<String>;
    /// The one of that name.
    fn device(&mut self, name: &str) -> Option<&mut dyn Device>;
    /// The filters and actions of all devices: which qdisc, class or hook has which is known to the tree of each device.
    fn filters(&self) -> &Filters;
    /// The same, to change. What packets are classified with is brought up to date before the next of them
    /// (`Filters::fit`).
    fn filters_mut(&mut self) -> &mut Filters;
    /// What filters and actions have counted.
    fn state(&self) -> &State;
    /// The number by which actions know a device, which stays its own: another of its name later has it too.
    /// [`LOOPBACK`] has one as well. None if there is no such device.
    fn port(&mut self, name: &str) -> Option<PortId>;
    /// The time.
    fn now(&self) -> Instant;
    /// Whether the devices of these names could have these trees in the place of their own, as far as it is about rates that
    /// qdiscs of any of them share by name (`tbf ... shared NAME`). A device that is not there yet is one more.
    ///
    /// An owner that keeps no [`SharedRates`](txweir_core::path::rates::SharedRates) refuses nothing, and then each such qdisc
    /// shapes alone.
    fn check_rates(&self, _trees: &[(&str, &Tree)]) -> Result<(), ConfigError> {
        Ok(())
    }
    /// Has the qdiscs of these devices, whose trees have been changed, join the rates that they name.
    fn join_rates(&mut self, _names: &[&str]) -> Result<(), ConfigError> {
        Ok(())
    }
    /// Does a `link ...` line of a batch, given the words after `link`; with `dry` it only says what would change. An
    /// error is one line for people.
    fn link(&mut self, _words: &[String], _dry: bool) -> Result<LinkLine, String> {
        Err("links cannot be changed from here".into())
    }
}

/// A device: its qdiscs, as tc sees them, whether they are one tree or one for each transmit queue.
pub trait Device {
    /// Its name.
    fn name(&self) -> &str;
    /// Its transmit queues, at least 1: tc counts a reference for each, and one more.
    fn queues(&self) -> u32;
    /// What defaults of its qdiscs depend on.
    fn env(&self) -> Env;
    /// Its qdiscs, with the packets that wait in them.
    fn tree(&self) -> Trees<'_>;
    /// Which hook it has.
    fn hook(&self) -> Option<Hook>;
    /// Puts a hook there, or takes it away.
    fn set_hook(&mut self, hook: Option<Hook>);
    /// What its hooks have counted since they are there. Nothing, of a device that no packets go through.
    fn hook_counts(&self) -> HookCounts {
        HookCounts::default()
    }
    /// Calls `f` on its qdiscs, between two bursts of packets. Packets in what it removes are dropped.
    fn configure(&mut self, f: &mut dyn FnMut(&mut Qdiscs<'_>));
    /// Like `configure`, for many changes in one step: packets that wait are kept, in their order, and wait afterwards
    /// where the tree that `f` has made puts them.
    fn swap(&mut self, f: &mut dyn FnMut(&mut Qdiscs<'_>)) -> SwapDone;
    /// Calls `f` on every packet that waits: the class that its qdisc hangs below, the qdisc's handle, the packet; in the
    /// order in which they would be put into a new tree.
    fn queued(&self, f: &mut dyn FnMut(Handle, Handle, &Meta));
}

/// No devices at all: for what needs none, as help does.
#[derive(Debug)]
pub struct NoDevices {
    filters: Filters,
    state: State,
}

impl Default for NoDevices {
    fn default() -> Self {
        Self { filters: Filters::new(), state: State::new(0) }
    }
}

impl Devices for NoDevices {
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
    fn device(&mut self, _name: &str) -> Option<&mut dyn Device> {
        None
    }
    fn filters(&self) -> &Filters {
        &self.filters
    }
    fn filters_mut(&mut self) -> &mut Filters {
        &mut self.filters
    }
    fn state(&self) -> &State {
        &self.state
    }
    fn port(&mut self, _name: &str) -> Option<PortId> {
        None
    }
    fn now(&self) -> Instant {
        Instant::ZERO
    }
}
