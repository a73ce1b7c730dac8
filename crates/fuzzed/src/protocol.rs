//! The daemon's protocol: lines of JSON, performed.

use std::cell::RefCell;

use serde_json::Value;
use txweir_core::Instant;
use txweir_daemon::Daemon;
use txweir_daemon::grammar::{self, Verb};
use txweir_daemon::protocol::{Ask, Batch, Reply, Request};
use txweir_runtime::Notes;
use txweir_tc::{Source, lex};

/// Most requests of an input.
const REQUESTS_MAX: usize = 12;
/// Most queues and generated packets of a link command.
const QUEUES_MAX: u32 = 8;
const PACKETS_MAX: u32 = 64;
/// Most links of a daemon, each of which takes some 2 MiB.
const LINKS_MAX: usize = 6;
/// Most digits of a number in tc lines: a larger one may ask for tables of some megabytes.
const DIGITS_MAX: usize = 4;

/// The links that a daemon starts with.
const LINKS: &str =
    "link replace n --type null --mtu 1500 --txqueuelen 1000 --prio-synack on --fairsend 0 --queues 1
link replace w --type wire --rate 10mbit --queues 2 --mtu 1500 --txqueuelen 1000 --prio-synack on --fairsend 0
";

/// A daemon as it was started.
struct World {
    daemon: Daemon,
    saved: String,
}

thread_local! {
    /// The daemon of the next input, if the last one has left it as it was.
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

/// Reads lines as requests and performs them on a daemon with two links that have no interface:
/// each has one reply, which reads back; what is refused changes nothing; every frame is in a sum;
/// and the saved configuration makes the same again.
///
/// # Panics
/// If one of these laws does not hold.
pub fn protocol(data: &[u8]) {
    let requests = data.split(|byte| *byte == b'\n').take(REQUESTS_MAX).map(Request::read);
    let requests: Vec<Request> = requests.collect();
    let asks = |request: &Request| request.ask.as_ref().is_ok_and(|ask| !matches!(ask, Ask::Version));
    if !requests.iter().any(asks) {
        requests.iter().for_each(|request| replied(&request.id, refusal(request)));
        return;
    }
    // A request that breaks a law must not leave a broken daemon behind.
    let mut world = WORLD.take().unwrap_or_else(World::new);
    for (at, request) in requests.iter().enumerate() {
        let reply = match &request.ask {
            Ok(ask) if is_small(ask) && world.daemon.links().all().len() < LINKS_MAX => {
                world.perform(Instant(1_000_000 * (at as u64 + 1)), ask)
            }
            Ok(_) => continue,
            Err(_) => refusal(request),
        };
        replied(&request.id, reply);
    }
    let checks = data.len().is_multiple_of(4);
    if let Some(world) = world.into_started(checks) {
        WORLD.set(Some(world));
    }
}

fn refusal(request: &Request) -> Reply {
    request.ask.as_ref().err().map_or_else(|| Reply::done(""), |error| Reply::refused(1, error))
}

/// Checks that a reply is one line that reads back.
fn replied(id: &Value, reply: Reply) {
    let reply = Reply { id: id.clone(), ..reply };
    let line = reply.line();
    let (end, text) = line.split_last().expect("a line");
    assert!(*end == b'\n' && !text.contains(&b'\n'));
    let mut again: Reply = serde_json::from_slice(text).expect("a reply in JSON");
    if again.id.is_f64() {
        // The last digit of a fraction may differ.
        again.id = id.clone();
    }
    assert_eq!(again, reply);
    assert!(matches!(reply.status, 0..=2 | 255), "{reply:?}");
    assert!(reply.status == 0 || !reply.stderr.is_empty(), "{reply:?}");
}

impl World {
    fn new() -> Self {
        let mut daemon = Daemon::new();
        *daemon.links_mut().notes_mut() = Notes::new(Box::new(std::io::sink()));
        let reply = daemon.configure(Instant::ZERO, "start", LINKS);
        assert_eq!((reply.status, reply.stderr.as_str()), (0, ""));
        let saved = daemon.answer(Instant::ZERO, &Ask::Save).stdout;
        Self { daemon, saved }
    }

    fn saved(&mut self, now: Instant) -> String {
        self.daemon.answer(now, &Ask::Save).stdout
    }

    /// Performs a request and checks the laws.
    fn perform(&mut self, now: Instant, ask: &Ask) -> Reply {
        let whole = match ask {
            Ask::Tc { args, batch, .. } => {
                let says = |flag: &str| args.iter().any(|arg| arg == flag);
                batch.is_none() || says("--atomic") || says("--dry-run")
            }
            _ => true,
        };
        let dry = matches!(ask, Ask::Tc { args, .. } if args.iter().any(|arg| arg == "--dry-run"));
        let before = whole.then(|| self.saved(now));
        let reply = self.daemon.answer(now, ask);
        if let Some(before) = before.filter(|_| reply.status != 0 || dry) {
            assert_eq!(self.saved(now), before, "{ask:?} was refused, or only rehearsed: {}", reply.stderr);
        }
        for link in self.daemon.links().all() {
            let [came, known] = link.way.ledger().sums();
            assert_eq!(came, known, "{ask:?}: {:?}", link.way.ledger());
        }
        reply
    }

    /// Checks that the saved configuration makes the same again, and returns the daemon as it was
    /// started, if commands can undo what was done. The check takes a second daemon: one input of
    /// four is checked.
    fn into_started(mut self, checks: bool) -> Option<Self> {
        let now = Instant(1 << 40);
        let saved = self.saved(now);
        if saved == self.saved {
            return Some(self);
        }
        if checks && !(saved.contains(" u32 divisor ") && saved.contains(" chain ")) {
            let mut again = Daemon::new();
            let reply = again.configure(now, "saved", &saved);
            assert_eq!((reply.status, reply.stderr.as_str()), (0, ""), "{saved}");
            assert_eq!(again.answer(now, &Ask::Save).stdout, saved);
        }
        let names: Vec<String> = self.daemon.links().all().iter().map(|link| link.name.to_string()).collect();
        let mut undo = String::new();
        for name in names {
            match name.as_str() {
                "n" | "w" => {
                    undo.push_str(&format!("qdisc del dev {name} root\nqdisc del dev {name} clsact\n"))
                }
                _ => undo.push_str(&format!("link del {name}\n")),
            }
        }
        for kind in txweir_core::classify::action::KINDS {
            undo.push_str(&format!("actions flush action {kind}\n"));
        }
        undo.push_str(LINKS);
        let batch = Some(Batch { name: "undo".into(), text: undo, lines_before: 0, more: false });
        let args = ["-force", "-b", "undo"].map(String::from).to_vec();
        self.daemon.answer(now, &Ask::Tc { args, batch, class_names: None });
        (self.saved(now) == self.saved).then_some(self)
    }
}

/// True if a request opens no interface and asks for little.
fn is_small(ask: &Ask) -> bool {
    match ask {
        Ask::Link { args } => is_small_link(args),
        Ask::Tc { args, batch, class_names } => {
            let few =
                |text: &str| !text.as_bytes().split(|b| !b.is_ascii_digit()).any(|n| n.len() > DIGITS_MAX);
            let lines = batch.as_ref().map_or("", |batch| batch.text.as_str());
            args.iter().all(|arg| few(arg))
                && few(lines)
                && class_names.as_deref().is_none_or(few)
                && small_lines(lines)
        }
        Ask::Save | Ask::Version => true,
    }
}

/// True if the lines about links in a batch are small.
fn small_lines(text: &str) -> bool {
    let source = std::sync::Arc::new(Source::new("b", text));
    let links = lex::lines(&source, 0..text.len())
        .into_iter()
        .flatten()
        .filter(|line| line.words.first().is_some_and(|word| word.text == "link"));
    let words = links.map(|line| line.words.iter().skip(1).map(|word| word.text.clone()).collect::<Vec<_>>());
    let all: Vec<Vec<String>> = words.collect();
    all.len() < LINKS_MAX && all.iter().all(|args| is_small_link(args))
}

fn is_small_link(args: &[String]) -> bool {
    let few = |queues: Option<u32>| queues.is_none_or(|queues| queues <= QUEUES_MAX);
    match grammar::read(args) {
        Ok(Verb::Add(make) | Verb::Replace(make)) => {
            let ring = make.wire.as_ref().is_none_or(|spec| spec.wire.ring <= 4096);
            !make.kind.is_some_and(grammar::LinkType::is_live)
                && make.interface.is_none()
                && few(make.change.queues)
                && ring
        }
        Ok(Verb::Set(change)) => few(change.queues),
        Ok(Verb::Send(send)) => send.packets <= PACKETS_MAX,
        Ok(Verb::Del(_) | Verb::Show(_)) | Err(_) => true,
    }
}
