//! `Shadow`: the copy of one device.

use txweir_core::classify::filter::BlockId;
use txweir_core::path::qdiscs::Qdiscs;
use txweir_core::path::select::{Selector, Sender};
use txweir_core::path::tree::Grave;
use txweir_core::path::trees::Trees;
use txweir_core::qdisc::{mqprio, taprio};
use txweir_core::sched::cx::Cx;
use txweir_core::{ConfigError, Env, Handle, Meta, Tree};

use crate::plan::{self, Change};
use crate::queued::{Queued, enqueue};
use crate::show::{self, Copying};
use crate::tool::apply::scratch_cx;
use crate::tool::{Device, Devices, Hook, SwapDone};

/// Objects that are copied, or freed, before packets have their turn.
const COPIED: usize = 16;

/// The copy of a device.
pub(super) struct Shadow {
    pub(super) name: String,
    pub(super) queues: u32,
    /// The device as it was, if that is printed.
    pub(super) before: Option<Tree>,
    pub(super) tree: Tree,
    pub(super) cx: Cx,
    pub(super) hook_before: Option<Hook>,
    pub(super) hook: Option<Hook>,
    pub(super) waiting: Vec<Queued>,
    /// Replaced qdiscs of the copy, which are freed in parts.
    graves: Vec<Grave>,
}

impl Shadow {
    /// Returns the copy of a device; `None` if there is none of the name, or if its qdiscs cannot
    /// be written in tc's words, as those made by typed calls. If a plan is `printed`, the copy has
    /// the packets too.
    pub(super) fn of(real: &mut dyn Devices, name: &str, (atomic, printed): (bool, bool)) -> Option<Self> {
        let now = real.now();
        let device = real.device(name)?;
        let mut waiting = Vec::new();
        if printed {
            let kinds = kinds(&device.tree());
            device.queued(&mut |parent, handle, meta| {
                let there = kinds.iter().find(|(p, h, _)| (*p, *h) == (parent, handle));
                waiting.push(Queued { parent, handle, kind: there.map_or("qdisc", |k| k.2), meta: *meta });
            });
        }
        let mut cx = Cx::new(waiting.len().max(1), device.env().seed);
        // Its qdiscs may become those of the device.
        cx.now = now;
        let (queues, hook) = (device.queues(), device.hook());
        let mut tree = copied(real, name, &mut cx)?;
        let before = if printed { Some(copied(real, name, &mut scratch_cx())?) } else { None };
        if printed && !atomic {
            let metas: Vec<Meta> = waiting.iter().map(|q| q.meta).collect();
            enqueue(&mut tree, &mut cx, &metas);
        }
        tree.replaced = Some(Vec::new());
        let (name, graves) = (name.into(), Vec::new());
        Some(Self { name, queues, before, tree, cx, hook_before: hook, hook, waiting, graves })
    }

    /// Returns the copy of a device that a line would make.
    pub(super) fn of_new(device: &dyn Device) -> Option<Self> {
        let mut cx = Cx::new(1, device.env().seed);
        let tree = show::copy(device.tree(), &mut cx).ok()?;
        let before = show::copy(device.tree(), &mut scratch_cx()).ok();
        Some(Self {
            name: device.name().into(),
            queues: device.queues(),
            before,
            tree,
            cx,
            hook_before: device.hook(),
            hook: device.hook(),
            waiting: Vec::new(),
            graves: Vec::new(),
        })
    }

    /// Gives the copy the surroundings that the device has after a line about links. As on the
    /// device, a root that stands for the queues is made anew for another number of them, and each
    /// queue that stays keeps its qdiscs. Returns the filters of places that are gone.
    ///
    /// # Errors
    /// The options of the root do not fit the number of queues. Nothing has changed.
    pub(super) fn fit(&mut self, real: &mut dyn Devices, new: &Env) -> Result<Vec<BlockId>, ConfigError> {
        let before = *self.tree.env();
        let Env { mtu, tx_queue_len, queues, link_rate, .. } = *new;
        self.tree.set_env(Env { mtu, tx_queue_len, queues, link_rate, ..before });
        let root = self.tree.root().handle();
        let stands = Trees::from(&self.tree).is_met_first(Handle::new(root.major(), 1));
        if queues == before.queues || !(root.is_none() || stands) {
            self.queues = queues.into();
            return Ok(Vec::new());
        }
        let mut cx = Cx::new(self.waiting.len().max(1), before.seed);
        cx.now = self.cx.now;
        // The root is the first object of a copy.
        let made = Copying::of(&Trees::from(&self.tree)).step(&Trees::from(&self.tree), 1, &mut cx);
        if let Err(err) = made {
            self.tree.set_env(before);
            return Err(err);
        }
        for queue in queues..before.queues {
            // Only a qdisc that was added can be deleted, and only such a one is copied.
            let _ = self.tree.edit(&mut self.cx).delete(Handle::new(root.major(), queue + 1));
        }
        let orphans = self.tree.edit(&mut self.cx).take_orphans();
        let mut copying = Copying::of(&Trees::from(&self.tree));
        while !copying.step(&Trees::from(&self.tree), COPIED, &mut cx)? {
            real.pause();
        }
        let holds = !self.tree.root().is_empty();
        let old = std::mem::replace(&mut self.tree, copying.end());
        self.tree.replaced = Some(Vec::new());
        self.cx = cx;
        if holds {
            let metas: Vec<Meta> = self.waiting.iter().map(|q| q.meta).collect();
            enqueue(&mut self.tree, &mut self.cx, &metas);
        } else {
            self.graves.push(Grave::of(old));
        }
        self.queues = queues.into();
        Ok(orphans)
    }

    /// Chooses the queues of packets anew if they wait below a root that stands for the queues of a
    /// port and that is new.
    fn choose_queues(&self, metas: &mut [Meta]) {
        let of = |tree: &Tree| (tree.root().handle(), tree.root().qdisc().spec().kind);
        let same = self.before.as_ref().is_some_and(|before| of(before) == of(&self.tree));
        if !self.tree.is_of_port() || same {
            return;
        }
        let mut selector = Selector::new(self.tree.env().queues);
        let root = self.tree.root().qdisc();
        selector.set_classes(mqprio::classes_of(root).or_else(|| taprio::classes_of(root)));
        for meta in metas {
            meta.queue = selector.select(meta, &Sender::default(), None, self.cx.now);
        }
    }

    pub(super) fn change(&mut self, atomic: bool, [before, after]: [Option<String>; 2]) -> Change {
        let before_tree = self.before.as_ref().unwrap_or(&self.tree);
        let lines = plan::differences(&self.name, before_tree, &self.tree);
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
    fn bury(&mut self) -> bool {
        let env = *self.tree.env();
        let replaced = self.tree.replaced.iter_mut().flat_map(|replaced| replaced.drain(..));
        self.graves.extend(replaced.map(|node| Grave::of_node(node, env)));
        self.graves.pop_if(|grave| grave.bury(COPIED));
        self.graves.is_empty()
    }
    fn queued(&self, f: &mut dyn FnMut(Handle, Handle, &Meta)) {
        for q in &self.waiting {
            f(q.parent, q.handle, &q.meta);
        }
    }
}

/// Copies the qdiscs of a device in parts, with turns for packets between them.
fn copied(real: &mut dyn Devices, name: &str, cx: &mut Cx) -> Option<Tree> {
    let mut copying = Copying::of(&real.device(name)?.tree());
    while !copying.step(&real.device(name)?.tree(), COPIED, cx).ok()? {
        real.pause();
    }
    Some(copying.end())
}

/// Returns every qdisc that packets may wait in: its place, its handle, its kind.
fn kinds(trees: &Trees<'_>) -> Vec<(Handle, Handle, &'static str)> {
    let mut all = Vec::new();
    trees.visit(&mut |place, node| all.push((place.parent, node.handle(), node.qdisc().spec().kind)));
    all
}
