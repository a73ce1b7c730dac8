//! `txweir try`: policies side by side, in virtual time.

mod policies;

use std::path::PathBuf;

use txweir::core::text::value::{self, Value};
use txweir::lab::trial::{
    ALGORITHMS, Algorithm, MIXES, Marking, Setup, Traffic, TrafficError, TrialError, run,
};

use crate::bar::Bar;
use crate::flent::Files;
use crate::page::Kept;
use crate::script::Script;
use crate::{Failure, output};
use policies::last_part;

/// Options of `txweir try`.
#[derive(Debug, clap::Args)]
#[command(after_help = "The word `default`, or no policy at all, is a plain FIFO in three bands \
                  (pfifo_fast), the default built into the kernel. The word `distro` is fq_codel, \
                  which most distributions set (net.core.default_qdisc). Both are below mq where \
                  there are several queues. The others are compared with the first policy.\n\n\
                  Each number is the median of the runs, with its interval. A policy is best (*) \
                  only where its interval overlaps no other one.\n\n\
                  TCP is the lab's own, compared with recordings of Linux's: docs/transport.md.")]
pub struct Args {
    /// Files of tc lines for one device and its ifbs: batches for `tc -b`, or scripts whose lines
    /// need no run; - is stdin
    #[arg(value_name = "POLICY")]
    policies: Vec<String>,

    /// A dump of a machine, the first policy: its qdiscs, classes and filters as iproute2 prints
    /// them (tc -s -d -j qdisc show, class show dev D, filter show dev D), in one file; - is stdin
    #[arg(long, value_name = "HOST.json")]
    from: Option<PathBuf>,

    #[command(flatten)]
    script: Script,

    /// The device at the line, with its ifbs, where a policy or a dump is for several
    #[arg(long, value_name = "NAME")]
    dev: Option<String>,

    /// Line rate of the bottleneck, on the way up
    #[arg(long, value_name = "RATE", default_value = "1gbit", allow_hyphen_values = true)]
    #[arg(visible_alias = "up")]
    link: String,

    /// Line rate on the way down, behind a FIFO of 1000 packets of the provider; without it the way
    /// down is wide
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    down: Option<String>,

    /// Transmit queues of the bottleneck's device, 1 to 256; with several the default is mq
    /// [default: 1; a script with mq --run-queues, a dump its own number]
    #[arg(long, value_name = "N")]
    queues: Option<u16>,

    /// Descriptors of each queue, one packet each
    #[arg(long, value_name = "N", default_value_t = 1024)]
    ring: u32,

    /// Round-trip time without queues
    #[arg(long, value_name = "TIME", default_value = "20ms", allow_hyphen_values = true)]
    rtt: String,

    /// A mix (bulk+rr, rrul, voip, web, incast, many-flows), a scenario file, or a capture (pcap,
    /// pcapng)
    ///
    /// Only the [[traffic]] of a scenario is used: the first `from` is before the bottleneck, its
    /// peers are beyond it, and so on. Packets of a capture arrive at the bottleneck at the times
    /// of their stamps.
    #[arg(long, value_name = "NAME|FILE", default_value = "bulk+rr")]
    traffic: String,

    /// The traffic of a mix, or all of a scenario's, is of IPv6; packets of a capture are as they
    /// are
    #[arg(long)]
    ipv6: bool,

    /// Code point of the packets of a mix's or a scenario's group, or of all: ef, cs1, af41, le, or
    /// 0 to 63, and with it the priority of such a socket; may be given again
    #[arg(long, value_name = "[GROUP=]DSCP")]
    dscp: Vec<String>,

    /// Firewall mark of the packets of a group, or of all, at the host that sends them; may be
    /// given again
    #[arg(long, value_name = "[GROUP=]MARK")]
    mark: Vec<String>,

    /// Virtual time of each run; its first tenth is not measured
    #[arg(long, value_name = "TIME", default_value = "10s", allow_hyphen_values = true)]
    time: String,

    /// Runs of each policy, 1 to 64, each with its own seed; all policies have the same seeds
    #[arg(long, value_name = "N", default_value_t = 5)]
    runs: u32,

    /// Seed of the first run; each further run has the next seed; the same seed gives the same
    /// numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Congestion control of the hosts' TCP: cubic, reno, bbr, bbr3, dctcp, prague or cubic+ (with
    /// HyStart++)
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    cc: String,

    /// The hosts' TCP asks for ECN; dctcp and prague always do
    #[arg(long)]
    ecn: bool,

    /// Byte queue limit on the device
    #[arg(long, value_name = "on|off", default_value = "on")]
    bql: Switch,

    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,

    /// Write a page with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    #[command(flatten)]
    flent: Files,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Switch {
    On,
    Off,
}

/// Runs `txweir try`.
pub fn main(args: Args) -> Result<(), Failure> {
    let rate = "a rate with its unit (20mbit, 1gbit)";
    let mut setup = Setup {
        link: with_unit("--link", &args.link, rate)?,
        down: args.down.as_ref().map(|down| with_unit("--down", down, rate)).transpose()?,
        queues: args.queues.unwrap_or(1),
        ring: args.ring,
        rtt: with_unit("--rtt", &args.rtt, "a time with its unit (20ms)")?,
        time: with_unit("--time", &args.time, "a time with its unit (10s)")?,
        seed: args.seed,
        runs: args.runs,
        bql: args.bql == Switch::On,
        congestion: algorithm(&args.cc)?,
        ecn: args.ecn,
    };
    setup.check().map_err(|e| Failure::usage(format!("--{e}")))?;
    let mut traffic = traffic(&args.traffic, &setup)?;
    if args.ipv6 {
        traffic = traffic.over_ipv6().map_err(|e| Failure::usage(format!("--ipv6: {e}")))?;
    }
    traffic = marked(traffic, &args)?;
    let entries = policies::entries(&args, &mut setup)?;
    let lines = args.flent.read()?;
    args.flent.make_folder()?;
    let page = args.html.as_deref().map(Kept::open).transpose()?;
    let mut bar: Option<Bar> = None;
    let trial = run(&setup, &traffic, &entries, &mut |now, whole| {
        bar.get_or_insert_with(|| Bar::new(whole.as_nanos())).at(now.as_nanos());
    });
    if let Some(bar) = bar {
        bar.end();
    }
    let mut trial = trial.map_err(|e| match e {
        TrialError::Setup(e) => Failure::usage(e),
        TrialError::Policy(d) => Failure::from(*d),
        e @ TrialError::Stopped => Failure::failed(e),
    })?;
    trial.set_lines(lines);
    args.flent.write(&trial)?;
    if let Some(file) = page {
        file.write(&trial.to_json())?;
    }
    match args.json {
        true => output::json(trial.to_json()),
        false => output::print(trial),
    }
}

/// Finds a congestion control by its name.
fn algorithm(name: &str) -> Result<&'static Algorithm, Failure> {
    Algorithm::named(name).ok_or_else(|| {
        let names: Vec<&str> = ALGORITHMS.iter().map(|a| a.name).collect();
        Failure::usage(format!("--cc: expected one of {}, given \"{name}\"", names.join(", ")))
    })
}

/// Reads a value with its unit: a bare number would be bit/s or microseconds to tc, and its writer
/// probably means another unit.
fn with_unit<T: Value>(option: &str, text: &str, expected: &str) -> Result<T, Failure> {
    value::with_unit(text)
        .map_err(|_| Failure::usage(format!("{option}: expected {expected}, given \"{text}\"")))
}

/// Returns the traffic with the markings that are asked for, in the order of the options.
fn marked(mut traffic: Traffic, args: &Args) -> Result<Traffic, Failure> {
    for text in &args.dscp {
        let said = Marking::dscp(text).and_then(|(group, dscp)| traffic.marked(group, dscp));
        traffic = said.map_err(|e| Failure::usage(format!("--dscp: {e}")))?;
    }
    for text in &args.mark {
        let said = Marking::mark(text).and_then(|(group, mark)| traffic.marked(group, mark));
        traffic = said.map_err(|e| Failure::usage(format!("--mark: {e}")))?;
    }
    Ok(traffic)
}

/// Finds a mix by its name, else reads a file.
fn traffic(named: &str, setup: &Setup) -> Result<Traffic, Failure> {
    let mix = if setup.down.is_some() { Traffic::mix_both(named) } else { Traffic::mix(named) };
    if let Some(mix) = mix {
        return Ok(mix);
    }
    let bytes = std::fs::read(named).map_err(|e| {
        let names: Vec<&str> = MIXES.iter().map(|m| m.name).collect();
        let mixes = names.join(", ");
        Failure::usage(format!("--traffic: expected {mixes} or a file, given \"{named}\": {e}"))
    })?;
    Traffic::file(&bytes, &last_part(named), setup.time, setup.seed).map_err(|e| match e {
        TrafficError::Scenario(e) => Failure::from(e.diagnostic()),
        TrafficError::Capture(e) => Failure::usage(format!("--traffic: {e}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use txweir::{Nanos, Rate};

    #[test]
    fn values_say_their_unit() {
        let rate = |text| with_unit::<Rate>("--link", text, "a rate").map(|r| r.bits()).ok();
        assert_eq!([rate("20mbit"), rate("20"), rate("x"), rate("")], [Some(20_000_000), None, None, None]);
        let time = |text| with_unit::<Nanos>("--rtt", text, "a time").map(|t| t.0).ok();
        assert_eq!([time("20ms"), time("0"), time("1.5")], [Some(20_000_000), Some(0), None]);
    }

    /// The help names every algorithm; the default of the option is the default of the table.
    #[test]
    fn algorithms_are_found_by_name() {
        use clap::Args as _;
        let known = algorithm("reno").map(|a| a.name).ok();
        assert_eq!((known, algorithm("vegas").is_err(), algorithm("").is_err()), (Some("reno"), true, true));
        let command = Args::augment_args(clap::Command::new("try"));
        let option = command.get_arguments().find(|a| a.get_id() == "cc");
        let help = option.and_then(clap::Arg::get_help).map(ToString::to_string).unwrap_or_default();
        assert!(ALGORITHMS.iter().all(|a| help.contains(a.name)), "{help}");
        let default = option.and_then(|o| o.get_default_values().first()?.to_str());
        assert_eq!(default, Some(ALGORITHMS[0].name));
    }
}
