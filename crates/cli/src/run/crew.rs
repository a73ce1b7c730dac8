//! `txweir run --workers N`: the same on several threads.

use txweir::Instant;
use txweir::daemon::{Ended, parts, report, seat};
use txweir::daemon::{Links, QueueMap, RunError, RunOptions, Side, Team, TeamOptions, WORKERS_MAX};
use txweir::device::{LinkIo, Signals, clock};

use super::{Args, By, IN, OUT, Plan, ended_by, options, ready, tell};
use crate::{Failure, output};

/// The options about threads.
#[derive(Debug, clap::Args)]
pub struct Crew {
    /// Threads that forward, 1 to 64
    ///
    /// Each has a queue of a TAP device that was made with `multi_queue`, its part of the queues of
    /// an interface by XDP sockets or of a virtual machine, or its part of the flows by a packet
    /// socket; an interface of another kind has one of them. Below mq and mqprio, without --wire,
    /// each queue has one of them. With any other root one of them has the whole way, and gets from
    /// the others the packets that they receive. Without the option one thread does everything.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=WORKERS_MAX as i64))]
    workers: Option<u16>,

    /// Processors of the workers, in turns (0,1,4)
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        requires = "workers",
        value_parser = clap::value_parser!(u16).range(0..1024)
    )]
    pin: Vec<u16>,

    /// Look for packets all the time instead of sleeping until there are some
    #[arg(long, requires = "workers")]
    busy_poll: bool,

    /// Transmit queue of a packet below mq and mqprio: arrival, hash, or a list for each receive
    /// queue (0:0,1;1:2)
    ///
    /// `arrival` is the queue of the number of its receive queue: a flow stays with the worker that
    /// receives it. `hash` spreads flows evenly, and most change the worker.
    #[arg(long, value_name = "MAP", default_value = "arrival", requires = "workers")]
    queue_map: QueueMap,
}

impl Crew {
    /// True if packets are to be forwarded by threads of their own.
    pub const fn is_asked_for(&self) -> bool {
        self.workers.is_some()
    }

    fn workers(&self) -> usize {
        usize::from(self.workers.unwrap_or(1))
    }
}

/// Returns the options of threads on these processors, in turns.
pub fn threads(pins: &[u16], busy_poll: bool) -> TeamOptions {
    TeamOptions { pins: pins.iter().copied().map(usize::from).collect(), busy_poll }
}

/// Runs `txweir run` with workers.
pub(super) fn main(args: &Args, plan: Plan, signals: &Signals) -> Result<(), Failure> {
    let (duration, stats_interval) = (plan.duration, plan.stats_interval);
    let team = Team::new(open(args, plan)?);
    let mut team = team.map_err(|e| Failure::failed(format!("cannot make workers: {e}")))?;
    args.confine.enter(txweir::daemon::Sandbox::default())?;
    let options = threads(&args.crew.pin, args.crew.busy_poll);
    team.start(&options).map_err(|e| Failure::failed(format!("cannot start workers: {e}")))?;
    // An error of stdout is no reason to stop forwarding; it is reported at the end.
    let print = |text: String| if args.json { output::json(text) } else { output::print(text) };
    let mut said = print(with_all(&team, |parts| ready(parts[0], args.json))?);
    let started = Instant(clock::now_ns());
    let elapsed = || Instant(clock::now_ns()).saturating_since(started);
    let end = duration.map(|duration| started + duration);
    let options = RunOptions { end, stats_interval, needs_all_links: true };
    let ended = until_signal(&mut team, signals, &options, &mut |parts| {
        let printed = print(match args.json {
            true => report::json_of_parts(parts, "stats", elapsed()),
            false => report::text_of_parts(parts, elapsed()) + "\n",
        });
        said = std::mem::replace(&mut said, Ok(())).and(printed);
    });
    team.end();
    let text = with_all(&team, |parts| match args.json {
        true => report::json_of_parts(parts, "end", elapsed()),
        false => {
            format!("{}\n{}", ended_by(&ended, elapsed()), report::text_of_parts(parts, elapsed()))
        }
    });
    let printed = text.and_then(print);
    if let Some(line) = with_all(&team, |parts| args.samples.said(parts[0].notes())).ok().flatten() {
        // Beside the JSON, not in it.
        output::say(line);
    }
    ended.map_err(Failure::failed).and(said).and(printed)
}

/// Calls `f` with the links of all workers, none of which is in a turn.
fn with_all<R>(team: &Team, f: impl FnOnce(&mut [&mut Links]) -> R) -> Result<R, Failure> {
    let mut stopped = team.stop().map_err(|stuck| Failure::failed(stuck.to_string()))?;
    Ok(f(&mut stopped.parts()))
}

/// Forwards until a signal comes, or as the options say.
fn until_signal(
    team: &mut Team,
    signals: &Signals,
    options: &RunOptions,
    stats: &mut dyn FnMut(&mut [&mut Links]),
) -> Result<By, RunError> {
    let mut say = |line| output::say(format!("txweir: {line}\n"));
    loop {
        match team.run(signals, options, stats, &mut say)? {
            Ended::Duration => return Ok(By::Duration),
            Ended::Stopped => {
                if let Some(signal) = signals.pending().map_err(RunError::System)? {
                    return Ok(By::Signal(signal));
                }
            }
        }
    }
}

/// Opens the interfaces, and makes the links of each worker.
fn open(args: &Args, plan: Plan) -> Result<Vec<Links>, Failure> {
    let workers = args.crew.workers();
    let now = Instant(clock::now_ns());
    let names = plan.names();
    let [there, back] = plan.wires.clone();
    let side = |at: usize, wire| {
        let endpoint = plan.endpoints[at].clone();
        let handles = endpoint.open_queues(&options(args), workers).map_err(Failure::usage)?;
        handles.first().into_iter().for_each(|io| tell(&endpoint, io));
        if handles.len() < workers {
            fewer(&endpoint.to_string(), &handles, workers);
        }
        Ok::<_, Failure>(Side { name: names[at].clone(), endpoint, handles, wire })
    };
    let sides = [side(IN, back)?, side(OUT, there)?];
    let mut all = parts(sides, workers).map_err(Failure::usage)?;
    for links in &mut all {
        plan.set_up(args, links, now)?;
    }
    seat(&mut all, &args.crew.queue_map).map_err(Failure::usage)?;
    for links in &mut all {
        *links.notes_mut() = plan.notes.share();
    }
    Ok(all)
}

/// Says that an interface cannot give each worker a queue of its own.
fn fewer(endpoint: &str, handles: &[LinkIo], workers: usize) {
    let how = match handles.first().map(|io| io.kind()) {
        Some("tap") => " (`ip tuntap add NAME mode tap multi_queue` makes one with several)",
        _ => "",
    };
    let count = handles.len();
    let queues = if count == 1 { "queue" } else { "queues" };
    output::say(format!("txweir: interface `{endpoint}`: {count} {queues} for {workers} workers{how}\n"));
}
