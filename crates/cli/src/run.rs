//! `txweir run`: live packets between two interfaces.

mod sites;

use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use txweir::core::Bytes;
use txweir::core::text::value::{Value, Words, text_of};
use txweir::core::turns::Quota;
use txweir::device::{Endpoint, LinkOptions, Signal, Signals, clock};
use txweir::runtime::{
    Direction, DirectionConfig, Ended, Forwarder, Notes, RunOptions, SAMPLES_MAX, Side, WireSpec, report,
};
use txweir::tc::diagnostic::code;
use txweir::tc::json::Object;
use txweir::tc::{Command, Diagnostic, Policy};
use txweir::{Env, Instant, Nanos};

use crate::{Failure, policy};
use sites::Sites;

/// Options of `txweir run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Interface of arriving packets: a TAP device, or any other by a packet socket;
    /// [tap:|packet:][NETNS/]NAME
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
    #[arg(long, value_name = "SPEC")]
    wire: String,

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

    /// Have the kernel cut super-frames before they come in
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
    samples: Samples,

    /// Print one JSON object a line: "ready", "stats", "end"
    #[arg(long)]
    json: bool,
}

/// Where the samples of `sample` actions go.
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
    /// Makes ready for samples, and for lines, which go to the standard error.
    pub fn open(&self, notes: &mut Notes) -> Result<(), Failure> {
        let Some(path) = &self.samples else { return Ok(()) };
        let max = match &self.samples_max {
            None => SAMPLES_MAX,
            Some(text) => match Bytes::take(&mut Words::new(&[text])) {
                Some(size) if size.0 > 0 => size.0,
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

    /// What has become of samples, in one line; nothing if they went nowhere.
    pub fn said(&self, notes: &Notes) -> Option<String> {
        let (path, counts) = (self.samples.as_ref()?, notes.sampled()?);
        let (written, dropped) = (counts.written, counts.dropped);
        Some(format!("samples: {written} in {}, {dropped} dropped\n", path.display()))
    }
}

/// What the options say, before anything is opened.
struct Plan {
    endpoints: [Endpoint; 2],
    wires: [WireSpec; 2],
    policies: [Option<Policy>; 2],
    notes: Notes,
    options: RunOptions,
    fairsend: Quota,
}

/// Runs `txweir run`: until a signal, the end of the duration, or the loss of an interface.
pub fn main(args: Args) -> Result<(), Failure> {
    let plan = Plan::read(&args)?;
    let signals = Signals::take().map_err(|e| Failure::failed(format!("cannot take over signals: {e}")))?;
    let options = plan.options;
    let mut forwarder = plan.open(&args)?;
    say(&ready(&forwarder, args.json));
    let ended = forwarder.run(&options, &signals, |forwarder| {
        say(&match args.json {
            true => report::json(forwarder, "stats") + "\n",
            false => report::text(forwarder) + "\n",
        });
    });
    say(&match args.json {
        true => report::json(&mut forwarder, "end") + "\n",
        false => format!("{}\n{}", ended_by(&ended, forwarder.elapsed()), report::text(&mut forwarder)),
    });
    let said = forwarder.filtering().and_then(|filtering| args.samples.said(&filtering.notes));
    if let Some(said) = said {
        // Beside the JSON, not in it.
        let _ = std::io::stderr().write_all(said.as_bytes());
    }
    ended.map(|_| ()).map_err(Failure::failed)
}

impl Plan {
    fn read(args: &Args) -> Result<Self, Failure> {
        let endpoint = |option: &str, text: &str| {
            text.parse::<Endpoint>().map_err(|e| Failure::usage(format!("{option}: {e}")))
        };
        let endpoints = [endpoint("--in", &args.input)?, endpoint("--out", &args.output)?];
        if endpoints[0].netns == endpoints[1].netns && endpoints[0].name == endpoints[1].name {
            return Err(Failure::usage(format!("--out {}: the same interface as --in", args.output)));
        }
        let wire = |option: &str, text: &str| {
            text.parse::<WireSpec>().map_err(|e| Failure::usage(format!("{option}: {e}")))
        };
        let there = wire("--wire", &args.wire)?;
        let back = args.wire_back.as_deref().map(|text| wire("--wire-back", text)).transpose()?;
        let wires = [there.clone(), back.unwrap_or(there)];
        let options = RunOptions {
            duration: args.duration.as_deref().map(|t| time("--duration", t)).transpose()?,
            stats_interval: args
                .stats_interval
                .as_deref()
                .map(|t| time("--stats-interval", t))
                .transpose()?,
            ..RunOptions::default()
        };
        let policies = policies(args, &endpoints)?;
        let mut notes = Notes::default();
        args.samples.open(&mut notes)?;
        Ok(Self { endpoints, wires, policies, notes, options, fairsend: Quota::segs(args.fairsend) })
    }

    fn open(self, args: &Args) -> Result<Forwarder, Failure> {
        let mut options = LinkOptions::default();
        options.tap.offload = !args.no_offload;
        let open = |endpoint: &Endpoint| {
            let link = endpoint.open(&options).map_err(Failure::usage)?;
            if matches!(link.is_up(), Ok(false)) {
                let name = &endpoint.name;
                let said =
                    format!("interface `{endpoint}` is down: nothing passes before `ip link set {name} up`");
                let _ = writeln!(std::io::stderr(), "txweir: {said}");
            }
            Ok::<_, Failure>(Side { name: endpoint.to_string(), link })
        };
        let sides = [open(&self.endpoints[0])?, open(&self.endpoints[1])?];
        let mut directions = [self.direction(0, &sides[1])?, self.direction(1, &sides[0])?];
        for direction in &mut directions {
            direction.set_prio_synack(args.prio_synack);
            direction.set_direct(!args.no_direct);
        }
        let [input, output] = self.endpoints.each_ref().map(|e| e.name.as_str().to_owned());
        let [there, back] = directions;
        let ways = [(output, there), (input, back)];
        let seed = |n: u8| RandomState::new().hash_one(n);
        let mut sites = Sites::new(ways, [seed(0), seed(1)], Instant(clock::now_ns()));
        for (way, policy) in self.policies.iter().enumerate() {
            let Some(policy) = policy else { continue };
            // A line without a name is for whose turn it is.
            let name = self.endpoints[1 - way].name.as_str();
            policy.apply_to(sites.turn(way), &[name])?;
        }
        let (directions, filtering) = sites.finish(self.notes);
        let forwarder = Forwarder::new(sides, directions);
        Ok(match filtering {
            Some(filtering) => forwarder.with_filters(filtering),
            None => forwarder,
        })
    }

    fn direction(&self, way: usize, output: &Side) -> Result<Direction, Failure> {
        let WireSpec { wire, bql } = self.wires[way].clone();
        let mtu =
            output.link.mtu().map_err(|e| Failure::usage(format!("interface `{}`: {e}", output.name)))?;
        let env = Env {
            mtu: u32::try_from(mtu).unwrap_or(u32::MAX),
            link_rate: Some(wire.rate),
            // What the standard library keys its own hashes with: from the system's random source.
            seed: RandomState::new().hash_one(way),
            ..Env::default()
        };
        let config = DirectionConfig { wire: Some(wire), bql, env, ..DirectionConfig::default() };
        let mut direction = Direction::new(config).map_err(Failure::usage)?;
        direction.set_fairsend(Instant(clock::now_ns()), self.fairsend);
        Ok(direction)
    }
}

/// The policy of each way, checked as far as it can be without its device.
fn policies(args: &Args, endpoints: &[Endpoint; 2]) -> Result<[Option<Policy>; 2], Failure> {
    let [input, output] = endpoints.each_ref().map(|e| e.name.as_str());
    let both = args.policy.as_deref().map(policy::load).transpose()?;
    let back = args.policy_back.as_deref().map(policy::load).transpose()?;
    both.iter().try_for_each(|policy| known(policy, &[output, input]))?;
    back.iter().try_for_each(|policy| known(policy, &[input]))?;
    let there = both.as_ref().map(|p| p.for_device(output));
    // Of one file for both ways the lines about actions are done once.
    let back = back.or(both.map(Policy::without_actions));
    Ok([there, back.map(|p| p.for_device(input))])
}

/// Refuses lines for a device that no packets leave by here.
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
    bool::take(&mut Words::new(&[text])).ok_or_else(|| "expected on or off".to_owned())
}

/// A time with its unit: a bare number would be microseconds to tc and seconds to most people.
fn time(option: &str, text: &str) -> Result<Nanos, Failure> {
    let bare = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    match Nanos::take(&mut Words::new(&[text])) {
        Some(time) if !bare && time > Nanos::ZERO => Ok(time),
        _ => {
            let expected = "a time with its unit (10s, 500ms)";
            Err(Failure::usage(format!("{option}: expected {expected}, given \"{text}\"")))
        }
    }
}

/// The line that says that frames are forwarded from now on.
fn ready(forwarder: &Forwarder, json: bool) -> String {
    let [a, b] = forwarder.sides();
    if json {
        let o = Object::new().text("event", "ready").text("in", &a.name).text("out", &b.name);
        return o.finish() + "\n";
    }
    let wires = forwarder.directions().each_ref().map(|d| {
        let bql = d.path().dql().map_or("off", |_| "on");
        let wire = d.wire().map_or_else(String::new, |wire| {
            format!("rate {} ring {} ", text_of(&wire.config().rate), wire.config().ring)
        });
        format!("{wire}bql {bql}")
    });
    match wires[0] == wires[1] {
        true => format!("ready: {} <-> {}, {}\n", a.name, b.name, wires[0]),
        false => format!("ready: {} -> {}, {}; back, {}\n", a.name, b.name, wires[0], wires[1]),
    }
}

fn ended_by<E>(ended: &Result<Ended, E>, elapsed: Nanos) -> String {
    let by = match ended {
        Ok(Ended::Duration) => "after its duration",
        Ok(Ended::Signal(Signal::Interrupt)) => "by Ctrl-C",
        Ok(Ended::Signal(Signal::Terminate)) => "by SIGTERM",
        Err(_) => "by an error",
    };
    format!("ended {by}, after {}", text_of(&elapsed))
}

/// Prints at once. Nobody may be listening any more, which is no reason to stop forwarding.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
