//! The messages that systemd-networkd sends for the sections of systemd.network(5), as they were
//! recorded (`spec/netlink/networkd.txt`, by `oracle/networkd`): each makes the state that lines of
//! tc make.

use txweir_netlink::message::{kind, messages};
use txweir_netlink::{Client, answer};
use txweir_tc::memory::Memory;

use crate::law::{SHOWS, devices, tc};

const RECORDED: &str = include_str!("../../../../spec/netlink/networkd.txt");
/// Offset of the number of the device in a message: behind its header and four bytes.
const LINK: usize = 20;

/// Sends a message about the first device, and returns the error number of its acknowledgement.
fn send(message: &[u8], to: &mut Memory) -> i32 {
    let mut request = message.to_vec();
    request[LINK..LINK + 4].copy_from_slice(&2u32.to_ne_bytes());
    let reply = answer(&request, &mut Client::default(), to);
    let ack = messages(&reply.packets[0]).next().expect("an acknowledgement");
    assert_eq!(ack.header.kind, kind::ERROR);
    -i32::from_ne_bytes(ack.body[..4].try_into().expect("four bytes"))
}

fn bytes(hex: &str) -> Vec<u8> {
    hex.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("text"), 16).expect("hexadecimal"))
        .collect()
}

fn shown(devices: &mut Memory) -> [String; 2] {
    SHOWS.map(|show| tc(show, devices).1)
}

#[test]
fn networkds_messages_do_what_lines_of_tc_do() {
    let mut compared = 0;
    for block in RECORDED.split("\n\n").skip(1) {
        let behind = |mark| block.lines().filter_map(move |line| line.strip_prefix(mark));
        let sent: Vec<Vec<u8>> = behind("> ").map(bytes).collect();
        let (mut one, mut other) = (devices(1), devices(1));
        for line in behind("= ") {
            assert_eq!(tc(line, &mut other), (0, String::new()), "{line}");
        }
        for message in &sent {
            assert_eq!(send(message, &mut one), 0, "{block}");
        }
        assert_eq!(shown(&mut one), shown(&mut other), "{block}");
        // It takes the answer for one that is there already (EEXIST) as done.
        for message in &sent {
            assert_eq!(send(message, &mut one), 17, "{block}");
        }
        assert_eq!(shown(&mut one), shown(&mut other), "{block}");
        compared += sent.len();
    }
    assert_eq!(compared, 31);
}
