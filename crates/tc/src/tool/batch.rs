//! A batch: its lines in order, until one fails; with `-force` to the end.

use std::sync::Arc;

use super::session::{Done, Session};
use super::{Devices, Flags, Outcome};
use crate::class_names::ClassNames;
use crate::diagnostic::{Diagnostic, code};
use crate::failure::REFUSED;
use crate::lex::{self, Line};
use crate::source::Source;

/// The exit status of tc for a batch with a failed line, whatever the line's own status is.
const FAILED: u8 = 1;

/// Most bytes of output with which a batch goes on: the owner of the devices holds all of it until
/// the batch ends. The client of a daemon takes 256 MiB, in which a line end has two bytes.
const OUTPUT_MAX: usize = 64 << 20;

/// Runs a batch; returns the lines that changed something.
pub(super) fn run(
    flags: &Flags,
    class_names: &ClassNames,
    batch: &Arc<Source>,
    devices: &mut dyn Devices,
) -> (Outcome, Vec<Done>) {
    let mut session = Session::new(flags, class_names, devices);
    let status = lines(&mut session, batch, OUTPUT_MAX);
    let done = std::mem::take(&mut session.done);
    (session.finish(status), done)
}

/// Runs lines until one fails, or with `-force` to the end, and no line more once their output has
/// more than `most` bytes. Returns the status.
fn lines(session: &mut Session<'_>, batch: &Arc<Source>, most: usize) -> u8 {
    let mut status = 0;
    for line in lex::each(batch, 0..batch.text.len()) {
        session.devices.pause();
        let span = match &line {
            Ok(line) => line.span(),
            Err(diagnostic) => diagnostic.span.clone(),
        };
        let output = session.stdout.len() + session.stderr.len();
        let ends = output > most;
        let failed = match line {
            _ if ends => {
                session.say(&too_much(batch, span.start, output, most));
                true
            }
            Ok(line) => one(session, batch, &line) != 0,
            Err(diagnostic) => {
                session.say(&diagnostic);
                true
            }
        };
        if failed {
            status = FAILED;
            // Of a command that is continued, tc names the last line.
            let (line, _) = batch.locate(span.end);
            session.stderr.push_str(&format!("Command failed {}:{line}\n", batch.name));
            if ends || !session.flags.force {
                break;
            }
        }
    }
    status
}

/// Returns the error of the first line that is not run because of the output of those before it.
fn too_much(batch: &Arc<Source>, at: usize, output: usize, most: usize) -> Diagnostic {
    let message =
        format!("the batch ends before this line: the lines before it have {output} bytes of output");
    let err = Diagnostic::error(code::OUT_OF_RANGE, batch, at..at, message);
    let err = err.expected(format!("at most {most} bytes of output"));
    err.hint(Some("put the listings into several batches".into()))
}

fn one(session: &mut Session<'_>, batch: &Arc<Source>, line: &Line) -> u8 {
    match line.words.split_first() {
        Some((object, words)) if object.text == "link" => link(session, batch, line, words),
        _ => session.line(batch, line),
    }
}

/// Runs a line about links by handing it to the owner of the devices.
fn link(session: &mut Session<'_>, batch: &Arc<Source>, line: &Line, words: &[lex::Word]) -> u8 {
    let words: Vec<String> = words.iter().map(|w| w.text.clone()).collect();
    let refuse = |session: &mut Session<'_>, message: String| {
        session.say(&Diagnostic::error(code::UNSUPPORTED, batch, line.span(), message));
        REFUSED
    };
    let dry = session.flags.dry_run || session.flags.atomic;
    match session.devices.link(&words, dry) {
        Err(message) => refuse(session, message),
        Ok(done) if session.flags.atomic && !done.changes.is_empty() => {
            let message = format!("a link cannot be changed in an atomic batch: {}", done.changes.join(", "));
            refuse(session, message)
        }
        Ok(done) => {
            if session.flags.dry_run {
                for change in done.changes {
                    session.stdout.push_str(&format!("{change}\n"));
                }
            }
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    /// A batch ends before the first line behind too much output, also with `-force`, and says so.
    #[test]
    fn a_batch_ends_with_too_much_output() {
        let text = "qdisc show dev lan\nnothing\nqdisc show dev lan\n  qdisc add dev lan root pfifo\n";
        let batch = Arc::new(Source::new("b.tc", text));
        let (flags, class_names) = (Flags { force: true, ..Flags::default() }, ClassNames::default());
        let run = |most: usize| {
            let mut devices = Memory::new(&["lan"]);
            let mut session = Session::new(&flags, &class_names, &mut devices);
            let status = lines(&mut session, &batch, most);
            let done = session.done.len();
            (session.finish(status), done)
        };
        let (whole, done) = run(usize::MAX);
        assert_eq!((whole.status, done), (1, 1), "{}", whole.stderr);
        let before = whole.stdout.len() + whole.stderr.len();
        // The output of the last line that is run may go beyond the bound.
        assert_eq!(run(before), (whole.clone(), done));
        let (cut, done) = run(before - 1);
        assert_eq!((cut.status, done, &cut.stdout), (1, 0, &whole.stdout));
        let error = format!(
            "error[out-of-range]: the batch ends before this line: the lines before it have {before} bytes of output\n \
             --> b.tc:4:3\n  \
               |\n\
             4 |   qdisc add dev lan root pfifo\n  \
               |   ^ expected at most {} bytes of output\n  \
               = help: put the listings into several batches\n\
             Command failed b.tc:4\n",
            before - 1
        );
        assert_eq!(cut.stderr, whole.stderr + &error);
    }
}
