//! Measurements of applications: short flows, calls, video, questions.

use std::fmt;

use serde::Serialize;

use super::text::{size, time};
use super::{Times, TrafficReport};
use crate::net::{CbrCounts, Flows, VideoCounts, VoiceCounts};
use crate::udp::ask::Asked;
use crate::udp::emodel;
use crate::udp::voice::PACKET;

/// Short flows since the end of the warm-up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlowsReport {
    /// Flows opened.
    pub opened: u64,
    /// Flows read to the last byte.
    pub finished: u64,
    /// Flows given up by TCP.
    pub failed: u64,
    /// Flows not opened, because all places were taken.
    pub turned_away: u64,
    /// Flows under way at the end.
    pub open: u64,
    /// Time from the opening of the connection to the last byte read.
    pub completion: Option<Times>,
    /// The same by size of flow; classes without finished flows are left out.
    pub by_size: Vec<SizeReport>,
}

/// Short flows of a class of size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SizeReport {
    /// The largest size, bytes; `None` for the last class.
    pub up_to_bytes: Option<u64>,
    /// Time from the opening of the connection to the last byte read.
    pub completion: Times,
}

impl FlowsReport {
    pub(super) fn of(f: &Flows) -> Self {
        let c = f.counts();
        let by_size = f.by_size().filter_map(|(up_to_bytes, dist)| {
            dist.times().map(|completion| SizeReport { up_to_bytes, completion })
        });
        Self {
            opened: c.opened,
            finished: c.finished,
            failed: c.failed,
            turned_away: c.turned_away,
            open: f.open() as u64,
            completion: f.times().times(),
            by_size: by_size.collect(),
        }
    }
}

/// Quality of calls.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct VoiceReport {
    /// Packets that came too late to be played.
    pub late: u64,
    /// Share of packets that were not played: lost or late.
    pub unplayed: f64,
    /// Interarrival jitter (RFC 3550), of the worst call.
    pub jitter_ns: u64,
    /// Mean time from the mouth to the ear: a packet's sound, the way, and the wait to be played.
    pub mouth_to_ear_ns: u64,
    /// Rating R of ITU-T G.107, 93.2 at best.
    pub r: f64,
    /// Mean opinion score, 1 to 4.5.
    pub mos: f64,
}

impl VoiceReport {
    /// Returns the report of calls; `None` if no packet was received.
    pub(super) fn of(packets: CbrCounts, v: VoiceCounts) -> Option<Self> {
        let received = packets.received;
        let behind = v.heard.behind_sum.checked_div(u128::from(received))?;
        let mouth_to_ear_ns = u64::try_from(behind).unwrap_or(u64::MAX).saturating_add(PACKET.0);
        let missed = (packets.lost + v.heard.late) as f64;
        let unplayed = missed / (received + packets.lost) as f64;
        let r = emodel::rating(mouth_to_ear_ns as f64 / 1e6, unplayed * 100.0);
        let round = |x: f64, to: f64| (x * to).round() / to;
        Some(Self {
            late: v.heard.late,
            unplayed: round(unplayed, 1e6),
            jitter_ns: v.heard.jitter.0,
            mouth_to_ear_ns,
            r: round(r, 10.0),
            mos: round(emodel::opinion(r), 100.0),
        })
    }
}

/// Frames of video.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct VideoReport {
    /// Frames made.
    pub frames: u64,
    /// Frames that arrived with their last packet, including frames on the way when measuring
    /// began.
    pub delivered: u64,
    /// Frames among them that arrived after the deadline.
    pub frames_late: u64,
    /// Time from the instant at which a frame is taken to its last packet.
    pub frame_delay: Option<Times>,
}

impl VideoReport {
    pub(super) fn of(v: &VideoCounts) -> Self {
        let (delivered, frame_delay) = (v.ages.count(), v.ages.times());
        Self { frames: v.frames, delivered, frames_late: v.late, frame_delay }
    }
}

/// Questions over UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct QuestionsReport {
    /// Questions asked, each counted once.
    pub asked: u64,
    /// Questions given up after the last try.
    pub failed: u64,
    /// Packets sent again.
    pub again: u64,
}

impl QuestionsReport {
    pub(super) const fn of(a: Asked) -> Self {
        Self { asked: a.asked, failed: a.failed, again: a.again }
    }
}

/// Returns the distributions for the table of times.
pub(super) fn times(g: &TrafficReport) -> Vec<(String, Option<Times>)> {
    let mut all = Vec::new();
    if let Some(flows) = &g.flows {
        all.push(("flow".into(), flows.completion));
        // A single class would repeat the whole.
        let classes = if flows.by_size.len() > 1 { &flows.by_size[..] } else { &[] };
        let mut above = 0;
        for class in classes {
            let what = match class.up_to_bytes {
                Some(most) => format!("flow to {}", size(most)),
                None => format!("flow above {}", size(above)),
            };
            above = class.up_to_bytes.unwrap_or(above);
            all.push((what, Some(class.completion)));
        }
    }
    if let Some(video) = g.video {
        all.push(("frame".into(), video.frame_delay));
    }
    all
}

/// Writes one line for a group with results that are no times.
pub(super) fn line(f: &mut fmt::Formatter<'_>, g: &TrafficReport) -> fmt::Result {
    if let Some(c) = &g.flows {
        let FlowsReport { opened, finished, failed, turned_away, open, .. } = c;
        let all = [("failed", *failed), ("turned away", *turned_away), ("open at the end", *open)];
        let others: String =
            all.iter().filter(|(_, n)| *n > 0).map(|(what, n)| format!(", {what} {n}")).collect();
        writeln!(f, "  {}: {opened} flows opened, {finished} finished{others}", g.name)?;
    }
    if let Some(v) = g.voice {
        let (jitter, ear) = (time(v.jitter_ns), time(v.mouth_to_ear_ns));
        let unplayed = v.unplayed * 100.0;
        let heard = format!("not played {unplayed:.2} %, jitter {jitter}, mouth to ear {ear}");
        writeln!(f, "  {}: {heard}, R {:.1}, MOS {:.2}", g.name, v.r, v.mos)?;
    }
    if let Some(v) = g.video {
        let VideoReport { frames, delivered, frames_late, .. } = v;
        writeln!(f, "  {}: {frames} frames, {delivered} there, {frames_late} late", g.name)?;
    }
    if let Some(q) = g.questions.filter(|q| q.failed + q.again > 0) {
        let QuestionsReport { asked, failed, again } = q;
        writeln!(f, "  {}: {asked} questions, {again} asked again, {failed} failed", g.name)?;
    }
    Ok(())
}
