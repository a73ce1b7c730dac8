//! Hosts of the lab that are a Linux kernel (`stack = "linux"`). The kernels live in virtual time,
//! and so the results hang on no clock of this machine. The tests need the reference kernel
//! (`oracle/build`); without it they print the reason and pass. They need no privilege.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::{Folder, kernel_or_skip};

/// Returns the scenario of the referee, with this policy behind the router.
fn scenario(stack: &str, control: &str, policy: &str) -> String {
    let far = format!("rate = '20mbit'\ndelay = '10ms'\npolicy = 'qdisc add root {policy}'");
    let text = include_str!("../../../kernel/examples/referee.toml");
    [
        ("DURATION", "4s"),
        ("WARMUP", "1s"),
        ("STACK", stack),
        ("ECN", if control == "dctcp" { "classic" } else { "off" }),
        ("CONTROL", control),
        ("NEAR", "rate = '1gbit'"),
        ("FAR", &far),
    ]
    .into_iter()
    .fold(text.to_owned(), |text, (word, value)| text.replace(word, value))
}

/// Runs a scenario. Returns its report as JSON.
fn report(folder: &Path, kernel: &Path, text: &str, log: Option<&str>) -> String {
    let file = folder.join("scenario.toml");
    fs::write(&file, text).expect("write a scenario");
    let mut command = Command::new(env!("CARGO_BIN_EXE_txweir"));
    command.args(["lab", "run", "--json", "--kernel"]).arg(kernel).arg(&file);
    if let Some(log) = log {
        command.arg("--log").arg(folder.join(log));
    }
    let done = command.output().expect("run");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("text")
}

#[test]
fn two_runs_of_kernels_are_the_same() {
    let kernel = kernel_or_skip!();
    let folder = Folder::new("same");
    let text = scenario("linux", "cubic", "fq_codel");
    let reports = ["one", "two"].map(|log| report(&folder.0, &kernel, &text, Some(log)));
    assert_eq!(reports[0], reports[1]);
    let [one, two] = ["one", "two"].map(|log| fs::read(folder.0.join(log)).expect("a log"));
    assert!(one.len() > 1 << 20, "{}", one.len());
    assert!(one == two, "the event logs differ");
}

/// The kernel is the referee of the lab's TCP: both send alike through a queue that keeps flows
/// apart. The tolerances are those of the comparison with recordings (docs/tcp.md).
#[test]
fn a_kernel_sends_as_the_stack_of_the_lab() {
    let kernel = kernel_or_skip!();
    let folder = Folder::new("referee");
    for (control, policy) in [
        ("reno", "fq_codel"),
        ("cubic", "cake bandwidth 19mbit"),
        ("bbr", "fq_codel"),
        ("dctcp", "fq_codel ce_threshold 1ms"),
    ] {
        let [lab, linux] = ["lab", "linux"].map(|stack| {
            let text = report(&folder.0, &kernel, &scenario(stack, control, policy), None);
            serde_json::from_str::<Value>(&text).expect("JSON")
        });
        for (pointer, tolerance) in [
            ("/traffic/0/throughput_bit_s", 0.02),
            ("/traffic/0/jain", 0.02),
            ("/traffic/1/transactions", 0.05),
            ("/traffic/1/latency/p50_ns", 0.05),
        ] {
            let [lab, linux] =
                [&lab, &linux].map(|r| r.pointer(pointer).and_then(Value::as_f64).expect("a number"));
            println!("{control}, {policy}, {pointer}: {lab} and {linux}");
            assert!((lab / linux - 1.0).abs() <= tolerance, "{control}, {policy}, {pointer}: {lab}, {linux}");
        }
        let marks = |r: &Value| r.pointer("/links/2/marks/ce_threshold").and_then(Value::as_u64).unwrap_or(0);
        assert_eq!([&lab, &linux].map(|r| marks(r) > 0), [control == "dctcp"; 2], "{control}");
    }
}

/// Sweeps sizes of the requests of hosts with kernels, into `out` below a folder.
fn sweep(folder: &Path, out: &str, kernel: Option<&Path>, more: &[&str]) -> (bool, String) {
    let file = folder.join("scenario.toml");
    fs::write(&file, scenario("linux", "cubic", "fq_codel")).expect("write a scenario");
    let mut command = Command::new(env!("CARGO_BIN_EXE_txweir"));
    command.env_remove("TXWEIR_KERNEL").args(["lab", "sweep"]).arg(&file).args(more);
    command.arg("--out").arg(folder.join(out));
    command.args(kernel.into_iter().flat_map(|kernel| [Path::new("--kernel"), kernel]));
    let done = command.output().expect("run");
    (done.status.success(), String::from_utf8(done.stderr).expect("text"))
}

/// Runs of a sweep have kernels of their own: their table depends on no other run, and belongs to
/// the kernel that made it.
#[test]
fn a_sweep_boots_kernels_for_each_run() {
    let kernel = kernel_or_skip!();
    let folder = Folder::new("sweep");
    let sweep = |out: &str, kernel: Option<&Path>, jobs: &str| {
        sweep(&folder.0, out, kernel, &["--over", "ping.size=100,1000", "--jobs", jobs])
    };
    let table = |out: &str| fs::read(folder.0.join(out).join("scenario-1-of-1.parquet")).expect("a table");
    assert_eq!(sweep("two", Some(&kernel), "2"), (true, String::new()));
    assert_eq!(sweep("one", Some(&kernel), "1"), (true, String::new()));
    assert!(table("one") == table("two"), "the tables differ");
    let (done, said) = sweep("one", None, "1");
    assert!(!done && said.contains("given the results of another sweep"), "{said}");
}

/// Of runs that fail, the first by its number is told, whichever ends first; there is no table.
#[test]
fn the_first_run_that_fails_is_told() {
    let folder = Folder::new("first");
    let words = ["--over", "ping.size=100,101,102,103,104,105,106,107", "--jobs", "8"];
    for again in 0..20 {
        let out = format!("{again}");
        let (done, said) = sweep(&folder.0, &out, None, &words);
        let told = said.starts_with("txweir: run 0 (ping.size=100): host a: no kernel is given");
        assert!(!done && told && said.lines().count() == 1, "{again}: {said}");
        let left: Vec<_> = fs::read_dir(folder.0.join(out)).expect("a folder").collect();
        let is_table = |file: &fs::DirEntry| file.path().extension().is_some_and(|end| end == "parquet");
        assert!(!left.iter().flatten().any(is_table), "{left:?}");
    }
}

/// A file that is no kernel is refused with its name, and nothing stays behind.
#[test]
fn what_is_no_kernel_is_refused() {
    let folder = Folder::new("none");
    let file = folder.0.join("scenario.toml");
    fs::write(&file, scenario("linux", "cubic", "fq_codel")).expect("write a scenario");
    let said = |kernel: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_txweir"));
        command.env_remove("TXWEIR_KERNEL").env("TMPDIR", &folder.0).args(["lab", "run"]).arg(&file);
        let done = command.args(kernel.map(|kernel| format!("--kernel={kernel}"))).output().expect("run");
        (done.status.code(), String::from_utf8(done.stderr).expect("text"))
    };
    let (code, text) = said(None);
    let expected =
        "txweir: host a: no kernel is given for stack = \"linux\": expected --kernel FILE or TXWEIR_KERNEL\n";
    assert_eq!((code, text.as_str()), (Some(2), expected));
    let (code, text) = said(Some("/nothing/here"));
    assert_eq!(
        (code, text.as_str()),
        (Some(1), "txweir: --kernel /nothing/here: No such file or directory (os error 2)\n")
    );
    let (_, text) = said(Some("/bin/true"));
    assert!(text.contains("host a: the kernel does not connect to its calendar"), "{text}");
    let left = fs::read_dir(&folder.0).expect("a folder").count();
    assert_eq!(left, 1, "the scenario alone is left");
}
