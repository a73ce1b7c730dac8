//! The engine's own answers: every line is run on devices in memory, so that `check` refuses the
//! lines that the engine refuses, by the engine's own rules.
//!
//! A file may be about a machine that has qdiscs already, so an answer that depends on objects from
//! before the file counts for nothing. Those of a device are known once a line has made its root
//! qdisc; hooks, shared blocks and actions once a line has made one. Where a line makes an object
//! that the engine cannot have, its answers about the device end.

use std::collections::BTreeSet;
use std::sync::Arc;

use txweir_core::classify::filter;
use txweir_core::sched::spec::ClassShape;
use txweir_core::text::error::Reason;
use txweir_core::{Env, Handle, Rate};
use txweir_tc::ast::{Command, Place, QdiscCommand, Verb};
use txweir_tc::diagnostic::Diagnostic;
use txweir_tc::diagnostic::code::{BAD_VALUE, CONFLICT, MISSING, NOT_FOUND, OUT_OF_RANGE, UNSUPPORTED};
use txweir_tc::language::{self, Object};
use txweir_tc::lex::{Line, Word};
use txweir_tc::memory::{Memory, MemoryDevice};
use txweir_tc::source::Source;
use txweir_tc::tool;

use super::CheckOptions;
use super::kinds::Classes;
use super::model::Device;

/// Transmit queues of a device, whose number no line gives: so few that several devices with a cake
/// for each queue stay within the budget.
const QUEUES: u16 = 16;

/// Most bytes of tables of all devices together, so that a text takes no more. The engine has a
/// budget of its own for each device, which is larger.
const TABLES: u64 = 64 << 20;

/// The rate of a link that is not known: the base of a rate in percent.
const LINK: Rate = Rate(125_000_000);

/// The answer about a line.
pub(super) enum Answer {
    /// The engine takes it.
    Taken,
    /// The engine refuses it, and so does Linux.
    Refused(Diagnostic),
    /// The engine cannot do this, and Linux may.
    NotHere(Diagnostic),
    /// The answer depends on what the file does not contain.
    Unknown,
}

/// The devices of a file in the engine.
pub(super) struct Engine<'a> {
    options: &'a CheckOptions,
    devices: Memory,
    /// Names of the devices whose qdiscs are known.
    rooted: BTreeSet<String>,
    /// Names of the devices whose hook is known.
    hooked: BTreeSet<String>,
    /// True if the shared blocks are known, and if the actions are.
    blocks: bool,
    actions: bool,
    /// Names of the devices that are not followed further.
    off: BTreeSet<String>,
    /// True if no answer counts any more.
    ended: bool,
    /// Bytes of tables of the devices.
    tables: u64,
}

impl<'a> Engine<'a> {
    pub(super) fn new(options: &'a CheckOptions, partial: bool) -> Self {
        Self {
            options,
            devices: Memory::of_any_name(u32::from(QUEUES), Env::default()),
            rooted: BTreeSet::new(),
            hooked: BTreeSet::new(),
            blocks: false,
            actions: false,
            off: BTreeSet::new(),
            ended: partial,
            tables: 0,
        }
    }

    /// Returns a device of this name as it is before its first line.
    fn fresh(&self, name: &str) -> MemoryDevice {
        let env = Env {
            mtu: self.options.mtu,
            tx_queue_len: self.options.txqueuelen,
            link_rate: Some(self.options.link_of(name).unwrap_or(LINK)),
            memory: TABLES,
            ..Env::default()
        };
        MemoryDevice::without_room(name, u32::from(QUEUES), env)
    }

    /// Ends all answers: a line could not be read, and may have made any object.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// Runs a line on the device, and answers whether it could be.
    pub(super) fn run(
        &mut self,
        source: &Arc<Source>,
        line: &Line,
        cmd: &Command,
        device: &Device,
    ) -> Answer {
        let name = device.name.as_str();
        if self.ended || self.off.contains(name) {
            return Answer::Unknown;
        }
        if is_foreign(source, cmd) {
            self.leave(cmd, name);
            return Answer::Unknown;
        }
        if !self.devices.names_device(name) {
            let fresh = self.fresh(name);
            self.devices.insert(fresh);
        }
        let before = self.devices.get(name).map_or(0, |d| d.tables());
        let done = tool::run_line(source, line, cmd, name, &mut self.devices);
        let after = self.devices.get(name).map_or(0, |d| d.tables());
        self.tables = (self.tables + after).saturating_sub(before);
        match done {
            Ok(()) if self.tables > TABLES => {
                self.leave(cmd, name);
                Answer::Unknown
            }
            Ok(()) => {
                self.learn(cmd, name);
                Answer::Taken
            }
            Err(d) if depends_on_device(cmd, &d, device) || d.reason == Some(Reason::Memory) => {
                self.leave(cmd, name);
                Answer::Unknown
            }
            Err(d) if !matches!(cmd, Command::Qdisc(_) | Command::Class(_)) && d.code == UNSUPPORTED => {
                self.leave(cmd, name);
                Answer::NotHere(d)
            }
            Err(d) if !self.knows(cmd, name) && !is_of_the_line(cmd, &d) => Answer::Unknown,
            Err(d) => Answer::Refused(d),
        }
    }

    /// Follows a device no further.
    fn leave(&mut self, cmd: &Command, name: &str) {
        if matches!(cmd, Command::Actions(_)) || cmd.is_for_block() {
            self.ended = true;
        }
        if let Some(device) = self.devices.get(name) {
            self.tables = self.tables.saturating_sub(device.tables());
            device.clear();
        }
        self.off.insert(name.to_string());
    }

    /// Notes the objects that are known after a line that was run.
    fn learn(&mut self, cmd: &Command, name: &str) {
        match cmd {
            Command::Qdisc(c) if matches!(c.verb, Verb::Add | Verb::Replace) => match place(c) {
                Some(Place::Below(Handle::ROOT)) => drop(self.rooted.insert(name.to_string())),
                Some(Place::Ingress | Place::Clsact) => {
                    self.hooked.insert(name.to_string());
                    self.blocks |= c.blocks.iter().any(Option::is_some);
                }
                _ => {}
            },
            Command::Actions(c) if matches!(c.verb, Verb::Add | Verb::Replace) => self.actions = true,
            _ => {}
        }
    }

    /// True if the objects that a line needs are all known.
    fn knows(&self, cmd: &Command, name: &str) -> bool {
        let at = match cmd {
            Command::Actions(_) => return self.actions,
            _ if cmd.is_for_block() => return self.blocks,
            Command::Qdisc(c) => place(c),
            Command::Class(_) => None,
            Command::Filter(c) => c.place.as_ref().map(|p| p.value),
            Command::Chain(c) => c.place.as_ref().map(|p| p.value),
        };
        let hook = match at {
            Some(Place::Ingress | Place::Clsact | Place::Egress) => true,
            Some(Place::Below(at)) => at != Handle::ROOT && at.major() == u16::MAX,
            _ => false,
        };
        self.rooted.contains(name) && (!hook || self.hooked.contains(name))
    }
}

/// True if a refusal is about the words of a line that makes a root qdisc, so that it holds
/// whatever the device had before. `replace` may change a root that is there, which keeps options
/// that the line does not name.
fn is_of_the_line(cmd: &Command, d: &Diagnostic) -> bool {
    let Command::Qdisc(c) = cmd else { return false };
    let values = [OUT_OF_RANGE, BAD_VALUE].contains(&d.code);
    match (place(c), c.verb) {
        (Some(Place::Below(Handle::ROOT)), Verb::Add) => values || [CONFLICT, MISSING].contains(&d.code),
        (Some(Place::Below(Handle::ROOT)), Verb::Replace) => values,
        _ => false,
    }
}

fn place(cmd: &QdiscCommand) -> Option<Place> {
    cmd.place.as_ref().map(|p| p.value)
}

/// True if a line is about a kind that Linux has and the engine does not have.
fn is_foreign(source: &Source, cmd: &Command) -> bool {
    let is = |object: Object, kind: &Option<Word>| {
        let Some(kind) = kind.as_ref().map(|k| k.text.as_str()) else { return false };
        let here = match object {
            Object::Filter => filter::KINDS.contains(&kind),
            _ => source.kinds.get(kind).is_some() || matches!(kind, "ingress" | "clsact"),
        };
        !here && language::knows(object, kind)
    };
    match cmd {
        Command::Qdisc(c) => is(Object::Qdisc, &c.kind),
        Command::Class(c) => is(Object::Class, &c.kind),
        Command::Filter(c) => is(Object::Filter, &c.kind),
        Command::Chain(c) => is(Object::Filter, &c.kind),
        Command::Actions(_) => false,
    }
}

/// True if another device might take the line: one with other queues.
fn depends_on_device(cmd: &Command, d: &Diagnostic, device: &Device) -> bool {
    let Command::Qdisc(c) = cmd else { return false };
    let by_queue = c.kind.as_ref().and_then(|k| d.source.kinds.get(&k.text)).is_some_and(|s| s.root_only);
    match place(c) {
        Some(Place::Below(Handle::ROOT)) => {
            let makes = matches!(c.verb, Verb::Add | Verb::Replace);
            by_queue && makes && matches!(d.code, CONFLICT | OUT_OF_RANGE | BAD_VALUE | UNSUPPORTED)
        }
        Some(Place::Below(parent)) => {
            d.code == NOT_FOUND
                && parent.minor() > QUEUES
                && device.qdisc(parent).is_some_and(|q| {
                    q.classes() == Classes::Any && q.spec.is_some_and(|s| s.shape != ClassShape::Leaf)
                })
        }
        _ => false,
    }
}
