//! The addresses and routes of an interface: read, handed over to a TAP device, and put back, by
//! ip(8).

use std::fmt;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use txweir::device::IfName;

/// The lifetime of an address without end, seconds.
const FOREVER: u64 = 0xffff_ffff;

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Address {
    /// The words of `ip address add` for it, without its lifetimes.
    words: Vec<String>,
    /// Valid and preferred lifetime in seconds, if it ends.
    lifetimes: Option<[u64; 2]>,
}

impl Address {
    fn is_v6(&self) -> bool {
        self.words.first().is_some_and(|local| local.contains(':'))
    }
}

/// An interface as it is before it is shaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) interface: IfName,
    pub(super) tap: IfName,
    mac: String,
    mtu: u64,
    addresses: Vec<Address>,
    /// The routes by the interface in the main table, as words of `ip route`: of IPv4, of IPv6.
    routes: [Vec<Vec<String>>; 2],
    /// Number of routes by it in other tables, which stay.
    other_routes: usize,
    /// The value of `disable_ipv6`, if the kernel has IPv6.
    no_ipv6: Option<String>,
    /// Seconds since 1970 at which the lifetimes were read.
    at: u64,
}

/// The reason for which an interface could not be read or changed.
#[derive(Debug)]
pub(super) struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn refused<T>(what: impl Into<String>) -> Result<T, Refused> {
    Err(Refused(what.into()))
}

impl Host {
    /// Looks at an interface.
    pub(super) fn look(interface: &IfName, tap: &IfName) -> Result<Self, Refused> {
        let text = ip(&["-j", "-d", "address", "show", "dev", interface.as_str()])?;
        let all: Value = serde_json::from_str(&text).map_err(|e| Refused(format!("ip: not JSON: {e}")))?;
        // Some versions print empty objects for the other interfaces.
        let of_interface = |link: &&Value| link["ifname"] == interface.as_str();
        let Some(link) = all.as_array().and_then(|all| all.iter().find(of_interface)) else {
            return refused(format!("interface `{interface}` is not in the output of ip"));
        };
        // It is deleted at the end.
        if ip(&["link", "show", "dev", tap.as_str()]).is_ok() {
            return refused(format!("interface `{tap}` exists already: --tap names another"));
        }
        if let Some(master) = link["master"].as_str() {
            return refused(format!("interface `{interface}` is a port of `{master}`: shape that one"));
        }
        let (Some(mac), Some(mtu)) = (link["address"].as_str(), link["mtu"].as_u64()) else {
            return refused(format!("interface `{interface}` has no Ethernet address"));
        };
        let addresses = link["addr_info"].as_array().into_iter().flatten().filter_map(address).collect();
        let routes = |family: &str, table: &str| -> Result<Vec<Vec<String>>, Refused> {
            let text = ip(&[family, "route", "show", "table", table, "dev", interface.as_str()])?;
            Ok(text.lines().filter_map(route).collect())
        };
        let all = [routes("-4", "all")?, routes("-6", "all")?];
        let elsewhere =
            |words: &&Vec<String>| words.windows(2).any(|pair| pair[0] == "table" && pair[1] != "local");
        Ok(Self {
            interface: interface.clone(),
            tap: tap.clone(),
            mac: mac.to_owned(),
            mtu,
            addresses,
            routes: [routes("-4", "main")?, routes("-6", "main")?],
            other_routes: all.iter().flatten().filter(elsewhere).count(),
            no_ipv6: std::fs::read_to_string(no_ipv6(interface)).ok().map(|text| text.trim().to_owned()),
            at: seconds(),
        })
    }

    /// Returns lines about the parts that stay behind.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.other_routes > 0 {
            lines.push(format!(
                "{} routes by `{}` in tables other than main stay, and lead nowhere meanwhile",
                self.other_routes, self.interface
            ));
        }
        if self.addresses.is_empty() {
            lines.push(format!("interface `{}` has no address", self.interface));
        }
        lines
    }

    /// Makes the TAP device, with the Ethernet address of the interface.
    pub(super) fn make_tap(&self) -> Result<(), Refused> {
        let Self { tap, mac, mtu, .. } = self;
        batch(
            "-4",
            &[
                words(&format!("tuntap add dev {tap} mode tap")),
                words(&format!("link set dev {tap} address {mac} mtu {mtu}")),
                words(&format!("link set dev {tap} up")),
            ],
        )
    }

    /// Moves the addresses and routes to the TAP device. Some instants pass in between, in which
    /// the machine has no address.
    pub(super) fn hand_over(&self) -> Result<(), Refused> {
        let [v4, v6] = self.added_to(&self.tap);
        let mut all = vec![words(&format!("address flush dev {}", self.interface))];
        all.extend(v4);
        batch("-4", &all)?;
        self.set_no_ipv6("1")?;
        batch("-6", &v6)
    }

    /// Takes the TAP device away, and gives the interface its addresses and routes back. Those that
    /// are there already stay. A step that fails holds up no other; the first error is returned.
    pub(super) fn put_back(&self) -> Result<(), Refused> {
        // The TAP device may never have been made.
        let _ = ip(&["link", "delete", "dev", self.tap.as_str()]);
        let switched = self.no_ipv6.as_ref().map_or(Ok(()), |value| self.set_no_ipv6(value));
        let [v4, v6] = self.added_to(&self.interface);
        let steps = [batch("-4", &v4), switched, batch("-6", &v6)];
        steps.into_iter().collect()
    }

    /// Switches IPv6 of the interface: its stack would send by it, around the TAP device.
    fn set_no_ipv6(&self, value: &str) -> Result<(), Refused> {
        let path = no_ipv6(&self.interface);
        match (&self.no_ipv6, std::fs::write(&path, value)) {
            (None, _) | (_, Ok(())) => Ok(()),
            (_, Err(e)) => refused(format!("{path}: {e}")),
        }
    }

    /// Returns the lines of `ip -batch` that add all addresses and routes to a device: those of
    /// IPv4, and those of IPv6. Lifetimes are shorter by the time that has passed.
    fn added_to(&self, dev: &IfName) -> [Vec<Vec<String>>; 2] {
        let passed = seconds().saturating_sub(self.at);
        let to = ["dev".to_owned(), dev.to_string()];
        let left = |n: u64, least: u64| match n {
            FOREVER => "forever".to_owned(),
            n => n.saturating_sub(passed).max(least).to_string(),
        };
        let added = |address: &Address| {
            let mut line = [words("address replace"), address.words.clone(), to.to_vec()].concat();
            if let Some([valid, preferred]) = address.lifetimes {
                line.extend(["valid_lft".to_owned(), left(valid, 1)]);
                line.extend(["preferred_lft".to_owned(), left(preferred, 0)]);
            }
            line
        };
        let (v6, v4): (Vec<_>, Vec<_>) = self.addresses.iter().partition(|address| address.is_v6());
        let routed = |route: &Vec<String>| [words("route replace"), route.clone(), to.to_vec()].concat();
        let [routes4, routes6] = &self.routes;
        let lines = |addresses: Vec<&Address>, routes: &[Vec<String>]| {
            addresses.into_iter().map(added).chain(routes.iter().map(routed)).collect()
        };
        [lines(v4, routes4), lines(v6, routes6)]
    }

    /// Returns the interface as JSON.
    pub(super) fn to_json(&self) -> Value {
        let addresses: Vec<Value> = self
            .addresses
            .iter()
            .map(|address| json!({"words": address.words, "lifetimes": address.lifetimes}))
            .collect();
        json!({
            "interface": self.interface.as_str(),
            "tap": self.tap.as_str(),
            "mac": self.mac,
            "mtu": self.mtu,
            "addresses": addresses,
            "routes": self.routes,
            "other_routes": self.other_routes,
            "disable_ipv6": self.no_ipv6,
            "at": self.at,
        })
    }

    /// Reads an interface from JSON.
    pub(super) fn from_json(value: &Value) -> Option<Self> {
        let name = |key: &str| value[key].as_str().and_then(|name| IfName::new(name).ok());
        let lists =
            |value: &Value| -> Option<Vec<Vec<String>>> { value.as_array()?.iter().map(texts).collect() };
        let routes = value["routes"].as_array().filter(|both| both.len() == 2)?;
        let address = |value: &Value| -> Option<Address> {
            let lifetimes = match value["lifetimes"].as_array() {
                Some(both) if both.len() == 2 => Some([both[0].as_u64()?, both[1].as_u64()?]),
                _ => None,
            };
            Some(Address { words: texts(&value["words"])?, lifetimes })
        };
        Some(Self {
            interface: name("interface")?,
            tap: name("tap")?,
            mac: value["mac"].as_str()?.to_owned(),
            mtu: value["mtu"].as_u64()?,
            addresses: value["addresses"].as_array()?.iter().map(address).collect::<Option<_>>()?,
            routes: [lists(&routes[0])?, lists(&routes[1])?],
            other_routes: usize::try_from(value["other_routes"].as_u64()?).ok()?,
            no_ipv6: value["disable_ipv6"].as_str().map(str::to_owned),
            at: value["at"].as_u64()?,
        })
    }
}

fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
}

/// Returns an address that is to be moved. A link-local address of IPv6 is made by each device
/// itself.
fn address(info: &Value) -> Option<Address> {
    let (local, scope) = (info["local"].as_str()?, info["scope"].as_str()?);
    let v6 = info["family"] == "inet6";
    if v6 && scope == "link" {
        return None;
    }
    let prefix = info["prefixlen"].as_u64()?;
    let mut words = match info["address"].as_str() {
        Some(peer) => vec![local.to_owned(), "peer".to_owned(), format!("{peer}/{prefix}")],
        None => vec![format!("{local}/{prefix}")],
    };
    if let Some(broadcast) = info["broadcast"].as_str() {
        words.extend(["broadcast".to_owned(), broadcast.to_owned()]);
    }
    words.extend(["scope".to_owned(), scope.to_owned()]);
    if let Some(metric) = info["metric"].as_u64() {
        words.extend(["metric".to_owned(), metric.to_string()]);
    }
    if info["noprefixroute"] == true {
        words.push("noprefixroute".to_owned());
    }
    if v6 {
        words.push("nodad".to_owned());
    }
    let lifetime = |key: &str| info[key].as_u64().unwrap_or(FOREVER);
    let lifetimes = [lifetime("valid_life_time"), lifetime("preferred_life_time")];
    Some(Address { words, lifetimes: (lifetimes != [FOREVER; 2]).then_some(lifetimes) })
}

/// Returns the words of a route that is to be moved. The kernel makes its own with the addresses.
fn route(line: &str) -> Option<Vec<String>> {
    let all: Vec<&str> = line.split_whitespace().collect();
    if all.windows(2).any(|pair| pair == ["proto", "kernel"]) {
        return None;
    }
    let states = ["linkdown", "dead", "offload", "trap", "rt_offload"];
    let mut words = Vec::new();
    let mut after_expires = false;
    for word in all.into_iter().filter(|word| !states.contains(word)) {
        // The lifetime of a route is printed as 1780sec and read as 1780.
        let word = if after_expires { word.trim_end_matches("sec") } else { word };
        after_expires = word == "expires";
        words.push(word.to_owned());
    }
    (!words.is_empty()).then_some(words)
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn no_ipv6(interface: &IfName) -> String {
    format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6")
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Runs ip(8) and returns its output.
fn ip(args: &[&str]) -> Result<String, Refused> {
    let done = Command::new("ip").args(args).stdin(Stdio::null()).output();
    let done = done.map_err(|e| Refused(format!("ip (iproute2) cannot be run: {e}")))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return refused(format!("ip {}: {}", args.join(" "), said.trim()));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Runs lines of ip(8) for a family of addresses in one process, and all of them even if some fail.
/// Returns the errors in one line.
fn batch(family: &str, lines: &[Vec<String>]) -> Result<(), Refused> {
    if lines.is_empty() {
        return Ok(());
    }
    let failed = |e: std::io::Error| Refused(format!("ip (iproute2) cannot be run: {e}"));
    let mut child = Command::new("ip")
        .args([family, "-force", "-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let text: String = lines.iter().map(|line| line.join(" ") + "\n").collect();
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(text.as_bytes()).map_err(failed)?;
    }
    let done = child.wait_with_output().map_err(failed)?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    refused(format!("ip -batch: {}", said.trim().replace('\n', "; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_read_as_ip_reads_them() {
        let read = |line: &str| route(line).map(|words| words.join(" "));
        let dhcp = "default via 10.0.0.1 proto dhcp src 10.0.0.5 metric 100";
        assert_eq!(read(&format!("{dhcp} linkdown")).as_deref(), Some(dhcp));
        assert_eq!(read("10.0.0.0/24 proto kernel scope link src 10.0.0.5"), None);
        let advertised = read("default via fe80::1 proto ra metric 1024 expires 1780sec pref medium");
        let expected = "default via fe80::1 proto ra metric 1024 expires 1780 pref medium";
        assert_eq!(advertised.as_deref(), Some(expected));
        assert_eq!(read(""), None);
    }

    #[test]
    fn an_interface_is_the_same_after_json() {
        let lifetimes = Some([7200, FOREVER]);
        let host = Host {
            interface: IfName::new("eth0").unwrap(),
            tap: IfName::new("txw-eth0").unwrap(),
            mac: "02:00:00:00:00:01".to_owned(),
            mtu: 1500,
            addresses: vec![
                Address { words: words("10.0.0.5/24 broadcast 10.0.0.255 scope global"), lifetimes },
                Address { words: words("fd00::5/64 scope global nodad"), lifetimes: None },
            ],
            routes: [vec![words("default via 10.0.0.1")], vec![]],
            other_routes: 2,
            no_ipv6: Some("0".to_owned()),
            at: seconds() - 200,
        };
        let read = Host::from_json(&host.to_json()).unwrap();
        assert_eq!(read, host);
        let [v4, v6] = host.added_to(&host.tap).map(|lines| lines.concat().join(" "));
        let start = "address replace 10.0.0.5/24 broadcast 10.0.0.255 scope global dev txw-eth0 valid_lft ";
        let (left, rest) = v4.strip_prefix(start).unwrap().split_once(' ').unwrap();
        assert!(left.parse::<u64>().unwrap() <= 7000, "200 seconds have passed");
        assert_eq!(rest, "preferred_lft forever route replace default via 10.0.0.1 dev txw-eth0");
        assert_eq!(v6, "address replace fd00::5/64 scope global nodad dev txw-eth0");
        assert_eq!(Host::from_json(&json!({})), None);
        let mut broken = host.to_json();
        broken["addresses"][0] = json!({});
        assert_eq!(Host::from_json(&broken), None);
    }
}
