//! `Daemon`: the links, and the requests about them. It does no I/O except through its links.

mod crew;

use txweir_core::Instant;
use txweir_netlink::refusal::errno;
use txweir_netlink::{Answer, Client, Refusal};
use txweir_tc::Source;
use txweir_tc::tool::{self, Outcome, Request};

use crate::effect::{self, Effect};
use crate::grammar::{self, Verb};
use crate::links::Links;
use crate::protocol::{Ask, Batch, Reply};
use crate::show;
use crew::Crew;

/// The links and the requests that clients may make.
#[derive(Debug, Default)]
pub struct Daemon {
    links: Links,
    /// The workers of the links.
    pub(crate) crew: Crew,
    /// Number of requests performed that may have changed something.
    changes: u64,
}

impl Daemon {
    /// Makes a daemon without links.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a daemon with these links.
    #[must_use]
    pub fn with(links: Links) -> Self {
        Self { links, ..Self::default() }
    }

    /// Returns its links.
    #[must_use]
    pub const fn links(&self) -> &Links {
        &self.links
    }
    /// Returns the number of requests performed that may have changed something, sent packets
    /// included.
    pub(crate) const fn changes(&self) -> u64 {
        self.changes
    }
    /// Returns its links, to use them.
    pub const fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }

    /// Performs a request, whole or not at all, and returns the reply.
    pub fn answer(&mut self, now: Instant, ask: &Ask) -> Reply {
        if let Err(stuck) = self.gather(now) {
            return Reply::refused(2, &format!("{stuck}: nothing was done"));
        }
        // Packets have passed within the steps of a request before.
        self.links.now = self.links.now.max(now);
        self.changes += u64::from(effect::of(ask) == Effect::Changes);
        self.links.begin_request();
        let reply = self.perform(now, ask);
        self.links.end_request();
        reply
    }

    /// Performs the requests of a packet of rtnetlink, each whole or not at all.
    pub fn netlink(&mut self, now: Instant, packet: &[u8], client: &mut Client) -> Answer {
        if let Err(stuck) = self.gather(now) {
            let text = format!("{stuck}: nothing was done");
            return txweir_netlink::refuse(packet, client, &Refusal { errno: errno::BUSY, text });
        }
        self.links.now = self.links.now.max(now);
        self.links.begin_request();
        let answer = txweir_netlink::answer(packet, client, &mut self.links);
        self.links.end_request();
        self.changes += answer.changes.len() as u64;
        answer
    }

    fn perform(&mut self, now: Instant, ask: &Ask) -> Reply {
        match ask {
            Ask::Tc { args, batch, class_names } => self.tc(args, batch.as_ref(), class_names.as_ref()),
            Ask::Link { args } => self.link(now, args),
            // Links come first: the lines of tc refer to them.
            Ask::Save => Reply::done(self.state()),
            Ask::Version => Reply::done(concat!("txweir ", env!("CARGO_PKG_VERSION"), "\n")),
        }
    }

    /// Returns the lines that make the present links and qdiscs.
    pub(crate) fn state(&mut self) -> String {
        self.links.begin_request();
        self.links.save() + &tool::save(&mut self.links)
    }

    fn tc(&mut self, args: &[String], batch: Option<&Batch>, class_names: Option<&String>) -> Reply {
        let batch = batch.map(|batch| Source::new(&batch.name, &batch.text).behind(batch.lines_before));
        let request = Request { args: args.to_vec(), batch, class_names: class_names.cloned() };
        let Outcome { status, stdout, stderr } = tool::run(&request, &mut self.links);
        Reply { status, stdout, stderr, ..Reply::default() }
    }

    /// Applies a batch of tc and link lines, called `name` in messages. Its actions may name links
    /// that do not exist.
    pub fn configure(&mut self, now: Instant, name: &str, text: &str) -> Reply {
        self.read(now, name, text, &[])
    }

    /// Tries a configuration, and changes nothing. Returns no output but errors; and true if a link
    /// that is there would have another number of queues.
    pub(crate) fn rehearse(&mut self, now: Instant, name: &str, text: &str) -> (Reply, bool) {
        if let Err(stuck) = self.gather(now) {
            return (Reply::refused(2, &format!("{stuck}: nothing was done")), false);
        }
        self.links.now = self.links.now.max(now);
        self.links.begin_request();
        self.links.configures = true;
        let Outcome { status, stderr, .. } = tool::rehearse(&Source::new(name, text), &mut self.links);
        self.links.configures = false;
        let reshapes = self.links.sketch.as_ref().is_some_and(|sketch| sketch.reshapes(&self.links));
        self.links.end_request();
        (Reply { status, stderr, ..Reply::default() }, reshapes)
    }

    /// Performs a configuration as a batch with these options.
    pub(crate) fn read(&mut self, now: Instant, name: &str, text: &str, flags: &[&str]) -> Reply {
        let batch =
            Some(Batch { name: name.to_owned(), text: text.to_owned(), lines_before: 0, more: false });
        let args = flags.iter().chain(&["-b", name]).map(|word| (*word).to_owned()).collect();
        self.links.configures = true;
        let reply = self.answer(now, &Ask::Tc { args, batch, class_names: None });
        self.links.configures = false;
        reply
    }

    fn link(&mut self, now: Instant, args: &[String]) -> Reply {
        match grammar::read(args) {
            Ok(verb) => match self.run(now, &verb) {
                Ok(text) => Reply::done(text),
                Err(error) => Reply::refused(2, &error),
            },
            Err(not_read) if not_read.help => Reply::done(not_read.text),
            Err(not_read) => Reply::refused(1, &not_read.text),
        }
    }

    /// Performs a link command, whole or not at all, and returns its output.
    ///
    /// # Errors
    /// One line that names the link, the key, what was expected and what was given.
    fn run(&mut self, now: Instant, verb: &Verb) -> Result<String, String> {
        match verb {
            Verb::Send(send) => {
                let at = self.links.index(&send.name)?;
                self.links.send(now, at, send)
            }
            Verb::Show(wanted) => {
                for link in self.links.all_mut() {
                    link.each_real(&mut |copy| copy.advance(now));
                }
                let at = wanted.name.as_ref().map(|name| self.links.index(name)).transpose()?;
                let shown = match at {
                    Some(at) => &mut self.links.all_mut()[at..=at],
                    None => self.links.all_mut(),
                };
                Ok(if wanted.json { show::json(shown) } else { show::text(shown, wanted.stats) })
            }
            _ => self.links.change(now, verb, false).map(|_| String::new()),
        }
    }
}
