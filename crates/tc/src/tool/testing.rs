//! Devices that are nothing but their qdiscs: for tests of this crate and of what uses it.

use txweir_core::cx::Cx;
use txweir_core::{Env, Handle, Meta, Tree};

use super::device::{Device, Devices, Hook, SwapDone};
use super::rehearsal::{Queued, enqueue};
use crate::show;

/// Most packets that wait in a device of these.
const POOL: usize = 4096;

/// Several devices in memory.
#[derive(Debug, Default)]
pub struct Memory {
    devices: Vec<MemoryDevice>,
}

/// One device in memory: a tree, a hook, and packets that are put in and stay.
#[derive(Debug)]
pub struct MemoryDevice {
    name: String,
    queues: u32,
    tree: Tree,
    cx: Cx,
    hook: Option<Hook>,
    waiting: Vec<Queued>,
}

impl Memory {
    /// Devices of these names, of one queue each, with their default qdiscs.
    pub fn new(names: &[&str]) -> Self {
        Self { devices: names.iter().map(|name| MemoryDevice::new(name, 1, Env::default())).collect() }
    }
    /// With one more.
    #[must_use]
    pub fn with(mut self, device: MemoryDevice) -> Self {
        self.devices.push(device);
        self
    }
    /// The device of that name, to look at and to put packets in.
    pub fn get(&mut self, name: &str) -> Option<&mut MemoryDevice> {
        self.devices.iter_mut().find(|d| d.name == name)
    }
}

impl MemoryDevice {
    /// A device with its default qdisc.
    pub fn new(name: &str, queues: u32, env: Env) -> Self {
        let (tree, cx) = (Tree::new(env), Cx::new(POOL, env.seed));
        Self { name: name.into(), queues, tree, cx, hook: None, waiting: Vec::new() }
    }
    /// Queues a packet; it waits until it is dropped.
    pub fn enqueue(&mut self, meta: Meta) {
        self.waiting.extend(enqueue(&mut self.tree, &mut self.cx, &[meta]).into_iter().flatten());
    }
}

impl Devices for Memory {
    fn names(&self) -> Vec<String> {
        self.devices.iter().map(|d| d.name.clone()).collect()
    }
    fn device(&mut self, name: &str) -> Option<&mut dyn Device> {
        self.devices.iter_mut().find(|d| d.name == name).map(|d| d as &mut dyn Device)
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
    fn tree(&self) -> &Tree {
        &self.tree
    }
    fn hook(&self) -> Option<Hook> {
        self.hook
    }
    fn set_hook(&mut self, hook: Option<Hook>) {
        self.hook = hook;
    }
    fn configure(&mut self, f: &mut dyn FnMut(&mut Tree, &mut Cx)) {
        f(&mut self.tree, &mut self.cx);
    }
    /// All packets are queued anew.
    fn swap(&mut self, f: &mut dyn FnMut(&mut Tree, &mut Cx)) -> SwapDone {
        let mut done = SwapDone::default();
        let mut cx = Cx::new(POOL, self.tree.env().seed);
        let Ok(mut tree) = show::copy(&self.tree, &mut cx) else { return done };
        f(&mut tree, &mut cx);
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
