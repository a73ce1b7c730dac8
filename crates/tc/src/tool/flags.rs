//! The options before the object, and the two options that this tool adds.

use std::sync::Arc;

use crate::command::whole;
use crate::diagnostic::{Diagnostic, code};
use crate::failure::Failure;
use crate::lex::Word;
use crate::source::Source;
use crate::suggest::closest;

/// The options of a command line, and the place of the object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `-s`: counters too.
    pub statistics: bool,
    /// `-d`: details too.
    pub details: bool,
    /// `-r`: raw numbers too.
    pub raw: bool,
    /// `-p`: JSON over several lines.
    pub pretty: bool,
    /// `-j`: JSON.
    pub json: bool,
    /// `-iec`: rates in units of 1024.
    pub iec: bool,
    /// `-o`: a backslash in place of every line end.
    pub oneline: bool,
    /// `-nm`: names of classes.
    pub names: bool,
    /// `-cf FILE`: the file of the names.
    pub class_names: Option<String>,
    /// `-b FILE`: the lines to run; `-` is standard input.
    pub batch: Option<String>,
    /// `-force`: go on after a line of the batch has failed.
    pub force: bool,
    /// `-V`: print the version, and nothing else.
    pub version: bool,
    /// `-h`: print the place of the help, and nothing else.
    pub help: bool,
    /// `--dry-run`: report the changes without making them.
    pub dry_run: bool,
    /// `--atomic`: run a batch as a whole or not at all.
    pub atomic: bool,
    /// Number of arguments before the object.
    pub before: usize,
}

/// The effect of an option of tc.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    Statistics,
    Details,
    Raw,
    Pretty,
    Version,
    Iec,
    Help,
    Force,
    Batch,
    Netns,
    Names,
    ClassNames,
    Json,
    Oneline,
    /// Accepted, without effect on the output here.
    Nothing,
}

/// tc's options, in the order in which it tries them on an abbreviation.
const OPTIONS: [(&str, Does); 22] = [
    ("graph", Does::Nothing),
    ("statistics", Does::Statistics),
    ("stats", Does::Statistics),
    ("details", Does::Details),
    ("raw", Does::Raw),
    ("pretty", Does::Pretty),
    ("Version", Does::Version),
    ("iec", Does::Iec),
    ("help", Does::Help),
    ("force", Does::Force),
    ("batch", Does::Batch),
    ("netns", Does::Netns),
    ("Numeric", Does::Nothing),
    ("nm", Does::Names),
    ("names", Does::Names),
    ("cf", Does::ClassNames),
    ("conf", Does::ClassNames),
    ("timestamp", Does::Nothing),
    ("tshort", Does::Nothing),
    ("json", Does::Json),
    ("oneline", Does::Oneline),
    ("brief", Does::Nothing),
];

/// Options that are accepted only in this exact form.
const EXACT: [(&str, Does); 3] = [
    // tc takes a lone dash for `-statistics`.
    ("", Does::Statistics),
    // tc has only `-help`; other spellings print the help too.
    ("-help", Does::Help),
    // An option of tools newer than tc 6.1: it prints each line done; here the text of an error
    // does that better.
    ("echo", Does::Nothing),
];

/// The option of colours, and its values.
const COLOR: (&str, [&str; 3]) = ("color", ["auto", "always", "never"]);

/// The options that this tool adds. They may stand anywhere.
const OURS: [&str; 2] = ["--dry-run", "--atomic"];

impl Flags {
    /// Reads the options in front of the object, and those that this tool adds, which may stand
    /// anywhere. An unknown option is refused with status 255, as in tc.
    pub fn read(args: &[String]) -> Result<Self, Failure> {
        let source = command_line(args).0;
        let mut flags = Self::default();
        let mut at = 0;
        while let Some(arg) = args.get(at).filter(|arg| arg.starts_with('-')) {
            at += 1;
            if OURS.contains(&arg.as_str()) {
                continue;
            }
            match option(arg) {
                Some(Does::Batch) => {
                    // The name may be left out at the end of the line: then it is standard input.
                    flags.batch = Some(args.get(at).cloned().unwrap_or_else(|| "-".into()));
                    at += 1;
                }
                Some(Does::ClassNames) => {
                    flags.class_names = args.get(at).cloned();
                    at += 1;
                }
                Some(Does::Netns) => {
                    let message = "-n is not supported: links of a daemon lie in any network namespace, under names \
                                   of their own (`txweir link add NAME --if NETNS/IF`)";
                    return Err(refused(&source, args, at - 1, code::UNSUPPORTED, message));
                }
                Some(does) => flags.set(does),
                None => {
                    let message = format!("there is no option \"{arg}\"");
                    let mut failure = refused(&source, args, at - 1, code::UNKNOWN_OBJECT, &message);
                    failure.diagnostic.suggestion = nearest(arg);
                    return Err(failure.linux(format!("Option \"{arg}\" is unknown, try \"tc -help\".")));
                }
            }
        }
        flags.before = at.min(args.len());
        flags.dry_run = args.iter().any(|a| a == OURS[0]);
        flags.atomic = args.iter().any(|a| a == OURS[1]);
        Ok(flags)
    }

    fn set(&mut self, does: Does) {
        let slot = match does {
            Does::Statistics => &mut self.statistics,
            Does::Details => &mut self.details,
            Does::Raw => &mut self.raw,
            Does::Pretty => &mut self.pretty,
            Does::Version => &mut self.version,
            Does::Iec => &mut self.iec,
            Does::Help => &mut self.help,
            Does::Force => &mut self.force,
            Does::Names => &mut self.names,
            Does::Json => &mut self.json,
            Does::Oneline => &mut self.oneline,
            Does::Nothing | Does::Batch | Does::Netns | Does::ClassNames => return,
        };
        *slot = true;
    }
}

/// An option of tc whose value is the word behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Valued {
    /// `-batch`: the file of the lines.
    Batch,
    /// `-conf`: the file of the names of classes.
    ClassNames,
    /// `-netns`: the network namespace.
    Netns,
}

impl Valued {
    /// Returns the option that a word is, whole or cut short (`-n`, `-b`, `-c`); `None` for a word
    /// whose value, if it has one, is part of it.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        match option(word)? {
            Does::Batch => Some(Self::Batch),
            Does::ClassNames => Some(Self::ClassNames),
            Does::Netns => Some(Self::Netns),
            _ => None,
        }
    }
}

/// Returns the effect of an argument that begins with a dash.
fn option(arg: &str) -> Option<Does> {
    let name = arg.strip_prefix('-')?;
    let exact = EXACT.iter().find(|(option, _)| *option == name);
    let known = whole(name, OPTIONS.iter().map(|(option, _)| *option));
    let cut_short = OPTIONS.iter().find(|(option, _)| Some(*option) == known);
    let found = exact.or(cut_short).map(|(_, does)| *does);
    found.or_else(|| is_color(name).then_some(Does::Nothing))
}

/// True if it is the option of colours, cut short or not, with or without a value. Without one,
/// `-c` and `-co` are `-cf` and `-conf`, which tc tries first.
fn is_color(name: &str) -> bool {
    let (option, values) = COLOR;
    let (name, value) = name.split_once('=').unwrap_or((name, ""));
    option.starts_with(name) && (value.is_empty() || values.contains(&value))
}

fn nearest(arg: &str) -> Option<String> {
    let name = arg.trim_start_matches('-');
    let ours = closest(arg, OURS).map(String::from);
    ours.or_else(|| closest(name, OPTIONS.iter().map(|(option, _)| *option)).map(|o| format!("-{o}")))
}

fn refused(source: &Arc<Source>, args: &[String], at: usize, code: &'static str, message: &str) -> Failure {
    let span = command_line(args).1.get(at).map_or(0..0, |w| w.span.clone());
    Failure::usage(Diagnostic::error(code, source, span, message))
}

/// Returns a command line as a text for messages, called `tc`, and the place of each of its words.
pub(super) fn command_line(args: &[String]) -> (Arc<Source>, Vec<Word>) {
    let mut text = String::from("tc");
    let mut words = Vec::with_capacity(args.len());
    for arg in args {
        text.push(' ');
        let start = text.len();
        let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '\'' | '"' | '\\' | '#');
        match !arg.is_empty() && arg.chars().all(plain) {
            true => text.push_str(arg),
            false => text.push_str(&format!("'{}'", arg.replace('\n', " "))),
        }
        words.push(Word { text: arg.clone(), span: start..text.len() });
    }
    (Arc::new(Source::new("tc", text)), words)
}

/// True if it is one of the options that this tool adds.
pub(super) fn is_ours(word: &str) -> bool {
    OURS.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Flags, String> {
        let args: Vec<String> = line.split(' ').map(String::from).collect();
        Flags::read(&args).map_err(|f| format!("{} {}", f.status, f.diagnostic.brief()))
    }

    #[test]
    fn options_whole_and_cut_short() {
        let flags = read("-s -det -j -p -ie -o -r -nm -col -color=never qdisc show -s").expect("good");
        assert!(flags.statistics && flags.details && flags.json && flags.pretty && flags.iec);
        assert!(flags.oneline && flags.raw && flags.names && !flags.force && flags.before == 10);
        let flags = read("-force -b a.tc").expect("good");
        assert_eq!((flags.force, flags.batch.as_deref(), flags.before), (true, Some("a.tc"), 3));
        assert_eq!(read("-b").expect("good").batch.as_deref(), Some("-"));
        assert_eq!(read("-cf f qdisc").expect("good").class_names.as_deref(), Some("f"));
        assert_eq!(read("-st qdisc").expect("good").before, 1);
        assert!(read("--help").expect("good").help);
    }

    /// tc 6.1 tries `-cf` and `-conf` before `-color`, and takes a lone dash for `-statistics`.
    #[test]
    fn cut_short_options_are_those_that_tc_tries_first() {
        for option in ["-c", "-cf", "-co", "-con", "-conf"] {
            let flags = read(&format!("{option} f qdisc")).expect(option);
            assert_eq!((flags.class_names.as_deref(), flags.before), (Some("f"), 2), "{option}");
        }
        for option in ["-col", "-colo", "-color", "-color=", "-c=", "-c=always", "-co=never", "-colo=auto"] {
            let flags = read(&format!("{option} f qdisc")).expect(option);
            assert_eq!((flags.class_names, flags.before), (None, 1), "{option}");
        }
        let flags = read("- qdisc").expect("good");
        assert!(flags.statistics && flags.before == 1);
    }

    #[test]
    fn three_options_have_values_behind_them() {
        let all = |words: &str| words.split(' ').map(Valued::of).collect::<Vec<_>>();
        assert_eq!(all("-n -ne -netns"), [Some(Valued::Netns); 3]);
        assert_eq!(all("-b -ba -batch"), [Some(Valued::Batch); 3]);
        assert_eq!(all("-c -cf -co -conf"), [Some(Valued::ClassNames); 4]);
        assert_eq!(all("-nm -na -N -s - -br -col -c=never --netns netns n x"), [None; 12]);
    }

    #[test]
    fn our_own_may_stand_anywhere() {
        let flags = read("--atomic -s qdisc add dev a root pfifo --dry-run").expect("good");
        assert!(flags.dry_run && flags.atomic && flags.before == 2);
    }

    #[test]
    fn others_are_refused() {
        assert_eq!(read("-x qdisc"), Err("255 tc:1:4: there is no option \"-x\"".into()));
        assert_eq!(
            read("--dryrun qdisc"),
            Err("255 tc:1:4: there is no option \"--dryrun\" (did you mean \"--dry-run\"?)".into())
        );
        assert_eq!(
            read("-s -n blue qdisc"),
            Err("255 tc:1:7: -n is not supported: links of a daemon lie in any network namespace, under names \
                 of their own (`txweir link add NAME --if NETNS/IF`)"
                .into())
        );
        assert!(read("-sd").is_err() && read("-color=no").is_err());
    }
}
