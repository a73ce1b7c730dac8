//! Virtual time for txweir: an event engine, hosts with real TCP, links, and measurements.
//!
//! **The clock.** [`engine::Engine`] orders events by (time in nanoseconds, sequence number). The
//! same seed and scenario give the same events, byte for byte; [`engine::Trace`] writes them and
//! keeps a rolling hash.
//!
//! **The hosts.** [`tcp::Conn`] is one end of a TCP connection: the state machine of
//! `txweir-transport`, which does TCP as Linux does it, and an application. [`quic::Conn`] is one
//! end of a QUIC connection, by quinn-proto. [`udp`] has the senders of datagrams: a constant rate,
//! calls, video, questions. Only QUIC's payload is carried: any other [`frame::Frame`] is the
//! headers and a length. [`draw`] has the distributions of random traffic.
//!
//! **The network.** [`net::Net`] is hosts, links and traffic; a [`nic::Nic`] is the transmit side
//! of each direction of a link: core's `TxPath` over core's `Wire`, into a [`link::Link`].
//! [`dumbbell::Dumbbell`] is the smallest net, which measures the engine's speed: n TCP streams
//! through one tail-drop bottleneck.
//!
//! **The story.** [`scenario::Scenario`] reads a net from TOML, [`mod@run`] runs it,
//! [`report::Report`] has its measurements, [`pcap`] writes the packets of each link, [`passed`]
//! keeps them. [`replay`] compares with recordings of the Linux kernel. [`trial`] sets policies
//! side by side on one traffic, and beside runs of real lines ([`flent`]); [`fidelity`] says how
//! close the TCP of a set-up is known to come to Linux's. [`page`] is a scenario over time, for the
//! page of charts. [`workers`] runs independent runs on several threads; a [`stop::Stop`] ends them
//! early.

pub mod app;
pub mod cpu;
pub mod dist;
pub mod draw;
pub mod dumbbell;
pub mod engine;
pub mod event;
pub mod fidelity;
pub mod flent;
pub mod foreign;
pub mod frame;
pub mod ip;
pub mod link;
pub mod machine;
pub mod net;
pub mod nic;
pub mod page;
pub mod passed;
pub mod pcap;
pub mod quic;
pub mod recorded;
pub mod replay;
pub mod report;
mod rrul;
pub mod run;
mod sampled;
pub mod scenario;
pub mod shown;
pub mod stop;
pub mod sweep;
pub mod tagged;
pub mod tcp;
pub mod trial;
pub mod udp;
pub mod workers;

pub use txweir_core::{Instant, Nanos};
