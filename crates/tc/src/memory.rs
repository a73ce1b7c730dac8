//! Devices in memory: each has only its qdiscs, and keeps the packets put into it. They serve to
//! check a policy.

use std::collections::BTreeMap;
use std::sync::Arc;

use txweir_core::classify::action::State;
use txweir_core::classify::filter::{BlockId, Filters};
use txweir_core::classify::packet::PortId;
use txweir_core::path::qdiscs::Qdiscs;
use txweir_core::path::trees::Trees;
use txweir_core::qdisc::Registry;
use txweir_core::sched::cx::Cx;
use txweir_core::{Env, Handle, Instant, Meta, Tree};

use crate::queued::{Queued, enqueue};
use crate::show;
use crate::tool::{Device, Devices, Hook, LOOPBACK, Ports, Rates, SwapDone};

/// Most packets that wait in a device that was not told another number.
const POOL: usize = 4096;

/// Several devices in memory.
#[derive(Debug)]
pub struct Memory {
    devices: Vec<MemoryDevice>,
    /// The places of the devices by their names.
    places: BTreeMap<String, usize>,
    /// The number of queues and the properties of a device that is made when it is first named.
    unnamed: Option<(u32, Env)>,
    filters: Filters,
    state: State,
    ports: Ports,
    now: Instant,
    rates: Rates,
}

/// One device in memory: a tree, a hook, and packets that are put in and stay. It has no queues to
/// send by, so one tree stands for all of them, as in the copies on which changes are rehearsed.
#[derive(Debug)]
pub struct MemoryDevice {
    name: String,
    queues: u32,
    tree: Tree,
    cx: Cx,
    /// Most packets that wait.
    room: usize,
    hook: Option<Hook>,
    waiting: Vec<Queued>,
}

impl Default for Memory {
    /// Returns no devices.
    fn default() -> Self {
        Self::new(&[])
    }
}

impl Memory {
    /// Returns devices of these names, of one queue each, with their default qdiscs.
    pub fn new(names: &[&str]) -> Self {
        let none = Self {
            devices: Vec::new(),
            places: BTreeMap::new(),
            unnamed: None,
            filters: Filters::new(),
            state: State::new(1),
            ports: Ports::default(),
            now: Instant::ZERO,
            rates: Rates::default(),
        };
        names.iter().fold(none, |all, name| all.with(MemoryDevice::new(name, 1, Env::default())))
    }
    /// Returns devices of any name: each is made, with this number of queues and these properties,
    /// when it is first named. No packets can wait in them.
    pub fn of_any_name(queues: u32, env: Env) -> Self {
        Self { unnamed: Some((queues, env)), ..Self::new(&[]) }
    }
    /// Sets the time.
    pub const fn set_now(&mut self, now: Instant) {
        self.now = now;
    }
    /// Returns the filters and their counts, to classify packets with.
    pub fn classify(&mut self) -> (&Filters, &mut State) {
        self.filters.fit(&mut self.state);
        (&self.filters, &mut self.state)
    }
    /// Adds a device.
    #[must_use]
    pub fn with(mut self, device: MemoryDevice) -> Self {
        self.insert(device);
        self
    }
    /// Adds a device, unless there is one of its name.
    pub fn insert(&mut self, device: MemoryDevice) {
        if !self.places.contains_key(&device.name) {
            self.places.insert(device.name.clone(), self.devices.len());
            self.devices.push(device);
        }
    }
    /// True if a device of this name was added, or named.
    pub fn names_device(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }
    /// Removes the device of this name with its qdiscs.
    pub fn remove(&mut self, name: &str) {
        self.devices.retain(|d| d.name != name);
        self.places = self.devices.iter().enumerate().map(|(at, d)| (d.name.clone(), at)).collect();
    }
    /// Gives a device another name, unless a device has it.
    pub fn rename(&mut self, from: &str, to: &str) {
        let free = !self.places.contains_key(to);
        if let Some(at) = self.places.get(from).copied().filter(|_| free) {
            self.places.remove(from);
            self.places.insert(to.into(), at);
            self.devices[at].name = to.into();
        }
    }
    /// Returns the device of that name, to inspect it and to put packets in.
    pub fn get(&mut self, name: &str) -> Option<&mut MemoryDevice> {
        let known = self.places.get(name).copied();
        let at = known.or_else(|| {
            let (queues, env) = self.unnamed?;
            self.places.insert(name.into(), self.devices.len());
            self.devices.push(MemoryDevice::without_room(name, queues, env));
            Some(self.devices.len() - 1)
        });
        self.devices.get_mut(at?)
    }
}

impl MemoryDevice {
    /// Returns a device with its default qdisc.
    pub fn new(name: &str, queues: u32, env: Env) -> Self {
        Self::with_pool(name, queues, env, POOL)
    }
    /// Returns a device in which no packet can wait.
    pub fn without_room(name: &str, queues: u32, env: Env) -> Self {
        Self::with_pool(name, queues, env, 1)
    }
    fn with_pool(name: &str, queues: u32, env: Env, room: usize) -> Self {
        let env = Env { queues: u16::try_from(queues).unwrap_or(u16::MAX), ..env };
        let (tree, cx) = (Tree::new(env), Cx::new(room, env.seed));
        Self { name: name.into(), queues, tree, cx, room, hook: None, waiting: Vec::new() }
    }
    /// Returns the bytes of tables that its qdiscs have.
    pub const fn tables(&self) -> u64 {
        self.tree.tables()
    }
    /// Removes all qdiscs.
    pub fn clear(&mut self) {
        self.tree = Tree::new(*self.tree.env()).with_kinds(self.tree.kinds());
    }
    /// Sets the number of packets that can wait, before any is queued; 4096 otherwise.
    #[must_use]
    pub fn with_room(mut self, packets: usize) -> Self {
        (self.cx, self.room) = (Cx::new(packets, self.tree.env().seed), packets);
        self
    }
    /// Sets the registry of kinds for its qdiscs, before any is added.
    #[must_use]
    pub fn with_kinds(mut self, kinds: Registry) -> Self {
        self.tree = self.tree.with_kinds(kinds);
        self
    }
    /// Returns the filters of a qdisc, a class or a hook.
    pub fn block(&self, at: Handle) -> Option<BlockId> {
        self.tree.block(at)
    }
    /// Queues a packet; it waits until it is dropped.
    pub fn enqueue(&mut self, meta: Meta) {
        self.waiting.extend(enqueue(&mut self.tree, &mut self.cx, &[meta]).into_iter().flatten());
    }
}

impl Devices for Memory {
    fn kinds(&self) -> Registry {
        self.devices.first().map_or(Registry::BUILT_IN, |d| d.tree.kinds())
    }
    fn names(&self) -> Vec<String> {
        self.devices.iter().map(|d| d.name.clone()).collect()
    }
    fn device(&mut self, name: &str) -> Option<&mut dyn Device> {
        self.get(name).map(|d| d as &mut dyn Device)
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
        let there = name == LOOPBACK || self.unnamed.is_some() || self.places.contains_key(name);
        there.then(|| self.ports.of(name))
    }
    fn now(&self) -> Instant {
        self.now
    }
    fn rates(&mut self) -> Option<Rates> {
        Some(Arc::clone(&self.rates))
    }
}

impl Device for MemoryDevice {
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
    /// Queues all packets anew.
    fn swap(&mut self, f: &mut dyn FnMut(&mut Qdiscs<'_>)) -> SwapDone {
        let mut done = SwapDone::default();
        let mut cx = Cx::new(self.room, self.tree.env().seed);
        let Ok(mut tree) = show::copy(&self.tree, &mut cx) else { return done };
        f(&mut tree.edit(&mut cx));
        let metas: Vec<Meta> = std::mem::take(&mut self.waiting).into_iter().map(|q| q.meta).collect();
        let places = enqueue(&mut tree, &mut cx, &metas);
        for (meta, place) in metas.iter().zip(&places) {
            let tally = if place.is_some() { &mut done.moved } else { &mut done.dropped };
            tally.add(meta.wire_len);
        }
        self.waiting = places.into_iter().flatten().collect();
        (self.tree, self.cx) = (tree, cx);
        done
    }
    fn queued(&self, f: &mut dyn FnMut(Handle, Handle, &Meta)) {
        for q in &self.waiting {
            f(q.parent, q.handle, &q.meta);
        }
    }
}
