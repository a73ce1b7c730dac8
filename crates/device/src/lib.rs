//! Live packet I/O for txweir on Linux.
//!
//! A *link* is one Ethernet interface as this process sees it ([`Nic`]): a TAP device ([`Tap`]), a
//! packet socket bound to an interface ([`Packet`]), XDP sockets ([`Xdp`]), the card of a virtual
//! machine ([`VhostQueue`]), or one end of a tunnel ([`Vxlan`]). A link is a transmit queue as
//! well, with frames of its own ([`Backend`]): [`TapQueue`], [`PacketQueue`], and [`LinkIo`] for
//! any of them. A [`VnetHdr`] travels beside every frame, so that a TCP super-frame of up to 64 KiB
//! crosses user space whole. It is cut into wire segments ([`Segmenter`]) only where a qdisc or an
//! output needs the segments. An [`Endpoint`] is the text form that a user writes (`tap0`,
//! `packet:eth0`, `client/tap0`), and opens the link. A further kind of link is a file with its
//! [`Backend`] and [`Nic`], and a line in the list of `endpoint.rs`.
//!
//! ```no_run
//! use txweir_device::{Endpoint, LinkOptions, MAX_FRAME, Source};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let endpoint: Endpoint = "client/tap0".parse()?;
//! let mut link = endpoint.open(&LinkOptions::default())?;
//! let mut frame = vec![0; MAX_FRAME];
//! while let Some((hdr, len)) = link.recv(&mut frame)? {
//!     println!("{len} bytes, {:?}", hdr.gso);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! One private module of safe wrappers around system calls contains all code that needs `unsafe`;
//! the compiler checks that the rest of the crate has none.
#![deny(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(not(target_os = "linux"))]
compile_error!("txweir-device drives Linux TAP devices and packet sockets; it has no other backend");

mod backend;
pub mod clock;
mod counters;
pub mod cpu;
mod endpoint;
mod error;
mod frame;
mod frames;
mod iface;
mod inherited;
mod link;
mod name;
mod netns;
mod nic;
mod packet;
pub mod poll;
mod queue;
mod rtnl;
pub mod segment;
mod signal;
mod socket;
#[allow(unsafe_code, reason = "the one module that calls the system by raw pointers")]
mod sys;
mod tap;
#[cfg(feature = "testnet")]
pub mod testguest;
#[cfg(feature = "testnet")]
pub mod testnet;
mod vhost;
pub mod vnet;
mod vxlan;
mod xdp;

pub use backend::{Backend, Beside, Fates, Finished, Landed, Source, Store, Write};
pub use counters::{Batch, Counters, Rest};
pub use endpoint::{Endpoint, EndpointError, Kind, Site};
pub use error::{OpenCause, OpenError};
pub use frame::{BATCH_MAX, FrameRef, MAX_FRAME};
pub use frames::{Frame, Frames, NoRoom, Spare};
pub use inherited::inherited;
pub use link::{FRAME_MEMORY, Interface, LinkIo, LinkOptions, PacketQueue, TapQueue, VxlanQueue};
pub use name::{IfName, NameError};
pub use netns::{Netns, enclose, within_new};
pub use nic::{Calls, Nic};
pub use packet::{Packet, PacketOptions};
pub use queue::{Batched, PLACES};
pub use segment::{SEGMENTS_MAX, SegmentError, Segmenter, Shape};
pub use signal::{Signal, Signals};
pub use socket::{ListenError, Listening, SOCKET_PATH_MAX, file_of};
pub use tap::{Offload, Tap, TapOptions};
#[cfg(feature = "testnet")]
pub use vhost::{Seen, any_rings};
pub use vhost::{TimedCard, VhostQueue};
pub use vnet::{Gso, VnetHdr};
pub use vxlan::{Vni, Vxlan, VxlanPlace, VxlanPlaceError};
pub use xdp::{Place, Places, Xdp, XdpMode, XdpOptions, XdpPlaces, XdpQueue, XdpStore};
