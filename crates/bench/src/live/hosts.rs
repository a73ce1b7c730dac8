//! Hosts: a client and a server in network namespaces of their own, with a program between them.

use std::net::{SocketAddr, TcpListener};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use txweir_device::testnet::NetNs;

use super::PATIENCE;
use super::process::Running;

/// Client, middle and server. The outer two have a TAP device each, which a program in the middle
/// opens.
pub struct Net {
    /// The host with the address 10.77.0.1.
    pub client: NetNs,
    /// The namespace of the program.
    pub middle: NetNs,
    /// The host with the address 10.77.0.2.
    pub server: NetNs,
    /// The endpoint of the client, as the program opens it.
    pub input: String,
    /// The endpoint of the server.
    pub output: String,
    /// The `txweir` that runs between them.
    pub program: String,
}

impl Net {
    /// Creates the hosts with TAP devices.
    pub fn with_taps(program: &str) -> Self {
        let [client, middle, server] = ["client", "middle", "server"].map(NetNs::new);
        for (netns, address) in [(&client, "10.77.0.1/24"), (&server, "10.77.0.2/24")] {
            netns.run(&["ip", "tuntap", "add", "dev", "tap0", "mode", "tap"]);
            netns.up("tap0", address);
        }
        let [input, output] = [&client, &server].map(|netns| format!("{}/tap0", netns.name()));
        Self { client, middle, server, input, output, program: program.to_owned() }
    }

    /// Creates the hosts with a veth pair on each side, whose inner ends packet sockets open.
    pub fn with_veths(program: &str) -> Self {
        let [client, middle, server] = ["client", "middle", "server"].map(NetNs::new);
        for (netns, address, inner) in [(&client, "10.77.0.1/24", "left"), (&server, "10.77.0.2/24", "right")]
        {
            netns.veth("eth0", &middle, inner);
            netns.up("eth0", address);
            middle.run(&["ip", "link", "set", "dev", inner, "up"]);
            netns.wait_for_carrier("eth0");
            middle.wait_for_carrier(inner);
        }
        let [input, output] = ["left", "packet:right"].map(str::to_owned);
        Self { client, middle, server, input, output, program: program.to_owned() }
    }

    /// Starts `txweir run` between the two.
    pub fn start(&self, args: &[&str]) -> Running {
        Running::start(
            &self.program,
            &self.middle,
            &[&["--in", &self.input, "--out", &self.output], args].concat(),
        )
    }

    /// Carries `bytes` from client to server by the kernel's TCP and checks their number.
    pub fn carry(&self, bytes: u64) {
        let server = address(5201);
        let sink = self.server.tcp_sink(server);
        assert_eq!(self.client.tcp_source(server, bytes).join().expect("the source"), bytes);
        assert_eq!(sink.join().expect("the sink"), bytes);
    }
}

/// Returns the server's address at this port.
pub fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 77, 0, 2], port))
}

/// One end of the line.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    /// Its namespace.
    pub netns: &'a NetNs,
    /// Its IPv4 address.
    pub address: [u8; 4],
}

impl<'a> Host<'a> {
    /// Returns A and B.
    pub fn both(net: &'a Net) -> [Self; 2] {
        let host = |netns, last| Host { netns, address: [10, 77, 0, last] };
        [host(&net.client, 1), host(&net.server, 2)]
    }

    /// Has the host's TCP fill a queue, with buffers of these sizes that do not grow, so that the
    /// bytes on the way are known: the window is two thirds of the receiver's. A run leaves no
    /// learned state to the next one.
    pub fn prepare(&self, receive: u32, send: u32) {
        let settings = [
            ("tcp_congestion_control", "reno".to_owned()),
            ("tcp_no_metrics_save", "1".to_owned()),
            ("tcp_rmem", format!("4096 {receive} {receive}")),
            ("tcp_wmem", format!("4096 {send} {send}")),
        ];
        self.netns.enter(|| {
            for (name, value) in settings {
                std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value).expect(name);
            }
        });
    }

    /// Opens a listener at a port that no other socket had lately.
    pub fn listen(&self) -> (TcpListener, SocketAddr) {
        let any = SocketAddr::from((self.address, 0));
        let listener = self.netns.enter(|| TcpListener::bind(any).expect("bind"));
        set_socket_timeout(&listener, Timeout::Recv, Some(PATIENCE)).expect("a timeout");
        let at = listener.local_addr().expect("its address");
        (listener, at)
    }
}
