//! TAP devices: the kernel's own stack on one side, this process on the other.
//!
//! There is no back-pressure towards the kernel: a TAP device whose queue (`txqueuelen` frames) is
//! full drops frames, which the interface alone counts. The reader must keep up and do the queueing
//! itself. A write enters the kernel's receive path directly and is complete when it returns; there
//! are no completions.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libc::{IFF_MULTI_QUEUE, IFF_NO_PI, IFF_TAP, IFF_VNET_HDR};
use libc::{TUN_F_CSUM, TUN_F_TSO_ECN, TUN_F_TSO4, TUN_F_TSO6, TUN_F_USO4, TUN_F_USO6};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::backend::Source;
use crate::counters::{Batch, Counters};
use crate::error::{OpenCause, OpenError};
use crate::frame::{FrameRef, SKIP_MAX};
use crate::iface::{Control, Found};
use crate::name::IfName;
use crate::nic::{Calls, Nic};
use crate::rtnl::Dropped;
use crate::sys;
use crate::vnet::{HDR_LEN, VnetHdr};

/// The device file of the TUN driver (tun in the kernel's Documentation/networking).
const TUN_DEVICE: &str = "/dev/net/tun";

/// The work that the kernel may leave undone in the frames that it delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Offload {
    /// Nothing: complete frames no longer than the MTU allows.
    None,
    /// Checksums and TCP segmentation; the kernel is older than 6.2 and has no UDP segmentation for
    /// TAP devices.
    Tcp,
    /// Checksums, TCP and UDP segmentation.
    TcpUdp,
}

/// The options with which a TAP device is opened. The default: it must exist, has one queue, and
/// uses all offloads that the kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TapOptions {
    /// True to create the device when there is none. It then lives until it is closed, and is down
    /// until an administrator sets it up.
    pub create: bool,
    /// True to open it as one queue of a multi-queue device; open it again for each further queue.
    pub multi_queue: bool,
    /// True to ask for frames with checksum and segmentation left undone. False costs most of the
    /// throughput of bulk TCP.
    pub offload: bool,
}

impl Default for TapOptions {
    fn default() -> Self {
        Self { create: false, multi_queue: false, offload: true }
    }
}

/// One queue of a TAP device. A read returns a frame that the kernel sends through the interface;
/// the interface receives a frame that is written. Non-blocking.
#[derive(Debug)]
pub struct Tap {
    fd: OwnedFd,
    control: Control,
    name: IfName,
    /// Index of the device, which stays the same when the device is renamed.
    index: u32,
    offload: Offload,
    counters: Counters,
    /// The frames that the kernel dropped ahead of this reader, if it tells.
    dropped: Option<Dropped>,
    /// True if the device may have several queues.
    multi_queue: bool,
}

impl Tap {
    /// Opens the TAP device `name` in the network namespace of the calling thread. The queue stays
    /// attached to the device when the thread or the device moves to another namespace.
    ///
    /// # Errors
    /// [`OpenError`]: one sentence that says what to do.
    pub fn open(name: &IfName, options: &TapOptions) -> Result<Self, OpenError> {
        Self::attach(name, options).map_err(|cause| OpenError { interface: name.to_string(), cause })
    }

    pub(crate) fn attach(name: &IfName, options: &TapOptions) -> Result<Self, OpenCause> {
        let control = Control::open().map_err(|errno| OpenCause::system("open a socket for", errno))?;
        let index = control.index(name).map_err(|errno| OpenCause::system("look up", errno))?;
        if index.is_none() && !options.create {
            return Err(OpenCause::Missing);
        }
        if index.is_some() {
            match control.kind(name).map_err(|errno| OpenCause::system("look up the driver of", errno))? {
                Found::Tap => {}
                Found::Tun => return Err(OpenCause::IsTun),
                Found::Other { driver } => return Err(OpenCause::NotTap(driver)),
            }
        }
        let fd = open_tun()?;
        let multi_queue = attach_queue(fd.as_fd(), name, options.multi_queue, index.is_some())?;
        sys::tun_set_header_len(fd.as_fd(), HDR_LEN as libc::c_int) // 12
            .map_err(|errno| OpenCause::system("set the vnet header length of", errno))?;
        let offload = set_offload(fd.as_fd(), options.offload)
            .map_err(|errno| OpenCause::system("set the offloads of", errno))?;
        // A device that was made just now has its index now.
        let index = control.index(name).map_err(|errno| OpenCause::system("look up", errno))?;
        let index = index.ok_or(OpenCause::Missing)?;
        let (name, counters, dropped) = (name.clone(), Counters::default(), Dropped::count(index));
        Ok(Self { fd, control, name, index, offload, counters, dropped, multi_queue })
    }

    /// Opens up to `most` queues of the device: one, if it was made for one. The first counts the
    /// frames that the kernel dropped ahead of any.
    pub(crate) fn attach_all(
        name: &IfName,
        options: &TapOptions,
        most: usize,
    ) -> Result<Vec<Self>, OpenCause> {
        let options = TapOptions { multi_queue: most > 1, ..*options };
        let mut all = vec![Self::attach(name, &options)?];
        // Bound: `most`.
        while all[0].multi_queue && all.len() < most {
            match Self::attach(name, &options) {
                Ok(queue) => all.push(Self { dropped: None, ..queue }),
                // The driver has a greatest number of queues, and another process may have some.
                Err(OpenCause::Busy) => break,
                Err(cause) => return Err(cause),
            }
        }
        Ok(all)
    }

    /// Returns the work that the kernel agreed to leave undone.
    #[must_use]
    pub fn offload(&self) -> Offload {
        self.offload
    }

    /// Returns the present name of the device. A device that is gone answers reads and writes with
    /// an error; one that is only not found here is in another namespace.
    fn present(&self) -> Result<IfName, Errno> {
        match self.control.name_of(self.index) {
            Err(Errno::NODEV) => Err(Errno::XDEV),
            found => found,
        }
    }

    /// Writes one frame, whole; super-frames need no room in the MTU.
    fn write(&mut self, frame: &FrameRef<'_>) -> Result<(), Errno> {
        let raw = frame.hdr.encode();
        rustix::io::retry_on_intr(|| {
            self.counters.tx_calls += 1;
            rustix::io::writev(&self.fd, &[IoSlice::new(&raw), IoSlice::new(frame.bytes)])
        })?;
        self.counters.taken(&frame.hdr, frame.bytes.len());
        Ok(())
    }
}

impl Source for Tap {
    /// The room has to be [`MAX_FRAME`](crate::MAX_FRAME) bytes: a frame that fills it to the last
    /// byte counts as too long and is left out, because the driver does not report truncation. An
    /// error is the device's (`EBADFD`: it is gone) or the system's; a fault of one frame is
    /// counted instead.
    fn recv(&mut self, frame: &mut [u8]) -> io::Result<Option<(VnetHdr, usize)>> {
        let mut raw = [0; HDR_LEN];
        for _ in 0..SKIP_MAX {
            let got = rustix::io::retry_on_intr(|| {
                rustix::io::readv(&self.fd, &mut [IoSliceMut::new(&mut raw), IoSliceMut::new(frame)])
            });
            match got {
                Ok(got) if got >= HDR_LEN + frame.len() => self.counters.rx_oversize += 1,
                Ok(got) if got > HDR_LEN => {
                    let (hdr, len) = (VnetHdr::decode(&raw), got - HDR_LEN);
                    self.counters.received(&hdr, len);
                    return Ok(Some((hdr, len)));
                }
                // A frame for which virtio has no type; the failed call has consumed it.
                Ok(_) | Err(Errno::INVAL) => self.counters.rx_refused += 1,
                Err(Errno::AGAIN) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(None)
    }
}

impl Nic for Tap {
    fn kind(&self) -> &'static str {
        "tap"
    }
    fn name(&self) -> &IfName {
        &self.name
    }
    fn counters(&mut self) -> Counters {
        if let Some(dropped) = &mut self.dropped {
            self.counters.rx_missed = dropped.frames();
        }
        self.counters.rx_seen = self.counters.rx_frames + self.counters.rx_lost();
        self.counters
    }
    fn is_up(&self) -> io::Result<bool> {
        Ok(self.control.is_up(&self.present()?)?)
    }
    fn mtu(&self) -> io::Result<usize> {
        Ok(self.control.mtu(&self.present()?)?)
    }
}

impl Calls for Tap {
    fn send_batch(&mut self, frames: &[FrameRef<'_>]) -> Batch {
        let mut done = Batch::new();
        for frame in frames {
            match self.write(frame) {
                Ok(()) => done.taken += 1,
                Err(errno) if done.goes_on_after(self.counters.not_taken(errno)) => {}
                Err(_) => break,
            }
        }
        done
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn open_tun() -> Result<OwnedFd, OpenCause> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(TUN_DEVICE, flags, Mode::empty()).map_err(|errno| match errno {
        // A device file without its driver answers ENODEV or ENXIO.
        Errno::NOENT | Errno::NOTDIR | Errno::NODEV | Errno::NXIO => OpenCause::NoTunDevice,
        Errno::ACCESS | Errno::PERM => OpenCause::TunDeviceDenied,
        errno => OpenCause::system("open /dev/net/tun for", errno),
    })
}

/// Attaches to the device. An existing device was created with one queue or with many, and the
/// driver accepts only a request that matches: after a refusal of one form this function tries the
/// other. Returns true if the device may have several queues.
fn attach_queue(fd: BorrowedFd<'_>, name: &IfName, multi: bool, exists: bool) -> Result<bool, OpenCause> {
    let flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
    let attach = |multi: bool| {
        let flags = if multi { flags | IFF_MULTI_QUEUE } else { flags };
        sys::tun_attach(fd, name, flags).map(|()| multi)
    };
    let tried = match attach(multi) {
        Err(Errno::INVAL) if exists => attach(!multi),
        tried => tried,
    };
    tried.map_err(|errno| match errno {
        Errno::PERM => OpenCause::TapDenied,
        // EBUSY: the single queue is taken; E2BIG: all queues that the device may have are taken.
        Errno::BUSY | Errno::TOOBIG => OpenCause::Busy,
        errno => OpenCause::system("attach to the TAP device", errno),
    })
}

/// Requests all offloads, and fewer when the kernel does not know some of them.
fn set_offload(fd: BorrowedFd<'_>, wanted: bool) -> Result<Offload, Errno> {
    let tcp = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
    if !wanted {
        return sys::tun_set_offload(fd, 0).map(|()| Offload::None);
    }
    match sys::tun_set_offload(fd, tcp | TUN_F_USO4 | TUN_F_USO6) {
        Err(Errno::INVAL) => sys::tun_set_offload(fd, tcp).map(|()| Offload::Tcp),
        result => result.map(|()| Offload::TcpUdp),
    }
}
