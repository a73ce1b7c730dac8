//! The rings of a device together: their completion rounds, and the counts over all of them.

use alloc::vec::Vec;

use super::config::WireConfig;
use super::line::{Line, RETIRED};
use super::ring::{Ring, RingStats};
use super::{Counts, Departure};
use crate::base::tally::Tally;
use crate::base::time::Instant;
use crate::packet::meta::Meta;
use crate::path::device::Completed;
use crate::sched::traffic::CLASSES_MAX;
use crate::text::error::ConfigError;

/// The rings of a device.
#[derive(Debug)]
pub(super) struct Rings<F> {
    pub(super) all: Vec<Ring<F>>,
    /// Time of the earliest completion round of any ring; `MAX` if there is none.
    pub(super) round_at: Instant,
    /// Number of rings with completions to be reaped.
    reported: usize,
    /// Packets pushed and not yet reaped.
    pub(super) held: Tally,
    /// By class, then for rings not in use: counts up to the last change of the scheduler.
    classes: [Counts; CLASSES_MAX + 1],
    pub(super) rounds: u64,
    pub(super) doorbells: u64,
}

impl<F> Rings<F> {
    /// Returns idle rings.
    pub(super) fn new(config: &WireConfig) -> Result<Self, ConfigError> {
        let mut rings = Self {
            all: Vec::new(),
            round_at: Instant::MAX,
            reported: 0,
            held: Tally::default(),
            classes: [Counts::default(); CLASSES_MAX + 1],
            rounds: 0,
            doorbells: 0,
        };
        rings.extend(config)?;
        Ok(rings)
    }

    /// Adds the rings of the configuration that are not there yet. Allocates. An error changes
    /// nothing.
    pub(super) fn extend(&mut self, config: &WireConfig) -> Result<(), ConfigError> {
        let all = config.checked_rings()?;
        for (i, ring) in (0_u64..).zip(all).skip(self.all.len()) {
            self.all.push(Ring::new(ring, config.seed_of(i)));
        }
        Ok(())
    }

    /// Closes the counts of each ring in its class, before the ring may get another.
    pub(super) fn close_counts(&mut self) {
        for ring in &mut self.all {
            let counts = &mut self.classes[usize::from(ring.class)];
            *counts = counts.plus(ring.since_counted());
            ring.counted = ring.counts;
        }
    }

    pub(super) fn class_counts(&self, class: usize) -> Counts {
        let before = self.classes.get(class).copied().unwrap_or_default();
        let rings = self.all.iter().filter(|r| usize::from(r.class) == class);
        rings.fold(before, |sum, r| sum.plus(r.since_counted()))
    }

    pub(super) fn counts(&self) -> Counts {
        self.all.iter().fold(Counts::default(), |sum, r| sum.plus(r.counts))
    }

    pub(super) fn descriptors_used(&self) -> u32 {
        self.all.iter().map(Ring::descriptors_used).sum()
    }

    pub(super) fn stats(&self, index: u16) -> RingStats {
        let Some(ring) = self.all.get(usize::from(index)) else { return RingStats::default() };
        RingStats {
            held: ring.held,
            descriptors_used: ring.descriptors_used(),
            sent: ring.counts,
            rounds: ring.rounds,
            doorbells: ring.doorbells,
            class: (ring.class != RETIRED).then_some(ring.class),
            reported: ring.has_reported(),
        }
    }

    /// True if completions can be reaped.
    pub(super) const fn has_reported(&self) -> bool {
        self.reported > 0
    }

    /// Ends a ring's unit on the line, begun at `start` and finished at `finish`; `line` hears of a
    /// ring that has nothing more. With `sent` the unit was interrupted after so many bytes, and
    /// there is no departure.
    #[inline]
    pub(super) fn end(
        &mut self,
        index: usize,
        (start, finish): (Instant, Instant),
        sent: Option<u64>,
        line: &mut Line,
    ) -> Option<Departure<F>> {
        let ring = &mut self.all[index];
        ring.counts.busy = ring.counts.busy + finish.saturating_since(start);
        if let Some(sent) = sent {
            ring.sent = sent;
            line.interrupted = Some(index);
            return None;
        }
        let unit = ring.finish(finish)?;
        ring.counts.units += 1;
        ring.counts.bytes += u64::from(unit.meta.wire_len);
        if !ring.ready() {
            line.leaves(index, ring.class);
        }
        self.round_at = self.round_at.min(ring.round_at);
        // The number of rings fits 16 bits.
        Some(Departure { frame: unit.frame, meta: unit.meta, ring: index as u16, start: ring.begun, finish })
    }

    /// Runs the completion rounds of `now`.
    pub(super) fn round(&mut self, now: Instant) {
        let mut next = Instant::MAX;
        for ring in &mut self.all {
            if ring.round_at == now {
                self.reported += usize::from(!ring.has_reported());
                ring.round();
                self.rounds += 1;
            }
            next = next.min(ring.round_at);
        }
        self.round_at = next;
    }

    #[inline]
    pub(super) fn reserve(&mut self, index: usize, want: u32) -> u32 {
        let ring = &mut self.all[index];
        if ring.class == RETIRED { 0 } else { ring.reserve(want) }
    }
    #[inline]
    pub(super) fn push(&mut self, index: usize, frame: F, m: &Meta) {
        self.held.add(m.wire_len);
        self.all[index].push(frame, m);
    }
    #[inline]
    pub(super) fn reap(&mut self, index: usize, sink: &mut dyn FnMut(Completed<F>)) {
        let Some((packets, mut bytes)) = self.all[index].reap() else { return };
        self.reported -= 1;
        self.held.packets -= u64::from(packets);
        self.held.bytes -= bytes;
        // A completion of more bytes than its number holds is several.
        while let Some(rest) = bytes.checked_sub(u32::MAX.into()).filter(|rest| *rest > 0) {
            sink(Completed { packets: 0, bytes: u32::MAX, frame: None });
            bytes = rest;
        }
        sink(Completed { packets, bytes: bytes as u32, frame: None });
    }
}
