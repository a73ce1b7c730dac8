//! Files of flent: what is read, what is refused, and what the real flent reads of those written.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs, thread};

use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use txweir_core::{Nanos, Rate};
use txweir_lab::flent::{Line, POINTS_MAX, SERIES_MAX, STEPS_MAX, TEXT_BYTES_MAX};
use txweir_lab::trial::{Entry, Setup, Traffic, Trial, run, written};

/// Time after which flent counts as stuck.
const FLENT_SECONDS_MAX: u32 = 60;

/// Returns a run of 10 s with 5 s of pings before and after it, a value each 0.5 s.
fn sample() -> Value {
    let x: Vec<f64> = (1..=40).map(|n| f64::from(n) * 0.5).collect();
    let busy = |x: f64| x > 5.0 && x <= 15.0;
    let rate =
        |mbit: f64| x.iter().map(|x| if busy(*x) { json!(mbit) } else { json!(null) }).collect::<Value>();
    let ping: Value = x.iter().map(|x| if busy(*x) { json!(100.0 + x) } else { json!(20.0) }).collect();
    json!({
        "version": 4,
        "metadata": {"NAME": "rrul", "TITLE": "at home", "HOST": "far.example", "TIME": "2026-01-02T03:04:05.000000Z"},
        "x_values": x,
        "results": {
            "TCP upload BE": rate(8.0), "TCP upload BK": rate(1.0), "TCP upload avg": rate(4.5), "TCP upload sum": rate(9.0),
            "TCP download BE": rate(40.0), "TCP totals": rate(49.0),
            "Ping (ms) ICMP": ping, "Ping (ms) avg": ping, "something else": [1, "two"],
        },
        "raw_values": {"Ping (ms) ICMP": [{"t": 1.5, "val": 20}]},
    })
}

fn packed(text: &str) -> Vec<u8> {
    let mut gz = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(text.as_bytes()).unwrap();
    gz.finish().unwrap()
}

fn refusal(file: &Value) -> String {
    Line::read(file.to_string().as_bytes(), "f").expect_err("a refusal").to_string()
}

#[test]
fn the_time_in_which_tcp_sent_is_read() {
    let line = Line::read(&packed(&sample().to_string()), "home.flent.gz").unwrap();
    assert_eq!(
        line,
        Line { name: "home.flent.gz".into(), ..Line::read(sample().to_string().as_bytes(), "x").unwrap() }
    );
    assert_eq!(
        [&line.name, &line.test, &line.title, &line.host],
        ["home.flent.gz", "rrul", "at home", "far.example"]
    );
    assert_eq!(line.length_ns, 10_000_000_000);
    assert_eq!((line.at_ns.len(), line.at_ns[0], line.at_ns[19]), (20, 500_000_000, 10_000_000_000));
    let (up, down) = (line.upload.unwrap(), line.download.unwrap());
    assert_eq!((up.throughput_bit_s, down.throughput_bit_s), (9_000_000, 40_000_000));
    let names: Vec<&str> = up.flows.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["TCP upload BE", "TCP upload BK"]);
    assert_eq!(up.flows[0].series_bit_s, [Some(8_000_000); 20]);
    // The pings of the idle line do not count.
    let ping = line.ping.unwrap();
    assert_eq!((ping.latency.count, ping.latency.max_ns), (20, 115_000_000));
    assert_eq!((ping.percents_ns.len(), ping.series_ns[0]), (101, Some(105_500_000)));
    assert!(ping.percents_ns[0].abs_diff(105_500_000) < 105_500, "{}", ping.percents_ns[0]);
}

/// Without a sum the flows are added; without TCP all pings count; a long run has no more steps
/// than a page can show.
#[test]
fn other_tests_of_flent_are_read() {
    let mut file = sample();
    let results = file["results"].as_object_mut().unwrap();
    results.remove("TCP upload sum");
    let line = Line::read(file.to_string().as_bytes(), "f").unwrap();
    assert_eq!(line.upload.unwrap().throughput_bit_s, 9_000_000);
    let results = file["results"].as_object_mut().unwrap();
    results.retain(|name, _| name.starts_with("Ping"));
    let line = Line::read(file.to_string().as_bytes(), "f").unwrap();
    assert_eq!((line.upload, line.ping.unwrap().latency.count, line.length_ns), (None, 40, 20_000_000_000));
    let long: Vec<u32> = (0..36_000).collect();
    let file = json!({"metadata": {}, "x_values": long, "results": {"TCP upload": vec![3; 36_000]}});
    let line = Line::read(file.to_string().as_bytes(), "f").unwrap();
    assert_eq!((line.at_ns.len(), line.at_ns.last()), (1000, Some(&35_999_000_000_000)));
    assert!(line.at_ns.len() <= STEPS_MAX);
    assert_eq!(line.upload.unwrap().series_bit_s, [Some(3_000_000); 1000]);
}

/// The states of sockets (`--socket-stats`) and the sums of some flows are no flows: a window of 80
/// segments is no rate of 80 Mbit/s.
#[test]
fn series_beside_the_flows_are_no_flows() {
    let beside = |names: [(&str, f64); 2]| {
        let mut file = sample();
        let results = file["results"].as_object_mut().unwrap();
        results.remove("TCP upload sum");
        for (name, value) in names {
            let at = |i: i32| if (10..30).contains(&i) { json!(value) } else { json!(null) };
            let values: Value = (0..40).map(at).collect();
            results.insert(name.into(), values);
        }
        let up = Line::read(file.to_string().as_bytes(), "f").unwrap().upload.unwrap();
        (up.throughput_bit_s, up.flows.iter().map(|f| f.name.clone()).collect::<Vec<_>>())
    };
    let plain = (9_000_000, vec!["TCP upload BE".to_string(), "TCP upload BK".to_string()]);
    assert_eq!(beside([("TCP upload BE::tcp_cwnd", 80.0), ("TCP upload BK::tcp_rtt", 31.5)]), plain);
    assert_eq!(beside([("TCP upload Torrent sum", 5.0), ("TCP upload Torrent avg", 2.5)]), plain);
}

#[test]
fn errors_name_key_expected_and_given() {
    let said = |bytes: &[u8]| Line::read(bytes, "f").expect_err("a refusal").to_string();
    assert!(
        said(b"").starts_with("file: expected an object of JSON, given EOF while parsing"),
        "{}",
        said(b"")
    );
    assert_eq!(said(b"BZh91"), "file: expected JSON, or JSON compressed with gzip, given bzip2");
    assert_eq!(
        said(b"{\xff"),
        "file: expected JSON, or JSON compressed with gzip, given bytes that are no text at byte 1"
    );
    let whole = packed(&sample().to_string());
    let broken = said(&whole[..whole.len() / 2]);
    assert!(broken.starts_with("file: expected gzip that unpacks, given "), "{broken}");
    let with = |key: &str, value: Value| {
        let mut file = sample();
        file[key] = value;
        refusal(&file)
    };
    let cases = [
        (with("version", json!(5)), "version: expected 1 to 4, given 5"),
        (with("version", json!("4")), "version: expected a number, given \"4\""),
        (with("metadata", json!(3)), "metadata: expected an object, given 3"),
        (with("metadata", json!({"HOST": 7})), "metadata: HOST: expected a text or null, given 7"),
        (with("x_values", json!([])), "x_values: expected 1 to 200000 values, given 0"),
        (with("x_values", json!([1, "a"])), "x_values: expected a list of seconds, given [1,\"a\"]"),
        (with("x_values", json!([1, -2])), "x_values: expected 0 to 86400 s, given -2"),
        (with("x_values", json!([1, 1])), "x_values: expected more than 1 after it, given 1"),
        (with("results", json!([])), "results: expected an object of series, given []"),
        (
            with("results", json!({"TCP totals": []})),
            "results: expected a series \"TCP upload…\", \"TCP download…\" or \"Ping (ms)…\", given none",
        ),
        (
            with("results", json!({"Ping (ms) ICMP": [1]})),
            "results: Ping (ms) ICMP: expected 40 values, as x_values has, given 1",
        ),
        (
            with("results", json!({"Ping (ms) ICMP": "x"})),
            "results: Ping (ms) ICMP: expected a list of numbers and null, given \"x\"",
        ),
        (
            with("results", json!({"TCP upload": vec![-1; 40]})),
            "results: TCP upload: expected 0 to 10000000 Mbit/s, given -1",
        ),
    ];
    for (given, expected) in cases {
        assert_eq!(given, expected);
    }
    for key in ["metadata", "x_values", "results"] {
        let mut file = sample();
        file.as_object_mut().unwrap().remove(key);
        assert!(refusal(&file).starts_with(&format!("{key}: expected ")), "{}", refusal(&file));
    }
    // Names of a file do not command a terminal.
    let hostile = with("results", json!({"TCP upload \u{1b}[2J": [1]}));
    assert!(!hostile.contains('\u{1b}'), "{hostile:?}");
}

#[test]
fn files_beyond_the_bounds_are_refused_in_bounded_memory() {
    // A megabyte of gzip that unpacks to far more than may be.
    let zeros = vec![b' '; 1 << 20];
    let mut gz = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    for _ in 0..TEXT_BYTES_MAX / zeros.len() + 2 {
        gz.write_all(&zeros).unwrap();
    }
    let bomb = gz.finish().unwrap();
    assert!(bomb.len() < 2 << 20, "{}", bomb.len());
    let said = Line::read(&bomb, "f").expect_err("a refusal").to_string();
    assert_eq!(said, format!("file: expected at most {TEXT_BYTES_MAX} bytes unpacked, given more"));
    let many: Vec<usize> = (0..=POINTS_MAX).collect();
    let said = refusal(&json!({"metadata": {}, "x_values": many, "results": {}}));
    assert_eq!(said, format!("x_values: expected 1 to {POINTS_MAX} values, given {}", POINTS_MAX + 1));
    let series: Value =
        (0..=SERIES_MAX).map(|n| (n.to_string(), json!([]))).collect::<serde_json::Map<_, _>>().into();
    let said = refusal(&json!({"metadata": {}, "x_values": [1], "results": series}));
    assert_eq!(said, format!("results: expected at most {SERIES_MAX} series, given {}", SERIES_MAX + 1));
    let deep = "[".repeat(100_000);
    assert!(Line::read(deep.as_bytes(), "f").is_err());
}

// ---- Written files ----

fn trial() -> Trial {
    trial_of(&Traffic::mix("bulk+rr").unwrap())
}

fn trial_of(traffic: &Traffic) -> Trial {
    let setup =
        Setup { link: Rate::from_bits(20_000_000), time: Nanos::from_secs(4), runs: 1, ..Setup::default() };
    let entry = Entry { name: "a policy".into(), policy: None };
    run(&setup, traffic, &[entry], &mut |_, _| {}).unwrap()
}

/// Returns the text of a written file.
fn unpacked(bytes: &[u8]) -> Value {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_written_file_has_the_version_of_ip() {
    let mix = || Traffic::mix("bulk+rr").unwrap();
    for (traffic, version) in [(mix(), 4), (mix().over_ipv6().unwrap(), 6)] {
        let trial = trial_of(&traffic);
        let file = unpacked(&written(&trial, &trial.policies[0]));
        assert_eq!(file["metadata"]["IP_VERSION"], version);
    }
}

#[test]
fn a_written_file_reads_back_as_the_run_was() {
    let trial = trial();
    let policy = &trial.policies[0];
    let bytes = written(&trial, policy);
    assert_eq!(bytes, written(&trial, policy), "the same run is the same file");
    let line = Line::read(&bytes, "a.flent.gz").unwrap();
    assert_eq!((line.test.as_str(), line.title.as_str()), ("tcp_nup", "a policy"));
    let bulk = &policy.groups[0];
    let up = line.upload.unwrap();
    // In megabits with six places, so to a bit.
    let near = |a: &[Option<u64>], b: &[u64]| {
        let b = &b[b.len() - a.len()..];
        a.iter().zip(b).all(|(a, b)| a.is_some_and(|a| a.abs_diff(*b) <= 1))
    };
    assert!(near(&up.series_bit_s, &bulk.series.throughput_bit_s));
    assert_eq!(up.flows.len(), 4);
    assert!(near(&up.flows[3].series_bit_s, &bulk.series.flows_bit_s[3]));
    assert_eq!(line.download, None);
    let known = |all: &[Option<u64>]| all.iter().flatten().count();
    let rr = &policy.groups[1].series.latency_p50_ns;
    let skipped = rr.len() - line.at_ns.len();
    assert_eq!(known(&line.ping.unwrap().series_ns), known(&rr[skipped..]));
}

/// Lines beside a trial: their numbers stand beside the medians of the policies.
#[test]
fn lines_stand_beside_the_policies() {
    let mut trial = trial();
    let bytes = written(&trial, &trial.policies[0]);
    let other = Line::read(sample().to_string().as_bytes(), "home.json").unwrap();
    trial.set_lines(vec![Line::read(&bytes, "same.flent.gz").unwrap(), other]);
    let text = trial.to_string();
    let table: Vec<Vec<&str>> = text
        .lines()
        .skip_while(|l| !l.trim_start().starts_with("upload "))
        .take(4)
        .map(|l| l.split("  ").map(str::trim).filter(|w| !w.is_empty()).collect())
        .collect();
    assert_eq!(table[0], ["upload", "download", "ping p50 (rr)", "ping p95 (rr)", "ping p99 (rr)"], "{text}");
    assert_eq!(table[2], ["home.json", "9.00 Mbit/s", "40.0 Mbit/s", "110 ms", "115 ms", "115 ms"], "{text}");
    assert_eq!(
        (table[1][0], table[1][2], table[3][0], table[3][2]),
        ("same.flent.gz", "-", "a policy", "-"),
        "{text}"
    );
    let json: Value = serde_json::from_str(&trial.to_json()).unwrap();
    assert_eq!(json["beside"][1]["lines"], json!([null, 40_000_000.0]));
    assert_eq!(json["lines"][1]["upload"]["throughput_bit_s"], 9_000_000);
}

// ---- The real flent ----

/// Returns the real flent: that of `make setup`, or one on the path.
fn flent() -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    let all = [cache.map(|c| c.join("txweir/flent-2.3.0/bin/flent")), Some(PathBuf::from("flent"))];
    all.into_iter().flatten().find(|path| {
        let quiet = || Stdio::null();
        Command::new(path)
            .arg("--version")
            .stdout(quiet())
            .stderr(quiet())
            .status()
            .is_ok_and(|s| s.success())
    })
}

/// Runs flent on a file; returns what it prints in a format.
fn opened(flent: &Path, file: &Path, format: &str) -> String {
    let (out, err) = (file.with_extension("out"), file.with_extension("err"));
    let mut child = Command::new(flent)
        .args(["-i", &file.to_string_lossy(), "-f", format])
        .stdin(Stdio::null())
        .stdout(fs::File::create(&out).unwrap())
        .stderr(fs::File::create(&err).unwrap())
        .spawn()
        .unwrap();
    let mut left = FLENT_SECONDS_MAX * 10;
    while child.try_wait().unwrap().is_none() {
        left -= 1;
        if left == 0 {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("flent did not end within {FLENT_SECONDS_MAX} s");
        }
        thread::sleep(Duration::from_millis(100));
    }
    let (text, complaint) = (fs::read_to_string(out).unwrap(), fs::read_to_string(err).unwrap());
    assert!(child.wait().unwrap().success() && !complaint.contains("Error"), "{format}: {complaint}");
    text
}

#[test]
fn the_real_flent_opens_what_is_written() {
    let Some(flent) = flent() else {
        println!(
            "flent: the real flent skipped, because it is neither in ~/.cache/txweir nor on the path (make setup)"
        );
        return;
    };
    let trial = trial();
    let policy = &trial.policies[0];
    let folder = env::temp_dir().join(format!("txweir-flent-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("a.flent.gz");
    let bytes = written(&trial, policy);
    fs::write(&file, &bytes).unwrap();
    let csv = opened(&flent, &file, "csv");
    let summary = opened(&flent, &file, "summary");
    fs::remove_dir_all(&folder).unwrap();
    // Flent prints the values of the file.
    let given = unpacked(&bytes);
    let rows = csv.lines().skip_while(|l| !l.contains("TCP upload sum"));
    let rows: Vec<Vec<&str>> = rows.map(|l| l.split(',').collect()).collect();
    let column = rows[0].iter().position(|name| *name == "TCP upload sum").expect(&csv);
    let read: Vec<f64> = rows[1..].iter().map(|row| row[column].parse().unwrap()).collect();
    let sums: Vec<f64> =
        given["results"]["TCP upload sum"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
    assert_eq!(read, sums);
    assert_eq!(rows[0].iter().filter(|name| name.starts_with("TCP upload::")).count(), 4, "{csv}");
    for said in ["a policy", "Ping (ms) ICMP", "TCP upload sum", "Mbits/s"] {
        assert!(summary.contains(said), "{said}: {summary}");
    }
}
