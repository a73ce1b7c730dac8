//! The one place that writes to stdout and stderr.
//!
//! Text may come from files, sockets and users: characters that command a terminal are replaced
//! before it is written. An error of stdout ends a command with status 2; a pipe whose reader has
//! gone (`txweir kinds | head -1`) is no error, and leaves the status of the command. An error of
//! stderr cannot be reported anywhere.

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};

use txweir::tc::printable::{clean, commands_terminal};

use crate::Failure;

/// Writes a text to stdout, and shows it at once.
///
/// # Errors
/// The text cannot be written.
pub fn print(text: impl Display) -> Result<(), Failure> {
    written(clean(&text.to_string()).as_bytes())
}

/// Writes JSON and the end of its line to stdout, with characters that command a terminal as
/// escapes. In JSON such a character can only be a part of a text.
///
/// # Errors
/// The text cannot be written.
pub fn json(text: impl Display) -> Result<(), Failure> {
    written(escaped(&text.to_string()).as_bytes())
}

/// Writes a text that a program reads back to stdout, unchanged unless stdout is a terminal.
///
/// # Errors
/// The text cannot be written.
pub fn exact(text: &str) -> Result<(), Failure> {
    match io::stdout().is_terminal() {
        true => print(text),
        false => written(text.as_bytes()),
    }
}

/// Writes bytes that are clean already to stdout, such as a drawing in colour.
///
/// # Errors
/// The bytes cannot be written.
pub fn drawn(bytes: &[u8]) -> Result<(), Failure> {
    written(bytes)
}

/// Writes a text to stderr.
pub fn say(text: impl Display) {
    say_drawn(clean(&text.to_string()).as_bytes());
}

/// Writes bytes that are clean already to stderr.
pub fn say_drawn(bytes: &[u8]) {
    let _ = io::stderr().write_all(bytes);
}

/// Prints the text of clap, which chooses colours by itself.
///
/// # Errors
/// The text cannot be written.
pub fn of_clap(e: &clap::Error) -> Result<(), Failure> {
    checked(e.print().and_then(|()| io::stdout().flush()))
}

fn written(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    checked(out.write_all(bytes).and_then(|()| out.flush()))
}

fn checked(done: io::Result<()>) -> Result<(), Failure> {
    match done {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Failure::failed(format!("stdout: {e}"))),
        _ => Ok(()),
    }
}

fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + 1);
    for c in json.chars() {
        match commands_terminal(c) {
            true => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => out.push(c),
        }
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn json_keeps_its_meaning() {
        let text = serde_json::json!({"name": "a\u{1b}[2J\u{9b}\u{202e}\u{7f}"});
        let escaped = super::escaped(&text.to_string());
        assert_eq!(escaped, "{\"name\":\"a\\u001b[2J\\u009b\\u202e\\u007f\"}\n");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).ok(), Some(text));
    }
}
