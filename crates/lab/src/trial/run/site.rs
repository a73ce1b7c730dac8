//! The net of a run: the two hosts, the lines between them, the ifbs of the near host, the traffic.

use std::sync::Arc;

use txweir_core::base::rng::Rng;
use txweir_core::model::wire::WireConfig;
use txweir_core::path::txpath::PathConfig;
use txweir_core::{DqlConfig, Env, Nanos, Rate, Role};
use txweir_tc::{Command, Diagnostic, Policy};

use crate::cpu::Cpu;
use crate::link::LinkConfig;
use crate::net::Net;
use crate::nic::{NicConfig, targets};
use crate::trial::mix::Loads;
use crate::trial::transport::transport;
use crate::trial::{Entry, FAR, NEAR, Setup, Traffic, TrialError};

/// Packets that the policy may have waiting, in each path: more than any default limit, and one for
/// each default child of many.
const POOL: usize = 1 << 16;
/// The way back is at least this fast, and ten times the bottleneck.
const WIDE: u64 = 10_000_000_000;
/// The queue of the provider ahead of the line down.
const PROVIDER: &str = "qdisc add root pfifo limit 1000";

/// The NIC that is tried: the near host's, for its packets up.
pub(super) const TRIED: u32 = 0;
/// The provider's NIC, for packets down.
pub(super) const PROVIDERS: u32 = 1;

/// The devices of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    /// The device of the line; `None` if no line of the policy names it.
    pub main: Option<String>,
    /// The ifbs, in order of appearance.
    pub ifbs: Vec<String>,
}

/// True for the names that people give to ifbs.
fn is_ifb(name: &str) -> bool {
    ["ifb", "imq"].iter().any(|kind| name.starts_with(kind))
}

/// Returns the devices of a policy: an ifb is a device that `mirred` of another one names, or that
/// is called so. A policy for an ifb alone is tried at the line.
///
/// # Errors
/// The policy has lines for several devices that are none.
pub fn devices(policy: &Policy) -> Result<Devices, Diagnostic> {
    let targets = targets(policy);
    let own = policy.devices();
    let lines = |name: &&&str| !is_ifb(name) && !targets.iter().any(|t| t == **name);
    let mains: Vec<&str> = own.iter().filter(lines).copied().collect();
    let main = match (mains.as_slice(), own.as_slice()) {
        ([_, second, ..], _) => {
            let at = policy.commands().iter().filter_map(Command::dev).find(|dev| dev.text == *second);
            let span = at.map_or(0..0, |dev| dev.span.clone());
            let source = Arc::new(policy.source().clone());
            let message = format!("this is for {second}, and a line before is for {}", mains[0]);
            let err = Diagnostic::error(txweir_tc::diagnostic::code::CONFLICT, &source, span, message);
            return Err(err.expected("lines for one device and its ifbs"));
        }
        ([one], _) | ([], [one]) => Some((*one).to_string()),
        _ => None,
    };
    let mut ifbs: Vec<String> = Vec::new();
    for name in own.iter().copied().map(String::from).chain(targets) {
        if Some(&name) != main.as_ref() && !ifbs.contains(&name) {
            ifbs.push(name);
        }
    }
    Ok(Devices { main, ifbs })
}

/// The device of the bottleneck.
fn wire(setup: &Setup) -> WireConfig {
    WireConfig { rate: setup.link, rings: setup.queues, ring: setup.ring, ..WireConfig::default() }
}

/// The device as policies see it.
fn env(setup: &Setup) -> Env {
    Env {
        link_rate: Some(setup.link),
        queues: setup.queues,
        offload: wire(setup).offload,
        // Another stream than the net's own.
        seed: Rng::new(!setup.seed).next_u64(),
        ..Env::default()
    }
}

/// A path of a forwarder.
fn path(env: Env, bql: bool) -> PathConfig {
    PathConfig { env, pool: POOL, role: Role::Forwarder, bql: bql.then(DqlConfig::default), trace: 0 }
}

/// The line up, with the policy.
fn up(setup: &Setup) -> NicConfig {
    let link = LinkConfig { delay: Nanos(setup.rtt.0 / 2), ..LinkConfig::default() };
    NicConfig { path: path(env(setup), setup.bql), wire: wire(setup), link, seed: setup.seed }
}

/// The line down, behind the provider's queue; or a wide way back.
fn down(setup: &Setup) -> NicConfig {
    let delay = setup.rtt.saturating_sub(Nanos(setup.rtt.0 / 2));
    let link = LinkConfig { delay, ..LinkConfig::default() };
    let (path, rate) = match setup.down {
        Some(rate) => (path(Env { link_rate: Some(rate), ..Env::default() }, true), rate),
        None => {
            let rate = Rate::from_bits(setup.link.bits().saturating_mul(10).max(WIDE));
            (PathConfig::default(), rate)
        }
    };
    NicConfig { path, wire: WireConfig { rate, ..WireConfig::default() }, link, seed: setup.seed }
}

/// An ifb of the near host.
fn ifb(setup: &Setup, nth: u64) -> NicConfig {
    let seed = Rng::new((!setup.seed).wrapping_add(nth)).next_u64();
    let env = Env { link_rate: None, tx_queue_len: NicConfig::IFB_QUEUE, seed, ..Env::default() };
    NicConfig::ifb(path(env, false), seed)
}

/// Makes the hosts, both lines, the ifbs of a policy and the policy.
fn site(setup: &Setup, traffic: &Traffic, policy: Option<&Policy>) -> Result<Net, TrialError> {
    let wrong = TrialError::Setup;
    let refused = |d| TrialError::Policy(Box::new(d));
    let mut net = Net::new(setup.seed);
    let (tcp, _) = transport(setup, traffic);
    for _ in [NEAR, FAR] {
        net.host(tcp.clone(), Cpu::default());
    }
    net.link(NEAR, FAR, up(setup)).map_err(wrong)?;
    net.link(FAR, NEAR, down(setup)).map_err(wrong)?;
    if setup.down.is_some() {
        let provider = Policy::parse(PROVIDER, "provider").map_err(|d| refused(d.first().clone()))?;
        net.apply(PROVIDERS, &provider).map_err(refused)?;
    }
    if let Some(policy) = policy {
        let Devices { main, ifbs } = devices(policy).map_err(refused)?;
        if let Some(main) = &main {
            net.set_name(TRIED, main);
        }
        for (name, nth) in ifbs.iter().zip(1..) {
            net.ifb(NEAR, name, ifb(setup, nth)).map_err(wrong)?;
        }
        net.apply(TRIED, policy).map_err(refused)?;
    }
    Ok(net)
}

/// Checks that a policy can be applied.
pub(super) fn check(setup: &Setup, traffic: &Traffic, policy: &Policy) -> Result<(), TrialError> {
    site(setup, traffic, Some(policy)).map(drop)
}

/// Makes the whole net of a run.
pub(super) fn build(setup: &Setup, traffic: &Traffic, entry: &Entry) -> Result<Net, TrialError> {
    let wrong = TrialError::Setup;
    let mut net = site(setup, traffic, entry.policy.as_ref())?;
    match &traffic.load {
        Loads::Groups(groups) => {
            for (i, (group, pace)) in groups.iter().enumerate() {
                net.group(group.clone()).map_err(wrong)?;
                net.traffic_mut().set_pace(i, *pace);
            }
        }
        Loads::Replay(frames) => {
            net.replay(NEAR, FAR, Arc::clone(frames)).map_err(wrong)?;
        }
    }
    net.watch();
    Ok(net)
}

/// Returns the NICs that a policy has: that of the line, and those of its ifbs.
pub(super) fn tried(net: &Net) -> impl Iterator<Item = u32> + use<> {
    std::iter::once(TRIED).chain(PROVIDERS + 1..net.links().count())
}
