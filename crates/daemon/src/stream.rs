//! `Stream`: a client's connection as a session uses it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use rustix::net::sockopt::socket_peercred;

/// A connection that never waits: reading and writing answer `WouldBlock` instead.
pub trait Stream: Read + Write {
    /// Returns the user, the group and the process of the client as they were when it connected,
    /// for people.
    fn who(&self) -> String;
}

impl Stream for UnixStream {
    // unix(7), `SO_PEERCRED`.
    fn who(&self) -> String {
        socket_peercred(self).map_or_else(
            |_| "unknown user".to_owned(),
            |who| {
                let (uid, gid, pid) = (who.uid.as_raw(), who.gid.as_raw(), who.pid.as_raw_nonzero());
                format!("uid {uid}, gid {gid}, pid {pid}")
            },
        )
    }
}
