//! Connection ends at their hosts, of TCP and of QUIC: from a connection to its NIC.

use txweir_core::{DropReason, Instant, Nanos};

use super::{Ground, QUICS};
use crate::cpu::Cpu;
use crate::engine::Alarm;
use crate::event::NetEvent;
use crate::frame::Frame;
use crate::nic::Taken;
use crate::quic;
use crate::tcp::{Conn, Handed, Reply};

/// One end of a connection, at its host.
#[derive(Debug)]
pub(super) struct End {
    pub(super) conn: Conn,
    pub(super) alarm: Alarm,
    pub(super) host: u32,
    /// The host of the other end.
    pub(super) far: u32,
    pub(super) group: u32,
    /// True if it is among the ends that wait for room at its NIC.
    pub(super) waiting: bool,
    /// True if it belongs to a short flow that is over: packets do not reach it, and it does
    /// nothing.
    pub(super) idle: bool,
    /// True if its application runs when no more events happen at this instant.
    pub(super) woken: bool,
}

/// Result of an end's work.
pub(super) struct Sent {
    /// The NIC that the end handed frames to, if it did.
    pub(super) nic: Option<u32>,
    /// The time of a transaction that ended with it.
    pub(super) took: Option<Nanos>,
    /// Readings of the clock by its application.
    pub(super) readings: u32,
}

impl End {
    pub(super) fn new(conn: Conn, (host, far): (u32, u32), group: u32) -> Self {
        let (alarm, waiting, idle, woken) = (Alarm::default(), false, false, false);
        Self { conn, alarm, host, far, group, waiting, idle, woken }
    }

    /// Lets the end, whose number is `n` and whose own units are those sent `since`, hand frames to
    /// its NIC. `application` runs its application alone, on this processor, which then reads so
    /// much after the present; without it, only the stack works.
    pub(super) fn send(
        &mut self,
        n: u32,
        since: Instant,
        ground: &mut Ground,
        application: Option<(Nanos, &mut Cpu)>,
    ) -> Sent {
        let Ground { engine, links, meters } = ground;
        let number = links.route(self.host, self.far);
        let mut at = links.at(number);
        let now = engine.now();
        let mut offered = false;
        self.conn.set_queue_paces(at.nic.paces());
        // A device that hands packets to another host passes them on within a system call, so that
        // an application's next packet finds room below the socket. A packet that the stack sends
        // for an arriving one is passed on behind it.
        let calls = application.is_some();
        let mut sink = |frame: Frame| {
            offered = true;
            let numbers = meters.numbers(n, &frame);
            let handed = match at.submit(engine, frame) {
                Err(frame) => Handed::Back(frame),
                Ok(Taken::Whole | Taken::Pieces(0)) => Handed::Taken,
                Ok(Taken::Pieces(segments)) => Handed::Cut(segments),
                Ok(Taken::Dropped(DropReason::FlowOverlimit | DropReason::Overmemory)) => Handed::Congested,
                Ok(Taken::Dropped(_)) => Handed::Dropped,
            };
            // A packet that comes back is handed over again, and has not been sent twice then.
            if let Some(numbers) = numbers.filter(|_| !matches!(handed, Handed::Back(_))) {
                meters.sent(now, n, numbers);
            }
            Reply { handed, passed: if calls { at.nic.pass_on(engine, n, since) } else { 0 } }
        };
        let (took, readings) = if let Some((late, cpu)) = application {
            let acted = self.conn.poll_application(now, late, cpu, &mut sink);
            (acted.took, acted.calls)
        } else {
            self.conn.poll_stack(now, &mut sink);
            (None, 0)
        };
        meters.polled(now, n, &self.conn, took);
        if self.conn.is_blocked() && !std::mem::replace(&mut self.waiting, true) {
            at.nic.waiting().wait(n);
        }
        let at = self.conn.poll_at(now);
        debug_assert!(at.is_none_or(|at| at > now), "a deadline that is due after it was served");
        self.alarm.set(engine, at, n, NetEvent::Timer);
        Sent { nic: offered.then_some(number), took, readings }
    }

    /// Returns true if a packet that has come is for the present flow of this place, not for an
    /// earlier one.
    pub(super) fn is_for_flow(&self, frame: &Frame) -> bool {
        let ports = frame.head().transport().get(..4);
        let (local, remote) = (self.conn.local().port.to_be_bytes(), self.conn.remote().port.to_be_bytes());
        !self.idle && ports == Some(&[remote[0], remote[1], local[0], local[1]])
    }
}

/// One end of a QUIC connection, at its host.
#[derive(Debug)]
pub(super) struct QuicEnd {
    pub(super) conn: quic::Conn,
    pub(super) alarm: Alarm,
    pub(super) host: u32,
    /// The host of the other end.
    pub(super) far: u32,
    /// True if it is among the ends that wait for room at its NIC.
    pub(super) waiting: bool,
}

impl QuicEnd {
    /// Lets the end, which is the `n`th of QUIC, hand frames to its NIC; returns the NIC if it did.
    pub(super) fn send(&mut self, n: u32, ground: &mut Ground) -> Option<u32> {
        let Ground { engine, links, .. } = ground;
        let number = links.route(self.host, self.far);
        let mut at = links.at(number);
        let now = engine.now();
        let mut offered = false;
        self.conn.poll(now, |frame| {
            offered = true;
            at.submit(engine, frame).map(|_| ())
        });
        if self.conn.is_blocked() && !std::mem::replace(&mut self.waiting, true) {
            at.nic.waiting().wait(QUICS + n);
        }
        let at = self.conn.poll_at(now);
        debug_assert!(at.is_none_or(|at| at > now), "a deadline that is due after it was served");
        self.alarm.set(engine, at, QUICS + n, NetEvent::Timer);
        offered.then_some(number)
    }
}
