//! Devices that are nothing but their qdiscs, and what holds for any text: for tests of this crate and of what uses it.

use std::sync::Arc;

use txweir_core::classify::action::State;
use txweir_core::classify::filter::{BlockId, Filters};
use txweir_core::classify::packet::PortId;
use txweir_core::path::port::{InTree, Qdiscs, Trees};
use txweir_core::path::rates::SharedRates;
use txweir_core::sched::cx::Cx;
use txweir_core::{ConfigError, Env, Handle, Instant, Meta, Tree};

use super::device::{Device, Devices, Hook, LOOPBACK, Ports, SwapDone};
use super::rehearsal::{Queued, enqueue};
use super::{Request, run, save};
use crate::command;
use crate::diagnostic::Diagnostic;
use crate::lex;
use crate::policy::Policy;
use crate::show;
use crate::source::Source;

/// Most packets that wait in a device of these.
const POOL: usize = 4096;

/// Several devices in memory.
#[derive(Debug)]
pub struct Memory {
    devices: Vec<MemoryDevice>,
    filters: Filters,
    state: State,
    ports: Ports,
    now: Instant,
    rates: SharedRates,
}

/// One device in memory: a tree, a hook, and packets that are put in and stay. It has no queues to send by, so one tree stands
/// for all of them, as in the copies that changes are rehearsed on.
#[derive(Debug)]
pub struct MemoryDevice {
    name: String,
    queues: u32,
    tree: Tree,
    cx: Cx,
    hook: Option<Hook>,
    waiting: Vec<Queued>,
}

impl Default for Memory {
    /// No device.
    fn default() -> Self {
        Self::new(&[])
    }
}

impl Memory {
    /// Devices of these names, of one queue each, with their default qdiscs.
    pub fn new(names: &[&str]) -> Self {
        let devices = names.iter().map(|name| MemoryDevice::new(name, 1, Env::default())).collect();
        Self {
            devices,
            filters: Filters::new(),
            state: State::new(1),
            ports: Ports::default(),
            now: Instant::ZERO,
            rates: SharedRates::new(),
        }
    }
    /// Time passes.
    pub const fn set_now(&mut self, now: Instant) {
        self.now = now;
    }
    /// Filters and what they have counted, to classify packets with.
    pub fn classify(&mut self) -> (&Filters, &mut State) {
        self.filters.fit(&mut self.state);
        (&self.filters, &mut self.state)
    }
    /// With one more.
    #[must_use]
    pub fn with(mut self, device: MemoryDevice) -> Self {
        self.devices.push(device);
        self
    }
    /// The rates that qdiscs share by name.
    pub const fn rates(&self) -> &SharedRates {
        &self.rates
    }
    /// The device of that name, to look at and to put packets in.
    pub fn get(&mut self, name: &str) -> Option<&mut MemoryDevice> {
        self.devices.iter_mut().find(|d| d.name == name)
    }
}

impl MemoryDevice {
    /// A device with its default qdisc.
    pub fn new(name: &str, queues: u32, env: Env) -> Self {
        let env = Env { queues: u16::try_from(queues).unwrap_or(u16::MAX), ..env };
        let (tree, cx) = (Tree::new(env), Cx::new(POOL, env.seed));
        Self { name: name.into(), queues, tree, cx, hook: None, waiting: Vec::new() }
    }
    /// The filters of a qdisc, a class or a hook.
    pub fn block(&self, at: Handle) -> Option<BlockId> {
        self.tree.block(at)
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
        let there = name == LOOPBACK || self.devices.iter().any(|d| d.name == name);
        there.then(|| self.ports.of(name))
    }
    fn now(&self) -> Instant {
        self.now
    }
    fn check_rates(&self, trees: &[(&str, &Tree)]) -> Result<(), ConfigError> {
        let is_meant = |d: &&MemoryDevice| trees.iter().any(|(name, _)| *name == d.name);
        let present: Vec<&Tree> = self.devices.iter().filter(is_meant).map(|d| &d.tree).collect();
        self.rates.check(&trees.iter().map(|(_, tree)| *tree).collect::<Vec<_>>(), &present)
    }
    fn join_rates(&mut self, names: &[&str]) -> Result<(), ConfigError> {
        let is_meant = |d: &MemoryDevice| names.contains(&d.name.as_str());
        let trees: Vec<&Tree> = self.devices.iter().filter(|d| is_meant(d)).map(|d| &d.tree).collect();
        let agreed = self.rates.agree(&trees)?;
        self.devices.iter_mut().filter(|d| is_meant(d)).for_each(|d| agreed.join(&mut d.tree));
        Ok(())
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
    fn configure(&mut self, f: &mut dyn FnMut(&mut dyn Qdiscs)) {
        f(&mut InTree::new(&mut self.tree, &mut self.cx));
    }
    /// All packets are queued anew.
    fn swap(&mut self, f: &mut dyn FnMut(&mut dyn Qdiscs)) -> SwapDone {
        let mut done = SwapDone::default();
        let mut cx = Cx::new(POOL, self.tree.env().seed);
        let Ok(mut tree) = show::copy(&self.tree, &mut cx) else { return done };
        f(&mut InTree::new(&mut tree, &mut cx));
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

/// Does a text in every way that there is, on devices with packets in them, and checks what must hold whatever it says:
/// every error lies in the text, JSON is printed for JSON, a dry run and a failed atomic batch change nothing, and what
/// is saved makes the same again. The fuzz target and the tests of random text are this.
///
/// # Panics
/// If one of these does not hold.
pub fn any_text(text: &str) {
    spans(text);
    let as_batch = |flags: &[&str]| Request {
        args: flags.iter().chain(&["-b", "b"]).map(|a| (*a).to_string()).collect(),
        batch: Some(Source::new("b", text)),
        ..Request::default()
    };
    let mut devices = loaded();
    let before = save(&mut devices);
    for flags in [&["--dry-run"][..], &["-j", "--dry-run", "--atomic", "-force"]] {
        let outcome = run(&as_batch(flags), &mut devices);
        assert!(outcome.status <= 1, "{flags:?}: {}", outcome.status);
        assert_eq!(save(&mut devices), before, "{flags:?} changed something");
    }
    let mut moved = loaded();
    if run(&as_batch(&["--atomic"]), &mut moved).status != 0 {
        assert_eq!(save(&mut moved), before, "a failed atomic batch changed something");
    }
    run(&as_batch(&["-s", "-d", "-r", "-force"]), &mut devices);
    for line in text.lines().take(8) {
        let args: Vec<String> = line.split_whitespace().map(String::from).collect();
        let outcome = run(&Request { args, ..Request::default() }, &mut devices);
        assert!(matches!(outcome.status, 0..=2 | 255), "{}", outcome.status);
        assert!(outcome.status == 0 || !outcome.stderr.is_empty(), "an error without a word: {line}");
    }
    for mut devices in [devices, moved] {
        let saved = save(&mut devices);
        let mut again = loaded();
        let batch = format!("qdisc del dev a root\n{saved}");
        let request = Request {
            args: vec!["-b".into()],
            batch: Some(Source::new("saved", batch)),
            ..Request::default()
        };
        let outcome = run(&request, &mut again);
        assert_eq!((outcome.status, outcome.stderr.as_str()), (0, ""), "{saved}");
        assert_eq!(save(&mut again), saved);
    }
}

/// Two devices, of which the first has packets.
fn loaded() -> Memory {
    let mut devices = Memory::new(&["a", "b"]);
    let args = "qdisc add dev a root handle 1: prio".split(' ').map(String::from).collect();
    run(&Request { args, ..Request::default() }, &mut devices);
    if let Some(a) = devices.get("a") {
        for n in 0..6u32 {
            a.enqueue(Meta::new(100 + n).priority(n).hash(n));
        }
    }
    devices
}

/// Every error and warning lies in the text.
fn spans(text: &str) {
    let within = |d: &Diagnostic| {
        assert!(d.source.text.get(d.span.clone()).is_some(), "{:?} of {:?}", d.span, d.source.text);
        assert!(!d.to_string().is_empty() && d.json().starts_with('{'));
    };
    let source = Arc::new(Source::new("t", text));
    for line in lex::lines(&source, 0..text.len()) {
        match line.map(|line| command::read(&source, &line)) {
            Ok(Ok(command)) => assert!(text.get(command.span().clone()).is_some()),
            Ok(Err(failure)) => within(&failure.diagnostic),
            Err(diagnostic) => within(&diagnostic),
        }
    }
    match Policy::parse(text, "p") {
        Err(all) => all.iter().for_each(within),
        Ok(policy) => {
            policy.warnings().iter().for_each(within);
            let mut tree = Tree::new(Env::default());
            match policy.apply(&mut tree, &mut Cx::new(1, 0)) {
                Err(diagnostic) => within(&diagnostic),
                Ok(()) => {
                    let said = show::commands(&tree, None);
                    let mut again = Tree::new(Env::default());
                    let applied =
                        Policy::parse(&said, "again").map(|p| p.apply(&mut again, &mut Cx::new(1, 0)));
                    assert!(matches!(applied, Ok(Ok(()))), "{said}");
                    assert_eq!(show::commands(&again, None), said);
                }
            }
        }
    }
}
