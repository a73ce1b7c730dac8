//! UDP at the hosts of a net: senders at their times, and receivers.

use txweir_core::{Instant, Nanos};

use super::Ground;
use crate::engine::{Alarm, Engine};
use crate::event::NetEvent;
use crate::frame::Frame;
use crate::udp;
use crate::udp::ask;
use crate::udp::video::{Camera, Viewer};
use crate::udp::voice::{Listener, Talker};

/// A sender of UDP.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) sender: Sender,
    pub(super) alarm: Alarm,
    pub(super) host: u32,
    /// The host that its packets are for.
    pub(super) to: u32,
    /// Packets refused by its full NIC.
    pub(super) refused: u64,
}

/// Kinds of senders of UDP.
#[derive(Debug)]
pub(super) enum Sender {
    Cbr(udp::Source),
    Voice(Talker),
    Video(Camera),
    Ask(Box<ask::Client>),
}

impl Sender {
    pub(super) fn poll_at(&self) -> Option<Instant> {
        match self {
            Self::Cbr(s) => s.poll_at(),
            Self::Voice(s) => s.poll_at(),
            Self::Video(s) => s.poll_at(),
            Self::Ask(s) => s.poll_at(),
        }
    }
    pub(super) fn poll(&mut self, now: Instant) -> Option<Frame> {
        match self {
            Self::Cbr(s) => s.poll(now),
            Self::Voice(s) => s.poll(now),
            Self::Video(s) => s.poll(now),
            Self::Ask(s) => s.poll(now),
        }
    }
    pub(super) const fn sent(&self) -> u64 {
        match self {
            Self::Cbr(s) => s.sent(),
            Self::Voice(s) => s.sent(),
            Self::Video(s) => s.sent(),
            Self::Ask(s) => s.counts().asked + s.counts().again,
        }
    }
}

/// A receiver of UDP.
#[derive(Debug)]
pub(super) struct Sink {
    pub(super) receiver: Receiver,
    pub(super) host: u32,
    pub(super) source: u32,
    pub(super) group: u32,
}

/// Kinds of receivers of UDP.
#[derive(Debug)]
pub(super) enum Receiver {
    Cbr(Box<udp::Sink>),
    Voice(Box<Listener>),
    Video(Box<Viewer>),
    /// Answers questions, through the NIC that leads to the source's host.
    Server(ask::Server),
    /// Hands answers to the source.
    Client,
}

impl Receiver {
    /// Returns the sink, if it counts packets by number.
    pub(super) fn counted(&self) -> Option<&udp::Sink> {
        match self {
            Self::Cbr(s) => Some(s),
            Self::Voice(l) => Some(&l.sink),
            Self::Video(v) => Some(&v.sink),
            Self::Server(_) | Self::Client => None,
        }
    }
    pub(super) fn restart(&mut self) {
        match self {
            Self::Cbr(s) => s.delay.reset(),
            Self::Voice(l) => {
                l.sink.delay.reset();
                l.restart();
            }
            Self::Video(v) => {
                v.sink.delay.reset();
                v.restart();
            }
            Self::Server(_) | Self::Client => {}
        }
    }
}

/// Result of a packet's delivery.
pub(super) enum Delivered {
    /// A receiver of this group took it, so long after it was sent.
    Packet(u32, Nanos),
    /// A client of this group took an answer, so long after its question; `None` if it expected
    /// none.
    Answer(u32, Option<Nanos>),
    /// A server handed an answer to this NIC.
    Question(u32),
}

/// All senders and receivers of UDP.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    pub(super) sources: Vec<Source>,
    pub(super) sinks: Vec<Sink>,
}

impl Datagrams {
    /// Adds a sender, and returns its number.
    pub(super) fn add(&mut self, engine: &mut Engine<NetEvent>, sender: Sender, host: u32, to: u32) -> u32 {
        let source = self.sources.len() as u32;
        let mut alarm = Alarm::default();
        alarm.set(engine, sender.poll_at(), source, NetEvent::Source);
        self.sources.push(Source { sender, alarm, host, to, refused: 0 });
        source
    }

    /// Sends a sender's next packet; returns the NIC. A packet that does not fit is lost, as with a
    /// socket that does not block.
    pub(super) fn send(&mut self, number: u32, ground: &mut Ground) -> Option<u32> {
        let Ground { engine, links, .. } = ground;
        let now = engine.now();
        let Source { sender, alarm, host, to, refused } = &mut self.sources[number as usize];
        let frame = sender.poll(now);
        alarm.set(engine, sender.poll_at(), number, NetEvent::Source);
        let frame = frame?;
        let nic = links.route(*host, *to);
        *refused += u64::from(links.at(nic).submit(engine, frame).is_err());
        Some(nic)
    }

    /// Hands a packet to its receiver.
    pub(super) fn deliver(&mut self, number: u32, frame: &Frame, ground: &mut Ground) -> Delivered {
        let Ground { engine, links, .. } = ground;
        let now = engine.now();
        let Sink { receiver, group, source, host } = &mut self.sinks[number as usize];
        match receiver {
            Receiver::Cbr(sink) => sink.deliver(now, frame),
            Receiver::Voice(listener) => listener.deliver(now, frame),
            Receiver::Video(viewer) => viewer.deliver(now, frame),
            Receiver::Server(server) => {
                let answer = server.answer(now, frame);
                let asks = &mut self.sources[*source as usize];
                let nic = links.route(*host, asks.host);
                asks.refused += u64::from(links.at(nic).submit(engine, answer).is_err());
                return Delivered::Question(nic);
            }
            Receiver::Client => {
                let asks = &mut self.sources[*source as usize];
                let took = match &mut asks.sender {
                    Sender::Ask(client) => client.answered(now, frame),
                    _ => None,
                };
                let at = asks.sender.poll_at();
                asks.alarm.set(engine, at, *source, NetEvent::Source);
                return Delivered::Answer(*group, took);
            }
        }
        Delivered::Packet(*group, now.saturating_since(frame.sent))
    }
}
