//! Devices for rehearsals: copies of the structure of real ones, on which lines are tried before
//! they are run, or instead.
//!
//! A line that gives new options to one object is planned beside the real qdiscs, without a copy
//! ([`command::plan`]). The first line of another sort, and the second about one object, makes the
//! copy. Packets have their turn between two steps of all this ([`Devices::pause`]).

mod commit;
mod copies;
mod shadow;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use txweir_core::classify::action::State;
use txweir_core::classify::filter::Filters;
use txweir_core::classify::packet::PortId;
use txweir_core::path::qdiscs::{Planned, Revisions};
use txweir_core::path::trees::Trees;
use txweir_core::qdisc::Registry;
use txweir_core::{ConfigError, Instant, Tree};

use super::apply::shares;
use super::save::{Made, filter_lines, own_actions, shared_lines};
use super::session::Done;
use super::{Device, Devices, Flags, Hook, InPlace, LinkLine, Outcome, Rates, blocks, rates};
use crate::command::{self, Change as Said, Planning};
use crate::failure::REFUSED;
use crate::plan::{self, Change};
use crate::source::Source;
use copies::Copies;
use shadow::Shadow;

/// Names that are freed before packets have their turn.
const FREED: usize = 256;

/// Copies of devices, made on demand.
pub(super) struct Rehearsal<'a> {
    real: &'a mut dyn Devices,
    /// Copies of the filters of all devices, which share unchanged tables.
    before: Filters,
    filters: Filters,
    shadows: Copies,
    /// The devices without a copy about which there were lines, by their names.
    plans: BTreeMap<String, InPlan>,
    /// The bytes of tables that the real devices without a copy leave to those with one, and the
    /// number of copies for which this holds.
    room: (u64, usize),
    /// True if each device changes in one step, so that packets move; false if each line is a step,
    /// so that packets are dropped with the qdisc that they wait in.
    atomic: bool,
    /// The rates that the copies share by name, as far as the lines so far go. `None` before the
    /// first line about one, and in an atomic batch, whose rates are checked at its end.
    rates: Option<Rates>,
    /// True if the result is printed, with the fate of packets: then each device has a copy, and
    /// one as it was.
    printed: bool,
}

/// New options for objects of a device that has no copy.
#[derive(Default)]
struct InPlan {
    /// The objects that the lines were about.
    objects: BTreeSet<Planning>,
    revisions: Revisions,
    /// The lines that change something.
    lines: Vec<(Arc<Source>, Said)>,
}

impl InPlan {
    /// Frees the names of its objects, with turns for packets between them.
    fn free_objects(&mut self, real: &mut dyn Devices) {
        while self.objects.pop_first().is_some() {
            if self.objects.len().is_multiple_of(FREED) {
                real.pause();
            }
        }
    }
}

impl<'a> Rehearsal<'a> {
    pub(super) fn new(real: &'a mut dyn Devices, atomic: bool, printed: bool) -> Self {
        let filters = real.filters().clone();
        let (shadows, plans) = (Copies::default(), BTreeMap::new());
        Self {
            real,
            before: filters.clone(),
            filters,
            shadows,
            plans,
            room: (u64::MAX, 0),
            rates: None,
            atomic,
            printed,
        }
    }

    /// Puts a copy among those that share rates, in the place of its device.
    fn adopt(&mut self, mut shadow: Shadow) {
        if let Some(rates) = &self.rates {
            share(rates, self.real, &mut shadow);
        }
        self.shadows.push(shadow);
    }

    /// Gives the copy of a device the surroundings that it has after a line about links.
    ///
    /// # Errors
    /// The options of its root do not fit them.
    fn fit(&mut self, device: &dyn Device) -> Result<(), ConfigError> {
        let name = device.name();
        // The copy is made if there is none yet.
        if self.device(name).is_none() {
            return Ok(());
        }
        let Some(shadow) = self.shadows.get_mut(name) else { return Ok(()) };
        let orphans = shadow.fit(self.real, &device.env())?;
        if let Some(rates) = &self.rates {
            rates::join(rates, shadow);
        }
        let port = self.real.port(name).unwrap_or(PortId::NONE);
        orphans.into_iter().for_each(|block| self.filters.delete_block(block, port));
        Ok(())
    }

    /// Returns the output so far, with the plan after it. An atomic batch that has failed would
    /// change nothing.
    pub(super) fn plan(mut self, mut outcome: Outcome, flags: &Flags, done: &[Done]) -> Outcome {
        if self.atomic && (outcome.status != 0 || self.rates_refused(&mut outcome, done)) {
            return outcome;
        }
        let atomic = self.atomic;
        let mut changes: Vec<Change> = Vec::new();
        let [before, after] = [&self.before, &self.filters].map(|filters| {
            let mut made = Made::default();
            (own_actions(&filters.actions, &mut made), made)
        });
        for shadow in self.shadows.iter_mut() {
            let hooks = [
                hook_text(
                    &self.before,
                    &shadow.name,
                    shadow.hook_before,
                    shadow.before.as_ref().unwrap_or(&shadow.tree),
                ),
                hook_text(&self.filters, &shadow.name, shadow.hook, &shadow.tree),
            ];
            let mut change = shadow.change(atomic, hooks);
            let tree = shadow.before.as_ref().unwrap_or(&shadow.tree);
            let was = filter_lines(&self.before, &before.1, &shadow.name, tree);
            let is = filter_lines(&self.filters, &after.1, &shadow.name, &shadow.tree);
            change.lines.extend(plan::line_differences(&was, &is));
            changes.push(change);
        }
        let common = |filters: &Filters, (actions, mut made): (String, Made<'_>)| -> Vec<String> {
            actions.lines().map(String::from).chain(shared_lines(filters, &mut made)).collect()
        };
        let lines = plan::line_differences(&common(&self.before, before), &common(&self.filters, after));
        changes.push(Change { dev: String::new(), lines, moves: Vec::new() });
        outcome.stdout.push_str(&plan::print(&changes, flags.json, flags.pretty));
        outcome
    }

    /// Returns true if the devices could not have the rates that they would share after all lines;
    /// the refusal is then reported at the last of the lines about one.
    fn rates_refused(&mut self, outcome: &mut Outcome, done: &[Done]) -> bool {
        let trees: Vec<(&str, &Tree)> = self.shadows.iter().map(|s| (s.name.as_str(), &s.tree)).collect();
        let Err(err) = rates::check(self.real, &trees) else { return false };
        let line = done.iter().rfind(|d| d.change.shares()).or(done.last());
        let said = line.map(|d| command::refused(&d.source, &d.change, &err).to_string());
        outcome.status = REFUSED;
        outcome.stderr.push_str(&format!("{}\n", said.unwrap_or_else(|| err.to_string())));
        true
    }
}

/// Lets a copy share rates in the place of its device.
fn share(rates: &Rates, real: &mut dyn Devices, shadow: &mut Shadow) {
    if let Some(device) = real.device(&shadow.name) {
        device.each_copy(&mut |trees| trees.trees().for_each(|tree| rates::lock(rates).leave(tree)));
    }
    rates::join(rates, shadow);
}

/// Returns a hook in the words of a plan.
fn hook_text(filters: &Filters, dev: &str, hook: Option<Hook>, tree: &Tree) -> Option<String> {
    let shared = blocks::words(&blocks::numbers(filters, blocks::at_hooks(tree)));
    let text = |hook: Hook| format!("qdisc {} ffff: dev {dev} parent ffff:fff1 {shared}", hook.name());
    hook.map(|hook| text(hook).trim_end().to_string())
}

impl Devices for Rehearsal<'_> {
    fn kinds(&self) -> Registry {
        self.real.kinds()
    }
    fn names(&self) -> Vec<String> {
        self.real.names()
    }
    fn device(&mut self, name: &str) -> Option<&mut dyn Device> {
        if !self.shadows.has(name) {
            let mut shadow = Shadow::of(self.real, name, (self.atomic, self.printed))?;
            for (source, said) in self.plans.remove(name).into_iter().flat_map(|plan| plan.lines) {
                // A line that was planned alone is done in the same way beside the others.
                shadow.configure(&mut |qdiscs| drop(command::run(&source, &said, qdiscs)));
                self.real.pause();
            }
            self.adopt(shadow);
        }
        self.shadows.get_mut(name).map(|s| s as &mut dyn Device)
    }
    fn has(&mut self, name: &str) -> bool {
        self.shadows.has(name) || self.real.has(name)
    }
    fn plan(&mut self, name: &str, line: &InPlace<'_>) -> Option<bool> {
        if self.printed {
            return None;
        }
        if let Some(shadow) = self.shadows.get(name) {
            let trees = Trees::from(&shadow.tree);
            if shares(line.change, &trees) {
                return None;
            }
            // A line without an effect needs not be done again on the device.
            let planned = command::plan(line.change, &trees);
            return matches!(planned, Some((_, Planned::Same))).then_some(false);
        }
        let device = self.real.device(name)?;
        // Options that were read before are put in once, and so into one copy.
        if device.copies() > 1 || shares(line.change, &device.tree()) {
            return None;
        }
        let (object, planned) = command::plan(line.change, &device.tree())?;
        let plan = self.plans.entry(name.to_owned()).or_default();
        if !plan.objects.insert(object) {
            return None;
        }
        match planned {
            Planned::Same => Some(false),
            Planned::Change(change) => {
                plan.revisions.push(change);
                plan.lines.push((Arc::clone(line.source), line.change.clone()));
                Some(true)
            }
        }
    }
    fn pause(&mut self) {
        self.shadows.bury();
        self.real.pause();
    }
    fn filters(&self) -> &Filters {
        &self.filters
    }
    fn filters_mut(&mut self) -> &mut Filters {
        &mut self.filters
    }
    fn state(&self) -> &State {
        self.real.state()
    }
    fn port(&mut self, name: &str) -> Option<PortId> {
        // A device that is not made yet gets its number when it is made.
        let shadow = || self.shadows.has(name).then_some(PortId::NONE);
        self.real.port(name).or_else(shadow)
    }
    fn is_unmarked(&self, name: &str) -> bool {
        self.real.is_unmarked(name)
    }
    fn now(&self) -> Instant {
        self.real.now()
    }
    /// In an atomic batch all lines are checked together, at its end: see `rates_refused`.
    fn rates(&mut self) -> Option<Rates> {
        if self.atomic {
            return None;
        }
        // A replaced qdisc shares its rate until it is freed.
        while !self.shadows.bury() {
            self.real.pause();
        }
        if self.rates.is_none() {
            let known = rates::lock(&self.real.rates()?).apart();
            let rates = Rates::new(Mutex::new(known));
            self.shadows.iter_mut().for_each(|shadow| share(&rates, self.real, shadow));
            self.rates = Some(rates);
        }
        self.rates.clone()
    }
    fn room(&mut self, names: &[&str]) -> u64 {
        if self.room.1 != self.shadows.len() {
            let copied: Vec<&str> = self.shadows.iter().map(|s| s.name.as_str()).collect();
            self.room = (self.real.room(&copied), copied.len());
        }
        self.room.0.saturating_sub(self.shadows.tables_but(names))
    }
    fn link(&mut self, words: &[String], _dry: bool) -> Result<LinkLine, String> {
        let mut line = self.real.link(words, true)?;
        let Some(device) = line.would_be.take() else { return Ok(line) };
        let name = device.name();
        if self.has(name) {
            self.fit(device.as_ref()).map_err(|err| format!("link {name}: {err}"))?;
        } else if let Some(shadow) = Shadow::of_new(device.as_ref()) {
            self.adopt(shadow);
        }
        Ok(line)
    }
}
