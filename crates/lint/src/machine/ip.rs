//! Calls of ip: devices, addresses, routes and namespaces. Objects without a model (rules,
//! neighbours, tunnels' details) are taken and have no effect.

use txweir_tc::tool::Outcome;

use super::ip_show::{self, Form};
use super::{Machine, failed, said};

/// The objects, in the order in which ip tries them on an abbreviation.
const OBJECTS: [&str; 26] = [
    "address",
    "addrlabel",
    "maddress",
    "route",
    "rule",
    "neighbor",
    "neighbour",
    "ntable",
    "ntbl",
    "link",
    "l2tp",
    "fou",
    "macsec",
    "tunnel",
    "tunl",
    "tuntap",
    "tap",
    "token",
    "tcpmetrics",
    "monitor",
    "xfrm",
    "mroute",
    "mrule",
    "netns",
    "netconf",
    "vrf",
];

/// The kinds of devices that `ip link add` makes.
const KINDS: [&str; 24] = [
    "bareudp",
    "bond",
    "bridge",
    "can",
    "dummy",
    "geneve",
    "gre",
    "gretap",
    "ifb",
    "ip6gre",
    "ip6tnl",
    "ipip",
    "ipvlan",
    "macsec",
    "macvlan",
    "macvtap",
    "netdevsim",
    "nlmon",
    "sit",
    "team",
    "veth",
    "vlan",
    "vxlan",
    "wireguard",
];

const EXISTS: &str = "RTNETLINK answers: File exists\n";
const INVALID: &str = "RTNETLINK answers: Invalid argument\n";

/// Answers a call of ip in a network namespace; `input` is the text of its batch.
pub(super) fn run(machine: &mut Machine, netns: &str, args: &[String], input: Option<&str>) -> Outcome {
    let mut form = Form::default();
    let (mut netns, mut batch, mut force) = (netns.to_string(), false, false);
    let mut words = args.iter().map(String::as_str).peekable();
    while let Some(option) = words.next_if(|word| word.starts_with('-')) {
        match option.trim_start_matches('-') {
            "o" | "oneline" => form.oneline = true,
            "br" | "brief" => form.brief = true,
            "j" | "js" | "json" => form.json = true,
            "n" | "net" | "netns" => netns = words.next().unwrap_or("").to_string(),
            "b" | "batch" => (batch, _) = (true, words.next()),
            "force" => force = true,
            "f" | "family" | "l" | "loops" | "rc" | "rcvbuf" => drop(words.next()),
            "V" | "Version" => return said("ip utility, iproute2-6.1.0, libbpf 1.1.2\n"),
            _ => {}
        }
    }
    if batch {
        return lines(machine, &netns, input.unwrap_or(""), force);
    }
    let rest: Vec<&str> = words.collect();
    let Some((object, rest)) = rest.split_first() else {
        return failed(255, "Usage: ip [ OPTIONS ] OBJECT { COMMAND | help }\n");
    };
    let Some(object) = OBJECTS.into_iter().find(|name| name.starts_with(object)) else {
        return failed(1, format!("Object \"{object}\" is unknown, try \"ip help\".\n"));
    };
    if machine.host(&netns).is_none() {
        let text = format!("Cannot open network namespace \"{netns}\": No such file or directory\n");
        return failed(255, text);
    }
    match object {
        "link" => link(machine, &netns, rest, form),
        "address" => address(machine, &netns, rest, form),
        "route" => route(machine, &netns, rest),
        "netns" => namespaces(machine, rest),
        "rule" if is(verb(rest), "show") || is(verb(rest), "list") => {
            said("0:\tfrom all lookup local\n32766:\tfrom all lookup main\n32767:\tfrom all lookup default\n")
        }
        "tuntap" | "tunnel" | "tunl" if is(verb(rest), "add") => {
            let name = after(rest, &["dev", "name"]).or_else(|| rest.get(1).copied()).unwrap_or("");
            made(machine, &netns, name, "tun", 1)
        }
        "tuntap" | "tunnel" | "tunl" if is(verb(rest), "delete") => {
            let name = after(rest, &["dev", "name"]).or_else(|| rest.get(1).copied()).unwrap_or("");
            removed(machine, &netns, name)
        }
        _ => Outcome::default(),
    }
}

/// Runs a batch: its lines until one fails, or with `force` all of them.
fn lines(machine: &mut Machine, netns: &str, text: &str, force: bool) -> Outcome {
    let mut done = Outcome::default();
    for (at, line) in text.lines().enumerate() {
        let words: Vec<String> = line.split_whitespace().map(String::from).collect();
        if words.is_empty() || words[0].starts_with(['#', '-']) {
            continue;
        }
        let one = run(machine, netns, &words, None);
        done.stdout.push_str(&one.stdout);
        done.stderr.push_str(&one.stderr);
        if one.status != 0 {
            done.status = 1;
            done.stderr.push_str(&format!("Command failed -:{}\n", at + 1));
            if !force {
                break;
            }
        }
    }
    done
}

fn verb<'a>(words: &[&'a str]) -> &'a str {
    words.first().copied().unwrap_or("show")
}

/// True if a word is this verb, or its beginning.
fn is(word: &str, verb: &str) -> bool {
    !word.is_empty() && verb.starts_with(word)
}

/// Returns the word after the first of these.
fn after<'a>(words: &[&'a str], keys: &[&str]) -> Option<&'a str> {
    words.windows(2).find(|pair| keys.contains(&pair[0])).map(|pair| pair[1])
}

fn missing(name: &str) -> Outcome {
    failed(1, format!("Cannot find device \"{name}\"\n"))
}

fn made(machine: &mut Machine, netns: &str, name: &str, kind: &str, queues: u16) -> Outcome {
    let Some(host) = machine.host(netns) else { return Outcome::default() };
    match host.has(name) && !host.gives_way(name) {
        true => failed(2, EXISTS),
        false if host.make(name, kind, queues) => Outcome::default(),
        false => failed(255, format!("Error: argument \"{name}\" is wrong: \"name\" not a valid ifname\n")),
    }
}

fn removed(machine: &mut Machine, netns: &str, name: &str) -> Outcome {
    let gone = machine.host(netns).and_then(|host| host.remove(name));
    gone.map_or_else(|| missing(name), |_| Outcome::default())
}

fn link(machine: &mut Machine, netns: &str, words: &[&str], form: Form) -> Outcome {
    let rest = words.get(1..).unwrap_or(&[]);
    match verb(words) {
        v if is(v, "add") => link_add(machine, netns, rest),
        v if is(v, "set") || is(v, "change") => link_set(machine, netns, rest),
        v if is(v, "delete") => {
            let name = after(rest, &["dev"]).or_else(|| rest.first().copied()).unwrap_or("");
            removed(machine, netns, name)
        }
        v if is(v, "show") || is(v, "list") || is(v, "lst") => show(machine, netns, rest, form, false),
        _ => Outcome::default(),
    }
}

fn link_add(machine: &mut Machine, netns: &str, words: &[&str]) -> Outcome {
    let kind = after(words, &["type"]).unwrap_or("");
    // The words after the kind are about the kind: a peer has a name too.
    let own = words.split(|word| *word == "type").next().unwrap_or(words);
    let named = after(own, &["name", "dev"]);
    // `link eth0 eth0.5 type vlan` names the device below first.
    let first = if own.first() == Some(&"link") { own.get(2) } else { own.first() };
    let name = named.or_else(|| first.copied()).unwrap_or("");
    if !KINDS.contains(&kind) {
        return failed(2, "Error: Unknown device type.\n");
    }
    let below = after(words, &["link"]).filter(|_| matches!(kind, "vlan" | "macvlan" | "ipvlan"));
    if let Some(below) = below
        && machine.host(netns).is_some_and(|host| host.find(below).is_none())
    {
        return missing(below);
    }
    let queues = after(words, &["numtxqueues", "txqueues"]).and_then(|n| n.parse().ok()).unwrap_or(1);
    let done = made(machine, netns, name, kind, queues);
    if kind != "veth" || done.status != 0 {
        return done;
    }
    let peer = words.iter().position(|w| *w == "peer").map_or(&[][..], |at| &words[at..]);
    let peer_name = after(peer, &["name"]).or_else(|| peer.get(1).copied());
    let free = || format!("{}p", name.chars().take(14).collect::<String>());
    let there = after(peer, &["netns"]).unwrap_or(netns).to_string();
    made(machine, &there, &peer_name.map_or_else(free, String::from), kind, queues)
}

fn link_set(machine: &mut Machine, netns: &str, words: &[&str]) -> Outcome {
    let name = after(words, &["dev"]).or_else(|| words.first().copied()).unwrap_or("");
    if let Some(to) = after(words, &["netns"]) {
        return match machine.move_device(netns, name, to) {
            true => Outcome::default(),
            false if machine.host(netns).is_some_and(|host| host.has(name)) => {
                failed(255, format!("Error: argument \"{to}\" is wrong: Invalid \"netns\" value\n"))
            }
            false => missing(name),
        };
    }
    let Some(host) = machine.host(netns) else { return Outcome::default() };
    let Some(nic) = host.find(name) else { return missing(name) };
    for pair in words.windows(2) {
        let number = pair[1].parse();
        match (pair[0], number) {
            ("mtu", Ok(n)) => nic.mtu = n,
            ("txqueuelen" | "qlen" | "txqlen", Ok(n)) => nic.txqueuelen = n,
            ("mtu" | "txqueuelen" | "qlen" | "txqlen", Err(_)) => return failed(255, INVALID),
            _ => {}
        }
    }
    for word in words {
        match *word {
            "up" => nic.up = true,
            "down" => nic.up = false,
            _ => {}
        }
    }
    match after(words, &["name"]) {
        Some(to) if !host.rename(name, to) => failed(2, EXISTS),
        _ => Outcome::default(),
    }
}

fn show(machine: &mut Machine, netns: &str, words: &[&str], form: Form, addresses: bool) -> Outcome {
    let Some(host) = machine.host(netns) else { return Outcome::default() };
    let keys = ["dev", "type", "up", "scope", "label", "to", "master", "primary", "permanent", "dynamic"];
    let first = words.first().copied().filter(|word| !keys.contains(word));
    let wanted = after(words, &["dev"]).or(first);
    if let Some(name) = wanted
        && host.find(name).is_none()
    {
        return failed(1, format!("Device \"{name}\" does not exist.\n"));
    }
    let kind = after(words, &["type"]);
    let up = words.contains(&"up");
    let all = host.nics().filter(|nic| {
        wanted.is_none_or(|name| nic.name == name)
            && kind.is_none_or(|kind| nic.kind == kind)
            && (nic.up || !up)
    });
    let all: Vec<_> = all.cloned().collect();
    let qdiscs: Vec<String> = all.iter().map(|nic| host.qdisc(&nic.name)).collect();
    said(ip_show::devices(&all, &qdiscs, form, addresses))
}

fn address(machine: &mut Machine, netns: &str, words: &[&str], form: Form) -> Outcome {
    let rest = words.get(1..).unwrap_or(&[]);
    let v = verb(words);
    if is(v, "show") || is(v, "list") || is(v, "lst") {
        return show(machine, netns, rest, form, true);
    }
    let Some(host) = machine.host(netns) else { return Outcome::default() };
    let name = after(rest, &["dev"]).unwrap_or("");
    let Some(nic) = host.find(name) else { return missing(name) };
    let given = rest.first().map_or(String::new(), |a| match a.contains('/') {
        true => (*a).to_string(),
        false => format!("{a}/32"),
    });
    let at = nic.addresses.iter().position(|a| *a == given);
    match (at, v) {
        (_, v) if is(v, "flush") => nic.addresses.clear(),
        (Some(_), v) if is(v, "add") => return failed(2, EXISTS),
        (Some(at), v) if is(v, "delete") => drop(nic.addresses.remove(at)),
        (None, v) if is(v, "delete") => {
            return failed(2, "RTNETLINK answers: Cannot assign requested address\n");
        }
        (None, _) => nic.addresses.push(given),
        _ => {}
    }
    Outcome::default()
}

fn route(machine: &mut Machine, netns: &str, words: &[&str]) -> Outcome {
    let rest = words.get(1..).unwrap_or(&[]);
    let Some(host) = machine.host(netns) else { return Outcome::default() };
    let v = verb(words);
    if is(v, "get") {
        let to = rest.iter().find(|w| **w != "to").copied().unwrap_or("");
        let Some(nic) = host.uplink() else {
            return failed(2, "RTNETLINK answers: Network is unreachable\n");
        };
        let name = &nic.name;
        return said(format!("{to} via 192.0.2.1 dev {name} src 192.0.2.2 uid 0 \n    cache \n"));
    }
    if is(v, "show") || is(v, "list") || is(v, "lst") {
        let dev = after(rest, &["dev"]);
        let default = rest.contains(&"default") || rest.contains(&"0/0");
        let all = host.routes().into_iter().filter(|r| {
            dev.is_none_or(|dev| r.contains(&format!("dev {dev} "))) && (!default || r.starts_with("default"))
        });
        return said(all.map(|r| r + "\n").collect::<String>());
    }
    if let Some(name) = after(rest, &["dev"])
        && host.find(name).is_none()
    {
        return missing(name);
    }
    let text = rest.join(" ") + " ";
    match host.routes.iter().position(|r| *r == text) {
        Some(_) if is(v, "add") => return failed(2, EXISTS),
        Some(at) if is(v, "delete") => drop(host.routes.remove(at)),
        None if is(v, "delete") => return failed(2, "RTNETLINK answers: No such process\n"),
        None if is(v, "add") || is(v, "replace") || is(v, "append") => host.routes.push(text),
        _ => {}
    }
    Outcome::default()
}

/// Answers `ip netns`; the stand-in for ip runs the command of `exec` itself.
fn namespaces(machine: &mut Machine, words: &[&str]) -> Outcome {
    let name = words.get(1).copied().unwrap_or("");
    match verb(words) {
        v if is(v, "list") || is(v, "show") || is(v, "lst") => {
            said(machine.namespaces().iter().map(|n| format!("{n}\n")).collect::<String>())
        }
        v if is(v, "add") && !machine.add_namespace(name) => {
            failed(1, format!("Cannot create namespace file \"/run/netns/{name}\": File exists\n"))
        }
        v if is(v, "delete") && !machine.remove_namespace(name) => failed(
            1,
            format!("Cannot remove namespace file \"/run/netns/{name}\": No such file or directory\n"),
        ),
        v if is(v, "exec") && machine.host(name).is_none() => {
            failed(255, format!("Cannot open network namespace \"{name}\": No such file or directory\n"))
        }
        _ => Outcome::default(),
    }
}
