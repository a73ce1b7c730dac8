//! A configuration that is read again while the daemon runs.

use std::sync::Arc;

use txweir_core::Instant;
use txweir_tc::{Source, lex};

use crate::ahead::Ahead;
use crate::daemon::Daemon;
use crate::links::Before;
use crate::machine::Local;
use crate::protocol::Reply;

impl Daemon {
    /// Makes links and qdiscs as a configuration describes them, called `name` in messages. A wrong
    /// or impossible line changes nothing: it is found on copies, or the changes before it are
    /// taken back. Links come first, each changed in one step; then the qdiscs of all links, in one
    /// step that keeps the waiting packets. Objects that the configuration does not name stay as
    /// they are.
    pub fn reload(&mut self, now: Instant, name: &str, text: &str) -> Reply {
        let machine = std::mem::replace(&mut self.links_mut().machine, Box::new(Local));
        let ahead = Ahead::of(machine);
        self.links_mut().machine = Box::new(Arc::clone(&ahead));
        let reply = self.reload_on(&ahead, now, name, text);
        self.links_mut().machine = Box::new(Local);
        if let Some(machine) = ahead.end() {
            self.links_mut().machine = machine;
        }
        reply
    }

    fn reload_on(&mut self, ahead: &Ahead, now: Instant, name: &str, text: &str) -> Reply {
        let (rehearsed, reshapes) = self.rehearse(now, name, text);
        if rehearsed.status != 0 {
            return rehearsed;
        }
        // An interface that cannot be opened is found before the first change.
        if let Err(error) = ahead.open_all() {
            return Reply::refused(2, &format!("{name}: {error}"));
        }
        let before = Before::of(self.links());
        // A queue that goes takes its qdiscs with it.
        let qdiscs = if reshapes { only(name, &self.state(), About::Qdiscs) } else { String::new() };
        // A link cannot be changed in an atomic batch.
        let mut reply = self.batch(now, name, &only(name, text, About::Links), &[]);
        if reply.status == 0 {
            reply = self.batch(now, name, &only(name, text, About::Qdiscs), &["--atomic"]);
        }
        if reply.status != 0 {
            reply.stderr.push_str(&self.take_back(now, &before, &qdiscs));
        }
        reply
    }

    /// Makes the links as they were before, and the qdiscs that these lines make if there are any.
    /// Returns the reasons for which something stays otherwise, if it does.
    fn take_back(&mut self, now: Instant, before: &Before, qdiscs: &str) -> String {
        if let Err(stuck) = self.gather(now) {
            return format!("{stuck}: the changes up to here stay\n");
        }
        before.bring_back(self.links_mut(), now);
        match qdiscs {
            "" => String::new(),
            lines => {
                let reply = self.batch(now, "the qdiscs before", lines, &["--atomic"]);
                if reply.status == 0 { String::new() } else { reply.stderr }
            }
        }
    }

    fn batch(&mut self, now: Instant, name: &str, text: &str, flags: &[&str]) -> Reply {
        // The output of a configuration has no reader.
        Reply { stdout: String::new(), ..self.read(now, name, text, flags) }
    }
}

/// The objects of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    Links,
    Qdiscs,
}

/// Returns the lines about these objects, each on the line where it was.
fn only(name: &str, text: &str, about: About) -> String {
    let source = Arc::new(Source::new(name, text));
    let mut kept = String::with_capacity(text.len());
    let blank = |text: &str| text.chars().filter(|c| *c == '\n').collect::<String>();
    let mut at = 0;
    for line in lex::lines(&source, 0..text.len()).into_iter().flatten() {
        let is_link = line.words.first().is_some_and(|word| word.text == "link");
        if line.words.is_empty() || is_link != (about == About::Links) {
            continue;
        }
        let span = line.span();
        kept.push_str(&blank(&text[at..span.start]));
        kept.push_str(&text[span.clone()]);
        at = span.end;
    }
    kept.push_str(&blank(&text[at..]));
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_links_stay_where_they_are() {
        let text =
            "# links\nlink add a \\\n  --mtu 9000 # big\nqdisc add dev a \\\n root pfifo\n\nlink add é\n";
        let links = |text: &str| only("t", text, About::Links);
        assert_eq!(links(text), "\nlink add a \\\n  --mtu 9000\n\n\n\nlink add é\n");
        assert_eq!((links("qdisc show\n"), links("link show")), ("\n".to_owned(), "link show".to_owned()));
        let others = "\n\n\nqdisc add dev a \\\n root pfifo\n\n\n";
        assert_eq!(only("t", text, About::Qdiscs), others);
    }
}
