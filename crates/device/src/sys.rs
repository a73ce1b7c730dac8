//! Safe wrappers around the system calls that rustix does not have: interface and TUN ioctls,
//! packet socket options, `recvmsg` with packet auxiliary data, `sendmmsg`, and the signal mask.
//! Together with the two modules below it, for XDP sockets, this is the only unsafe code of the
//! workspace's live path. Each function here is a single call, with its own argument structures on
//! its own stack.

pub(crate) mod bpf;
pub(crate) mod xsk;

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use libc::{c_int, c_void};
use rustix::io::Errno;

use crate::frame::BATCH_MAX;
use crate::name::IfName;
use crate::vnet::HDR_LEN_SHORT;

/// `ETHTOOL_GDRVINFO` (linux/ethtool.h): reports the driver of an interface. Needs no privilege.
const ETHTOOL_GDRVINFO: u32 = 3;

/// `ETHTOOL_GCHANNELS` (linux/ethtool.h): reports the queues of an interface. Needs no privilege.
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// `struct ethtool_drvinfo` (linux/ethtool.h), which libc does not have.
#[repr(C)]
struct Drvinfo {
    cmd: u32,
    driver: [u8; 32],
    version: [u8; 32],
    fw_version: [u8; 32],
    bus_info: [u8; 32],
    erom_version: [u8; 32],
    reserved2: [u8; 12],
    lengths: [u32; 5],
}

/// Returns the error of the last call when `result` is negative.
fn check(result: c_int) -> Result<c_int, Errno> {
    if result >= 0 { Ok(result) } else { Err(last_errno()) }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

fn request(name: &IfName) -> libc::ifreq {
    // SAFETY: ifreq is plain C data; all zero is a valid value of it and of each union member.
    let mut req: libc::ifreq = unsafe { zeroed() };
    // An IfName is shorter than the field, so that its last byte stays the terminating zero.
    for (to, from) in req.ifr_name.iter_mut().zip(name.as_str().bytes()) {
        *to = from as libc::c_char; // C's char may be signed; the bits are the same
    }
    req
}

/// Performs one ioctl that takes an `ifreq` and fills it in.
///
/// # Safety
/// `op` must take a pointer to `ifreq` and must follow only valid pointers in `req`.
unsafe fn if_ioctl(fd: BorrowedFd<'_>, op: libc::Ioctl, req: &mut libc::ifreq) -> Result<(), Errno> {
    // SAFETY: the descriptor is open for the borrow; op takes an ifreq by the caller's promise; req
    // is one.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), op, ptr::from_mut(req)) }).map(drop)
}

/// `SIOCGIFFLAGS`: returns the interface's `IFF_` flags.
pub(crate) fn if_flags(fd: BorrowedFd<'_>, name: &IfName) -> Result<c_int, Errno> {
    let mut req = request(name);
    // SAFETY: the operation takes an ifreq without pointers and fills in ifru_flags.
    let flags = unsafe {
        if_ioctl(fd, libc::SIOCGIFFLAGS as libc::Ioctl, &mut req)?;
        req.ifr_ifru.ifru_flags
    };
    Ok(c_int::from(flags))
}

/// `SIOCGIFMTU`: returns the interface's MTU in bytes, Ethernet header not counted.
pub(crate) fn if_mtu(fd: BorrowedFd<'_>, name: &IfName) -> Result<c_int, Errno> {
    let mut req = request(name);
    // SAFETY: the operation takes an ifreq without pointers and fills in ifru_mtu.
    unsafe {
        if_ioctl(fd, libc::SIOCGIFMTU as libc::Ioctl, &mut req)?;
        Ok(req.ifr_ifru.ifru_mtu)
    }
}

/// `SIOCGIFHWADDR`: returns the interface's hardware type (`ARPHRD_`).
pub(crate) fn if_hardware(fd: BorrowedFd<'_>, name: &IfName) -> Result<u16, Errno> {
    let mut req = request(name);
    // SAFETY: the operation takes an ifreq without pointers and fills in ifru_hwaddr.
    unsafe {
        if_ioctl(fd, libc::SIOCGIFHWADDR as libc::Ioctl, &mut req)?;
        Ok(req.ifr_ifru.ifru_hwaddr.sa_family)
    }
}

/// Returns the interface's driver name and its bus information ("tun" and "tap" for a TAP device).
pub(crate) fn if_driver(fd: BorrowedFd<'_>, name: &IfName) -> Result<(String, String), Errno> {
    let mut info = Drvinfo {
        cmd: ETHTOOL_GDRVINFO,
        driver: [0; 32],
        version: [0; 32],
        fw_version: [0; 32],
        bus_info: [0; 32],
        erom_version: [0; 32],
        reserved2: [0; 12],
        lengths: [0; 5],
    };
    let mut req = request(name);
    req.ifr_ifru.ifru_data = ptr::from_mut(&mut info).cast();
    // SAFETY: SIOCETHTOOL follows ifru_data, which points to a structure of the layout and size
    // that its first member asks for, alive and not otherwise borrowed during the call.
    unsafe { if_ioctl(fd, libc::SIOCETHTOOL as libc::Ioctl, &mut req)? };
    let text = |raw: &[u8; 32]| {
        let used = raw.iter().position(|byte| *byte == 0).unwrap_or(raw.len());
        String::from_utf8_lossy(&raw[..used]).into_owned()
    };
    Ok((text(&info.driver), text(&info.bus_info)))
}

/// `struct ethtool_channels` (linux/ethtool.h), which libc does not have.
#[repr(C)]
#[derive(Default)]
struct Channels {
    cmd: u32,
    most: [u32; 4],
    receive: u32,
    transmit: u32,
    other: u32,
    combined: u32,
}

/// `ETHTOOL_GCHANNELS`: returns the number of receive and of transmit queues.
pub(crate) fn if_channels(fd: BorrowedFd<'_>, name: &IfName) -> Result<[u32; 2], Errno> {
    let mut channels = Channels { cmd: ETHTOOL_GCHANNELS, ..Channels::default() };
    let mut req = request(name);
    req.ifr_ifru.ifru_data = ptr::from_mut(&mut channels).cast();
    // SAFETY: as in `if_driver`.
    unsafe { if_ioctl(fd, libc::SIOCETHTOOL as libc::Ioctl, &mut req)? };
    let all = |own: u32| own.saturating_add(channels.combined);
    Ok([all(channels.receive), all(channels.transmit)])
}

/// `TUNSETIFF`: makes `fd`, an open `/dev/net/tun`, a queue of the device `name`.
pub(crate) fn tun_attach(fd: BorrowedFd<'_>, name: &IfName, flags: c_int) -> Result<(), Errno> {
    let mut req = request(name);
    req.ifr_ifru.ifru_flags = flags as libc::c_short; // the flags are 16 bits wide by definition
    // SAFETY: the operation takes an ifreq without pointers.
    unsafe { if_ioctl(fd, libc::TUNSETIFF, &mut req) }
}

/// `TUNSETVNETHDRSZ`: sets the bytes of the vnet header in front of each frame.
pub(crate) fn tun_set_header_len(fd: BorrowedFd<'_>, len: c_int) -> Result<(), Errno> {
    // SAFETY: the operation reads one int through the pointer, which is valid for the call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETVNETHDRSZ, ptr::from_ref(&len)) }).map(drop)
}

/// `TUNSETOFFLOAD`: sets the work that the kernel may leave undone in the frames that it delivers
/// (`TUN_F_` bits).
pub(crate) fn tun_set_offload(fd: BorrowedFd<'_>, bits: libc::c_uint) -> Result<(), Errno> {
    // SAFETY: the operation takes its bits by value; no memory is involved.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(bits)) }).map(drop)
}

/// Binds a packet socket to a protocol (`ETH_P_`) of the interface with this index.
pub(crate) fn packet_bind(fd: BorrowedFd<'_>, index: u32, protocol: u16) -> Result<(), Errno> {
    // SAFETY: sockaddr_ll is plain C data; all zero is a valid value.
    let mut addr: libc::sockaddr_ll = unsafe { zeroed() };
    addr.sll_family = libc::AF_PACKET as libc::c_ushort; // 17
    addr.sll_protocol = protocol.to_be();
    addr.sll_ifindex = c_int::try_from(index).map_err(|_| Errno::NODEV)?;
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t; // 20
    // SAFETY: the pointer and the length describe one initialised sockaddr_ll, alive during the
    // call.
    check(unsafe { libc::bind(fd.as_raw_fd(), ptr::from_ref(&addr).cast(), len) }).map(drop)
}

/// Sets a `SOL_PACKET` option of any plain C type.
///
/// # Safety
/// The kernel must read at most a `T` for `option`, and `T` must have no padding.
unsafe fn packet_option<T>(fd: BorrowedFd<'_>, option: c_int, value: &T) -> Result<(), Errno> {
    let len = size_of::<T>() as libc::socklen_t; // a few bytes
    let value: *const c_void = ptr::from_ref(value).cast();
    // SAFETY: pointer and length describe `value`, which the kernel may read by the caller's
    // promise.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_PACKET, option, value, len) }).map(drop)
}

/// Switches an int option of `SOL_PACKET` on.
pub(crate) fn packet_switch_on(fd: BorrowedFd<'_>, option: c_int) -> Result<(), Errno> {
    // SAFETY: for any option the kernel reads at most the length given, and an int has no padding.
    unsafe { packet_option::<c_int>(fd, option, &1) }
}

/// Makes a socket receive nothing (`deaf`), or what it is bound to.
pub(crate) fn set_deaf(fd: BorrowedFd<'_>, deaf: bool) -> Result<(), Errno> {
    // The program of one instruction that accepts 0 bytes (BPF_RET, linux/filter.h).
    let mut nothing = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut nothing };
    let option = if deaf { libc::SO_ATTACH_FILTER } else { libc::SO_DETACH_FILTER };
    let len = size_of::<libc::sock_fprog>() as libc::socklen_t; // 16
    // SAFETY: pointer and length describe `program`, whose pointer and count describe `nothing`;
    // the kernel only reads both. To detach it reads an int at most, and ignores it.
    check(unsafe {
        libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, option, (&raw const program).cast(), len)
    })
    .map(drop)
}

/// Makes a bound packet socket share the frames of its interface with the others of a group, by a
/// hash of each flow. Without a group the kernel makes one that no other socket is in. Returns the
/// number of the group.
pub(crate) fn packet_fanout(fd: BorrowedFd<'_>, group: Option<u16>) -> Result<u16, Errno> {
    /// `PACKET_FANOUT_FLAG_IGNORE_OUTGOING`: a group does not take the option of its sockets over.
    const IGNORE_OUTGOING: u32 = 0x4000;
    let unique = if group.is_none() { libc::PACKET_FANOUT_FLAG_UNIQUEID } else { 0 };
    let flags = libc::PACKET_FANOUT_HASH | IGNORE_OUTGOING | unique;
    let asked = u32::from(group.unwrap_or(0)) | flags << 16;
    // SAFETY: the option reads a 32-bit number, which has no padding.
    unsafe { packet_option(fd, libc::PACKET_FANOUT, &asked) }?;
    if let Some(group) = group {
        return Ok(group);
    }
    let (mut made, mut len) = (0_u32, size_of::<u32>() as libc::socklen_t); // 4
    let to: *mut c_void = ptr::from_mut(&mut made).cast();
    // SAFETY: pointer and length describe `made`, for which any bytes are a valid value.
    check(unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_FANOUT, to, &raw mut len)
    })?;
    Ok(made as u16) // the lower half is the number, the upper one has the flags
}

/// Makes the interface receive frames for any address while the socket lives.
pub(crate) fn packet_promiscuous(fd: BorrowedFd<'_>, index: u32) -> Result<(), Errno> {
    let member = libc::packet_mreq {
        mr_ifindex: c_int::try_from(index).map_err(|_| Errno::NODEV)?,
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort, // 1
        mr_alen: 0,
        mr_address: [0; 8],
    };
    // SAFETY: the option reads a packet_mreq, which has no padding.
    unsafe { packet_option(fd, libc::PACKET_ADD_MEMBERSHIP, &member) }
}

/// `PACKET_STATISTICS`: returns how many frames the kernel had for the socket since the last call,
/// and how many of them found its buffer full. Both numbers have 32 bits in the kernel too.
pub(crate) fn packet_statistics(fd: BorrowedFd<'_>) -> Result<[u32; 2], Errno> {
    let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut len = size_of::<libc::tpacket_stats>() as libc::socklen_t; // 8
    let to: *mut c_void = ptr::from_mut(&mut stats).cast();
    // SAFETY: pointer and length describe `stats`, for which any bytes are a valid value.
    check(unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, to, &raw mut len)
    })?;
    Ok([stats.tp_packets, stats.tp_drops])
}

/// `SO_MEMINFO`: returns how many datagrams found the buffer of a socket full since it was opened.
pub(crate) fn socket_drops(fd: BorrowedFd<'_>) -> Result<u32, Errno> {
    // Linux's include/uapi/linux/sock_diag.h: nine words, of which the last one counts the drops.
    const WORDS: usize = 9;
    let mut words = [0_u32; WORDS];
    let mut len = size_of_val(&words) as libc::socklen_t; // 36
    let to: *mut c_void = words.as_mut_ptr().cast();
    // SAFETY: pointer and length describe `words`, for which any bytes are a valid value.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, to, &raw mut len) })?;
    Ok(words[WORDS - 1])
}

/// The facts beside the bytes of a frame that [`packet_recv`] received.
pub(crate) struct Received {
    /// Bytes of the frame; more than the buffer holds when the frame was cut short.
    pub(crate) len: usize,
    /// 802.1Q/802.1ad protocol and control information that the kernel took out of the frame.
    pub(crate) tag: Option<[u16; 2]>,
}

/// Receives one frame and its vnet header from a packet socket with `PACKET_VNET_HDR` and
/// `PACKET_AUXDATA`.
pub(crate) fn packet_recv(
    fd: BorrowedFd<'_>,
    hdr: &mut [u8; HDR_LEN_SHORT],
    frame: &mut [u8],
) -> Result<Received, Errno> {
    /// Room for one control message, with the alignment that it needs.
    #[repr(C, align(16))]
    struct Control([u8; 128]);
    let mut control = Control([0; 128]);
    let mut iov = [
        libc::iovec { iov_base: hdr.as_mut_ptr().cast(), iov_len: hdr.len() },
        libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() },
    ];
    // SAFETY: msghdr is plain C data; all zero is a valid value: no name, no control, no buffers.
    let mut msg: libc::msghdr = unsafe { zeroed() };
    msg.msg_iov = iov.as_mut_ptr();
    msg.msg_iovlen = iov.len() as _; // 2
    msg.msg_control = control.0.as_mut_ptr().cast();
    msg.msg_controllen = control.0.len() as _; // 128
    // SAFETY: every pointer in msg is to memory of the length beside it, exclusively borrowed for
    // the call. Any bytes that the kernel writes there are valid values.
    let got = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut msg, libc::MSG_TRUNC | libc::MSG_DONTWAIT) };
    let got = usize::try_from(got).map_err(|_| last_errno())?;
    // With MSG_TRUNC the result is the length of the whole frame, even where the buffer holds less;
    // the vnet header is counted in it.
    let len = got.checked_sub(HDR_LEN_SHORT).ok_or(Errno::INVAL)?;
    Ok(Received { len, tag: auxiliary_tag(&msg) })
}

/// Returns the VLAN tag among the control messages of a received `msg`.
fn auxiliary_tag(msg: &libc::msghdr) -> Option<[u16; 2]> {
    // SAFETY: recvmsg has filled in msg, and its control buffer is alive and as long as
    // msg_controllen says; CMSG_FIRSTHDR and CMSG_NXTHDR only return headers that lie wholly
    // within.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(msg);
        while let Some(head) = at.as_ref() {
            let wanted = head.cmsg_level == libc::SOL_PACKET && head.cmsg_type == libc::PACKET_AUXDATA;
            let needed = libc::CMSG_LEN(size_of::<libc::tpacket_auxdata>() as u32); // 20
            if wanted && head.cmsg_len >= needed as _ {
                let aux: libc::tpacket_auxdata = ptr::read_unaligned(libc::CMSG_DATA(at).cast());
                if aux.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
                    return None;
                }
                let known = aux.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
                return Some([if known { aux.tp_vlan_tpid } else { 0x8100 }, aux.tp_vlan_tci]);
            }
            at = libc::CMSG_NXTHDR(msg, at);
        }
    }
    None
}

/// Sends the first [`BATCH_MAX`] of `frames`, each with its vnet header, by one call. Returns how
/// many were taken; an error concerns the first frame only, and no frame was taken then.
pub(crate) fn packet_send(
    fd: BorrowedFd<'_>,
    hdrs: &[[u8; HDR_LEN_SHORT]; BATCH_MAX],
    frames: &[&[u8]],
) -> Result<usize, Errno> {
    let count = frames.len().min(BATCH_MAX);
    let empty = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
    let mut iovs = [[empty; 2]; BATCH_MAX];
    // SAFETY: mmsghdr is plain C data; all zero is a valid value: no name, no control, no buffers.
    let mut msgs: [libc::mmsghdr; BATCH_MAX] = unsafe { zeroed() };
    for (((msg, iov), hdr), frame) in msgs.iter_mut().zip(&mut iovs).zip(hdrs).zip(frames) {
        *iov = [
            libc::iovec { iov_base: hdr.as_ptr().cast_mut().cast(), iov_len: hdr.len() },
            libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() },
        ];
        msg.msg_hdr.msg_iov = iov.as_mut_ptr();
        msg.msg_hdr.msg_iovlen = iov.len() as _; // 2
    }
    let flags = libc::MSG_DONTWAIT;
    // SAFETY: the first `count` messages point to two buffers each, alive during the call, of the
    // lengths beside them; sending only reads them, although the C type has no const. The kernel
    // writes msg_len alone.
    let sent = unsafe {
        libc::sendmmsg(fd.as_raw_fd(), msgs.as_mut_ptr(), count as libc::c_uint, flags as _) // count <= BATCH_MAX
    };
    usize::try_from(sent).map_err(|_| last_errno())
}

/// Returns the set of `signals`.
fn signal_set(signals: &[c_int]) -> libc::sigset_t {
    // SAFETY: sigset_t is plain C data, initialised by sigemptyset before it is used; sigaddset
    // with a signal number that exists cannot fail, and with another leaves the set alone.
    unsafe {
        let mut set: libc::sigset_t = zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        set
    }
}

/// Blocks `signals` for the calling thread and for threads that it starts. Returns the mask before.
pub(crate) fn block_signals(signals: &[c_int]) -> Result<libc::sigset_t, Errno> {
    let set = signal_set(signals);
    // SAFETY: both pointers are to sigset_t of this frame, alive during the call.
    unsafe {
        let mut before: libc::sigset_t = zeroed();
        match libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before) {
            0 => Ok(before),
            errno => Err(Errno::from_raw_os_error(errno)),
        }
    }
}

/// Sets the calling thread's signal mask, as [`block_signals`] returned it.
pub(crate) fn restore_signals(before: &libc::sigset_t) {
    // SAFETY: the pointer is to an initialised sigset_t, alive during the call; the call writes no
    // old mask. It can only fail for a wrong first argument.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, ptr::null_mut()) };
}

/// Returns a non-blocking descriptor that is readable when one of `signals`, which must be blocked,
/// is pending.
pub(crate) fn signal_fd(signals: &[c_int]) -> Result<OwnedFd, Errno> {
    let set = signal_set(signals);
    // SAFETY: the pointer is to an initialised sigset_t; -1 asks for a new descriptor.
    let fd = check(unsafe { libc::signalfd(-1, &raw const set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC) })?;
    // SAFETY: the call succeeded, so that fd is open and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Takes over a descriptor that the process was started with, and closes it on execve(2).
pub(crate) fn take_fd(fd: c_int) -> Result<OwnedFd, Errno> {
    // SAFETY: no memory is involved; the call fails for a descriptor that is not open.
    check(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    // SAFETY: the descriptor is open. `inherited`, the only caller, takes each number once, and
    // only those that the manager has opened for this process before it had any of its own there.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Moves the calling thread into new namespaces, by the `CLONE_NEW...` flags. A new network
/// namespace contains only a loopback device.
pub(crate) fn unshare(namespaces: c_int) -> Result<(), Errno> {
    // SAFETY: no memory is involved; nothing but the thread's namespaces changes.
    check(unsafe { libc::unshare(namespaces) }).map(drop)
}

/// Sends `signal` to the calling thread.
#[cfg(test)]
pub(crate) fn raise(signal: c_int) {
    // SAFETY: no memory is involved.
    unsafe { libc::raise(signal) };
}
