//! Hosts with a kernel of their own, and the traffic between them.

use toml::Spanned;

use super::file::HostTable;
use super::names::Names;
use super::{Scenario, ScenarioError};
use crate::machine::{Outcome, Part, Plan, Task, kernel_name};
use crate::net::{Group, Load, address};
use crate::tcp::{EcnMode, TcpConfig};

/// The port of the server of the first group; each further group has the next one. Linux has its
/// clients' ports far above.
const FIRST_PORT: u16 = 5_001;
/// Most groups of traffic between machines, and most connections of a group: each takes a thread
/// in two machines.
const GROUPS_MAX: usize = 1_000;
const COUNT_MAX: u32 = 1_000;
/// Most machines: each takes memory of its own.
const MACHINES_MAX: usize = 64;

/// A group of traffic between two machines.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    /// Its place in the file.
    pub(super) table: usize,
    pub(crate) group: Group,
    /// The port of its server.
    pub(crate) port: u16,
    /// The results of the client and of the server, when the run has ended.
    pub(crate) outcomes: [Outcome; 2],
}

impl Scenario {
    /// Returns for each host whether it has a kernel of its own.
    fn machines(&self) -> Result<Vec<bool>, ScenarioError> {
        let mut all = Vec::new();
        for h in &self.file.host {
            let stack =
                self.named("stack", h.get_ref().stack.as_ref(), &[("lab", false), ("linux", true)])?;
            let is_machine = stack.unwrap_or(false);
            if is_machine {
                self.check_machine(h)?;
            }
            all.push(is_machine);
        }
        match all.iter().filter(|is_machine| **is_machine).count() {
            0..=MACHINES_MAX => Ok(all),
            given => {
                let message = format!("stack: expected at most {MACHINES_MAX} hosts of linux, given {given}");
                Err(self.error(0..0, message))
            }
        }
    }

    /// Refuses the settings of a machine that its kernel does not take from here.
    fn check_machine(&self, h: &Spanned<HostTable>) -> Result<(), ScenarioError> {
        let t = h.get_ref();
        let given = [
            ("mss", t.mss.is_some()),
            ("send_buffer", t.send_buffer.is_some()),
            ("receive_buffer", t.receive_buffer.is_some()),
            ("ack_delay", t.ack_delay.is_some()),
            ("initial_window", t.initial_window.is_some()),
            ("timestamps", t.timestamps.is_some()),
            ("sack", t.sack.is_some()),
            ("small_queues", t.small_queues.is_some()),
            ("size_by_rate", t.size_by_rate.is_some()),
            ("cpu_per_message", t.cpu_per_message.is_some()),
            ("cpu_per_kilobyte", t.cpu_per_kilobyte.is_some()),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((key, _)) => {
                let message = format!("{key}: not for stack = \"linux\", whose kernel has its own");
                Err(self.error(h.span(), message))
            }
        }
    }

    /// Parts the groups of traffic between machines from the others.
    #[expect(clippy::type_complexity, reason = "the pairs are those of the caller")]
    pub(super) fn planned(
        &self,
        hosts: &Names,
        groups: Vec<(usize, Group)>,
    ) -> Result<(Vec<Planned>, Vec<(usize, Group)>), ScenarioError> {
        let machines = self.machines()?;
        let is_machine = |host: u32| machines.get(host as usize).copied().unwrap_or(false);
        let (mut planned, mut others) = (Vec::new(), Vec::new());
        for (table, group) in groups {
            let t = self.file.traffic[table].get_ref();
            match (is_machine(group.from), is_machine(group.to)) {
                (false, false) => {
                    others.push((table, group));
                    continue;
                }
                (true, true) => {}
                (from, _) => {
                    let (span, lab) =
                        if from { (t.to.span(), group.to) } else { (t.from.span(), group.from) };
                    let message = format!(
                        "host: expected stack = \"linux\" for both ends of a group or for none; {} has lab",
                        hosts.name(lab)
                    );
                    return Err(self.error(span, message));
                }
            }
            if !matches!(group.load, Load::Stream | Load::Rr { .. }) {
                let message = "kind: expected stream or rr between hosts of linux";
                return Err(self.error(t.kind.span(), message));
            }
            if t.ipv6 || group.mark != 0 || t.priority.is_some() || t.ecn.is_some() {
                let message = "ipv6, mark, priority, ecn: not for traffic between hosts of linux";
                return Err(self.error(t.kind.span(), message));
            }
            if group.count > COUNT_MAX || planned.len() >= GROUPS_MAX {
                let message = format!(
                    "count: expected at most {COUNT_MAX} connections of a group, and {GROUPS_MAX} groups, between \
                     hosts of linux"
                );
                return Err(self.error(t.count.span(), message));
            }
            let port = FIRST_PORT + planned.len() as u16;
            planned.push(Planned { table, group, port, outcomes: Default::default() });
        }
        Ok((planned, others))
    }

    /// Returns the hosts that are machines, with their work.
    pub(super) fn plans(
        &self,
        hosts: &Names,
        planned: &[Planned],
        seed: u64,
    ) -> Result<Vec<(u32, Plan)>, ScenarioError> {
        let mut plans = Vec::new();
        for ((host, is_machine), h) in (0..).zip(self.machines()?).zip(&self.file.host) {
            if !is_machine {
                continue;
            }
            let (tcp, _) = self.host(h.get_ref())?;
            if self.links_of(hosts, host) != 1 {
                let message = "stack: expected one link of a host of linux";
                return Err(self.error(h.get_ref().name.span(), message));
            }
            let ecn = match tcp.ecn {
                EcnMode::Off => false,
                EcnMode::Classic => true,
                EcnMode::Accurate => {
                    let message = "ecn: expected off or classic: Linux 6.12 has no accurate ECN";
                    return Err(self.error(h.span(), message));
                }
            };
            let tasks = planned.iter().map(|p| self.task(host, &tcp, p)).collect::<Result<Vec<_>, _>>()?;
            plans.push((
                host,
                Plan {
                    host: hosts.name(host).to_owned(),
                    address: address(host),
                    seed: seed ^ u64::from(host),
                    ecn,
                    tso_max: tcp.tso_max,
                    measured_ns: (self.warmup().0, self.duration().0),
                    tasks: tasks.into_iter().flatten().collect(),
                },
            ));
        }
        Ok(plans)
    }

    /// Returns the number of links of a host.
    fn links_of(&self, hosts: &Names, host: u32) -> usize {
        let is_end = |name: &Spanned<String>| hosts.number(name.get_ref()) == Some(host);
        let links = self.file.link.iter().map(Spanned::get_ref);
        links.filter(|l| is_end(&l.from) || !l.one_way && is_end(&l.to)).count()
    }

    /// Returns the part of a host in a group, if it has one.
    fn task(&self, host: u32, tcp: &TcpConfig, planned: &Planned) -> Result<Option<Task>, ScenarioError> {
        let g = &planned.group;
        let part = match host {
            host if host == g.from => Part::Client,
            host if host == g.to => Part::Server,
            _ => return Ok(None),
        };
        let algorithm = g.choice.of(tcp).congestion;
        let Some(congestion) = kernel_name(algorithm) else {
            let message = "congestion: expected reno, cubic, bbr or dctcp between hosts of linux";
            return Err(self.error(self.file.traffic[planned.table].span(), message));
        };
        Ok(Some(Task {
            name: g.name.clone(),
            part,
            server: (address(g.to), planned.port),
            count: g.count,
            exchange: match g.load {
                Load::Rr { request, response } => Some((request, response)),
                _ => None,
            },
            start_ns: g.start.0,
            // The connections of all members start within `stagger`, as those of the lab do.
            stagger_ns: g.stagger.0 / u64::from(g.count.max(1)),
            congestion: congestion.to_owned(),
            ds: g.ds,
        }))
    }
}
