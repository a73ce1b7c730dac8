//! Links: their numbers and their messages.

use txweir_core::classify::packet::PortId;
use txweir_tc::tool::{Device, Devices, LOOPBACK};

use crate::message::{Header, kind, message};
use crate::refusal::{Refusal, errno};
use crate::wire::{Attributes, Record, Writer};

/// Bytes of `struct ifinfomsg`.
const HEAD: usize = 16;
/// Up, broadcast, running, multicast, carrier (netdevice(7)).
const FLAGS: u32 = 0x1 | 0x2 | 0x40 | 0x1000 | 0x1_0000;
const ETHERNET: u16 = 1;
const IFNAME: u16 = 3;
const MTU: u16 = 4;
const QDISC: u16 = 6;
const TXQLEN: u16 = 13;
const OPERSTATE: u16 = 16;
const LINKMODE: u16 = 17;
const GROUP: u16 = 27;
const NUM_TX_QUEUES: u16 = 31;
const NUM_RX_QUEUES: u16 = 32;
const CARRIER: u16 = 33;
const ALT_IFNAME: u16 = 53;
/// Longest name that a message may ask for, with alternative names.
const NAME_MAX: usize = 127;
/// The operational state `up` (RFC 2863).
const UP: u8 = 6;

/// Returns the number of a link. The first is 2: on Linux 1 is the loopback device.
pub(crate) fn index(devices: &mut dyn Devices, name: &str) -> Option<u32> {
    devices.port(name).map(|port| port.0.saturating_add(1))
}

/// The number of the loopback device on Linux, which is no link here.
pub(crate) const LOOPBACK_INDEX: u32 = 1;

/// Returns the number of the link that an action names.
pub(crate) fn index_of(name: &str, port: PortId) -> u32 {
    if name == LOOPBACK { LOOPBACK_INDEX } else { port.0.saturating_add(1) }
}

/// Returns the name of the link of a number.
pub(crate) fn name(devices: &mut dyn Devices, wanted: u32) -> Result<String, Refusal> {
    let names = devices.names();
    let found = names.into_iter().find(|name| index(devices, name) == Some(wanted));
    found.ok_or_else(|| Refusal {
        errno: errno::NODEV,
        text: format!("there is no link with the number {wanted}"),
    })
}

/// Returns the link that a message asks for; `None` if it asks for none.
pub(crate) fn asked(body: &[u8], devices: &mut dyn Devices) -> Result<Option<String>, Refusal> {
    let head = Record::of(body, HEAD.min(body.len()), "struct ifinfomsg")?;
    let all = Attributes::read(body.get(HEAD..).unwrap_or(&[]), "link")?;
    for number in [IFNAME, ALT_IFNAME] {
        if let Some(name) = all.text(number, NAME_MAX)? {
            // The kernel's answer has no text, and tc has its own.
            let missing = Refusal { errno: errno::NODEV, text: String::new() };
            return if devices.has(name) { Ok(Some(name.to_string())) } else { Err(missing) };
        }
    }
    match head.u32(4) {
        0 => Ok(None),
        index => name(devices, index).map(Some),
    }
}

/// Returns the message of a link.
pub(crate) fn link(device: &dyn Device, index: u32, header: Header) -> Vec<u8> {
    message(Header { kind: kind::NEW_LINK, ..header }, |w| write(device, index, w))
}

fn write(device: &dyn Device, index: u32, w: &mut Writer) {
    w.put(&[0, 0]);
    w.put(&ETHERNET.to_ne_bytes());
    w.put_all(&[index, FLAGS, 0]);
    let env = device.env();
    w.text(IFNAME, device.name());
    w.u32(TXQLEN, env.tx_queue_len);
    w.u8(OPERSTATE, UP);
    w.u8(LINKMODE, 0);
    w.u32(MTU, env.mtu);
    w.u32(GROUP, 0);
    w.u32(NUM_TX_QUEUES, device.queues());
    w.u32(NUM_RX_QUEUES, 1);
    w.u8(CARRIER, 1);
    w.text(QDISC, device.tree().root().qdisc().spec().kind);
}
