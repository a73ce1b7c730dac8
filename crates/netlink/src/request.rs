//! Requests, and what becomes of them.

use txweir_tc::Failure;
use txweir_tc::diagnostic::{Diagnostic, code};
use txweir_tc::tool::{self, Devices};

use crate::classify::{self, Owner, Wanted};
use crate::client::Client;
use crate::flags::{self, Asked};
use crate::message::{Header, Message, TcHead, Told, flag, kind, messages};
use crate::object::{Shown, each_class, each_qdisc};
use crate::refusal::{Refusal, errno};
use crate::wire::Attributes;
use crate::{command, links, reply};

/// The attribute by which a client asks for default qdiscs too.
const DUMP_INVISIBLE: u16 = 10;
/// The lowest type of a message that is a request.
const REQUESTS: u16 = 16;
/// Most bytes of replies to a packet with which a further request for objects in it is performed.
/// Linux refuses a listing while another one of the same client waits to be read.
const REPLIES_MAX: usize = 1 << 20;

/// The answer to a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The packets to send, in order.
    pub packets: Vec<Vec<u8>>,
    /// The requests that would change something.
    pub changes: Vec<Change>,
}

/// A request that would change something, for a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The words of tc that say the same; for a message that is refused before it has any, the name
    /// of its type (`RTM_DELQDISC`).
    pub words: String,
    /// True if it was done.
    pub is_done: bool,
}

/// Performs the requests of a packet in order, each whole or not at all. Packets of links have
/// their turn meanwhile ([`Devices::pause`]). A request for objects is refused once the replies to
/// those before it have more than 1 MiB.
pub fn answer(packet: &[u8], client: &mut Client, devices: &mut dyn Devices) -> Answer {
    answer_within(packet, client, devices, REPLIES_MAX)
}

/// Does the same, with another bound for the bytes of replies.
fn answer_within(packet: &[u8], client: &mut Client, devices: &mut dyn Devices, most: usize) -> Answer {
    let (mut counted, mut bytes) = (0, 0);
    each_request(packet, client, &mut |request, client, answer| {
        devices.pause();
        bytes += answer.packets.iter().skip(counted).map(Vec::len).sum::<usize>();
        counted = answer.packets.len();
        if changes(request.header.kind) {
            let (words, done) = change(request.header, request.body, devices);
            answer.changes.push(Change { words, is_done: done.is_ok() });
            return done;
        }
        if bytes > most {
            let text = format!(
                "expected at most {most} bytes of replies to the requests before this one in its packet, \
                 given {bytes}: send it in a packet of its own"
            );
            return Err(Refusal { errno: errno::BUSY, text });
        }
        perform(request, client, devices, &mut answer.packets)
    })
}

/// Refuses all requests of a packet, for one reason.
pub fn refuse(packet: &[u8], client: &mut Client, why: &Refusal) -> Answer {
    each_request(packet, client, &mut |_, _, _| Err(why.clone()))
}

/// Performs the requests of a packet in order, by a function.
fn each_request(
    packet: &[u8],
    client: &mut Client,
    perform: &mut dyn FnMut(&Message<'_>, &Client, &mut Answer) -> Result<(), Refusal>,
) -> Answer {
    let mut answer = Answer::default();
    for request in messages(packet) {
        let header = request.header;
        if header.kind == kind::TOLD {
            Told::read(request.body).into_iter().for_each(|told| client.take(told));
        }
        if header.kind < REQUESTS {
            continue;
        }
        let done = perform(&request, client, &mut answer);
        // A listing ends with its own message.
        let listed = is_listing(header) && done.is_ok();
        if !listed && (done.is_err() || header.flags & flag::ACK != 0) {
            answer.packets.push(reply::acknowledgement(&request, &done, client));
        }
    }
    answer
}

/// True for a message that changes something.
const fn changes(kind: u16) -> bool {
    matches!(kind, kind::NEW_QDISC | kind::DEL_QDISC | kind::NEW_CLASS | kind::DEL_CLASS)
        || is_of_filters(kind) && !matches!(kind, kind::GET_FILTER | kind::GET_CHAIN)
        || matches!(kind, kind::NEW_ACTION | kind::DEL_ACTION)
}

/// True for a message about filters or chains.
const fn is_of_filters(kind: u16) -> bool {
    matches!(
        kind,
        kind::NEW_FILTER
            | kind::DEL_FILTER
            | kind::GET_FILTER
            | kind::NEW_CHAIN
            | kind::DEL_CHAIN
            | kind::GET_CHAIN
    )
}

const fn is_listing(header: Header) -> bool {
    let gets = matches!(
        header.kind,
        kind::GET_LINK
            | kind::GET_ADDR
            | kind::GET_QDISC
            | kind::GET_CLASS
            | kind::GET_FILTER
            | kind::GET_CHAIN
            | kind::GET_ACTION
    );
    // Either bit asks for a listing, as in Linux.
    gets && header.flags & flag::DUMP != 0
}

fn perform(
    request: &Message<'_>,
    client: &Client,
    devices: &mut dyn Devices,
    packets: &mut Vec<Vec<u8>>,
) -> Result<(), Refusal> {
    let Message { header, body, .. } = *request;
    let reply = Header { kind: 0, flags: 0, seq: header.seq, port: client.port };
    if is_listing(header) {
        let part = Header { flags: flag::MULTI, ..reply };
        packets.extend(reply::listing(list(header.kind, body, part, devices)?, part));
        return Ok(());
    }
    match header.kind {
        kind::GET_LINK => {
            let Some(name) = links::asked(body, devices)? else {
                return Err(Refusal::invalid("a link is asked for by its number or its name"));
            };
            packets.extend(link(&name, reply, devices));
            Ok(())
        }
        kind::GET_QDISC | kind::GET_CLASS => {
            packets.push(get(header.kind, body, reply, devices)?);
            Ok(())
        }
        kind::GET_FILTER | kind::GET_CHAIN | kind::GET_ACTION => {
            packets.push(get_classify(header, body, reply, devices)?);
            Ok(())
        }
        kind => Err(Refusal::unsupported(format!("there are no messages of type {kind} here"))),
    }
}

fn link(name: &str, header: Header, devices: &mut dyn Devices) -> Option<Vec<u8>> {
    let index = links::index(devices, name)?;
    devices.device(name).map(|device| links::link(device, index, header))
}

/// Returns the messages of a listing.
fn list(kind: u16, body: &[u8], part: Header, devices: &mut dyn Devices) -> Result<Vec<Vec<u8>>, Refusal> {
    match kind {
        kind::GET_LINK => {
            let names = match links::asked(body, devices)? {
                Some(name) => vec![name],
                None => devices.names(),
            };
            let mut all = Vec::with_capacity(names.len());
            devices.in_steps(names, &mut |devices, name| all.extend(link(&name, part, devices)));
            Ok(all)
        }
        kind::GET_QDISC | kind::GET_CLASS => {
            let mut all = Vec::new();
            each(kind, body, devices, &mut |shown| all.push(shown.message(part)))?;
            Ok(all)
        }
        kind::GET_FILTER | kind::GET_CHAIN => list_filters(kind, body, part, devices),
        kind::GET_ACTION => {
            let named = classify::names(body)?;
            let Some((name, _)) = named.first() else {
                return Err(Refusal::invalid("actions are listed by their kind"));
            };
            Ok(classify::actions_listed(devices, name, part))
        }
        // Links have no addresses.
        _ => Ok(Vec::new()),
    }
}

/// Returns the messages of a listing of filters or chains.
fn list_filters(
    kind: u16,
    body: &[u8],
    part: Header,
    devices: &mut dyn Devices,
) -> Result<Vec<Vec<u8>>, Refusal> {
    let (head, rest) = TcHead::read(body).unwrap_or_default();
    let all = Attributes::read(rest, "message")?;
    let mut messages = Vec::new();
    // Without a link there are no filters, as in Linux.
    let owner = if head.link == 0 { None } else { Owner::asked(head, devices)? };
    let Some(owner) = owner else { return Ok(messages) };
    let mut take = |_, shown: Shown| messages.push(shown.message(part));
    match kind {
        kind::GET_FILTER => {
            let wanted = Wanted::read(head, &all)?;
            classify::each_filter(devices, owner, wanted, true, &mut take);
        }
        _ => classify::each_chain(devices, owner, all.u32(classify::CHAIN)?, &mut take),
    }
    Ok(messages)
}

/// Returns the message of one filter, of one chain, or of actions by their names.
fn get_classify(
    asked: Header,
    body: &[u8],
    reply: Header,
    devices: &mut dyn Devices,
) -> Result<Vec<u8>, Refusal> {
    // The words of tc find what is missing.
    let words = words(asked, body, devices, &Asked::to("get"))?;
    tool::change(&words, devices).map_err(|failure| refusal(&failure))?;
    let missing = || Refusal { errno: errno::NOENT, text: "there is no such object".into() };
    if asked.kind == kind::GET_ACTION {
        let actions = &devices.filters().actions;
        let named = classify::names(body)?;
        let ids: Option<Vec<_>> =
            named.iter().map(|(kind, index)| actions.find(kind, index.unwrap_or(0))).collect();
        let reply = Header { kind: kind::GET_ACTION, ..reply };
        return Ok(classify::of_single(devices, &ids.ok_or_else(missing)?, reply));
    }
    let (head, rest) = TcHead::read(body)?;
    let all = Attributes::read(rest, "message")?;
    let owner = Owner::asked(head, devices)?.ok_or_else(missing)?;
    let mut found = None;
    if asked.kind == kind::GET_FILTER {
        found = classify::find(devices, owner, head, Wanted::read(head, &all)?);
    } else {
        let chain = all.u32(classify::CHAIN)?.unwrap_or(0);
        classify::each_chain(devices, owner, Some(chain), &mut |_, shown| found = Some(shown));
    }
    found.map(|shown| shown.message(reply)).ok_or_else(missing)
}

/// Calls `f` on the qdiscs or the classes that a request asks for.
fn each(kind: u16, body: &[u8], devices: &mut dyn Devices, f: &mut dyn FnMut(Shown)) -> Result<(), Refusal> {
    // Some clients send `struct rtgenmsg` alone, one byte for all.
    let (head, rest) = TcHead::read(body).unwrap_or_default();
    let invisible = Attributes::read(rest, "message")?.bytes(DUMP_INVISIBLE).is_some();
    let names = match (head.link, kind) {
        // Without a link there are no classes, as in Linux.
        (0, kind::GET_CLASS) => Vec::new(),
        (0, _) => devices.names(),
        (link, _) => vec![links::name(devices, link)?],
    };
    for name in names {
        let Some(index) = links::index(devices, &name) else { continue };
        let blocks = classify::numbers(devices, &name);
        match kind {
            kind::GET_QDISC => each_qdisc(devices, &name, index, blocks, invisible, f),
            _ => each_class(devices, &name, index, true, &mut |shown| {
                if head.parent == 0 || head.parent >> 16 == shown.head.handle >> 16 {
                    f(shown);
                }
            }),
        }
    }
    Ok(())
}

/// Returns the message of one qdisc or class.
fn get(kind: u16, body: &[u8], header: Header, devices: &mut dyn Devices) -> Result<Vec<u8>, Refusal> {
    let (head, _) = TcHead::read(body)?;
    let mut found = None;
    let is_asked = |shown: &Shown| {
        let is = shown.head;
        (head.handle != 0 && is.handle == head.handle)
            || (head.handle == 0 && head.parent != 0 && is.parent == head.parent)
    };
    let only_one = TcHead { parent: if kind == kind::GET_CLASS { head.handle } else { 0 }, ..head };
    let mut asked = crate::wire::Writer::default();
    only_one.write(&mut asked);
    each(kind, &asked.finish(), devices, &mut |shown| {
        if found.is_none() && is_asked(&shown) {
            found = Some(shown);
        }
    })?;
    let missing = || Refusal { errno: errno::NOENT, text: "there is no such object".into() };
    found.map(|shown| shown.message(header)).ok_or_else(missing)
}

/// Runs the words that a message stands for, and returns them, or the name of its type.
fn change(header: Header, body: &[u8], devices: &mut dyn Devices) -> (String, Result<(), Refusal>) {
    let name = || kind::name(header.kind).to_owned();
    let asked = match asked(header, body, devices) {
        Ok(asked) => asked,
        Err(refusal) => return (name(), Err(refusal)),
    };
    let words = words(header, body, devices, &asked);
    let said = words.as_ref().map_or_else(|_| name(), |words| words.join(" "));
    let done = words.and_then(|words| tool::change(&words, devices).map_err(|failure| refusal(&failure)));
    // The reason of another refusal is not that of Linux.
    let done = match (asked.refusal, done) {
        (Some(refusal), Err(own)) if own.errno != refusal.errno => Err(refusal),
        (_, done) => done,
    };
    (said, done)
}

/// Reads what a message asks for.
///
/// # Errors
/// The message is malformed, its link is missing, or Linux refuses its flags.
fn asked(header: Header, body: &[u8], devices: &mut dyn Devices) -> Result<Asked, Refusal> {
    match header.kind {
        kind::GET_FILTER | kind::GET_CHAIN => Ok(Asked::to("get")),
        kind::NEW_ACTION | kind::DEL_ACTION | kind::GET_ACTION => Ok(Asked::default()),
        _ => flags::asked(header, body, devices),
    }
}

fn words(
    header: Header,
    body: &[u8],
    devices: &mut dyn Devices,
    asked: &Asked,
) -> Result<Vec<String>, Refusal> {
    let mut links = |link| links::name(devices, link).ok();
    if is_of_filters(header.kind) {
        return command::filter_words(header, body, &mut links, asked);
    }
    if matches!(header.kind, kind::NEW_ACTION | kind::DEL_ACTION | kind::GET_ACTION) {
        return command::action_words(header, body, &mut links);
    }
    let (head, _) = TcHead::read(body)?;
    let name = links::name(devices, head.link)?;
    command::words(header, body, &name, devices.kinds(), asked)
}

/// The sentences of libc for error numbers (strerror(3)), as tc prints them.
const SENTENCES: [(&str, i32); 8] = [
    ("No such file or directory", errno::NOENT),
    ("Device or resource busy", errno::BUSY),
    ("File exists", errno::EXIST),
    ("No such device", errno::NODEV),
    ("Invalid argument", errno::INVAL),
    ("Numerical result out of range", errno::RANGE),
    ("Operation not supported", errno::OPNOTSUPP),
    ("Not supported", errno::OPNOTSUPP),
];

/// Linux's own sentences whose error number does not follow from the diagnostic.
const OWN_SENTENCES: [(&str, i32); 14] = [
    ("Cannot find specified filter chain.", errno::INVAL),
    ("Class doesn't support blocks.", errno::OPNOTSUPP),
    ("Exclusivity flag on, cannot modify.", errno::EXIST),
    ("Filter kind and protocol must be specified.", errno::INVAL),
    ("NLM_F_REPLACE needed to override.", errno::EXIST),
    ("Parent Qdisc doesn't exists.", errno::INVAL),
    ("Parent qdisc is not classful.", errno::OPNOTSUPP),
    ("Qdisc not classful.", errno::INVAL),
    ("STAB not supported on a non root.", errno::OPNOTSUPP),
    ("Specified chain index exceeds upper limit.", errno::INVAL),
    ("Specified class doesn't exist.", errno::NOENT),
    ("Specified class not found.", errno::NOENT),
    ("Specified qdisc kind is unknown.", errno::NOENT),
    ("TC classifier not found.", errno::NOENT),
];

/// Returns a failure of tc as the kernel refuses: its own number and sentence, then the reason.
fn refusal(Failure { diagnostic, .. }: &Failure) -> Refusal {
    let line = diagnostic.linux.as_deref().and_then(|lines| lines.lines().next());
    let answer = line.and_then(|line| line.strip_prefix("RTNETLINK answers: "));
    let errno = SENTENCES.iter().find(|(sentence, _)| Some(*sentence) == answer).map(|(_, errno)| *errno);
    let said = line.and_then(|line| line.strip_prefix("Error: "));
    let known = OWN_SENTENCES.iter().find(|(sentence, _)| Some(*sentence) == said);
    let errno = errno.or(known.map(|(_, errno)| *errno));
    let own = own(diagnostic);
    let text = match (said, answer) {
        // tc prints the text of an answer in the place of this line, by which programs decide.
        (None, Some(_)) => format!("{own}; {}", line.unwrap_or_default()),
        (Some(said), _) => format!("{said} {own}"),
        (None, None) => own,
    };
    Refusal { errno: errno.unwrap_or_else(|| number(diagnostic)), text }
}

/// Returns a diagnostic without its place: the client has not seen the words.
fn own(diagnostic: &Diagnostic) -> String {
    let mut text = diagnostic.message.clone();
    if !diagnostic.expected.is_empty() {
        text.push_str(&format!(": expected {}", diagnostic.expected));
    }
    if let Some(advice) = diagnostic.advice() {
        text.push_str(&format!(" ({advice})"));
    }
    txweir_tc::printable::clean(&text).into_owned()
}

fn number(diagnostic: &Diagnostic) -> i32 {
    match diagnostic.code {
        code::NOT_FOUND => errno::NOENT,
        code::EXISTS => errno::EXIST,
        code::UNKNOWN_KIND => errno::NOENT,
        code::UNSUPPORTED | code::NOT_IN_ENGINE | code::UNKNOWN_OBJECT => errno::OPNOTSUPP,
        _ => errno::INVAL,
    }
}

#[cfg(test)]
mod tests {
    use txweir_core::Instant;
    use txweir_core::classify::action::State;
    use txweir_core::classify::filter::Filters;
    use txweir_core::classify::packet::PortId;
    use txweir_tc::memory::Memory;
    use txweir_tc::tool::{Device, Request, run};

    use super::*;
    use crate::Watch;
    use crate::message::message;

    /// Devices that count the turns for packets.
    struct Turns(Memory, usize);

    impl Turns {
        /// Returns a device `lan` that was given these lines.
        fn new(lines: &[String]) -> Self {
            let mut memory = Memory::new(&["lan"]);
            for line in lines {
                let args = line.split(' ').map(String::from).collect();
                let done = run(&Request { args, ..Request::default() }, &mut memory);
                assert_eq!(done.status, 0, "{line}: {}", done.stderr);
            }
            Self(memory, 0)
        }

        /// Returns the number of turns while `f` runs.
        fn turns(&mut self, f: impl FnOnce(&mut Self)) -> usize {
            self.1 = 0;
            f(self);
            self.1
        }
    }

    impl Devices for Turns {
        fn names(&self) -> Vec<String> {
            self.0.names()
        }
        fn device(&mut self, name: &str) -> Option<&mut dyn Device> {
            self.0.device(name)
        }
        fn filters(&self) -> &Filters {
            self.0.filters()
        }
        fn filters_mut(&mut self) -> &mut Filters {
            self.0.filters_mut()
        }
        fn state(&self) -> &State {
            self.0.state()
        }
        fn port(&mut self, name: &str) -> Option<PortId> {
            self.0.port(name)
        }
        fn now(&self) -> Instant {
            self.0.now()
        }
        fn pause(&mut self) {
            self.1 += 1;
        }
    }

    fn dump(kind: u16) -> Vec<u8> {
        let header = Header { kind, flags: 1 | flag::DUMP, seq: 1, port: 0 };
        message(header, |w| TcHead { link: 2, ..TcHead::default() }.write(w))
    }

    /// Returns the numbers of the messages of an answer of each type, and of error numbers.
    fn kinds(answer: &Answer) -> Vec<u16> {
        answer.packets.iter().flat_map(|packet| messages(packet).map(|m| m.header.kind)).collect()
    }

    /// A listing of many classes, filters, chains or actions is made in steps, and so is the look
    /// for notifications.
    #[test]
    fn packets_have_turns_within_a_listing() {
        let mut lines = vec!["qdisc add dev lan root handle 1: htb".to_owned()];
        for n in 1..=160 {
            lines.push(format!("class add dev lan parent 1: classid 1:{n:x} htb rate 1mbit"));
            lines.push(format!("qdisc add dev lan parent 1:{n:x} handle {:x}: pfifo", n + 16));
            let place = format!("filter add dev lan parent 1: protocol ip chain {n} prio {n}");
            lines.push(format!("{place} matchall classid 1:{n:x}"));
            lines.push(format!("actions add action gact pass index {n}"));
        }
        let mut world = Turns::new(&lines);
        for (kind, count) in
            [(kind::GET_QDISC, 161), (kind::GET_CLASS, 160), (kind::GET_FILTER, 320), (kind::GET_CHAIN, 160)]
        {
            let turns = world.turns(|world| {
                let answer = answer(&dump(kind), &mut Client::default(), world);
                let kinds = kinds(&answer);
                assert_eq!((kinds.len(), kinds.last()), (count + 1, Some(&kind::DONE)), "{kind}");
            });
            assert!(turns >= 10, "{kind}: {turns}");
        }
        let mut watch = Watch::default();
        let first = world.turns(|world| assert_eq!(watch.look(world).len(), 161 + 160 + 160 + 160 + 160));
        assert!(first >= 50, "{first}");
        let again = world.turns(|world| assert_eq!(watch.look(world), Vec::<Vec<u8>>::new()));
        assert!(again >= 50, "{again}");
    }

    /// A message that is refused before it has words is known by the name of its type.
    #[test]
    fn a_change_without_words_has_the_name_of_its_type() {
        let mut world = Turns::new(&[]);
        // There is no link of this number, and the head of an action is no list of actions.
        for (kind, name) in [
            (kind::DEL_QDISC, "RTM_DELQDISC"),
            (kind::NEW_CLASS, "RTM_NEWTCLASS"),
            (kind::NEW_ACTION, "RTM_NEWACTION"),
        ] {
            let head = TcHead { link: 99, parent: u32::MAX, ..TcHead::default() };
            let change = message(Header { kind, flags: 1, seq: 2, port: 0 }, |w| head.write(w));
            let answer = answer(&change, &mut Client::default(), &mut world);
            assert_eq!(answer.changes, [Change { words: name.to_owned(), is_done: false }]);
        }
    }

    /// The replies to one packet have a bound: a listing is refused behind too many, and changes
    /// are done.
    #[test]
    fn listings_behind_too_many_replies_are_refused() {
        let mut world = Turns::new(&["qdisc add dev lan root handle 1: prio".to_owned()]);
        let header = Header { kind: kind::DEL_QDISC, flags: 1 | flag::ACK, seq: 2, port: 0 };
        let root = TcHead { link: 2, parent: u32::MAX, ..TcHead::default() };
        let change = message(header, |w| root.write(w));
        let one = answer(&dump(kind::GET_CLASS), &mut Client::default(), &mut world);
        let most: usize = one.packets.iter().map(Vec::len).sum();
        let packet = [dump(kind::GET_CLASS), dump(kind::GET_CLASS), dump(kind::GET_CLASS), change].concat();
        let listed = [kind::NEW_CLASS, kind::NEW_CLASS, kind::NEW_CLASS, kind::DONE];
        let mut client = Client::default();
        client.take(Told::ExtAck(true));
        let all = answer_within(&packet, &mut client, &mut world, most);
        // The second one is behind as many bytes as there may be.
        assert_eq!(kinds(&all), [&listed[..], &listed, &[kind::ERROR, kind::ERROR]].concat());
        let error = |at: usize| {
            let ack = messages(&all.packets[at]).next().expect("an acknowledgement");
            (i32::from_ne_bytes(ack.body[..4].try_into().expect("four bytes")), ack.whole.to_vec())
        };
        let (refused, said) = error(2);
        let text = format!("expected at most {most} bytes of replies");
        assert!(refused == -errno::BUSY && said.windows(text.len()).any(|part| part == text.as_bytes()));
        assert_eq!((error(3).0, all.changes.len()), (0, 1));
    }
}
