//! `txweir check --run` and `try --run`: the scripts of `spec/wild`, the limits of a run, and the
//! proof that it changes nothing. Where the kernel allows no user namespaces the tests say so and
//! pass.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{Folder, machine};

fn txweir(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_txweir"));
    command.args(words).stdin(Stdio::null());
    command
}

fn check(words: &[&str]) -> Output {
    txweir(&["check"]).args(words).output().expect("run txweir")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the reason for which no script can be run here.
fn skip_reason() -> Option<String> {
    let said = text(&check(&["--run", "true"]).stderr);
    said.contains("the system does not allow").then_some(said)
}

macro_rules! skip_unless_possible {
    () => {
        if let Some(reason) = skip_reason() {
            println!("skipped, because {reason}");
            return;
        }
    };
}

fn wild() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/wild")
}

/// Returns the words of a comment line of a script.
fn said(script: &str, key: &str) -> Vec<String> {
    let line = script.lines().find_map(|line| line.strip_prefix(key));
    line.unwrap_or("").split_whitespace().map(String::from).collect()
}

/// Returns the codes of the findings of this severity, each once.
fn codes(report: &Value, severity: &str) -> Vec<String> {
    let all = report["diagnostics"].as_array().expect("a list");
    let all = all.iter().filter(|d| d["severity"] == severity).filter_map(|d| d["code"].as_str());
    all.map(String::from).collect::<BTreeSet<_>>().into_iter().collect()
}

#[test]
fn scripts_as_people_have_them() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let python = Command::new("python3").arg("-V").output().is_ok_and(|o| o.status.success());
    let mut run = 0;
    let all = fs::read_dir(wild()).expect("spec/wild").map(|entry| entry.expect("an entry").path());
    let mut all: Vec<PathBuf> = all.filter(|path| path.extension().is_some_and(|e| e != "md")).collect();
    all.sort();
    for path in &all {
        let name = path.file_name().expect("a name").to_str().expect("text");
        if name.ends_with(".py") && !python {
            println!("{name}: skipped, because there is no python3");
            continue;
        }
        let script = fs::read_to_string(path).expect("a script");
        let mut words = vec!["--json".to_string()];
        words.extend(said(&script, "# options:"));
        words.extend(["--run".to_string(), path.display().to_string()]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let done = check(&words);
        let errors = text(&done.stderr);
        let report: Value =
            serde_json::from_slice(&done.stdout).unwrap_or_else(|e| panic!("{name}: {e}\n{errors}"));
        let expected = said(&script, "# expect:");
        let expected: BTreeMap<&str, &str> =
            expected.iter().filter_map(|word| word.split_once('=')).collect();
        let number = |key: &str| expected.get(key).map_or(0, |n| n.parse::<u64>().expect("a number"));
        let list = |key: &str| match expected.get(key) {
            None => Vec::new(),
            Some(codes) => codes.split(',').map(String::from).collect(),
        };
        assert_eq!(report["run"]["status"], 0, "{name}\n{errors}");
        assert_eq!(report["run"]["tc_lines"], number("lines"), "{name}\n{errors}");
        assert_eq!(report["run"]["refused"], number("refused"), "{name}\n{errors}");
        assert_eq!(report["not_read"], 0, "{name}");
        assert_eq!(codes(&report, "error"), list("errors"), "{name}: {report:#}");
        assert_eq!(codes(&report, "warning"), list("warnings"), "{name}: {report:#}");
        let status = match (list("errors").is_empty(), list("warnings").is_empty()) {
            (false, _) => 1,
            (true, false) => 3,
            (true, true) => 0,
        };
        assert_eq!(done.status.code(), Some(status), "{name}");
        run += 1;
    }
    assert_eq!((all.len(), run), (10, if python { 10 } else { 6 }));
}

/// The script writes files, makes devices and asks for the names of those that the test made.
#[test]
fn a_run_changes_nothing() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let dir = Folder::new("nothing");
    // This directory is neither the current one nor one for temporary files.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    // A checkout may lie there.
    let folder = if target.starts_with("/tmp") { Path::new("/") } else { target };
    let outside = folder.join(format!("txw-wild-{}", std::process::id()));
    let script = dir.script(
        "#!/bin/sh\necho x > \"$1\" && echo set\ncd \"$(dirname \"$0\")\"\necho x > written && echo wrote\n\
         echo x > /tmp/txw-wild-written\n\
         echo y >> script\nrm -f kept\nip link add dummy7 type dummy\nls /sys/class/net | grep dummy7\n\
         /usr/sbin/tc qdisc add dev dummy7 root pfifo && echo made\nenv -i /sbin/tc qdisc show dev dummy7\n\
         echo 1 > /proc/sys/kernel/printk_ratelimit_burst && echo set\nls /dev | grep -v '^pts$' | tr '\\n' ' '\necho\n\
         echo 1 > /proc/sys/net/ipv4/ip_forward && cat /proc/sys/net/ipv4/ip_forward\n\
         mount -t tmpfs tmpfs /mnt && echo mounted\nid -u\n",
    );
    fs::write(dir.0.join("kept"), "kept").expect("write a file");
    let before = fs::read_to_string(&script).expect("the script");
    let done = Command::new(env!("CARGO_BIN_EXE_txweir"))
        .args(["check", "--run", &script])
        .arg(&outside)
        .current_dir(&dir.0)
        .output()
        .expect("run txweir");
    let out = text(&done.stderr);
    for line in ["wrote", "dummy7", "made", "0"] {
        assert!(out.lines().any(|l| l == line), "{line}: {out}");
    }
    assert!(out.contains("qdisc pfifo 8001: root"), "{out}");
    assert!(!out.lines().any(|l| l == "mounted" || l == "set"), "{out}");
    let devices = "fd full null random shm stderr stdin stdout tty urandom zero ";
    assert!(out.lines().any(|l| l == devices) && out.lines().any(|l| l == "1"), "{out}");
    assert!(!dir.0.join("written").exists() && dir.0.join("kept").exists());
    assert!(!Path::new("/tmp/txw-wild-written").exists());
    assert!(fs::remove_file(&outside).is_err(), "{out}");
    assert_eq!(fs::read_to_string(&script).expect("the script"), before);
    assert!(!Path::new("/sys/class/net/dummy7").exists());
}

/// The limits end a run that does not end: the first by its calls, the second by its time.
#[test]
fn limits_end_a_run() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let dir = Folder::new("limits");
    let script = dir.script("#!/bin/sh\nwhile :; do tc qdisc show dev eth0 >/dev/null; done\n");
    let done = check(&["--run-calls", "20", "--run", &script]);
    assert_eq!(done.status.code(), Some(1));
    assert!(text(&done.stdout).contains("the script was stopped: more than 20 calls"), "{done:?}");
    let script = dir.script("#!/bin/sh\ntc qdisc add dev eth0 root pfifo\nsleep 1000 &\nsleep 1000\n");
    let mut limit = 300;
    // A busy machine may end a short run before its first line.
    let lines = loop {
        let limit_text = format!("{limit}ms");
        let done = check(&["--json", "--run-time", &limit_text, "--run", &script]);
        let report: Value = serde_json::from_slice(&done.stdout).expect("JSON");
        assert_eq!(codes(&report, "error"), ["script-failed"]);
        assert_eq!(report["run"]["status"], Value::Null);
        limit *= 4;
        if report["run"]["tc_lines"] != 0 || limit > 100_000 {
            break report["run"]["tc_lines"].clone();
        }
    };
    assert_eq!(lines, 1);
}

/// A signal ends the run and its processes, and leaves no directory.
#[test]
fn a_signal_ends_a_run() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let dir = Folder::new("signal");
    let script = dir.script("#!/bin/sh\ntc qdisc add dev eth0 root pfifo\necho ready\nsleep 1000\n");
    let mut words = txweir(&["check", "--run", &script]);
    let mut child = words.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("run txweir");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line == "ready")));
    let pid = i32::try_from(child.id()).expect("a process id");
    kill_process(Pid::from_raw(pid).expect("a process id"), Signal::TERM).expect("signal it");
    assert_eq!(child.wait().expect("its end").code(), Some(1));
    // The end of the pipe is that of the last process that has it.
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert!(rest.iter().any(|line| line.contains("stopped: SIGTERM")), "{rest:?}");
    let prefix = format!("txweir-run-{pid}-");
    let left = fs::read_dir(std::env::temp_dir()).expect("a directory").flatten();
    assert!(!left.map(|e| e.file_name()).any(|name| name.to_string_lossy().starts_with(&prefix)));
}

/// A line that tc refuses is an error unless the script expects it; the script sees tc's status and
/// Linux's text.
#[test]
fn refusals_are_errors_unless_they_are_expected() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let dir = Folder::new("refusals");
    let script = dir.script(
        "#!/bin/bash\ntc qdisc del dev eth0 root\ntc qdisc change dev eth0 root fq_codel 2>/dev/null; echo $?\n\
         f() {\n  tc qdisc add dev ifb0 root pfifo\n}\nf; echo $?\ntc qdisc add dev eth0 root pfifo && exit 4\n",
    );
    let done = check(&["--run", &script]);
    let (out, err) = (text(&done.stdout), text(&done.stderr));
    assert!(err.contains("Error: Cannot delete qdisc with handle of zero.\n"), "{err}");
    assert!(err.lines().filter(|l| l.len() == 1).eq(["2", "1"]), "{err}");
    assert!(
        err.contains("exit status 4; calls: 4 of tc; 4 tc lines, 2 refused as the script expects"),
        "{err}"
    );
    assert!(out.contains("error[refused]: tc refused this line: Cannot find device \"ifb0\""), "{out}");
    assert!(out.contains("# call 3, script:5, in f, called from line 7"), "{out}");
    assert!(
        out.contains("the script failed with exit status 4") && out.contains("1 error, 1 warning"),
        "{out}"
    );
    assert_eq!(done.status.code(), Some(1));
    let missing = check(&["--run", "./no-such-script"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("--run: ./no-such-script: "), "{missing:?}");
}

/// The lines of a run are a script that check reads, with the same findings.
#[test]
fn a_recorded_run_can_be_checked_again() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let dir = Folder::new("record");
    let record = dir.0.join("lines.sh").display().to_string();
    let script = wild().join("lartc.sh").display().to_string();
    let first = check(&["--json", "--link", "ppp0=240kbit", "--record", &record, "--run", &script]);
    let again = check(&["--json", "--link", "ppp0=240kbit", &record]);
    let [first, again] = [first, again].map(|o| serde_json::from_slice::<Value>(&o.stdout).expect("JSON"));
    for severity in ["error", "warning"] {
        assert_eq!(codes(&first, severity), codes(&again, severity));
        assert!(!codes(&first, severity).is_empty());
    }
    assert_eq!(again["not_read"], 0);
}

/// A kernel that allows no user namespaces: the message says what to do.
#[test]
fn a_refusal_of_namespaces_says_what_to_do() {
    let _machine = machine::shared();
    let line = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" check --run true";
    let program = env!("CARGO_BIN_EXE_txweir");
    let done = Command::new("unshare").args(["-Ur", "sh", "-c", line, program]).output();
    let Ok(done) = done else { return println!("skipped, because there is no unshare") };
    let said = text(&done.stderr);
    if !said.contains("txweir") {
        return println!("skipped, because {said}");
    }
    assert!(said.contains("the system does not allow to make a user namespace"), "{said}");
    assert!(said.contains("user.max_user_namespaces") && said.contains("txweir check SCRIPT"), "{said}");
    assert_eq!(done.status.code(), Some(1));
}

/// The policy that a script leaves is tried in both directions: eth0's root, its hook, and the ifb.
#[test]
fn a_script_can_be_tried() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let script = wild().join("sqm.sh").display().to_string();
    let words = [
        "try", "default", "--json", "--up", "20mbit", "--down", "100mbit", "--time", "1s", "--runs", "1",
        "--run",
    ];
    let done = txweir(&words).arg(&script).output().expect("run txweir");
    let trial: Value =
        serde_json::from_slice(&done.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&done.stderr)));
    let policies = trial["policies"].as_array().expect("a list");
    let names: Vec<&str> = policies.iter().filter_map(|p| p["name"].as_str()).collect();
    assert_eq!(names, ["default", "sqm.sh"]);
    let policy = policies[1]["policy"].as_str().expect("a text");
    assert!(policy.contains("htb") && policy.contains("redirect dev ifb4eth0"), "{policy}");
    let ifb = &policies[1]["ifbs"][0];
    assert_eq!((&ifb["device"], &ifb["classes"][0]["kind"]), (&"ifb4eth0".into(), &"htb".into()));
    assert!(ifb["sent_packets"].as_u64().is_some_and(|n| n > 1000), "{ifb}");
}

/// Each script of `spec/wild` can be tried, with the words of its line `# try:`.
#[test]
fn every_script_can_be_tried() {
    let _machine = machine::shared();
    skip_unless_possible!();
    let python = Command::new("python3").arg("-V").output().is_ok_and(|o| o.status.success());
    let all = fs::read_dir(wild()).expect("spec/wild").map(|entry| entry.expect("an entry").path());
    for path in all.filter(|path| path.extension().is_some_and(|e| e == "sh" || e == "py" && python)) {
        let name = path.display().to_string();
        let own = said(&fs::read_to_string(&path).expect("a script"), "# try:");
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let words = ["--up", "20mbit", "--down", "100mbit", "--time", "1s", "--runs", "1", "--json"];
        let done =
            txweir(&["try"]).args(words).args(own).arg("--run").arg(&path).output().expect("run txweir");
        let trial: Value = serde_json::from_slice(&done.stdout)
            .unwrap_or_else(|e| panic!("{name}: {e}: {}", text(&done.stderr)));
        let groups = trial["policies"][0]["groups"].as_array().expect("a list");
        let up = groups.iter().find(|g| g["name"] == "up").expect("a group");
        assert!(up["throughput_bit_s"].as_u64().is_some_and(|n| n > 0), "{name}: {up}");
    }
}
