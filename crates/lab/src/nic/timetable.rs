//! The frames that the classes of a taprio have sent of late, to be held against the schedule of
//! their gates.

use std::collections::VecDeque;

use txweir_core::Instant;
use txweir_core::model::wire::Departure;
use txweir_core::path::port::Port;
use txweir_core::qdisc::taprio;
use txweir_core::sched::traffic::{CLASSES_MAX, TrafficClasses};

use crate::frame::Frame;

/// Most frames that are kept, the last ones: more than the points of a picture's width.
const FRAMES_MAX: usize = 4096;

/// A frame that was on the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The class of its priority.
    pub class: usize,
    /// Time at which its first bit left.
    pub start: Instant,
    /// Time at which its last bit had left, overhead included.
    pub finish: Instant,
}

/// The last frames of a port whose root is a taprio.
#[derive(Clone, Debug)]
pub struct Timetable {
    classes: TrafficClasses,
    frames: VecDeque<Sent>,
    longest: [u32; CLASSES_MAX],
    /// Frames before this time are forgotten.
    since: Instant,
}

impl Timetable {
    /// Returns that of a port; `None` if its root has no gates.
    pub(super) fn of(port: &Port<Frame>) -> Option<Self> {
        let classes = taprio::classes_of(port.trees().root().qdisc())?;
        Some(Self { classes, frames: VecDeque::new(), longest: [0; CLASSES_MAX], since: Instant::ZERO })
    }

    pub(super) fn departed(&mut self, d: &Departure<Frame>) {
        let class = self.classes.class(d.meta.priority);
        self.longest[class] = self.longest[class].max(d.meta.wire_len);
        if self.frames.len() == FRAMES_MAX {
            self.since = self.frames.pop_front().map_or(self.since, |sent| sent.finish);
        }
        self.frames.push_back(Sent { class, start: d.start, finish: d.finish });
    }

    /// Returns the classes, with their priorities and queues.
    pub const fn classes(&self) -> &TrafficClasses {
        &self.classes
    }
    /// Returns the last frames, in the order in which they were sent.
    pub fn frames(&self) -> impl Iterator<Item = Sent> {
        self.frames.iter().copied()
    }
    /// Returns the time since which no frame is missing.
    pub const fn since(&self) -> Instant {
        self.since
    }
    /// Returns the bytes of the longest frame that a class has sent, 0 if none.
    pub const fn longest(&self, class: usize) -> u32 {
        self.longest[class]
    }
}
