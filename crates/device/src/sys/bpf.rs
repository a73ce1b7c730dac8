//! The program that hands the frames of an interface to its XDP sockets, by bpf(2).

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

/// Commands of bpf(2).
const MAP_CREATE: u32 = 0;
const MAP_UPDATE: u32 = 2;
const PROG_LOAD: u32 = 5;
const LINK_CREATE: u32 = 28;
/// `BPF_MAP_TYPE_XSKMAP`, `BPF_PROG_TYPE_XDP`, `BPF_XDP` (linux/bpf.h).
const XSKMAP: u32 = 17;
const PROG_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// `XDP_FLAGS_SKB_MODE` and `XDP_FLAGS_DRV_MODE` (linux/if_link.h).
const GENERIC: u32 = 1 << 1;
const NATIVE: u32 = 1 << 2;
/// `BPF_F_XDP_HAS_FRAGS` (linux/bpf.h, since 5.18): the program does not look into frames, which
/// may lie in several buffers.
const HAS_FRAGS: u32 = 1 << 5;

/// Arguments of bpf(2), as words of 32 bits: longer than those of any command above.
type Args = [u32; 32];

/// Calls bpf(2) for a command that returns a descriptor or 0.
///
/// # Safety
/// Each address in `args` is that of memory of the length that the command expects, alive during
/// the call.
unsafe fn call(command: u32, args: &Args) -> Result<i32, Errno> {
    // SAFETY: pointer and length describe `args`; the rest is the caller's promise.
    let got = unsafe { libc::syscall(libc::SYS_bpf, command, args.as_ptr(), size_of::<Args>()) };
    super::check(i32::try_from(got).unwrap_or(-1))
}

/// Calls bpf(2) for a command that returns a descriptor.
///
/// # Safety
/// As for [`call`].
unsafe fn descriptor(command: u32, args: &Args) -> Result<OwnedFd, Errno> {
    // SAFETY: the caller's promise; the call succeeded, so that the descriptor is open and has no
    // other owner. The kernel opens all descriptors of bpf(2) with O_CLOEXEC.
    unsafe { call(command, args).map(|fd| OwnedFd::from_raw_fd(fd)) }
}

/// Stores an address as two words.
fn address<T: ?Sized>(of: *const T) -> [u32; 2] {
    let bytes = (of.cast::<u8>() as u64).to_ne_bytes();
    let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    [word(0), word(4)]
}

/// A program on an interface. The kernel takes it off when this value is dropped, or when the
/// process ends.
#[derive(Debug)]
pub(crate) struct Program {
    _link: OwnedFd,
    generic: bool,
}

impl Program {
    /// True if the program runs ahead of the stack (generic mode) and not in the driver.
    pub(crate) const fn is_generic(&self) -> bool {
        self.generic
    }

    /// Puts a program that hands each frame to the socket of its queue on the interface with this
    /// index. Frames of queues without a socket stay with the machine's own stack.
    pub(crate) fn redirect<'a>(
        interface: u32,
        sockets: impl ExactSizeIterator<Item = BorrowedFd<'a>>,
    ) -> Result<Self, (&'static str, Errno)> {
        let map = make_map(sockets).map_err(|errno| ("make the map of XDP sockets for", errno))?;
        const RX_QUEUE: u16 = 16; // offset in struct xdp_md
        const PASS: u32 = 2;
        const REDIRECT_MAP: u32 = 51;
        // return bpf_redirect_map(map, frame->rx_queue_index, XDP_PASS)
        Self::attach(
            interface,
            &[
                op(0x61, 0x12, RX_QUEUE, 0),               // r2 = *(u32 *)(r1 + 16)
                op(0x18, 0x11, 0, map.as_raw_fd() as u32), // r1 = the map of this descriptor
                op(0, 0, 0, 0),                            //      (its second half)
                op(0xb7, 0x03, 0, PASS),                   // r3 = XDP_PASS
                op(0x85, 0, 0, REDIRECT_MAP),              // call bpf_redirect_map
                op(0x95, 0, 0, 0),                         // exit
            ],
        )
    }

    /// Puts a program that drops each frame on the interface with this index.
    #[cfg(feature = "testnet")]
    pub(crate) fn drop_all(interface: u32) -> Result<Self, (&'static str, Errno)> {
        const DROP: u32 = 1;
        Self::attach(interface, &[op(0xb7, 0, 0, DROP), op(0x95, 0, 0, 0)])
    }

    fn attach(interface: u32, program: &[u64]) -> Result<Self, (&'static str, Errno)> {
        // Kernels before 5.18 have no frames in several buffers.
        let loaded = load(program, HAS_FRAGS).or_else(|_| load(program, 0));
        let program = loaded.map_err(|errno| ("load the XDP program for", errno))?;
        let link = |flags| {
            let mut args = [0; 32];
            args[..4].copy_from_slice(&[program.as_raw_fd() as u32, interface, ATTACH_XDP, flags]);
            // SAFETY: the arguments contain no address.
            unsafe { descriptor(LINK_CREATE, &args) }
        };
        let (link, generic) = match link(NATIVE) {
            Err(Errno::OPNOTSUPP) => (link(GENERIC), true),
            link => (link, false),
        };
        Ok(Self { _link: link.map_err(|errno| ("put an XDP program on", errno))?, generic })
    }
}

/// Makes a map from the number of a queue to its socket.
fn make_map<'a>(sockets: impl ExactSizeIterator<Item = BorrowedFd<'a>>) -> Result<OwnedFd, Errno> {
    let mut args = [0; 32];
    let entries = u32::try_from(sockets.len()).map_err(|_| Errno::TOOBIG)?;
    args[..4].copy_from_slice(&[XSKMAP, 4, 4, entries.max(1)]);
    // SAFETY: the arguments contain no address.
    let map = unsafe { descriptor(MAP_CREATE, &args) }?;
    for (queue, socket) in (0u32..).zip(sockets) {
        let (key, value) = (queue, socket.as_raw_fd());
        let mut args = [0; 32];
        args[0] = map.as_raw_fd() as u32; // descriptors are not negative
        args[2..4].copy_from_slice(&address(&raw const key));
        args[4..6].copy_from_slice(&address(&raw const value));
        // SAFETY: both addresses are those of four bytes, as the map was made for, alive here.
        unsafe { call(MAP_UPDATE, &args) }?;
    }
    Ok(map)
}

/// Returns an instruction: operation, registers (destination in the low half), offset, number.
const fn op(code: u8, registers: u8, offset: u16, number: u32) -> u64 {
    // The two halves are bit fields of C, whose order is that of the machine's bytes.
    let registers = if cfg!(target_endian = "big") { registers.rotate_left(4) } else { registers };
    let [o0, o1] = offset.to_ne_bytes();
    let [n0, n1, n2, n3] = number.to_ne_bytes();
    u64::from_ne_bytes([code, registers, o0, o1, n0, n1, n2, n3])
}

/// Loads a program of these instructions.
fn load(program: &[u64], flags: u32) -> Result<OwnedFd, Errno> {
    let licence = c"MIT OR Apache-2.0";
    let mut args = [0; 32];
    args[..2].copy_from_slice(&[PROG_XDP, program.len() as u32]); // a few
    args[2..4].copy_from_slice(&address(program.as_ptr()));
    args[4..6].copy_from_slice(&address(licence.as_ptr()));
    args[11] = flags;
    // SAFETY: the addresses are those of as many instructions as said and of a text that ends in a
    // zero byte, both alive here.
    unsafe { descriptor(PROG_LOAD, &args) }
}
