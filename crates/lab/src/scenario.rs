//! A scenario: hosts, links, policies and traffic in a TOML file, and the net made from it.
//!
//! An unknown key, a wrong value or an unknown name is an error that points at its place.

mod file;
mod host;
mod ifb;
mod machines;
mod memory;
mod names;
mod traffic;

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use txweir_core::base::rng::Rng;
use txweir_core::model::wire::{DescriptorCost, Latency, RINGS_MAX, WireConfig};
use txweir_core::path::txpath::PathConfig;
use txweir_core::{DqlConfig, Env, Instant, Nanos, Role};
use txweir_tc::{Diagnostic, Policy, Source};

use crate::link::LinkConfig;
use crate::machine::Plan;
use crate::net::{Group, Net};
use crate::nic::NicConfig;

pub(crate) use file::code_point;
pub use file::{CompletionText, Percent, Section, Text};
use file::{File, LinkTable, RoleName, TrafficFile};
pub(crate) use machines::Planned;
pub use memory::{MEMORY, TEXT_MAX};
use names::Names;
use traffic::Traffic;

/// Reason that a scenario was refused, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The file.
    pub file: String,
    /// The text of the file.
    pub text: String,
    /// Bytes of the text that the error refers to.
    pub span: Range<usize>,
    /// The error, with the expected and the given value.
    pub message: String,
    /// A correction, if one is known.
    pub hint: Option<String>,
    /// Stable name of the error: [`SCENARIO`], or that of the error of a tc line.
    pub code: &'static str,
}

/// The code of every error that is not an error of a tc line.
pub const SCENARIO: &str = "bad-scenario";

impl ScenarioError {
    /// Returns line and column, counted from 1.
    pub fn place(&self) -> (usize, usize) {
        let before = self.text.get(..self.span.start).unwrap_or("");
        let line = before.matches('\n').count() + 1;
        (line, before.len() - before.rfind('\n').map_or(0, |i| i + 1) + 1)
    }

    /// Returns the error as a diagnostic of the tc language, so that all errors look alike.
    pub fn diagnostic(&self) -> Diagnostic {
        let source = Arc::new(Source::new(self.file.as_str(), self.text.as_str()));
        Diagnostic::error(self.code, &source, self.span.clone(), self.message.as_str())
            .hint(self.hint.clone())
    }
}

impl ScenarioError {
    /// Adds the advice and the code of a diagnostic.
    fn with(mut self, d: &Diagnostic) -> Self {
        self.hint =
            d.advice().or_else(|| (!d.expected.is_empty()).then(|| format!("expected {}", d.expected)));
        self.code = d.code;
        self
    }
}

impl fmt::Display for ScenarioError {
    /// Writes `file:line:column: message`, the line, and a caret under the place.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.place();
        let text = self.text.lines().nth(line - 1).unwrap_or("");
        let width = self.span.len().clamp(1, text.len().saturating_sub(column - 1).max(1));
        write!(f, "{}:{line}:{column}: {}", self.file, self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, " ({hint})")?;
        }
        write!(f, "\n  {text}\n  {}{}", " ".repeat(column - 1), "^".repeat(width))
    }
}

impl std::error::Error for ScenarioError {}

/// A scenario that has been read and checked.
#[derive(Clone, Debug)]
pub struct Scenario {
    name: String,
    text: String,
    file: File,
}

/// A net made from a scenario, with the names of its parts.
#[derive(Debug)]
pub struct Built {
    /// The net.
    pub net: Net,
    /// Host names, by number, and behind them the names of the ifbs, for their `Ends::to`.
    pub hosts: Vec<String>,
    /// For each NIC, `from -> to`.
    pub links: Vec<String>,
    /// Ends of each NIC.
    pub ends: Vec<Ends>,
    /// The hosts that are machines, with their work.
    pub plans: Vec<(u32, Plan)>,
    /// The groups of traffic between machines: they have no part in the net.
    pub(crate) planned: Vec<Planned>,
}

/// A direction of a link, or an ifb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Place of its `[[link]]` in the file, from 0; behind the links those of each `[[ifb]]`.
    pub table: usize,
    /// The host that sends.
    pub from: u32,
    /// The host that receives; of an ifb its own place in the list of names.
    pub to: u32,
}

/// A group of a file's `[[traffic]]`, and the places of its destination and its count in the text.
#[derive(Clone, Debug)]
pub(crate) struct TrafficOf {
    pub(crate) group: Group,
    pub(crate) at: Range<usize>,
    pub(crate) count_at: Range<usize>,
}

impl Scenario {
    /// Reads the text of a file called `name`, and checks all of it.
    pub fn parse(text: &str, name: &str) -> Result<Self, ScenarioError> {
        if text.len() > TEXT_MAX {
            let given = text.len();
            return Err(ScenarioError {
                file: name.into(),
                text: String::new(),
                span: 0..0,
                message: format!("scenario: text: expected at most {TEXT_MAX} bytes, given {given}"),
                hint: None,
                code: SCENARIO,
            });
        }
        let file: File = toml::from_str(text).map_err(|e| ScenarioError {
            file: name.into(),
            text: text.into(),
            span: e.span().unwrap_or(0..0),
            message: e.message().replace('\n', "; "),
            hint: None,
            code: SCENARIO,
        })?;
        let scenario = Self { name: name.into(), text: text.into(), file };
        scenario.build(scenario.seed())?;
        Ok(scenario)
    }

    /// Like `parse`, with values set first: `("link.0.bql", "false")`, the value as TOML.
    pub fn parse_with(text: &str, name: &str, set: &[(&str, &str)]) -> Result<Self, ScenarioError> {
        if set.is_empty() {
            return Self::parse(text, name);
        }
        let refuse = |message: String| ScenarioError {
            file: name.into(),
            text: text.into(),
            span: 0..0,
            message,
            hint: None,
            code: SCENARIO,
        };
        let mut table: toml::Table = text.parse().map_err(|e: toml::de::Error| refuse(e.message().into()))?;
        for (path, value) in set {
            let value: toml::Table = format!("v = {value}")
                .parse()
                .map_err(|_| refuse(format!("{path}: expected a TOML value, given {value}")))?;
            let value = value.get("v").cloned().unwrap_or(toml::Value::Boolean(false));
            set_at(&mut table, path, value)
                .ok_or_else(|| refuse(format!("{path}: no such place in the file")))?;
        }
        let text = toml::to_string(&table).map_err(|e| refuse(e.to_string()))?;
        Self::parse(&text, name)
    }

    /// Reads only the `[[traffic]]` of a text called `name`, which may be a whole scenario. Returns
    /// the hosts that it names, in order of appearance, and its groups, whose hosts are numbers in
    /// that list.
    pub(crate) fn traffic_of(text: &str, name: &str) -> Result<(Vec<String>, Vec<TrafficOf>), ScenarioError> {
        let refuse = |span: Option<Range<usize>>, message: &str| ScenarioError {
            file: name.into(),
            text: text.into(),
            span: span.unwrap_or(0..0),
            message: message.replace('\n', "; "),
            hint: None,
            code: SCENARIO,
        };
        let file: TrafficFile = toml::from_str(text).map_err(|e| refuse(e.span(), e.message()))?;
        if file.traffic.is_empty() {
            return Err(refuse(None, "expected at least one [[traffic]]"));
        }
        let title = String::new();
        let whole = File {
            title,
            seed: 1,
            duration: Spanned::new(0..0, Text(Nanos(1))),
            warmup: Text(Nanos::ZERO),
            measure: Vec::new(),
            host: Vec::new(),
            link: Vec::new(),
            ifb: Vec::new(),
            traffic: file.traffic,
        };
        let scenario = Self { name: name.into(), text: text.into(), file: whole };
        let mut hosts = Names::default();
        let mut groups = Vec::new();
        for t in &scenario.file.traffic {
            let table = t.get_ref();
            for host in [&table.from, &table.to] {
                hosts.add(host.get_ref());
            }
            let traffic = Traffic { scenario: &scenario, table };
            for group in traffic.groups(&hosts)? {
                groups.push(TrafficOf { group, at: table.to.span(), count_at: table.count.span() });
            }
        }
        Ok((hosts.into_list(), groups))
    }

    /// Returns the text that it was read from.
    pub fn text(&self) -> &str {
        &self.text
    }
    /// Returns the name of its file.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Returns the title, one line.
    pub fn title(&self) -> &str {
        &self.file.title
    }
    /// Returns the seed that the file gives.
    pub const fn seed(&self) -> u64 {
        self.file.seed
    }
    /// Returns the length of the run, warm-up included.
    pub fn duration(&self) -> Nanos {
        self.file.duration.get_ref().0
    }
    /// Returns the length of the warm-up, after which measuring begins.
    pub const fn warmup(&self) -> Nanos {
        self.file.warmup.0
    }
    /// Returns the parts of the report; all, if none are named.
    pub fn sections(&self) -> &[Section] {
        match self.file.measure.as_slice() {
            [] => &[Section::Traffic, Section::Links, Section::Queues],
            some => some,
        }
    }

    fn error(&self, span: Range<usize>, message: impl Into<String>) -> ScenarioError {
        let (file, text) = (self.name.clone(), self.text.clone());
        ScenarioError { file, text, span, message: message.into(), hint: None, code: SCENARIO }
    }

    /// Returns the error of a policy, at the wrong word if the policy was read where it stands in
    /// the file.
    fn policy_error(&self, policy: &Spanned<String>, d: &Diagnostic) -> ScenarioError {
        if d.source.text != self.text {
            let line = d.line();
            return self.error(policy.span(), format!("policy, line {line}: {}", d.message)).with(d);
        }
        self.error(d.span.clone(), d.message.as_str()).with(d)
    }

    /// Returns the tc lines of the `[[link]]` of that number; empty if it has none.
    pub(crate) fn policy_of(&self, table: usize) -> &str {
        let policy = self.file.link.get(table).and_then(|l| l.get_ref().policy.as_ref());
        policy.map_or("", |p| p.get_ref())
    }

    /// Makes the net.
    pub fn build(&self, seed: u64) -> Result<Built, ScenarioError> {
        if self.warmup() >= self.duration() {
            let (warmup, given) = (self.warmup(), self.duration());
            let message = format!("duration: expected more than warmup, which is {warmup}, given {given}");
            return Err(self.error(self.file.duration.span(), message));
        }
        let hosts = self.hosts()?;
        let mut groups: Vec<(usize, Group)> = Vec::new();
        for (table, t) in self.file.traffic.iter().enumerate() {
            let traffic = Traffic { scenario: self, table: t.get_ref() };
            groups.extend(traffic.groups(&hosts)?.into_iter().map(|group| (table, group)));
        }
        // The memory that policies may take for the tables of qdiscs, all together.
        let tables = MEMORY - self.memory(&groups)?;
        self.check_carried(&groups)?;
        let sends = self.senders(&hosts);
        let (planned, groups) = self.planned(&hosts, groups)?;
        let plans = self.plans(&hosts, &planned, seed)?;
        self.check_ways(&hosts)?;
        let mut net = Net::new(seed);
        net.set_tables(tables);
        for h in &self.file.host {
            let (tcp, cpu) = self.host(h.get_ref())?;
            net.host(tcp, cpu);
        }
        let (mut links, mut ends, mut later) = (Vec::new(), Vec::new(), Vec::new());
        for (table, l) in self.file.link.iter().enumerate() {
            let t = l.get_ref();
            let (a, b) = (self.find(&hosts, &t.from)?, self.find(&hosts, &t.to)?);
            if a == b {
                return Err(self.error(t.to.span(), "to: expected another host than from"));
            }
            let ways = if t.one_way { &[(a, b)][..] } else { &[(a, b), (b, a)][..] };
            for &(from, to) in ways {
                let role = if sends[from as usize] { Role::Origin } else { Role::Forwarder };
                let nic = self.link(&mut net, t, (from, to), (role, seed), l.span())?;
                net.set_name(nic, hosts.name(to));
                later.extend(self.apply(&mut net, nic, t.policy.as_ref())?);
                links.push(format!("{} -> {}", hosts.name(from), hosts.name(to)));
                ends.push(Ends { table, from, to });
                for s in &t.step {
                    let rate = s.rate.get_ref().0;
                    if rate.0 == 0 {
                        return Err(self.error(s.rate.span(), "rate: expected at least 8bit"));
                    }
                    net.rate_step(nic, Instant(s.at.0.0), rate);
                }
            }
        }
        let mut names = hosts.list().to_vec();
        for (made, n) in self.ifbs(&mut net, &hosts, seed)?.into_iter().zip(0..) {
            links.push(format!("{} -> {}", hosts.name(made.host), made.name));
            let (from, to) = (made.host, names.len() as u32);
            ends.push(Ends { table: self.file.link.len() + n, from, to });
            names.push(made.name.into());
            later.extend(made.later);
        }
        self.apply_later(&mut net, later)?;
        let mut reaches = |table: usize, group: &Group| {
            let (there, back) = ((group.from, group.to), (group.to, group.from));
            let ways = if group.load.goes_back() { vec![there, back] } else { vec![there] };
            ways.into_iter().find(|(a, b)| !net.reaches(*a, *b)).map_or(Ok(()), |(a, b)| {
                let message = format!("to: no links lead from {} to {}", hosts.name(a), hosts.name(b));
                Err(self.error(self.file.traffic[table].get_ref().to.span(), message))
            })
        };
        for planned in &planned {
            reaches(planned.table, &planned.group)?;
        }
        for (table, group) in &groups {
            reaches(*table, group)?;
        }
        for (table, group) in groups {
            net.group(group).map_err(|e| self.error(self.file.traffic[table].span(), e))?;
        }
        Ok(Built { net, hosts: names, links, ends, plans, planned })
    }

    /// Returns the hosts by name.
    fn hosts(&self) -> Result<Names, ScenarioError> {
        let mut hosts = Names::default();
        for h in &self.file.host {
            let name = &h.get_ref().name;
            if !hosts.add(name.get_ref()) {
                let given = name.get_ref();
                let message = format!("host name: expected one not in use, given \"{given}\"");
                return Err(self.error(name.span(), message));
            }
        }
        Ok(hosts)
    }

    /// Checks that no two links lead from one host to the same other one: packets would never take
    /// the second, and its policy would be that of the first, as both devices have one name.
    fn check_ways(&self, hosts: &Names) -> Result<(), ScenarioError> {
        let mut taken = HashSet::new();
        for link in &self.file.link {
            let t = link.get_ref();
            // A link of an unknown host, or of one host alone, is refused where it is made.
            let (Some(a), Some(b)) = (hosts.number(t.from.get_ref()), hosts.number(t.to.get_ref())) else {
                continue;
            };
            if a == b {
                continue;
            }
            for (from, to) in [Some((a, b)), (!t.one_way).then_some((b, a))].into_iter().flatten() {
                if !taken.insert((from, to)) {
                    let (from, to) = (hosts.name(from), hosts.name(to));
                    let message = format!("to: expected at most one link from {from} to {to}, given another");
                    return Err(self.error(t.to.span(), message));
                }
            }
        }
        Ok(())
    }

    fn find(&self, hosts: &Names, name: &Spanned<String>) -> Result<u32, ScenarioError> {
        let given = name.get_ref();
        hosts.number(given).ok_or_else(|| {
            let message = format!("host: expected one of {}, given \"{given}\"", hosts.list().join(", "));
            self.error(name.span(), message)
        })
    }

    /// Returns the value of that name, if a name is given.
    fn named<T: Copy>(
        &self,
        key: &str,
        given: Option<&Spanned<String>>,
        all: &[(&str, T)],
    ) -> Result<Option<T>, ScenarioError> {
        let Some(name) = given else { return Ok(None) };
        let found = all.iter().find(|(n, _)| n == name.get_ref());
        found.map(|(_, value)| Some(*value)).ok_or_else(|| {
            let names: Vec<_> = all.iter().map(|(n, _)| *n).collect();
            let message =
                format!("{key}: expected one of {}, given \"{}\"", names.join(", "), name.get_ref());
            self.error(name.span(), message)
        })
    }

    fn link(
        &self,
        net: &mut Net,
        t: &LinkTable,
        (from, to): (u32, u32),
        (role, seed): (Role, u64),
        span: Range<usize>,
    ) -> Result<u32, ScenarioError> {
        // Each direction, and each part of it, draws from its own random stream.
        let way = u64::from(from) << 32 | u64::from(to);
        let mut seeds = Rng::new(Rng::new(!seed).next_u64() ^ way);
        let (seed, link_seed, wire_seed) = (seeds.next_u64(), seeds.next_u64(), seeds.next_u64());
        let role = match t.role {
            Some(RoleName::Origin) => Role::Origin,
            Some(RoleName::Forwarder) => Role::Forwarder,
            None => role,
        };
        let link_rate = Some(t.rate.get_ref().0);
        let default = Env::default();
        let tx_queue_len = t.txqueuelen.unwrap_or(default.tx_queue_len);
        let env = Env { tx_queue_len, link_rate, seed, ..default };
        let bql = DqlConfig {
            limit_max: t
                .bql_limit_max
                .map_or(DqlConfig::default().limit_max, |b| b.0.0.min(1_879_048_192) as u32),
            hold_time: t.bql_hold_time.map_or(DqlConfig::default().hold_time, |t| t.0),
            ..DqlConfig::default()
        };
        let path =
            PathConfig { env, role, bql: t.bql.unwrap_or(true).then_some(bql), ..PathConfig::default() };
        let time = |t: Option<Text<Nanos>>| t.map_or(Nanos::ZERO, |t| t.0);
        if t.reorder.ppm > 0 && time(t.reorder_by).0 == 0 {
            let message = "reorder: needs reorder_by, the time by which such packets are late";
            return Err(self.error(span, message));
        }
        let link = LinkConfig {
            delay: time(t.delay),
            jitter: time(t.jitter),
            loss_ppm: t.loss.ppm,
            reorder_ppm: t.reorder.ppm,
            reorder_by: time(t.reorder_by),
            whole_units: t.receive_offload,
        };
        let wire = self.wire(t, wire_seed)?;
        let config = NicConfig { path, wire, link, seed: link_seed };
        net.link(from, to, config).map_err(|e| self.error(span, e))
    }

    fn wire(&self, t: &LinkTable, seed: u64) -> Result<WireConfig, ScenarioError> {
        let default = WireConfig::default();
        if t.rate.get_ref().0.0 == 0 {
            return Err(self.error(t.rate.span(), "rate: expected at least 8bit"));
        }
        let descriptors = match &t.descriptors {
            None => default.descriptors.clone(),
            Some(points) => {
                let hundredths = |d: f64| (d * 100.0).round().clamp(0.0, 1e9) as u32;
                let read: Vec<(u32, u32)> =
                    points.get_ref().iter().map(|(l, d)| (*l, hundredths(*d))).collect();
                DescriptorCost::from_points(&read).map_err(|_| {
                    let message = "descriptors: expected one or more [bytes, descriptors] of distinct sizes, \
                                   with 1 to 65000 descriptors each";
                    self.error(points.span(), message)
                })?
            }
        };
        let rings = match &t.queues {
            None => default.rings,
            Some(n) => Some(*n.get_ref()).filter(|n| (1..=RINGS_MAX).contains(n)).ok_or_else(|| {
                let given = n.get_ref();
                self.error(n.span(), format!("queues: expected 1 to {RINGS_MAX}, given {given}"))
            })?,
        };
        let time = |t: Option<Text<Nanos>>| t.map_or(Nanos::ZERO, |t| t.0);
        let min = time(t.handler_latency);
        let max = match &t.handler_latency_max {
            None => min,
            Some(max) => Some(max.get_ref().0).filter(|max| *max >= min).ok_or_else(|| {
                let given = max.get_ref().0;
                let message = format!(
                    "handler_latency_max: expected at least handler_latency, which is {min}, given {given}"
                );
                self.error(max.span(), message)
            })?,
        };
        Ok(WireConfig {
            rate: t.rate.get_ref().0,
            ring: t.ring.unwrap_or(default.ring),
            descriptors,
            completion: t.completion.map_or(default.completion, |c| c.0),
            // The wire draws a number below the difference and one.
            latency: Latency { min, max: max.min(Nanos(u64::MAX - 1)).max(min) },
            doorbell: time(t.doorbell),
            rings,
            seed,
            ..default
        })
    }

    /// Reads the tc lines of a link where they stand, so that errors point into the file.
    fn policy(&self, policy: &Spanned<String>) -> Result<Policy, ScenarioError> {
        let span = policy.span();
        let raw = self.text.get(span.clone()).unwrap_or("");
        let quotes = if raw.starts_with("\"\"\"") || raw.starts_with("'''") { 3 } else { 1 };
        let inner = span.start + quotes..span.end.saturating_sub(quotes);
        let parsed = match self.text.get(inner.clone()) {
            // Without escapes the text in the file is the text itself.
            Some(text) if text.trim_start_matches('\n') == policy.get_ref().as_str() => {
                Policy::parse_part(&self.text, inner, &self.name)
            }
            _ => Policy::parse(policy.get_ref(), &self.name),
        };
        parsed.map_err(|d| self.policy_error(policy, d.first()))
    }

    /// Returns for each host whether some traffic starts or ends there: its transmit paths then
    /// push back instead of dropping.
    fn senders(&self, hosts: &Names) -> Vec<bool> {
        let mut sends = vec![false; hosts.list().len()];
        for t in &self.file.traffic {
            let t = t.get_ref();
            let back = t.kind.get_ref().answers().then_some(&t.to);
            for name in [Some(&t.from), back].into_iter().flatten() {
                if let Some(number) = hosts.number(name.get_ref()) {
                    sends[number as usize] = true;
                }
            }
        }
        sends
    }
}

/// Sets the value at a path like `link.0.rate`; `None` if no table exists there to hold it.
fn set_at(table: &mut toml::Table, path: &str, value: toml::Value) -> Option<()> {
    let (front, key) = path.rsplit_once('.').unwrap_or(("", path));
    let mut at = table;
    let mut words = front.split('.').filter(|w| !w.is_empty());
    while let Some(word) = words.next() {
        at = match at.get_mut(word)? {
            toml::Value::Table(t) => t,
            toml::Value::Array(a) => a.get_mut(words.next()?.parse::<usize>().ok()?)?.as_table_mut()?,
            _ => return None,
        };
    }
    at.insert(key.into(), value);
    Some(())
}
