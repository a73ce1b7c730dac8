//! The traffic over the links, from the tables of traffic.

use std::ops::Range;

use toml::Spanned;
use txweir_core::packet::headers::tos_priority;
use txweir_core::{Bytes, Instant, Nanos};

use super::file::{KindName, SizesText, Text, TrafficTable};
use super::host::ECN;
use super::names::Names;
use super::{Scenario, ScenarioError};
use crate::draw::{SIZES_MAX, Sizes};
use crate::ip::Family;
use crate::net::{AT_ONCE_MAX, Choice, Group, LISTED_MAX, Load, Short};
use crate::quic;
use crate::rrul::{self, LOOKUP_WAIT, PING};
use crate::tcp::{Algorithm, EcnMode};
use crate::udp::ask::Ask;
use crate::udp::video::Video;
use crate::udp::{frame_min, payload_max};

/// Longest request or response: more than a run ever moves.
const MESSAGE_MAX: u64 = 1_000_000_000_000;
/// Default number of concurrent short flows of a group.
const AT_ONCE: u32 = 1_000;
/// Smallest and largest number of short flows, or questions, each second.
const ARRIVALS: std::ops::RangeInclusive<f64> = 0.001..=1_000_000.0;
/// A question and an answer of DNS: a name with an EDNS0 option, and an answer of one address (RFC
/// 1035, 6891).
const LOOKUP: (u32, u32) = (56, 72);
/// Shortest wait for an answer: a client with a shorter wait would ask all the time.
const TIMEOUT_MIN: Nanos = Nanos::from_millis(1);
/// Largest age of a frame of video (ITU-T G.1010: 150 ms one way is the preferred limit of
/// conversation).
const FRAME_AGE: Nanos = Nanos::from_millis(150);

/// A key: its name, its place in the file, the kinds that take it.
type Key<'a> = (&'a str, Option<Range<usize>>, &'a [KindName]);

/// One table of traffic, as it is read.
#[derive(Clone, Copy)]
pub(super) struct Traffic<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) table: &'a TrafficTable,
}

impl Traffic<'_> {
    /// Returns the groups of a table: one, or those of a mix.
    pub(super) fn groups(&self, hosts: &Names) -> Result<Vec<Group>, ScenarioError> {
        let t = self.table;
        self.keys()?;
        let kind = *t.kind.get_ref();
        if *t.count.get_ref() == 0 {
            return Err(self.scenario.error(t.count.span(), "count: expected at least 1"));
        }
        let alone = matches!(kind, KindName::Short | KindName::Rrul);
        if alone && *t.count.get_ref() != 1 {
            return Err(self.scenario.error(t.count.span(), "count: not for this kind of traffic"));
        }
        let time = |t: Option<Text<Nanos>>| t.map_or(Nanos::ZERO, |t| t.0);
        let ds = t.dscp.map_or(0, |dscp| dscp.0 << 2);
        let group = Group {
            name: t.name.clone(),
            from: self.scenario.find(hosts, &t.from)?,
            to: self.scenario.find(hosts, &t.to)?,
            load: Load::Stream,
            count: *t.count.get_ref(),
            // A socket's TOS field sets its priority too (IP_TOS in ip(7)).
            priority: t.priority.unwrap_or_else(|| tos_priority(ds)),
            ds,
            mark: t.mark,
            family: self.family(),
            start: Instant(time(t.start).0),
            stagger: t.stagger.map_or(Nanos::from_millis(10), |t| t.0),
            choice: self.choice()?,
            arrivals: [].into(),
        };
        if kind == KindName::Rrul {
            if let Some(span) =
                [t.priority.is_some(), t.dscp.is_some()].contains(&true).then(|| t.kind.span())
            {
                let message = "priority, dscp: not for rrul, whose streams have markings of their own";
                return Err(self.scenario.error(span, message));
            }
            return Ok(rrul::groups(&group, true));
        }
        let arrivals = match &t.arrivals_at {
            Some(list) => self.listed(list)?,
            None => Vec::new(),
        };
        Ok(vec![Group { load: self.load()?, arrivals: arrivals.into(), ..group }])
    }

    /// Checks that the kind takes each of the given keys.
    fn keys(&self) -> Result<(), ScenarioError> {
        let t = self.table;
        use KindName::{Cbr, Dns, Quic, Rr, Rrul, Short, Stream, UdpRr, Video};
        fn at<T>(key: &Option<Spanned<T>>) -> Option<Range<usize>> {
            key.as_ref().map(Spanned::span)
        }
        let given: [Key<'_>; 18] = [
            ("size", at(&t.size), &[Rr, Cbr, Short, Dns, UdpRr]),
            ("request", at(&t.request), &[Rr, Dns, UdpRr]),
            ("response", at(&t.response), &[Rr, Dns, UdpRr]),
            ("rate", at(&t.rate), &[Cbr, Video]),
            ("congestion", at(&t.congestion), &[Stream, Rr, Short, Rrul, Quic]),
            ("ecn", at(&t.ecn), &[Stream, Rr, Short, Rrul, Quic]),
            ("sizes", at(&t.sizes), &[Short]),
            ("load", at(&t.load), &[Short]),
            ("of", at(&t.of), &[Short]),
            ("arrivals", at(&t.arrivals), &[Short, Dns]),
            ("arrivals_at", at(&t.arrivals_at), &[Short]),
            ("at_once", at(&t.at_once), &[Short]),
            ("fps", at(&t.fps), &[Video]),
            ("key_every", at(&t.key_every), &[Video]),
            ("deadline", at(&t.deadline), &[Video]),
            ("timeout", at(&t.timeout), &[Dns, UdpRr]),
            ("txtime", at(&t.txtime), &[Cbr]),
            ("tries", at(&t.tries), &[Dns, UdpRr]),
        ];
        for (key, span, kinds) in given {
            if let Some(span) = span.filter(|_| !kinds.contains(t.kind.get_ref())) {
                return Err(self.scenario.error(span, format!("{key}: not for this kind of traffic")));
            }
        }
        if let Some(size) = t.size.as_ref().filter(|_| t.request.is_some() && t.response.is_some()) {
            return Err(self.scenario.error(size.span(), "size: not beside both request and response"));
        }
        Ok(())
    }

    const fn family(&self) -> Family {
        if self.table.ipv6 { Family::V6 } else { Family::V4 }
    }

    fn choice(&self) -> Result<Choice, ScenarioError> {
        let t = self.table;
        if *t.kind.get_ref() == KindName::Quic {
            return Ok(Choice::default());
        }
        Ok(Choice {
            congestion: self.scenario.named("congestion", t.congestion.as_ref(), &Algorithm::ALL)?,
            ecn: self.scenario.named("ecn", t.ecn.as_ref(), &ECN)?,
        })
    }

    /// Returns the work of a group of traffic.
    fn load(&self) -> Result<Load, ScenarioError> {
        let t = self.table;
        let missing = |key: &str| self.missing(key);
        Ok(match *t.kind.get_ref() {
            KindName::Stream | KindName::Rrul => Load::Stream,
            KindName::Rr => Load::Rr {
                request: self.message_size("request", &t.request)?,
                response: self.message_size("response", &t.response)?,
            },
            KindName::Cbr => {
                let size = t.size.as_ref().ok_or_else(|| missing("size"))?;
                let min = frame_min(self.family());
                let len = u32::try_from(size.get_ref().0.0).ok().filter(|l| (min..=9018).contains(l));
                let len = len.ok_or_else(|| {
                    let message = format!("size: expected {min} to 9018 bytes, Ethernet header included");
                    self.scenario.error(size.span(), message)
                })?;
                let rate = t.rate.as_ref().ok_or_else(|| missing("rate"))?.get_ref().0.bits();
                Load::Cbr { len, rate, launch: self.launch()? }
            }
            KindName::Short => Load::Short(self.short()?),
            KindName::Voice => Load::Voice,
            KindName::Video => Load::Video(self.video()?),
            KindName::Dns => {
                let per_s = t.arrivals.as_ref().ok_or_else(|| missing("arrivals"))?;
                Load::Ask(self.ask(Some(self.gap("arrivals", per_s)?))?)
            }
            KindName::UdpRr => Load::Ask(self.ask(None)?),
            KindName::Quic => {
                let control =
                    self.scenario.named("congestion", t.congestion.as_ref(), &quic::Control::ALL)?;
                let marks = [("off", EcnMode::Off), ("classic", EcnMode::Classic)];
                let ecn = self.scenario.named("ecn", t.ecn.as_ref(), &marks)?;
                let (control, ecn) = (control.unwrap_or_default(), ecn == Some(EcnMode::Classic));
                Load::Quic(quic::Config { control, ecn })
            }
        })
    }

    /// Returns the launch time of packets, from the time at which they are sent on.
    fn launch(&self) -> Result<Nanos, ScenarioError> {
        let Some(given) = &self.table.txtime else { return Ok(Nanos::ZERO) };
        // A frame has 32 bits for it.
        Some(given.get_ref().0).filter(|t| (1..=u64::from(u32::MAX)).contains(&t.0)).ok_or_else(|| {
            self.scenario
                .error(given.span(), "txtime: expected a time above 0, at most 4294967us".to_string())
        })
    }

    fn missing(&self, key: &str) -> ScenarioError {
        let t = self.table;
        self.scenario.error(t.kind.span(), format!("{key}: must be given for this kind of traffic"))
    }

    /// Returns the value of a key within bounds, or its default.
    fn within(
        &self,
        key: &str,
        given: Option<&Spanned<u32>>,
        (min, max): (u32, u32),
        default: u32,
    ) -> Result<u32, ScenarioError> {
        let Some(given) = given else { return Ok(default) };
        Some(*given.get_ref()).filter(|n| (min..=max).contains(n)).ok_or_else(|| {
            let message = format!("{key}: expected {min} to {max}, given {}", given.get_ref());
            self.scenario.error(given.span(), message)
        })
    }

    /// Returns the mean time between arrivals, from their number each second, which a key gives.
    fn gap(&self, key: &str, per_second: &Spanned<f64>) -> Result<Nanos, ScenarioError> {
        let n = *per_second.get_ref();
        if !ARRIVALS.contains(&n) {
            let (min, max) = (ARRIVALS.start(), ARRIVALS.end());
            let message = format!("{key}: expected {min} to {max} each second, given {n}");
            return Err(self.scenario.error(per_second.span(), message));
        }
        Ok(Nanos((1e9 / n).round() as u64))
    }

    fn listed(&self, list: &Spanned<Vec<Text<Nanos>>>) -> Result<Vec<Nanos>, ScenarioError> {
        let times: Vec<Nanos> = list.get_ref().iter().map(|t| t.0).collect();
        if times.is_empty() || times.len() > LISTED_MAX || !times.is_sorted() {
            let message = format!("arrivals_at: expected 1 to {LISTED_MAX} times in order");
            return Err(self.scenario.error(list.span(), message));
        }
        Ok(times)
    }

    fn short(&self) -> Result<Short, ScenarioError> {
        let t = self.table;
        let sizes = self.sizes()?;
        let at_once = self.within("at_once", t.at_once.as_ref(), (1, AT_ONCE_MAX), AT_ONCE)?;
        let ways = [t.load.is_some(), t.arrivals.is_some(), t.arrivals_at.is_some()];
        if ways.iter().filter(|given| **given).count() != 1 {
            let message = "load, arrivals or arrivals_at: expected one of them for this kind of traffic";
            return Err(self.scenario.error(t.kind.span(), message));
        }
        if let Some(of) = t.of.as_ref().filter(|_| t.load.is_none()) {
            return Err(self.scenario.error(of.span(), "of: only with load"));
        }
        let gap = match (&t.load, &t.arrivals) {
            (Some(load), _) => {
                let of =
                    t.of.as_ref()
                        .ok_or_else(|| self.scenario.error(load.span(), "load: needs of, a rate"))?;
                let bytes = of.get_ref().0.0 as f64 * f64::from(load.get_ref().ppm) / 1e6;
                Some(self.gap("load", &Spanned::new(load.span(), bytes / sizes.mean()))?)
            }
            (None, Some(per_second)) => Some(self.gap("arrivals", per_second)?),
            (None, None) => None,
        };
        Ok(Short { sizes, gap, at_once })
    }

    fn sizes(&self) -> Result<Sizes, ScenarioError> {
        let t = self.table;
        let size = match &t.size {
            None => None,
            Some(size) => Some(self.message("size", size)?),
        };
        let of = |list: &[(u64, u32)]| Sizes::list(list);
        let made = match (t.sizes.as_ref().map(Spanned::get_ref), size) {
            (None, None) => return Err(self.missing("size or sizes")),
            (None, Some(size)) => of(&[(size, 1)]),
            (Some(SizesText::Web), None) => Some(Sizes::Web),
            (Some(SizesText::Pareto), Some(mean)) => Some(Sizes::Pareto(mean)),
            (Some(SizesText::Pareto), None) => return Err(self.missing("size, the mean of pareto,")),
            (Some(SizesText::List(list)), None) => {
                let fine = |(size, _): &(u64, u32)| (1..=MESSAGE_MAX).contains(size);
                Some(list).filter(|l| l.len() <= SIZES_MAX && l.iter().all(fine)).and_then(|l| of(l))
            }
            (Some(_), Some(_)) => None,
        };
        let span = t.sizes.as_ref().map_or(t.kind.span(), Spanned::span);
        made.ok_or_else(|| {
            let message = format!(
                "sizes: expected web, pareto with size (its mean), or 1 to {SIZES_MAX} sizes of 1 to {MESSAGE_MAX} \
                 bytes with weights, without size"
            );
            self.scenario.error(span, message)
        })
    }

    fn video(&self) -> Result<Video, ScenarioError> {
        let t = self.table;
        let rate = t.rate.as_ref().ok_or_else(|| self.missing("rate"))?;
        let fps = self.within("fps", t.fps.as_ref(), (25, 60), 30)?;
        let key_every = self.within("key_every", t.key_every.as_ref(), (1, 3_600), 2 * fps)?;
        let deadline = match &t.deadline {
            None => FRAME_AGE,
            Some(d) => d.get_ref().0,
        };
        let video = Video { rate: rate.get_ref().0.bits(), fps, key_every, deadline };
        if !(8_000..=video.rate_max()).contains(&video.rate) {
            let message = format!("rate: expected 8000 to {} bit/s, given {}", video.rate_max(), video.rate);
            return Err(self.scenario.error(rate.span(), message));
        }
        Ok(video)
    }

    fn ask(&self, gap: Option<Nanos>) -> Result<Ask, ScenarioError> {
        let t = self.table;
        let default = if gap.is_some() { LOOKUP } else { (PING, PING) };
        let payload = |key: &str, own: &Option<Spanned<Text<Bytes>>>, default: u32| {
            let key = if own.is_some() { key } else { "size" };
            let Some(size) = own.as_ref().or(t.size.as_ref()) else { return Ok(default) };
            let max = payload_max(self.family());
            u32::try_from(size.get_ref().0.0).ok().filter(|n| (8..=max).contains(n)).ok_or_else(|| {
                let message = format!("{key}: expected 8 to {max} bytes, what a packet of UDP holds");
                self.scenario.error(size.span(), message)
            })
        };
        let timeout = t.timeout.as_ref().map_or(LOOKUP_WAIT.0, |t| t.get_ref().0);
        if timeout < TIMEOUT_MIN {
            let span = t.timeout.as_ref().map_or(0..0, Spanned::span);
            let message = format!("timeout: expected at least {TIMEOUT_MIN}, given {timeout}");
            return Err(self.scenario.error(span, message));
        }
        let tries = self.within("tries", t.tries.as_ref(), (1, 100), LOOKUP_WAIT.1)?;
        let request = payload("request", &t.request, default.0)?;
        let response = payload("response", &t.response, default.1)?;
        Ok(Ask { request, response, gap, timeout, tries })
    }

    /// Returns the size of a request or a response: the value of its own key, or of the key for
    /// both.
    fn message_size(&self, key: &str, own: &Option<Spanned<Text<Bytes>>>) -> Result<u64, ScenarioError> {
        let t = self.table;
        let key = if own.is_some() { key } else { "size" };
        let size = own.as_ref().or(t.size.as_ref()).ok_or_else(|| {
            let message = "size, or request and response: must be given for this kind of traffic";
            self.scenario.error(t.kind.span(), message)
        })?;
        self.message(key, size)
    }

    fn message(&self, key: &str, size: &Spanned<Text<Bytes>>) -> Result<u64, ScenarioError> {
        match size.get_ref().0.0 {
            n @ 1..=MESSAGE_MAX => Ok(n),
            n => Err(self
                .scenario
                .error(size.span(), format!("{key}: expected 1 to {MESSAGE_MAX} bytes, given {n}"))),
        }
    }
}
