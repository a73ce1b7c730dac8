//! `txweir top`: the links of a running daemon and their qdiscs, as rates, until a key.

mod screen;
mod snapshot;
mod tree;
mod view;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

use txweir::Nanos;
use txweir::daemon::Client;
use txweir::device::{Signal, Signals, clock};

use crate::{Failure, client, output, run};
use screen::{Key, Screen};
use snapshot::{Link, Snapshot};
use view::{Choices, Order, Pair, frame, place};

/// Columns of a frame of plain text: those of the smallest usual terminal.
const PLAIN_WIDTH: usize = 80;
/// Longest wait for a key before signals and the daemon's answer are looked at again.
const GLANCE: Duration = Duration::from_millis(50);
/// Rows that a key scrolls.
const PAGE: usize = 8;
/// Shortest and longest interval.
const INTERVALS: [Nanos; 2] = [Nanos(100_000_000), Nanos(3_600_000_000_000)];

/// Options of `txweir top`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Keys: q quits; j, k and the arrows choose a link; s changes the order; \
                        PgUp and PgDn scroll the qdiscs.")]
pub struct Args {
    /// The daemon's socket
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// Time between two looks at the counters, 100ms to 1h
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub interval: String,

    /// Print one frame as plain text after one interval, and end; also where stdin or stdout is no
    /// terminal
    #[arg(long)]
    pub once: bool,

    /// The link whose qdiscs are shown first [default: the first in order]
    #[arg(long, value_name = "NAME")]
    pub link: Option<String>,

    /// Order of the links
    #[arg(long, value_name = "ORDER", value_enum, default_value_t)]
    pub order: Order,
}

/// Runs `txweir top`.
pub fn main(args: Args) -> Result<(), Failure> {
    let interval = run::time("--interval", &args.interval)?;
    let [least, most] = INTERVALS;
    if !(least..=most).contains(&interval) {
        let given = &args.interval;
        return Err(Failure::usage(format!("--interval: expected 100ms to 1h, given {given}")));
    }
    let interval = Duration::from_nanos(interval.0);
    let mut client = client::connect(args.socket.as_deref())?;
    let choices = Choices { order: args.order, link: args.link, scrolled: 0 };
    let first = Snapshot::take(&mut client, choose(&choices, None))?;
    if let Some(name) = choices.link.as_deref().filter(|name| first.link(name).is_none()) {
        let links: Vec<&str> = first.links.iter().map(|link| link.name.as_str()).collect();
        let links = if links.is_empty() { "none".to_owned() } else { links.join(", ") };
        return Err(Failure::usage(format!("--link {name}: the daemon has no such link (links: {links})")));
    }
    if args.once || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        std::thread::sleep(interval);
        let now = Snapshot::take(&mut client, choose(&choices, Some(&first)))?;
        return print(&now, &first, &choices);
    }
    watch(client, first, choices, interval)
}

/// Prints a frame with all links and all rows.
fn print(now: &Snapshot, before: &Snapshot, choices: &Choices) -> Result<(), Failure> {
    let lines = frame(Pair { now, before: Some(before) }, choices, PLAIN_WIDTH, None);
    output::print(lines.into_iter().fold(String::new(), |text, (_, line)| text + &line + "\n"))
}

/// Returns a function that names the chosen link among links that the daemon has just told.
fn choose<'a>(
    choices: &'a Choices,
    before: Option<&'a Snapshot>,
) -> impl FnOnce(&[Link]) -> Option<String> + 'a {
    move |links| {
        let now = Snapshot { at_ns: clock::now_ns(), links: links.to_vec(), ..Snapshot::default() };
        chosen(Pair { now: &now, before }, choices)
    }
}

/// Returns the name of the chosen link; `None` if there is no link.
fn chosen(pair: Pair<'_>, choices: &Choices) -> Option<String> {
    let links = pair.ordered(choices.order);
    links.get(place(&links, choices.link.as_deref())).map(|link| link.name.clone())
}

/// A daemon that a thread of its own asks: keys work while an answer takes long.
struct Asker {
    ask: Sender<Choices>,
    answers: Receiver<Result<Snapshot, Failure>>,
    /// True while an answer is to come.
    is_open: bool,
}

impl Asker {
    fn start(mut client: Client) -> Self {
        let (ask, asked) = channel::<Choices>();
        let (answer, answers) = channel();
        // The thread ends with its process, or when the other ends of the channels are gone.
        std::thread::spawn(move || {
            while let Ok(choices) = asked.recv() {
                if answer.send(Snapshot::take(&mut client, choose(&choices, None))).is_err() {
                    return;
                }
            }
        });
        Self { ask, answers, is_open: false }
    }

    /// Asks for a snapshot. No answer may be open.
    fn ask(&mut self, choices: &Choices) {
        self.is_open = self.ask.send(choices.clone()).is_ok();
    }

    /// Returns the answer, if it has come.
    fn answer(&mut self) -> Result<Option<Snapshot>, Failure> {
        match self.answers.try_recv() {
            Ok(taken) => {
                self.is_open = false;
                taken.map(Some)
            }
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => {
                Err(Failure::failed("the thread that asks the daemon is gone"))
            }
        }
    }
}

/// The state of a session at the terminal.
struct Session {
    now: Snapshot,
    before: Option<Snapshot>,
    choices: Choices,
    /// True if the qdiscs that are there are of another link than the chosen one.
    is_stale: bool,
}

impl Session {
    fn pair(&self) -> Pair<'_> {
        Pair { now: &self.now, before: self.before.as_ref() }
    }

    /// Takes an answer. If it came early, because another link was chosen, the rates are still
    /// those since the snapshot before.
    fn update(&mut self, now: Snapshot) {
        let was_early = std::mem::take(&mut self.is_stale);
        let last = std::mem::replace(&mut self.now, now);
        if self.before.is_none() || !was_early {
            self.before = Some(last);
        }
        // A link that was removed leaves its place to the first.
        self.choices.link = chosen(self.pair(), &self.choices);
        self.choices.scrolled = self.choices.scrolled.min(self.now.rows.len());
    }

    /// Does what a key says. Returns false for the key that quits.
    fn press(&mut self, key: Key) -> bool {
        let scrolled = self.choices.scrolled;
        match key {
            Key::Quit => return false,
            Key::Order => self.choices.order = self.choices.order.next(),
            Key::PageDown => self.choices.scrolled = (scrolled + PAGE).min(self.now.rows.len()),
            Key::PageUp => self.choices.scrolled = scrolled.saturating_sub(PAGE),
            Key::Down => self.walk(1),
            Key::Up => self.walk(-1),
            Key::Resized => {}
        }
        true
    }

    /// Chooses the link so many places on.
    fn walk(&mut self, by: isize) {
        let links = self.pair().ordered(self.choices.order);
        let at = place(&links, self.choices.link.as_deref()).saturating_add_signed(by);
        let Some(link) = links.get(at.min(links.len().saturating_sub(1))).map(|link| link.name.clone())
        else {
            return;
        };
        self.is_stale |= self.now.of.as_ref() != Some(&link);
        (self.choices.link, self.choices.scrolled) = (Some(link), 0);
    }
}

/// Shows frames until a key or a signal ends it.
fn watch(client: Client, first: Snapshot, choices: Choices, interval: Duration) -> Result<(), Failure> {
    let signals = Signals::take_these(&[Signal::Interrupt, Signal::Terminate, Signal::Hangup])
        .map_err(|e| Failure::failed(format!("cannot take over signals: {e}")))?;
    let mut asker = Asker::start(client);
    let mut session = Session { now: first, before: None, choices, is_stale: false };
    session.choices.link = chosen(session.pair(), &session.choices);
    let interval = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
    let mut due = clock::now_ns().saturating_add(interval);
    let gone = |e: io::Error| Failure::failed(format!("terminal: {e}"));
    let mut screen = Screen::take().map_err(gone)?;
    let mut is_drawn = false;
    loop {
        if !is_drawn {
            let draw = |width, height| frame(session.pair(), &session.choices, width, Some(height));
            screen.draw(draw).map_err(gone)?;
        }
        let key = screen.key(GLANCE).map_err(gone)?;
        is_drawn = key.is_none();
        let asked_to_end = signals.pending().map_err(gone)?.is_some();
        if asked_to_end || key.is_some_and(|key| !session.press(key)) {
            return Ok(());
        }
        if let Some(now) = asker.answer()? {
            session.update(now);
            is_drawn = false;
        }
        if !asker.is_open && (session.is_stale || clock::now_ns() >= due) {
            asker.ask(&session.choices);
            due = clock::now_ns().saturating_add(interval);
        }
    }
}
