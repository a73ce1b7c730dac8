//! Packet sockets (packet(7)): any Ethernet interface, without its cooperation.
//!
//! A packet socket receives the frames that come in from the wire (or from the peer of a veth), not
//! those that the machine itself sends. They are copies: the machine's own stack sees them too, so
//! an interface that txweir forwards from should have no addresses of its own.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with, sockopt};

use crate::backend::Source;
use crate::counters::{Batch, Counters};
use crate::error::{OpenCause, OpenError};
use crate::frame::{BATCH_MAX, FrameRef, SKIP_MAX};
use crate::iface::Control;
use crate::name::IfName;
use crate::nic::{Calls, Nic};
use crate::sys;
use crate::vnet::{HDR_LEN_SHORT, VnetHdr};

/// Bytes of an 802.1Q tag.
const TAG_LEN: usize = 4;
/// Bytes in front of a tag: the two Ethernet addresses.
const ADDRESSES_LEN: usize = 12;

/// The options with which a packet socket is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketOptions {
    /// True to send around the interface's own queueing discipline (`PACKET_QDISC_BYPASS`). This
    /// saves some 10 % per frame, but a device without room then drops a frame that would have
    /// waited in a discipline. Use it only for an output that is paced below the device's rate.
    /// Default false.
    pub qdisc_bypass: bool,
    /// Bytes of each of the socket's two buffers. Default 4 MiB. The kernel counts its own overhead
    /// against them, and a super-frame takes about 70 KiB: the kernel's usual 208 KiB hold two or
    /// three. Without `CAP_NET_ADMIN` the system's maximum (`net.core.rmem_max`, `wmem_max`) bounds
    /// it.
    pub buffer_bytes: usize,
    /// True to open an interface that has a packet socket of txweir already, to watch it or to send
    /// only: two that forward would send each frame twice. Default false.
    pub beside_others: bool,
}

/// The part of a packet socket among those that share the frames of an interface: each gets the
/// flows of its part of a hash over both directions (`PACKET_FANOUT_HASH`, packet(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    /// It gets all.
    All,
    /// It is the first of a new group.
    First,
    /// It joins the group of this number.
    Of(u16),
}

impl Default for PacketOptions {
    fn default() -> Self {
        Self { qdisc_bypass: false, buffer_bytes: 4 << 20, beside_others: false }
    }
}

/// A packet socket bound to one interface, which it keeps promiscuous while it lives. Non-blocking.
#[derive(Debug)]
pub struct Packet {
    fd: OwnedFd,
    control: Control,
    name: IfName,
    /// Index of the interface, which stays the same when the interface is renamed.
    index: u32,
    counters: Counters,
    /// Frames received since the kernel was last asked for its tallies.
    since_asked: u32,
    /// Bound to the name of the interface while it lives, so that a second forwarder is refused.
    _claim: Option<OwnedFd>,
}

/// Frames received after which the kernel is asked for its tallies in any case: they have 32 bits,
/// and must not wrap around in between, even where a thousand frames are dropped for each that is
/// received.
const ASK_AFTER: u32 = 1 << 22;

impl Packet {
    /// Opens a packet socket on the interface `name` in the network namespace of the calling
    /// thread.
    ///
    /// # Errors
    /// [`OpenError`]: one sentence that says what to do.
    pub fn open(name: &IfName, options: &PacketOptions) -> Result<Self, OpenError> {
        Self::attach(name, options).map_err(|cause| OpenError { interface: name.to_string(), cause })
    }

    /// Asks the kernel for the frames that it had for the socket, and that it dropped before it. A
    /// socket that cannot tell still has its other tallies.
    fn ask(&mut self) {
        let [seen, missed] = sys::packet_statistics(self.fd.as_fd()).unwrap_or_default();
        self.counters.rx_seen += u64::from(seen);
        self.counters.rx_missed += u64::from(missed);
        self.since_asked = 0;
    }

    pub(crate) fn attach(name: &IfName, options: &PacketOptions) -> Result<Self, OpenCause> {
        Self::attach_as(name, options, Share::All).map(|(socket, _)| socket)
    }

    /// Opens this many packet sockets that share the frames of an interface: the kernel gives each
    /// frame to one of them, and all frames of a flow to the same one.
    pub(crate) fn attach_all(
        name: &IfName,
        options: &PacketOptions,
        sockets: usize,
    ) -> Result<Vec<Self>, OpenCause> {
        if sockets < 2 {
            return Self::attach(name, options).map(|socket| vec![socket]);
        }
        let (first, group) = Self::attach_as(name, options, Share::First)?;
        let mut all = vec![first];
        // The first one has the claim for all of them.
        let beside = PacketOptions { beside_others: true, ..*options };
        for _ in 1..sockets {
            all.push(Self::attach_as(name, &beside, Share::Of(group))?.0);
        }
        Ok(all)
    }

    /// Opens a packet socket, and returns it with the number of its group.
    fn attach_as(name: &IfName, options: &PacketOptions, share: Share) -> Result<(Self, u16), OpenCause> {
        let control = Control::open().map_err(|errno| OpenCause::system("open a socket for", errno))?;
        let index = control.index(name).map_err(|errno| OpenCause::system("look up", errno))?;
        let index = index.ok_or(OpenCause::Missing)?;
        if !control.is_ethernet(name).map_err(|errno| OpenCause::system("look up the type of", errno))? {
            return Err(OpenCause::NotEthernet);
        }
        // With protocol 0 the socket receives nothing. Binding sets the protocol and the interface
        // at once, so that no frame of another interface ever comes in.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None).map_err(
            |errno| match errno {
                Errno::PERM | Errno::ACCESS => OpenCause::PacketDenied,
                errno => OpenCause::system("open a packet socket for", errno),
            },
        )?;
        let claim = if options.beside_others { None } else { Some(claim(index)?) };
        let socket = fd.as_fd();
        let on = |option, what| {
            sys::packet_switch_on(socket, option).map_err(|errno| OpenCause::system(what, errno))
        };
        on(libc::PACKET_VNET_HDR, "ask for vnet headers on")?;
        on(libc::PACKET_AUXDATA, "ask for VLAN tags on")?;
        on(libc::PACKET_IGNORE_OUTGOING, "leave out outgoing frames on")?;
        if options.qdisc_bypass {
            on(libc::PACKET_QDISC_BYPASS, "bypass the queueing discipline of")?;
        }
        set_buffers(socket, options.buffer_bytes)
            .map_err(|errno| OpenCause::system("size the buffers of a packet socket on", errno))?;
        let shared = |errno| OpenCause::system("share the frames of", errno);
        // Only a bound socket can join, and one that is bound and has not joined gets all frames
        // beside the others.
        let joins = matches!(share, Share::Of(_));
        if joins {
            sys::set_deaf(socket, true).map_err(shared)?;
        }
        sys::packet_bind(socket, index, libc::ETH_P_ALL as u16) // 3
            .map_err(|errno| OpenCause::system("bind a packet socket to", errno))?;
        let group = match share {
            Share::All => Ok(0),
            Share::First => sys::packet_fanout(socket, None),
            Share::Of(group) => sys::packet_fanout(socket, Some(group)),
        };
        let group = group.map_err(shared)?;
        if joins {
            sys::set_deaf(socket, false).map_err(shared)?;
        }
        sys::packet_promiscuous(socket, index)
            .map_err(|errno| OpenCause::system("receive all frames of", errno))?;
        let (name, counters) = (name.clone(), Counters::default());
        Ok((Self { fd, control, name, index, counters, since_asked: 0, _claim: claim }, group))
    }
}

/// Claims an interface for one forwarder in its network namespace: two packet sockets get the same
/// frames. The claim is an abstract Unix socket address (unix(7)), which belongs to the namespace
/// and ends with the descriptor.
fn claim(index: u32) -> Result<OwnedFd, OpenCause> {
    let failed = |errno| OpenCause::system("claim", errno);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None).map_err(failed)?;
    let name = SocketAddrUnix::new_abstract_name(format!("txweir/packet/{index}").as_bytes());
    match bind(&socket, &name.map_err(failed)?) {
        Ok(()) => Ok(socket),
        Err(Errno::ADDRINUSE) => Err(OpenCause::Forwarded),
        Err(errno) => Err(failed(errno)),
    }
}

impl Source for Packet {
    /// A VLAN tag that the kernel took out is put back where it was. An error is the interface's
    /// (`ENODEV`: it is gone) or the system's. An interface that is only down delivers nothing
    /// until it is up again, and a fault of one frame is counted.
    fn recv(&mut self, frame: &mut [u8]) -> io::Result<Option<(VnetHdr, usize)>> {
        let mut raw = [0; HDR_LEN_SHORT];
        for _ in 0..SKIP_MAX {
            match sys::packet_recv(self.fd.as_fd(), &mut raw, frame) {
                Ok(got) => {
                    let mut hdr = VnetHdr::decode_short(&raw);
                    let mut len = got.len;
                    if let Some(tag) = got.tag {
                        len = insert_tag(frame, len, tag);
                        hdr = hdr.moved_by(TAG_LEN as u16); // 4
                    }
                    if len > frame.len() {
                        self.counters.rx_oversize += 1;
                        continue;
                    }
                    self.counters.received(&hdr, len);
                    self.since_asked += 1;
                    if self.since_asked >= ASK_AFTER {
                        self.ask();
                    }
                    return Ok(Some((hdr, len)));
                }
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                // A frame for which virtio has no type; the failed call has consumed it.
                Err(Errno::INVAL) => self.counters.rx_refused += 1,
                // The kernel reports this once, when the interface goes down or disappears.
                // An interface that is made again has another index, also under the same name.
                Err(Errno::NETDOWN) => {
                    return self.control.name_of(self.index).map(|_| None).map_err(Into::into);
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(None)
    }
}

impl Nic for Packet {
    fn kind(&self) -> &'static str {
        "packet"
    }
    fn name(&self) -> &IfName {
        &self.name
    }
    /// Returns the tallies, after it has asked the kernel for the frames that it dropped before the
    /// socket.
    fn counters(&mut self) -> Counters {
        self.ask();
        self.counters
    }
    fn is_up(&self) -> io::Result<bool> {
        Ok(self.control.is_up(&self.control.name_of(self.index)?)?)
    }
    fn mtu(&self) -> io::Result<usize> {
        Ok(self.control.mtu(&self.control.name_of(self.index)?)?)
    }
}

impl Calls for Packet {
    /// Sends by as few system calls as possible. The kernel cuts super-frames for a device that
    /// cannot.
    fn send_batch(&mut self, frames: &[FrameRef<'_>]) -> Batch {
        let mut done = Batch::new();
        let mut hdrs = [[0; HDR_LEN_SHORT]; BATCH_MAX];
        let mut bytes: [&[u8]; BATCH_MAX] = [&[]; BATCH_MAX];
        while done.gone() < frames.len() {
            let batch = &frames[done.gone()..frames.len().min(done.gone() + BATCH_MAX)];
            for ((hdr, bytes), frame) in hdrs.iter_mut().zip(&mut bytes).zip(batch) {
                *hdr = frame.hdr.encode_short();
                *bytes = frame.bytes;
            }
            self.counters.tx_calls += 1;
            match sys::packet_send(self.fd.as_fd(), &hdrs, &bytes[..batch.len()]) {
                Ok(count) => {
                    done.taken += count;
                    for frame in &batch[..count] {
                        self.counters.taken(&frame.hdr, frame.bytes.len());
                    }
                }
                Err(Errno::INTR) => {}
                Err(errno) if done.goes_on_after(self.counters.not_taken(errno)) => {}
                Err(_) => break,
            }
        }
        done
    }
}

impl AsFd for Packet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Sizes both buffers, beyond the system's maximum where that is allowed.
pub(crate) fn set_buffers(socket: BorrowedFd<'_>, bytes: usize) -> Result<(), Errno> {
    sockopt::set_socket_recv_buffer_size_force(socket, bytes)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(socket, bytes))?;
    sockopt::set_socket_send_buffer_size_force(socket, bytes)
        .or_else(|_| sockopt::set_socket_send_buffer_size(socket, bytes))
}

/// Puts a VLAN tag back behind the addresses. Returns the length with the tag. Without room it
/// changes nothing, and the returned length exceeds the buffer.
fn insert_tag(frame: &mut [u8], len: usize, [protocol, control]: [u16; 2]) -> usize {
    let tagged = len + TAG_LEN;
    if len >= ADDRESSES_LEN && tagged <= frame.len() {
        frame.copy_within(ADDRESSES_LEN..len, ADDRESSES_LEN + TAG_LEN);
        frame[ADDRESSES_LEN..ADDRESSES_LEN + 2].copy_from_slice(&protocol.to_be_bytes());
        frame[ADDRESSES_LEN + 2..ADDRESSES_LEN + TAG_LEN].copy_from_slice(&control.to_be_bytes());
    }
    tagged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_goes_behind_the_addresses() {
        let mut frame: Vec<u8> = (0..22).collect();
        assert_eq!(insert_tag(&mut frame, 18, [0x88a8, 0x2064]), 22);
        let expected = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0x88, 0xa8, 0x20, 0x64, 12, 13, 14, 15, 16, 17];
        assert_eq!(frame, expected);
        // No room: the caller sees a length beyond the buffer, and the frame is unchanged.
        assert_eq!(insert_tag(&mut frame, 19, [0x8100, 1]), 23);
        assert_eq!(frame, expected);
    }
}
