//! The pages of the manual and the completions: complete, and readable for the programs that use
//! them.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::common::Folder;

const TXWEIR: &str = env!("CARGO_BIN_EXE_txweir");

fn done(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success() && output.stderr.is_empty(), "{:?}", text(&output.stderr));
    text(&output.stdout)
}

fn txweir(words: &[&str]) -> String {
    done(&Command::new(TXWEIR).args(words).output().expect("run it"))
}

/// Runs a program on a file; `None`, with the reason printed, if the program is not there.
fn checked_by(program: &str, args: &[&str], file: &PathBuf) -> Option<Output> {
    match Command::new(program).args(args).arg(file).env("LC_ALL", "C.UTF-8").output() {
        Ok(output) => Some(output),
        Err(e) => {
            println!("check by {program} skipped, because it cannot run: {e}");
            None
        }
    }
}

/// Returns the verbs that a help lists.
fn verbs(help: &str) -> Vec<String> {
    let list = help.split("Commands:\n").nth(1).unwrap_or_default();
    let lines = list.lines().take_while(|line| !line.is_empty());
    // A line that continues another is indented further.
    let first = |line: &str| line.strip_prefix("  ").is_some_and(|rest| !rest.starts_with(' '));
    lines
        .filter(|line| first(line))
        .filter_map(|line| line.split_whitespace().next())
        .map(String::from)
        .collect()
}

#[test]
fn every_command_has_a_page_without_a_warning() {
    let folder = Folder::new("man");
    txweir(&["man", folder.0.to_str().expect("UTF-8")]);
    let mut wanted = BTreeSet::from(["txweir.1".to_owned()]);
    let names = verbs(&txweir(&["--help"]));
    assert!(names.len() > 9, "{names:?}");
    for verb in names {
        // The words of tc are those of tc(8).
        let below = if verb == "tc" { Vec::new() } else { verbs(&txweir(&[&verb, "--help"])) };
        wanted.extend(below.iter().map(|other| format!("txweir-{verb}-{other}.1")));
        wanted.insert(format!("txweir-{verb}.1"));
    }
    let pages = fs::read_dir(&folder.0).expect("the folder");
    let written: BTreeSet<String> =
        pages.flatten().map(|page| page.file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(written, wanted);
    let page = fs::read_to_string(folder.0.join("txweir-link-add.1")).expect("the page of link add");
    assert!(page.contains(r"\-\-txqueuelen"), "{page}");
    for name in written {
        let args = ["-man", "-Tutf8", "-ww", "-z"];
        let Some(output) = checked_by("groff", &args, &folder.0.join(&name)) else { return };
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{name}: {said}");
    }
}

/// Completes words as bash does: with the script read, by its function.
#[test]
fn bash_completes_verbs_and_options() {
    let folder = Folder::new("bash");
    let script = folder.0.join("txweir.bash");
    fs::write(&script, txweir(&["completions", "bash"])).expect("write the script");
    let Some(output) = checked_by("bash", &["-n"], &script) else { return };
    done(&output);
    let completed = |words: &str| {
        let shell = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _txweir txweir \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"; echo \"${{COMPREPLY[@]}}\"",
            script.display()
        );
        done(&Command::new("bash").args(["--norc", "-c", &shell]).output().expect("bash"))
    };
    assert_eq!(completed("txweir lin"), "link\n");
    assert_eq!(completed("txweir link se"), "set send\n");
    assert_eq!(completed("txweir link add --txq"), "--txqueuelen\n");
    assert_eq!(completed("txweir top --on"), "--once\n");
}

#[test]
fn zsh_and_fish_read_their_completions() {
    let folder = Folder::new("shells");
    for shell in ["zsh", "fish"] {
        let script = folder.0.join(shell);
        let text = txweir(&["completions", shell]);
        // The help of `txweir link set`, whose words the daemon reads.
        assert!(text.contains("packets stay where they are"), "{shell}: {text}");
        fs::write(&script, text).expect("write the script");
        if let Some(output) = checked_by(shell, &["-n"], &script) {
            done(&output);
        }
    }
}
