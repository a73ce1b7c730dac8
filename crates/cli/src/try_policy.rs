//! `txweir try`: policies side by side, in virtual time.

use std::path::{Path, PathBuf};

use txweir::core::text::value::{self, Value};
use txweir::lab::trial::{
    ALGORITHMS, Algorithm, Entry, MIXES, Setup, Traffic, TrafficError, TrialError, run,
};
use txweir::lint::machine::MachineOptions;
use txweir::tc::{Policy, Severity};

use crate::bar::Bar;
use crate::script::Script;
use crate::{Failure, output, policy};

/// The word for the qdisc that the kernel gives a device where no setting names another.
const DEFAULT: &str = "default";
/// The word for the qdisc that most distributions give a device
/// (`net.core.default_qdisc = fq_codel`, systemd's 50-default.conf).
const DISTRO: &str = "distro";

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
    /// Files of tc lines for one device (`tc` in front and `dev NAME` are allowed); - is stdin
    #[arg(value_name = "POLICY")]
    policies: Vec<String>,

    #[command(flatten)]
    script: Script,

    /// The device of the script's run whose policy is tried; the script may give others theirs
    #[arg(long, value_name = "NAME", requires = "run")]
    dev: Option<String>,

    /// Line rate of the bottleneck
    #[arg(long, value_name = "RATE", default_value = "1gbit", allow_hyphen_values = true)]
    link: String,

    /// Transmit queues of the bottleneck's device, 1 to 256; with several the default is mq
    #[arg(long, value_name = "N", default_value_t = 1)]
    queues: u16,

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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Switch {
    On,
    Off,
}

/// Runs `txweir try`.
pub fn main(args: Args) -> Result<(), Failure> {
    let setup = Setup {
        link: with_unit("--link", &args.link, "a rate with its unit (20mbit, 1gbit)")?,
        queues: args.queues,
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
    let traffic = traffic(&args.traffic, &setup)?;
    let of_script = (!args.script.run.is_empty()).then(|| of_script(&args, &setup)).transpose()?;
    let mut entries = match (&of_script, args.policies.is_empty()) {
        (Some(_), true) => Vec::new(),
        _ => entries(&args.policies, setup.queues)?,
    };
    entries.extend(of_script);
    if let Some(path) = &args.html {
        // A wrong path is refused now and not after a long run. The file keeps its text until the
        // page is written.
        let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
        opened.map_err(|e| Failure::usage(format!("--html {}: {e}", path.display())))?;
    }
    let mut bar: Option<Bar> = None;
    let trial = run(&setup, &traffic, &entries, &mut |now, whole| {
        bar.get_or_insert_with(|| Bar::new(whole.as_nanos())).at(now.as_nanos());
    });
    if let Some(bar) = bar {
        bar.end();
    }
    let trial = trial.map_err(|e| match e {
        TrialError::Setup(e) => Failure::usage(e),
        TrialError::Policy(d) => Failure::from(*d),
    })?;
    if let Some(path) = &args.html {
        let page = txweir::lab::trial::html(&trial.to_json());
        std::fs::write(path, page).map_err(|e| Failure::failed(format!("{}: {e}", path.display())))?;
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

/// Finds a mix by its name, else reads a file.
fn traffic(named: &str, setup: &Setup) -> Result<Traffic, Failure> {
    if let Some(mix) = Traffic::mix(named) {
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

/// Reads the policies in order; each gets a name of its own.
fn entries(given: &[String], queues: u16) -> Result<Vec<Entry>, Failure> {
    let given: Vec<&str> = match given {
        [] => vec![DEFAULT],
        some => some.iter().map(String::as_str).collect(),
    };
    if given.iter().filter(|text| **text == "-").count() > 1 {
        return Err(Failure::usage("- (stdin) can be read only once, and is given twice"));
    }
    let mut all: Vec<Entry> = Vec::new();
    for text in &given {
        let policy = match *text {
            DEFAULT => None,
            DISTRO => Some(Policy::parse(&distro(queues), DISTRO)?),
            file => Some(policy::load(Path::new(file))?),
        };
        let short = if *text == "-" { "<stdin>".to_string() } else { last_part(text) };
        // Two files of one name are told apart by their paths.
        let alone = given.iter().filter(|other| last_part(other) == last_part(text)).count() == 1;
        let mut name = if alone { short } else { (*text).to_string() };
        if all.iter().any(|e| e.name == name) {
            name = format!("{name} ({})", all.len() + 1);
        }
        all.push(Entry { name, policy });
    }
    Ok(all)
}

/// Runs the script, and returns the policy that one of its devices then has.
fn of_script(args: &Args, setup: &Setup) -> Result<Entry, Failure> {
    let machine = MachineOptions { link: Some(setup.link), ..MachineOptions::default() };
    let (mut recording, end) = args.script.record(machine)?;
    if let Some((_, message)) = end.problem().filter(|(severity, _)| *severity == Severity::Error) {
        return Err(Failure::failed(format!("--run: {message}")));
    }
    let name = args.script.name().to_string();
    let machine = recording.machine_mut();
    let rooted = machine.rooted();
    let device = match (&args.dev, rooted.as_slice()) {
        (Some(device), all) if all.contains(device) => device.clone(),
        (None, [one]) => one.clone(),
        (_, []) => return Err(Failure::usage(format!("--run: {name} leaves no device with a root qdisc"))),
        (given, all) => {
            let given = given.as_ref().map_or("nothing".into(), |device| format!("--dev {device}"));
            let all = all.join(", ");
            let said =
                format!("--run: {name} leaves root qdiscs on {all}: expected --dev with one, given {given}");
            return Err(Failure::usage(said));
        }
    };
    let policy = Policy::parse(&machine.policy(&device), &format!("{name} (as run)"))?;
    Ok(Entry { name, policy: Some(policy) })
}

/// Returns the lines of the qdiscs that most distributions give a device with so many queues.
fn distro(queues: u16) -> String {
    match queues {
        0 | 1 => "qdisc replace root fq_codel\n".into(),
        _ => {
            let leaf = |class: u16| format!("qdisc replace parent 1:{class:x} fq_codel\n");
            "qdisc replace root handle 1: mq\n".to_owned() + &(1..=queues).map(leaf).collect::<String>()
        }
    }
}

fn last_part(path: &str) -> String {
    Path::new(path).file_name().map_or(path.into(), |n| n.to_string_lossy().into_owned())
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

    #[test]
    fn every_policy_has_a_name_of_its_own() {
        let names = |given: &[&str]| {
            let given: Vec<String> = given.iter().map(ToString::to_string).collect();
            entries(&given, 1).map(|all| all.into_iter().map(|e| e.name).collect::<Vec<_>>()).ok()
        };
        assert_eq!(names(&[]), Some(vec!["default".into()]));
        assert_eq!(names(&["default", "default"]), Some(vec!["default".into(), "default (2)".into()]));
        assert_eq!(names(&["default", "distro"]), Some(vec!["default".into(), "distro".into()]));
        assert_eq!(names(&["no/such/file"]), None);
        assert_eq!(names(&["-", "-"]), None);
    }
}
