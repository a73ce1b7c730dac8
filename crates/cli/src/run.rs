//! `txweir run`: live packets between two interfaces.

pub mod crew;

use std::path::PathBuf;
use std::sync::Arc;

use txweir::core::Bytes;
use txweir::core::text::value::{Value, Words, text_of};
use txweir::core::turns::Quota;
use txweir::daemon::{Daemon, Ended, Link, Links, RunError, RunOptions, Sandbox, Server, report};
use txweir::device::{Endpoint, IfName, LinkIo, LinkOptions, Signal, Signals, clock};
use txweir::runtime::{Notes, SAMPLES_MAX, WireSpec};
use txweir::tc::diagnostic::code;
use txweir::tc::json::Object;
use txweir::tc::{Command, Diagnostic, Policy};
use txweir::{Instant, Nanos};

use crate::confine::Confine;
use crate::{Failure, output, policy};
use crew::Crew;

/// Options of `txweir run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Interface of arriving packets: a TAP device, or any other by a packet socket;
    /// [tap:|packet:|xdp:][NETNS/]NAME, vhost:/PATH for the machine whose monitor connects there,
    /// or vxlan:[NETNS/]VNI,LOCAL,REMOTE for a tunnel in UDP
    #[arg(long = "in", value_name = "IF")]
    input: String,

    /// Interface of leaving packets; packets that arrive on it go back the same way
    #[arg(long = "out", value_name = "IF")]
    output: String,

    /// Device whose speed paces the packets: rate=1gbit,ring=1024[,bql=off][,...]
    ///
    /// Keys: rate, ring (descriptors; a full Ethernet frame takes 3.4, a super-frame of 64 KiB
    /// 21.5, unless `descriptors` says otherwise), bql (on or off), bql-min, bql-max, bql-hold,
    /// completion (250us, immediate, 64p/1ms), latency (5us or 5us/20us), doorbell, descriptors
    /// (1 or 1514:3.4/65226:21.5), overhead, min-frame.
    ///
    /// Without it packets leave as fast as the interface takes them, without a byte limit.
    #[arg(long, value_name = "SPEC")]
    wire: Option<String>,

    /// Device of the way back [default: the same]
    #[arg(long, value_name = "SPEC")]
    wire_back: Option<String>,

    /// Segments that one flow may have in the qdiscs at a time, and one super-frame; further
    /// segments wait their turn ahead of the qdiscs. 0: no limit
    #[arg(long, value_name = "N", default_value_t = 0)]
    fairsend: u32,

    /// File of tc lines, for both ways; a line with `dev` is for the way that leaves by that
    /// interface [default: pfifo_fast]
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,

    /// File of tc lines for the way back
    #[arg(long, value_name = "FILE")]
    policy_back: Option<PathBuf>,

    /// Have the kernel cut super-frames before they come in by a TAP device; a packet socket gets
    /// them as the interface has them (`ethtool -K IF tso off gro off`)
    #[arg(long)]
    no_offload: bool,

    /// Mark TCP control segments (SYN, SYN-ACK, pure ACK), which qdiscs may send first
    #[arg(long, value_name = "on|off", default_value = "on", value_parser = on_off, action = clap::ArgAction::Set)]
    prio_synack: bool,

    /// Put every frame into the qdiscs, even where nothing waits and it could go directly to the
    /// device; for comparisons
    #[arg(long)]
    no_direct: bool,

    /// Stop after this time (10s, 500ms)
    #[arg(long, value_name = "TIME")]
    duration: Option<String>,

    /// Print counters at this interval, and not only at the end
    #[arg(long, value_name = "TIME")]
    stats_interval: Option<String>,

    #[command(flatten)]
    crew: Crew,

    #[command(flatten)]
    samples: Samples,

    #[command(flatten)]
    confine: Confine,

    /// Print one JSON object a line: "ready", "stats", "end"
    #[arg(long)]
    json: bool,
}

/// The destinations of the samples of `sample` actions.
#[derive(Debug, clap::Args)]
pub struct Samples {
    /// Write the packets of `sample` actions into this new file (pcapng)
    #[arg(long, value_name = "FILE")]
    samples: Option<PathBuf>,

    /// Largest size of that file, bytes (64mb); further samples are counted and not written
    /// [default: 64mb]
    #[arg(long, value_name = "SIZE", requires = "samples")]
    samples_max: Option<String>,
}

impl Samples {
    /// Opens the destinations of samples, and of lines, which go to the standard error.
    pub fn open(&self, notes: &mut Notes) -> Result<(), Failure> {
        let Some(path) = &self.samples else { return Ok(()) };
        let max = match &self.samples_max {
            None => SAMPLES_MAX,
            Some(text) => match Bytes::take(&mut Words::new(&[text])) {
                Ok(size) if size.0 > 0 => size.0,
                _ => {
                    let expected = "a size (64mb, 500kb)";
                    return Err(Failure::usage(format!(
                        "--samples-max: expected {expected}, given \"{text}\""
                    )));
                }
            },
        };
        let opened = notes.samples_to(path, max, Instant(clock::now_ns()));
        opened.map_err(|e| Failure::usage(format!("--samples {}: {e}", path.display())))
    }

    /// Returns the fate of samples in one line; none if they went nowhere.
    pub fn said(&self, notes: &Notes) -> Option<String> {
        let (path, counts) = (self.samples.as_ref()?, notes.sampled()?);
        let (written, dropped) = (counts.written, counts.dropped);
        Some(format!("samples: {written} in {}, {dropped} dropped\n", path.display()))
    }
}

/// The options as they are read, before any interface is opened.
struct Plan {
    endpoints: [Endpoint; 2],
    wires: [Option<WireSpec>; 2],
    policies: [Option<Policy>; 2],
    notes: Notes,
    duration: Option<Nanos>,
    stats_interval: Option<Nanos>,
    fairsend: Quota,
}

/// The two links of a run, in the order of `Links`: the one of `--in`, and the one of `--out`.
const IN: usize = 0;
const OUT: usize = 1;

/// Runs `txweir run`: until a signal, the end of the duration, or the loss of an interface.
pub fn main(args: Args) -> Result<(), Failure> {
    let plan = Plan::read(&args)?;
    let signals = Signals::take().map_err(|e| Failure::failed(format!("cannot take over signals: {e}")))?;
    if args.crew.is_asked_for() {
        return crew::main(&args, plan, &signals);
    }
    let (duration, stats_interval) = (plan.duration, plan.stats_interval);
    let mut server = Server::without_socket(Daemon::with(plan.open(&args)?));
    // The interfaces are open, and an interface that is lost ends the run.
    args.confine.enter(Sandbox::default())?;
    // An error of stdout is no reason to stop forwarding; it is reported at the end.
    let print = |text: String| if args.json { output::json(text) } else { output::print(text) };
    let mut said = print(ready(server.daemon_mut().links(), args.json));
    let started = Instant(clock::now_ns());
    let elapsed = || Instant(clock::now_ns()).saturating_since(started);
    let end = duration.map(|duration| started + duration);
    let options = RunOptions { end, stats_interval, needs_all_links: true };
    let ended = until_signal(&mut server, &signals, &options, |links| {
        let printed = print(match args.json {
            true => report::json(links, "stats", elapsed()),
            false => report::text(links, elapsed()) + "\n",
        });
        said = std::mem::replace(&mut said, Ok(())).and(printed);
    });
    let links = server.daemon_mut().links_mut();
    let printed = print(match args.json {
        true => report::json(links, "end", elapsed()),
        false => format!("{}\n{}", ended_by(&ended, elapsed()), report::text(links, elapsed())),
    });
    if let Some(said) = args.samples.said(links.notes()) {
        // Beside the JSON, not in it.
        output::say(said);
    }
    ended.map_err(Failure::failed).and(said).and(printed)
}

/// The regular end of a run.
enum By {
    Duration,
    Signal(Signal),
}

/// Forwards until a signal comes, or as the options say.
fn until_signal(
    server: &mut Server,
    signals: &Signals,
    options: &RunOptions,
    mut stats: impl FnMut(&mut Links),
) -> Result<By, RunError> {
    loop {
        match server.run(signals, options, &mut stats)? {
            Ended::Duration => return Ok(By::Duration),
            Ended::Stopped => {
                if let Some(signal) = signals.pending().map_err(RunError::System)? {
                    return Ok(By::Signal(signal));
                }
            }
        }
    }
}

impl Plan {
    fn read(args: &Args) -> Result<Self, Failure> {
        let endpoint = |option: &str, text: &str| {
            text.parse::<Endpoint>().map_err(|e| Failure::usage(format!("{option}: {e}")))
        };
        let endpoints = [endpoint("--in", &args.input)?, endpoint("--out", &args.output)?];
        if endpoints[0].is_place_of(&endpoints[1]) {
            return Err(Failure::usage(format!("--out {}: the same interface as --in", args.output)));
        }
        let wire = |option: &str, text: &str| {
            text.parse::<WireSpec>().map_err(|e| Failure::usage(format!("{option}: {e}")))
        };
        let there = args.wire.as_deref().map(|text| wire("--wire", text)).transpose()?;
        let back = args.wire_back.as_deref().map(|text| wire("--wire-back", text)).transpose()?;
        let wires = [there.clone(), back.or(there)];
        let given =
            |option: &str, text: &Option<String>| text.as_deref().map(|text| time(option, text)).transpose();
        let duration = given("--duration", &args.duration)?;
        let stats_interval = given("--stats-interval", &args.stats_interval)?;
        let policies = policies(args, &endpoints)?;
        let mut notes = Notes::default();
        args.samples.open(&mut notes)?;
        let fairsend = Quota::segs(args.fairsend);
        Ok(Self { endpoints, wires, policies, notes, duration, stats_interval, fairsend })
    }

    fn open(self, args: &Args) -> Result<Links, Failure> {
        let now = Instant(clock::now_ns());
        let names = self.names();
        let [there, back] = &self.wires;
        // Packets that leave by the output go there; packets that leave by the input go back.
        let input = self.link(args, &self.endpoints[IN], &names[IN], back.as_ref())?;
        let output = self.link(args, &self.endpoints[OUT], &names[OUT], there.as_ref())?;
        let mut links = Links::between([input, output]);
        self.set_up(args, &mut links, now)?;
        *links.notes_mut() = self.notes;
        Ok(links)
    }

    /// Sets what the options say on both links, and their policies.
    fn set_up(&self, args: &Args, links: &mut Links, now: Instant) -> Result<(), Failure> {
        let names = self.names();
        links.set_now(now);
        for link in links.all_mut() {
            link.way.classifier_mut().set_prio_synack(args.prio_synack);
            let mut way = link.way.control(now);
            way.set_fairsend(self.fairsend);
            way.set_direct(!args.no_direct);
        }
        for (policy, at) in self.policies.iter().zip([OUT, IN]) {
            let Some(policy) = policy else { continue };
            let (given, name) = (self.endpoints[at].name.as_str(), names[at].as_str());
            // A line without a name is for the link that it is read for.
            policy.for_device_as(given, name).apply_to(links, &[name])?;
        }
        Ok(())
    }

    /// Returns the names of the links: those of the interfaces. If both interfaces have one name,
    /// in two network namespaces, the one of `--in` gets another.
    fn names(&self) -> [IfName; 2] {
        let [input, output] = self.endpoints.each_ref().map(|e| e.name.clone());
        let mut others = ["in", "input"].into_iter().filter_map(|name| IfName::new(name).ok());
        let other = if input == output { others.find(|name| *name != output) } else { None };
        [other.unwrap_or(input), output]
    }

    fn link(
        &self,
        args: &Args,
        endpoint: &Endpoint,
        name: &IfName,
        wire: Option<&WireSpec>,
    ) -> Result<Link, Failure> {
        let io = endpoint.open(&options(args)).map_err(Failure::usage)?;
        tell(endpoint, &io);
        Link::over(name.clone(), endpoint.clone(), io, wire.cloned()).map_err(Failure::usage)
    }
}

/// Returns the options with which interfaces are opened.
fn options(args: &Args) -> LinkOptions {
    let mut options = LinkOptions::default();
    options.tap.offload = !args.no_offload;
    options
}

/// Says how an interface was opened, and that it is down.
fn tell(endpoint: &Endpoint, io: &LinkIo) {
    if let Some(mode) = io.mode() {
        output::say(format_args!("txweir: interface `{endpoint}`: {mode}\n"));
    }
    if matches!(io.is_up(), Ok(false)) {
        let comes_up = io.comes_up();
        output::say(format_args!(
            "txweir: interface `{endpoint}` is down: nothing passes before {comes_up}\n"
        ));
    }
}

/// Reads the policy of each way and checks it as far as possible without its device.
fn policies(args: &Args, endpoints: &[Endpoint; 2]) -> Result<[Option<Policy>; 2], Failure> {
    let [input, output] = endpoints.each_ref().map(|e| e.name.as_str());
    let both = args.policy.as_deref().map(policy::load).transpose()?;
    let back = args.policy_back.as_deref().map(policy::load).transpose()?;
    both.iter().try_for_each(|policy| known(policy, &[output, input]))?;
    back.iter().try_for_each(|policy| known(policy, &[input]))?;
    let there = both.as_ref().map(|p| p.for_device(output));
    // The lines of one file for both ways about actions are done once.
    let back = back.or(both.map(Policy::without_actions));
    Ok([there, back.map(|p| p.for_device(input))])
}

/// Refuses lines for a device by which no packet leaves.
fn known(policy: &Policy, devices: &[&str]) -> Result<(), Failure> {
    let named = policy.commands().iter().filter_map(Command::dev);
    let Some(dev) = named.into_iter().find(|dev| !devices.contains(&dev.text.as_str())) else {
        return Ok(());
    };
    let source = Arc::new(policy.source().clone());
    let message = format!("no packets leave by {}", dev.text);
    let wrong = Diagnostic::error(code::NOT_FOUND, &source, dev.span.clone(), message);
    Err(wrong.expected(devices.join(" or ")).into())
}

fn on_off(text: &str) -> Result<bool, String> {
    bool::take(&mut Words::new(&[text])).map_err(|_| "expected on or off".to_owned())
}

/// Reads a time with its unit: a bare number would be microseconds to tc and seconds to most
/// people.
pub fn time(option: &str, text: &str) -> Result<Nanos, Failure> {
    let bare = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    match Nanos::take(&mut Words::new(&[text])) {
        Ok(time) if !bare && time > Nanos::ZERO => Ok(time),
        _ => {
            let expected = "a time with its unit (10s, 500ms)";
            Err(Failure::usage(format!("{option}: expected {expected}, given \"{text}\"")))
        }
    }
}

/// Returns the line that reports the start of forwarding.
fn ready(links: &Links, json: bool) -> String {
    let [a, b] = [IN, OUT].map(|at| links.all()[at].interface());
    if json {
        return Object::new().text("event", "ready").text("in", &a).text("out", &b).finish();
    }
    let wires = [OUT, IN].map(|at| {
        let way = &links.all()[at].way;
        let bql = way.path().tx().limit().map_or("off", |_| "on");
        let wire = way.wire().map_or_else(String::new, |wire| {
            format!("rate {} ring {} ", text_of(&wire.config().rate), wire.config().ring)
        });
        format!("{wire}bql {bql}")
    });
    match wires[0] == wires[1] {
        true => format!("ready: {a} <-> {b}, {}\n", wires[0]),
        false => format!("ready: {a} -> {b}, {}; back, {}\n", wires[0], wires[1]),
    }
}

fn ended_by<E>(ended: &Result<By, E>, elapsed: Nanos) -> String {
    let by = match ended {
        Ok(By::Duration) => "after its duration",
        Ok(By::Signal(Signal::Interrupt)) => "by Ctrl-C",
        Ok(By::Signal(Signal::Terminate)) => "by SIGTERM",
        Ok(By::Signal(signal)) => return format!("ended by {}, after {}", signal.name(), text_of(&elapsed)),
        Err(_) => "by an error",
    };
    format!("ended {by}, after {}", text_of(&elapsed))
}
