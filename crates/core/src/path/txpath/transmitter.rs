//! `Transmitter`: the state of a transmit path between its qdiscs and the device: the causes that
//! stop it, the byte queue limit, the doorbell that is due.

use alloc::boxed::Box;

use crate::base::time::Instant;
use crate::packet::meta::Meta;
use crate::path::device::{DeviceError, TxQueue};
use crate::path::dql::{Dql, OBJECT_MAX};
use crate::path::txpath::{PathStats, Stops};

/// The state of a transmit path towards its device.
#[derive(Debug)]
pub struct Transmitter {
    limit: Option<Dql>,
    stops: Stops,
    /// True if a packet was pushed since the last doorbell.
    uncommitted: bool,
    error: Option<Box<DeviceError>>,
}

impl Transmitter {
    pub(super) const fn new(limit: Option<Dql>) -> Self {
        Self { limit, stops: Stops::NONE, uncommitted: false, error: None }
    }

    /// Returns the byte queue limit, if there is one.
    pub const fn limit(&self) -> Option<&Dql> {
        self.limit.as_ref()
    }
    /// Returns the byte queue limit, to set its knobs.
    pub const fn limit_mut(&mut self) -> Option<&mut Dql> {
        self.limit.as_mut()
    }
    /// Returns the causes that stop it now.
    pub const fn stops(&self) -> Stops {
        self.stops
    }
    /// Stops transmission until `thaw`: packets are queued, none leaves.
    pub const fn freeze(&mut self) {
        self.stops.set(Stops::FROZEN);
    }
    /// Ends `freeze`; the caller calls `TxPath::drain` afterwards.
    pub const fn thaw(&mut self) {
        self.stops.clear(Stops::FROZEN);
    }
    /// Sets whether packets may go directly to the device where rule DD allows it. The default is
    /// on. Off, every packet goes through the qdiscs, to compare and to find faults (FreeBSD's
    /// `net.startmbuf_enabled`).
    pub const fn set_direct(&mut self, on: bool) {
        match on {
            true => self.stops.clear(Stops::QUEUED),
            false => self.stops.set(Stops::QUEUED),
        }
    }
    /// True if the direct way is on.
    pub const fn is_direct(&self) -> bool {
        !self.stops.has(Stops::QUEUED)
    }
    /// Notes that the device was reset and has forgotten everything pushed: it will not report the
    /// packets in flight.
    pub fn device_reset(&mut self, now: Instant) {
        if let Some(limit) = &mut self.limit {
            limit.reset(now);
        }
        self.stops.clear(Stops::DRV);
        self.stops.clear(Stops::STACK);
    }
    /// Takes the last error of a doorbell.
    pub fn take_error(&mut self) -> Option<DeviceError> {
        self.error.take().map(|e| *e)
    }

    /// Takes the byte limit out, and the note of a due doorbell, for packets that do not go to the
    /// device: `put_back` ends it.
    pub(super) const fn set_apart(&mut self) -> (Option<Dql>, bool) {
        (self.limit.take(), core::mem::replace(&mut self.uncommitted, false))
    }
    /// Puts both back.
    pub(super) fn put_back(&mut self, limit: Option<Dql>, uncommitted: bool) {
        (self.limit, self.uncommitted) = (limit, uncommitted);
    }

    /// True if nothing on this side of the ring keeps a packet from going past empty qdiscs.
    #[inline]
    pub(super) fn takes_direct<D: TxQueue>(&self, wire_len: u32, dev: &mut D) -> bool {
        self.stops.may_go_direct()
            && wire_len <= OBJECT_MAX
            && self.limit.as_ref().is_none_or(|d| d.available() >= 0 || dev.is_done_at_commit())
    }
    /// True if a post needs the time: stall detection compares it with the completion's.
    #[inline]
    pub(super) fn is_timed(&self) -> bool {
        self.limit.as_ref().is_some_and(Dql::watches_stalls)
    }

    /// Returns the number of slots that the device promises, at most `want`; notes a stop if there
    /// is none.
    #[inline]
    pub(super) fn reserve<D: TxQueue>(&mut self, want: u32, stats: &mut PathStats, dev: &mut D) -> u32 {
        let slots = promised(want, dev);
        if slots == 0 {
            self.stops.set(Stops::DRV);
            stats.stop_drv += 1;
        } else {
            self.stops.clear(Stops::DRV);
        }
        slots
    }
    /// True if the byte limit is reached, which is noted.
    #[inline]
    pub(super) fn is_at_limit<D: TxQueue>(&mut self, stats: &mut PathStats, dev: &mut D) -> bool {
        let reached = self.limit.as_ref().is_some_and(|d| d.available() < 0) && !dev.is_done_at_commit();
        if reached {
            self.stops.set(Stops::STACK);
            stats.stop_stack += 1;
        }
        reached
    }

    /// Books a packet that goes to the device with the next doorbell.
    #[inline]
    pub(super) fn post(&mut self, m: &Meta, now: Instant, stats: &mut PathStats) {
        // The two increments stand on either side of the branch: adjacent, LLVM would fuse them
        // into one vector addition, which is slower here.
        stats.tx_packets += 1;
        if let Some(limit) = &mut self.limit {
            // Units above the largest object were refused at admission.
            let _ = limit.queued(limit.unit().cost(m.wire_len, 1), now);
        }
        stats.tx_bytes += u64::from(m.wire_len);
        self.uncommitted = true;
    }
    /// Shows the device the packets posted since the last doorbell, if there are any.
    #[inline]
    pub(super) fn ring<D: TxQueue>(&mut self, now: Instant, stats: &mut PathStats, dev: &mut D) {
        if self.uncommitted {
            self.uncommitted = false;
            stats.commits += 1;
            if let Err(e) = dev.commit() {
                stats.device_errors += 1;
                self.error = Some(Box::new(e));
            }
            if let Some(limit) = &mut self.limit
                && dev.is_done_at_commit()
            {
                // The completions of such a device teach nothing: they follow the doorbells, not
                // the device.
                limit.reset(now);
            }
        }
    }
    /// Books packets that the device has finished, as reported by `dev`.
    #[inline]
    pub(super) fn completed<D: TxQueue>(
        &mut self,
        (packets, bytes): (u32, u32),
        now: Instant,
        stats: &mut PathStats,
        dev: &mut D,
    ) {
        self.stops.clear(Stops::DRV);
        if let Some(limit) = &mut self.limit
            && !dev.is_done_at_commit()
        {
            if limit.completed(limit.unit().cost(bytes, packets), now).is_err() {
                stats.dql_errors += 1;
                limit.reset(now);
            }
            if limit.available() >= 0 {
                self.stops.clear(Stops::STACK);
            }
        }
    }
}

/// Returns the number of slots that the device promises. A device that answers with all of its free
/// slots promises no more than it was asked for.
#[inline(always)]
pub(super) fn promised<D: TxQueue>(want: u32, dev: &mut D) -> u32 {
    dev.reserve(want).min(want)
}
