//! Congestion control: one small trait, one file per algorithm.
//!
//! A sender reports events to its algorithm and asks for numbers of segments. An algorithm either
//! answers questions ([`Congestion::threshold`], [`Congestion::grow`]), and the sender reduces the
//! window by PRR, or it owns the window ([`Congestion::control`]), as BBR does.

use std::fmt::Debug;

use crate::config::{Algorithm, EcnMode};
use crate::flow::{Ack, CaState, Event, Flow, Lost, RateSample};

mod bbr;
mod bbr3;
mod cubic;
mod cubic_plus;
mod dctcp;
mod hystart;
mod model;
mod prague;
mod reno;

pub use crate::flow::{Ack as Acknowledged, Event as Happened, RateSample as Sample};
pub use bbr::{Bbr, Mode as BbrMode};
pub use bbr3::{Bbr3, Mode as Bbr3Mode};
pub use cubic::Cubic;
pub use cubic_plus::CubicPlus;
pub use dctcp::Dctcp;
pub use prague::Prague;
pub use reno::Reno;

/// Smallest window of an algorithm that halves, segments (RFC 5681 equation 4).
pub const WINDOW_MIN: u32 = 2;

/// Kind of marks that an algorithm asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wants {
    /// The marks of RFC 3168, if its end has them switched on.
    #[default]
    Classic,
    /// ECT(0) on all packets and the exact echo of RFC 8257.
    Dctcp,
    /// ECT(1) on all packets (RFC 9331) and the exact echo of RFC 9768.
    L4s,
}

/// An algorithm of congestion control.
pub trait Congestion: Debug + Send {
    /// Returns the name of the algorithm, as commands spell it.
    fn name(&self) -> &'static str;
    /// Starts the algorithm with the connection.
    fn start(&mut self, _flow: &mut Flow) {}
    /// Takes another seed of its random numbers.
    fn reseed(&mut self, _seed: u64) {}
    /// Returns the window, in segments, above which growth is linear after a loss, a mark or a
    /// timeout.
    fn threshold(&mut self, flow: &mut Flow) -> u32;
    /// Takes the kind of marks that the handshake has agreed on. The call comes before the
    /// [`start`](Self::start) with which data begins.
    fn agreed(&mut self, _mode: EcnMode) {}
    /// Lets `flow.cwnd` grow after `acked` segments were delivered while the window limited the
    /// sender.
    fn grow(&mut self, flow: &mut Flow, acked: u32);
    /// Returns the window after a reduction that proved needless.
    fn undone(&mut self, flow: &mut Flow) -> u32 {
        flow.cwnd.max(flow.prior_cwnd)
    }
    /// Reports that the sender has entered another loss state.
    fn entered(&mut self, _flow: &mut Flow, _state: CaState) {}
    /// Reports an event.
    fn event(&mut self, _flow: &mut Flow, _event: Event) {}
    /// Reports a unit that was taken as lost.
    fn lost(&mut self, _flow: &mut Flow, _lost: &Lost) {}
    /// Reports an acknowledgement before its deliveries are counted.
    fn heard(&mut self, _flow: &mut Flow, _ack: &Ack) {}
    /// Reports an acknowledgement after its deliveries are counted and its round trip is known.
    fn measured(&mut self, _flow: &mut Flow, _ack: &Ack) {}
    /// True if it sets window and pacing rate itself, in [`control`](Self::control).
    fn owns_window(&self) -> bool {
        false
    }
    /// Sets `flow.cwnd` and `flow.pacing_rate` after each acknowledgement.
    fn control(&mut self, _flow: &mut Flow, _ack: &Ack, _sample: &RateSample) {}
    /// True if the sender spreads departures by `flow.pacing_rate`.
    fn wants_pacing(&self) -> bool {
        false
    }
    /// Returns the pacing rate in slow start and after it, in percent of the rate of the window;
    /// `None` for Linux's 200 and 120.
    fn pacing_percent(&self) -> Option<(u64, u64)> {
        None
    }
    /// Returns the smallest number of segments of a super-segment.
    fn burst_min(&self, _flow: &Flow) -> u32 {
        2
    }
    /// Returns the kind of marks that the algorithm asks for.
    fn wants(&self) -> Wants {
        Wants::Classic
    }
    /// Returns the size of the send buffer in windows, if it tunes itself.
    fn buffer_windows(&self) -> u64 {
        2
    }
}

/// Returns the state of an algorithm; `seed` is the seed of its random numbers.
pub(crate) fn make(algorithm: Algorithm, flow: &mut Flow, seed: u64) -> Box<dyn Congestion> {
    match algorithm {
        Algorithm::Reno => Box::new(Reno),
        Algorithm::Cubic => Box::new(Cubic::new()),
        Algorithm::CubicPlus => Box::new(CubicPlus::default()),
        Algorithm::Dctcp => Box::new(Dctcp::default()),
        Algorithm::Bbr => Box::new(Bbr::new(seed)),
        Algorithm::Bbr3 => Box::new(Bbr3::new(seed)),
        Algorithm::Prague => Box::new(Prague::new(flow)),
    }
}
