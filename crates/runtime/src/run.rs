//! `Forwarder`: two links, both directions between them, one thread, the monotonic clock.

use std::fmt;
use std::io;

use txweir_core::{Instant, Nanos};
use txweir_device::clock::now_ns;
use txweir_device::poll::{self, PollFd, PollFlags};
use txweir_device::{LinkIo, Signal, Signals};

use crate::direction::{Direction, Received};
use crate::passing::Filtering;

/// Most frames received from one link before the other one is looked at. The kernel's queue in front of a TAP
/// device drops without a word when it is full, so it is emptied in large bites.
const BURST: usize = 64;

/// How the loop runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// End after this time; `None` runs until a signal comes.
    pub duration: Option<Nanos>,
    /// Report this often, at least every millisecond.
    pub stats_interval: Option<Nanos>,
    /// How long before a deadline to ask instead of sleeping: a wake-up from sleep is late by some 15 us, and a
    /// frame that takes less on the wire need not wait that long.
    pub spin: Nanos,
}

impl Default for RunOptions {
    /// Until a signal, without reports on the way, and 10 us of spinning: less than one wake-up from sleep, and so
    /// nothing where deadlines are far apart.
    fn default() -> Self {
        Self { duration: None, stats_interval: None, spin: Nanos::from_micros(10) }
    }
}

/// Why the loop ended as it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The time was over.
    Duration,
    /// Somebody asked for it.
    Signal(Signal),
}

/// Why the loop could not go on.
#[derive(Debug)]
pub enum RunError {
    /// A link does not work any more: its interface was removed, or the system is in trouble.
    Link {
        /// The link.
        name: String,
        /// What the system said.
        error: io::Error,
    },
    /// Waiting or receiving signals failed.
    System(io::Error),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link { name, error } => write!(f, "interface `{name}` is gone: {error}"),
            Self::System(error) => write!(f, "cannot wait for frames: {error}"),
        }
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Link { error, .. } | Self::System(error) => Some(error),
        }
    }
}

/// A link and what it is called.
#[derive(Debug)]
pub struct Side {
    /// The name in reports and errors.
    pub name: String,
    /// The link.
    pub link: LinkIo,
}

/// Two links and the two directions between them.
#[derive(Debug)]
pub struct Forwarder {
    sides: [Side; 2],
    /// From the first side to the second, and back.
    directions: [Direction; 2],
    filtering: Option<Box<Filtering>>,
    started: Instant,
}

/// The time of the loop.
fn clock() -> Instant {
    Instant(now_ns())
}

impl Forwarder {
    /// Frames received at `sides[0]` go through `directions[0]` to `sides[1]`, and the other way round.
    #[must_use]
    pub fn new(sides: [Side; 2], directions: [Direction; 2]) -> Self {
        Self { sides, directions, filtering: None, started: clock() }
    }

    /// With filters, which every frame passes.
    #[must_use]
    pub fn with_filters(mut self, filtering: Filtering) -> Self {
        self.filtering = Some(Box::new(filtering));
        self
    }

    /// Its filters, if it has any.
    #[must_use]
    pub fn filtering(&self) -> Option<&Filtering> {
        self.filtering.as_deref()
    }

    /// The two links.
    #[must_use]
    pub const fn sides(&self) -> &[Side; 2] {
        &self.sides
    }
    /// The two links, to ask them for their counters.
    pub const fn sides_mut(&mut self) -> &mut [Side; 2] {
        &mut self.sides
    }
    /// Both directions.
    #[must_use]
    pub const fn directions(&self) -> &[Direction; 2] {
        &self.directions
    }
    /// How long it has been running.
    #[must_use]
    pub fn elapsed(&self) -> Nanos {
        clock().saturating_since(self.started)
    }

    /// Forwards until the time is over or a signal comes; `stats` is called at every interval, not at the end.
    ///
    /// # Errors
    /// A link that does not work any more. What was forwarded until then is counted.
    pub fn run(
        &mut self,
        options: &RunOptions,
        signals: &Signals,
        mut stats: impl FnMut(&mut Self),
    ) -> Result<Ended, RunError> {
        // Without it wake-ups come up to 50 us later; nothing else changes.
        let _ = poll::sharpen_timers();
        self.started = clock();
        let end = options.duration.map(|d| self.started + d);
        let interval = options.stats_interval.map(|i| i.max(Nanos::from_millis(1)));
        let mut report = interval.map(|i| self.started + i);
        let mut ready = [true; 2];
        loop {
            let more = self.forward(ready)?;
            let now = clock();
            if end.is_some_and(|end| end <= now) {
                return Ok(Ended::Duration);
            }
            if let (Some(at), Some(interval)) = (report, interval)
                && at <= now
            {
                stats(self);
                report = Some((at + interval).max(now));
            }
            let deadline = match more {
                true => Some(Instant::ZERO),
                false => [end, report].into_iter().chain(self.deadlines(now)).flatten().min(),
            };
            let signalled = self.wait(deadline, options.spin, signals, &mut ready)?;
            if signalled && let Some(signal) = signals.pending().map_err(RunError::System)? {
                return Ok(Ended::Signal(signal));
            }
        }
    }

    fn deadlines(&self, now: Instant) -> [Option<Instant>; 2] {
        [self.directions[0].deadline(now), self.directions[1].deadline(now)]
    }

    /// Receives what is there, up to a burst a side, and runs both directions. True if there may be more.
    fn forward(&mut self, ready: [bool; 2]) -> Result<bool, RunError> {
        if self.filtering.is_some() {
            let more_there = self.one_way_filtered(0, ready[0])?;
            let more_back = self.one_way_filtered(1, ready[1])?;
            // A copy may have gone the other way.
            let now = clock();
            for (way, to) in self.directions.iter_mut().zip(self.sides.iter_mut().rev()) {
                way.advance(now, &mut to.link).map_err(|error| to.gone(error))?;
            }
            return Ok(more_there || more_back);
        }
        let [a, b] = &mut self.sides;
        let [there, back] = &mut self.directions;
        let more_there = one_way(there, a, b, ready[0])?;
        let more_back = one_way(back, b, a, ready[1])?;
        Ok(more_there || more_back)
    }

    /// A burst of frames that come in by a side, through the filters. True if there may be more.
    fn one_way_filtered(&mut self, from: usize, ready: bool) -> Result<bool, RunError> {
        let Self { sides, directions, filtering: Some(filtering), .. } = self else { return Ok(false) };
        let mut more = ready;
        for _ in 0..BURST {
            if !more {
                break;
            }
            let input = &mut sides[from];
            match directions[from].receive(&mut input.link).map_err(|error| input.gone(error))? {
                Received::Frame(arrival) => filtering.pass(clock(), from, arrival, directions, sides)?,
                Received::LeftOut => {}
                Received::Nothing => more = false,
            }
        }
        Ok(more)
    }

    /// Waits for frames, for an output that was full, for a signal, and at most until `deadline`. True if there is
    /// a signal; `ready` says which links to receive from.
    fn wait(
        &self,
        deadline: Option<Instant>,
        spin: Nanos,
        signals: &Signals,
        ready: &mut [bool; 2],
    ) -> Result<bool, RunError> {
        let events = |output_of: &Direction| {
            let mut events = PollFlags::IN;
            events.set(PollFlags::OUT, output_of.waits_for_output());
            events
        };
        let [there, back] = &self.directions;
        let mut fds = [
            PollFd::new(&self.sides[0].link, events(back)),
            PollFd::new(&self.sides[1].link, events(there)),
            PollFd::new(signals, PollFlags::IN),
        ];
        poll::wait(&mut fds, deadline.map(|d| d.0), spin.0).map_err(RunError::System)?;
        // Errors and hang-ups are received as well, to learn what they are.
        let came = |fd: &PollFd<'_>| fd.revents().intersects(!PollFlags::OUT);
        *ready = [came(&fds[0]), came(&fds[1])];
        Ok(came(&fds[2]))
    }
}

/// A burst of frames in one direction. True if there may be more.
fn one_way(way: &mut Direction, from: &mut Side, to: &mut Side, ready: bool) -> Result<bool, RunError> {
    let mut more = ready;
    for _ in 0..BURST {
        if !more {
            break;
        }
        match way.receive(&mut from.link).map_err(|error| from.gone(error))? {
            Received::Frame(arrival) => {
                way.admit(clock(), arrival, &mut to.link).map_err(|error| to.gone(error))?;
            }
            Received::LeftOut => {}
            Received::Nothing => more = false,
        }
    }
    way.advance(clock(), &mut to.link).map_err(|error| to.gone(error))?;
    Ok(more)
}

impl Side {
    pub(crate) fn gone(&self, error: io::Error) -> RunError {
        RunError::Link { name: self.name.clone(), error }
    }
}
