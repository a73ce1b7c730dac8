//! A dump of a live machine, as iproute2 prints it, as the lines that make the same qdiscs, classes
//! and filters: `tc -s -d -j qdisc show`, `tc -s -d -j class show dev D`, `tc -s -d -j filter show
//! dev D`, in one text.
//!
//! The text has the documents one after the other, or objects `{"dev": "eth0", "qdisc": [...],
//! "class": [...], "filter": [...], "ingress": [...], "egress": [...]}`. A document that names no
//! device is for the one that the last `dev` named, else for the chosen device. Everything of the
//! device is carried over, or the dump is refused with the name of the object, the key and the
//! value; only known statistics are passed over.
//!
//! Bounds: the text has at most [`TEXT_MAX`] bytes, [`OBJECTS_MAX`] objects, a million values and
//! 32 levels; the time grows with the text, times its logarithm.

mod action;
mod class;
mod documents;
mod filter;
mod json;
mod members;
mod placed;
mod qdisc;

use std::collections::BTreeSet;
use std::fmt;

use documents::{Kind, Object, member};
use json::Value;
use placed::Placed;

/// Most bytes of a dump.
pub const TEXT_MAX: usize = 16 << 20;
/// Most qdiscs, classes and filters of a dump.
pub const OBJECTS_MAX: usize = 100_000;
/// Most devices that the filters of a device send packets to, one after the other.
const DEVICES_MAX: usize = 64;

/// Most names of devices in a message.
const NAMES_SHOWN: usize = 16;

/// The reason why a dump cannot be carried over: object, key, the expected and the given value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(String);

impl Refusal {
    fn new(message: String) -> Self {
        Self(message)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// A dump as lines of tc.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// The lines, for the chosen device and the devices to which its filters send packets.
    pub lines: String,
    /// The chosen device; `None` if the dump names none.
    pub dev: Option<String>,
    /// Transmit queues that the root has classes for; 1 if it has no such classes.
    pub queues: u16,
    /// Sentences about what the dump cannot tell.
    pub notes: Vec<String>,
    /// The counters of the root of the device, if the dump has statistics.
    pub counted: Option<Counted>,
}

/// The counters of a root qdisc.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Bytes that left it.
    pub bytes: u64,
    /// Packets that left it.
    pub packets: u64,
    /// Packets that it dropped.
    pub drops: u64,
    /// Bytes that waited.
    pub backlog: u64,
}

/// Reads a dump that is called `name` in messages, for the device `dev`. Without it the dump has to
/// be of one configured device, beside those that its filters send packets to.
///
/// # Errors
/// The text is no dump of tc, the device is not in it, or something of the device cannot be carried
/// over.
pub fn read(text: &str, name: &str, dev: Option<&str>) -> Result<Dump, Refusal> {
    if text.len() > TEXT_MAX {
        return Err(Refusal::new(format!("{name}: expected at most {TEXT_MAX} bytes, given {}", text.len())));
    }
    let within = |refusal: Refusal| Refusal::new(format!("{name}: {refusal}"));
    let objects = documents::read(text, name)?;
    if objects.is_empty() {
        return Err(Refusal::new(format!("{name}: expected the output of tc -j qdisc show, given no qdisc")));
    }
    let dev = chosen(&objects, dev).map_err(within)?;
    let mut dump = Dump { dev: dev.clone(), queues: 1, ..Dump::default() };
    let mut made = BTreeSet::new();
    let names: BTreeSet<&str> = objects.iter().filter_map(|o| o.dev.as_deref()).collect();
    let mut devices = vec![dev.clone()];
    let mut next = 0;
    // Bound: each device is in the list once.
    while let Some(of) = devices.get(next).cloned() {
        let is_first = next == 0;
        next += 1;
        let own: Vec<&Object> = objects.iter().filter(|o| is_of(o, of.as_deref(), is_first)).collect();
        let placed = Placed::of(of.as_deref(), &own).map_err(within)?;
        placed.write(&mut dump, &mut made).map_err(within)?;
        if is_first {
            dump.queues = placed.queues();
            dump.counted = placed.counted();
        }
        for target in targets(&own) {
            if !names.contains(target) || devices.iter().any(|d| d.as_deref() == Some(target)) {
                continue;
            }
            if devices.len() >= DEVICES_MAX {
                let said = format!("expected at most {DEVICES_MAX} devices behind one another, given more");
                return Err(within(Refusal::new(said)));
            }
            devices.push(Some(target.into()));
        }
    }
    Ok(dump)
}

/// True if an object is of a device; one that names none is of the first.
fn is_of(object: &Object, dev: Option<&str>, is_first: bool) -> bool {
    match &object.dev {
        Some(own) => dev == Some(own),
        None => is_first,
    }
}

/// Returns the device that the lines are for.
fn chosen<'a>(objects: &'a [Object], asked: Option<&str>) -> Result<Option<String>, Refusal> {
    let of = |o: &'a Object| o.dev.as_deref();
    let names: BTreeSet<&str> = objects.iter().filter_map(of).collect();
    let shown: Vec<&str> = names.iter().take(NAMES_SHOWN).copied().collect();
    let more = if names.len() > NAMES_SHOWN { ", ..." } else { "" };
    let all = shown.join(", ") + more;
    match asked {
        Some(dev) if names.is_empty() || names.contains(&dev) => return Ok(Some(dev.into())),
        Some(dev) => {
            return Err(Refusal::new(format!(
                "--dev: expected a device of the dump ({all}), given \"{dev}\""
            )));
        }
        None if names.is_empty() => return Ok(None),
        None => {}
    }
    let sends = objects.iter().filter_map(|o| Some((of(o)?, targets(&[o]))));
    let ifbs: BTreeSet<&str> =
        sends.flat_map(|(from, to)| to.into_iter().filter(move |name| *name != from)).collect();
    // A device that somebody has configured; else one that has a queue at all.
    for is_wanted in [is_configured, has_queue] {
        let found: BTreeSet<&str> = objects.iter().filter(|o| is_wanted(o)).filter_map(of).collect();
        let mains: Vec<&&str> = found.difference(&ifbs).collect();
        match mains[..] {
            [one] => return Ok(Some((*one).to_string())),
            _ if found.is_empty() => {}
            _ => break,
        }
    }
    Err(Refusal::new(format!("the dump is of {all}: expected --dev with one, given nothing")))
}

/// True for an object that no kernel makes of itself.
fn is_configured(object: &Object) -> bool {
    let default = matches!(member(&object.value, "handle"), Some(Value::Text(handle)) if handle == "0:");
    !(object.kind == Kind::Qdisc && default)
}

/// True for a qdisc that packets wait in.
fn has_queue(object: &Object) -> bool {
    !matches!(member(&object.value, "kind"), Some(Value::Text(kind)) if kind == "noqueue")
}

/// Returns the devices that the actions of filters send packets to.
fn targets<'a>(objects: &[&'a Object]) -> Vec<&'a str> {
    let actions = objects.iter().filter_map(|o| match member(member(&o.value, "options")?, "actions")? {
        Value::List(actions) => Some(actions),
        _ => None,
    });
    let target = |action: &'a Value| match member(action, "to_dev")? {
        Value::Text(name) => Some(name.as_str()),
        _ => None,
    };
    actions.flatten().filter_map(target).collect()
}
