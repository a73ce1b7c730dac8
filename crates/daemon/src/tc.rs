//! Links as tc sees them.

use std::sync::Arc;

use txweir_core::classify::action::State;
use txweir_core::classify::filter::Filters;
use txweir_core::classify::packet::PortId;
use txweir_core::path::entry::HookCounts;
use txweir_core::path::qdiscs::Qdiscs;
use txweir_core::path::trees::Trees;
use txweir_core::{Env, Handle, Instant, Meta};
use txweir_tc::tool::{Device, Devices, Hook, LOOPBACK, LinkLine, Rates, SwapDone};

use crate::grammar;
use crate::link::Link;
use crate::links::Links;
use crate::whole_way::Whole;

/// Replaced qdiscs that are freed before packets have their turn.
const BURIED: usize = 16;

impl Devices for Links {
    fn names(&self) -> Vec<String> {
        self.all().iter().map(|link| link.name.to_string()).collect()
    }

    fn device(&mut self, name: &str) -> Option<&mut dyn Device> {
        let now = self.now;
        let link = self.find_mut(name)?;
        // Due events run first: frames that have left by now left before the command.
        link.each_real(&mut |copy| {
            copy.now = now;
            copy.advance(now);
        });
        Some(link)
    }

    fn filters(&self) -> &Filters {
        &self.filters
    }

    fn filters_mut(&mut self) -> &mut Filters {
        self.change_filters()
    }

    fn state(&self) -> &State {
        self.rest.counted.as_ref().unwrap_or(&self.state)
    }

    fn port(&mut self, name: &str) -> Option<PortId> {
        let there = name == LOOPBACK || self.find(name).is_some();
        // Actions outlive the link that they name, and a saved configuration has them all: it can
        // be read without that link, here and by another daemon.
        let named = self.configures || self.ports.has(name);
        (there || named).then(|| self.ports.of(name))
    }

    fn is_unmarked(&self, name: &str) -> bool {
        self.find(name).is_some_and(|link| link.kind.is_live())
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn has(&mut self, name: &str) -> bool {
        self.find(name).is_some()
    }

    fn pause(&mut self) {
        self.make_way();
    }

    fn rates(&mut self) -> Option<Rates> {
        Some(Arc::clone(&self.rates))
    }

    fn room(&mut self, names: &[&str]) -> u64 {
        self.room_of(names)
    }

    fn link(&mut self, words: &[String], dry: bool) -> Result<LinkLine, String> {
        let verb = grammar::read(words).map_err(|not_read| not_read.text)?;
        match dry {
            true => self.try_out(self.now, &verb),
            false => Ok(LinkLine { changes: self.change(self.now, &verb, false)?, would_be: None }),
        }
    }
}

impl Device for Link {
    fn name(&self) -> &str {
        self.name.as_str()
    }

    fn queues(&self) -> u32 {
        self.queues
    }

    fn env(&self) -> Env {
        *self.env()
    }

    fn copies(&self) -> usize {
        self.real().count()
    }

    fn set_room(&mut self, bytes: u64) {
        let room = match bytes {
            u64::MAX => u64::MAX,
            bytes => bytes / self.copies() as u64,
        };
        self.each_real(&mut |copy| {
            let env = Env { room, ..*copy.env() };
            if env != *copy.env() {
                copy.way.control(copy.now).set_env(env);
            }
        });
    }

    fn tree(&self) -> Trees<'_> {
        Whole::to(self).trees()
    }

    fn each_copy(&self, f: &mut dyn FnMut(&Trees<'_>)) {
        self.real().for_each(|copy| f(&copy.way.port().trees()));
    }

    fn hook(&self) -> Option<Hook> {
        self.hook
    }

    fn set_hook(&mut self, hook: Option<Hook>) {
        if self.hook != hook {
            self.hook_counts = HookCounts::default();
            self.copies.others.iter_mut().for_each(|copy| copy.hook_counts = HookCounts::default());
        }
        self.hook = hook;
    }

    fn hook_counts(&self) -> HookCounts {
        let mut sum = HookCounts::default();
        self.gathered().for_each(|copy| sum.add(copy.hook_counts));
        sum
    }

    fn configure(&mut self, f: &mut dyn FnMut(&mut Qdiscs<'_>)) {
        self.each_real(&mut |copy| {
            let now = copy.now;
            copy.way.control(now).change(&mut *f);
            copy.advance(now);
        });
        self.tables = None;
    }

    fn swap(&mut self, f: &mut dyn FnMut(&mut Qdiscs<'_>)) -> SwapDone {
        let mut sum = SwapDone::default();
        self.each_real(&mut |copy| {
            let now = copy.now;
            let ((), done) = copy.way.control(now).swap(&mut *f);
            copy.advance(now);
            sum.kept = sum.kept.plus(done.kept);
            sum.moved = sum.moved.plus(done.moved);
            sum.dropped = sum.dropped.plus(done.dropped);
        });
        self.tables = None;
        sum
    }

    fn bury(&mut self) -> bool {
        let mut all = true;
        self.each_real(&mut |copy| all &= copy.way.control(copy.now).bury(BURIED));
        all
    }

    fn queued(&self, f: &mut dyn FnMut(Handle, Handle, &Meta)) {
        let mut waiting: Vec<(Handle, Handle, Meta)> = Vec::new();
        for copy in self.real() {
            copy.way.port().trees().queued(&mut |parent, handle, m| waiting.push((parent, handle, *m)));
        }
        // The order in which a swap puts packets into a new tree.
        waiting.sort_by_key(|(_, _, m)| m.enqueued);
        waiting.iter().for_each(|(parent, handle, m)| f(*parent, *handle, m));
    }
}
