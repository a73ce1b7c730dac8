//! iptables, ip6tables and nft: rules are kept so that a script finds those that it made, and the
//! marks and classes that they give to packets are known.

use std::collections::BTreeMap;

use txweir_core::Handle;
use txweir_tc::tool::Outcome;

use super::{failed, said};

/// The marks and classes that rules of the firewall give to packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marking {
    /// Marks, each with the mask of its bits.
    pub marks: Vec<(u32, u32)>,
    /// Classes, by which a packet goes without a filter.
    pub classes: Vec<Handle>,
    /// True if a rule sets a mark or a class that only a run with packets tells.
    pub any: bool,
}

/// The rules of the firewall.
#[derive(Debug, Default)]
pub(super) struct Firewall {
    /// The rules of each chain, by command, table and chain.
    chains: BTreeMap<(String, String, String), Vec<String>>,
    marking: Marking,
}

const BUILT_IN: [&str; 5] = ["INPUT", "OUTPUT", "FORWARD", "PREROUTING", "POSTROUTING"];

impl Firewall {
    /// Returns what the rules give to packets; rules that were removed count.
    pub(super) const fn marking(&self) -> &Marking {
        &self.marking
    }

    /// Answers a call of iptables or ip6tables.
    pub(super) fn iptables(&mut self, program: &str, args: &[String]) -> Outcome {
        let mut table = "filter".to_string();
        let mut rest: Vec<&str> = Vec::new();
        let mut words = args.iter().map(String::as_str);
        while let Some(word) = words.next() {
            match word {
                "-t" | "--table" => table = words.next().unwrap_or("filter").to_string(),
                "-w" | "--wait" | "-n" | "--numeric" | "-v" | "--verbose" | "--line-numbers" | "-x" => {}
                "-V" | "--version" => return said(format!("{program} v1.8.9 (nf_tables)\n")),
                word => rest.push(word),
            }
        }
        // `-w 5` leaves the seconds in front.
        let from = rest.iter().position(|w| w.starts_with('-')).unwrap_or(rest.len());
        let Some((verb, rest)) = rest[from..].split_first() else {
            return failed(2, format!("{program}: no command specified\n"));
        };
        let chain = rest.first().copied().unwrap_or("").to_string();
        let mut rule: Vec<&str> = rest.get(1..).unwrap_or(&[]).to_vec();
        let key = (program.to_string(), table.clone(), chain.clone());
        let there = BUILT_IN.contains(&chain.as_str()) || self.chains.contains_key(&key);
        let no_chain = || failed(1, format!("{program}: No chain/target/match by that name.\n"));
        let no_rule =
            || failed(1, format!("{program}: Bad rule (does a matching rule exist in that chain?).\n"));
        match *verb {
            "-A" | "--append" | "-I" | "--insert" => {
                if !there {
                    return no_chain();
                }
                if rule.first().is_some_and(|n| n.parse::<u32>().is_ok()) {
                    rule.remove(0);
                }
                self.learn(&rule);
                let rules = self.chains.entry(key).or_default();
                let at = if verb.starts_with("-I") || *verb == "--insert" { 0 } else { rules.len() };
                rules.insert(at, rule.join(" "));
            }
            "-C" | "--check" | "-D" | "--delete" => {
                let rules = self.chains.get_mut(&key);
                let number = rule.first().and_then(|n| n.parse::<usize>().ok()).filter(|_| rule.len() == 1);
                let text = rule.join(" ");
                let at = rules.as_ref().and_then(|rules| match number {
                    Some(n) => n.checked_sub(1).filter(|n| *n < rules.len()),
                    None => rules.iter().position(|r| *r == text),
                });
                match (at, rules) {
                    (Some(at), Some(rules)) if verb.starts_with("-D") || *verb == "--delete" => {
                        rules.remove(at);
                    }
                    (Some(_), _) => {}
                    _ if !there => return no_chain(),
                    _ => return no_rule(),
                }
            }
            "-R" | "--replace" => {
                let at = rule.first().and_then(|n| n.parse::<usize>().ok()).and_then(|n| n.checked_sub(1));
                let rules = self.chains.get_mut(&key);
                let Some(old) = at.zip(rules).and_then(|(at, rules)| rules.get_mut(at)) else {
                    return if there { no_rule() } else { no_chain() };
                };
                rule.remove(0);
                *old = rule.join(" ");
                self.learn(&rule);
            }
            "-N" | "--new-chain" => {
                if there {
                    return failed(1, format!("{program}: Chain already exists.\n"));
                }
                self.chains.insert(key, Vec::new());
            }
            "-X" | "--delete-chain" | "-F" | "--flush" | "-Z" | "--zero" => {
                if !chain.is_empty() && !there {
                    return no_chain();
                }
                let gone = matches!(*verb, "-X" | "--delete-chain");
                let mine = |k: &(String, String, String)| {
                    k.0 == program && k.1 == table && (chain.is_empty() || k.2 == chain)
                };
                if *verb != "-Z" && *verb != "--zero" {
                    self.chains.iter_mut().filter(|(k, _)| mine(k)).for_each(|(_, rules)| rules.clear());
                }
                self.chains.retain(|k, _| !(gone && mine(k)));
            }
            "-L" | "--list" | "-S" | "--list-rules" => {
                if !chain.is_empty() && !there {
                    return no_chain();
                }
                return said(self.listed(program, &table, &chain, verb.starts_with("-S")));
            }
            _ => {}
        }
        Outcome::default()
    }

    fn listed(&self, program: &str, table: &str, chain: &str, as_rules: bool) -> String {
        let mut text = String::new();
        for ((_, _, name), rules) in self
            .chains
            .iter()
            .filter(|((p, t, c), _)| p == program && t == table && (chain.is_empty() || c == chain))
        {
            match as_rules {
                true => rules.iter().for_each(|rule| text.push_str(&format!("-A {name} {rule}\n"))),
                false => {
                    text.push_str(&format!(
                        "Chain {name}\ntarget     prot opt source               destination\n"
                    ));
                    rules.iter().for_each(|rule| text.push_str(&format!("{rule}\n")));
                }
            }
        }
        text
    }

    /// Answers `iptables-restore`.
    pub(super) fn restore(&mut self, program: &str, text: &str) -> Outcome {
        let program = program.trim_end_matches("-restore");
        let mut table = "filter".to_string();
        for line in text.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix('*') {
                table = name.to_string();
            } else if let Some(chain) = line.strip_prefix(':') {
                let chain = chain.split(' ').next().unwrap_or("").to_string();
                self.chains.insert((program.into(), table.clone(), chain), Vec::new());
            } else if line.starts_with('-') {
                let words = ["-t", &table].into_iter().chain(line.split_whitespace());
                let done = self.iptables(program, &words.map(String::from).collect::<Vec<_>>());
                if done.status != 0 {
                    return done;
                }
            }
        }
        Outcome::default()
    }

    /// Returns the text of `iptables-save`.
    pub(super) fn saved(&self, program: &str) -> String {
        let program = program.trim_end_matches("-save");
        let mine = self.chains.iter().filter(|((p, ..), _)| p == program);
        let mut text = String::new();
        let mut tables: Vec<&str> = mine.map(|((_, table, _), _)| table.as_str()).collect();
        tables.dedup();
        for table in tables {
            let rules = self.listed(program, table, "", true);
            text.push_str(&format!("*{table}\n{rules}COMMIT\n"));
        }
        text
    }

    /// Answers nft. Its rules are not kept; what they give to packets is.
    pub(super) fn nft(&mut self, args: &[String], input: &str) -> Outcome {
        let words: Vec<&str> = args.iter().map(String::as_str).filter(|a| !a.starts_with('-')).collect();
        if words.first().is_some_and(|w| matches!(*w, "list" | "flush" | "reset")) {
            // A list of something that was never made fails.
            let known = words[0] != "list" || matches!(words.get(1), Some(&("ruleset" | "tables")));
            return if known { Outcome::default() } else { failed(1, "Error: No such file or directory\n") };
        }
        let text = args.join(" ") + " " + input;
        let words: Vec<&str> =
            text.split([' ', '\n', '\t', ';', '{', '}']).filter(|w| !w.is_empty()).collect();
        for three in words.windows(3) {
            match three {
                ["mark", "set", value] => match number(value) {
                    Some(mark) => self.marking.marks.push((mark, u32::MAX)),
                    None => self.marking.any = true,
                },
                ["priority", "set", value] => match class(value.trim_matches('"')) {
                    Some(class) => self.marking.classes.push(class),
                    None => self.marking.any = true,
                },
                _ => {}
            }
        }
        Outcome::default()
    }

    /// Notes what a rule gives to packets.
    fn learn(&mut self, rule: &[&str]) {
        let target = |name: &str| rule.windows(2).any(|p| matches!(p[0], "-j" | "--jump") && p[1] == name);
        for pair in rule.windows(2) {
            match pair[0] {
                "--set-mark" | "--set-xmark" | "--or-mark" if target("MARK") || target("CONNMARK") => {
                    let (mark, mask) = pair[1].split_once('/').unwrap_or((pair[1], "0xffffffff"));
                    match (number(mark), number(mask)) {
                        (Some(mark), Some(_)) if pair[0] == "--or-mark" => {
                            self.marking.marks.push((mark, mark))
                        }
                        (Some(mark), Some(mask)) => self.marking.marks.push((mark, mask)),
                        _ => self.marking.any = true,
                    }
                }
                "--set-class" => match class(pair[1]) {
                    Some(class) => self.marking.classes.push(class),
                    None => self.marking.any = true,
                },
                "--and-mark" | "--xor-mark" | "--set-tos-mark" | "--map-set" => self.marking.any = true,
                _ => {}
            }
        }
    }
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn class(text: &str) -> Option<Handle> {
    let (major, minor) = text.split_once(':')?;
    Some(Handle::new(u16::from_str_radix(major, 16).ok()?, u16::from_str_radix(minor, 16).ok()?))
}
