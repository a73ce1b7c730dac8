//! Batch files of any size: sent to the daemon in pieces, in order, each of whole lines. A batch
//! that is to be done whole is put together there.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::ExitCode;

use txweir::daemon::protocol::{Ask, Batch, LINE_MAX};
use txweir::tc::tool::Flags;

use crate::{Failure, client};

/// Bytes of a piece, about: some hundred lines. Packets wait while the daemon does a piece. As JSON
/// a piece has at most six times that, which is below the limit of a request.
const PIECE: usize = 64 << 10;

/// A batch that is being read.
struct Pieces {
    name: String,
    from: Box<dyn BufRead>,
    /// Lines that were read.
    lines: usize,
}

impl Pieces {
    fn open(name: &str) -> io::Result<Self> {
        Ok(match name {
            "-" => Self { name: "<stdin>".into(), from: Box::new(io::stdin().lock()), lines: 0 },
            _ => Self { name: name.into(), from: Box::new(BufReader::new(File::open(name)?)), lines: 0 },
        })
    }

    /// Returns the next lines, about `bytes` long; none at the end. A line that the next one
    /// continues is not the last of a piece. A piece longer than a request may be has no further
    /// lines: it is refused as it is.
    ///
    /// # Errors
    /// Those of reading, or a line, with those that continue it, that no request has room for.
    fn next(&mut self, bytes: usize) -> io::Result<Option<Batch>> {
        let (mut text, lines_before) = (String::new(), self.lines);
        loop {
            let line = text.len();
            if (&mut self.from).take(LINE_MAX as u64 + 1).read_line(&mut text)? == 0 {
                break;
            }
            self.lines += 1;
            if text.len() - line > LINE_MAX {
                let said = format!("line {}: expected at most {LINE_MAX} bytes, given more", self.lines);
                return Err(io::Error::new(io::ErrorKind::InvalidData, said));
            }
            if text.len() > LINE_MAX || text.len() >= bytes && !continues(&text) {
                break;
            }
        }
        Ok((!text.is_empty()).then(|| Batch { name: self.name.clone(), text, lines_before, more: false }))
    }
}

/// True if the next line belongs to the last one: it ends in a backslash that no backslash before
/// it escapes.
fn continues(text: &str) -> bool {
    let line = text.strip_suffix('\n').unwrap_or(text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    (line.len() - line.trim_end_matches('\\').len()) % 2 == 1
}

/// Does the batch that `-b` names in as many requests as it takes: piece by piece until one fails,
/// with `-force` all of them; or, if it is to be done whole, with the last piece.
pub fn run(
    socket: Option<&Path>,
    flags: &Flags,
    name: &str,
    args: &[String],
    class_names: Option<&String>,
) -> Result<ExitCode, Failure> {
    // tc has the same words for it.
    let unreadable = |e| Failure::usage(format!("Cannot open file \"{name}\" for reading: {e}"));
    let mut pieces = Pieces::open(name).map_err(unreadable)?;
    let whole = flags.atomic || flags.dry_run;
    let mut batch = pieces
        .next(PIECE)
        .map_err(unreadable)?
        .unwrap_or_else(|| Batch { name: pieces.name.clone(), ..Batch::default() });
    let mut client = client::connect(socket)?;
    let mut status = 0;
    loop {
        // Lines that are done at once do not wait for those after them.
        let following = if whole { pieces.next(PIECE).map_err(unreadable)? } else { None };
        batch.more = following.is_some();
        let ask = Ask::Tc { args: args.to_vec(), batch: Some(batch), class_names: class_names.cloned() };
        let reply = client.ask(&ask).map_err(Failure::usage)?;
        client::print(&reply)?;
        status = status.max(reply.status);
        if reply.status != 0 && (whole || !flags.force) {
            break;
        }
        match following {
            Some(next) => batch = next,
            None if whole => break,
            None => match pieces.next(PIECE).map_err(unreadable)? {
                Some(next) => batch = next,
                None => break,
            },
        }
    }
    Ok(ExitCode::from(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str, bytes: usize) -> Vec<(usize, String)> {
        let from = Box::new(io::Cursor::new(text.as_bytes().to_vec()));
        let mut pieces = Pieces { name: "t".into(), from, lines: 0 };
        let next = || pieces.next(bytes).expect("text").map(|batch| (batch.lines_before, batch.text));
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn pieces_are_whole_lines_and_know_how_many_came_before() {
        let expected = [(0, "aaa\nb\n"), (2, "c\\\nd\\\r\ne\n"), (5, "ff\\\\\n"), (6, "\ng")];
        let text: String = expected.iter().map(|(_, text)| *text).collect();
        assert_eq!(cut(&text, 5), expected.map(|(lines, text)| (lines, text.to_string())));
        assert_eq!(cut(&text, usize::MAX), [(0, text)]);
        assert_eq!(cut("", 5), []);
        // The end of the text ends its last line.
        assert_eq!(cut("a\\", 1), [(0, "a\\".to_string())]);
    }

    #[test]
    fn a_line_without_an_end_is_refused() {
        let from = Box::new(BufReader::new(io::repeat(b'x')));
        let mut pieces = Pieces { name: "t".into(), from, lines: 0 };
        let said = pieces.next(PIECE).unwrap_err().to_string();
        assert_eq!(said, "line 1: expected at most 1048576 bytes, given more");
        // Lines without an end of the batch: a request that is too long is not made longer.
        let text = "a\\\n".repeat(LINE_MAX);
        let from = Box::new(io::Cursor::new(text.into_bytes()));
        let mut pieces = Pieces { name: "t".into(), from, lines: 0 };
        let batch = pieces.next(usize::MAX).expect("text").expect("lines");
        assert!((LINE_MAX..LINE_MAX + 10).contains(&batch.text.len()), "{}", batch.text.len());
    }
}
