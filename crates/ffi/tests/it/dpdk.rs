//! `examples/dpdk.c`, a program of DPDK with a queue of this library, where DPDK is installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{built, found};

const PROGRAM: &str = include_str!("../../examples/dpdk.c");

/// Returns the flags with which programs use DPDK, or says why the test is skipped.
fn flags() -> Option<(Vec<String>, Vec<String>)> {
    if !found("cc") || !found("pkg-config") {
        return None;
    }
    let asked = |what| {
        let done = Command::new("pkg-config").args([what, "libdpdk"]).output().ok()?;
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        done.status.success().then(|| text.split_whitespace().map(str::to_owned).collect())
    };
    let both = asked("--cflags").zip(asked("--libs"));
    if both.is_none() {
        eprintln!("skipped, because pkg-config finds no libdpdk");
    }
    both
}

/// True if programs link with this, or says why the test is skipped.
fn links(with: &[&str]) -> bool {
    let empty = Path::new(env!("CARGO_TARGET_TMPDIR")).join("empty.c");
    std::fs::write(&empty, "int main(void) { return 0; }\n").expect("a file");
    let out = empty.with_file_name(format!("empty{}", with.concat().replace(['/', '='], "-")));
    let done = Command::new("cc").arg(&empty).args(with).arg("-o").arg(out).output().expect("cc");
    if !done.status.success() {
        eprintln!("skipped, because no program links with {}", with.join(" "));
    }
    done.status.success()
}

fn program(name: &str, more: &[&str]) -> Option<PathBuf> {
    let (cflags, libs) = flags()?;
    if !links(&["-lrte_net_ring"]) || !links(more) {
        return None;
    }
    // Warnings about the headers of others are no errors.
    let cflags = cflags.iter().map(|f| f.replacen("-I", "-isystem", 1));
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-g", "-Wall", "-Wextra", "-Werror"]).args(more).args(cflags);
    cc.arg("-I").arg(here.join("include")).arg(here.join("examples/dpdk.c")).arg("-o").arg(&out);
    cc.arg(built().join("libtxweir_ffi.a")).args(libs).args(["-lrte_net_ring", "-lpthread", "-ldl", "-lm"]);
    let done = cc.output().expect("cc");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Some(out)
}

/// Runs the program on memory of its own, without devices, and returns its counts.
fn counts(command: &mut Command) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dpdk-run");
    std::fs::create_dir_all(&folder).expect("a folder");
    command.args(["--no-huge", "--no-pci", "--no-telemetry", "--no-shconf", "--log-level=3"]);
    command.args(["-m", "128", "--", "virtual"]).env("RUNTIME_DIRECTORY", &folder);
    let done = command.output().expect("the program");
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{command:?}: {text}{}", String::from_utf8_lossy(&done.stderr));
    text
}

/// Returns the first number behind these words.
fn number(text: &str, before: &str) -> u64 {
    let rest = text.split(before).nth(1).unwrap_or_else(|| panic!("no {before} in {text}"));
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("no number behind {before} in {text}"))
}

fn check(text: &str) {
    let count = |name: &str| number(text, &format!("\"{name}\": "));
    assert_eq!((count("received"), count("wrong"), count("in_use")), (256_000, 0, 0), "{text}");
    assert_eq!(count("sent") + count("dropped"), 256_000, "{text}");
    // 1 Gbit/s for 8000 turns of 128 us are 128 000 packets of 1000 bytes, and what waits at the
    // end still leaves: at most 1064 packets, and the tokens of a full bucket.
    assert!((128_000..=129_200).contains(&count("sent")), "{text}");
    // 300 and 700 Mbit/s.
    let rest = text.split("\"shares\": ").nth(1).expect("the shares");
    let (signalling, rest) = (number(rest, "["), number(rest, ", "));
    let share = signalling * 1000 / (signalling + rest);
    assert!((297..=303).contains(&share), "{share} thousandths: {text}");
    // Each packet that fq_codel marked came with CE.
    assert!(count("marked") > 0, "{text}");
    assert_eq!(count("marked"), number(text, "\"ecn_mark\":"), "{text}");
}

#[test]
fn a_program_of_dpdk_has_its_shares_and_gets_each_mbuf_back() {
    if let Some(program) = program("dpdk", &[]) {
        check(&counts(&mut Command::new(program)));
    }
}

#[test]
fn its_memory_is_used_as_address_sanitizer_allows() {
    if let Some(program) = program("dpdk-sanitized", &["-fsanitize=address,undefined"]) {
        check(&counts(&mut Command::new(program)));
    }
}

/// The loop of docs/c.md is a part of the program.
#[test]
fn the_page_shows_the_program() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/c.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let section = page.split("\n## Beside DPDK\n").nth(1).expect("the section");
    let code = section.split("```c\n").nth(1).and_then(|c| c.split("```").next()).expect("code");
    let lines = |text: &str| text.lines().map(|l| l.trim().to_owned()).collect::<Vec<_>>().join("\n");
    assert!(lines(PROGRAM).contains(lines(code).trim()), "not in examples/dpdk.c:\n{code}");
}
