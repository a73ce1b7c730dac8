//! A link as a user writes it: `[tap:|packet:|xdp:][NAMESPACE/]INTERFACE`, `vhost:PATH` or
//! `vxlan:[NAMESPACE/]VNI,LOCAL,REMOTE`.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::{OpenCause, OpenError};
use crate::iface::{Control, Found};
use crate::link::{Interface, LinkIo, LinkOptions};
use crate::name::{IfName, NameError};
use crate::netns::Netns;
use crate::nic::Calls;
use crate::packet::Packet;
use crate::queue::Batched;
use crate::tap::Tap;
use crate::vhost::VhostQueue;
use crate::vxlan::{self, Vxlan, VxlanPlace, VxlanPlaceError};
use crate::xdp::XdpQueue;

/// Declares the kinds of links: the word before the colon of an endpoint, its meaning, and the
/// function that opens one.
macro_rules! kinds {
    ($($(#[$doc:meta])* $Kind:ident $word:literal $about:literal $open:expr;)*) => {
        /// The way in which an interface is opened.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Kind {
            /// As a TAP device if it is one, and by a packet socket otherwise.
            Auto,
            $($(#[$doc])* $Kind,)*
        }

        impl Kind {
            /// All kinds that have a word.
            pub const ALL: &[Self] = &[$(Self::$Kind),*];

            /// Returns the word; empty for `Auto`.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    Self::Auto => "",
                    $(Self::$Kind => $word,)*
                }
            }

            /// Returns one line about the kind, for people; empty for `Auto`.
            #[must_use]
            pub const fn about(self) -> &'static str {
                match self {
                    Self::Auto => "",
                    $(Self::$Kind => $about,)*
                }
            }

            /// Returns the kind that has this word.
            #[must_use]
            pub fn of(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|kind| kind.word() == word)
            }

            /// Opens the interface in the namespace of the calling thread.
            fn open(self, at: &Endpoint, options: &LinkOptions) -> Result<LinkIo, OpenCause> {
                match self {
                    Self::Auto => Self::found(&at.name, options.tap.create)?.open(at, options),
                    $(Self::$Kind => {
                        let opened: Result<_, OpenCause> = $open(at, options);
                        opened.map(|nic| Box::new(nic) as LinkIo)
                    })*
                }
            }
        }
    };
}

kinds! {
    /// As a TAP device (`tap:`).
    Tap "tap" "A TAP device"
        |at: &Endpoint, options: &LinkOptions| {
            Tap::attach(&at.name, &options.tap).map(|tap| Batched::new(tap, options.memory))
        };
    /// By a packet socket (`packet:`), which on a TAP device works beside the process that holds
    /// the device.
    Packet "packet" "A packet socket on any Ethernet interface"
        |at: &Endpoint, options: &LinkOptions| {
            Packet::attach(&at.name, &options.packet).map(|packet| Batched::new(packet, options.memory))
        };
    /// By XDP sockets (`xdp:`), around the machine's own stack.
    Xdp "xdp" "XDP sockets on any Ethernet interface, around the machine's own stack"
        |at: &Endpoint, options: &LinkOptions| XdpQueue::attach(&at.name, &options.xdp, options.memory);
    /// As the network card of a virtual machine (`vhost:PATH`), whose monitor connects to a socket.
    Vhost "vhost" "The network card of a virtual machine, by vhost-user"
        |at: &Endpoint, options: &LinkOptions| {
            let Site::Socket(path) = &at.site else { return Err(OpenCause::Missing) };
            VhostQueue::attach(path, &at.name, options.memory)
        };
    /// As one end of a tunnel in UDP datagrams (`vxlan:VNI,LOCAL,REMOTE`).
    Vxlan "vxlan" "A tunnel in UDP datagrams (RFC 7348); its interface is VNI,LOCAL,REMOTE"
        |at: &Endpoint, options: &LinkOptions| {
            let Site::Tunnel(place) = &at.site else { return Err(OpenCause::Missing) };
            Vxlan::attach(place, &at.name).map(|tunnel| Batched::new(tunnel, options.memory))
        };
}

impl Kind {
    /// Opens the handles of an interface in the namespace of the calling thread.
    fn open_queues(
        self,
        at: &Endpoint,
        options: &LinkOptions,
        most: usize,
    ) -> Result<Vec<LinkIo>, OpenCause> {
        let kind = match self {
            Self::Auto => Self::found(&at.name, options.tap.create)?,
            kind => kind,
        };
        Ok(match kind {
            Self::Tap => over(Tap::attach_all(&at.name, &options.tap, most)?, options.memory),
            Self::Packet => over(Packet::attach_all(&at.name, &options.packet, most)?, options.memory),
            Self::Xdp => boxed(XdpQueue::attach_all(&at.name, &options.xdp, options.memory, most)?),
            Self::Vhost => {
                let Site::Socket(path) = &at.site else { return Err(OpenCause::Missing) };
                boxed(VhostQueue::attach_all(path, &at.name, options.memory, most)?)
            }
            _ => vec![kind.open(at, options)?],
        })
    }

    /// Returns the kind of an interface: `Tap` if it is a TAP device, or will be created as one.
    fn found(name: &IfName, create: bool) -> Result<Self, OpenCause> {
        let control = Control::open().map_err(|errno| OpenCause::system("open a socket for", errno))?;
        match control.index(name).map_err(|errno| OpenCause::system("look up", errno))? {
            None if create => Ok(Self::Tap),
            None => Err(OpenCause::Missing),
            Some(_) => match control.kind(name) {
                Ok(Found::Tap) => Ok(Self::Tap),
                Ok(Found::Tun) => Err(OpenCause::IsTun),
                Ok(Found::Other { .. }) => Ok(Self::Packet),
                Err(errno) => Err(OpenCause::system("look up the driver of", errno)),
            },
        }
    }
}

/// Makes transmit queues of the handles of an interface, which share the memory for frames.
fn over<C: Calls + 'static>(handles: Vec<C>, memory: usize) -> Vec<LinkIo> {
    let each = memory / handles.len().max(1);
    boxed(handles.into_iter().map(|calls| Batched::new(calls, each)))
}

fn boxed<N: Interface + 'static>(handles: impl IntoIterator<Item = N>) -> Vec<LinkIo> {
    handles.into_iter().map(|handle| Box::new(handle) as LinkIo).collect()
}

/// The place of a link: an interface, perhaps in another network namespace, and the way to open it.
///
/// ```
/// use txweir_device::{Endpoint, Kind};
/// let endpoint: Endpoint = "tap:client/tap0".parse()?;
/// assert_eq!(endpoint.kind, Kind::Tap);
/// assert_eq!(endpoint.netns.unwrap().to_string(), "client");
/// assert_eq!(endpoint.name.as_str(), "tap0");
/// # Ok::<(), txweir_device::EndpointError>(())
/// ```
///
/// Neither `:` nor `/` can be part of an interface name, so that nothing needs quoting. The
/// namespace is a name of ip-netns(8), or an absolute path (`/proc/4711/ns/net/tap0`). A link of
/// the kind `vhost` has the absolute path of a socket instead (`vhost:/run/vm0.sock`). Its name is
/// that of the socket's file, without an extension and at most 15 bytes of it. A link of the kind
/// `vxlan` has the place of a tunnel (`vxlan:42,192.0.2.1,192.0.2.2`), and `vxlan42` as its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// The way to open it.
    pub kind: Kind,
    /// The network namespace of the interface or of the tunnel; `None` for that of the calling
    /// thread.
    pub netns: Option<Netns>,
    /// The name of the link, which is that of its interface if it has one.
    pub name: IfName,
    /// The thing that the link is an end of.
    pub site: Site,
}

/// The thing that a link is an end of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Site {
    /// The interface of the link's name.
    Interface,
    /// A socket, by its path.
    Socket(PathBuf),
    /// A tunnel.
    Tunnel(VxlanPlace),
}

/// The reason for which a text is not an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EndpointError {
    /// A word before a colon that names no kind of link.
    Kind(String),
    /// A namespace that is neither a name nor an absolute path.
    Namespace(String),
    /// A text that is not the name of an interface; the text is given.
    Name(String, NameError),
    /// A text that is not the absolute path of a socket.
    Socket(String),
    /// A text that is not the place of a tunnel.
    Tunnel(VxlanPlaceError),
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(kind) => {
                write!(f, "unknown kind of link `{kind}`: write ")?;
                for (at, kind) in Kind::ALL.iter().enumerate() {
                    let comma = if at == 0 { "" } else { ", " };
                    let place = match kind {
                        Kind::Vhost => "/PATH",
                        Kind::Vxlan => "VNI,LOCAL,REMOTE",
                        _ => "NAME",
                    };
                    write!(f, "{comma}`{}:{place}`", kind.word())?;
                }
                f.write_str(" or NAME alone")
            }
            Self::Namespace(netns) => {
                write!(f, "`{netns}` is neither the name of a network namespace nor an absolute path")
            }
            Self::Name(name, error) => write!(f, "`{name}`: {error}"),
            Self::Socket(path) => {
                write!(f, "`{path}`: expected the absolute path of a socket (`vhost:/run/vm0.sock`)")
            }
            Self::Tunnel(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for EndpointError {}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        // A colon behind a slash does not end a kind: it stands in a path, or where no colon may
        // be.
        let (kind, rest) = match text.split_once(':') {
            Some((kind, rest)) if !kind.contains('/') => {
                (Kind::of(kind).ok_or_else(|| EndpointError::Kind(kind.to_owned()))?, rest)
            }
            _ => (Kind::Auto, text),
        };
        Self::of(kind, rest)
    }
}

impl Endpoint {
    /// Reads the place of a link of a known kind: the text behind the colon.
    ///
    /// # Errors
    /// The text is not such a place.
    pub fn of(kind: Kind, text: &str) -> Result<Self, EndpointError> {
        if kind == Kind::Vhost {
            return Self::at_socket(text);
        }
        let (netns, name) = match text.rsplit_once('/') {
            Some((netns, name)) => {
                let known = Netns::new(netns).ok_or_else(|| EndpointError::Namespace(netns.to_owned()))?;
                (Some(known), name)
            }
            None => (None, text),
        };
        if kind == Kind::Vxlan {
            let place: VxlanPlace = name.parse().map_err(EndpointError::Tunnel)?;
            return Ok(Self { kind, netns, name: vxlan::name_of(place.vni), site: Site::Tunnel(place) });
        }
        let name = IfName::new(name).map_err(|error| EndpointError::Name(name.to_owned(), error))?;
        Ok(Self { kind, netns, name, site: Site::Interface })
    }

    fn at_socket(text: &str) -> Result<Self, EndpointError> {
        let wrong = || EndpointError::Socket(text.to_owned());
        let path = Path::new(text);
        let stem =
            path.file_stem().and_then(OsStr::to_str).filter(|_| path.is_absolute()).ok_or_else(wrong)?;
        if text.ends_with('/') || text.contains('\0') {
            return Err(wrong());
        }
        let name = (0..=stem.len().min(NAME_MAX)).rev().find_map(|len| IfName::new(stem.get(..len)?).ok());
        let name = name.ok_or_else(wrong)?;
        Ok(Self { kind: Kind::Vhost, netns: None, name, site: Site::Socket(path.to_path_buf()) })
    }

    /// Returns the place of the link: the text behind the colon.
    #[must_use]
    pub fn place(&self) -> String {
        let place = match &self.site {
            Site::Interface => self.name.to_string(),
            Site::Socket(path) => path.display().to_string(),
            Site::Tunnel(place) => place.to_string(),
        };
        match &self.netns {
            Some(netns) => format!("{netns}/{place}"),
            None => place,
        }
    }

    /// True if both are the same interface, in whatever way it is opened, or ends with one address.
    #[must_use]
    pub fn is_place_of(&self, other: &Self) -> bool {
        match (&self.site, &other.site) {
            (Site::Interface, Site::Interface) => self.netns == other.netns && self.name == other.name,
            (Site::Tunnel(mine), Site::Tunnel(others)) => {
                self.netns == other.netns && mine.local == others.local && mine.local.port() != 0
            }
            (mine, others) => mine == others,
        }
    }
}

/// Most bytes of the name of an interface.
const NAME_MAX: usize = 15;

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind != Kind::Auto {
            write!(f, "{}:", self.kind.word())?;
        }
        f.write_str(&self.place())
    }
}

impl Endpoint {
    /// Opens the link. With [`Kind::Auto`] the interface's driver decides (`ETHTOOL_GDRVINFO`), and
    /// a missing interface is created as a TAP device if the options allow it. The calling thread
    /// stays in its own namespace.
    ///
    /// # Errors
    /// [`OpenError`]: one sentence that names the endpoint and says what to do.
    pub fn open(&self, options: &LinkOptions) -> Result<LinkIo, OpenError> {
        let opened = match &self.netns {
            None => self.kind.open(self, options),
            Some(netns) => netns
                .within(|| self.kind.open(self, options))
                .unwrap_or_else(|error| Err(OpenCause::entering(netns, error))),
        };
        opened.map_err(|cause| OpenError { interface: self.to_string(), cause })
    }

    /// Opens up to `most` handles of the interface, each for a thread of its own: the queues of a
    /// TAP device that was made with several (`multi_queue`), packet sockets that share the frames
    /// by flow, or the XDP sockets of a part of the queues; up to 8 of the card of a virtual
    /// machine, each with a part of its pairs of queues. Any other interface is opened once. At
    /// least one is returned; all together have the memory that the options give.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_queues(&self, options: &LinkOptions, most: usize) -> Result<Vec<LinkIo>, OpenError> {
        if most < 2 {
            return self.open(options).map(|io| vec![io]);
        }
        let opened = match &self.netns {
            None => self.kind.open_queues(self, options, most),
            Some(netns) => netns
                .within(|| self.kind.open_queues(self, options, most))
                .unwrap_or_else(|error| Err(OpenCause::entering(netns, error))),
        };
        opened.map_err(|cause| OpenError { interface: self.to_string(), cause })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let parts = |text: &str| {
            let Endpoint { kind, netns, name, .. } = text.parse().unwrap();
            (kind, netns.map(|netns| netns.to_string()), name.to_string())
        };
        let netns = |text: &str| Some(text.to_owned());
        assert_eq!(parts("tap0"), (Kind::Auto, None, "tap0".to_owned()));
        assert_eq!(parts("tap:tap0"), (Kind::Tap, None, "tap0".to_owned()));
        assert_eq!(parts("packet:client/eth0"), (Kind::Packet, netns("client"), "eth0".to_owned()));
        assert_eq!(parts("client/tap0"), (Kind::Auto, netns("client"), "tap0".to_owned()));
        assert_eq!(parts("tap:/proc/7/ns/net/t0"), (Kind::Tap, netns("/proc/7/ns/net"), "t0".to_owned()));
        assert_eq!(parts("vhost:/run/vm 0/a.b.sock"), (Kind::Vhost, None, "a.b".to_owned()));
        assert_eq!(parts("vhost:/vhost-user-net-0.sock"), (Kind::Vhost, None, "vhost-user-net-".to_owned()));
        assert!("vhost:/a.sock".parse::<Endpoint>().unwrap().is_place_of(&"vhost:/a.sock".parse().unwrap()));
        assert!(!"vhost:/a.sock".parse::<Endpoint>().unwrap().is_place_of(&"vhost:/a".parse().unwrap()));
        let tunnel = "vxlan:/proc/7/ns/net/9,[::1]:5000,::2";
        assert_eq!(parts(tunnel), (Kind::Vxlan, netns("/proc/7/ns/net"), "vxlan9".to_owned()));
        let ends = ["vxlan:1,::1,::2", "vxlan:2,::1,::3"].map(|text| text.parse::<Endpoint>().unwrap());
        assert!(ends[0].is_place_of(&ends[1]), "one address, and so one socket");
        for text in
            ["tap0", "tap:tap0", "packet:client/eth0", "/proc/7/ns/net/t0", "vhost:/run/a.sock", tunnel]
        {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn refusals_say_what_to_write() {
        let message = |text: &str| text.parse::<Endpoint>().unwrap_err().to_string();
        assert_eq!(
            message("gre:eth0"),
            "unknown kind of link `gre`: write `tap:NAME`, `packet:NAME`, `xdp:NAME`, `vhost:/PATH`, \
             `vxlan:VNI,LOCAL,REMOTE` or NAME alone"
        );
        assert_eq!(
            message("a/b/eth0"),
            "`a/b` is neither the name of a network namespace nor an absolute path"
        );
        assert_eq!(message("/eth0"), "`` is neither the name of a network namespace nor an absolute path");
        assert_eq!(message("tap:"), "``: an interface name cannot be empty");
        assert_eq!(message("client/"), "``: an interface name cannot be empty");
        let socket = "expected the absolute path of a socket (`vhost:/run/vm0.sock`)";
        for text in ["", "vm0.sock", "/", "/run/", "/run/vm0/", "/run/..", "/run/a\0"] {
            assert_eq!(message(&format!("vhost:{text}")), format!("`{text}`: {socket}"));
        }
        let form = "expected VNI,LOCAL,REMOTE (42,192.0.2.1,192.0.2.2)";
        assert_eq!(message("vxlan:eth0"), format!("`eth0`: {form}"));
        assert_eq!(message("client/a:b"), "`a:b`: an interface name cannot contain ':'");
    }

    #[test]
    fn a_missing_interface_is_missing_whatever_the_kind() {
        for text in ["no-such-if", "tap:no-such-if", "packet:no-such-if", "xdp:no-such-if"] {
            let error = text.parse::<Endpoint>().unwrap().open(&LinkOptions::default()).unwrap_err();
            assert!(matches!(error.cause, OpenCause::Missing), "{error}");
            assert!(error.to_string().starts_with(&format!("interface `{text}` does not exist")), "{error}");
        }
    }
}
