//! The devices of one network namespace.

use std::collections::BTreeMap;

use txweir_core::{Env, Rate};
use txweir_tc::memory::{Memory, MemoryDevice};
use txweir_tc::tool::{self, Outcome, Request};

use super::MachineOptions;

/// Most devices of a namespace.
const DEVICES: usize = 1000;

/// Longest name of a device (`IFNAMSIZ` without its end).
const NAME_MAX: usize = 15;

/// The beginnings of the names of devices that a machine has only once a call has made them.
const VIRTUAL: [&str; 6] = ["ifb", "imq", "veth", "dummy", "tap", "tun"];

/// A device, as `ip link` prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    /// Its name.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// Its kind, as `ip link add` names it; empty for one that is not virtual.
    pub kind: String,
    /// True if it is up.
    pub up: bool,
    /// The largest packet without its link header, bytes.
    pub mtu: u32,
    /// The length of its queue, packets.
    pub txqueuelen: u32,
    /// Number of its transmit queues.
    pub queues: u16,
    /// The rate of its link, if it is known.
    pub rate: Option<Rate>,
    /// Its addresses with their prefixes.
    pub addresses: Vec<String>,
}

impl Nic {
    /// Returns the address of its link.
    pub fn mac(&self) -> String {
        match self.name.as_str() {
            "lo" => "00:00:00:00:00:00".into(),
            _ => format!("02:00:00:00:{:02x}:{:02x}", self.index >> 8 & 0xff, self.index & 0xff),
        }
    }
}

/// A network namespace.
#[derive(Debug)]
pub(super) struct Host {
    options: MachineOptions,
    nics: Vec<Nic>,
    memory: Memory,
    next: u32,
    /// True if any name that is no virtual one is a device.
    any_name: bool,
    /// Routes that calls have added, as `ip route` prints them.
    pub(super) routes: Vec<String>,
}

impl Host {
    pub(super) fn new(options: &MachineOptions, first: bool) -> Self {
        let mut host = Self {
            options: options.clone(),
            nics: Vec::new(),
            memory: Memory::new(&[]),
            next: 1,
            any_name: first,
            routes: Vec::new(),
        };
        host.make("lo", "loopback", 1);
        if let Some(lo) = host.nic_mut("lo") {
            (lo.up, lo.mtu, lo.addresses) = (first, 65_536, vec!["127.0.0.1/8".into()]);
        }
        if first {
            let told: Vec<&str> = options.devices.iter().map(|(name, _)| name.as_str()).collect();
            for name in told {
                host.find(name);
            }
            if host.uplink().is_none() {
                host.find("eth0");
            }
        }
        host
    }

    pub(super) fn nics(&self) -> impl Iterator<Item = &Nic> {
        self.nics.iter()
    }

    /// Returns the device that leads to the default route.
    pub(super) fn uplink(&self) -> Option<&Nic> {
        self.nics.iter().find(|nic| nic.kind.is_empty())
    }

    /// Returns the device of this name. A device of the first namespace that is not virtual exists
    /// from the first call that names it.
    pub(super) fn find(&mut self, name: &str) -> Option<&mut Nic> {
        if self.has(name) {
            return self.nic_mut(name);
        }
        let is_virtual = VIRTUAL.iter().any(|kind| name.starts_with(kind));
        if !self.any_name || is_virtual || !self.make(name, "", self.options.queues) {
            return None;
        }
        let nth = self.nics.iter().filter(|nic| nic.kind.is_empty()).count();
        let nic = self.nic_mut(name)?;
        (nic.up, nic.addresses) = (
            true,
            vec![match nth {
                1 => "192.0.2.2/24".to_string(),
                nth => format!("10.0.{}.1/24", nth % 256),
            }],
        );
        Some(nic)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.nics.iter().any(|nic| nic.name == name)
    }

    /// True for a device that the machine was only told of: it gives way to one that a call makes.
    pub(super) fn gives_way(&self, name: &str) -> bool {
        let is_told = self.options.devices.iter().any(|(told, _)| told == name);
        is_told && self.nics.iter().any(|nic| nic.name == name && nic.kind.is_empty())
    }

    fn nic_mut(&mut self, name: &str) -> Option<&mut Nic> {
        self.nics.iter_mut().find(|nic| nic.name == name)
    }

    /// Makes a device; returns false if its name is taken or is none, or if there is no room.
    pub(super) fn make(&mut self, name: &str, kind: &str, queues: u16) -> bool {
        if !kind.is_empty() && self.gives_way(name) {
            self.remove(name);
        }
        let options = &self.options;
        let told = options.devices.iter().find(|(told, _)| told == name);
        let nic = Nic {
            name: name.into(),
            index: self.next,
            kind: kind.into(),
            up: false,
            mtu: options.mtu,
            txqueuelen: options.txqueuelen,
            queues: queues.max(1),
            rate: told.map_or(options.link.filter(|_| kind.is_empty()), |(_, rate)| *rate),
            addresses: Vec::new(),
        };
        self.insert(nic)
    }

    /// Adds a device; returns false if its name is taken or is none, or if there is no room.
    pub(super) fn insert(&mut self, mut nic: Nic) -> bool {
        let usable = !nic.name.is_empty() && nic.name.len() <= NAME_MAX && !nic.name.contains(['/', ' ']);
        if !usable
            || matches!(nic.name.as_str(), "." | "..")
            || self.has(&nic.name)
            || self.nics.len() >= DEVICES
        {
            return false;
        }
        nic.index = self.next;
        self.next += 1;
        let env = Env { mtu: nic.mtu, tx_queue_len: nic.txqueuelen, link_rate: nic.rate, ..Env::default() };
        self.memory.insert(MemoryDevice::without_room(&nic.name, u32::from(nic.queues), env));
        self.nics.push(nic);
        true
    }

    /// Removes a device with its qdiscs.
    pub(super) fn remove(&mut self, name: &str) -> Option<Nic> {
        let at = self.nics.iter().position(|nic| nic.name == name)?;
        for place in ["root", "clsact", "ingress"] {
            self.tc(&["qdisc", "del", "dev", name, place].map(String::from), None);
        }
        self.memory.remove(name);
        Some(self.nics.remove(at))
    }

    /// Gives a device another name; returns false if it is taken or is none.
    pub(super) fn rename(&mut self, from: &str, to: &str) -> bool {
        let usable = !to.is_empty() && to.len() <= NAME_MAX && !to.contains('/') && !self.has(to);
        if !usable || !self.has(from) {
            return false;
        }
        self.memory.rename(from, to);
        if let Some(nic) = self.nic_mut(from) {
            nic.name = to.into();
        }
        true
    }

    /// Runs tc on the devices.
    pub(super) fn tc(&mut self, args: &[String], batch: Option<txweir_tc::Source>) -> Outcome {
        tool::run(&Request { args: args.to_vec(), batch, class_names: None }, &mut self.memory)
    }

    /// Returns the names of the devices that have a root qdisc of a line.
    pub(super) fn rooted(&mut self) -> Vec<String> {
        self.having(&["root"])
    }

    /// Returns the names of the devices that have a root qdisc of a line, or a hook.
    pub(super) fn shaped(&mut self) -> Vec<String> {
        self.having(&["root", "ingress", "clsact", "ingress_block", "egress_block"])
    }

    /// Returns the names of the devices that have a qdisc at one of these places.
    fn having(&mut self, places: &[&str]) -> Vec<String> {
        let saved = tool::save(&mut self.memory);
        let has = |name: &&String| {
            let head = format!("qdisc replace dev {name} ");
            let rest = saved.lines().filter_map(|line| line.strip_prefix(&head));
            rest.filter_map(|rest| rest.split(' ').next()).any(|place| places.contains(&place))
        };
        self.nics.iter().map(|nic| &nic.name).filter(has).cloned().collect()
    }

    /// Returns the lines that make the qdiscs, classes and filters of a device and of the devices
    /// to which its actions send packets, with their hooks and the actions that have lines of their
    /// own.
    pub(super) fn saved(&mut self, name: &str) -> String {
        let saved = tool::save(&mut self.memory);
        let words: Vec<Vec<&str>> = saved.lines().map(|line| line.split(' ').collect()).collect();
        let mut devices = vec![name];
        let mut next = 0;
        // Bound: each device is in the list once.
        while let Some(from) = devices.get(next).copied() {
            next += 1;
            for line in words.iter().filter(|line| device_of(line) == Some(from)) {
                let actions = line.iter().enumerate().filter(|(_, w)| **w == "mirred");
                for target in actions.filter_map(|(at, _)| device_in(&line[at..])) {
                    if !devices.contains(&target) {
                        devices.push(target);
                    }
                }
            }
        }
        let is_meant = |words: &Vec<&str>| device_of(words).is_none_or(|dev| devices.contains(&dev));
        let lines = saved.lines().zip(&words).filter(|(_, words)| is_meant(words));
        lines.map(|(line, _)| format!("{line}\n")).collect()
    }

    /// Returns the kind of the root qdisc of a device.
    pub(super) fn qdisc(&mut self, name: &str) -> String {
        let virtual_one =
            self.nics.iter().any(|nic| nic.name == name && !nic.kind.is_empty() && nic.kind != "ifb");
        let shown = self.tc(&["qdisc", "show", "dev", name].map(String::from), None).stdout;
        let root = shown.lines().find(|line| line.contains(" root "));
        let kind = root.and_then(|line| line.split(' ').nth(1)).unwrap_or("noop");
        if virtual_one && kind == "pfifo_fast" { "noqueue".into() } else { kind.into() }
    }

    /// Returns the routes: those that the addresses make, and those of calls.
    pub(super) fn routes(&self) -> Vec<String> {
        let mut routes = Vec::new();
        if let Some(nic) = self.uplink() {
            routes.push(format!("default via 192.0.2.1 dev {} ", nic.name));
        }
        for nic in self.nics.iter().filter(|nic| nic.up && nic.name != "lo") {
            for address in nic.addresses.iter().filter(|a| !a.contains(':')) {
                let (host, prefix) = address.split_once('/').unwrap_or((address, "32"));
                let net = host.rsplit_once('.').map_or(host, |(net, _)| net);
                let name = &nic.name;
                routes.push(format!("{net}.0/{prefix} dev {name} proto kernel scope link src {host} "));
            }
        }
        routes.extend(self.routes.iter().cloned());
        routes
    }

    /// Returns the number of devices of each kind.
    pub(super) fn kinds(&self) -> BTreeMap<&str, usize> {
        let mut kinds = BTreeMap::new();
        for nic in &self.nics {
            *kinds.entry(nic.kind.as_str()).or_insert(0) += 1;
        }
        kinds
    }
}

/// Returns the name of the first device in the words of a line.
fn device_in<'a>(words: &[&'a str]) -> Option<&'a str> {
    let at = words.iter().position(|word| *word == "dev")?;
    words.get(at + 1).copied()
}

/// Returns the device that a line is for, which follows its object and verb.
fn device_of<'a>(words: &[&'a str]) -> Option<&'a str> {
    words.get(2).filter(|word| **word == "dev").and_then(|_| words.get(3).copied())
}
