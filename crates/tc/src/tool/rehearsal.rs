//! Devices for rehearsals: copies of the structure of real ones, on which lines are tried before
//! they are run, or instead.

use std::collections::BTreeSet;

use txweir_core::classify::action::State;
use txweir_core::classify::filter::{BlockId, Filters};
use txweir_core::classify::packet::PortId;
use txweir_core::path::qdiscs::Qdiscs;
use txweir_core::path::select::{Selector, Sender};
use txweir_core::path::trees::Trees;
use txweir_core::qdisc::Registry;
use txweir_core::qdisc::mqprio;
use txweir_core::sched::cx::Cx;
use txweir_core::{ConfigError, Env, Handle, Instant, Meta, Tree};

use super::apply::scratch_cx;
use super::save::{filter_lines, own_actions, shared_lines};
use super::session::Done;
use super::{Device, Devices, Flags, Hook, LinkLine, Outcome, SwapDone, blocks};
use crate::ast::Place;
use crate::command::{self, Change as Said};
use crate::failure::REFUSED;
use crate::plan::{self, Change};
use crate::queued::{Queued, enqueue};
use crate::show;

/// Copies of devices, made on demand.
pub(super) struct Rehearsal<'a> {
    real: &'a mut dyn Devices,
    /// Copies of the filters of all devices, which share unchanged tables.
    before: Filters,
    filters: Filters,
    shadows: Vec<Shadow>,
    /// The bytes of tables that the real devices without a copy leave to those with one, and the
    /// number of copies for which this holds.
    room: (u64, usize),
    /// True if each device changes in one step, so that packets move; false if each line is a step,
    /// so that packets are dropped with the qdisc that they wait in.
    atomic: bool,
}

/// The copy of a device.
struct Shadow {
    name: String,
    queues: u32,
    before: Tree,
    tree: Tree,
    cx: Cx,
    hook_before: Option<Hook>,
    hook: Option<Hook>,
    waiting: Vec<Queued>,
}

impl<'a> Rehearsal<'a> {
    pub(super) fn new(real: &'a mut dyn Devices, atomic: bool) -> Self {
        let filters = real.filters().clone();
        Self { real, before: filters.clone(), filters, shadows: Vec::new(), room: (u64::MAX, 0), atomic }
    }

    /// Returns the output so far, with the plan after it. An atomic batch that has failed would
    /// change nothing.
    pub(super) fn plan(mut self, mut outcome: Outcome, flags: &Flags, done: &[Done]) -> Outcome {
        if self.atomic && (outcome.status != 0 || self.rates_refused(&mut outcome, done)) {
            return outcome;
        }
        let atomic = self.atomic;
        let mut changes: Vec<Change> = Vec::new();
        for shadow in &mut self.shadows {
            let hooks = [
                hook_text(&self.before, &shadow.name, shadow.hook_before, &shadow.before),
                hook_text(&self.filters, &shadow.name, shadow.hook, &shadow.tree),
            ];
            let mut change = shadow.change(atomic, hooks);
            let before = filter_lines(&self.before, &shadow.name, &shadow.before);
            let after = filter_lines(&self.filters, &shadow.name, &shadow.tree);
            change.lines.extend(plan::line_differences(&before, &after));
            changes.push(change);
        }
        let common = |filters: &Filters| -> Vec<String> {
            let mut made = BTreeSet::new();
            let actions = own_actions(&filters.actions, &mut made);
            actions.lines().map(String::from).chain(shared_lines(filters, &mut made)).collect()
        };
        let lines = plan::line_differences(&common(&self.before), &common(&self.filters));
        changes.push(Change { dev: String::new(), lines, moves: Vec::new() });
        outcome.stdout.push_str(&plan::print(&changes, flags.json, flags.pretty));
        outcome
    }

    /// Returns true if the devices could not have the rates that they would share after all lines;
    /// the refusal is then reported at the last of the lines about one.
    fn rates_refused(&self, outcome: &mut Outcome, done: &[Done]) -> bool {
        let trees: Vec<(&str, &Tree)> = self.shadows.iter().map(|s| (s.name.as_str(), &s.tree)).collect();
        let Err(err) = self.real.check_rates(&trees) else { return false };
        let line = done.iter().rfind(|d| d.change.shares()).or(done.last());
        let said = line.map(|d| command::refused(&d.source, &d.change, &err).to_string());
        outcome.status = REFUSED;
        outcome.stderr.push_str(&format!("{}\n", said.unwrap_or_else(|| err.to_string())));
        true
    }

    /// Applies the rehearsed changes to the real devices, each in one step.
    pub(super) fn commit(self, mut outcome: Outcome, done: Vec<Done>) -> Outcome {
        if self.rates_refused(&mut outcome, &done) {
            return outcome;
        }
        for shadow in &self.shadows {
            let hooked = shadow.hook.is_some() || shadow.hook_before.is_some();
            let lines: Vec<&Done> =
                done.iter().filter(|d| d.device == shadow.name && !is_hook(d, hooked)).collect();
            let Some(device) = self.real.device(&shadow.name) else { continue };
            let mut refused = None;
            // Filters are replaced as a whole, and so is the list of their owners.
            let blocks: Vec<(Handle, BlockId)> = shadow.tree.blocks().collect();
            let take_over = |qdiscs: &mut Qdiscs<'_>| {
                drop(qdiscs.take_orphans());
                qdiscs.set_blocks(&blocks);
            };
            if !lines.is_empty() {
                // The copies have kept to the budget for all, after each line.
                device.set_room(u64::MAX);
                device.swap(&mut |qdiscs| {
                    let all = lines.iter().try_for_each(|d| command::run(&d.source, &d.change, qdiscs));
                    refused = refused.take().or(all.err());
                    take_over(qdiscs);
                });
            } else if device.tree().blocks() != blocks {
                device.configure(&mut |qdiscs| take_over(qdiscs));
            }
            if shadow.hook != shadow.hook_before {
                device.set_hook(shadow.hook);
            }
            // The copy accepted a line that the device refuses, because of a qdisc that a copy
            // cannot tell from its own.
            if let Some(err) = refused {
                outcome.status = REFUSED;
                outcome.stderr.push_str(&format!("{err}\n"));
            }
        }
        *self.real.filters_mut() = self.filters;
        let names: Vec<&str> = self.shadows.iter().map(|s| s.name.as_str()).collect();
        if let Err(err) = self.real.join_rates(&names) {
            outcome.status = REFUSED;
            outcome.stderr.push_str(&format!("{err}\n"));
        }
        outcome
    }
}

/// Returns a hook in the words of a plan.
fn hook_text(filters: &Filters, dev: &str, hook: Option<Hook>, tree: &Tree) -> Option<String> {
    let shared = blocks::words(&blocks::numbers(filters, blocks::at_hooks(tree)));
    let text = |hook: Hook| format!("qdisc {} ffff: dev {dev} parent ffff:fff1 {shared}", hook.name());
    hook.map(|hook| text(hook).trim_end().to_string())
}

/// True if a line is about a hook and not about the tree; `hooked` if the device has or had one.
fn is_hook(done: &Done, hooked: bool) -> bool {
    const PLACE: Handle = Handle::new(0xffff, 0xfff1);
    const HOOK: Handle = Handle::new(0xffff, 0);
    let Said::Qdisc(cmd) = &done.change else { return false };
    let place = cmd.place.as_ref().map(|p| p.value);
    let by_handle = hooked && place.is_none() && cmd.handle.as_ref().is_some_and(|h| h.value == HOOK);
    matches!(place, Some(Place::Ingress | Place::Clsact)) || place == Some(Place::Below(PLACE)) || by_handle
}

impl Devices for Rehearsal<'_> {
    fn kinds(&self) -> Registry {
        self.real.kinds()
    }
    fn names(&self) -> Vec<String> {
        self.real.names()
    }
    fn device(&mut self, name: &str) -> Option<&mut dyn Device> {
        let at = match self.shadows.iter().position(|s| s.name == name) {
            Some(at) => at,
            None => {
                let shadow = Shadow::of(self.real.device(name)?, self.atomic)?;
                self.shadows.push(shadow);
                self.shadows.len() - 1
            }
        };
        self.shadows.get_mut(at).map(|s| s as &mut dyn Device)
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
        let shadow = || self.shadows.iter().any(|s| s.name == name).then_some(PortId::NONE);
        self.real.port(name).or_else(shadow)
    }
    fn is_unmarked(&self, name: &str) -> bool {
        self.real.is_unmarked(name)
    }
    fn now(&self) -> Instant {
        self.real.now()
    }
    /// Checks each line with the results of the lines before it; of an atomic batch all lines
    /// together, at its end.
    fn check_rates(&self, trees: &[(&str, &Tree)]) -> Result<(), ConfigError> {
        if self.atomic {
            return Ok(());
        }
        let others = self.shadows.iter().filter(|s| trees.iter().all(|(name, _)| *name != s.name));
        let all: Vec<(&str, &Tree)> =
            others.map(|s| (s.name.as_str(), &s.tree)).chain(trees.iter().copied()).collect();
        self.real.check_rates(&all)
    }
    fn room(&mut self, names: &[&str], exact: bool) -> u64 {
        if exact || self.room.1 != self.shadows.len() {
            let copied: Vec<&str> = self.shadows.iter().map(|s| s.name.as_str()).collect();
            self.room = (self.real.room(&copied, exact), copied.len());
        }
        let others = self.shadows.iter_mut().filter(|s| !names.contains(&s.name.as_str()));
        others.fold(self.room.0, |room, shadow| room.saturating_sub(shadow.tables(exact)))
    }
    fn link(&mut self, words: &[String], _dry: bool) -> Result<LinkLine, String> {
        let mut line = self.real.link(words, true)?;
        let new = line.would_be.take().filter(|device| self.shadows.iter().all(|s| s.name != device.name()));
        self.shadows.extend(new.and_then(|device| Shadow::of(device.as_ref(), self.atomic)));
        Ok(line)
    }
}

impl Shadow {
    /// Returns the copy of a device; `None` if its qdiscs cannot be written in tc's words, as those
    /// made by typed calls.
    fn of(device: &dyn Device, atomic: bool) -> Option<Self> {
        let mut waiting = Vec::new();
        let kinds = kinds(&device.tree());
        device.queued(&mut |parent, handle, meta| {
            let kind = kinds.iter().find(|(p, h, _)| (*p, *h) == (parent, handle)).map_or("qdisc", |k| k.2);
            waiting.push(Queued { parent, handle, kind, meta: *meta });
        });
        let mut cx = Cx::new(waiting.len(), device.env().seed);
        let before = show::copy(device.tree(), &mut scratch_cx()).ok()?;
        let mut tree = show::copy(device.tree(), &mut cx).ok()?;
        if !atomic {
            let metas: Vec<Meta> = waiting.iter().map(|q| q.meta).collect();
            enqueue(&mut tree, &mut cx, &metas);
        }
        Some(Self {
            name: device.name().into(),
            queues: device.queues(),
            before,
            tree,
            cx,
            hook_before: device.hook(),
            hook: device.hook(),
            waiting,
        })
    }

    /// Returns the bytes of its tables: a bound, or the `exact` number.
    fn tables(&mut self, exact: bool) -> u64 {
        if exact {
            self.tree.edit(&mut self.cx).count_tables();
        }
        self.tree.tables()
    }

    /// Chooses the queues of packets anew if they wait below a root that stands for the queues of a
    /// port and that is new.
    fn choose_queues(&self, metas: &mut [Meta]) {
        let of = |tree: &Tree| (tree.root().handle(), tree.root().qdisc().spec().kind);
        if !Trees::from(&self.tree).is_of_port() || of(&self.before) == of(&self.tree) {
            return;
        }
        let mut selector = Selector::new(self.tree.env().queues);
        selector.set_classes(mqprio::classes_of(self.tree.root().qdisc()));
        for meta in metas {
            meta.queue = selector.select(meta, &Sender::default(), None, self.cx.now);
        }
    }

    fn change(&mut self, atomic: bool, [before, after]: [Option<String>; 2]) -> Change {
        let lines = plan::differences(&self.name, &self.before, &self.tree);
        let mut change = Change { dev: self.name.clone(), lines, moves: Vec::new() };
        if before != after {
            change.lines.extend(before.map(plan::Line::removed));
            change.lines.extend(after.map(plan::Line::added));
        }
        if change.lines.is_empty() {
            return change;
        }
        let mut metas: Vec<Meta> = self.waiting.iter().map(|q| q.meta).collect();
        change.moves = match atomic {
            true => {
                self.choose_queues(&mut metas);
                let places = enqueue(&mut self.tree, &mut self.cx, &metas);
                plan::moves(&self.waiting, &places)
            }
            false => plan::stays(&self.waiting, &self.tree),
        };
        change
    }
}

impl Device for Shadow {
    fn name(&self) -> &str {
        &self.name
    }
    fn queues(&self) -> u32 {
        self.queues
    }
    fn env(&self) -> Env {
        *self.tree.env()
    }
    fn set_room(&mut self, bytes: u64) {
        self.tree.set_env(Env { room: bytes, ..*self.tree.env() });
    }
    fn tree(&self) -> Trees<'_> {
        Trees::with_pool(&self.tree, &self.cx.pool)
    }
    fn hook(&self) -> Option<Hook> {
        self.hook
    }
    fn set_hook(&mut self, hook: Option<Hook>) {
        self.hook = hook;
    }
    fn configure(&mut self, f: &mut dyn FnMut(&mut Qdiscs<'_>)) {
        f(&mut self.tree.edit(&mut self.cx));
    }
    fn swap(&mut self, f: &mut dyn FnMut(&mut Qdiscs<'_>)) -> SwapDone {
        self.configure(f);
        SwapDone::default()
    }
    fn queued(&self, f: &mut dyn FnMut(Handle, Handle, &Meta)) {
        for q in &self.waiting {
            f(q.parent, q.handle, &q.meta);
        }
    }
}

/// Returns every qdisc that packets may wait in: its place, its handle, its kind.
fn kinds(trees: &Trees<'_>) -> Vec<(Handle, Handle, &'static str)> {
    let mut all = Vec::new();
    trees.visit(&mut |place, node| all.push((place.parent, node.handle(), node.qdisc().spec().kind)));
    all
}
