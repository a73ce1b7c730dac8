//! A session of QUIC without secrets: the shape of a TLS 1.3 handshake, and keys that change
//! nothing.
//!
//! The lab measures the times and sizes of packets, and its links have no eavesdroppers. So both
//! ends exchange their transport parameters in as many flights as TLS would, each packet is as long
//! as with an AEAD of 16 bytes, and no byte is encrypted. There is no certificate: the server's
//! first flight is shorter than a real one.

use std::any::Any;
use std::sync::Arc;

use bytes::BytesMut;
use quinn_proto::crypto::{
    AeadKey, ClientConfig, CryptoError, ExportKeyingMaterialError, HandshakeTokenKey, HeaderKey, HmacKey,
    KeyPair, Keys, PacketKey, ServerConfig, Session, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError, TransportErrorCode};

/// Bytes of the tag that an AEAD of TLS 1.3 adds (RFC 9001 section 5.3).
const TAG: usize = 16;
/// Bytes that header protection samples (RFC 9001 section 5.4).
const SAMPLE: usize = 16;
/// Longest message of a handshake: transport parameters are some hundred bytes.
const MESSAGE_MAX: usize = 4_096;

/// Both configurations, and every key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Null;

/// Progress of a handshake. A client sends its parameters, reads a word and the server's
/// parameters, and ends with a word.
#[derive(Debug)]
struct Handshake {
    side: Side,
    own: Vec<u8>,
    peer: Option<TransportParameters>,
    /// Number of messages read and written.
    read: u8,
    written: u8,
    /// Bytes of an incomplete message.
    begun: Vec<u8>,
}

/// Writes a message: its length in two bytes, and its bytes.
fn message(body: &[u8], out: &mut Vec<u8>) {
    // Bodies are shorter than MESSAGE_MAX.
    out.extend((body.len() as u16).to_be_bytes());
    out.extend(body);
}

fn keys() -> Keys {
    Keys {
        header: KeyPair { local: Box::new(Null), remote: Box::new(Null) },
        packet: KeyPair { local: Box::new(Null), remote: Box::new(Null) },
    }
}

impl Handshake {
    fn new(side: Side, params: &TransportParameters) -> Self {
        let mut own = Vec::new();
        params.write(&mut own);
        Self { side, own, peer: None, read: 0, written: 0, begun: Vec::new() }
    }

    /// Takes a whole message. The first message of a client and the second of a server have
    /// parameters.
    fn take(&mut self, body: &[u8]) -> Result<(), TransportError> {
        let parameters = if self.side.is_server() { 0 } else { 1 };
        if self.read == parameters {
            self.peer = Some(TransportParameters::read(self.side, &mut &body[..])?);
        }
        self.read += 1;
        Ok(())
    }
}

impl Session for Handshake {
    fn initial_keys(&self, _: &ConnectionId, _: Side) -> Keys {
        keys()
    }
    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        None
    }
    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }
    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }
    fn early_data_accepted(&self) -> Option<bool> {
        None
    }
    fn is_handshaking(&self) -> bool {
        self.read < 2 || self.written < 2
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.begun.extend(buf);
        while let Some((len, rest)) = self.begun.split_first_chunk() {
            let len = usize::from(u16::from_be_bytes(*len));
            if len > MESSAGE_MAX {
                let code = TransportErrorCode::PROTOCOL_VIOLATION;
                return Err(TransportError { code, frame: None, reason: "a message is too long".into() });
            }
            let Some(body) = rest.get(..len).map(<[u8]>::to_vec) else { break };
            self.begun.drain(..2 + len);
            self.take(&body)?;
        }
        Ok(false)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        Ok(self.peer)
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        // The messages read so far allow this number of messages to be written; the last message of
        // a flight brings the next keys.
        match (self.side, self.read, self.written) {
            (Side::Client, _, 0) => {
                message(&self.own, buf);
                self.written = 1;
                None
            }
            (Side::Client, 1.., 1) => {
                self.written = 2;
                Some(keys())
            }
            (Side::Client, 2.., 2) => {
                message(b"f", buf);
                self.written = 3;
                Some(keys())
            }
            (Side::Server, 1.., 0) => {
                message(b"h", buf);
                self.written = 1;
                Some(keys())
            }
            (Side::Server, 1.., 1) => {
                message(&self.own, buf);
                self.written = 2;
                Some(keys())
            }
            _ => None,
        }
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        Some(KeyPair { local: Box::new(Null), remote: Box::new(Null) })
    }
    fn is_valid_retry(&self, _: &ConnectionId, _: &[u8], _: &[u8]) -> bool {
        false
    }
    fn export_keying_material(
        &self,
        _: &mut [u8],
        _: &[u8],
        _: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

impl ClientConfig for Null {
    fn start_session(
        self: Arc<Self>,
        _: u32,
        _: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        Ok(Box::new(Handshake::new(Side::Client, params)))
    }
}

impl ServerConfig for Null {
    fn initial_keys(&self, _: u32, _: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        Ok(keys())
    }
    fn retry_tag(&self, _: u32, _: &ConnectionId, _: &[u8]) -> [u8; 16] {
        [0; 16]
    }
    fn start_session(self: Arc<Self>, _: u32, params: &TransportParameters) -> Box<dyn Session> {
        Box::new(Handshake::new(Side::Server, params))
    }
}

impl PacketKey for Null {
    fn encrypt(&self, _: u64, buf: &mut [u8], _: usize) {
        let at = buf.len().saturating_sub(TAG);
        buf[at..].fill(0);
    }
    fn decrypt(&self, _: u64, _: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        let len = payload.len().checked_sub(TAG).ok_or(CryptoError)?;
        payload.truncate(len);
        Ok(())
    }
    fn tag_len(&self) -> usize {
        TAG
    }
    fn confidentiality_limit(&self) -> u64 {
        u64::MAX
    }
    fn integrity_limit(&self) -> u64 {
        u64::MAX
    }
}

impl HeaderKey for Null {
    fn decrypt(&self, _: usize, _: &mut [u8]) {}
    fn encrypt(&self, _: usize, _: &mut [u8]) {}
    fn sample_size(&self) -> usize {
        SAMPLE
    }
}

impl HmacKey for Null {
    /// Writes a nonzero sum, like a tag: the last bytes of a packet identify a stateless reset (RFC
    /// 9000 section 10.3).
    fn sign(&self, data: &[u8], out: &mut [u8]) {
        let mut sum = 0xcbf2_9ce4_8422_2325_u64;
        for (i, byte) in out.iter_mut().enumerate() {
            for d in data.iter().chain([&(i as u8)]) {
                sum = (sum ^ u64::from(*d)).wrapping_mul(0x0100_0000_01b3);
            }
            *byte = (sum >> 32) as u8 | 1;
        }
    }
    fn signature_len(&self) -> usize {
        32
    }
    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        let mut own = vec![0; signature.len()];
        self.sign(data, &mut own);
        if own == signature { Ok(()) } else { Err(CryptoError) }
    }
}

impl HandshakeTokenKey for Null {
    fn aead_from_hkdf(&self, _: &[u8]) -> Box<dyn AeadKey> {
        Box::new(Self)
    }
}

impl AeadKey for Null {
    fn seal(&self, _: &mut Vec<u8>, _: &[u8]) -> Result<(), CryptoError> {
        Ok(())
    }
    fn open<'a>(&self, data: &'a mut [u8], _: &[u8]) -> Result<&'a mut [u8], CryptoError> {
        Ok(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns parameters with all values at their default.
    fn defaults() -> TransportParameters {
        TransportParameters::read(Side::Client, &mut &[][..]).unwrap()
    }

    /// Lets one end write until it has no more messages. Returns the bytes, and the number of sets
    /// of keys.
    fn flight(end: &mut Handshake) -> (Vec<u8>, usize) {
        let (mut all, mut sets) = (Vec::new(), 0);
        loop {
            let before = all.len();
            let got = end.write_handshake(&mut all).is_some();
            sets += usize::from(got);
            if before == all.len() && !got {
                return (all, sets);
            }
        }
    }

    #[test]
    fn a_handshake_takes_three_flights_however_its_bytes_come() {
        let params = TransportParameters::read(Side::Client, &mut &[1, 1, 30][..]).unwrap();
        let mut c = Handshake::new(Side::Client, &params);
        let mut s = Handshake::new(Side::Server, &params);
        assert_eq!(flight(&mut s).1, 0, "a server waits for the client");
        let (hello, sets) = flight(&mut c);
        assert!(!hello.is_empty() && sets == 0 && c.peer.is_none());
        for byte in &hello {
            s.read_handshake(&[*byte]).unwrap();
        }
        assert!(s.peer.is_some());
        let (answer, sets) = flight(&mut s);
        assert_eq!((sets, s.is_handshaking()), (2, true));
        c.read_handshake(&answer[..3]).unwrap();
        assert_eq!(flight(&mut c), (Vec::new(), 1));
        c.read_handshake(&answer[3..]).unwrap();
        let (finished, sets) = flight(&mut c);
        assert_eq!((sets, c.is_handshaking()), (1, false));
        s.read_handshake(&finished).unwrap();
        assert!(!s.is_handshaking() && c.peer.is_some());
    }

    #[test]
    fn nonsense_is_an_error() {
        let mut s = Handshake::new(Side::Server, &defaults());
        assert!(s.read_handshake(&[0xff; 40]).is_err());
        let mut s = Handshake::new(Side::Server, &defaults());
        assert!(s.read_handshake(&[0, 3, 1, 200, 1]).is_err());
    }
}
