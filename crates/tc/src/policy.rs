//! `Policy`: the commands of a text, read, checked and applied as a whole or not at all.

use std::ops::Range;
use std::sync::Arc;

use txweir_core::sched::cx::Cx;
use txweir_core::text::error::Reason;
use txweir_core::text::value::Words;
use txweir_core::{ConfigError, Env, ErrorKind, Tree};

use crate::ast::{At, ClassCommand, Command, Place, QdiscCommand, Verb};
use crate::command::{self, Change, engine};
use crate::diagnostic::{Diagnostic, Diagnostics, code};
use crate::kinds::spec_of;
use crate::lex::{self, Line};
use crate::memory::{Memory, MemoryDevice};
use crate::refusal;
use crate::show;
use crate::source::Source;
use crate::tool::{self, Devices};
use crate::warning::{bare_rates, without_effect};

/// Name of a device that no line names.
pub const UNNAMED: &str = "dev";

/// The commands of a text, each of them valid by itself.
#[derive(Clone, Debug)]
pub struct Policy {
    source: Arc<Source>,
    commands: Vec<Command>,
    warnings: Vec<Diagnostic>,
}

impl Policy {
    /// Reads a text that is called `name` in messages. Every line is read, so that all mistakes in
    /// words, kinds, keys and values are reported at once. [`Policy::check`] and [`Policy::apply`]
    /// find places that do not exist.
    pub fn parse(text: &str, name: &str) -> Result<Self, Diagnostics> {
        Self::parse_part(text, 0..text.len(), name)
    }

    /// Reads commands that are a part of a larger text, which the messages point into. An invalid
    /// part (past the end, within a character) is read as empty.
    pub fn parse_part(text: &str, part: Range<usize>, name: &str) -> Result<Self, Diagnostics> {
        Self::of(Source::new(name, text), part)
    }

    /// Reads like `parse_part` a text whose commands may name the kinds of a registry
    /// (`Source::with_kinds`).
    ///
    /// # Errors
    /// Those of `parse`.
    pub fn of(source: Source, part: Range<usize>) -> Result<Self, Diagnostics> {
        let source = Arc::new(source);
        let mut policy = Self { source: Arc::clone(&source), commands: Vec::new(), warnings: Vec::new() };
        let mut wrong = Vec::new();
        for line in lex::lines(&source, part) {
            match line.and_then(|line| read(&source, &line)) {
                Ok(cmd) => {
                    if let Command::Qdisc(qdisc) = &cmd {
                        policy.warnings.extend(
                            bare_rates(&source, qdisc).into_iter().chain(without_effect(&source, qdisc)),
                        );
                    }
                    policy.commands.push(cmd);
                }
                Err(d) => wrong.push(d),
            }
        }
        Diagnostics::of(wrong).map_or(Ok(policy), Err)
    }

    /// Returns the text it was read from.
    pub fn source(&self) -> &Source {
        &self.source
    }
    /// Returns the commands, in order.
    pub fn commands(&self) -> &[Command] {
        &self.commands
    }
    /// Returns the warnings: accepted, and probably mistakes.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// Returns the names of the devices that commands are for, each once, in order of appearance.
    pub fn devices(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for cmd in &self.commands {
            if let Some(dev) = cmd.dev().filter(|d| !names.contains(&d.text.as_str())) {
                names.push(dev.text.as_str());
            }
        }
        names
    }

    /// Returns the commands for one device: those that name it and those that name none.
    #[must_use]
    pub fn for_device(&self, name: &str) -> Self {
        let mut policy = self.clone();
        policy.commands.retain(|cmd| cmd.dev().is_none_or(|d| d.text == name));
        policy
    }

    /// Returns the lines for a device, as lines for another name. Devices in the words of an action
    /// stay as they are.
    #[must_use]
    pub fn for_device_as(&self, name: &str, other: &str) -> Self {
        let mut policy = self.for_device(name);
        for cmd in policy.commands.iter_mut().filter(|cmd| cmd.dev().is_some()) {
            *cmd = cmd.on_device(other);
        }
        policy
    }

    /// Returns the commands for these devices, and those that name no device.
    #[must_use]
    pub fn for_devices(&self, names: &[String]) -> Self {
        let mut policy = self.clone();
        policy.commands.retain(|cmd| cmd.dev().is_none_or(|d| names.contains(&d.text)));
        policy
    }

    /// Removes the deletions that a new device refuses because it has nothing to delete: a script
    /// begins with them. Its devices have this number of queues.
    #[must_use]
    pub fn without_vain_deletions(&self, queues: u32, env: &Env) -> Self {
        let mut policy = self.clone();
        let mut devices = Memory::of_any_name(queues, *env);
        let mut reached = true;
        policy.commands.retain(|cmd| {
            let placed = cmd.dev().is_some() || cmd.is_for_block();
            let cmd = if placed { cmd.clone() } else { cmd.on_device(UNNAMED) };
            let done =
                reached && tool::apply_each(&self.source, std::slice::from_ref(&cmd), &mut devices).is_ok();
            let vain = reached && !done && cmd.verb() == Verb::Delete;
            // Behind a line that is refused for another reason no device is as it would be.
            reached = done || vain;
            !vain
        });
        policy
    }

    /// Removes the lines about actions, which are run once for all devices.
    #[must_use]
    pub fn without_actions(mut self) -> Self {
        self.commands.retain(|cmd| !matches!(cmd, Command::Actions(_)));
        self
    }

    /// Checks that it could be applied to a new device, which has only its default qdisc.
    pub fn check(&self, env: &Env) -> Result<(), Diagnostic> {
        let name = self.device()?.unwrap_or(UNNAMED);
        let device = MemoryDevice::new(name, u32::from(env.queues), *env).with_kinds(self.source.kinds);
        let mut alone = Memory::default().with(device);
        self.apply_to(&mut alone, &[name])
    }

    /// Applies every command to the tree of one device, in order. It is first rehearsed on a copy
    /// of the tree's structure, so that on an error the tree and the packets in it are as they
    /// were; one command is whole in itself and needs no rehearsal, and its cost does not grow with
    /// the tree. A policy whose commands name several devices is refused: see
    /// [`Policy::for_device`]. So is one with filters, actions or hooks, which a tree alone does
    /// not have: see [`Policy::apply_to`].
    pub fn apply(&self, tree: &mut Tree, cx: &mut Cx) -> Result<(), Diagnostic> {
        if self.commands.len() == 1 {
            return self.run(tree, cx);
        }
        let mut scratch_cx = scratch_cx();
        let mut scratch = show::copy(&*tree, &mut scratch_cx).map_err(|e| self.no_copy(&e))?;
        self.run(&mut scratch, &mut scratch_cx)?;
        self.run(tree, cx)
    }

    /// Applies every command, filters and actions too, in order, as a whole or not at all: it is
    /// rehearsed on copies first. A line that names no device is for each of `names`; one about
    /// actions is run once, because all devices share them.
    pub fn apply_to(&self, devices: &mut dyn Devices, names: &[&str]) -> Result<(), Diagnostic> {
        let mut commands = Vec::with_capacity(self.commands.len());
        for cmd in &self.commands {
            match cmd.dev().is_some() || matches!(cmd, Command::Actions(_)) || cmd.is_for_block() {
                true => commands.push(cmd.clone()),
                false => commands.extend(names.iter().map(|name| cmd.on_device(name))),
            }
        }
        tool::apply_all(&self.source, &commands, devices)
    }

    fn run(&self, tree: &mut Tree, cx: &mut Cx) -> Result<(), Diagnostic> {
        self.device()?;
        self.commands.iter().try_for_each(|cmd| match Change::of(cmd).filter(|_| !is_hook(cmd)) {
            Some(change) => command::run(&self.source, &change, &mut tree.edit(cx)),
            None => Err(not_done(&self.source, cmd)),
        })
    }

    /// Returns the one device that the lines are for, if any names it. Lines for several are an
    /// error.
    pub fn device(&self) -> Result<Option<&str>, Diagnostic> {
        let mut first: Option<&str> = None;
        for cmd in &self.commands {
            let Some(dev) = cmd.dev() else { continue };
            if let Some(other) = first.filter(|first| *first != dev.text) {
                let message = format!("this is for {}, and the line before is for {other}", dev.text);
                let err = Diagnostic::error(code::CONFLICT, &self.source, dev.span.clone(), message);
                return Err(err.expected("lines for one device"));
            }
            first = Some(&dev.text);
        }
        Ok(first)
    }

    /// Returns the error for a tree whose nodes came from typed calls, with values that no words
    /// express.
    fn no_copy(&self, err: &ConfigError) -> Diagnostic {
        let message = format!("the present qdiscs cannot be written in tc's words: {err}");
        Diagnostic::error(code::UNSUPPORTED, &self.source, 0..0, message)
    }
}

/// Returns surroundings for trees that no packet goes through.
fn scratch_cx() -> Cx {
    Cx::new(1, 0)
}

/// Reads a line and checks that a policy may contain it.
fn read(source: &Arc<Source>, line: &Line) -> Result<Command, Diagnostic> {
    let cmd = command::parse(source, line)?;
    let (object, verb) = engine::head(line);
    let word = verb.or(object);
    let span = word.map_or_else(|| line.span(), |w| w.span.clone());
    let object = object.map_or("", |w| &w.text);
    let only_changes = |message: String| {
        let err = Diagnostic::error(code::UNKNOWN_VERB, source, span.clone(), message);
        err.expected("add, replace, change or del")
    };
    match (cmd.verb(), verb) {
        (_, None) => return Err(only_changes(format!("there is no verb after \"{object}\""))),
        (Verb::Show | Verb::Get | Verb::Link | Verb::Flush, Some(verb)) => {
            let err = only_changes(format!("\"{}\" has no place in a policy", verb.text));
            return Err(err.hint((cmd.verb() == Verb::Link).then(|| "replace does the same".to_string())));
        }
        _ => {}
    }
    match &cmd {
        Command::Qdisc(qdisc) => {
            engine::check(source, line, &cmd)?;
            if let (Verb::Delete, [first, ..]) = (qdisc.verb, qdisc.options.as_slice()) {
                let message = "del takes no options";
                return Err(Diagnostic::error(code::UNEXPECTED_WORD, source, first.span.clone(), message));
            }
            check_options(source, qdisc)?;
        }
        Command::Class(class) => {
            engine::check(source, line, &cmd)?;
            check_class_options(source, class)?;
        }
        Command::Filter(_) | Command::Chain(_) | Command::Actions(_) => {}
    }
    Ok(cmd)
}

/// True if a line is about an ingress or clsact hook.
fn is_hook(cmd: &Command) -> bool {
    matches!(
        cmd,
        Command::Qdisc(QdiscCommand { place: Some(At { value: Place::Ingress | Place::Clsact, .. }), .. })
    )
}

/// Returns the refusal of a command about objects that a tree alone does not have.
fn not_done(source: &Arc<Source>, cmd: &Command) -> Diagnostic {
    let message = "a tree of qdiscs alone has no filters, actions or hooks";
    Diagnostic::error(code::UNSUPPORTED, source, cmd.span().clone(), message)
}

/// Checks that the kind takes the options, on any device.
fn check_options(source: &Arc<Source>, cmd: &QdiscCommand) -> Result<(), Diagnostic> {
    let Some(spec) =
        cmd.kind.as_ref().and_then(|kind| spec_of(source, kind)).filter(|_| cmd.verb != Verb::Delete)
    else {
        return Ok(());
    };
    let options: Vec<&str> = cmd.options.iter().map(|w| w.text.as_str()).collect();
    match spec.read(&mut Words::new(&options), &Env::default()) {
        Ok(_) => Ok(()),
        // Accepted: the options need the rate of a link that is not known yet, or an ability that
        // only some devices have.
        Err(e) if matches!(e.kind, ErrorKind::NoLinkRate | ErrorKind::Unsupported) => Ok(()),
        // Or they are about a part of a qdisc that a line before this one makes.
        Err(e) if e.reason == Some(Reason::Part) && cmd.verb != Verb::Add => Ok(()),
        Err(e) => Err(refusal::of(source, cmd, &e)),
    }
}

/// Checks that the classes of a kind take the options, on any device.
fn check_class_options(source: &Arc<Source>, cmd: &ClassCommand) -> Result<(), Diagnostic> {
    let spec = cmd.kind.as_ref().and_then(|kind| spec_of(source, kind)).filter(|_| cmd.verb != Verb::Delete);
    let Some(classes) = spec.and_then(|spec| spec.classes) else { return Ok(()) };
    let options: Vec<&str> = cmd.options.iter().map(|w| w.text.as_str()).collect();
    match classes.read(&mut Words::new(&options), &Env::default()) {
        Err(e) if e.kind != ErrorKind::NoLinkRate => Err(refusal::of(source, cmd, &e)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::COPIES;

    /// A copy costs as much as the tree; one command that is whole in itself needs none.
    #[test]
    fn one_command_copies_no_tree() {
        let (mut tree, mut cx) = (Tree::new(Env::default()), Cx::new(1, 0));
        for (lines, copies) in [
            ("qdisc add root handle 1: drr\nclass add parent 1: classid 1:1 drr", 1),
            ("class add parent 1: classid 1:2 drr", 0),
            ("class change classid 1:2 drr quantum 900", 0),
            ("class del classid 1:1", 0),
            ("qdisc replace root handle 1: stab overhead 4 linklayer atm drr", 0),
        ] {
            COPIES.with(|all| all.set(0));
            Policy::parse(lines, "p").expect("good").apply(&mut tree, &mut cx).expect("good");
            assert_eq!(COPIES.with(std::cell::Cell::get), copies, "{lines}");
        }
    }
}
