//! A batch: its lines in order, until one fails; with `-force` to the end.

use std::sync::Arc;

use txweir_core::Handle;

use super::session::{Done, Session};
use super::{Devices, Flags, Outcome};
use crate::lex::{self, Line};
use crate::source::Source;

/// The exit status of tc for a batch with a failed line, whatever the line's own status is.
const FAILED: u8 = 1;

/// Runs a batch; returns the lines that changed something.
pub(super) fn run(
    flags: &Flags,
    class_names: &[(Handle, String)],
    batch: &Arc<Source>,
    devices: &mut dyn Devices,
) -> (Outcome, Vec<Done>) {
    let mut session = Session::new(flags, class_names, devices);
    let mut status = 0;
    for line in lex::each(batch, 0..batch.text.len()) {
        session.devices.pause();
        let (at, failed) = match line {
            Ok(line) => (line.span().start, one(&mut session, batch, &line) != 0),
            Err(diagnostic) => {
                session.say(&diagnostic);
                (diagnostic.span.start, true)
            }
        };
        if failed {
            status = FAILED;
            let (line, _) = batch.locate(at);
            session.stderr.push_str(&format!("Command failed {}:{line}\n", batch.name));
            if !flags.force {
                break;
            }
        }
    }
    let done = std::mem::take(&mut session.done);
    (session.finish(status), done)
}

fn one(session: &mut Session<'_>, batch: &Arc<Source>, line: &Line) -> u8 {
    match line.words.split_first() {
        Some((object, words)) if object.text == "link" => link(session, batch, line, words),
        _ => session.line(batch, line),
    }
}

/// Runs a line about links by handing it to the owner of the devices.
fn link(session: &mut Session<'_>, batch: &Arc<Source>, line: &Line, words: &[lex::Word]) -> u8 {
    use crate::diagnostic::{Diagnostic, code};
    use crate::failure::REFUSED;
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
