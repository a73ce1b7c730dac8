//! Messages between the processes of a run: one JSON text each, to the end of the stream's
//! direction.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::{Value, json};
use txweir::lint::machine::Call;
use txweir::tc::tool::Outcome;

use crate::input::TEXT_MAX;

/// Most bytes of a message: six for each byte of a text, and the words.
const MESSAGE_MAX: u64 = 7 * TEXT_MAX;

/// A message to the process that runs the script.
pub enum Message {
    /// A call of a command, which gets an answer.
    Call(Call),
    /// A part of the enclosure that this system does not have.
    Note(String),
    /// The script has ended with this status.
    Ended(i32),
    /// The script could not be started.
    Failed(String),
}

fn wrong(said: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, said.to_owned())
}

fn text(stream: &UnixStream) -> io::Result<Value> {
    let mut bytes = Vec::new();
    stream.take(MESSAGE_MAX).read_to_end(&mut bytes)?;
    serde_json::from_slice(&bytes).map_err(|e| wrong(&e.to_string()))
}

fn write(mut stream: &UnixStream, value: &Value) -> io::Result<()> {
    stream.write_all(value.to_string().as_bytes())?;
    stream.shutdown(Shutdown::Write)
}

/// Reads a message.
pub fn receive(stream: &UnixStream) -> io::Result<Message> {
    let value = text(stream)?;
    let said = |key: &str| value[key].as_str().map(String::from);
    if let Some(program) = said("program") {
        let args = value["args"].as_array().into_iter().flatten();
        return Ok(Message::Call(Call {
            program,
            args: args.filter_map(|a| a.as_str().map(String::from)).collect(),
            input: said("input"),
            netns: said("netns"),
            quiet: value["quiet"] == true,
            at: said("at"),
        }));
    }
    if let Some(status) = value["ended"].as_i64() {
        return Ok(Message::Ended(i32::try_from(status).unwrap_or(255)));
    }
    let failed = said("failed").map(Message::Failed);
    failed.or_else(|| said("note").map(Message::Note)).ok_or_else(|| wrong("no message"))
}

/// Sends a message that has no answer. A run that has ended reads no message.
pub fn tell(directory: &Path, message: &Message) {
    let value = match message {
        Message::Note(text) => json!({ "note": text }),
        Message::Ended(status) => json!({ "ended": status }),
        Message::Failed(text) => json!({ "failed": text }),
        Message::Call(_) => return,
    };
    let _ = UnixStream::connect(directory.join("socket")).and_then(|stream| write(&stream, &value));
}

/// Sends a call and returns its answer.
pub fn ask(directory: &Path, call: &Call) -> io::Result<Outcome> {
    let stream = UnixStream::connect(directory.join("socket"))?;
    let value = json!({
        "program": call.program, "args": call.args, "input": call.input, "netns": call.netns,
        "quiet": call.quiet, "at": call.at,
    });
    write(&stream, &value)?;
    let value = text(&stream)?;
    let said = |key: &str| value[key].as_str().unwrap_or("").to_string();
    let status = value["status"].as_u64().and_then(|n| u8::try_from(n).ok()).unwrap_or(255);
    Ok(Outcome { status, stdout: said("stdout"), stderr: said("stderr") })
}

/// Sends the answer to a call.
pub fn answer(stream: &UnixStream, outcome: &Outcome) -> io::Result<()> {
    let Outcome { status, stdout, stderr } = outcome;
    write(stream, &json!({ "status": status, "stdout": stdout, "stderr": stderr }))
}
