//! A machine in memory that answers the commands of a script as Linux would: tc, ip, iptables, nft,
//! sysctl and their like. tc has its own engine behind it; the other commands have a plausible
//! model of devices, addresses, firewall rules and settings. A script that runs against it takes
//! the branches that it would take on a machine without qdiscs, and changes nothing.
//!
//! The machine has `lo`, the devices that it was told of, and any other device from the first call
//! that names it. A device whose name begins as that of a virtual one (`ifb0`, `veth1`) exists only
//! once a call has made it.
//!
//! A namespace has at most 1000 devices, and the machine at most 256 namespaces.

mod firewall;
mod host;
mod ip;
mod ip_show;
mod net_tools;
mod tc;

use std::collections::BTreeMap;

use txweir_core::Rate;
use txweir_tc::tool::Outcome;

use firewall::Firewall;
pub use firewall::Marking;
use host::Host;
pub use host::Nic;
pub(crate) use tc::{Fate, Ran};

/// Most network namespaces of a machine.
const NAMESPACES: usize = 256;

/// The commands that a machine answers.
pub const PROGRAMS: [&str; 15] = [
    "tc",
    "ip",
    "iptables",
    "ip6tables",
    "iptables-restore",
    "ip6tables-restore",
    "iptables-save",
    "ip6tables-save",
    "nft",
    "modprobe",
    "insmod",
    "rmmod",
    "sysctl",
    "ifconfig",
    "ethtool",
];

/// A call of a command by a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// The command's name, without its directory.
    pub program: String,
    /// The words after it.
    pub args: Vec<String>,
    /// The text that the command reads, from a file or from standard input.
    pub input: Option<String>,
    /// The network namespace, if the call is inside `ip netns exec`.
    pub netns: Option<String>,
    /// True if the call's errors go to `/dev/null`.
    pub quiet: bool,
    /// Place in the script, if it is known: `setup.sh:31`.
    pub at: Option<String>,
}

/// The properties of a machine that no call tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineOptions {
    /// Devices and the rates of their links. Those that are not virtual exist from the start, and
    /// the first of them leads to the default route; without one `eth0` does.
    pub devices: Vec<(String, Option<Rate>)>,
    /// The rate of the other links.
    pub link: Option<Rate>,
    /// The largest packet without its link header, bytes.
    pub mtu: u32,
    /// The length of a device's queue, packets.
    pub txqueuelen: u32,
    /// Transmit queues of a device that is not virtual.
    pub queues: u16,
}

impl Default for MachineOptions {
    fn default() -> Self {
        Self { devices: Vec::new(), link: None, mtu: 1500, txqueuelen: 1000, queues: 4 }
    }
}

/// The machine.
#[derive(Debug)]
pub struct Machine {
    options: MachineOptions,
    /// The network namespaces by their names; the first has none.
    hosts: BTreeMap<String, Host>,
    firewall: Firewall,
    sysctls: BTreeMap<String, String>,
}

impl Machine {
    /// Returns a machine without qdiscs.
    pub fn new(options: &MachineOptions) -> Self {
        let first = Host::new(options, true);
        Self {
            options: options.clone(),
            hosts: BTreeMap::from([(String::new(), first)]),
            firewall: Firewall::default(),
            sysctls: BTreeMap::new(),
        }
    }

    /// Answers a call.
    pub fn call(&mut self, call: &Call) -> Outcome {
        let netns = call.netns.clone().unwrap_or_default();
        let input = call.input.as_deref().unwrap_or("");
        match call.program.as_str() {
            "tc" => self.tc(call, &netns).outcome,
            "ip" => ip::run(self, &netns, &call.args, call.input.as_deref()),
            "iptables" | "ip6tables" => self.firewall.iptables(&call.program, &call.args),
            "iptables-restore" | "ip6tables-restore" => self.firewall.restore(&call.program, input),
            "iptables-save" | "ip6tables-save" => said(self.firewall.saved(&call.program)),
            "nft" => self.firewall.nft(&call.args, input),
            "sysctl" => self.sysctl(&call.args, input),
            "ifconfig" => match self.host(&netns) {
                Some(host) => net_tools::ifconfig(host, &call.args),
                None => Outcome::default(),
            },
            "ethtool" => match self.host(&netns) {
                Some(host) => net_tools::ethtool(host, &call.args),
                None => Outcome::default(),
            },
            "modprobe" | "insmod" | "rmmod" => match self.host(&netns) {
                Some(host) => net_tools::module(host, &call.program, &call.args),
                None => Outcome::default(),
            },
            other => failed(127, format!("{other}: command not found\n")),
        }
    }

    /// Returns the devices of the first network namespace.
    pub fn devices(&self) -> impl Iterator<Item = &Nic> {
        self.hosts.get("").into_iter().flat_map(Host::nics)
    }

    /// Returns the devices of the first network namespace to which a call gave a root qdisc.
    pub fn rooted(&mut self) -> Vec<String> {
        self.host("").map(Host::rooted).unwrap_or_default()
    }

    /// Returns the devices of the first network namespace to which a call gave a root qdisc, or
    /// filters at a hook.
    pub fn shaped(&mut self) -> Vec<String> {
        self.host("").map(Host::shaped).unwrap_or_default()
    }

    /// Returns the tc lines that make a device of the first network namespace as it is now, with
    /// its hook, and the devices to which its actions send packets.
    pub fn policy(&mut self, device: &str) -> String {
        self.host("").map(|host| host.saved(device)).unwrap_or_default()
    }

    /// Returns the marks and classes that the rules of the firewall give to packets.
    pub const fn marking(&self) -> &Marking {
        self.firewall.marking()
    }

    /// Returns the namespace of this name.
    fn host(&mut self, netns: &str) -> Option<&mut Host> {
        self.hosts.get_mut(netns)
    }

    /// Returns the namespaces that have names.
    fn namespaces(&self) -> Vec<&str> {
        self.hosts.keys().map(String::as_str).filter(|name| !name.is_empty()).collect()
    }

    /// Adds a namespace; returns false if it is there, or if there is no room.
    fn add_namespace(&mut self, name: &str) -> bool {
        let fits = !self.hosts.contains_key(name) && self.hosts.len() < NAMESPACES;
        if fits {
            self.hosts.insert(name.into(), Host::new(&self.options, false));
        }
        fits
    }

    /// Removes a namespace; returns false if there is none.
    fn remove_namespace(&mut self, name: &str) -> bool {
        !name.is_empty() && self.hosts.remove(name).is_some()
    }

    /// Moves a device to a namespace; returns false if one of them does not exist.
    fn move_device(&mut self, from: &str, device: &str, to: &str) -> bool {
        if !self.hosts.contains_key(to) {
            return false;
        }
        let Some(nic) = self.host(from).and_then(|host| host.remove(device)) else { return false };
        self.host(to).is_some_and(|host| host.insert(Nic { up: false, ..nic }))
    }

    fn sysctl(&mut self, args: &[String], input: &str) -> Outcome {
        let mut done = Outcome::default();
        let flag = |short: char| {
            args.iter().any(|a| a.starts_with('-') && !a.starts_with("--") && a[1..].contains(short))
        };
        let (bare, quiet, lenient) = (flag('n'), flag('q'), flag('e'));
        let words = args.iter().filter(|a| !a.starts_with('-')).map(String::as_str);
        // `-p` reads settings from a file, which the caller has read.
        let lines = input.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with(['#', ';']));
        let all: Vec<&str> = if flag('p') { lines.collect() } else { words.collect() };
        for word in all {
            match word.split_once('=') {
                Some((key, value)) => {
                    let (key, value) = (key.trim().replace('/', "."), value.trim().to_string());
                    if !quiet {
                        done.stdout.push_str(&format!("{key} = {value}\n"));
                    }
                    self.sysctls.insert(key, value);
                }
                None => {
                    let key = word.replace('/', ".");
                    let known = self.sysctls.get(&key).map(String::as_str).or_else(|| built_in(&key));
                    match known {
                        Some(value) if bare => done.stdout.push_str(&format!("{value}\n")),
                        Some(value) => done.stdout.push_str(&format!("{key} = {value}\n")),
                        None if lenient => {}
                        None => {
                            let path = key.replace('.', "/");
                            let text =
                                format!("sysctl: cannot stat /proc/sys/{path}: No such file or directory\n");
                            done.stderr.push_str(&text);
                            done.status = 1;
                        }
                    }
                }
            }
        }
        done
    }
}

/// Returns the value of a setting that no call has set, of those that scripts for tc ask for.
fn built_in(key: &str) -> Option<&'static str> {
    Some(match key {
        "net.core.default_qdisc" => "pfifo_fast",
        "net.core.rmem_max" | "net.core.wmem_max" => "212992",
        "net.core.netdev_max_backlog" => "1000",
        "net.ipv4.tcp_congestion_control" => "cubic",
        "net.ipv4.tcp_ecn" => "2",
        "net.ipv4.tcp_rmem" => "4096\t131072\t6291456",
        "net.ipv4.tcp_wmem" => "4096\t16384\t4194304",
        "net.ipv4.ip_forward" | "net.ipv6.conf.all.forwarding" => "0",
        "kernel.ostype" => "Linux",
        _ => return None,
    })
}

/// Returns the outcome of a success with this text.
fn said(stdout: impl Into<String>) -> Outcome {
    Outcome { stdout: stdout.into(), ..Outcome::default() }
}

/// Returns the outcome of a failure with this text.
fn failed(status: u8, stderr: impl Into<String>) -> Outcome {
    Outcome { status, stderr: stderr.into(), ..Outcome::default() }
}
