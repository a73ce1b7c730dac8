//! `Client`: sends requests to a daemon and waits for the replies.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::protocol::{Ask, LINE_MAX, Reply, Request};
use crate::socket::{self, SocketError};

/// Longest reply that is read, bytes without the end of its line. A daemon with ten thousand
/// classes shows them in some ten megabytes.
pub const REPLY_MAX: usize = 256 << 20;

/// A connection to a daemon.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
    path: PathBuf,
    next_id: u64,
}

/// The reason for a missing answer.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientError {
    /// No connection could be made.
    Socket(SocketError),
    /// The request is longer than a request may be; its length is given.
    TooLong(usize),
    /// The connection ended, or the daemon sent something other than a reply.
    Lost(PathBuf, String),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(error) => write!(f, "{error}"),
            Self::TooLong(len) => write!(
                f,
                "a request has at most {LINE_MAX} bytes, this one has {len}: cut the batch file in parts"
            ),
            Self::Lost(path, why) => write!(f, "no answer from the daemon at {}: {why}", path.display()),
        }
    }
}

impl std::error::Error for ClientError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Socket(error) => Some(error),
            _ => None,
        }
    }
}

impl Client {
    /// Connects to the daemon at `path`.
    ///
    /// # Errors
    /// No daemon serves there, or it cannot be reached.
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let stream = socket::connect(path).map_err(ClientError::Socket)?;
        Ok(Self { stream: BufReader::new(stream), path: path.to_path_buf(), next_id: 1 })
    }

    /// Sends a request and waits for the reply.
    ///
    /// # Errors
    /// The request is too long, or the daemon has ended.
    pub fn ask(&mut self, ask: &Ask) -> Result<Reply, ClientError> {
        let id = self.next_id;
        self.next_id += 1;
        let line = Request::line(id, ask);
        if line.len() > LINE_MAX + 1 {
            return Err(ClientError::TooLong(line.len() - 1));
        }
        let reply = self.exchange(&line).map_err(|e| self.lost(&e.to_string()))?;
        match serde_json::from_str::<Reply>(&reply) {
            Ok(reply) if reply.id == id => Ok(reply),
            // The daemon says why it ends the connection.
            Ok(reply) if reply.id.is_null() && reply.status != 0 => Err(self.lost(reply.stderr.trim_end())),
            Ok(reply) => Err(self.lost(&format!("the reply to request {} came for {id}", reply.id))),
            Err(_) if reply.is_empty() => Err(self.lost("it closed the connection")),
            Err(e) => Err(self.lost(&format!("what came is no reply: {e}"))),
        }
    }

    fn exchange(&mut self, line: &[u8]) -> io::Result<String> {
        self.stream.get_mut().write_all(line)?;
        let mut reply = Vec::new();
        let most = REPLY_MAX + 1; // and the end of the line
        (&mut self.stream).take(most as u64).read_until(b'\n', &mut reply)?;
        if reply.len() == most && !reply.ends_with(b"\n") {
            let message = format!("what came is no reply: it has more than {REPLY_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        String::from_utf8(reply).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.utf8_error()))
    }

    fn lost(&self, why: &str) -> ClientError {
        ClientError::Lost(self.path.clone(), why.to_owned())
    }
}
