//! tc as a function: the words of a command line, or the lines of a batch, are run on devices; the
//! result has tc's output and exit status. The words, the text, the JSON and the status are those
//! of tc(8), so that a caller of tc can call this. Two options are added to tc's: `--dry-run`
//! reports the changes and the fate of queued packets, and `--atomic` runs a whole batch in one
//! step for each device. Mistakes are reported with a caret.
//!
//! No I/O: the caller reads the batch, and owns the devices.

mod actions;
mod apply;
mod batch;
mod blocks;
mod device;
mod filter_line;
mod filters;
mod flags;
mod hashes;
mod list;
mod places;
mod rates;
mod rehearsal;
mod save;
mod session;

pub use device::{Device, Devices, Hook, InPlace, LOOPBACK, LinkLine, NoDevices, Ports, SwapDone};
pub use filters::in_order;
pub use flags::{Flags, Valued};
pub use places::{Asks, filters_at};
pub use rates::Rates;
pub use save::save;

use std::sync::Arc;

use crate::ast::{Command, Verb};
use crate::class_names::ClassNames;
use crate::command;
use crate::diagnostic::{Diagnostic, code};
use crate::failure::{Failure, USAGE};
use crate::lex::{Line, Word};
use crate::source::Source;
use rehearsal::Rehearsal;
use session::Session;

/// A call of tc.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The words after `tc`, flags included.
    pub args: Vec<String>,
    /// The batch that `-b` names, read by the caller (see [`Flags::read`]); its name is the given
    /// one, or `<stdin>`.
    pub batch: Option<Source>,
    /// The text of the file that has the names of classes, read by the caller if `-nm` is given: a
    /// class and its name on each line.
    pub class_names: Option<String>,
}

/// Output and exit status of tc.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The exit status: 0; 1 for words that cannot be parsed; 2 for a refusal; 255 for wrong usage.
    pub status: u8,
    /// Text for standard output.
    pub stdout: String,
    /// Text for standard error.
    pub stderr: String,
}

/// The place of the help.
const HELP: &str = "\
tc [OPTIONS] { qdisc | class | filter | chain | actions } { add | replace | change | del | show ... }
tc [OPTIONS] -b FILE        lines of the same in a file, or - for stdin; -force goes on after a failure
tc save FILE                writes the lines that make the present configuration, or - to stdout

Options, units and words are those of tc(8) and of the page of each kind:
-s[tatistics] -d[etails] -r[aw] -j[son] -p[retty] -iec -o[neline] -nm -cf FILE -force -V[ersion] -h[elp].
These come on top:
--dry-run  say what would change, and where packets that wait would go, and change nothing
--atomic   with -b: do all lines or none, and keep the packets that wait
";

/// The output of `-V`.
const VERSION: &str = concat!("tc utility, txweir-", env!("CARGO_PKG_VERSION"), "\n");

/// Runs a command line.
pub fn run(request: &Request, devices: &mut dyn Devices) -> Outcome {
    let flags = match Flags::read(&request.args) {
        Ok(flags) => flags,
        Err(failure) => return Outcome::failed(failure.status, &failure.diagnostic),
    };
    if flags.version {
        return Outcome { stdout: VERSION.into(), ..Outcome::default() };
    }
    let class_names =
        request.class_names.as_deref().filter(|_| flags.names).map(ClassNames::read).unwrap_or_default();
    let (source, words) = flags::command_line(&request.args);
    let kinds = devices.kinds();
    let source = Arc::new(Source::clone(&source).with_kinds(kinds));
    let rest = words.into_iter().skip(flags.before).filter(|w| !flags::is_ours(&w.text)).collect::<Vec<_>>();
    if flags.batch.is_some() {
        return match &request.batch {
            Some(batch) => run_batch(&flags, &class_names, &batch.clone().with_kinds(kinds), devices),
            None => Outcome { status: 1, stderr: "the batch was not read\n".into(), ..Outcome::default() },
        };
    }
    if flags.help || rest.is_empty() {
        return Outcome { stderr: HELP.into(), ..Outcome::default() };
    }
    if flags.atomic {
        let word = request.args.iter().position(|a| a == "--atomic").unwrap_or(0);
        let span = flags::command_line(&request.args).1.get(word).map_or(0..0, |w: &Word| w.span.clone());
        let err = Diagnostic::error(code::UNEXPECTED_WORD, &source, span, "--atomic is for a batch");
        return Outcome::failed(
            USAGE,
            &err.hint(Some("one command is done whole or not at all anyway".into())),
        );
    }
    let line = Line { words: rest };
    if !flags.dry_run {
        let mut session = Session::new(&flags, &class_names, devices);
        let status = session.line(&source, &line);
        return session.finish(status);
    }
    let mut rehearsal = Rehearsal::new(devices, false, true);
    let mut session = Session::new(&flags, &class_names, &mut rehearsal);
    let status = session.line(&source, &line);
    let outcome = session.finish(status);
    rehearsal.plan(outcome, &flags, &[])
}

/// Returns the operation of a command line without running it. `None` for a batch, and for words
/// that ask for help or the version, or that [`run`] refuses for their options, object or verb.
#[must_use]
pub fn operation(args: &[String]) -> Option<Verb> {
    let flags =
        Flags::read(args).ok().filter(|flags| flags.batch.is_none() && !flags.help && !flags.version)?;
    let (source, words) = flags::command_line(args);
    let words = words.into_iter().skip(flags.before).filter(|w| !flags::is_ours(&w.text)).collect();
    command::operation(&source, &Line { words }).ok()
}

/// Runs a command line that changes something, as [`run`] does, without warnings and output.
///
/// # Errors
/// The words cannot be read, or the change is refused; then nothing has changed.
pub fn change(words: &[String], devices: &mut dyn Devices) -> Result<(), Failure> {
    let (source, words) = flags::command_line(words);
    let source = Arc::new(Source::clone(&source).with_kinds(devices.kinds()));
    let (flags, class_names) = (Flags::default(), ClassNames::default());
    let mut session = Session::new(&flags, &class_names, devices);
    let done = session.read_and_do(&source, &Line { words });
    let lines = std::mem::take(&mut session.done);
    session::free(lines, devices);
    done
}

/// Runs one line that has been read already, as a line of a batch, on the device of this name in
/// the place of the one that it names. A line about a shared block, or about actions, is for all
/// devices. A line that only shows something is not run.
pub fn run_line(
    source: &Arc<Source>,
    line: &Line,
    cmd: &Command,
    device: &str,
    devices: &mut dyn Devices,
) -> Result<(), Diagnostic> {
    let (flags, class_names) = (Flags::default(), ClassNames::default());
    let mut session = Session::new(&flags, &class_names, devices);
    let for_all = matches!(cmd, Command::Actions(_)) || cmd.is_for_block();
    let done = match cmd.verb() {
        Verb::Show => Ok(()),
        _ if for_all => session.check_and_apply(source, line, cmd),
        _ => session.check_and_apply(source, line, &cmd.on_device(device)),
    };
    done.map_err(|failure| failure.diagnostic)
}

/// Runs lines that have been read already, in order, all of them or none: they are tried on copies
/// of the devices first.
pub(crate) fn apply_all(
    source: &Arc<Source>,
    commands: &[Command],
    devices: &mut dyn Devices,
) -> Result<(), Diagnostic> {
    let mut rehearsal = Rehearsal::new(devices, false, false);
    let tried = apply_each(source, commands, &mut rehearsal);
    rehearsal.end();
    tried?;
    apply_each(source, commands, devices)
}

/// Runs lines that have been read already, in order, up to the first that is refused.
pub(crate) fn apply_each(
    source: &Arc<Source>,
    commands: &[Command],
    devices: &mut dyn Devices,
) -> Result<(), Diagnostic> {
    let (flags, class_names) = (Flags::default(), ClassNames::default());
    let mut session = Session::new(&flags, &class_names, devices);
    let mut one = |cmd: &Command| session.apply(source, cmd, apply::as_tc_takes_it(cmd));
    commands.iter().try_for_each(|cmd| one(cmd).map_err(|failure| failure.diagnostic))
}

/// Tries the lines of a batch in order and changes nothing, as `--dry-run`, without a plan in the
/// output. Each line is checked with the results of those before it.
pub fn rehearse(batch: &Source, devices: &mut dyn Devices) -> Outcome {
    let flags = Flags { dry_run: true, ..Flags::default() };
    let batch = Arc::new(batch.clone().with_kinds(devices.kinds()));
    let mut rehearsal = Rehearsal::new(devices, false, false);
    let (outcome, done) = batch::run(&flags, &ClassNames::default(), &batch, &mut rehearsal);
    session::free(done, &mut rehearsal);
    rehearsal.end();
    outcome
}

fn run_batch(flags: &Flags, class_names: &ClassNames, batch: &Source, devices: &mut dyn Devices) -> Outcome {
    let batch = Arc::new(batch.clone());
    if !flags.dry_run && !flags.atomic {
        let (outcome, done) = batch::run(flags, class_names, &batch, devices);
        session::free(done, devices);
        return outcome;
    }
    let mut rehearsal = Rehearsal::new(devices, flags.atomic, flags.dry_run);
    let (outcome, done) = batch::run(flags, class_names, &batch, &mut rehearsal);
    match (flags.dry_run, outcome.status) {
        (true, _) => rehearsal.plan(outcome, flags, &done),
        (false, 0) => rehearsal.commit(outcome, done),
        (false, _) => {
            session::free(done, &mut rehearsal);
            rehearsal.end();
            outcome
        }
    }
}

impl Outcome {
    fn failed(status: u8, diagnostic: &Diagnostic) -> Self {
        Self { status, stdout: String::new(), stderr: format!("{}{diagnostic}\n", diagnostic.linux_lines()) }
    }
}
