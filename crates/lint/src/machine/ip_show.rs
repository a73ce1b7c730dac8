//! The text of `ip link show` and `ip address show`.

use txweir_tc::json::{self, Object};

use super::host::Nic;

/// The form of an output.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Form {
    pub(super) oneline: bool,
    pub(super) brief: bool,
    pub(super) json: bool,
}

/// Prints devices, whose root qdiscs have these kinds.
pub(super) fn devices(nics: &[Nic], qdiscs: &[String], form: Form, addresses: bool) -> String {
    let all = nics.iter().zip(qdiscs);
    if form.json {
        return json::list(all.map(|(nic, qdisc)| object(nic, qdisc, addresses))) + "\n";
    }
    if form.brief {
        return all.map(|(nic, _)| brief(nic, addresses)).collect();
    }
    all.map(|(nic, qdisc)| {
        let text = text(nic, qdisc, addresses);
        match form.oneline {
            true => text.trim_end().replace('\n', "\\") + "\n",
            false => text,
        }
    })
    .collect()
}

fn flags(nic: &Nic) -> Vec<&'static str> {
    let mut flags = match (nic.name.as_str(), nic.kind.as_str()) {
        ("lo", _) => vec!["LOOPBACK"],
        (_, "ifb" | "dummy") => vec!["BROADCAST", "NOARP"],
        _ => vec!["BROADCAST", "MULTICAST"],
    };
    if nic.up {
        flags.extend(["UP", "LOWER_UP"]);
    }
    flags
}

fn state(nic: &Nic) -> &'static str {
    match (nic.up, nic.kind.is_empty()) {
        (true, true) => "UP",
        (true, false) => "UNKNOWN",
        (false, _) => "DOWN",
    }
}

fn text(nic: &Nic, qdisc: &str, addresses: bool) -> String {
    let (name, flags, state) = (&nic.name, flags(nic).join(","), state(nic));
    let mode = if addresses { "" } else { "mode DEFAULT " };
    let (index, mtu, qlen) = (nic.index, nic.mtu, nic.txqueuelen);
    let kind = if name == "lo" { "loopback" } else { "ether" };
    let all = if name == "lo" { "00:00:00:00:00:00" } else { "ff:ff:ff:ff:ff:ff" };
    let mut text = format!(
        "{index}: {name}: <{flags}> mtu {mtu} qdisc {qdisc} state {state} {mode}group default qlen {qlen}\n    \
         link/{kind} {} brd {all}\n",
        nic.mac()
    );
    for address in nic.addresses.iter().filter(|_| addresses) {
        let family = if address.contains(':') { "inet6" } else { "inet" };
        let scope = if name == "lo" { "host" } else { "global" };
        text.push_str(&format!(
            "    {family} {address} scope {scope} {name}\n       valid_lft forever preferred_lft forever\n"
        ));
    }
    text
}

fn brief(nic: &Nic, addresses: bool) -> String {
    let (name, state) = (&nic.name, state(nic));
    match addresses {
        true => format!("{name:<16} {state:<14} {} \n", nic.addresses.join(" ")),
        false => format!("{name:<16} {state:<14} {} <{}> \n", nic.mac(), flags(nic).join(",")),
    }
}

fn object(nic: &Nic, qdisc: &str, addresses: bool) -> String {
    let quoted = flags(nic).into_iter().map(|f| format!("\"{f}\""));
    let o = Object::new()
        .uint("ifindex", nic.index.into())
        .text("ifname", &nic.name)
        .raw("flags", &json::list(quoted))
        .uint("mtu", nic.mtu.into())
        .text("qdisc", qdisc)
        .text("operstate", state(nic))
        .text("group", "default")
        .uint("txqlen", nic.txqueuelen.into())
        .text("link_type", if nic.name == "lo" { "loopback" } else { "ether" })
        .text("address", &nic.mac());
    if !addresses {
        return o.finish();
    }
    let info = nic.addresses.iter().map(|address| {
        let (local, prefix) = address.split_once('/').unwrap_or((address, "32"));
        let family = if local.contains(':') { "inet6" } else { "inet" };
        let prefix = prefix.parse().unwrap_or(32);
        Object::new().text("family", family).text("local", local).uint("prefixlen", prefix).finish()
    });
    o.raw("addr_info", &json::list(info)).finish()
}
