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

use crate::grammar::{self, Verb};
use crate::link::Link;
use crate::links::Links;

/// Replaced qdiscs that are freed before packets have their turn.
const BURIED: usize = 16;

impl Devices for Links {
    fn names(&self) -> Vec<String> {
        self.all().iter().map(|link| link.name.to_string()).collect()
    }

    fn device(&mut self, name: &str) -> Option<&mut dyn Device> {
        let now = self.now;
        let link = self.find_mut(name)?;
        link.now = now;
        // Due events run first: frames that have left by now left before the command.
        link.advance(now);
        Some(link)
    }

    fn filters(&self) -> &Filters {
        &self.filters
    }

    fn filters_mut(&mut self) -> &mut Filters {
        self.fitted = false;
        &mut self.filters
    }

    fn state(&self) -> &State {
        &self.state
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
        let changes = self.change(self.now, &verb, dry)?;
        let new = match &verb {
            Verb::Add(make) | Verb::Replace(make)
                if dry && self.find(make.change.name.as_str()).is_none() =>
            {
                Some(Link::new(make, &*self.machine, self.configures)?)
            }
            _ => None,
        };
        Ok(LinkLine { changes, would_be: new.map(|link| Box::new(link) as Box<dyn Device>) })
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

    fn set_room(&mut self, bytes: u64) {
        let env = Env { room: bytes, ..*self.env() };
        if env != *self.env() {
            self.way.control(self.now).set_env(env);
        }
    }

    fn tree(&self) -> Trees<'_> {
        self.way.port().trees()
    }

    fn hook(&self) -> Option<Hook> {
        self.hook
    }

    fn set_hook(&mut self, hook: Option<Hook>) {
        if self.hook != hook {
            self.hook_counts = HookCounts::default();
        }
        self.hook = hook;
    }

    fn hook_counts(&self) -> HookCounts {
        self.hook_counts
    }

    fn configure(&mut self, f: &mut dyn FnMut(&mut Qdiscs<'_>)) {
        let now = self.now;
        self.way.control(now).change(f);
        self.tables = None;
        self.advance(now);
    }

    fn swap(&mut self, f: &mut dyn FnMut(&mut Qdiscs<'_>)) -> SwapDone {
        let now = self.now;
        let ((), done) = self.way.control(now).swap(f);
        self.tables = None;
        self.advance(now);
        SwapDone { kept: done.kept, moved: done.moved, dropped: done.dropped }
    }

    fn bury(&mut self) -> bool {
        self.way.control(self.now).bury(BURIED)
    }

    fn queued(&self, f: &mut dyn FnMut(Handle, Handle, &Meta)) {
        let mut waiting: Vec<(Handle, Handle, Meta)> = Vec::new();
        self.way.port().trees().queued(&mut |parent, handle, m| waiting.push((parent, handle, *m)));
        // The order in which a swap puts packets into a new tree.
        waiting.sort_by_key(|(_, _, m)| m.enqueued);
        waiting.iter().for_each(|(parent, handle, m)| f(*parent, *handle, m));
    }
}
