//! Changes of the tree under load, legal and not.

use txweir_core::Handle;
use txweir_core::qdisc::KINDS;
use txweir_core::rng::Rng;
use txweir_core::tree::DEPTH_MAX;

use crate::common::check::{Called, snapshot};
use crate::common::ops::Op;
use crate::common::options::{chance, illegal, legal, pick, random, with_words};
use crate::common::world::World;
use crate::common::{Law, Violation};

impl World {
    /// Reconfigures; what is refused must change nothing.
    pub fn reconfigure(&mut self, op: &Op) -> Result<(), Violation> {
        let before = snapshot(&self.path);
        let Some(applied) = self.try_reconfigure(op) else { return Ok(()) };
        self.account()?;
        self.checker.input();
        match applied {
            Ok(classes) => {
                // Classes may now be chosen otherwise: packets queued before and after are not one flow.
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

    /// Tries; `None` if there is nothing to try. `Ok(true)`: a qdisc with a choice of classes was changed.
    fn try_reconfigure(&mut self, op: &Op) -> Option<Result<bool, String>> {
        let (place, seed) = match *op {
            Op::Change { place, seed } | Op::Illegal { place, seed } => (place, seed),
            Op::Replace { place, seed } | Op::Graft { place, seed } => (place, seed),
            Op::Delete { place } => (place, 0),
            _ => return None,
        };
        let mut rng = Rng::new(seed);
        let env = self.env;
        let places = self.checker.places();
        let place = match op {
            // Below the root, if there is anything.
            Op::Graft { .. } => 1 + (place as usize).checked_rem(places.len() - 1)?,
            _ => place as usize % places.len(),
        };
        let (parent, crowded) = (places[place], places.len() > 48);
        let mut there = Vec::new();
        self.path
            .tree()
            .visit(&mut |_, node| there.push((node.qdisc().spec(), node.qdisc().classes().len())));
        let (spec, classes) = there[place];
        let (now, dev) = (self.now, &mut self.dev);
        Some(match op {
            Op::Change { .. } => {
                let words =
                    if chance(&mut rng, 1, 3) { random(spec, &mut rng) } else { legal(spec, &env, &mut rng) };
                let r = self
                    .path
                    .configure(now, dev, |tree, cx| with_words(&words, |w| tree.change(parent, None, w, cx)));
                self.totals.changed += u64::from(r.is_ok());
                r.map(|()| classes > 1).map_err(|e| e.to_string())
            }
            Op::Illegal { .. } => {
                let words = illegal(spec, &env, &mut rng);
                let r = self.path.configure(now, dev, |tree, cx| {
                    with_words(&words, |w| tree.replace(parent, None, spec.kind, w, cx))
                });
                let Err(e) = r else { panic!("{} took {words:?}", spec.kind) };
                Err(e.to_string())
            }
            Op::Replace { .. } | Op::Graft { .. } => {
                let own = KINDS.iter().find(|k| k.kind == self.kind && chance(&mut rng, 1, 2));
                let kind = own.copied().unwrap_or_else(|| *pick(&mut rng, KINDS));
                let kind = if kind.flags.classful && crowded { KINDS[0] } else { kind };
                let handle = chance(&mut rng, 1, 3)
                    .then(|| Handle::new(1 + rng.below(u64::from(u16::MAX)) as u16 % 4, 0));
                let words = legal(kind, &env, &mut rng);
                let r = self.path.configure(now, dev, |tree, cx| {
                    with_words(&words, |w| tree.replace(parent, handle, kind.kind, w, cx))
                });
                self.totals.grafted += u64::from(r.is_ok());
                r.map(|_| kind.flags.classful).map_err(|e| e.to_string())
            }
            _ => {
                let r = self.path.configure(now, dev, |tree, cx| tree.delete(parent, cx));
                self.totals.deleted += u64::from(r.is_ok());
                r.map(|()| false).map_err(|e| e.to_string())
            }
        })
    }

    /// After every successful change of the tree.
    pub fn configured(&mut self) -> Result<(), Violation> {
        let depth = self.checker.learn(&self.path);
        self.totals.depth = self.totals.depth.max(depth as u64);
        if depth >= DEPTH_MAX {
            return self.fail(Law::Bounds, format!("{} levels of qdiscs", depth + 1));
        }
        match self.checker.round_trip(&self.path, &self.env) {
            None => self.checked(Called::Other),
            Some(what) => self.fail(Law::RoundTrip, what),
        }
    }
}
