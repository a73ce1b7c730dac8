//! A tunnel of Ethernet frames in UDP datagrams: VXLAN (RFC 7348), with one peer and one network
//! identifier.
//!
//! The other end is another txweir, or a `vxlan` device of a kernel. A burst leaves as trains of
//! datagrams of one size, each by one system call, and the segments of a super-frame are a train
//! (`UDP_SEGMENT`); datagrams that come in are joined by the kernel likewise (`UDP_GRO`).
//! Congestion marks pass the tunnel both ways (RFC 6040): a mark that a qdisc sets here is seen
//! by the network of the tunnel, and a mark of that network reaches the receiver of the frame.
//!
//! The port of origin is the tunnel's own, and not a hash of the frame (RFC 7348 section 5): a
//! network with several paths takes one of them. The datagrams' DSCP is 0. Both ends must allow the
//! MTU: a frame that is too long for the path is lost alone, and counted as refused.

mod ecn;
mod inbox;
mod train;

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::str::FromStr;

use quinn_udp::{EcnCodepoint, Transmit, UdpSocketState};
use rustix::io::Errno;

use crate::backend::Source;
use crate::counters::{Batch, Counters};
use crate::error::{OpenCause, OpenError};
use crate::frame::{BATCH_MAX, FrameRef, SKIP_MAX};
use crate::name::IfName;
use crate::nic::{Calls, Nic};
use crate::packet::set_buffers;
use crate::rtnl;
use crate::segment::left_undone;
use crate::sys;
use crate::vnet::VnetHdr;
use crate::vxlan::inbox::Inbox;
use crate::vxlan::train::Train;

/// Bytes of the header in front of each frame (RFC 7348 section 5).
const HEADER_LEN: usize = 8;
/// Flags of the header: the network identifier is valid.
const FLAG_VNI: u8 = 0x08;
/// Bytes of the least frame: an Ethernet header.
const FRAME_MIN: usize = 14;
/// The port of the protocol (RFC 7348 section 5).
const PORT: u16 = 4789;
/// Bytes of each of the socket's two buffers, as those of a packet socket.
const BUFFER_BYTES: usize = 4 << 20;
/// The MTU of a path that is not known: that of Ethernet.
const PATH_MTU: usize = 1500;

/// A network identifier: 24 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Vni(u32);

impl Vni {
    /// Returns the identifier of this number; `None` above 16 777 215.
    #[must_use]
    pub fn new(number: u32) -> Option<Self> {
        (number < 1 << 24).then_some(Self(number))
    }

    /// Returns its number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    fn header(self) -> [u8; HEADER_LEN] {
        let [_, a, b, c] = self.0.to_be_bytes();
        [FLAG_VNI, 0, 0, 0, a, b, c, 0]
    }

    /// Returns the frame in a datagram of this network; `None` for any other datagram. Reserved
    /// bits are not read (RFC 7348 section 5).
    fn frame_in(self, datagram: &[u8]) -> Option<&[u8]> {
        let (header, frame) = datagram.split_first_chunk::<HEADER_LEN>()?;
        let mine = header[0] & FLAG_VNI != 0 && header[4..7] == self.header()[4..7];
        (mine && frame.len() >= FRAME_MIN).then_some(frame)
    }
}

/// The place of a tunnel: `VNI,LOCAL,REMOTE`. The addresses are of one version of IP; the port of
/// each is 4789 unless another one stands behind it (`192.0.2.1:5000`, `[2001:db8::1]:5000`).
///
/// ```
/// use txweir_device::VxlanPlace;
/// let place: VxlanPlace = "42,192.0.2.1,192.0.2.2:5000".parse()?;
/// assert_eq!((place.vni.number(), place.local.port(), place.remote.port()), (42, 4789, 5000));
/// assert_eq!(place.to_string(), "42,192.0.2.1,192.0.2.2:5000");
/// # Ok::<(), txweir_device::VxlanPlaceError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VxlanPlace {
    /// The network identifier.
    pub vni: Vni,
    /// The address of this end. Port 0 takes any free one.
    pub local: SocketAddr,
    /// The address of the other end. Datagrams from other addresses are refused, whatever their
    /// port.
    pub remote: SocketAddr,
}

/// The reason for which a text is not the place of a tunnel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum VxlanPlaceError {
    /// Another number of words; the text is given.
    Form(String),
    /// A word that is not a network identifier.
    Vni(String),
    /// A word that is not the address of an end.
    Address(String),
    /// A remote address that is no address of one machine.
    Remote(IpAddr),
    /// Addresses of different versions of IP.
    Versions,
}

impl fmt::Display for VxlanPlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form(text) => write!(f, "`{text}`: expected VNI,LOCAL,REMOTE (42,192.0.2.1,192.0.2.2)"),
            Self::Vni(word) => write!(f, "`{word}`: expected a network identifier, 0 to 16777215"),
            Self::Address(word) => {
                write!(f, "`{word}`: expected an address, or ADDRESS:PORT, and [ADDRESS]:PORT for IPv6")
            }
            Self::Remote(ip) => write!(f, "`{ip}`: expected the address of one machine as REMOTE"),
            Self::Versions => write!(f, "LOCAL and REMOTE: expected two addresses of one version of IP"),
        }
    }
}

impl std::error::Error for VxlanPlaceError {}

impl FromStr for VxlanPlace {
    type Err = VxlanPlaceError;

    fn from_str(text: &str) -> Result<Self, VxlanPlaceError> {
        let words: Vec<&str> = text.split(',').collect();
        let [vni, local, remote] = words[..] else { return Err(VxlanPlaceError::Form(text.to_owned())) };
        let number = vni.parse().ok().and_then(Vni::new);
        let vni = number.ok_or_else(|| VxlanPlaceError::Vni(vni.to_owned()))?;
        let (local, remote) = (address(local)?, address(remote)?);
        if local.is_ipv4() != remote.is_ipv4() {
            return Err(VxlanPlaceError::Versions);
        }
        let ip = remote.ip();
        let broadcast = ip == IpAddr::V4(Ipv4Addr::BROADCAST);
        if ip.is_unspecified() || ip.is_multicast() || broadcast || remote.port() == 0 {
            return Err(VxlanPlaceError::Remote(ip));
        }
        Ok(Self { vni, local, remote })
    }
}

fn address(word: &str) -> Result<SocketAddr, VxlanPlaceError> {
    let alone = word.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, PORT));
    alone.or_else(|_| word.parse()).map_err(|_| VxlanPlaceError::Address(word.to_owned()))
}

impl fmt::Display for VxlanPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.vni.0)?;
        for end in [self.local, self.remote] {
            match end.port() {
                PORT => write!(f, ",{}", end.ip())?,
                _ => write!(f, ",{end}")?,
            }
        }
        Ok(())
    }
}

/// One end of a tunnel. Non-blocking.
#[derive(Debug)]
pub struct Vxlan {
    socket: UdpSocket,
    state: UdpSocketState,
    place: VxlanPlace,
    name: IfName,
    mtu: usize,
    counters: Counters,
    train: Train,
    inbox: Inbox,
}

impl Vxlan {
    /// Opens one end of a tunnel in the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`OpenError`]: one sentence that says what to do.
    pub fn open(place: &VxlanPlace) -> Result<Self, OpenError> {
        Self::attach(place, &name_of(place.vni))
            .map_err(|cause| OpenError { interface: place.to_string(), cause })
    }

    pub(crate) fn attach(place: &VxlanPlace, name: &IfName) -> Result<Self, OpenCause> {
        let socket = UdpSocket::bind(place.local).map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::ADDRNOTAVAIL) => OpenCause::NoAddress(place.local.ip()),
            _ => OpenCause::System { what: "bind the local address of", error },
        })?;
        let state = UdpSocketState::new((&socket).into())
            .map_err(|error| OpenCause::System { what: "set up the socket of", error })?;
        set_buffers(socket.as_fd(), BUFFER_BYTES)
            .map_err(|errno| OpenCause::system("size the buffers of", errno))?;
        let header = HEADER_LEN + FRAME_MIN + 8 + if place.remote.is_ipv4() { 20 } else { 40 };
        let path_mtu = rtnl::path_mtu(place.local.ip(), place.remote).unwrap_or(PATH_MTU);
        let mtu = path_mtu.saturating_sub(header);
        let train = Train::new(HEADER_LEN + FRAME_MIN + mtu);
        let (place, name, counters) = (*place, name.clone(), Counters::default());
        Ok(Self { socket, state, place, name, mtu, counters, train, inbox: Inbox::new() })
    }

    /// Returns the address of this end, with the port that the system has chosen.
    ///
    /// # Errors
    /// The errors of getsockname(2).
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Sends the train. True if it has left; otherwise the frames that it touches are lost or wait.
    fn send(&mut self) -> Result<(), Errno> {
        let transmit = Transmit {
            destination: self.place.remote,
            ecn: EcnCodepoint::from_bits(self.train.ecn() as u8),
            contents: self.train.bytes(),
            segment_size: self.train.size(),
            src_ip: None,
        };
        self.counters.tx_calls += 1;
        self.state.try_send((&self.socket).into(), &transmit).map_err(|error| {
            match Errno::from_io_error(&error) {
                // No way to the other end now is as good as an interface that is down, and a
                // firewall's refusal concerns the frame.
                Some(Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::ADDRNOTAVAIL | Errno::CONNREFUSED) => {
                    Errno::NETDOWN
                }
                Some(Errno::PERM | Errno::ACCESS) => Errno::INVAL,
                Some(errno) => errno,
                None => Errno::IO,
            }
        })
    }
}

/// Returns the name of the tunnel of a network.
pub(crate) fn name_of(vni: Vni) -> IfName {
    // At most 8 digits: a name of at most 13 bytes, each of which a name may have.
    IfName::known(format!("vxlan{}", vni.0))
}

impl Source for Vxlan {
    /// A datagram of another sender or of another network is refused, and counted; so is a marked
    /// one whose frame takes no marks (RFC 6040 section 4.2).
    fn recv(&mut self, room: &mut [u8]) -> io::Result<Option<(VnetHdr, usize)>> {
        for _ in 0..SKIP_MAX {
            if !self.inbox.has_some() && !self.inbox.fill(&self.socket, &self.state)? {
                return Ok(None);
            }
            let Some(datagram) = self.inbox.take() else { continue };
            let frame = self.place.vni.frame_in(datagram.bytes);
            let Some(frame) = frame.filter(|_| datagram.from == self.place.remote.ip()) else {
                self.counters.rx_refused += 1;
                continue;
            };
            let Some(room) = room.get_mut(..frame.len()) else {
                self.counters.rx_oversize += 1;
                continue;
            };
            room.copy_from_slice(frame);
            if !ecn::arrived(room, datagram.ecn) {
                self.counters.rx_refused += 1;
                continue;
            }
            // A kernel on this machine leaves the checksum of the frame to a card: a veth is none.
            let (hdr, len) = (left_undone(room).unwrap_or_default(), frame.len());
            self.counters.received(&hdr, len);
            return Ok(Some((hdr, len)));
        }
        Ok(None)
    }
}

impl Nic for Vxlan {
    fn kind(&self) -> &'static str {
        "vxlan"
    }
    fn name(&self) -> &IfName {
        &self.name
    }
    /// Returns the tallies, after it has asked the kernel for the datagrams that found the buffer
    /// full. Such a datagram counts as one frame.
    fn counters(&mut self) -> Counters {
        self.counters.rx_missed = u64::from(sys::socket_drops(self.socket.as_fd()).unwrap_or_default());
        self.counters.rx_seen = self.counters.rx_frames + self.counters.rx_lost();
        self.counters
    }
    /// A tunnel has no state of its own.
    fn is_up(&self) -> io::Result<bool> {
        Ok(true)
    }
    fn has_frames(&self) -> bool {
        self.inbox.has_some()
    }
    /// Returns the MTU of the path, as the system knew it when the tunnel was opened, less the
    /// headers of the tunnel.
    fn mtu(&self) -> io::Result<usize> {
        Ok(self.mtu)
    }
}

impl Calls for Vxlan {
    fn send_batch(&mut self, frames: &[FrameRef<'_>]) -> Batch {
        let mut done = Batch::new();
        // Bound: each turn takes a frame or a part of one off the batch, or is the last one, but
        // for the one turn in which the kernel refuses to cut.
        while done.gone() < frames.len() {
            let rest = &frames[done.gone()..frames.len().min(done.gone() + BATCH_MAX)];
            let most = self.state.max_gso_segments().max(1);
            if self.train.fill(rest, self.place.vni, most).is_err() {
                self.train.forget();
                self.counters.tx_lost_refused += 1;
                done.lost += 1;
                continue;
            }
            match self.send() {
                Ok(()) => {
                    for frame in &rest[..self.train.frames()] {
                        self.counters.taken(&frame.hdr, frame.bytes.len());
                    }
                    done.taken += self.train.frames();
                    self.train.has_left();
                }
                // The device of the path cannot cut: datagrams leave one by one from now on.
                Err(Errno::IO | Errno::INVAL)
                    if self.train.size().is_some() && self.state.max_gso_segments() < most => {}
                Err(errno) => {
                    let full = errno == Errno::AGAIN;
                    let touched = if full { 1 } else { self.train.touched() };
                    // The reason concerns all frames of the train.
                    for _ in 0..touched {
                        if !done.goes_on_after(self.counters.not_taken(errno)) {
                            return done;
                        }
                    }
                    self.train.forget();
                }
            }
        }
        done
    }

    fn abandoned(&mut self) {
        self.train.forget();
    }
}

impl AsFd for Vxlan {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        for text in ["0,192.0.2.1,192.0.2.2", "16777215,[::1]:5000,2001:db8::1", "1,0.0.0.0:0,10.0.0.1:9"] {
            assert_eq!(text.parse::<VxlanPlace>().unwrap().to_string(), text);
        }
        let message = |text: &str| text.parse::<VxlanPlace>().unwrap_err().to_string();
        let form = "expected VNI,LOCAL,REMOTE (42,192.0.2.1,192.0.2.2)";
        assert_eq!(message("eth0"), format!("`eth0`: {form}"));
        assert_eq!(message("1,10.0.0.1"), format!("`1,10.0.0.1`: {form}"));
        let number = "expected a network identifier, 0 to 16777215";
        assert_eq!(message("16777216,10.0.0.1,10.0.0.2"), format!("`16777216`: {number}"));
        assert_eq!(message("x,10.0.0.1,10.0.0.2"), format!("`x`: {number}"));
        let address = "expected an address, or ADDRESS:PORT, and [ADDRESS]:PORT for IPv6";
        assert_eq!(message("1,10.0.0.1:70000,10.0.0.2"), format!("`10.0.0.1:70000`: {address}"));
        assert_eq!(message("1,host,10.0.0.2"), format!("`host`: {address}"));
        let remote = "expected the address of one machine as REMOTE";
        for ip in ["0.0.0.0", "239.1.1.1", "255.255.255.255"] {
            assert_eq!(message(&format!("1,10.0.0.1,{ip}")), format!("`{ip}`: {remote}"));
        }
        let versions = "LOCAL and REMOTE: expected two addresses of one version of IP";
        assert_eq!(message("1,10.0.0.1,::1"), versions);
    }

    #[test]
    fn datagrams_of_others_have_no_frame_here() {
        let vni = Vni::new(0x12_3456).unwrap();
        assert_eq!(Vni::new(1 << 24), None);
        // RFC 7348 section 5: flags, 24 bits, the identifier, 8 bits.
        assert_eq!(vni.header(), [8, 0, 0, 0, 0x12, 0x34, 0x56, 0]);
        let frame = [7; FRAME_MIN];
        let datagram = [&vni.header()[..], &frame].concat();
        assert_eq!(vni.frame_in(&datagram), Some(&frame[..]));
        let changed = |at: usize, byte: u8| {
            let mut other = datagram.clone();
            other[at] = byte;
            vni.frame_in(&other).is_some()
        };
        assert!(changed(0, 0xff) && changed(1, 9) && changed(7, 9), "reserved bits are not read");
        assert!(!changed(0, 0xf7) && !changed(4, 0) && !changed(6, 0));
        assert!((0..datagram.len()).all(|len| vni.frame_in(&datagram[..len]).is_none()));
    }
}
