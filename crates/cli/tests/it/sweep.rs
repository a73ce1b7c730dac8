//! `txweir lab sweep`: its table does not depend on threads, parts and interruptions.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

use crate::common::Folder;

const OVER: [&str; 6] = [
    "--over",
    "duration=2300ms",
    "--over",
    "link.client.router.rate=5mbit,10mbit,20mbit",
    "--over",
    "seed=1..4",
];

fn command(out: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_txweir"));
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/first.toml");
    command.args(["lab", "sweep", scenario]).args(OVER).arg("--out").arg(out).args(more);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn sweep(out: &Path, more: &[&str]) -> Output {
    command(out, more).output().expect("run it")
}

/// Runs a sweep that succeeds, and returns the bytes of its table.
fn table(out: &Path, more: &[&str], file: &str) -> Vec<u8> {
    let done = sweep(out, more);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    fs::read(out.join(file)).expect("a table")
}

/// Returns the rows of a table as texts.
fn rows(path: &Path) -> Vec<String> {
    let reader = SerializedFileReader::new(fs::File::open(path).expect("a table")).expect("Parquet");
    let rows = reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row"));
    let text = |field: &Field| match field {
        Field::Str(text) => text.clone(),
        Field::Long(number) => number.to_string(),
        Field::Double(number) => number.to_string(),
        other => panic!("{other}"),
    };
    rows.map(|row| row.get_column_iter().map(|(_, field)| text(field)).collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn threads_parts_and_interruptions_change_nothing() {
    let dir = Folder::new("same");
    let whole = table(&dir.0.join("one"), &["--jobs", "1"], "first-1-of-1.parquet");
    assert_eq!(table(&dir.0.join("four"), &["--jobs", "4"], "first-1-of-1.parquet"), whole);
    assert!(!dir.0.join("one/first-1-of-1.journal").exists());
    let mut expected = rows(&dir.0.join("one/first-1-of-1.parquet"));
    assert_eq!(expected.iter().filter(|row| row.contains(" request transactions ")).count(), 12);

    // The parts have the rows of the whole.
    let mut parts = Vec::new();
    for part in 1..=3 {
        let name = format!("first-{part}-of-3.parquet");
        table(&dir.0.join("parts"), &["--shard", &format!("{part}/3")], &name);
        parts.extend(rows(&dir.0.join("parts").join(name)));
    }
    parts.sort();
    expected.sort();
    assert_eq!(parts, expected);

    // It is killed as soon as some runs have ended; the last line is cut.
    let cut = dir.0.join("cut");
    fs::create_dir_all(&cut).expect("a directory");
    let journal = cut.join("first-1-of-1.journal");
    let mut running = command(&cut, &["--jobs", "1"]).spawn().expect("start");
    loop {
        let lines = fs::read_to_string(&journal).unwrap_or_default().lines().count();
        if lines >= 4 || running.try_wait().expect("wait").is_some() {
            break;
        }
        std::thread::yield_now();
    }
    let _ = running.kill();
    let _ = running.wait();
    if let Ok(text) = fs::read_to_string(&journal) {
        let end = text.trim_end().rfind('\n').expect("lines") + 20;
        fs::write(&journal, &text[..end]).expect("cut it");
        let known: BTreeSet<&str> = text.lines().collect();
        // Another sweep does not go on with it.
        let other = sweep(&cut, &["--over", "traffic.bulk.count=2"]);
        assert_eq!(other.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&other.stderr).contains("given that of another one (remove it)"));
        assert!(known.len() >= 4 && journal.exists());
    }
    assert_eq!(table(&cut, &[], "first-1-of-1.parquet"), whole);
    // A table that is there is not made again, and not written over.
    let again = sweep(&cut, &[]);
    assert!(String::from_utf8_lossy(&again.stdout).ends_with("there already\n"));
    let other = sweep(&cut, &["--over", "traffic.bulk.count=2"]);
    assert_eq!(other.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&other.stderr).contains("given the results of another sweep"));
}

/// A second process waits for the first one, and uses what that has written.
#[test]
fn one_process_writes_a_part() {
    let dir = Folder::new("lock");
    let journal = fs::File::create(dir.0.join("first-1-of-1.journal")).expect("a journal");
    journal.lock().expect("a lock");
    let mut waits = command(&dir.0, &[]).spawn().expect("start");
    let mut line = String::new();
    BufReader::new(waits.stderr.take().expect("piped")).read_line(&mut line).expect("a line");
    assert!(line.ends_with("another process writes it; this one waits\n"), "{line}");
    // The first one removes it at its end.
    fs::remove_file(dir.0.join("first-1-of-1.journal")).expect("remove it");
    drop(journal);
    assert!(waits.wait().expect("wait").success());
    assert!(dir.0.join("first-1-of-1.parquet").exists());
}

#[test]
fn runs_are_listed_and_words_are_checked() {
    let dir = Folder::new("list");
    let out = sweep(&dir.0, &["--list", "--shard", "2/5"]);
    let text = String::from_utf8_lossy(&out.stdout);
    assert_eq!(
        text.lines().collect::<Vec<_>>(),
        [
            "run\tduration\tlink.client.router.rate\tseed",
            "1\t2300ms\t5mbit\t2",
            "6\t2300ms\t10mbit\t3",
            "11\t2300ms\t20mbit\t4"
        ]
    );
    for (more, said) in [
        (["--shard", "0/3"], "expected I/N"),
        (["--shard", "4/3"], "expected I/N"),
        (["--jobs", "0"], "0 is not in 1..=1024"),
        (["--over", "nosuch=1"], "the file has no such place"),
    ] {
        let out = sweep(&dir.0, &more);
        assert!(!out.status.success());
        assert!(String::from_utf8_lossy(&out.stderr).contains(said), "{more:?}");
    }
    assert_eq!(fs::read_dir(&dir.0).expect("a directory").count(), 0);
}

/// Runs a program of Python beside the one that docs/sweep.md shows, with the command on the path.
fn python(python: &Path, program: &str, dir: &Folder) {
    let page = include_str!("../../../../docs/sweep.md");
    let block = page.split("```python\n").last().and_then(|rest| rest.split("```").next()).expect("a block");
    fs::write(dir.0.join("parts.py"), block).expect("written");
    fs::write(dir.0.join("program.py"), program).expect("written");
    let folder = Path::new(env!("CARGO_BIN_EXE_txweir")).parent().expect("a directory");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([folder.to_owned()].into_iter().chain(std::env::split_paths(&path)));
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/first.toml");
    let out = Command::new(python)
        .args(["program.py", scenario])
        .args(OVER)
        .args(["--out", "results"])
        .current_dir(&dir.0)
        .env("PATH", path.expect("a path"))
        .stdin(Stdio::null())
        .output()
        .expect("run it");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(said.contains("6 of 6 parts\n"), "{said}");
    let mut parts: Vec<String> =
        (1..=6).flat_map(|part| rows(&dir.0.join(format!("results/first-{part}-of-6.parquet")))).collect();
    table(&dir.0, &[], "first-1-of-1.parquet");
    let mut expected = rows(&dir.0.join("first-1-of-1.parquet"));
    parts.sort();
    expected.sort();
    assert_eq!(parts, expected);
}

/// The program of docs/sweep.md, on processes of Python.
#[test]
fn parts_run_on_an_executor() {
    if !has_python(Path::new("python3")) {
        println!("skipped, because there is no python3");
        return;
    }
    let program = "\
import sys
from concurrent.futures import ProcessPoolExecutor
import parts

if __name__ == '__main__':
    with ProcessPoolExecutor(2) as executor:
        parts.sweep(executor, sys.argv[1:], 6)
";
    python(Path::new("python3"), program, &Folder::new("pool"));
}

fn has_python(python: &Path) -> bool {
    Command::new(python).arg("--version").output().is_ok_and(|out| out.status.success())
}

/// The same on a cluster of Dask, whose workers are killed in turn while parts run.
#[test]
fn parts_run_on_a_cluster_whose_workers_are_killed() {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let dask = cache.unwrap_or_default().join("txweir/dask-2026.8.0/bin/python");
    if !has_python(&dask) {
        println!("skipped, because Dask is not installed (make dask)");
        return;
    }
    let program = "\
import os
import signal
import sys
import threading
import time

import dask
from distributed import Client, LocalCluster
import parts

if __name__ == '__main__':
    dask.config.set({'distributed.scheduler.allowed-failures': 1000})
    sys.path.insert(0, os.getcwd())
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        client.upload_file('parts.py')

        def kill():
            for nanny in list(cluster.workers.values()) * 2:
                pid = nanny.pid
                os.kill(pid, signal.SIGKILL)
                while nanny.pid in (pid, None):
                    time.sleep(0.05)

        thread = threading.Thread(target=kill)
        thread.start()
        parts.sweep(client.get_executor(retries=100), sys.argv[1:], 6)
        thread.join()
";
    python(&dask, program, &Folder::new("dask"));
}

fn surface(dir: &Folder, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_txweir"));
    command.args(["lab", "surface"]).args(args).current_dir(&dir.0);
    command.stdin(Stdio::null()).output().expect("run it")
}

/// The table and the page have the medians of the rows.
#[test]
fn a_surface_has_the_medians_of_the_rows() {
    let dir = Folder::new("surface");
    let files = ["first-1-of-2.parquet", "first-2-of-2.parquet"];
    table(&dir.0, &["--shard", "1/2"], files[0]);
    table(&dir.0, &["--shard", "2/2"], files[1]);
    let of = ["--of", "bulk.throughput_bit_s", "--html", "page.html"];
    let out = surface(&dir, &[&of[..], &files].concat());
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    let mut lines = said.lines();
    assert_eq!(lines.next(), Some("traffic.bulk.throughput_bit_s, Mbit/s"), "{said}");
    assert_eq!(lines.next().map(str::trim), Some("seed"), "{said}");
    let head: Vec<&str> = lines.next().expect("a head").split_whitespace().collect();
    assert_eq!(head, ["link.client.router.rate", "1", "2", "3", "4"]);
    let all: Vec<String> = files.iter().flat_map(|file| rows(&dir.0.join(file))).collect();
    let page = fs::read_to_string(dir.0.join("page.html")).expect("a page");
    let mut row_values = Vec::new();
    for rate in ["5mbit", "10mbit", "20mbit"] {
        let words: Vec<f64> = (1..=4)
            .map(|seed| {
                let row = all.iter().find(|row| {
                    row.contains(&format!(" 2300ms {rate} {seed} traffic bulk throughput_bit_s "))
                });
                let value = row.and_then(|row| row.rsplit(' ').next()).expect("a row");
                value.parse::<f64>().expect("a number") / 1e6
            })
            .collect();
        let line: Vec<&str> = lines.next().expect("a line").split_whitespace().collect();
        assert_eq!(line[0], rate);
        for (shown, value) in line[1..].iter().zip(&words) {
            assert!((shown.parse::<f64>().expect("a number") - value).abs() < 0.01, "{said}");
            assert!(page.contains(&format!("%\">{shown}</td>")), "{shown}");
        }
        row_values.push(words);
    }
    assert_eq!(lines.next(), None);
    // The median of each row, over the seeds.
    let out = surface(&dir, &[&["--by", "rate"][..], &of[..2], &files].concat());
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(
        said.starts_with("traffic.bulk.throughput_bit_s, Mbit/s: median of 4 runs (least to most)\n"),
        "{said}"
    );
    for (line, values) in said.lines().skip(2).zip(&mut row_values) {
        values.sort_by(f64::total_cmp);
        let words: Vec<&str> = line.split_whitespace().collect();
        let shown: f64 = words[1].parse().expect("a number");
        assert!((shown - (values[1] + values[2]) / 2.0).abs() < 0.01, "{said}");
        assert!(words[2].starts_with('(') && words[4].ends_with(')'), "{said}");
    }
    // The list, and what is not there.
    let list = surface(&dir, &files);
    assert!(
        String::from_utf8_lossy(&list.stdout).lines().any(|name| name == "traffic.request.latency.p95_ns")
    );
    fs::write(dir.0.join("text"), "no table").expect("written");
    for (args, said) in [
        (vec!["--of", "nosuch", files[0]], "the tables have no such measurement"),
        (vec!["--of", "throughput_bit_s", files[0]], "expected one measurement, given traffic.bulk."),
        (vec!["--of", "bulk.jain", "--by", "nosuch", files[0]], "--by nosuch: expected one of duration, "),
        (vec!["--of", "bulk.jain", "--by", "a,b,c", files[0]], "expected one or two places"),
        (vec!["--of", "bulk.jain", "text"], "text: expected a table of txweir lab sweep"),
        (vec!["none.parquet"], "none.parquet: No such file"),
    ] {
        let out = surface(&dir, &args);
        assert_eq!(out.status.code(), Some(1), "{args:?}");
        assert!(
            String::from_utf8_lossy(&out.stderr).contains(said),
            "{args:?}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
    }
}
