//! The words of `txweir link ...`.

use clap::builder::PossibleValue;
use clap::{Args, Parser, Subcommand, ValueEnum};
use txweir_core::Rate;
use txweir_core::text::value::{self, Value, Words};
use txweir_device::{IfName, Kind};
use txweir_runtime::WireSpec;

use crate::queue_map::{QueueMap, WORKERS_MAX};

/// Most transmit queues of a link.
pub const QUEUES_MAX: u32 = 4096;
/// Most packets of one `link send`: as many as can wait on a link. A larger number would keep other
/// links waiting.
pub const SEND_MAX: u32 = 16_384;
/// Most flows of made-up packets: each takes a source port that is not reserved.
pub const FLOWS_MAX: u32 = 60_000;
/// Largest MTU: the largest that the kernel accepts for a device without a limit of its own.
const MTU_MAX: u32 = i32::MAX as u32;

/// Add, change, remove and show the links of the daemon
///
/// A link has a transmit path (a qdisc tree, set by `txweir tc`) and a device behind it.
#[derive(Debug, Parser)]
#[command(name = "txweir link", disable_help_subcommand = true)]
struct Link {
    #[command(subcommand)]
    verb: Option<Verb>,
}

/// A command about links.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum Verb {
    /// Add a link
    Add(Make),
    /// Change a link; packets stay where they are
    Set(Change),
    /// Add a link, or change the link of that name, which must have the same type
    Replace(Make),
    /// Remove a link, and drop its queued packets
    Del(Named),
    /// Show one link or all
    Show(Show),
    /// Send generated packets (IPv4, UDP) through a link's transmit path, all at once
    Send(Send),
}

/// The device behind a link's transmit path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkType {
    /// No device.
    #[default]
    Null,
    /// A model of a device in time, without a device behind it.
    Wire,
    /// An interface of this kind.
    Live(Kind),
}

/// Every type: the two without an interface, and the kinds of interfaces.
const LINK_TYPES: [LinkType; 2 + Kind::ALL.len()] = {
    let mut types = [LinkType::Null; 2 + Kind::ALL.len()];
    types[1] = LinkType::Wire;
    let mut at = 0;
    while at < Kind::ALL.len() {
        types[2 + at] = LinkType::Live(Kind::ALL[at]);
        at += 1;
    }
    types
};

impl ValueEnum for LinkType {
    fn value_variants<'a>() -> &'a [Self] {
        &LINK_TYPES
    }
    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self {
            Self::Null => "No device: packets are gone as soon as they are sent",
            Self::Wire => "A model of a device in time (rate, ring, completions), and no device behind it",
            Self::Live(kind) => kind.about(),
        };
        Some(PossibleValue::new(self.name()).help(help))
    }
}

impl LinkType {
    /// Returns the word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Wire => "wire",
            Self::Live(kind) => kind.word(),
        }
    }
    /// True if frames come in and go out.
    #[must_use]
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Live(_))
    }
}

/// The parameters of a new link.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct Make {
    /// Type of the device behind the link [default: null]
    #[arg(long = "type", value_name = "TYPE", value_enum)]
    pub kind: Option<LinkType>,

    /// Model of the device in time, rate=1gbit,ring=1024[,...]; see `txweir run --help` [default:
    /// rate=1gbit for a wire, else none]
    #[arg(long, value_name = "SPEC", conflicts_with = "rate")]
    pub wire: Option<WireSpec>,

    /// Interface of a tap, packet or xdp link [default: the link's name], the absolute path of the
    /// socket of a vhost link, or [NETNS/]VNI,LOCAL,REMOTE of a vxlan link
    #[arg(long = "if", value_name = "[NETNS/]IF")]
    pub interface: Option<String>,

    /// Threads that forward frames of the link, 1 to 64: workers of the daemon, which all links
    /// with this option share [default: the daemon's own thread]
    ///
    /// Each has a queue of a TAP device that was made with `multi_queue`, its part of the queues of
    /// an interface by XDP sockets, or its part of the flows by a packet socket; an interface of
    /// another kind has one of them. Below mq and mqprio, without a wire, each queue has one of
    /// them. With any other root one of them has the whole way out.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=WORKERS_MAX as i64))]
    pub workers: Option<u16>,

    /// Transmit queue of a packet below mq and mqprio, as in `txweir run`: arrival, hash, or a list
    /// for each receive queue (0:0,1;1:2) [default: arrival]
    #[arg(long, value_name = "MAP", requires = "workers")]
    pub queue_map: Option<QueueMap>,

    /// Options that can also be changed later.
    #[command(flatten)]
    pub change: Change,
}

/// The parameters of a link that can be changed.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Name of the link, 1 to 15 bytes
    pub name: IfName,

    /// Largest network-layer packet, bytes; sets the defaults of qdiscs added later [default of a
    /// new link: 1500, or the interface's]
    #[arg(long, value_name = "BYTES", value_parser = within::<0, MTU_MAX>)]
    pub mtu: Option<u32>,

    /// Default limit, in packets, of the FIFO qdiscs added later [default of a new link: 1000]
    #[arg(long, value_name = "PACKETS", value_parser = within::<0, { u32::MAX }>)]
    pub txqueuelen: Option<u32>,

    /// Transmit queues, 1 to 4096 [default of a new link: 1]
    #[arg(long, value_name = "N", value_parser = within::<1, QUEUES_MAX>)]
    pub queues: Option<u32>,

    /// Line rate (1gbit); other parameters of the wire keep their values or defaults
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate: Option<Rate>,

    /// Mark TCP control segments (SYN, SYN-ACK, pure ACK), which qdiscs may send first; applies to
    /// packets that arrive later [default of a new link: on]
    #[arg(long, value_name = "on|off", value_parser = on_off)]
    pub prio_synack: Option<bool>,

    /// Segments that one flow may have in the qdiscs at a time, and one super-frame; further
    /// segments wait their turn ahead of the qdiscs. 0: no limit [default of a new link: 0]
    #[arg(long, value_name = "N", value_parser = within::<0, { u32::MAX }>)]
    pub fairsend: Option<u32>,

    /// Link that incoming frames leave by, and whose incoming frames leave by this one; `none`
    /// removes it
    #[arg(long, value_name = "LINK")]
    pub peer: Option<IfName>,
}

/// One link.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Name of the link
    pub name: IfName,
}

/// The parameters of `link show`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct Show {
    /// Name of the link [default: all]
    pub name: Option<IfName>,

    /// Print the sums of each link too: frames by where they came from, and by their fate
    #[arg(short, long)]
    pub stats: bool,

    /// Print JSON, which has the sums
    #[arg(short, long)]
    pub json: bool,
}

/// The parameters of `link send`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct Send {
    /// Name of the link
    pub name: IfName,

    /// Number of packets, 1 to 16384
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = within::<1, SEND_MAX>)]
    pub packets: u32,

    /// Bytes of each frame, Ethernet header included, at least 42 [default: the largest that the
    /// MTU allows]
    #[arg(long, value_name = "BYTES", value_parser = within::<42, { u32::MAX }>)]
    pub size: Option<u32>,

    /// Priority, or a class as MAJOR:MINOR (tc-prio(8)) [default: by the TOS field, as for a
    /// forwarded packet]
    #[arg(long, value_name = "P", value_parser = priority)]
    pub priority: Option<u32>,

    /// Flows that the packets are dealt to, 1 to 60000: source ports from 1024 on
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = within::<1, FLOWS_MAX>)]
    pub flows: u32,

    /// Firewall mark
    #[arg(long, value_name = "N", value_parser = number, default_value = "0")]
    pub mark: u32,

    /// TOS field, ECN included (0x10, 2)
    #[arg(long, value_name = "N", value_parser = byte, default_value = "0")]
    pub tos: u8,
}

/// Reads a decimal number from `MIN` to `MAX`.
fn within<const MIN: u32, const MAX: u32>(text: &str) -> Result<u32, String> {
    let wrong = || format!("expected {MIN} to {MAX}");
    text.parse().ok().filter(|n| (MIN..=MAX).contains(n)).ok_or_else(wrong)
}

fn on_off(text: &str) -> Result<bool, String> {
    bool::take(&mut Words::new(&[text])).map_err(|_| "expected on or off".to_owned())
}

fn rate(text: &str) -> Result<Rate, String> {
    match value::with_unit(text) {
        Ok(rate @ Rate(1..)) => Ok(rate),
        _ => Err("expected a rate with its unit (10mbit, 1.5gbit), at least 8bit".to_owned()),
    }
}

/// Reads a number as C writes it: decimal, or hexadecimal after 0x.
fn number(text: &str) -> Result<u32, String> {
    let read = match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => text.parse(),
    };
    read.map_err(|_| "expected a number of 32 bits, decimal or 0x".to_owned())
}

fn byte(text: &str) -> Result<u8, String> {
    let wrong = || "expected 0 to 255, decimal or 0x".to_owned();
    number(text).ok().and_then(|n| u8::try_from(n).ok()).ok_or_else(wrong)
}

fn priority(text: &str) -> Result<u32, String> {
    let half = |text: &str| match text {
        "" => Ok(0),
        _ => u16::from_str_radix(text, 16),
    };
    match text.split_once(':') {
        None => number(text),
        Some((major, minor)) => match (half(major), half(minor)) {
            (Ok(major), Ok(minor)) => Ok(u32::from(major) << 16 | u32::from(minor)),
            _ => Err("expected a number, or a class as 1:10".to_owned()),
        },
    }
}

/// The result of words that are no command: a text, and whether it is the help that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotRead {
    /// The text to be printed: on stdout if it is help, else on stderr.
    pub text: String,
    /// True if the text is help that was asked for.
    pub help: bool,
}

/// Reads the words after `link`; no words show all links.
///
/// # Errors
/// Help, or one line that names the mistake.
pub fn read<S: AsRef<str>>(words: &[S]) -> Result<Verb, NotRead> {
    let words = std::iter::once("txweir link").chain(words.iter().map(AsRef::as_ref));
    match Link::try_parse_from(words) {
        Ok(link) => Ok(link.verb.unwrap_or(Verb::Show(Show { name: None, stats: false, json: false }))),
        Err(e) if !e.use_stderr() => Err(NotRead { text: e.render().to_string(), help: true }),
        Err(e) => {
            let text = e.render().to_string();
            let said = text.split("\nUsage:").next().unwrap_or(&text);
            let said = said.split("\nFor more information").next().unwrap_or(said);
            let words: Vec<&str> = said.trim_start_matches("error:").split_whitespace().collect();
            let text = format!("link: {}", words.join(" ").replacen(" tip: ", "; ", 1));
            Err(NotRead { text, help: false })
        }
    }
}

/// Returns the grammar itself, for pages of the manual and completions.
#[must_use]
pub fn command() -> clap::Command {
    <Link as clap::CommandFactory>::command()
}

/// Returns the verbs that the grammar declares, in their order.
#[cfg(test)]
pub(crate) fn verbs() -> Vec<String> {
    command().get_subcommands().map(|verb| verb.get_name().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn words(line: &str) -> Result<Verb, NotRead> {
        read(&line.split_whitespace().collect::<Vec<_>>())
    }

    fn error(line: &str) -> String {
        let wrong = words(line).unwrap_err();
        assert!(!wrong.help);
        wrong.text
    }

    #[test]
    fn the_grammar_is_consistent() {
        Link::command().debug_assert();
    }

    #[test]
    fn every_word_arrives() {
        let Verb::Add(make) =
            words("add lan --type wire --mtu 9000 --txqueuelen 10 --rate 10mbit --fairsend 4 --peer b")
                .unwrap()
        else {
            panic!("add")
        };
        assert_eq!(
            (make.kind, make.change.queues, make.change.mtu),
            (Some(LinkType::Wire), None, Some(9000))
        );
        assert_eq!((make.change.txqueuelen, make.change.rate), (Some(10), Some(Rate(1_250_000))));
        assert_eq!(make.change.fairsend, Some(4));
        let Verb::Set(change) = words("set lan --prio-synack off").unwrap() else { panic!("set") };
        assert_eq!(change.prio_synack, Some(false));
        let Verb::Send(send) =
            words("send lan --packets 5 --size 60 --priority 1:a --mark 0x10 --tos 0x12 --flows 7").unwrap()
        else {
            panic!("send")
        };
        assert_eq!((send.packets, send.size, send.priority), (5, Some(60), Some(0x1_000a)));
        assert_eq!((send.mark, send.tos, send.flows), (16, 18, 7));
        assert_eq!(words("").unwrap(), Verb::Show(Show { name: None, stats: false, json: false }));
        assert!(words("add --help").unwrap_err().help);
    }

    #[test]
    fn refusals_are_one_line() {
        assert_eq!(
            error("add sixteen-bytes-00"),
            "link: invalid value 'sixteen-bytes-00' for '<NAME>': an interface name has at most 15 bytes, this one \
             has 16"
        );
        assert_eq!(
            error("add a --rate fast"),
            "link: invalid value 'fast' for '--rate <RATE>': expected a rate with its unit (10mbit, 1.5gbit), at \
             least 8bit"
        );
        assert!(
            error("add a --rate 100")
                .ends_with("expected a rate with its unit (10mbit, 1.5gbit), at least 8bit")
        );
        assert_eq!(
            error("add a --queues 4097"),
            "link: invalid value '4097' for '--queues <N>': expected 1 to 4096"
        );
        assert_eq!(
            error("set a --prio-synack 1"),
            "link: invalid value '1' for '--prio-synack <on|off>': expected on or off"
        );
        assert_eq!(error("ad a"), "link: unrecognized subcommand 'ad'; a similar subcommand exists: 'add'");
        assert_eq!(
            error("add a --wire rnig=1"),
            "link: invalid value 'rnig=1' for '--wire <SPEC>': wire: expected one of rate, ring, bql, bql-min, \
             bql-max, bql-hold, completion, latency, doorbell, descriptors, overhead, min-frame, given \"rnig\" (did \
             you mean \"ring\"?)"
        );
        for wrong in
            ["add", "add a b", "set a --type null", "send a --packets 0", "send a --flows 60001", "\u{0}"]
        {
            assert!(error(wrong).starts_with("link: "), "{wrong}");
        }
    }
}
