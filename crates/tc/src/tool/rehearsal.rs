//! Devices of paper: copies of the structure of real ones, on which lines are tried before, or instead of, being done.

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

/// Copies of devices, made as they are asked for.
pub(super) struct Rehearsal<'a> {
    real: &'a mut dyn Devices,
    /// Copies of the filters of all devices, whose tables are shared as long as they are not changed.
    before: Filters,
    filters: Filters,
    shadows: Vec<Shadow>,
    /// All is to be done in one step for each device, so that packets move; else each line is, so that they are dropped
    /// with the qdisc that they wait in.
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
        Self { real, before: filters.clone(), filters, shadows: Vec::new(), atomic }
    }

    /// What was printed so far, with the plan after it. An atomic batch that has failed would change nothing.
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

    /// Whether the devices could not have the rates that they would share once all lines were done; then the last of the lines
    /// that are about one is said to be refused.
    fn rates_refused(&self, outcome: &mut Outcome, done: &[Done]) -> bool {
        let trees: Vec<(&str, &Tree)> = self.shadows.iter().map(|s| (s.name.as_str(), &s.tree)).collect();
        let Err(err) = self.real.check_rates(&trees) else { return false };
        let line = done.iter().rfind(|d| d.change.shares()).or(done.last());
        let said = line.map(|d| command::refused(&d.source, &d.change, &err).to_string());
        outcome.status = REFUSED;
        outcome.stderr.push_str(&format!("{}\n", said.unwrap_or_else(|| err.to_string())));
        true
    }

    /// Does to the real devices what was rehearsed, each in one step.
    pub(super) fn commit(self, mut outcome: Outcome, done: Vec<Done>) -> Outcome {
        if self.rates_refused(&mut outcome, &done) {
            return outcome;
        }
        for shadow in &self.shadows {
            let lines: Vec<&Done> = done.iter().filter(|d| d.device == shadow.name && !is_hook(d)).collect();
            let Some(device) = self.real.device(&shadow.name) else { continue };
            let mut refused = None;
            // Filters are taken over whole, so which of them are whose is, too.
            let blocks: Vec<(Handle, BlockId)> = shadow.tree.blocks().collect();
            let take_over = |qdiscs: &mut Qdiscs<'_>| {
                drop(qdiscs.take_orphans());
                qdiscs.set_blocks(&blocks);
            };
            if !lines.is_empty() {
                device.swap(&mut |qdiscs| {
                    let all = lines.iter().try_for_each(|d| command::run(&d.source, &d.change, qdiscs));
                    refused = refused.take().or(all.err());
                    take_over(qdiscs);
                });
            } else if !device.tree().blocks().eq(blocks.iter().copied()) {
                device.configure(&mut |qdiscs| take_over(qdiscs));
            }
            if shadow.hook != shadow.hook_before {
                device.set_hook(shadow.hook);
            }
            // What a copy took and the device does not: a qdisc that a copy cannot tell from it.
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

/// A hook, as a plan says it.
fn hook_text(filters: &Filters, dev: &str, hook: Option<Hook>, tree: &Tree) -> Option<String> {
    let shared = blocks::words(&blocks::numbers(filters, blocks::at_hooks(tree)));
    let text = |hook: Hook| format!("qdisc {} ffff: dev {dev} parent ffff:fff1 {shared}", hook.name());
    hook.map(|hook| text(hook).trim_end().to_string())
}

/// Whether a line is about a hook and not about the tree.
fn is_hook(done: &Done) -> bool {
    const HOOK: Handle = Handle::new(0xffff, 0);
    let Said::Qdisc(cmd) = &done.change else { return false };
    let place = cmd.place.as_ref().map(|p| p.value);
    let by_handle = place.is_none() && cmd.handle.as_ref().is_some_and(|h| h.value == HOOK);
    matches!(place, Some(Place::Ingress | Place::Clsact))
        || matches!(place, Some(Place::Below(parent)) if parent != Handle::ROOT && parent.qdisc() == HOOK)
        || by_handle
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
        // A device that is yet to be made has its number when it is.
        let shadow = || self.shadows.iter().any(|s| s.name == name).then_some(PortId::NONE);
        self.real.port(name).or_else(shadow)
    }
    fn now(&self) -> Instant {
        self.real.now()
    }
    /// Line by line each is checked with what the lines before it would have made; of an atomic batch all are, at its end.
    fn check_rates(&self, trees: &[(&str, &Tree)]) -> Result<(), ConfigError> {
        if self.atomic {
            return Ok(());
        }
        let others = self.shadows.iter().filter(|s| trees.iter().all(|(name, _)| *name != s.name));
        let all: Vec<(&str, &Tree)> =
            others.map(|s| (s.name.as_str(), &s.tree)).chain(trees.iter().copied()).collect();
        self.real.check_rates(&all)
    }
    fn link(&mut self, words: &[String], _dry: bool) -> Result<LinkLine, String> {
        let mut line = self.real.link(words, true)?;
        let new = line.would_be.take().filter(|device| self.shadows.iter().all(|s| s.name != device.name()));
        self.shadows.extend(new.and_then(|device| Shadow::of(device.as_ref(), self.atomic)));
        Ok(line)
    }
}

impl Shadow {
    /// The copy of a device; `None` if its qdiscs cannot be said in tc's words, as those put there by typed calls.
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

    /// What waits below a root that stands for the queues of a port is chosen a queue for anew where another root was there.
    fn choose_queues(&self, metas: &mut [Meta]) {
        let of = |tree: &Tree| (tree.root().handle(), tree.root().qdisc().spec().kind);
        if !self.tree.is_of_port() || of(&self.before) == of(&self.tree) {
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

/// Every qdisc that packets may wait in: its place, its handle, its kind.
fn kinds(trees: &Trees<'_>) -> Vec<(Handle, Handle, &'static str)> {
    let mut all = Vec::new();
    trees.visit(&mut |place, node| all.push((place.parent, node.handle(), node.qdisc().spec().kind)));
    all
}
