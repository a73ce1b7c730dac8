//! The end of a rehearsal: the changes are made to the real devices, each in one step.

use std::collections::BTreeMap;

use txweir_core::Handle;
use txweir_core::classify::filter::BlockId;
use txweir_core::path::qdiscs::Qdiscs;
use txweir_core::path::tree::{Grave, Whole};

use super::Rehearsal;
use super::shadow::Shadow;
use crate::ast::Place;
use crate::command::{self, Change as Said};
use crate::failure::REFUSED;
use crate::tool::session::{Done, free};
use crate::tool::{Device, Outcome, rates};

/// Qdiscs that are freed before packets have their turn.
const FREED: usize = 16;
/// Changes of classes that are put together before packets have their turn.
const GATHERED: usize = 256;

impl Rehearsal<'_> {
    /// Applies the rehearsed changes to the real devices, each in one step.
    ///
    /// That step stops packets, so it has as little work as can be: the options that were planned
    /// without a copy; or, if the device has a new root, the whole copy, which takes the place of
    /// the qdiscs that are there; or the lines that have changed the copy, once more.
    pub(in crate::tool) fn commit(mut self, mut outcome: Outcome, done: Vec<Done>) -> Outcome {
        let shares = done.iter().any(|d| d.shares);
        if shares && self.rates_refused(&mut outcome, &done) {
            free(done, self.real);
            self.end();
            return outcome;
        }
        let mut ready = Vec::new();
        for mut shadow in std::mem::take(&mut self.shadows).into_all() {
            while !shadow.bury() {
                self.real.pause();
            }
            let whole = self.whole(shadow);
            ready.push(whole);
        }
        for plan in self.plans.values_mut() {
            while !plan.revisions.gather(GATHERED) {
                self.real.pause();
            }
        }
        for plan in self.plans.values_mut() {
            free(std::mem::take(&mut plan.lines), self.real);
            plan.free_objects(self.real);
        }
        let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, line) in done.iter().enumerate() {
            places.entry(&line.device).or_default().push(at);
            if at % GATHERED == 0 {
                self.real.pause();
            }
        }
        for ready in &mut ready {
            let hooked = ready.hooks.iter().any(Option::is_some);
            let lines = places.remove(ready.name.as_str()).unwrap_or_default();
            ready.lines = lines.into_iter().filter(|at| !is_hook(&done[*at], hooked)).collect();
            self.real.pause();
        }
        self.real.pause();
        let mut plans = std::mem::take(&mut self.plans);
        for (name, plan) in plans.iter_mut().filter(|(_, plan)| !plan.revisions.is_empty()) {
            if let Some(device) = self.real.device(name) {
                device.swap(&mut |qdiscs| qdiscs.revise(&mut plan.revisions));
            }
        }
        for ready in &mut ready {
            self.put(ready, &done, &mut outcome);
        }
        let filters = self.real.filters().clone();
        *self.real.filters_mut() = std::mem::replace(&mut self.filters, filters);
        if let Some(rates) = if shares { self.real.rates() } else { None } {
            for Ready { name, .. } in &ready {
                if let Some(device) = self.real.device(name) {
                    rates::join(&rates, device);
                }
            }
        }
        free(done, self.real);
        for Ready { name, tree, .. } in ready {
            self.bury(tree);
            while self.real.device(&name).is_some_and(|device| !device.bury()) {
                self.real.pause();
            }
        }
        outcome
    }

    /// Ends a rehearsal that changes nothing.
    pub(in crate::tool) fn end(mut self) {
        for mut plan in std::mem::take(&mut self.plans).into_values() {
            plan.free_objects(self.real);
            free(plan.lines, self.real);
        }
        for mut shadow in std::mem::take(&mut self.shadows).into_all() {
            while !shadow.bury() {
                self.real.pause();
            }
            self.bury(shadow.waiting.is_empty().then_some(shadow.tree));
        }
    }

    /// Frees a copy.
    fn bury(&mut self, tree: Option<txweir_core::Tree>) {
        let Some(mut grave) = tree.map(Grave::of) else { return };
        while !grave.bury(FREED) {
            self.real.pause();
        }
    }

    /// Makes a copy ready for its device.
    fn whole(&mut self, shadow: Shadow) -> Ready {
        let Shadow { name, tree, hook, hook_before, .. } = shadow;
        let blocks = tree.blocks().collect();
        let fits = self.real.device(&name).is_some_and(|device| {
            let trees = device.tree();
            let mut env = *tree.env();
            env.room = trees.env().room;
            trees.is_of_port() == tree.is_of_port() && env == *trees.env()
        });
        let mut ready =
            Ready { name, blocks, lines: Vec::new(), hooks: [hook_before, hook], whole: None, tree: None };
        if !fits || !tree.has_new_root() {
            ready.tree = Some(tree);
            return ready;
        }
        let mut whole = Whole::of(tree);
        while !whole.prepare() {
            self.real.pause();
        }
        ready.whole = Some(whole);
        ready
    }

    /// Makes the changes of one copy to its device.
    fn put(&mut self, ready: &mut Ready, done: &[Done], outcome: &mut Outcome) {
        let Some(device) = self.real.device(&ready.name) else { return };
        let (mut refused, mut whole) = (None, ready.whole.take());
        // Filters are replaced as a whole, and so is the list of their owners.
        let take_over = |qdiscs: &mut Qdiscs<'_>| {
            drop(qdiscs.take_orphans());
            qdiscs.set_blocks(&ready.blocks);
        };
        if !ready.lines.is_empty() {
            // The copies have kept to the budget for all, after each line.
            device.set_room(u64::MAX);
            device.swap(&mut |qdiscs| {
                match whole.take() {
                    Some(whole) => qdiscs.put_whole(whole),
                    None => {
                        let mut lines = ready.lines.iter().filter_map(|at| done.get(*at));
                        let all = lines.try_for_each(|d| command::run(&d.source, &d.change, qdiscs));
                        refused = refused.take().or(all.err());
                    }
                }
                take_over(qdiscs);
            });
        } else if device.tree().blocks() != ready.blocks {
            device.configure(&mut |qdiscs| take_over(qdiscs));
        }
        if ready.hooks[0] != ready.hooks[1] {
            device.set_hook(ready.hooks[1]);
        }
        // The copy accepted a line that the device refuses, because of a qdisc that a copy cannot
        // tell from its own.
        if let Some(err) = refused {
            outcome.status = REFUSED;
            outcome.stderr.push_str(&format!("{err}\n"));
        }
    }
}

/// A device's copy, ready to be applied.
struct Ready {
    name: String,
    blocks: Vec<(Handle, BlockId)>,
    /// The places of the lines about its qdiscs, among all that change something.
    lines: Vec<usize>,
    /// The hooks before and after.
    hooks: [Option<crate::tool::Hook>; 2],
    /// All qdiscs, if they take the place of the present ones.
    whole: Option<Whole>,
    /// The copy, if not.
    tree: Option<txweir_core::Tree>,
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
