//! The sums of a link, which hold at every instant: frames by where they came from, and by their
//! fate or place. Text and JSON print them as they are declared.

use txweir_core::text::stats::Counters as Table;
use txweir_runtime::Ledger;

use crate::link::Link;
use crate::passed::Passed;
use crate::whole_way::Whole;

txweir_core::stats! {
    /// Frames that came in by a link: from its interface, or sent there by actions.
    pub struct Intake {
        /// Frames that the kernel had for the link.
        seen: u64,
        /// Copies that actions of other links sent in by this link.
        redirected: u64,
        /// Frames that were handed to the peer.
        forwarded: u64,
        /// Frames that came while the link had no peer.
        unclaimed: u64,
        /// Frames that the kernel dropped ahead of the link, because the buffer of the packet
        /// socket or the queue of the TAP device was full.
        missed: u64,
        /// Frames longer than any buffer.
        oversize: u64,
        /// Frames that the kernel could not describe by a vnet header.
        refused: u64,
        /// Frames that wait in the buffer of the packet socket.
        waiting: u64 [falls],
    }
}

txweir_core::stats! {
    /// Frames submitted to a link's transmit path, by where they came from.
    pub struct Origins {
        /// All frames submitted.
        submitted: u64,
        /// Frames that came in by the peer.
        peer: u64,
        /// Copies that actions sent out by this link.
        copied: u64,
        /// Packets of `link send`.
        generated: u64,
    }
}

txweir_core::stats! {
    /// Frames that went from one worker to another.
    pub struct Crossing {
        /// Frames that found the other's mailbox full, and were dropped.
        refused: u64,
        /// Frames that are on the way.
        crossing: u64 [falls],
    }
}

impl Intake {
    /// Number of counters, from the first, that say where frames came from.
    pub const SOURCES: usize = 2;
}

impl Origins {
    /// Number of counters, from the first, on the left of the sum.
    pub const SOURCES: usize = 1;
}

/// The three sums of a link at one instant.
#[derive(Clone, Copy, Debug)]
pub struct Sums {
    /// Frames that came in by the link.
    pub intake: Intake,
    /// Frames submitted to its transmit path, by origin.
    pub origins: Origins,
    /// The same frames, by their fate or place, if they are with none of the next.
    pub fates: Ledger,
    /// Frames between workers, if there are workers.
    pub crossing: Option<Crossing>,
}

impl Sums {
    /// Returns the sums of a link.
    pub fn of(link: &mut Link) -> Self {
        let rx = link.counters_of_all().unwrap_or_default();
        let passed = link.gathered().map(|copy| copy.passed).fold(Passed::default(), Passed::plus);
        let Passed { redirected, forwarded, unclaimed, peer, copied, generated } = passed;
        let known = (forwarded + unclaimed + rx.rx_lost()).saturating_sub(redirected);
        let intake = Intake {
            seen: rx.rx_seen,
            redirected,
            forwarded,
            unclaimed,
            missed: rx.rx_missed,
            oversize: rx.rx_oversize,
            refused: rx.rx_refused,
            waiting: rx.rx_seen.saturating_sub(known),
        };
        let whole = Whole::to(link);
        let fates = whole.ledger();
        let crossing = whole.crossed().map(|crossed| Crossing {
            refused: crossed.refused,
            crossing: crossed.to_others.saturating_sub(crossed.from_others),
        });
        let origins = Origins { submitted: fates.submitted, peer, copied, generated };
        Self { intake, origins, fates, crossing }
    }

    /// Returns one line for each sum: `seen 3 + redirected 0 = forwarded 3 + ...`.
    #[must_use]
    pub fn lines(&self) -> [(&'static str, String); 3] {
        let mut fates = equation(&self.fates, Ledger::SOURCES);
        if let Some(crossing) = &self.crossing {
            crossing.visit(&mut |counter, n| fates.push_str(&format!(" + {} {n}", counter.key)));
        }
        [
            ("rx", equation(&self.intake, Intake::SOURCES)),
            ("in", equation(&self.origins, Origins::SOURCES)),
            ("tx", fates),
        ]
    }
}

/// Returns the counters as a sum: the first `sources` on the left, the others on the right.
fn equation(counters: &impl Table, sources: usize) -> String {
    let (mut text, mut at) = (String::new(), 0);
    counters.visit(&mut |counter, n| {
        let sign = match at {
            0 => "",
            _ if at == sources => " = ",
            _ => " + ",
        };
        text.push_str(&format!("{sign}{} {n}", counter.key));
        at += 1;
    });
    text
}
