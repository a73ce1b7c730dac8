//! The interface between the tool and devices.

mod steps;

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::sync::Arc;

use txweir_core::classify::action::State;
use txweir_core::classify::filter::Filters;
use txweir_core::classify::packet::PortId;
use txweir_core::path::entry::HookCounts;
use txweir_core::path::qdiscs::Qdiscs;
use txweir_core::path::trees::Trees;
use txweir_core::qdisc::Registry;
use txweir_core::{Env, Handle, Instant, Meta, Tally};

use super::Rates;
use crate::command::Change;
use crate::source::Source;

/// The ingress and egress hooks of a device: places for filters. As in Linux there is one handle,
/// `ffff:`, for either of the two. The device's tree knows which filters they have, by
/// [`Hook::INGRESS`] and [`Hook::EGRESS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// `qdisc ingress ffff:`: for packets that the device receives.
    Ingress,
    /// `qdisc clsact ffff:`: for packets that the device receives and for packets that are sent to
    /// it.
    Clsact,
}

impl Hook {
    /// Handle under which the tree of a device has the filters for received packets.
    pub const INGRESS: Handle = Handle::new(0xffff, 0xfff2);
    /// Handle under which it has the filters for packets sent to it, ahead of its qdiscs.
    pub const EGRESS: Handle = Handle::new(0xffff, 0xfff3);

    /// Returns its tc word.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ingress => "ingress",
            Self::Clsact => "clsact",
        }
    }
}

/// The fate of the packets that were queued when a configuration was swapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwapDone {
    /// Packets that wait where they waited before, in their order.
    pub kept: Tally,
    /// Packets queued anew in the qdiscs that replaced theirs.
    pub moved: Tally,
    /// Packets for which the new limits had no room.
    pub dropped: Tally,
}

/// The effect of a `link ...` line of a batch, done or planned.
#[derive(Default)]
pub struct LinkLine {
    /// The changes, each in one line (`+ link a0 type veth peer b0`); empty if everything is
    /// already as the line says.
    pub changes: Vec<String>,
    /// In a dry run the device that the line would make, or change, as it would be then, for the
    /// lines after it. Of one that would be changed only the name and the surroundings count.
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
    /// The place of each name in the list.
    places: BTreeMap<String, usize>,
}

impl Ports {
    /// Returns the number of a name, a new one if it has none.
    pub fn of(&mut self, name: &str) -> PortId {
        let at = self.places.get(name).copied().unwrap_or_else(|| {
            self.names.push(name.into());
            self.places.insert(name.into(), self.names.len() - 1);
            self.names.len() - 1
        });
        // 0 is no port.
        PortId(u32::try_from(at + 1).unwrap_or(u32::MAX))
    }
    /// True if a name has a number.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }
    /// Returns the name that has a number.
    pub fn name(&self, port: PortId) -> Option<&str> {
        let at = usize::try_from(port.0).ok()?.checked_sub(1)?;
        self.names.get(at).map(String::as_str)
    }
}

/// The loopback device of a machine: actions may name it, and it takes no packets here.
pub const LOOPBACK: &str = "lo";

/// Objects that a step of a request looks at before packets have their turn.
pub(super) const OBJECTS: usize = 16;

/// A line of a batch on its way to a device.
#[derive(Clone, Copy, Debug)]
pub struct InPlace<'a> {
    pub(crate) source: &'a Arc<Source>,
    pub(crate) change: &'a Change,
}

/// All devices of an owner.
pub trait Devices {
    /// Returns the kinds that commands may name: those that the trees of all devices make.
    fn kinds(&self) -> Registry {
        Registry::BUILT_IN
    }
    /// Returns their names, in the order in which they are listed.
    fn names(&self) -> Vec<String>;
    /// Returns the device of that name.
    fn device(&mut self, name: &str) -> Option<&mut dyn Device>;
    /// Returns the filters and actions of all devices. The tree of each device knows the filters of
    /// its qdiscs, classes and hooks.
    fn filters(&self) -> &Filters;
    /// Returns the filters and actions for a change. The state for classification is brought up to
    /// date before the next packet (`Filters::fit`).
    fn filters_mut(&mut self) -> &mut Filters;
    /// Returns the counts of filters and actions.
    fn state(&self) -> &State;
    /// Returns the number by which actions know a device. The number belongs to the name: a later
    /// device of that name has it too. [`LOOPBACK`] has one as well. `None` if there is no such
    /// device, and an action may not name one that is missing.
    fn port(&mut self, name: &str) -> Option<PortId>;
    /// True if packets of the device carry no firewall mark until an action sets one: those of an
    /// interface, whose frames come without the marks of the kernel.
    fn is_unmarked(&self, _name: &str) -> bool {
        false
    }
    /// Returns the time.
    fn now(&self) -> Instant;
    /// True if there is a device of that name.
    fn has(&mut self, name: &str) -> bool {
        self.device(name).is_some()
    }
    /// Plans a line that gives new options to one object of a device, if that is all that it does
    /// and the devices are to be changed later. Returns whether it changes anything; `None` if the
    /// line is to be run.
    fn plan(&mut self, _device: &str, _line: &InPlace<'_>) -> Option<bool> {
        None
    }
    /// Lets the owner do other work, such as to carry packets. It is called between two steps of a
    /// request, each of which takes a bounded time; the devices may have another time afterwards,
    /// and other packets. Their qdiscs and filters stay.
    fn pause(&mut self) {}
    /// Returns the rates that qdiscs of its devices share by name (`tbf ... shared NAME`).
    ///
    /// The default is for an owner that keeps none: then no such line is refused, and each such
    /// qdisc shapes alone.
    fn rates(&mut self) -> Option<Rates> {
        None
    }
    /// Returns the bytes of tables that devices other than these leave to them, of a budget that
    /// all devices have together; `u64::MAX` without one.
    fn room(&mut self, _names: &[&str]) -> u64 {
        u64::MAX
    }
    /// Runs a `link ...` line of a batch, given the words after `link`; with `dry` it only reports
    /// the changes. An error is one line of text.
    fn link(&mut self, _words: &[String], _dry: bool) -> Result<LinkLine, String> {
        Err("links cannot be changed from here".into())
    }
}

/// A device: its qdiscs, as tc sees them, in one tree or in one for each transmit queue.
pub trait Device {
    /// Returns its name.
    fn name(&self) -> &str;
    /// Returns the number of its transmit queues, at least 1: tc counts a reference for each, and
    /// one more.
    fn queues(&self) -> u32;
    /// Returns the number of copies of its qdiscs, each of which a thread of its own has; all are
    /// changed alike. A function for its qdiscs is called once for each.
    fn copies(&self) -> usize {
        1
    }
    /// Returns the surroundings that the defaults of its qdiscs depend on.
    fn env(&self) -> Env;
    /// Sets the bytes of tables that other devices leave to it (`Env::room`). The default is for a
    /// device whose owner has no budget for all ([`Devices::room`]).
    fn set_room(&mut self, _bytes: u64) {}
    /// Returns its qdiscs, with the packets that wait in them.
    fn tree(&self) -> Trees<'_>;
    /// Calls `f` on each copy of its qdiscs.
    fn each_copy(&self, f: &mut dyn FnMut(&Trees<'_>)) {
        f(&self.tree());
    }
    /// Returns its hook.
    fn hook(&self) -> Option<Hook>;
    /// Adds a hook, or removes it.
    fn set_hook(&mut self, hook: Option<Hook>);
    /// Returns the counts of its hooks since they exist; zero for a device that no packets go
    /// through.
    fn hook_counts(&self) -> HookCounts {
        HookCounts::default()
    }
    /// Calls `f` on its qdiscs, on each copy of them, between two bursts of packets. Packets in
    /// removed qdiscs are dropped.
    fn configure(&mut self, f: &mut dyn FnMut(&mut Qdiscs<'_>));
    /// Calls `f` on its qdiscs, for many changes in one step: waiting packets are kept, in their
    /// order, and wait afterwards where the tree that `f` has made puts them.
    fn swap(&mut self, f: &mut dyn FnMut(&mut Qdiscs<'_>)) -> SwapDone;
    /// Frees some of the qdiscs that the last swap has replaced; true once all are freed.
    fn bury(&mut self) -> bool {
        true
    }
    /// Calls `f` on every waiting packet, with the class that its qdisc hangs below, the qdisc's
    /// handle, and the packet; in the order in which they would be put into a new tree.
    fn queued(&self, f: &mut dyn FnMut(Handle, Handle, &Meta));
}

/// No devices at all: for requests that need none, such as help.
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
