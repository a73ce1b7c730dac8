//! Legal and illegal changes of the tree under load.

use txweir_core::base::rng::Rng;
use txweir_core::packet::route::DEPTH_MAX;
use txweir_core::qdisc::KINDS;
use txweir_core::{ConfigError, Env, Handle, Swapped, Tree};
use txweir_core::{base::link::LinkLayer, sched::stab::Stab};
use txweir_core::{base::tally::Tally, sched::cx::Cx};

use crate::check::{Called, Snapshot, snapshot};
use crate::device::Frame;
use crate::known::{Known, Where};
use crate::ops::Op;
use crate::options::{chance, classes_of, illegal, legal, legal_class, pick, random, with_words};
use crate::world::World;
use crate::{Law, Violation};

/// Draws a size table, or none.
fn random_stab(rng: &mut Rng) -> Option<Stab> {
    chance(rng, 2, 3).then(|| Stab {
        overhead: *pick(rng, &[0, -14, 4, 40, -2000, 300]),
        mpu: *pick(rng, &[0, 0, 64, 1000]),
        linklayer: *pick(rng, &[None, Some(LinkLayer::Ethernet), Some(LinkLayer::Atm)]),
        ..Stab::default()
    })
}

/// The change of a class.
enum ClassDone {
    Added,
    Changed,
    Deleted,
}

/// Adds, changes or deletes a class of the qdisc at `parent`; `None` if it has no such classes.
fn change_class(
    tree: &mut Tree,
    cx: &mut Cx,
    parent: Handle,
    env: &Env,
    rng: &mut Rng,
) -> Option<Result<ClassDone, ConfigError>> {
    let mut found = None;
    tree.visit(&mut |place, node| {
        if let Some(classes) = node.qdisc().spec().classes.filter(|_| place.parent == parent) {
            found = Some((classes, node.handle(), classes_of(node.qdisc())));
        }
    });
    let (spec, owner, there) = found?;
    // The numbers are few, so that they collide; a large one is rare.
    let minor = if chance(rng, 1, 20) { rng.next_u64() as u16 } else { 1 + rng.below(12) as u16 };
    let class = Handle::new(owner.major(), minor);
    let above = match rng.below(3) {
        0 if !there.is_empty() => pick(rng, &there).0.minor,
        _ => 0,
    };
    let above = Handle::new(owner.major(), above);
    let words = legal_class(spec, env, rng);
    let changed = there.iter().any(|(at, _)| at.minor == minor);
    Some(match rng.below(5) {
        0 => tree.edit(cx).delete_class(class).map(|()| ClassDone::Deleted),
        1 => with_words(&words, |w| tree.edit(cx).change_class(None, class, None, w))
            .map(|()| ClassDone::Changed),
        2 => with_words(&words, |w| tree.edit(cx).replace_class(above, class, None, w))
            .map(|()| if changed { ClassDone::Changed } else { ClassDone::Added }),
        _ => {
            with_words(&words, |w| tree.edit(cx).add_class(above, class, None, w)).map(|()| ClassDone::Added)
        }
    })
}

/// Performs one random operation on a tree; it may be refused.
fn change_at_random(tree: &mut Tree, cx: &mut Cx, env: &Env, own: &str, rng: &mut Rng) {
    let mut places = Vec::new();
    tree.visit(&mut |place, node| places.push((place.parent, node.qdisc().spec())));
    let (parent, spec) = *pick(rng, &places);
    match rng.below(8) {
        6 | 7 => {
            let _ = change_class(tree, cx, parent, env, rng);
        }
        5 => {
            let _ = tree.edit(cx).set_stab(parent, random_stab(rng));
        }
        0 => {
            let words = legal(spec, env, rng);
            let _ = with_words(&words, |w| tree.edit(cx).change(parent, None, w));
        }
        1 => {
            let _ = tree.edit(cx).delete(parent);
        }
        _ => {
            let own = KINDS.iter().find(|k| k.kind == own && chance(rng, 1, 2)).copied();
            let kind = own.unwrap_or_else(|| *pick(rng, KINDS));
            let kind = if kind.shape.is_classful() && places.len() > 40 { KINDS[0] } else { kind };
            let handle =
                chance(rng, 1, 3).then(|| Handle::new(1 + rng.below(u64::from(u16::MAX)) as u16 % 4, 0));
            let words = legal(kind, env, rng);
            let _ = with_words(&words, |w| tree.edit(cx).replace(parent, handle, kind.kind, w));
        }
    }
}

/// Kinds without classes whose options decide the queue of a flow.
const ASSIGNS: &[&str] = &["cake"];

impl World {
    /// Reconfigures the tree. A refused operation must change nothing.
    pub fn reconfigure(&mut self, op: &Op) -> Result<(), Violation> {
        let before = snapshot(&self.path);
        let Some(applied) = self.try_reconfigure(op) else { return Ok(()) };
        self.settled(&before, op, applied)
    }

    /// Sets options of the root qdisc. Refused ones must change nothing.
    pub fn change_line(&mut self, line: &[String]) -> Result<(), Violation> {
        let before = snapshot(&self.path);
        let changed = self.path.configure(self.now, &mut self.dev, |tree, cx| {
            with_words(line, |w| tree.edit(cx).change(Handle::ROOT, None, w))
        });
        self.totals.changed += u64::from(changed.is_ok());
        self.settled(&before, &line, changed.map(|()| true).map_err(|e| e.to_string()))
    }

    /// Adds a class to the root qdisc, or sets its options. Refused ones must change nothing.
    pub fn class_line(&mut self, add: bool, minor: u16, line: &[String]) -> Result<(), Violation> {
        let before = snapshot(&self.path);
        let owner = self.path.tree().root().handle();
        let class = Handle::new(owner.major(), minor);
        let changed = self.path.configure(self.now, &mut self.dev, |tree, cx| {
            with_words(line, |w| match add {
                true => tree.edit(cx).add_class(owner, class, None, w),
                false => tree.edit(cx).change_class(None, class, None, w),
            })
        });
        self.totals.classes_changed += u64::from(changed.is_ok());
        self.settled(&before, &line, changed.map(|()| true).map_err(|e| e.to_string()))
    }

    /// Sets the size table of the root qdisc, if its kind may have one.
    pub fn stab_line(&mut self, stab: Stab) -> Result<(), Violation> {
        let before = snapshot(&self.path);
        let set = self
            .path
            .configure(self.now, &mut self.dev, |tree, cx| tree.edit(cx).set_stab(Handle::ROOT, Some(stab)));
        self.totals.stabs += u64::from(set.is_ok());
        self.settled(&before, &stab, set.map(|()| false).map_err(|e| e.to_string()))
    }

    /// Checks the state after an operation. A change of classes is `Ok(true)`: packets queued
    /// before and after it are not one flow, because classes may now be chosen differently.
    fn settled(
        &mut self,
        before: &Snapshot,
        op: &dyn std::fmt::Debug,
        applied: Result<bool, String>,
    ) -> Result<(), Violation> {
        self.account()?;
        self.checker.input();
        match applied {
            Ok(classes) => {
                self.checker.epoch += u32::from(classes);
                self.configured()
            }
            Err(e) => {
                self.totals.refused += 1;
                match before.differs_from(&snapshot(&self.path)) {
                    Some(d) => self.fail(Law::Change, format!("{op:?} was refused ({e}), and {d}")),
                    None => Ok(()),
                }
            }
        }
    }

    /// Tries an operation. Returns `None` if there is no object for it, and `Ok(true)` if it
    /// changed a qdisc that assigns classes.
    fn try_reconfigure(&mut self, op: &Op) -> Option<Result<bool, String>> {
        let (place, seed) = match *op {
            Op::Change { place, seed } | Op::Illegal { place, seed } => (place, seed),
            Op::Replace { place, seed } | Op::Graft { place, seed } => (place, seed),
            Op::Stab { place, seed } | Op::Class { place, seed } => (place, seed),
            Op::Delete { place } => (place, 0),
            _ => return None,
        };
        let mut rng = Rng::new(seed);
        let env = self.env;
        let places = self.checker.places();
        let place = match op {
            // The place is below the root, if a qdisc is there.
            Op::Graft { .. } => 1 + (place as usize).checked_rem(places.len() - 1)?,
            // The place is a qdisc with such classes.
            Op::Class { .. } => {
                let (mut at, mut with) = (0, Vec::new());
                self.path.tree().visit(&mut |_, node| {
                    with.extend(node.qdisc().user_classes().map(|_| at));
                    at += 1;
                });
                with[(place as usize).checked_rem(with.len())?]
            }
            _ => place as usize % places.len(),
        };
        let (parent, crowded) = (places[place], places.len() > 48);
        let mut there = Vec::new();
        self.path.tree().visit(&mut |_, node| there.push(node.qdisc().spec()));
        let spec = there[place];
        let (now, dev) = (self.now, &mut self.dev);
        Some(match op {
            Op::Change { .. } => {
                let words =
                    if chance(&mut rng, 1, 3) { random(spec, &mut rng) } else { legal(spec, &env, &mut rng) };
                let r = self.path.configure(now, dev, |tree, cx| {
                    with_words(&words, |w| tree.edit(cx).change(parent, None, w))
                });
                self.totals.changed += u64::from(r.is_ok());
                r.map(|()| spec.shape.is_classful() || ASSIGNS.contains(&spec.kind))
                    .map_err(|e| e.to_string())
            }
            Op::Illegal { .. } => {
                let words = illegal(spec, &env, &mut rng);
                let r = self.path.configure(now, dev, |tree, cx| {
                    with_words(&words, |w| tree.edit(cx).replace(parent, None, spec.kind, w))
                });
                let Err(e) = r else { panic!("{} took {words:?}", spec.kind) };
                Err(e.to_string())
            }
            Op::Replace { .. } | Op::Graft { .. } => {
                let own = KINDS.iter().find(|k| k.kind == self.kind && chance(&mut rng, 1, 2));
                let kind = own.copied().unwrap_or_else(|| *pick(&mut rng, KINDS));
                let kind = if kind.shape.is_classful() && crowded { KINDS[0] } else { kind };
                let handle = chance(&mut rng, 1, 3)
                    .then(|| Handle::new(1 + rng.below(u64::from(u16::MAX)) as u16 % 4, 0));
                let words = legal(kind, &env, &mut rng);
                let r = self.path.configure(now, dev, |tree, cx| {
                    with_words(&words, |w| tree.edit(cx).replace(parent, handle, kind.kind, w))
                });
                self.totals.grafted += u64::from(r.is_ok());
                r.map(|_| kind.shape.is_classful() || ASSIGNS.contains(&kind.kind)).map_err(|e| e.to_string())
            }
            Op::Class { .. } => {
                let done = self
                    .path
                    .configure(now, dev, |tree, cx| change_class(tree, cx, parent, &env, &mut rng))?;
                match done {
                    Ok(ClassDone::Added) => self.totals.classes_added += 1,
                    Ok(ClassDone::Changed) => self.totals.classes_changed += 1,
                    Ok(ClassDone::Deleted) => self.totals.classes_deleted += 1,
                    Err(_) => {}
                }
                done.map(|_| true).map_err(|e| e.to_string())
            }
            Op::Stab { .. } => {
                let stab = random_stab(&mut rng);
                let r = self.path.configure(now, dev, |tree, cx| tree.edit(cx).set_stab(parent, stab));
                self.totals.stabs += u64::from(r.is_ok());
                r.map(|()| false).map_err(|e| e.to_string())
            }
            _ => {
                let r = self.path.configure(now, dev, |tree, cx| tree.edit(cx).delete(parent));
                self.totals.deleted += u64::from(r.is_ok());
                r.map(|()| false).map_err(|e| e.to_string())
            }
        })
    }

    /// Changes the tree at random, in one swap: waiting packets keep waiting, in order, or are
    /// dropped and counted.
    pub fn swap(&mut self, seed: u64) -> Result<(), Violation> {
        let mut rng = Rng::new(seed);
        let (env, kind, before) = (self.env, self.kind, self.path.backlog());
        let (next, epoch) = (self.frames.len(), self.checker.epoch);
        let sized = self.checker.sized;
        let detailed = self.path.wants_detail();
        let (frames, mut pieces, mut cuts) = (&self.frames, Vec::new(), Vec::new());
        let ((), swapped) = self.path.swap(
            self.now,
            &mut self.dev,
            |tree, cx| {
                for _ in 0..rng.below(5) {
                    change_at_random(tree, cx, &env, kind, &mut rng);
                }
            },
            |Frame(id), m, max, queue| {
                let Known { flow, turn, .. } = frames[id as usize];
                cuts.push(id);
                let mut left = m.len.saturating_sub(u32::from(m.header_len));
                for k in 1.. {
                    let payload = left.min(max.saturating_sub(u32::from(m.header_len)).max(1));
                    left -= payload;
                    let mut piece = *m;
                    piece.len = u32::from(m.header_len) + payload;
                    (piece.wire_len, piece.segs, piece.gso_size) = (piece.len, 1, 0);
                    let (id, wire_len) = (next + pieces.len(), piece.wire_len);
                    pieces.push(Known { flow, epoch, turn: turn + k, wire_len, at: Where::Waiting });
                    queue(Frame(id as u32), piece);
                    if left == 0 || k > 100 {
                        break;
                    }
                }
            },
        );
        for id in &cuts {
            let known = &mut self.frames[*id as usize];
            known.at = Where::Returned;
            self.waiting.packets -= 1;
            self.waiting.bytes -= u64::from(known.wire_len);
        }
        pieces.iter().for_each(|p| self.waiting.add(p.wire_len));
        self.frames.extend(pieces);
        self.account()?;
        self.checker.input();
        self.totals.swapped += 1;
        // The details of packets that came before they were wanted are not known: such a packet may
        // be in another queue than later ones.
        self.checker.epoch += u32::from(self.path.wants_detail() && !detailed);
        self.totals.kept += swapped.kept.packets;
        self.totals.moved += swapped.moved.packets;
        self.totals.swap_cut += swapped.cut;
        let Swapped { kept, moved, dropped, cut } = swapped;
        // The bytes are those that the root charges: they stay the same only if it has had no size
        // table.
        let sized = sized || self.path.tree().root().front().stab().is_some();
        let before = if sized { Tally { bytes: 0, ..before } } else { before };
        let [kept, moved, dropped] =
            [kept, moved, dropped].map(|t| if sized { Tally { bytes: 0, ..t } } else { t });
        let sum = Tally {
            packets: kept.packets + moved.packets + dropped.packets,
            bytes: kept.bytes + moved.bytes + dropped.bytes,
        };
        if cut != cuts.len() as u64 || cut == 0 && sum != before {
            return self.fail(Law::Conservation, format!("{before:?} waited, {swapped:?}"));
        }
        self.configured()
    }

    /// Runs after every successful change of the tree.
    pub fn configured(&mut self) -> Result<(), Violation> {
        let depth = self.checker.learn(&self.path);
        self.totals.depth = self.totals.depth.max(depth as u64);
        if depth >= DEPTH_MAX {
            return self.fail(Law::Bounds, format!("{} levels of qdiscs", depth + 1));
        }
        let mut wanted = false;
        self.path.tree().visit(&mut |_, node| wanted |= node.qdisc().wants_detail());
        if self.path.wants_detail() != wanted {
            return self.fail(Law::Change, format!("details are kept: {}, wanted: {wanted}", !wanted));
        }
        match self.checker.round_trip(&self.path, &self.env) {
            None => self.checked(Called::Other),
            Some(what) => self.fail(Law::RoundTrip, what),
        }
    }
}
