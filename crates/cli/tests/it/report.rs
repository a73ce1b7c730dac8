//! The files that `try` and `lab run` write and read: pages with charts, runs of flent.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::common::Folder;

fn txweir(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_txweir"));
    command.args(args).stdin(Stdio::null()).output().expect("run it")
}

/// Returns stdout of a run that succeeds.
fn done(args: &[&str]) -> String {
    let out = txweir(args);
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn refused(args: &[&str]) -> (Option<i32>, String) {
    let out = txweir(args);
    (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
}

/// Returns the data of a page.
fn data(page: &str) -> Value {
    let page = fs::read_to_string(page).expect("a page");
    let data = page.split("id=\"data\">").nth(1).and_then(|d| d.split("</script>").next()).expect("data");
    serde_json::from_str(data).expect("JSON")
}

const SHORT: [&str; 6] = ["--link", "20mbit", "--time", "2s", "--runs", "1"];

/// A run that was written for flent stands beside the same run as a real line: the table, the JSON
/// and the page have it.
#[test]
fn written_runs_are_read_beside_policies() {
    let dir = Folder::new("flent");
    let (policy, runs) = (dir.at("a b.tc"), dir.at("runs"));
    fs::write(&policy, "qdisc add root fq_codel\n").expect("a policy");
    done(&[&["try", "default", &policy, "--write-flent", &runs][..], &SHORT].concat());
    let mut names: Vec<String> = fs::read_dir(&runs)
        .expect("runs")
        .map(|f| f.expect("f").file_name().to_string_lossy().into())
        .collect();
    names.sort();
    assert_eq!(names, ["a_b.tc.flent.gz", "default.flent.gz"]);
    let (line, page) = (format!("{runs}/default.flent.gz"), dir.at("page.html"));
    let with = [&["try", "default", "--flent", &line, "--html", &page][..], &SHORT].concat();
    let text = done(&with);
    assert!(text.contains("real line default.flent.gz: tcp_nup, default, virtual, 1970-01-01"), "{text}");
    let beside = data(&page)["beside"].clone();
    let near = |row: &Value| {
        let (line, policy) =
            (row["lines"][0].as_f64().expect("a line"), row["policies"][0].as_f64().expect("a policy"));
        (line / policy - 1.0).abs() < 0.2
    };
    assert_eq!((beside[0]["measure"].as_str(), near(&beside[0])), (Some("upload_bit_s"), true), "{beside}");
    let json: Value = serde_json::from_str(&done(&[&with[..], &["--json"]].concat())).expect("JSON");
    assert_eq!(json["beside"], beside);
}

#[test]
fn wrong_files_of_flent_are_refused_before_the_run() {
    let dir = Folder::new("wrong");
    let wrong = dir.at("x.flent");
    fs::write(&wrong, "{\"version\": 9}").expect("a file");
    let said = format!("--flent {wrong}: version: expected 1 to 4, given 9");
    let (status, errors) = refused(&["try", "--flent", &wrong]);
    assert_eq!(status, Some(1));
    assert!(errors.contains(&said), "{errors}");
    let five = ["--flent", &wrong].repeat(5);
    let (_, errors) = refused(&[&["try"][..], &five].concat());
    assert!(errors.contains("--flent: expected at most 4 files, given 5"), "{errors}");
    let (status, errors) = refused(&["try", "--write-flent", &format!("{wrong}/in")]);
    assert!(status == Some(1) && errors.contains("--write-flent"), "{errors}");
}

/// The page of a scenario has its traffic and each direction of its links; the report is that of
/// the run without a page.
#[test]
fn a_scenario_has_the_same_page() {
    let dir = Folder::new("scenario");
    let page = dir.at("page.html");
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/first.toml");
    assert!(Path::new(scenario).exists());
    assert_eq!(done(&["lab", "run", scenario, "--html", &page]), done(&["lab", "run", scenario]));
    let data = data(&page);
    let ways: Vec<&str> =
        data["ways"].as_array().expect("ways").iter().filter_map(|w| w["name"].as_str()).collect();
    assert!(ways.len() >= 2 && ways.iter().all(|w| w.contains(" -> ")), "{ways:?}");
    let report: Value = serde_json::from_str(&done(&["lab", "run", scenario, "--json"])).expect("JSON");
    let groups = data["policies"][0]["groups"].as_array().expect("groups");
    assert_eq!(groups.len(), report["traffic"].as_array().expect("traffic").len());
    for (group, of) in groups.iter().zip(report["traffic"].as_array().expect("traffic")) {
        assert_eq!(group["name"], of["name"]);
        assert_eq!(group["throughput_bit_s"], of["throughput_bit_s"], "{group}");
    }
    let (status, errors) = refused(&["lab", "run", scenario, "--html", "/no/such/folder/x"]);
    assert!(status == Some(1) && errors.contains("--html /no/such/folder/x"), "{errors}");
}
