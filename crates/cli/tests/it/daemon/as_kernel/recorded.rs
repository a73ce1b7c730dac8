//! The law of filters, chains and actions: text, through the real tc, messages, the state, messages
//! again and the real tc, is the text that `txweir tc` prints. The lines are those that were
//! recorded from Linux (`spec/tc/linux`).

use std::fs;
use std::path::Path;

use txweir::core::Env;
use txweir::tc::memory::{Memory, MemoryDevice};
use txweir::tc::tool::{Request, run};

use super::super::{Daemon, Dir};
use super::missing;
use crate::common::machine;

/// Files whose lines are about words that do not come to the kernel, or about qdiscs alone, which
/// another test has.
const OTHERS: [&str; 3] = ["action-words", "options", "words"];

/// Returns the words of a command; single quotes join words.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (part, text) in command.split('\'').enumerate() {
        let mut pieces = if part % 2 == 0 { text.split(' ').collect() } else { vec![text] }.into_iter();
        let last = words.last_mut().expect("one word at least");
        last.push_str(pieces.next().unwrap_or(""));
        words.extend(pieces.map(String::from));
    }
    words.into_iter().filter(|word| !word.is_empty()).collect()
}

/// Returns a listing without the times of actions, which go on with the daemon's clock.
fn timeless(text: &str) -> String {
    let mut left = Vec::new();
    let mut words = text.trim_end().split(' ');
    while let Some(word) = words.next() {
        match word {
            "installed" | "used" | "firstused" => {
                words.next();
                // `sec`, which may end the line; the next one is behind it.
                let unit = words.next().unwrap_or("");
                left.extend(unit.strip_prefix("sec").filter(|rest| !rest.is_empty()));
            }
            word => left.push(word),
        }
    }
    // Blanks in front of the times stay.
    left.join(" ").lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Returns a text without the lengths of prefixes.
fn without_lengths(text: &str) -> String {
    let mut parts = text.split('/');
    let first = parts.next().unwrap_or("").to_string();
    parts.fold(first, |all, part| all + part.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// The same without the times in JSON.
fn timeless_json(text: &str) -> String {
    let mut text = text.to_string();
    for key in ["installed", "last_used", "first_used"] {
        while let Some(at) = text.find(&format!("\"{key}\":")) {
            let end = text[at..].find([',', '}']).map_or(text.len(), |n| at + n);
            text.replace_range(at..(end + 1).min(text.len()), "");
        }
    }
    text
}

#[test]
fn filters_and_actions_are_what_txweir_tc_prints() {
    let _machine = machine::shared();
    if let Some(reason) = missing("tc") {
        println!("skipped, because {reason}");
        return;
    }
    let dir = Dir::new();
    let _daemon = Daemon::start(&mut dir.command(&["daemon", "--netlink"]));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/tc/linux");
    let mut files: Vec<_> = fs::read_dir(folder).expect("transcripts").flatten().map(|e| e.path()).collect();
    files.sort();
    let (mut lines, mut listings) = (0, 0);
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if OTHERS.contains(&name.as_str()) {
            continue;
        }
        for link in ["lan", "wan"] {
            dir.run(&["link", "del", link]);
            dir.ok(&format!("link add {link}"));
        }
        for kind in txweir::core::classify::action::KINDS {
            dir.run(&["tc", "actions", "flush", "action", kind]);
        }
        let device = |name| MemoryDevice::new(name, 1, Env::default());
        let mut own = Memory::default().with(device("lan")).with(device("wan"));
        let text = fs::read_to_string(&file).expect("a transcript");
        for command in text.lines().filter_map(|line| line.strip_prefix("$ tc ")) {
            // PARITY: nat-prefix.
            if name == "nat" && command.contains("/0 ") {
                continue;
            }
            let args = words(command);
            let before = ["as-kernel", "--", "tc"].into_iter();
            let (real, out, said) =
                dir.run(&before.chain(args.iter().map(String::as_str)).collect::<Vec<_>>());
            let ours = run(&Request { args, ..Request::default() }, &mut own);
            assert_eq!(real == 0, ours.status == 0, "{name}: {command}: {said}{}", ours.stderr);
            // A time in JSON may have had a line of its own.
            let shown = |text: &str| -> Vec<String> {
                let mut left = timeless(&timeless_json(text));
                if name == "nat" {
                    // PARITY: nat-prefix.
                    left = without_lengths(&left);
                }
                left.lines().filter(|line| !line.is_empty()).map(String::from).collect()
            };
            assert_eq!(shown(&out), shown(&ours.stdout), "{name}: {command}");
            lines += 1;
            listings += u32::from(!out.is_empty());
        }
    }
    println!("{lines} lines, {listings} of them listings, are the same");
    assert!(lines >= 1500 && listings >= 200, "{lines} {listings}");
}
