//! Traffic of trials: the built-in mixes, and traffic from files.

use std::fmt;
use std::sync::Arc;

use txweir_core::{Instant, Nanos};

use super::{FAR, NEAR, capture};
use crate::app::Pace;
use crate::frame::Frame;
use crate::ip::Family;
use crate::net::{CONNECTIONS_MAX, Group, Load};
use crate::report::told_apart;
use crate::rrul;
use crate::scenario::{SCENARIO, Scenario, ScenarioError};
use crate::udp::{frame_min, payload_max};

/// Largest number of connections of a file's traffic: each needs buffers.
const MEMBERS_MAX: u32 = 4096;

/// Largest delay of a member's start after its group's, as in scenarios.
const STAGGER: Nanos = Nanos::from_millis(10);

/// The DS field of voice: EF (RFC 3246).
const EF: u8 = 0xb8;

/// A built-in mix.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Name for `--traffic`.
    pub name: &'static str,
    /// One sentence.
    pub about: &'static str,
    /// The same where the way back has a rate.
    pub about_both: &'static str,
    /// The groups; the word says whether the way back has a rate.
    groups: fn(bool) -> Vec<(Group, Pace)>,
}

/// Every built-in mix; the first is the default.
pub const MIXES: &[Mix] = &[
    Mix {
        name: "bulk+rr",
        about: "4 bulk uploads, and 4 clients with requests and responses of 100 bytes, one after the other",
        about_both: "4 bulk uploads and 4 bulk downloads at once, and 4 clients with requests and responses of 100 \
                     bytes, one after the other",
        groups: bulk_rr,
    },
    Mix {
        name: "rrul",
        about: "a bulk upload in each of the classes BE, CS1, CS5 and EF, and UDP pings in BE, CS1 and EF: the upload \
                half of flent's Realtime Response Under Load",
        about_both: "a bulk upload and a bulk download in each of the classes BE, CS1, CS5 and EF, and UDP pings in BE, \
                     CS1 and EF: flent's Realtime Response Under Load",
        groups: rrul_groups,
    },
    Mix {
        name: "voip",
        about: "8 calls (200 bytes each 20 ms, priority 6, EF) beside a bulk upload",
        about_both: "8 calls each way (200 bytes each 20 ms, priority 6, EF) beside a bulk upload and a bulk download",
        groups: voip,
    },
    Mix {
        name: "web",
        about: "16 clients with small requests each 100 ms, and 8 that fetch 60 kB from here each 500 ms, beside a bulk \
                upload of priority 2",
        about_both: "16 clients with small requests each 100 ms, and 8 that fetch 60 kB from beyond each 500 ms, beside \
                     a bulk upload and a bulk download of priority 2",
        groups: web,
    },
    Mix {
        name: "incast",
        about: "64 requests at once each 100 ms, each answered from here with 64 kB, beside a client with small requests",
        about_both: "64 requests at once each 100 ms, each answered from beyond with 64 kB, beside a client with small \
                     requests",
        groups: incast,
    },
    Mix {
        name: "many-flows",
        about: "128 bulk uploads",
        about_both: "64 bulk uploads and 64 bulk downloads",
        groups: many_flows,
    },
];

fn group(name: &str, load: Load, count: u32, priority: u32) -> (Group, Pace) {
    let (from, to, start, stagger) = (NEAR, FAR, Instant::ZERO, STAGGER);
    let name = name.into();
    (Group { name, from, to, load, count, priority, start, stagger, ..Group::default() }, Pace::AtOnce)
}

/// Turns a group round.
fn back((group, pace): (Group, Pace)) -> (Group, Pace) {
    (Group { from: group.to, to: group.from, ..group }, pace)
}

/// Returns bulk uploads, and as many downloads where the way back has a rate.
fn bulk(both: bool, count: u32, priority: u32) -> Vec<(Group, Pace)> {
    let one = |name: &str| group(name, Load::Stream, count, priority);
    if both { vec![one("up"), back(one("down"))] } else { vec![one("bulk")] }
}

const fn rr(request: u64, response: u64) -> Load {
    Load::Rr { request, response }
}

/// Returns frames of `len` bytes, `per_second` of them per second.
const fn cbr(len: u32, per_second: u64) -> Load {
    Load::Cbr { len, rate: len as u64 * 8 * per_second, launch: Nanos::ZERO }
}

fn bulk_rr(both: bool) -> Vec<(Group, Pace)> {
    let mut all = bulk(both, 4, 0);
    all.push(group("rr", rr(100, 100), 4, 0));
    all
}

fn rrul_groups(both: bool) -> Vec<(Group, Pace)> {
    let (like, pace) = group("", Load::Stream, 1, 0);
    rrul::groups(&like, both).into_iter().map(|group| (group, pace)).collect()
}

fn voip(both: bool) -> Vec<(Group, Pace)> {
    // Calls do not begin at one instant: they are spread over a packet's time.
    let calls = |name: &str| {
        let (calls, pace) = group(name, cbr(200, 50), 8, 6);
        (Group { stagger: Nanos::from_millis(20), ds: EF, ..calls }, pace)
    };
    let mut all =
        if both { vec![calls("calls up"), back(calls("calls down"))] } else { vec![calls("calls")] };
    all.extend(bulk(both, 1, 0));
    all
}

fn web(both: bool) -> Vec<(Group, Pace)> {
    let (requests, _) = group("requests", rr(400, 1000), 16, 0);
    let (pages, _) = group("pages", rr(400, 60_000), 8, 0);
    let (think, read) = (Nanos::from_millis(100), Nanos::from_millis(500));
    let pages = (Group { stagger: read, ..pages }, Pace::After(read));
    let mut all = vec![
        (Group { stagger: think, ..requests }, Pace::After(think)),
        if both { pages } else { back(pages) },
    ];
    all.extend(bulk(both, 1, 2));
    all
}

fn incast(both: bool) -> Vec<(Group, Pace)> {
    let (answers, _) = group("answers", rr(100, 64_000), 64, 0);
    let answers = (answers, Pace::Every(Nanos::from_millis(100)));
    vec![if both { answers } else { back(answers) }, group("rr", rr(100, 100), 1, 0)]
}

fn many_flows(both: bool) -> Vec<(Group, Pace)> {
    bulk(both, if both { 64 } else { 128 }, 0)
}

/// The traffic of a trial.
#[derive(Clone, Debug)]
pub struct Traffic {
    pub(super) name: String,
    pub(super) about: String,
    pub(super) load: Loads,
}

#[derive(Clone, Debug)]
pub(super) enum Loads {
    /// Groups between the two hosts.
    Groups(Vec<(Group, Pace)>),
    /// Packets that arrive at the near host by their stamps.
    Replay(Arc<[Frame]>),
}

/// Error of a file that is no traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrafficError {
    /// The error of a text, with its place.
    Scenario(Box<ScenarioError>),
    /// The error of a capture, in words.
    Capture(String),
}

impl fmt::Display for TrafficError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scenario(e) => e.fmt(f),
            Self::Capture(e) => f.write_str(e),
        }
    }
}

impl std::error::Error for TrafficError {}

impl Traffic {
    /// Returns the number of members of the selected groups, all together; a replay has no groups.
    pub(super) fn members(&self, asked: impl Fn(&Group) -> bool) -> u64 {
        match &self.load {
            Loads::Groups(all) => all.iter().filter(|(g, _)| asked(g)).map(|(g, _)| u64::from(g.count)).sum(),
            Loads::Replay(_) => 0,
        }
    }

    /// True if some of it is TCP of the hosts.
    pub(super) fn has_tcp(&self) -> bool {
        self.members(|g| matches!(g.load, Load::Stream | Load::Rr { .. } | Load::Short(_))) > 0
    }

    /// True if all of it is of IPv6; packets of a capture are not looked at.
    pub(super) fn is_ipv6(&self) -> bool {
        self.members(|_| true) > 0 && self.members(|g| g.family != Family::V6) == 0
    }

    /// Returns a built-in mix, for a wide way back.
    pub fn mix(name: &str) -> Option<Self> {
        Self::mix_of(name, false)
    }
    /// Returns a built-in mix for both directions, where the way back has a rate too.
    pub fn mix_both(name: &str) -> Option<Self> {
        Self::mix_of(name, true)
    }
    fn mix_of(name: &str, both: bool) -> Option<Self> {
        let mix = MIXES.iter().find(|m| m.name == name)?;
        let about = if both { mix.about_both } else { mix.about };
        Some(Self { name: mix.name.into(), about: about.into(), load: Loads::Groups((mix.groups)(both)) })
    }

    /// Returns the same traffic over IPv6.
    ///
    /// # Errors
    /// Fails for a capture, whose packets are as they are, and for a group whose packets do not
    /// fit.
    pub fn over_ipv6(mut self) -> Result<Self, String> {
        let Loads::Groups(groups) = &mut self.load else {
            return Err(format!("expected a mix or [[traffic]], given a capture, {}", self.name));
        };
        let (min, max) = (frame_min(Family::V6), payload_max(Family::V6));
        for (group, _) in groups {
            let (given, expected) = match group.load {
                Load::Cbr { len, .. } => (len, min..=u32::MAX),
                Load::Ask(ask) => (ask.request.max(ask.response), 0..=max),
                _ => (0, 0..=0),
            };
            if !expected.contains(&given) {
                let bound = if given < min { format!("at least {min}") } else { format!("at most {max}") };
                return Err(format!("group {}: size: expected {bound} bytes, given {given}", group.name));
            }
            group.family = Family::V6;
        }
        self.about += ", over IPv6";
        Ok(self)
    }

    /// Reads the bytes of a file called `name`: a capture (pcap or pcapng), up to `time`, or the
    /// `[[traffic]]` of a scenario. `seed` keys the flow hash of captured packets.
    pub fn file(bytes: &[u8], name: &str, time: Nanos, seed: u64) -> Result<Self, TrafficError> {
        if capture::is_capture(bytes) {
            let read = capture::read(bytes, time, seed)
                .map_err(|e| TrafficError::Capture(format!("{name}: {e}")))?;
            let about = format!("{} packets, as they were captured{}", read.frames.len(), read.notes());
            return Ok(Self { name: name.into(), about, load: Loads::Replay(read.frames.into()) });
        }
        let text = std::str::from_utf8(bytes).map_err(|e| {
            let at = e.valid_up_to();
            let what = "neither a capture (pcap, pcapng) nor a text";
            TrafficError::Capture(format!("{name}: {what}: byte {at} is not UTF-8"))
        })?;
        Self::scenario(text, name).map_err(|e| TrafficError::Scenario(Box::new(e)))
    }

    /// Reads the groups of a scenario, whose hosts lie on two sides. The first group's `from` is on
    /// the near side, before the bottleneck, and its `to` beyond; and so on for each host at its
    /// first appearance. Packets of a group from the near side go through the bottleneck, packets
    /// from beyond take the wide way back. Groups of one name have their hosts in their names too.
    fn scenario(text: &str, name: &str) -> Result<Self, ScenarioError> {
        let (hosts, found) = Scenario::traffic_of(text, name)?;
        let error = |span, message| ScenarioError {
            file: name.into(),
            text: text.into(),
            span,
            message,
            hint: None,
            code: SCENARIO,
        };
        let named = |group: &Group| {
            let [from, to] = [group.from, group.to].map(|host| hosts[host as usize].as_str());
            [group.name.clone(), format!("{} {from} -> {to}", group.name)]
        };
        let names = told_apart(&found.iter().map(|t| named(&t.group)).collect::<Vec<_>>());
        let mut side: Vec<Option<u32>> = vec![None; hosts.len()];
        let mut groups = Vec::new();
        let mut members = 0_u32;
        for (t, name) in found.into_iter().zip(names) {
            let (from, to) = (t.group.from as usize, t.group.to as usize);
            let here = match (side[from], side[to]) {
                (Some(from), _) => from,
                (None, Some(to)) => FAR - to,
                (None, None) => NEAR,
            };
            side[from] = Some(here);
            if *side[to].get_or_insert(FAR - here) == here {
                let (a, b) = (&hosts[from], &hosts[to]);
                let message = format!("to: expected a host beyond the bottleneck from {a}, given \"{b}\"");
                return Err(ScenarioError {
                    hint: Some("a host is on the side that its first [[traffic]] puts it on".into()),
                    ..error(t.at, message)
                });
            }
            members = members.saturating_add(t.group.count);
            if members > MEMBERS_MAX.min(CONNECTIONS_MAX) {
                let message = format!("count: expected at most {MEMBERS_MAX} in all");
                return Err(error(t.count_at, message));
            }
            groups.push((Group { name, from: here, to: FAR - here, ..t.group }, Pace::AtOnce));
        }
        let near: Vec<&str> =
            hosts.iter().zip(&side).filter(|(_, s)| **s == Some(NEAR)).map(|(h, _)| h.as_str()).collect();
        let about = format!("the traffic of {name}; before the bottleneck: {}", near.join(", "));
        Ok(Self { name: name.into(), about, load: Loads::Groups(groups) })
    }
}
