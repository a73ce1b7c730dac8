//! A host's transmit side: core's `TxPath` over each ring of core's `Wire`.

use txweir_core::model::wire::{Departure, Wire, WireConfig};
use txweir_core::{Admitted, Instant, Meta, Nanos, PathConfig, Role, TxPath};

use super::machine::What;
use super::packet::Packet;
use txweir_lab::engine::{Alarm, Engine, Lane};

/// Bytes of queue for each packet of its limit: the default of `rough`.
const FRAME: u64 = 1514;

/// A transmit side.
#[derive(Debug)]
pub(super) struct Egress {
    paths: Vec<TxPath<Packet>>,
    wire: Wire<Packet>,
    alarm: Alarm,
    what: What,
    /// The limits of a ring's queue in packets and bytes.
    limits: [u64; 2],
    /// Bytes of data segments that have left the line since they were last taken, headers included.
    pub(super) bytes: u64,
    /// Bytes of all frames.
    pub(super) all: u64,
}

impl Egress {
    /// Creates a transmit side with a two-level queue of `limit` packets over each ring; `what` is
    /// the event of the line.
    pub(super) fn new(wire: WireConfig, limit: u32, what: What) -> Result<Self, String> {
        let config = PathConfig { role: Role::Forwarder, bql: None, pool: 2_000, ..PathConfig::default() };
        let path = |_| {
            let path = TxPath::new(config.clone()).map_err(|e| e.to_string())?;
            let options = ["limit", &limit.to_string(), "profile", "df2013"];
            path.with_qdisc("rough", &options).map_err(|e| e.to_string())
        };
        Ok(Self {
            paths: (0..wire.rings).map(path).collect::<Result<_, String>>()?,
            wire: Wire::new(wire).map_err(|e| e.to_string())?,
            alarm: Alarm::default(),
            what,
            limits: [u64::from(limit), u64::from(limit) * FRAME],
            bytes: 0,
            all: 0,
        })
    }

    /// True if the queue of a ring takes a packet that is not control, as a driver's queue decides
    /// by its count alone.
    pub(super) fn has_room(&self, ring: usize) -> bool {
        let waits = self.paths[ring % self.paths.len()].backlog();
        waits.packets < self.limits[0] && waits.bytes < self.limits[1]
    }

    /// Gives a packet to a ring's queue; false if the queue had no room for it. The caller calls
    /// `kick` afterwards.
    pub(super) fn send(&mut self, now: Instant, ring: usize, packet: Packet, m: Meta) -> bool {
        let at = ring % self.paths.len();
        // A wire has at most as many rings as there are numbers for them.
        let Some(mut queue) = self.wire.ring(at as u16) else { return false };
        matches!(self.paths[at].submit(now, packet, m, &mut queue), Admitted::Sent | Admitted::Queued)
    }

    /// Moves every packet that can move; packets that have left the line are on their way.
    pub(super) fn kick(&mut self, engine: &mut Engine<What>, way: &mut Lane<Packet, What>, delay: Nanos) {
        let now = engine.now();
        let (bytes, all) = (&mut self.bytes, &mut self.all);
        let reported = self.wire.advance(now, |d: Departure<Packet>| {
            *all += u64::from(d.meta.wire_len);
            if d.frame.is_data() {
                *bytes += u64::from(d.meta.wire_len);
            }
            way.push(engine, d.finish + delay, d.frame);
        });
        for (at, path) in self.paths.iter_mut().enumerate() {
            let Some(mut queue) = self.wire.ring(at as u16) else { continue };
            if reported {
                path.reap(now, &mut queue, |_| {});
            }
            if !path.tx().stops().stopped() {
                let _ = path.drain(now, u32::MAX, &mut queue);
            }
        }
        self.alarm.set(engine, self.wire.next_event(), 0, self.what);
    }

    /// True if the event at `at` is the one that it waits for.
    pub(super) fn fired(&mut self, at: Instant) -> bool {
        self.alarm.fired(at)
    }

    /// Returns the packets dropped.
    #[cfg(test)]
    pub(super) fn dropped(&self) -> u64 {
        self.paths.iter().map(|p| p.cx().dropped().packets).sum()
    }

    /// Returns the bytes in the qdiscs and in the device.
    #[cfg(test)]
    pub(super) fn holds(&self) -> [u64; 2] {
        [self.paths.iter().map(|p| p.backlog().bytes).sum(), self.wire.held().bytes]
    }
}
