//! The older commands about devices: ifconfig, ethtool, and those that load modules.

use txweir_tc::tool::Outcome;

use super::host::Host;
use super::{failed, said};

/// Most devices that the load of a module makes.
const MADE: u32 = 256;

/// Answers `ifconfig`.
pub(super) fn ifconfig(host: &mut Host, args: &[String]) -> Outcome {
    let words: Vec<&str> = args.iter().map(String::as_str).filter(|a| !a.starts_with('-')).collect();
    let Some((name, rest)) = words.split_first() else {
        let all: Vec<String> = host.nics().filter(|nic| nic.up).map(|nic| nic.name.clone()).collect();
        return said(all.iter().map(|name| block(host, name)).collect::<String>());
    };
    if host.find(name).is_none() {
        let doing = if rest.is_empty() {
            "error fetching interface information"
        } else {
            "ERROR while getting interface flags"
        };
        return failed(
            if rest.is_empty() { 1 } else { 255 },
            format!("{name}: {doing}: {}\n", "No such device"),
        );
    }
    if rest.is_empty() {
        return said(block(host, name));
    }
    let mut words = rest.iter();
    while let (Some(word), Some(nic)) = (words.next(), host.find(name)) {
        match *word {
            "up" => nic.up = true,
            "down" => nic.up = false,
            "mtu" => nic.mtu = words.next().and_then(|n| n.parse().ok()).unwrap_or(nic.mtu),
            "txqueuelen" => {
                nic.txqueuelen = words.next().and_then(|n| n.parse().ok()).unwrap_or(nic.txqueuelen)
            }
            "netmask" | "broadcast" | "metric" | "hw" => drop(words.next()),
            address if address.contains('.') => {
                nic.addresses = vec![format!("{}/24", address.split('/').next().unwrap_or(""))]
            }
            _ => {}
        }
    }
    Outcome::default()
}

fn block(host: &mut Host, name: &str) -> String {
    let Some(nic) = host.find(name) else { return String::new() };
    let flags = if nic.up { "4163<UP,BROADCAST,RUNNING,MULTICAST>" } else { "4098<BROADCAST,MULTICAST>" };
    let mut text = format!("{name}: flags={flags}  mtu {}\n", nic.mtu);
    for address in &nic.addresses {
        let bare = address.split('/').next().unwrap_or("");
        text.push_str(&format!("        inet {bare}  netmask 255.255.255.0\n"));
    }
    let (mac, qlen) = (nic.mac(), nic.txqueuelen);
    text + &format!("        ether {mac}  txqueuelen {qlen}  (Ethernet)\n\n")
}

/// Answers `ethtool`.
pub(super) fn ethtool(host: &mut Host, args: &[String]) -> Outcome {
    let option = args.first().map_or("", String::as_str);
    let name = args.iter().find(|a| !a.starts_with('-')).map_or("", String::as_str);
    if matches!(option, "--version" | "-h" | "--help") || name.is_empty() {
        return said("ethtool version 6.1\n");
    }
    let Some(nic) = host.find(name) else {
        return failed(71, "netlink error: No such device\n");
    };
    let queues = nic.queues;
    match option {
        "-k" | "--show-features" | "--show-offload" => said(format!(
            "Features for {name}:\nrx-checksumming: on\ntx-checksumming: on\nscatter-gather: on\n\
             tcp-segmentation-offload: on\ngeneric-segmentation-offload: on\n\
             generic-receive-offload: on\nlarge-receive-offload: off [fixed]\n"
        )),
        "-l" | "--show-channels" => said(format!(
            "Channel parameters for {name}:\nPre-set maximums:\nRX:\t\tn/a\nTX:\t\tn/a\nOther:\t\tn/a\n\
             Combined:\t{queues}\nCurrent hardware settings:\nRX:\t\tn/a\nTX:\t\tn/a\nOther:\t\tn/a\n\
             Combined:\t{queues}\n"
        )),
        "-i" | "--driver" => said("driver: e1000e\nversion: 6.12\nbus-info: 0000:00:19.0\n"),
        _ if option.starts_with('-') => Outcome::default(),
        _ => {
            let speed = nic.rate.map_or(1000, |rate| rate.bits() / 1_000_000);
            let link = if nic.up { "yes" } else { "no" };
            said(format!(
                "Settings for {name}:\n\tSpeed: {speed}Mb/s\n\tDuplex: Full\n\tLink detected: {link}\n"
            ))
        }
    }
}

/// Answers `modprobe`, `insmod` and `rmmod`. Modules load; ifb, dummy and imq make their devices.
pub(super) fn module(host: &mut Host, program: &str, args: &[String]) -> Outcome {
    let removes = program == "rmmod" || args.iter().any(|a| matches!(a.as_str(), "-r" | "--remove"));
    let words: Vec<&str> = args.iter().map(String::as_str).filter(|a| !a.starts_with('-')).collect();
    let Some((module, settings)) = words.split_first() else { return Outcome::default() };
    let module = module.rsplit('/').next().unwrap_or(module).trim_end_matches(".ko");
    let (kind, key, default) = match module {
        "ifb" => ("ifb", "numifbs", 2),
        "dummy" => ("dummy", "numdummies", 1),
        "imq" => ("imq", "numdevs", 2),
        _ => return Outcome::default(),
    };
    if removes {
        let all: Vec<String> =
            host.nics().filter(|nic| nic.kind == kind).map(|nic| nic.name.clone()).collect();
        all.iter().for_each(|name| drop(host.remove(name)));
        return Outcome::default();
    }
    // A module that is loaded already makes no further devices.
    if host.kinds().contains_key(kind) {
        return Outcome::default();
    }
    let given = settings.iter().filter_map(|s| s.split_once('=')).find(|(k, _)| *k == key);
    let many = given.and_then(|(_, n)| n.parse::<u32>().ok()).unwrap_or(default).min(MADE);
    for n in 0..many {
        host.make(&format!("{kind}{n}"), kind, 1);
    }
    Outcome::default()
}
