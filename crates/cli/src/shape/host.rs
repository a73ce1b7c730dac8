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

/// States of a route, which ip(8) prints and does not read.
const STATES: [&str; 10] = [
    "linkdown",
    "dead",
    "offload",
    "trap",
    "rt_offload",
    "rt_trap",
    "rt_offload_failed",
    "unresolved",
    "pervasive",
    "notify",
];

/// The error of ip(8) about a route that is there already.
const THERE_ALREADY: &str = "RTNETLINK answers: File exists";

/// Routes, each as the words of `ip route` for it.
type Routes = Vec<Vec<String>>;

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

    /// True for a link-local address of IPv6.
    fn is_link_local(&self) -> bool {
        self.is_v6() && have(&self.words, "scope", "link")
    }

    /// Returns the address without its prefix.
    fn local(&self) -> &str {
        self.words.first().and_then(|local| local.split('/').next()).unwrap_or_default()
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
    /// The routes by the interface in the main table that have one next hop, without their device:
    /// of IPv4, of IPv6. They move.
    routes: [Routes; 2],
    /// All others that the kernel takes away with the addresses, as they are. They come back.
    others: [Routes; 2],
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
        let infos = link["addr_info"].as_array().into_iter().flatten();
        let mut addresses: Vec<Address> = infos.filter_map(address).collect();
        // A device makes such an address by itself, a moment after it is up.
        addresses.sort_by_key(Address::is_link_local);
        let routes = |family: &str| -> Result<[Routes; 2], Refused> {
            let text = ip(&["-o", family, "route", "show", "table", "all"])?;
            let own = addresses.iter().filter(|address| address.is_v6() == (family == "-6"));
            sorted(&text, interface, &own.collect::<Vec<_>>())
        };
        let ([moved4, others4], [moved6, others6]) = (routes("-4")?, routes("-6")?);
        Ok(Self {
            interface: interface.clone(),
            tap: tap.clone(),
            mac: mac.to_owned(),
            mtu,
            addresses,
            routes: [moved4, moved6],
            others: [others4, others6],
            no_ipv6: std::fs::read_to_string(no_ipv6(interface)).ok().map(|text| text.trim().to_owned()),
            at: seconds(),
        })
    }

    /// Returns lines about the parts that the TAP device does not take over.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let others: usize = self.others.iter().map(Vec::len).sum();
        if others > 0 {
            lines.push(format!(
                "routes of `{}` in other tables, or with several next hops: {others} are away meanwhile",
                self.interface
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
        )?;
        // New devices may have no IPv6 where the interface has it.
        self.no_ipv6.as_ref().map_or(Ok(()), |value| self.set_no_ipv6(tap, value))
    }

    /// Moves the addresses and routes to the TAP device. Some instants pass in between, in which
    /// the machine has no address.
    pub(super) fn hand_over(&self) -> Result<(), Refused> {
        let [v4, v6] = self.added_to(&self.tap);
        let mut all = vec![
            words(&format!("address flush dev {}", self.interface)),
            // The routes of an interface without addresses do not go with the last of these.
            words(&format!("route flush table main dev {}", self.interface)),
        ];
        all.extend(v4);
        batch("-4", &all)?;
        self.set_no_ipv6(&self.interface, "1")?;
        batch("-6", &v6)
    }

    /// Takes the TAP device away, and gives the interface its addresses and routes back, also those
    /// that the TAP device did not take over. Those that are there already stay. A step that fails
    /// holds up no other; the first error is returned.
    pub(super) fn put_back(&self) -> Result<(), Refused> {
        // The TAP device may never have been made.
        let _ = ip(&["link", "delete", "dev", self.tap.as_str()]);
        let switched = self.no_ipv6.as_ref().map_or(Ok(()), |value| self.set_no_ipv6(&self.interface, value));
        let ([v4, v6], [others4, others6]) = (self.added_to(&self.interface), self.brought_back());
        let steps = [batch("-4", &[v4, others4].concat()), switched, batch("-6", &[v6, others6].concat())];
        steps.into_iter().collect()
    }

    /// Switches IPv6 of a device. With IPv6 the stack would send by the interface, around the TAP
    /// device.
    fn set_no_ipv6(&self, dev: &IfName, value: &str) -> Result<(), Refused> {
        let path = no_ipv6(dev);
        match (&self.no_ipv6, std::fs::write(&path, value)) {
            (None, _) | (_, Ok(())) => Ok(()),
            (_, Err(e)) => refused(format!("{path}: {e}")),
        }
    }

    /// Returns the lines of `ip -batch` that add all addresses, and the routes that move, to a
    /// device: those of IPv4, and those of IPv6. Lifetimes are shorter by the time that has passed.
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
        // `replace` would take the route of another device to the same prefix away.
        let routed = |route: &Vec<String>| [words("route append"), route.clone(), to.to_vec()].concat();
        let [routes4, routes6] = &self.routes;
        let lines = |addresses: Vec<&Address>, routes: &[Vec<String>]| {
            addresses.into_iter().map(added).chain(near_first(routes).into_iter().map(routed)).collect()
        };
        [lines(v4, routes4), lines(v6, routes6)]
    }

    /// Returns the lines of `ip -batch` that bring the other routes back: those of IPv4, and those
    /// of IPv6.
    fn brought_back(&self) -> [Vec<Vec<String>>; 2] {
        let line = |verb: &str, route: &Vec<String>| [words(verb), route.clone()].concat();
        // IPv6 refuses to append next hops to those by other devices, which have stayed.
        let verb6 = |route: &[String]| match route.iter().any(|word| word == "nexthop") {
            true => "route replace",
            false => "route append",
        };
        let [v4, v6] = self.others.each_ref().map(|routes| near_first(routes).into_iter());
        [
            v4.map(|route| line("route append", route)).collect(),
            v6.map(|route| line(verb6(route), route)).collect(),
        ]
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
            "others": self.others,
            "disable_ipv6": self.no_ipv6,
            "at": self.at,
        })
    }

    /// Reads an interface from JSON.
    pub(super) fn from_json(value: &Value) -> Option<Self> {
        let name = |key: &str| value[key].as_str().and_then(|name| IfName::new(name).ok());
        let lists = |value: &Value| -> Option<Routes> { value.as_array()?.iter().map(texts).collect() };
        let both = |value: &Value| -> Option<[Routes; 2]> {
            let both = value.as_array().filter(|both| both.len() == 2)?;
            Some([lists(&both[0])?, lists(&both[1])?])
        };
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
            routes: both(&value["routes"])?,
            // The file of a version that moved the routes of the main table only has none of these.
            others: match &value["others"] {
                Value::Null => [Vec::new(), Vec::new()],
                others => both(others)?,
            },
            no_ipv6: value["disable_ipv6"].as_str().map(str::to_owned),
            at: value["at"].as_u64()?,
        })
    }
}

fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
}

/// Returns an address that is to be moved.
fn address(info: &Value) -> Option<Address> {
    let (local, scope) = (info["local"].as_str()?, info["scope"].as_str()?);
    let v6 = info["family"] == "inet6";
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
    // An address in use has passed its detection of duplicates (RFC 4862 section 5.4): on the same
    // link and with the same Ethernet address it stays unique, and another detection would leave it
    // tentative for a second.
    if v6 && info["tentative"] != true && info["dadfailed"] != true {
        words.push("nodad".to_owned());
    }
    let lifetime = |key: &str| info[key].as_u64().unwrap_or(FOREVER);
    let lifetimes = [lifetime("valid_life_time"), lifetime("preferred_life_time")];
    Some(Address { words, lifetimes: (lifetimes != [FOREVER; 2]).then_some(lifetimes) })
}

/// Returns the words of a line of `ip -o route`, as ip reads them. The line has backslashes in the
/// place of ends of lines.
fn route(line: &str) -> Vec<String> {
    let all = line.split(|c: char| c.is_whitespace() || c == '\\');
    let mut all = all.filter(|word| !word.is_empty() && !STATES.contains(word));
    let mut words = Vec::new();
    while let Some(word) = all.next() {
        words.push(word.to_owned());
        // The lifetime of a route is printed as 1780sec and read as 1780.
        if word == "expires" {
            words.extend(all.next().map(|time| time.trim_end_matches("sec").to_owned()));
        }
    }
    words
}

/// Sorts the lines of `ip -o route show table all` for an interface with these addresses of the
/// same family. Returns the routes that move, without their device, and all others that the kernel
/// takes away with the addresses. It makes its own routes again with the addresses.
fn sorted(text: &str, interface: &IfName, addresses: &[&Address]) -> Result<[Routes; 2], Refused> {
    // A network manager makes the routes to the prefixes of such addresses, in the kernel's name.
    let managed = addresses.iter().any(|address| address.words.iter().any(|word| word == "noprefixroute"));
    let (mut moved, mut others) = (Vec::new(), Vec::new());
    for mut words in text.lines().map(route) {
        let at = words.windows(2).position(|pair| pair == ["dev", interface.as_str()]);
        let main = !words.iter().any(|word| word == "table");
        let [object, several] = ["nhid", "nexthop"].map(|key| words.iter().any(|word| word == key));
        let of_kernel = have(&words, "proto", "kernel");
        let remade = of_kernel && (have(&words, "table", "local") || (main && !managed));
        let needed = at.is_some() || addresses.iter().any(|address| have(&words, "src", address.local()));
        if remade || !needed {
            continue;
        }
        match at {
            Some(_) if object && main => {
                return refused(format!(
                    "interface `{interface}` has the route `{}` of a nexthop object: \
                     expected next hops of its own",
                    words.join(" ")
                ));
            }
            // The kernel takes the routes of such objects away with these only.
            _ if object => {}
            Some(at) if main && !several => {
                words.drain(at..at + 2);
                moved.push(words);
            }
            _ => others.push(words),
        }
    }
    Ok([moved, others])
}

/// Returns routes in an order in which the kernel takes them: a gateway has to be within reach by
/// another route.
fn near_first(routes: &[Vec<String>]) -> Vec<&Vec<String>> {
    let by_gateway = |words: &&Vec<String>| words.iter().any(|word| word == "via" || word == "nexthop");
    let (far, near): (Vec<_>, Vec<_>) = routes.iter().partition(by_gateway);
    [near, far].concat()
}

/// True if a word stands behind another.
fn have(words: &[String], key: &str, value: &str) -> bool {
    words.windows(2).any(|pair| pair == [key, value])
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
/// Returns the errors in one line. A route that is there already is none.
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
    // Its errors are read meanwhile: the pipes may hold neither all lines nor all errors.
    let lines = child.stdin.take();
    let writer = lines.map(|mut lines| std::thread::spawn(move || lines.write_all(text.as_bytes())));
    let done = child.wait_with_output().map_err(failed)?;
    let said = String::from_utf8_lossy(&done.stderr);
    let errors = errors(&said);
    let only_there_already = done.status.code().is_some() && errors.is_empty() && !said.is_empty();
    if !done.status.success() && !only_there_already {
        return refused(format!("ip -batch: {errors}"));
    }
    match writer.map(std::thread::JoinHandle::join) {
        Some(Ok(Err(e))) => refused(format!("ip -batch: its input cannot be written: {e}")),
        _ => Ok(()),
    }
}

/// Returns the errors of `ip -batch` in one line, but for those about routes that are there
/// already.
fn errors(said: &str) -> String {
    let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
    let mut errors = Vec::new();
    while let Some(line) = lines.next() {
        if line == THERE_ALREADY {
            // The number of the command stands behind its error.
            let _ = lines.next_if(|next| next.starts_with("Command failed"));
        } else {
            errors.push(line);
        }
    }
    errors.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_read_as_ip_reads_them() {
        let read = |line: &str| route(line).join(" ");
        let dhcp = "default via 10.0.0.1 dev eth0 proto dhcp src 10.0.0.5 metric 100";
        assert_eq!(read(&format!("{dhcp} linkdown")), dhcp);
        let advertised = read("default via fe80::1 proto ra metric 1024 expires 1780sec pref medium");
        assert_eq!(advertised, "default via fe80::1 proto ra metric 1024 expires 1780 pref medium");
        let several =
            "fd92::/64 pref medium\\\tnexthop via fd79::fe weight 1 dead \\\tnexthop via fd79::fd weight 1 ";
        let expected = "fd92::/64 pref medium nexthop via fd79::fe weight 1 nexthop via fd79::fd weight 1";
        assert_eq!(read(several), expected);
        assert_eq!(read(""), "");
    }

    /// Returns the lines that move, and the others.
    fn sorted_by(address: &str, lines: &[&str]) -> Result<[Vec<String>; 2], String> {
        let address = Address { words: words(address), lifetimes: None };
        let sorted = sorted(&lines.join("\n"), &IfName::new("eth0").unwrap(), &[&address]);
        let joined = |routes: Routes| routes.iter().map(|route| route.join(" ")).collect::<Vec<_>>();
        sorted.map(|both| both.map(joined)).map_err(|e| e.to_string())
    }

    #[test]
    fn each_route_that_goes_away_moves_or_comes_back() {
        let lines = [
            "default via 10.0.0.1 dev eth0 ",
            "default via 10.1.0.1 dev eth1 metric 5 ",
            "10.0.0.0/24 dev eth0 proto kernel scope link src 10.0.0.5 ",
            "10.2.0.0/16 dev eth0 table 100 proto kernel scope link src 10.0.0.5 ",
            "10.3.0.0/16 \\\tnexthop via 10.0.0.1 dev eth0 \\\tnexthop via 10.1.0.1 dev eth1 ",
            "10.4.0.0/16 dev eth1 scope link src 10.0.0.5 ",
            "10.5.0.0/16 nhid 5 via 10.0.0.1 dev eth0 table 100 ",
            "local 10.0.0.5 dev eth0 table local proto kernel scope host src 10.0.0.5 ",
            "local 10.6.0.0/16 dev eth0 table local scope host ",
        ];
        let others = [
            "10.2.0.0/16 dev eth0 table 100 proto kernel scope link src 10.0.0.5",
            "10.3.0.0/16 nexthop via 10.0.0.1 dev eth0 nexthop via 10.1.0.1 dev eth1",
            "10.4.0.0/16 dev eth1 scope link src 10.0.0.5",
            "local 10.6.0.0/16 dev eth0 table local scope host",
        ];
        let [moved, came_back] = sorted_by("10.0.0.5/24 scope global", &lines).unwrap();
        assert_eq!(moved, ["default via 10.0.0.1"]);
        assert_eq!(came_back, others);
        let [moved, came_back] = sorted_by("10.0.0.5/24 scope global noprefixroute", &lines).unwrap();
        assert_eq!(moved, ["default via 10.0.0.1", "10.0.0.0/24 proto kernel scope link src 10.0.0.5"]);
        assert_eq!(came_back, others);
        let of_object = sorted_by("10.0.0.5/24 scope global", &["10.5.0.0/16 nhid 5 via 10.0.0.1 dev eth0 "]);
        let expected = "interface `eth0` has the route `10.5.0.0/16 nhid 5 via 10.0.0.1 dev eth0` \
                        of a nexthop object: expected next hops of its own";
        assert_eq!(of_object, Err(expected.to_owned()));
    }

    #[test]
    fn a_route_that_is_there_already_is_no_error() {
        let there = "RTNETLINK answers: File exists\nCommand failed -:1\n";
        let gateway = "Error: Nexthop has invalid gateway.\nCommand failed -:2\n";
        assert_eq!(errors(there), "");
        let expected = "Error: Nexthop has invalid gateway.; Command failed -:2";
        assert_eq!(errors(&[there, gateway, there].concat()), expected);
    }

    /// A file of the version that moved the routes of the main table in the order of ip, and kept
    /// no others.
    #[test]
    fn the_file_of_a_former_version_is_put_back() {
        let address = json!({"words": ["10.0.0.5/32", "scope", "global"], "lifetimes": null});
        let former = json!({
            "interface": "eth0",
            "tap": "txw-eth0",
            "mac": "02:00:00:00:00:01",
            "mtu": 1500,
            "addresses": [address],
            "routes": [[["default", "via", "10.0.0.1"], ["10.0.0.1", "scope", "link"]], []],
            "other_routes": 2,
            "disable_ipv6": "0",
            "at": 1_700_000_000,
        });
        let host = Host::from_json(&former).unwrap();
        let [v4, v6] = host.added_to(&host.interface).map(|lines| lines.concat().join(" "));
        let expected = "address replace 10.0.0.5/32 scope global dev eth0 \
                        route append 10.0.0.1 scope link dev eth0 \
                        route append default via 10.0.0.1 dev eth0";
        assert_eq!((v4.as_str(), v6.as_str()), (expected, ""));
        assert_eq!(host.brought_back(), [Vec::<Vec<String>>::new(), Vec::new()]);
        assert_eq!(host.warnings(), Vec::<String>::new());
    }

    /// An address that is not in use, because its detection has not ended or has failed, has no
    /// right to skip another one.
    #[test]
    fn only_addresses_in_use_skip_the_detection_of_duplicates() {
        let moved = |state: &str| {
            let mut info = json!({"family": "inet6", "local": "fd00::5", "prefixlen": 64, "scope": "global"});
            info[state] = json!(true);
            address(&info).unwrap().words.join(" ")
        };
        assert_eq!(moved("dynamic"), "fd00::5/64 scope global nodad");
        for state in ["tentative", "dadfailed"] {
            assert_eq!(moved(state), "fd00::5/64 scope global", "{state}");
        }
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
            others: [
                vec![words("default via 10.9.0.1 dev eth0 table 9"), words("10.9.0.0/16 dev eth0 table 9")],
                vec![words("fd92::/64 nexthop via fd00::fe dev eth0 nexthop via fd00::fd dev eth0")],
            ],
            no_ipv6: Some("0".to_owned()),
            at: seconds() - 200,
        };
        let read = Host::from_json(&host.to_json()).unwrap();
        assert_eq!(read, host);
        let [v4, v6] = host.added_to(&host.tap).map(|lines| lines.concat().join(" "));
        let start = "address replace 10.0.0.5/24 broadcast 10.0.0.255 scope global dev txw-eth0 valid_lft ";
        let (left, rest) = v4.strip_prefix(start).unwrap().split_once(' ').unwrap();
        assert!(left.parse::<u64>().unwrap() <= 7000, "200 seconds have passed");
        assert_eq!(rest, "preferred_lft forever route append default via 10.0.0.1 dev txw-eth0");
        assert_eq!(v6, "address replace fd00::5/64 scope global nodad dev txw-eth0");
        let [v4, v6] = host.brought_back().map(|lines| lines.concat().join(" "));
        let expected = "route append 10.9.0.0/16 dev eth0 table 9 \
                        route append default via 10.9.0.1 dev eth0 table 9";
        assert_eq!(v4, expected);
        assert_eq!(v6, "route replace fd92::/64 nexthop via fd00::fe dev eth0 nexthop via fd00::fd dev eth0");
        let expected = "routes of `eth0` in other tables, or with several next hops: 3 are away meanwhile";
        assert_eq!(host.warnings(), [expected]);
        assert_eq!(Host::from_json(&json!({})), None);
        let mut broken = host.to_json();
        broken["addresses"][0] = json!({});
        assert_eq!(Host::from_json(&broken), None);
        let mut broken = host.to_json();
        broken["others"] = json!([[]]);
        assert_eq!(Host::from_json(&broken), None);
    }
}
