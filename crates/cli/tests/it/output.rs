//! Output that cannot be written, and text that would command the terminal.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::process::{Command, Output, Stdio};
use std::thread;

use crate::common::Folder;

fn txweir(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_txweir"));
    command.args(args).stdin(Stdio::null());
    command
}

/// Runs a command whose stdout is a full disk; returns its status and its errors.
fn on_a_full_disk(args: &[&str]) -> (Option<i32>, String) {
    let full = File::options().write(true).open("/dev/full").expect("/dev/full");
    let done = txweir(args).stdout(full).stderr(Stdio::piped()).output().expect("run it");
    (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
}

fn run(args: &[&str]) -> Output {
    txweir(args).output().expect("run it")
}

fn file(dir: &Folder, name: &str, text: &str) -> String {
    let path = dir.at(name);
    fs::write(&path, text).expect("write a file");
    path
}

const STORY: &str = r#"
title = "TITLE"
duration = "10ms"
seed = 1
[[host]]
name = "a"
[[host]]
name = "b"
[[link]]
from = "a"
to = "b"
rate = "10mbit"
delay = "1ms"
[[traffic]]
name = "NAME"
kind = "cbr"
size = "500"
from = "a"
to = "b"
rate = "1mbit"
"#;

/// A verb that has done its work and cannot show it says so in one line and ends with status 2.
#[test]
fn a_full_disk_is_an_error_of_every_verb() {
    let dir = Folder::new("full");
    let policy = file(&dir, "p.tc", "qdisc add dev x root fq_codel\n");
    let wrong = file(&dir, "w.tc", "qdisc add dev x root nosuch\n");
    let story = file(&dir, "s.toml", STORY);
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/traces/pfifo");
    let said = "txweir: stdout: No space left on device (os error 28)\n";
    let verbs: [&[&str]; 14] = [
        &["--version"],
        &["--help"],
        &["kinds"],
        &["kinds", "tbf", "--json"],
        &["check", &policy],
        &["check", &wrong],
        &["check", &wrong, "--json"],
        &["try", &policy, "--time", "100ms", "--runs", "1"],
        &["try", &policy, "--time", "100ms", "--runs", "1", "--json"],
        &["lab", "run", &story],
        &["lab", "run", &story, "--json"],
        &["lab", "replay", trace],
        &["link", "--help"],
        &["bench", "--list"],
    ];
    for args in verbs {
        assert_eq!(on_a_full_disk(args), (Some(2), said.to_string()), "{args:?}");
    }
    // tc writes its help to stderr and its version to stdout.
    assert_eq!(on_a_full_disk(&["tc", "-V"]), (Some(2), said.to_string()));
}

/// The reader of a pipe may go when it has read enough. That is no error, and the status is that
/// of the work.
#[test]
fn a_closed_pipe_leaves_the_status() {
    let dir = Folder::new("pipe");
    let many = "qdisc add dev x root nosuch\n".repeat(3000);
    let wrong = file(&dir, "w.tc", &many);
    let mistake = "qdisc add dev x root handle 1: prio
filter add dev x parent 1: protocol ip prio 1 u32 match ip src any flowid 1:1
filter add dev x parent 1: protocol ip prio 2 u32 match ip dport 22 0xffff flowid 1:2
";
    let mistake = file(&dir, "m.tc", mistake);
    for (args, status) in [(["check", &wrong], 1), (["check", &mistake], 3), (["kinds", "tbf"], 0)] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let done = txweir(&args).stdout(writer).stderr(Stdio::piped()).output().expect("run it");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!((done.status.code(), said), (Some(status), String::new()), "{args:?}");
    }
}

/// A file that never ends is refused, and does not fill the memory.
#[test]
fn a_text_without_an_end_is_refused() {
    for (args, status) in [
        (&["check", "/dev/zero"][..], 1),
        (&["lab", "run", "/dev/zero"], 1),
        (&["lab", "replay", "/dev/zero"], 2),
    ] {
        let done = run(args);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        let expected = "txweir: /dev/zero: expected at most 16777216 bytes, given more\n";
        assert_eq!((done.status.code(), said.as_str()), (Some(status), expected), "{args:?}");
    }
}

/// A width of a format has 16 bits.
#[test]
fn words_of_any_length_are_no_panic() {
    let dir = Folder::new("long");
    let long = "x".repeat(70_000);
    let device = file(&dir, "d.tc", &format!("qdisc add dev {long} root fq_codel\n"));
    let kind = file(&dir, "k.tc", &format!("qdisc add dev d root {long}\n"));
    let story = file(&dir, "s.toml", &STORY.replace("NAME", &long));
    let policy = file(&dir, &format!("{}.tc", "p".repeat(200)), "qdisc add root fq_codel\n");
    for (args, status) in [
        (vec!["check", &device], 0),
        (vec!["check", &kind], 1),
        (vec!["try", &policy, "--time", "100ms", "--runs", "1", "--traffic", &story], 0),
        (vec!["lab", "run", &story], 0),
        (vec!["kinds", &long], 1),
        (vec!["lab", "reproduce", &long], 1),
    ] {
        let done = run(&args);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(status), "{:?}: {said}", &args[..1]);
        assert!(done.stdout.len() + done.stderr.len() < 20_000, "{:?}", &args[..1]);
    }
}

/// Of very many diagnostics only some are printed; the count at the end is of all.
#[test]
fn diagnostics_are_bounded() {
    let dir = Folder::new("many");
    let wrong = file(&dir, "w.tc", &"qdisc add dev x root nosuch\n".repeat(1500));
    let said = String::from_utf8(run(&["check", &wrong]).stdout).expect("text");
    // Each line but the first has two mistakes.
    assert_eq!(said.matches("--> ").count(), 1000);
    assert!(said.contains("\n1999 more diagnostics are not shown; --json prints all\n"));
    assert!(said.ends_with("\n2999 errors, 0 warnings\n"));
}

/// True if a character that commands a terminal is in the output.
fn commands(done: &Output) -> bool {
    let text = String::from_utf8(done.stdout.clone()).expect("text")
        + &String::from_utf8(done.stderr.clone()).expect("text");
    assert!(!text.is_empty());
    text.chars().any(|c| (c.is_control() && !"\n\t".contains(c)) || c == '\u{202e}')
}

#[test]
fn no_file_and_no_socket_commands_the_terminal() {
    const BAD: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}1m\u{202e}\r";
    let dir = Folder::new("clean");
    let word = BAD.trim_end();
    let policy = file(&dir, "e.tc", &format!("qdisc {word} dev x\nqdisc add dev {word} root fq_codel\n"));
    let quoted = BAD.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect::<String>();
    let story = file(&dir, "s.toml", &STORY.replace("NAME", &quoted).replace("TITLE", &quoted));
    let broken = file(&dir, "b.toml", &format!("{word} = 1\n"));
    let named = file(&dir, &format!("{word}.tc"), "qdisc add root nosuch\n");
    for args in [
        vec!["check", &policy],
        vec!["check", &policy, "--json"],
        vec!["check", &named],
        vec!["check", word],
        vec!["try", &named],
        vec!["try", word],
        vec!["try", "default", "--time", "100ms", "--runs", "1", "--traffic", &story],
        vec!["lab", "run", &story],
        vec!["lab", "run", &story, "--json"],
        vec!["lab", "run", &broken],
        vec!["lab", "replay", &policy],
        vec!["kinds", word],
        vec!["tc", word],
        vec!["nosuch", word],
        vec!["run", "--in", word, "--out", "x", "--wire", "rate=1mbit"],
    ] {
        let done = run(&args);
        assert!(!commands(&done), "{args:?}: {}", String::from_utf8_lossy(&done.stdout));
    }

    // Another program than the daemon may listen on the socket.
    let socket = dir.0.join("s");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a client");
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).expect("a request");
        let text = BAD.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect::<String>();
        let reply = format!("{{\"id\":1,\"status\":0,\"stdout\":\"{text}\",\"stderr\":\"{text}\"}}\n");
        (&stream).write_all(reply.as_bytes()).expect("reply");
    });
    let done = run(&["--socket", &socket.display().to_string(), "link", "show"]);
    server.join().expect("the server");
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(!commands(&done));
}
