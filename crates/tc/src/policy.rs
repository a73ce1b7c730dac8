//! `Policy`: the commands of a text, read whole, checked whole, and applied whole or not at all.

use std::ops::Range;
use std::sync::Arc;

use txweir_core::cx::Cx;
use txweir_core::value::{Value, Words};
use txweir_core::{ConfigError, Env, ErrorKind, Rate, Tree};

use crate::command::{self, Command, QdiscCommand, Verb};
use crate::diagnostic::{Diagnostic, Diagnostics, code};
use crate::lex;
use crate::refusal;
use crate::show;
use crate::source::Source;
use crate::suggest::is_number;

/// The commands of a text, each of them good in itself.
#[derive(Clone, Debug)]
pub struct Policy {
    source: Arc<Source>,
    commands: Vec<Command>,
    warnings: Vec<Diagnostic>,
}

impl Policy {
    /// Reads a text that is called `name` in messages. Every line is read, so that everything wrong with them is
    /// said at once: words, kinds, keys and values. Whether the places exist is for [`Policy::check`] and
    /// [`Policy::apply`].
    pub fn parse(text: &str, name: &str) -> Result<Self, Diagnostics> {
        Self::parse_part(text, 0..text.len(), name)
    }

    /// Like `parse`, for commands that are a part of a larger text, which the messages point into. A part that
    /// is not one (past the end, within a character) is read as empty.
    pub fn parse_part(text: &str, part: Range<usize>, name: &str) -> Result<Self, Diagnostics> {
        let source = Arc::new(Source::new(name, text));
        let mut policy = Self { source: Arc::clone(&source), commands: Vec::new(), warnings: Vec::new() };
        let mut wrong = Vec::new();
        for line in lex::lines(&source, part) {
            let read = line.and_then(|line| command::parse(&source, &line)).and_then(|cmd| {
                let Command::Qdisc(qdisc) = &cmd;
                check_options(&source, qdisc)?;
                Ok(cmd)
            });
            match read {
                Ok(cmd) => {
                    let Command::Qdisc(qdisc) = &cmd;
                    policy.warnings.extend(bare_rates(&source, qdisc));
                    policy.commands.push(cmd);
                }
                Err(d) => wrong.push(d),
            }
        }
        Diagnostics::of(wrong).map_or(Ok(policy), Err)
    }

    /// The text it was read from.
    pub fn source(&self) -> &Source {
        &self.source
    }
    /// The commands, in order.
    pub fn commands(&self) -> &[Command] {
        &self.commands
    }
    /// What was accepted and hardly meant.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// The names of the devices that commands are for, each once, in order of appearance.
    pub fn devices(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for Command::Qdisc(cmd) in &self.commands {
            if let Some(dev) = cmd.dev.as_ref().filter(|d| !names.contains(&d.text.as_str())) {
                names.push(dev.text.as_str());
            }
        }
        names
    }

    /// The commands for one device: those that name it and those that name none.
    #[must_use]
    pub fn for_device(&self, name: &str) -> Self {
        let mut policy = self.clone();
        policy.commands.retain(|Command::Qdisc(cmd)| cmd.dev.as_ref().is_none_or(|d| d.text == name));
        policy
    }

    /// Whether it could be applied to a device as it starts, with nothing but its default qdisc.
    pub fn check(&self, env: &Env) -> Result<(), Diagnostic> {
        self.run(&mut Tree::new(*env), &mut scratch_cx())
    }

    /// Applies every command to the tree of one device, in order. It is first rehearsed on a copy of the tree's
    /// structure, so that on an error the tree and the packets in it are as they were. A policy whose commands
    /// name several devices is refused: see [`Policy::for_device`].
    pub fn apply(&self, tree: &mut Tree, cx: &mut Cx) -> Result<(), Diagnostic> {
        let mut scratch_cx = scratch_cx();
        let mut scratch = show::copy(tree, &mut scratch_cx).map_err(|e| self.no_copy(&e))?;
        self.run(&mut scratch, &mut scratch_cx)?;
        self.run(tree, cx)
    }

    fn run(&self, tree: &mut Tree, cx: &mut Cx) -> Result<(), Diagnostic> {
        self.one_device()?;
        self.commands.iter().try_for_each(|Command::Qdisc(cmd)| {
            cmd.run(tree, cx).map_err(|e| refusal::of(&self.source, cmd, &e))
        })
    }

    fn one_device(&self) -> Result<(), Diagnostic> {
        let mut first: Option<&str> = None;
        for Command::Qdisc(cmd) in &self.commands {
            let Some(dev) = &cmd.dev else { continue };
            if let Some(other) = first.filter(|first| *first != dev.text) {
                let message = format!("this is for {}, and the line before is for {other}", dev.text);
                let err = Diagnostic::error(code::CONFLICT, &self.source, dev.span.clone(), message);
                return Err(err.expected("lines for one device"));
            }
            first = Some(&dev.text);
        }
        Ok(())
    }

    /// Only for a tree whose nodes were put there by typed calls, with values that cannot be said in words.
    fn no_copy(&self, err: &ConfigError) -> Diagnostic {
        let message = format!("the qdiscs that are there cannot be said in tc's words: {err}");
        Diagnostic::error(code::UNSUPPORTED, &self.source, 0..0, message)
    }
}

/// Surroundings for trees that no packet goes through.
fn scratch_cx() -> Cx {
    Cx::new(1, 0)
}

/// Whether the kind takes the options, on any device.
fn check_options(source: &Arc<Source>, cmd: &QdiscCommand) -> Result<(), Diagnostic> {
    let Some(spec) = cmd.spec().filter(|_| cmd.verb != Verb::Delete) else { return Ok(()) };
    let options: Vec<&str> = cmd.options.iter().map(|w| w.text.as_str()).collect();
    match spec.build(&mut Words::new(&options), &Env::default()) {
        Ok(_) => Ok(()),
        // A part of the rate of a link that is not known yet.
        Err(e) if e.kind == ErrorKind::NoLinkRate => Ok(()),
        Err(e) => Err(refusal::of(source, cmd, &e)),
    }
}

/// Rates without a unit: tc reads `rate 10` as ten bits per second.
fn bare_rates(source: &Arc<Source>, cmd: &QdiscCommand) -> Vec<Diagnostic> {
    let Some(spec) = cmd.spec() else { return Vec::new() };
    let is_rate = |key: &str| {
        spec.params.iter().any(|p| p.expected == <Rate as Value>::EXPECTED && p.words.contains(&key))
    };
    let pairs = cmd.options.windows(2).filter(|pair| is_rate(&pair[0].text) && is_number(&pair[1].text));
    pairs
        .map(|pair| {
            let (key, given) = (&pair[0].text, &pair[1].text);
            let message = format!("{} {key} {given} means {given} bit/s", spec.kind);
            let hint = format!("write {given}bit if it is meant, or {given}kbit, {given}mbit");
            Diagnostic::error(code::BARE_RATE, source, pair[1].span.clone(), message)
                .hint(Some(hint))
                .warning()
        })
        .collect()
}
