//! Replies: acknowledgements, and listings in parts.

use crate::client::Client;
use crate::message::{HEAD, Header, Message, flag, kind, message};
use crate::refusal::Refusal;

/// Bytes of a part of a listing: what Linux fills for a client that reads a page at a time.
const PART: usize = 8192;
/// Attributes of an acknowledgement.
const TEXT: u16 = 1;
/// Longest text of a refusal, bytes.
const TEXT_MAX: usize = 1024;

/// Returns the acknowledgement of a request.
pub(crate) fn acknowledgement(request: &Message<'_>, done: &Result<(), Refusal>, client: &Client) -> Vec<u8> {
    let header = request.header;
    let (error, text) = match done {
        Ok(()) => (0, ""),
        Err(refusal) => (-refusal.errno, cut(&refusal.text)),
    };
    // A success repeats the head alone, an error the message, unless the client wants it short.
    let capped = error == 0 || client.cap_ack;
    let said = client.ext_ack && !text.is_empty();
    let mut flags = if capped { flag::CAPPED } else { 0 };
    flags |= if said { flag::ACK_TLVS } else { 0 };
    let repeated = if capped { request.whole.get(..HEAD) } else { Some(request.whole) };
    let header = Header { kind: kind::ERROR, flags, seq: header.seq, port: client.port };
    message(header, |w| {
        w.put(&i32::to_ne_bytes(error));
        w.put(repeated.unwrap_or(&[]));
        w.0.resize(crate::wire::aligned(w.0.len()), 0);
        if said {
            w.text(TEXT, text);
        }
    })
}

/// Returns a text without what is too long.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_MAX)]
}

/// Returns the packets of a listing: its messages, several in a packet, and the end.
pub(crate) fn listing(messages: Vec<Vec<u8>>, header: Header) -> Vec<Vec<u8>> {
    let end = message(Header { kind: kind::DONE, ..header }, |w| w.put(&[0; 4]));
    let mut packets: Vec<Vec<u8>> = Vec::new();
    for one in messages.into_iter().chain([end]) {
        match packets.last_mut() {
            Some(last) if last.len() + one.len() <= PART => last.extend(one),
            _ => packets.push(one),
        }
    }
    packets
}
