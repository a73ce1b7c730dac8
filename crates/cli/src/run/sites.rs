//! The two devices of `txweir run` as tc sees them, while policies are applied to them.

use txweir::core::classify::action::State;
use txweir::core::classify::filter::Filters;
use txweir::core::classify::packet::PortId;
use txweir::core::path::port::{Qdiscs, Trees};
use txweir::core::path::rates::SharedRates;
use txweir::core::{ConfigError, Handle};
use txweir::runtime::{Direction, Filtering, Notes, SideFilters};
use txweir::tc::tool::{Device, Devices, Hook, HookCounts, LOOPBACK, Ports, SwapDone};
use txweir::{Env, Instant, Meta, Tree};

/// A direction, and the device that it leaves by.
#[derive(Debug)]
struct Site {
    name: String,
    way: Direction,
    hook: Option<Hook>,
    now: Instant,
}

/// Both of them. Names may be the same, of devices in two network namespaces: then it is the one whose turn it is.
#[derive(Debug)]
pub struct Sites {
    sites: [Site; 2],
    turn: usize,
    filters: Filters,
    state: State,
    ports: Ports,
    rates: SharedRates,
    now: Instant,
}

impl Sites {
    /// Of two directions, each with the name of the device that it leaves by. The seeds are secret.
    pub fn new(ways: [(String, Direction); 2], seeds: [u64; 2], now: Instant) -> Self {
        let sites = ways.map(|(name, way)| Site { name, way, hook: None, now });
        let (filters, state) = (Filters::new().with_seed(seeds[0]), State::new(seeds[1]));
        Self { sites, turn: 0, filters, state, ports: Ports::default(), rates: SharedRates::new(), now }
    }

    /// Whose turn it is: what is said without a name is for it.
    pub fn turn(&mut self, way: usize) -> &mut Self {
        self.turn = way;
        self
    }

    /// The directions; and the filters, if there are any.
    pub fn finish(mut self, notes: Notes) -> ([Direction; 2], Option<Filtering>) {
        self.filters.fit(&mut self.state);
        // The device that direction 0 leaves by is side 1.
        let mut sides = [SideFilters::default(); 2];
        let mut asked = false;
        for (way, site) in self.sites.iter().enumerate() {
            let trees = site.tree();
            asked |= trees.blocks().next().is_some();
            let hook = |place| site.hook.and_then(|_| trees.block(place));
            // Devices of one name have a number each.
            let port = match self.sites[0].name == self.sites[1].name && way == 1 {
                true => PortId(u32::MAX),
                false => self.ports.of(&site.name),
            };
            let (ingress, egress) = (hook(Hook::INGRESS), hook(Hook::EGRESS));
            sides[1 - way] = SideFilters { port, ingress, egress, queues: 1, counted: HookCounts::default() };
        }
        let filtering = Filtering { filters: self.filters, state: self.state, notes, sides };
        (self.sites.map(|site| site.way), asked.then_some(filtering))
    }

    fn of(&self, name: &str) -> Option<usize> {
        let is_meant = |way: &usize| self.sites[*way].name == name;
        [self.turn, 1 - self.turn].into_iter().find(is_meant)
    }
}

impl Devices for Sites {
    fn names(&self) -> Vec<String> {
        self.sites.iter().map(|site| site.name.clone()).collect()
    }
    fn device(&mut self, name: &str) -> Option<&mut dyn Device> {
        let way = self.of(name)?;
        Some(&mut self.sites[way])
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
    fn port(&mut self, name: &str) -> Option<PortId> {
        let there = name == LOOPBACK || self.of(name).is_some();
        there.then(|| self.ports.of(name))
    }
    fn now(&self) -> Instant {
        self.now
    }
    fn check_rates(&self, trees: &[(&str, &Tree)]) -> Result<(), ConfigError> {
        let meant = trees.iter().filter_map(|(name, _)| self.of(name));
        let present: Vec<&Tree> = meant.map(|way| self.sites[way].way.path().tree()).collect();
        self.rates.check(&trees.iter().map(|(_, tree)| *tree).collect::<Vec<_>>(), &present)
    }
    fn join_rates(&mut self, names: &[&str]) -> Result<(), ConfigError> {
        let meant: Vec<usize> = names.iter().filter_map(|name| self.of(name)).collect();
        let trees: Vec<&Tree> = meant.iter().map(|way| self.sites[*way].way.path().tree()).collect();
        let agreed = self.rates.agree(&trees)?;
        for way in meant {
            self.sites[way].way.configure_each(self.now, |tree, _| agreed.join(tree));
        }
        Ok(())
    }
}

impl Device for Site {
    fn name(&self) -> &str {
        &self.name
    }
    fn queues(&self) -> u32 {
        1
    }
    fn env(&self) -> Env {
        *self.tree().env()
    }
    fn tree(&self) -> Trees<'_> {
        self.way.port().trees()
    }
    fn hook(&self) -> Option<Hook> {
        self.hook
    }
    fn set_hook(&mut self, hook: Option<Hook>) {
        self.hook = hook;
    }
    fn configure(&mut self, f: &mut dyn FnMut(&mut dyn Qdiscs)) {
        self.way.change(self.now, f);
    }
    /// Nothing waits yet.
    fn swap(&mut self, f: &mut dyn FnMut(&mut dyn Qdiscs)) -> SwapDone {
        self.configure(f);
        SwapDone::default()
    }
    fn queued(&self, _f: &mut dyn FnMut(Handle, Handle, &Meta)) {}
}
