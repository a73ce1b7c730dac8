//! The measurements of a net while it runs: what its connection ends do, for the times of its
//! groups and for a listener.

use txweir_core::{Instant, Nanos};

use super::observe::Observer;
use super::watch::Watch;
use crate::dist::Stepped;
use crate::frame::Frame;
use crate::tcp::Conn;

/// The readers of the events at connection ends.
#[derive(Debug, Default)]
pub struct Meters {
    pub(super) from: Option<Instant>,
    pub(super) watch: Option<Box<Watch>>,
    pub(super) observer: Option<Box<dyn Observer>>,
}

impl Meters {
    /// Returns the time at which measuring began.
    pub fn measuring_from(&self) -> Instant {
        self.from.unwrap_or(Instant::ZERO)
    }
    /// Returns the times of each group; empty if they are not kept.
    pub fn watched(&self) -> &[Stepped] {
        self.watch.as_ref().map_or(&[], |w| &w.groups)
    }

    /// Begins measuring.
    pub(super) fn restart(&mut self, now: Instant) {
        self.from = Some(now);
        self.each(|g| g.whole.reset());
    }
    /// Begins a step.
    pub(super) fn next_step(&mut self) {
        self.each(|g| g.step.reset());
    }
    fn each(&mut self, reset: impl FnMut(&mut Stepped)) {
        self.watch.iter_mut().flat_map(|w| &mut w.groups).for_each(reset);
    }

    /// Returns the numbers of a packet that an end hands to its NIC, to be reported if that takes
    /// it.
    pub(super) fn numbers(&self, end: u32, frame: &Frame) -> Option<(u32, u32)> {
        self.watch.as_deref()?.numbers(end, frame)
    }
    /// Reports the packet with these numbers, which the NIC of an end has taken.
    pub(super) fn sent(&mut self, now: Instant, end: u32, numbers: (u32, u32)) {
        if let Some(watch) = self.watch.as_deref_mut() {
            watch.sent(now, end, numbers);
        }
    }
    /// Reports a packet that has reached an end of a group.
    pub(super) fn delivered(&mut self, now: Instant, group: u32, frame: &Frame) {
        if let Some(watch) = &mut self.watch {
            watch.arrived(now, frame.to, group, frame);
        }
        if let Some(observer) = &mut self.observer {
            observer.delivered(now, frame);
        }
    }
    /// Reports that an end has done its due work.
    pub(super) fn polled(&mut self, now: Instant, end: u32, conn: &Conn, took: Option<Nanos>) {
        if let Some(observer) = &mut self.observer {
            observer.polled(now, end, conn, took);
        }
    }
    /// Adds a time of a group.
    pub(super) fn add(&mut self, group: u32, time: Nanos) {
        if let Some(watch) = &mut self.watch {
            watch.add(group, time);
        }
    }
}
