//! Congestion control: one small trait, a file per algorithm.
//!
//! A sender tells its algorithm what happened and asks for numbers of segments. An algorithm either answers questions
//! ([`Congestion::threshold`], [`Congestion::grow`]), and the sender reduces the window by PRR, or it owns the window
//! ([`Congestion::control`]), as BBR does.

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

/// Least window of an algorithm that halves, segments (RFC 5681 equation 4).
pub const WINDOW_MIN: u32 = 2;

/// Which marks an algorithm asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wants {
    /// Those of RFC 3168 if its end has them switched on.
    #[default]
    Classic,
    /// ECT(0) on all packets and the exact echo of RFC 8257.
    Dctcp,
    /// ECT(1) on all packets (RFC 9331) and the exact echo of RFC 9768.
    L4s,
}

/// An algorithm of congestion control.
pub trait Congestion: Debug + Send {
    /// Its name, as commands spell it.
    fn name(&self) -> &'static str;
    /// The connection begins.
    fn start(&mut self, _flow: &mut Flow) {}
    /// The window, in segments, above which growth is linear after a loss, a mark or a timeout.
    fn threshold(&mut self, flow: &mut Flow) -> u32;
    /// The handshake has agreed on these marks. It comes before the [`start`](Self::start) with which data begins.
    fn agreed(&mut self, _mode: EcnMode) {}
    /// `acked` segments were delivered while the window limited the sender: `flow.cwnd` may grow.
    fn grow(&mut self, flow: &mut Flow, acked: u32);
    /// The window after a reduction that proved needless.
    fn undone(&mut self, flow: &mut Flow) -> u32 {
        flow.cwnd.max(flow.prior_cwnd)
    }
    /// The sender is in another state towards loss.
    fn entered(&mut self, _flow: &mut Flow, _state: CaState) {}
    /// Something happened.
    fn event(&mut self, _flow: &mut Flow, _event: Event) {}
    /// A unit was taken as lost.
    fn lost(&mut self, _flow: &mut Flow, _lost: &Lost) {}
    /// An acknowledgement came; its deliveries are not counted yet.
    fn heard(&mut self, _flow: &mut Flow, _ack: &Ack) {}
    /// Its deliveries are counted, and its round trip is known.
    fn measured(&mut self, _flow: &mut Flow, _ack: &Ack) {}
    /// True if it sets window and pacing rate itself, in [`control`](Self::control).
    fn owns_window(&self) -> bool {
        false
    }
    /// Sets `flow.cwnd` and `flow.pacing_rate` after each acknowledgement.
    fn control(&mut self, _flow: &mut Flow, _ack: &Ack, _sample: &RateSample) {}
    /// Departures are to be spread by `flow.pacing_rate`.
    fn wants_pacing(&self) -> bool {
        false
    }
    /// Pacing in percent of the rate of the window, in slow start and after it, if not Linux's 200 and 120.
    fn pacing_percent(&self) -> Option<(u64, u64)> {
        None
    }
    /// Fewest segments of a super-segment.
    fn burst_min(&self, _flow: &Flow) -> u32 {
        2
    }
    /// Which marks it asks for.
    fn wants(&self) -> Wants {
        Wants::Classic
    }
    /// The send buffer in windows, where it tunes itself.
    fn buffer_windows(&self) -> u64 {
        2
    }
}

/// The algorithm of this name; `seed` is what its randomness comes from.
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
