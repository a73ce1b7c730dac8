//! `Daemon`: the links, and what can be asked about them. It does no I/O of its own but that of its links.

use txweir_core::Instant;
use txweir_tc::Source;
use txweir_tc::tool::{self, Outcome, Request};

use crate::grammar::{self, Verb};
use crate::links::Links;
use crate::protocol::{Ask, Batch, Reply};
use crate::show;

/// The links and what clients may ask.
#[derive(Debug, Default)]
pub struct Daemon {
    links: Links,
}

impl Daemon {
    /// One without links.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One with these links.
    #[must_use]
    pub const fn with(links: Links) -> Self {
        Self { links }
    }

    /// Its links.
    #[must_use]
    pub const fn links(&self) -> &Links {
        &self.links
    }
    /// Its links, to use.
    pub const fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }

    /// Does what is asked, whole or not at all, and says what came of it.
    pub fn answer(&mut self, now: Instant, ask: &Ask) -> Reply {
        self.links.now = now;
        match ask {
            Ask::Tc { args, batch, class_names } => self.tc(args, batch.as_ref(), class_names.as_ref()),
            Ask::Link { args } => self.link(now, args),
            // Links first: the lines of tc are about them.
            Ask::Save => Reply::done(self.links.save() + &tool::save(&mut self.links)),
            Ask::Version => Reply::done(concat!("txweir ", env!("CARGO_PKG_VERSION"), "\n")),
        }
    }

    fn tc(&mut self, args: &[String], batch: Option<&Batch>, class_names: Option<&String>) -> Reply {
        let batch = batch.map(|batch| Source::new(&batch.name, &batch.text).behind(batch.lines_before));
        let request = Request { args: args.to_vec(), batch, class_names: class_names.cloned() };
        let Outcome { status, stdout, stderr } = tool::run(&request, &mut self.links);
        Reply { status, stdout, stderr, ..Reply::default() }
    }

    /// Applies a batch of tc and link lines, called `name` in messages.
    pub fn configure(&mut self, now: Instant, name: &str, text: &str) -> Reply {
        let batch = Some(Batch { name: name.to_owned(), text: text.to_owned(), lines_before: 0 });
        self.answer(now, &Ask::Tc { args: vec!["-b".to_owned(), name.to_owned()], batch, class_names: None })
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

    /// Does what a link command says, whole or not at all; what is to be printed.
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
                self.links.all_mut().iter_mut().for_each(|link| link.advance(now));
                let at = wanted.name.as_ref().map(|name| self.links.index(name)).transpose()?;
                let shown = match at {
                    Some(at) => &mut self.links.all_mut()[at..=at],
                    None => self.links.all_mut(),
                };
                Ok(if wanted.json { show::json(shown) } else { show::text(shown) })
            }
            _ => self.links.change(now, verb, false).map(|_| String::new()),
        }
    }
}
