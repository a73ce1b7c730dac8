//! The policies of a trial: words, files, scripts that are run, and dumps of a machine.

use std::path::Path;

use txweir::core::Env;
use txweir::lab::trial::{DEFAULT, DISTRO, Devices, Entry, Setup, devices, distro};
use txweir::lint::dump::{self, Counted};
use txweir::lint::machine::MachineOptions;
use txweir::lint::script::{self, NoPolicy};
use txweir::tc::{Policy, Severity};

use super::Args;
use crate::{Failure, failure, output, policy};

/// Kinds of root qdiscs that a device of one queue cannot have.
const OF_QUEUES: [&str; 5] = ["mq", "mqprio", "cake_mq", "multiq", "taprio"];

/// Returns the policies in order, each with a name of its own. A script or a dump may ask for more
/// queues, which `setup` then has.
pub(super) fn entries(args: &Args, setup: &mut Setup) -> Result<Vec<Entry>, Failure> {
    let of_dump = match &args.from {
        None => None,
        Some(path) => Some(of_dump(path, args, setup)?),
    };
    let of_script = match args.script.run.as_slice() {
        [] => None,
        _ => Some(of_script(args, setup)?),
    };
    let alone = args.policies.is_empty() && (of_dump.is_some() || of_script.is_some());
    let of_words = match alone {
        true => Vec::new(),
        false => of_words(&args.policies, args.dev.as_deref(), setup.queues)?,
    };
    Ok(of_dump.into_iter().chain(of_words).chain(of_script).collect())
}

/// Reads the policies in order.
fn of_words(given: &[String], dev: Option<&str>, queues: u16) -> Result<Vec<Entry>, Failure> {
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
            file => Some(chosen(of_file(Path::new(file), queues)?, dev)?),
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

/// Reads a file of tc lines, or a script whose tc lines can be known without running it.
fn of_file(path: &Path, queues: u16) -> Result<Policy, Failure> {
    let (name, text) = policy::text(path)?;
    let read = script::policy(&name, &text).map_err(|e| match e {
        NoPolicy::Wrong(wrong) => wrong.into(),
        NoPolicy::NeedsRun(said) => Failure::usage(format!("{name}: {said}: try --run {name}")),
    })?;
    read.warnings().iter().for_each(failure::say);
    let env = Env { queues, ..Env::default() };
    Ok(read.without_vain_deletions(u32::from(queues), &env))
}

/// Returns the part of a policy that is for a device and its ifbs; without a name all of it, which
/// then has to be for one device.
fn chosen(policy: Policy, dev: Option<&str>) -> Result<Policy, Failure> {
    let Some(dev) = dev else {
        // The trial would refuse the policy too, and knows no options.
        devices(&policy).map_err(|several| {
            let all = policy.devices().join(", ");
            several.hint(Some(format!("--dev NAME chooses the one at the line, of {all}")))
        })?;
        return Ok(policy);
    };
    let own = policy.devices();
    if own.is_empty() {
        return Ok(policy);
    }
    if !own.contains(&dev) {
        let all = own.join(", ");
        let name = &policy.source().name;
        return Err(Failure::usage(format!("--dev: expected a device of {name} ({all}), given \"{dev}\"")));
    }
    let names = reached(&policy, dev);
    Ok(policy.for_devices(&names))
}

/// Returns a device and those to which its actions send packets.
fn reached(policy: &Policy, dev: &str) -> Vec<String> {
    let mut all = vec![dev.to_string()];
    let mut next = 0;
    // Bound: each device is in the list once.
    while let Some(from) = all.get(next).cloned() {
        next += 1;
        for target in txweir::lab::trial::targets(&policy.for_devices(&[from])) {
            if !all.contains(&target) {
                all.push(target);
            }
        }
    }
    all
}

/// Reads a dump of a machine, and returns the policy that its device has. Notes about the dump and
/// the counters of the device go to stderr.
fn of_dump(path: &Path, args: &Args, setup: &mut Setup) -> Result<Entry, Failure> {
    if path.as_os_str() == "-" && args.policies.iter().any(|text| text == "-") {
        return Err(Failure::usage("- (stdin) can be read only once, and is given twice"));
    }
    let (file, text) = policy::text(path)?;
    let dump =
        dump::read(&text, &file, args.dev.as_deref()).map_err(|e| Failure::usage(format!("--from: {e}")))?;
    let short = last_part(&file);
    let name = format!("{short} (as dumped)");
    let policy = Policy::parse(&dump.lines, &name)?;
    dump.notes.iter().for_each(|note| output::say(format!("txweir: {short}: {note}\n")));
    if let Some(Counted { bytes, packets, drops, backlog }) = dump.counted {
        let dev = dump.dev.as_deref().unwrap_or("the device");
        output::say(format!(
            "txweir: {short}: {dev} has sent {bytes} bytes in {packets} packets and dropped {drops} packets; \
             {backlog} bytes waited\n"
        ));
    }
    if args.queues.is_none() && dump.queues > setup.queues {
        setup.queues = dump.queues;
        setup.check().map_err(|e| Failure::usage(format!("--from: {file}: --{e}")))?;
        output::say(format!("txweir: {short}: {} queues, as the root of the dump has\n", setup.queues));
    }
    Ok(Entry { name, policy: Some(policy) })
}

/// Runs the script, and returns the policy that one of its devices then has.
fn of_script(args: &Args, setup: &mut Setup) -> Result<Entry, Failure> {
    let devices = args.dev.iter().map(|dev| (dev.clone(), Some(setup.link))).collect();
    let machine = MachineOptions { link: Some(setup.link), devices, ..MachineOptions::default() };
    let (mut recording, end) = args.script.record(machine)?;
    if let Some((_, message)) = end.problem().filter(|(severity, _)| *severity == Severity::Error) {
        return Err(Failure::failed(format!("--run: {message}")));
    }
    let name = args.script.name().to_string();
    let machine = recording.machine_mut();
    let shaped = machine.shaped();
    let mut texts: Vec<(&String, Policy)> = Vec::new();
    for device in &shaped {
        let text = machine.policy(device);
        texts.push((device, Policy::parse(&text, &format!("{name} (as run)"))?));
    }
    let device = match (&args.dev, shaped.as_slice()) {
        (Some(device), all) if all.contains(device) => device.clone(),
        (_, []) => {
            let said = format!("--run: {name} leaves no device with a root qdisc or filters");
            return Err(Failure::usage(said));
        }
        (None, all) if mains(&texts).len() == 1 => {
            mains(&texts).first().map_or(all[0].clone(), |d| (*d).clone())
        }
        (given, all) => {
            let given = given.as_ref().map_or("nothing".into(), |device| format!("--dev {device}"));
            let all = all.join(", ");
            let said =
                format!("--run: {name} leaves qdiscs on {all}: expected --dev with one, given {given}");
            return Err(Failure::usage(said));
        }
    };
    let policy = texts.into_iter().find(|(name, _)| **name == device).map(|(_, policy)| policy);
    if args.queues.is_none() && policy.as_ref().is_some_and(has_queues) {
        setup.queues = setup.queues.max(args.script.queues());
        output::say(format!("txweir: {name}: {} queues, as --run-queues says\n", setup.queues));
    }
    Ok(Entry { name, policy })
}

/// Returns the devices that are no ifb of another one.
fn mains<'a>(all: &[(&'a String, Policy)]) -> Vec<&'a String> {
    let is_ifb = |name: &String| {
        all.iter().any(|(other, policy)| {
            *other != name && devices(policy).is_ok_and(|Devices { ifbs, .. }| ifbs.contains(name))
        })
    };
    all.iter().map(|(name, _)| *name).filter(|name| !is_ifb(name)).collect()
}

/// True if a policy gives a device a root qdisc that needs several queues.
fn has_queues(policy: &Policy) -> bool {
    policy.source().text.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.contains(&"root") && words.iter().any(|word| OF_QUEUES.contains(word))
    })
}

pub(super) fn last_part(path: &str) -> String {
    Path::new(path).file_name().map_or(path.into(), |n| n.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_has_a_name_of_its_own() {
        let names = |given: &[&str]| {
            let given: Vec<String> = given.iter().map(ToString::to_string).collect();
            of_words(&given, None, 1).map(|all| all.into_iter().map(|e| e.name).collect::<Vec<_>>()).ok()
        };
        assert_eq!(names(&[]), Some(vec!["default".into()]));
        assert_eq!(names(&["default", "default"]), Some(vec!["default".into(), "default (2)".into()]));
        assert_eq!(names(&["default", "distro"]), Some(vec!["default".into(), "distro".into()]));
        assert_eq!(names(&["no/such/file"]), None);
        assert_eq!(names(&["-", "-"]), None);
    }
}
