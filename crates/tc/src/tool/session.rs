//! Lines run one after the other, and their output.

use std::sync::Arc;

use txweir_core::classify::packet::PortId;
use txweir_core::path::qdiscs::Sharing;

use super::{Devices, Flags, HELP, InPlace, Outcome, Rates, actions, apply, blocks, filters, list, rates};
use crate::ast::{Command, Verb};
use crate::class_names::ClassNames;
use crate::command::{self, Change, engine};
use crate::diagnostic::{Diagnostic, code};
use crate::failure::Failure;
use crate::kernel;
use crate::lex::{Line, Word};
use crate::sentence::Sentence;
use crate::source::Source;
use crate::suggest::closest;
use crate::warning::{bare_rates, ignored_words, without_effect};

/// A line that changed a device.
pub(super) struct Done {
    pub(super) device: String,
    pub(super) change: Change,
    pub(super) source: Arc<Source>,
    /// True if it has to do with rates that qdiscs share.
    pub(super) shares: bool,
}

/// Lines that are freed before packets have their turn.
const FREED: usize = 64;

/// Frees lines in steps, with turns for packets between them.
pub(super) fn free<T>(lines: impl IntoIterator<Item = T>, devices: &mut dyn Devices) {
    for (at, line) in lines.into_iter().enumerate() {
        drop(line);
        if at % FREED == FREED - 1 {
            devices.pause();
        }
    }
}

/// A run of lines.
pub(super) struct Session<'a> {
    pub(super) flags: &'a Flags,
    pub(super) devices: &'a mut dyn Devices,
    /// Names of classes, as far as the flags ask for them.
    pub(super) class_names: &'a ClassNames,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) done: Vec<Done>,
}

impl<'a> Session<'a> {
    pub(super) fn new(flags: &'a Flags, class_names: &'a ClassNames, devices: &'a mut dyn Devices) -> Self {
        Self { flags, devices, class_names, stdout: String::new(), stderr: String::new(), done: Vec::new() }
    }

    /// Returns the output, and the status.
    pub(super) fn finish(self, status: u8) -> Outcome {
        Outcome { status, stdout: self.stdout, stderr: self.stderr }
    }

    /// Runs a line; prints an error; returns the line's status.
    pub(super) fn line(&mut self, source: &Arc<Source>, line: &Line) -> u8 {
        if self.asks_for_help(line) {
            self.stderr.push_str(HELP);
            return 0;
        }
        let from = self.stderr.len();
        match self.read_and_do(source, line) {
            Ok(()) => 0,
            Err(failure) => {
                // Linux's own lines come first, before warnings too.
                self.stderr.insert_str(from, &failure.diagnostic.linux_lines());
                self.say(&failure.diagnostic);
                failure.status
            }
        }
    }

    pub(super) fn say(&mut self, diagnostic: &Diagnostic) {
        self.stderr.push_str(&format!("{diagnostic}\n"));
    }

    fn asks_for_help(&self, line: &Line) -> bool {
        let (object, verb) = engine::head(line);
        let cut_short = |w: &Word| !w.text.is_empty() && "help".starts_with(&w.text);
        object.is_some_and(|w| w.text == "help") || verb.is_some_and(cut_short)
    }

    pub(super) fn read_and_do(&mut self, source: &Arc<Source>, line: &Line) -> Result<(), Failure> {
        let cmd = command::read(source, line)?;
        if cmd.verb() == Verb::Show {
            return list::run(self, source, &cmd);
        }
        if matches!(cmd, Command::Filter(_) | Command::Chain(_) | Command::Actions(_)) {
            return self.apply(source, &cmd, None);
        }
        let Some(dev) = cmd.dev().cloned() else {
            engine::check(source, line, &cmd).map_err(Failure::refused)?;
            let err =
                Diagnostic::error(code::MISSING, source, line.span(), "this does not say on which device");
            return Err(Failure::refused(err.expected("dev NAME").linux(kernel::NO_DEVICE)));
        };
        self.find(source, &dev)?;
        if let Command::Qdisc(qdisc) = &cmd {
            for warning in bare_rates(source, qdisc)
                .into_iter()
                .chain(without_effect(source, qdisc))
                .chain(ignored_words(source, qdisc))
            {
                self.say(&warning);
            }
        }
        self.check_and_apply(source, line, &cmd)
    }

    /// Runs a line that has been read and changes something.
    pub(super) fn check_and_apply(
        &mut self,
        source: &Arc<Source>,
        line: &Line,
        cmd: &Command,
    ) -> Result<(), Failure> {
        engine::check(source, line, cmd).map_err(Failure::refused)?;
        apply::has_place(source, cmd).map_err(Failure::refused)?;
        self.apply(source, cmd, apply::as_tc_takes_it(cmd))
    }

    /// Runs a line that changes something, after it has been read and checked; `change` is its
    /// effect on a tree, if it is about one.
    pub(super) fn apply(
        &mut self,
        source: &Arc<Source>,
        cmd: &Command,
        change: Option<Change>,
    ) -> Result<(), Failure> {
        match cmd {
            Command::Filter(filter) => return filters::run(self, source, filter),
            Command::Chain(chain) => return filters::run_chain(self, source, chain),
            Command::Actions(actions) => return actions::run(self, source, actions),
            Command::Qdisc(_) | Command::Class(_) => {}
        }
        let (Some(dev), Some(change)) = (cmd.dev().cloned(), change) else { return Ok(()) };
        if let Some(changes) = self.devices.plan(&dev.text, &InPlace { source, change: &change }) {
            if changes {
                let source = Arc::clone(source);
                self.done.push(Done { device: dev.text, change, source, shares: false });
            }
            return Ok(());
        }
        let room = self.devices.room(&[&dev.text]);
        let device = self.devices.device(&dev.text).ok_or_else(|| no_device(source, &dev, None))?;
        device.set_room(room);
        let shares = apply::shares(&change, &device.tree());
        let sharing = if shares { self.admit(source, &dev, &change)? } else { None };
        let device = self.devices.device(&dev.text).ok_or_else(|| no_device(source, &dev, None))?;
        let (hooked, hooks) = (device.hook().is_some(), blocks::at_hooks(device.tree()));
        let has = blocks::shared(self.devices.filters(), hooks);
        let device = self.devices.device(&dev.text).ok_or_else(|| no_device(source, &dev, None))?;
        let kept = match &change {
            Change::Qdisc(qdisc) => blocks::kept(source, qdisc, device, has),
            Change::Class(_) => None,
        };
        let orphans = apply::run(source, &change, device).map_err(Failure::refused)?;
        if hooked {
            kept.iter().for_each(|warning| self.say(warning));
        } else {
            blocks::join(self, &dev.text, &change);
        }
        if let (Some((rates, sharing)), Some(device)) = (sharing, self.devices.device(&dev.text)) {
            device.configure(&mut |qdiscs| sharing.join(&mut rates::lock(&rates), qdiscs));
        }
        let port = self.devices.port(&dev.text).unwrap_or(PortId::NONE);
        orphans.into_iter().for_each(|block| self.devices.filters_mut().delete_block(block, port));
        self.done.push(Done { device: dev.text, change, source: Arc::clone(source), shares });
        Ok(())
    }

    /// Refuses a line that asks for a shared rate with other values than others of its name.
    /// Returns the rates and the object that joins one after the line.
    fn admit(
        &mut self,
        source: &Arc<Source>,
        dev: &Word,
        change: &Change,
    ) -> Result<Option<(Rates, Sharing)>, Failure> {
        let Some(rates) = self.devices.rates() else { return Ok(None) };
        let device = self.devices.device(&dev.text).ok_or_else(|| no_device(source, dev, None))?;
        let trees = device.tree();
        let Some(sharing) = command::sharing(change, &trees) else { return Ok(None) };
        let checked = sharing.check(&rates::lock(&rates), &trees, &|f| device.each_copy(f));
        checked.map_err(|err| Failure::refused(command::refused(source, change, &err)))?;
        Ok(Some((rates, sharing)))
    }

    /// Checks that the device exists.
    pub(super) fn find(&mut self, source: &Arc<Source>, dev: &Word) -> Result<(), Failure> {
        if self.devices.has(&dev.text) {
            return Ok(());
        }
        let names = self.devices.names();
        Err(no_device(source, dev, closest(&dev.text, names.iter().map(String::as_str)).map(String::from)))
    }
}

pub(super) fn no_device(source: &Arc<Source>, dev: &Word, near: Option<String>) -> Failure {
    let message = format!("there is no device \"{}\"", dev.text);
    let err = Diagnostic::error(code::NOT_FOUND, source, dev.span.clone(), message);
    Failure::unparsable(err.suggest(near)).linux(Sentence::NoDevice(&dev.text))
}
