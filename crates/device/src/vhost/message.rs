//! The messages of vhost-user (QEMU's "Vhost-user Protocol", version 1): a header of three words,
//! and a body of fixed layout. All words have the byte order of the machine.

use std::fmt;

/// Bytes of the header of a message.
pub(super) const HEADER: usize = 12;
/// Most bytes of a body. The longest is the configuration space with the 12 bytes before it.
pub(super) const BODY_MAX: usize = 512;
/// Most descriptors beside a message: one for each region of memory.
pub(super) const FDS_MAX: usize = 8;
/// Most bytes of the configuration space that a message asks for (`VHOST_USER_MAX_CONFIG_SIZE`).
pub(super) const CONFIG_MAX: u32 = 256;

/// The bits of the flags that hold the version of the protocol.
const VERSION: u32 = 0b11;
/// The one version that there is.
const VERSION_1: u32 = 1;
/// The flag of a reply.
const IS_REPLY: u32 = 1 << 2;
/// The flag of a request that asks for a reply (`REPLY_ACK`).
const NEEDS_REPLY: u32 = 1 << 3;

/// The bit beside the index of a ring that says that no descriptor comes with it.
const NO_DESCRIPTOR: u64 = 1 << 8;
/// The bits of a word of 64 that hold the index of a ring.
const INDEX: u64 = 0xff;

/// Bits of the features of the protocol itself.
pub(super) mod protocol {
    /// Several queues.
    pub(crate) const MQ: u64 = 1 << 0;
    /// A reply to each request that asks for one.
    pub(crate) const REPLY_ACK: u64 = 1 << 3;
    /// Messages of the device, which has none so far; User-Mode Linux takes the interrupts of the
    /// rings only from a device that could have some.
    pub(crate) const BACKEND_REQ: u64 = 1 << 5;
    /// Notifications of rings are messages: the guest's time is not that of the machine.
    pub(crate) const IN_BAND: u64 = 1 << 14;
    /// The configuration space of the device.
    pub(crate) const CONFIG: u64 = 1 << 9;
    /// The request that resets the device.
    pub(crate) const RESET_DEVICE: u64 = 1 << 13;
    /// All that a card in the machine's own time has.
    pub(crate) const ALL: u64 = MQ | REPLY_ACK | BACKEND_REQ | CONFIG | RESET_DEVICE;
}

/// A piece of the guest's memory: bytes of a file, and their places in both address spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    /// The address by which the guest knows it.
    pub(super) guest: u64,
    /// Its bytes.
    pub(super) size: u64,
    /// The address by which the frontend knows it.
    pub(super) user: u64,
    /// The offset in the file.
    pub(super) offset: u64,
}

/// The places of the three parts of a ring, as the frontend addresses them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Places {
    /// The table of descriptors.
    pub(super) table: u64,
    /// The ring that the guest writes.
    pub(super) avail: u64,
    /// The ring that the device writes.
    pub(super) used: u64,
}

/// A request of the frontend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    GetFeatures,
    SetFeatures(u64),
    SetOwner,
    ResetOwner,
    SetMemTable(Vec<Region>),
    /// A ring, and the number of its descriptors.
    SetVringNum(u32, u32),
    SetVringAddr(u32, Places),
    /// A ring, and the index at which it goes on.
    SetVringBase(u32, u32),
    GetVringBase(u32),
    /// A ring, and true if a descriptor comes with the message.
    SetVringKick(u32, bool),
    SetVringCall(u32, bool),
    SetVringErr(u32, bool),
    GetProtocolFeatures,
    SetProtocolFeatures(u64),
    GetQueueNum,
    SetVringEnable(u32, bool),
    /// The socket for messages of the device comes beside it.
    SetBackendReqFd,
    /// A range of the configuration space: offset and bytes.
    GetConfig(u32, u32),
    SetConfig,
    ResetDevice,
    /// The guest has made chains of a ring available.
    Kick(u32),
}

/// The reason for which a message is refused, in words that complete "message NAME: ".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused(pub(super) String);

impl Refused {
    pub(super) fn given(expected: &str, given: impl fmt::Display) -> Self {
        Self(format!("expected {expected}, given {given}"))
    }
}

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) number: u32,
    pub(super) needs_reply: bool,
    /// Bytes of the body.
    pub(super) size: usize,
}

impl Header {
    pub(super) fn read(raw: &[u8; HEADER]) -> Result<Self, Refused> {
        let mut words = Words(raw);
        let [number, flags, size] = [words.u32(), words.u32(), words.u32()];
        if flags & VERSION != VERSION_1 {
            return Err(Refused::given("version 1 of the protocol", flags & VERSION));
        }
        match usize::try_from(size) {
            Ok(size) if size <= BODY_MAX => Ok(Self { number, needs_reply: flags & NEEDS_REPLY != 0, size }),
            _ => Err(Refused::given(&format!("at most {BODY_MAX} bytes"), size)),
        }
    }
}

/// Returns the bytes of a reply.
pub(super) fn reply(number: u32, body: &[u8]) -> Vec<u8> {
    let mut raw = Vec::with_capacity(HEADER + body.len());
    let size = body.len() as u32; // at most BODY_MAX
    for word in [number, VERSION_1 | IS_REPLY, size] {
        raw.extend(word.to_ne_bytes());
    }
    raw.extend(body);
    raw
}

/// The number of the device's message that it has used chains of a ring
/// (`VHOST_USER_BACKEND_VRING_CALL`).
const CALL: u32 = 4;
/// Bytes of its reply.
pub(super) const CALLED: usize = HEADER + 8;

/// Returns the bytes of the device's message about a ring, which asks for a reply.
pub(super) fn call(ring: u32) -> Vec<u8> {
    [CALL, VERSION_1 | NEEDS_REPLY, 8, ring, 0].into_iter().flat_map(u32::to_ne_bytes).collect()
}

/// Returns true if this is the reply to such a message, and the frontend has obeyed.
pub(super) fn is_called(raw: &[u8; CALLED]) -> bool {
    let mut words = Words(raw);
    let [number, flags, size] = [words.u32(), words.u32(), words.u32()];
    [number, flags, size] == [CALL, VERSION_1 | IS_REPLY, 8] && words.u64() == 0
}

/// The words of a message, in order; zero where it ends.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut raw = [0; N];
        let n = N.min(self.0.len());
        raw[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        raw
    }
    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }
    fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.take())
    }
    /// Reads the index of a ring, and whether a descriptor comes with it.
    fn ring(&mut self) -> (u32, bool) {
        let word = self.u64();
        ((word & INDEX) as u32, word & NO_DESCRIPTOR == 0) // 8 bits
    }
}

/// Declares the numbers of the requests, with their names and the least bytes of their bodies.
macro_rules! requests {
    ($($number:literal $name:literal $least:literal $read:expr;)*) => {
        /// Returns the name of a request, for people.
        pub(super) fn name(number: u32) -> String {
            match number {
                $($number => $name.to_owned(),)*
                other => format!("number {other}"),
            }
        }

        /// Reads a request.
        ///
        /// # Errors
        /// The device has no request of this number, or the body is not one of its bodies.
        pub(super) fn read(number: u32, body: &[u8]) -> Result<Request, Refused> {
            match number {
                $($number => {
                    let least: usize = $least;
                    if body.len() < least {
                        return Err(Refused::given(concat!("at least ", $least, " bytes"), body.len()));
                    }
                    let read: fn(&mut Words<'_>) -> Result<Request, Refused> = $read;
                    read(&mut Words(body))
                })*
                _ => Err(Refused("this device does not have it".to_owned())),
            }
        }
    };
}

requests! {
    1 "GET_FEATURES" 0 |_| Ok(Request::GetFeatures);
    2 "SET_FEATURES" 8 |words| Ok(Request::SetFeatures(words.u64()));
    3 "SET_OWNER" 0 |_| Ok(Request::SetOwner);
    4 "RESET_OWNER" 0 |_| Ok(Request::ResetOwner);
    5 "SET_MEM_TABLE" 8 regions;
    8 "SET_VRING_NUM" 8 |words| Ok(Request::SetVringNum(words.u32(), words.u32()));
    9 "SET_VRING_ADDR" 40 places;
    10 "SET_VRING_BASE" 8 |words| Ok(Request::SetVringBase(words.u32(), words.u32()));
    11 "GET_VRING_BASE" 8 |words| Ok(Request::GetVringBase(words.u32()));
    12 "SET_VRING_KICK" 8 |words| { let (ring, fd) = words.ring(); Ok(Request::SetVringKick(ring, fd)) };
    13 "SET_VRING_CALL" 8 |words| { let (ring, fd) = words.ring(); Ok(Request::SetVringCall(ring, fd)) };
    14 "SET_VRING_ERR" 8 |words| { let (ring, fd) = words.ring(); Ok(Request::SetVringErr(ring, fd)) };
    15 "GET_PROTOCOL_FEATURES" 0 |_| Ok(Request::GetProtocolFeatures);
    16 "SET_PROTOCOL_FEATURES" 8 |words| Ok(Request::SetProtocolFeatures(words.u64()));
    17 "GET_QUEUE_NUM" 0 |_| Ok(Request::GetQueueNum);
    18 "SET_VRING_ENABLE" 8 |words| Ok(Request::SetVringEnable(words.u32(), words.u32() != 0));
    21 "SET_BACKEND_REQ_FD" 0 |_| Ok(Request::SetBackendReqFd);
    24 "GET_CONFIG" 12 |words| Ok(Request::GetConfig(words.u32(), words.u32()));
    25 "SET_CONFIG" 12 |_| Ok(Request::SetConfig);
    34 "RESET_DEVICE" 0 |_| Ok(Request::ResetDevice);
    35 "VRING_KICK" 8 |words| Ok(Request::Kick(words.u32()));
}

fn regions(words: &mut Words<'_>) -> Result<Request, Refused> {
    let [count, _] = [words.u32(), words.u32()];
    let room = words.0.len() / 32;
    if count as usize > FDS_MAX.min(room) {
        return Err(Refused::given(&format!("at most {} regions", FDS_MAX.min(room)), count));
    }
    let mut read = || {
        let [guest, size, user, offset] = [words.u64(), words.u64(), words.u64(), words.u64()];
        Region { guest, size, user, offset }
    };
    Ok(Request::SetMemTable((0..count).map(|_| read()).collect()))
}

fn places(words: &mut Words<'_>) -> Result<Request, Refused> {
    let [ring, flags] = [words.u32(), words.u32()];
    if flags != 0 {
        // The one flag asks for a log of the memory that the device writes, which is not offered.
        return Err(Refused::given("no flags", format!("{flags:#x}")));
    }
    let [table, used, avail] = [words.u64(), words.u64(), words.u64()];
    Ok(Request::SetVringAddr(ring, Places { table, avail, used }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(all: &[u32]) -> Vec<u8> {
        all.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn a_message_in_bytes() {
        let raw: [u8; HEADER] = words(&[8, 1 | 8, 8]).try_into().unwrap();
        let header = Header::read(&raw).unwrap();
        assert_eq!(header, Header { number: 8, needs_reply: true, size: 8 });
        assert_eq!(read(8, &words(&[3, 256])), Ok(Request::SetVringNum(3, 256)));
        assert_eq!(read(35, &words(&[3, 0])), Ok(Request::Kick(3)));
        assert_eq!(call(3), words(&[4, 1 | 8, 8, 3, 0]));
        for (done, status) in [(true, 0), (false, 1)] {
            let raw: [u8; CALLED] = words(&[4, 5, 8, status, 0]).try_into().unwrap();
            assert_eq!(is_called(&raw), done);
        }
        assert_eq!(reply(8, &1u64.to_ne_bytes()), [words(&[8, 5, 8]), 1u64.to_ne_bytes().to_vec()].concat());
    }

    #[test]
    fn places_come_in_the_order_table_used_avail() {
        let body = words(&[2, 0, 10, 0, 20, 0, 30, 0, 99, 0]);
        let places = Places { table: 10, avail: 30, used: 20 };
        assert_eq!(read(9, &body), Ok(Request::SetVringAddr(2, places)));
    }

    #[test]
    fn refusals_say_what_was_expected() {
        let message = |number, body: &[u8]| read(number, body).unwrap_err().0;
        assert_eq!(message(8, &[0; 4]), "expected at least 8 bytes, given 4");
        assert_eq!(message(5, &words(&[9, 0])), "expected at most 0 regions, given 9");
        assert_eq!(message(9, &words(&[0, 1, 0, 0, 0, 0, 0, 0, 0, 0])), "expected no flags, given 0x1");
        assert_eq!(message(36, &[]), "this device does not have it");
        let raw: [u8; HEADER] = words(&[1, 2, 0]).try_into().unwrap();
        assert_eq!(Header::read(&raw).unwrap_err().0, "expected version 1 of the protocol, given 2");
        let raw: [u8; HEADER] = words(&[1, 1, 513]).try_into().unwrap();
        assert_eq!(Header::read(&raw).unwrap_err().0, "expected at most 512 bytes, given 513");
    }
}
