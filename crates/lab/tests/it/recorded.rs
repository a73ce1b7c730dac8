//! The lab's TCP against recordings of Linux's (`spec/tcp`).

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use txweir_lab::fidelity::Row;
use txweir_lab::recorded::matrix::{self, Verdict};
use txweir_lab::recorded::{cases, exact::Case};

/// Cases with a segment that differs, as docs/transport.md counts them. A name that is no longer
/// needed must be removed.
const DIFFER: [&str; 10] = [
    "bbr-lose-one",
    "cubic-growth-long",
    "cubic-half-of-window",
    "cubic-hystart-delay",
    "cubic-lose-k-k1-k3",
    "cubic-mark-many",
    "reno-ack-loss-window",
    "reno-lose-and-late",
    "reno-lose-k-k1-k3",
    "reno-zero-window",
];
/// Least number of runs of the seen and of the held half that are inside the bands or Linux's own
/// repetitions.
const INSIDE: [(&str, usize); 2] = [("seen", 155), ("held", 148)];

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/tcp").join(folder);
    let mut all: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    all.sort();
    all
}

fn threads() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

#[test]
fn segments_leave_when_linux_sent_them() {
    let all: Vec<Case> =
        files("exact").iter().flat_map(|f| cases::read(&fs::read_to_string(f).unwrap()).unwrap()).collect();
    assert_eq!(all.len(), 101);
    let outcomes = cases::play_all(&all, threads());
    let differ: Vec<&str> = all
        .iter()
        .zip(&outcomes)
        .filter(|(_, o)| o.differs.is_some())
        .map(|(case, _)| case.name.as_str())
        .collect();
    assert_eq!(differ, DIFFER);
}

/// A case that would stop the player, or never end, is refused.
#[test]
fn a_case_that_cannot_be_played_is_refused() {
    let all: String = files("exact").iter().map(|f| fs::read_to_string(f).unwrap()).collect();
    let mut each = all.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut case = each.find(|case| case["flow"]["app"] == "rr").expect("a case of requests");
    case["name"] = json!("x");
    let refused = |place: &str, value: Value| {
        let mut wrong = case.clone();
        *wrong.pointer_mut(place).expect(place) = value;
        cases::read(&wrong.to_string()).expect_err(place)
    };
    assert!(cases::read(&case.to_string()).is_ok());
    let sizes = "line 1: case x: size: expected a request and a reply above 0, a pause and a count, given ";
    assert_eq!(refused("/flow/size", json!([])), format!("{sizes}[]"));
    assert_eq!(refused("/flow/size/0", json!(0)).split(", given").next(), sizes.split(", given").next());
    let app = "line 1: case x: app: expected script or rr, given \"bulk\"";
    assert_eq!(refused("/flow/app", json!("bulk")), app);
    let acts = "line 1: case x: acts: expected drop, ack-drop, late, ack-late, twice, ack-twice, mark, \
                dark, ack-dark, stall, ack-stall, syn-drop, synack-drop, given \"lost\"";
    assert_eq!(refused("/acts", json!([["drop", 1, 1], ["lost", 2, 2]])), acts);
    assert_eq!(refused("/acts", json!([["lost", 2, 2, 1000]])), acts);
    let times = "line 1: case x: expected times of at most 600000000000 ns, given 18446744073709551615";
    for place in ["/duration_ns", "/delay_ns", "/sent/dt_us/0", "/got/dt_us/0"] {
        assert_eq!(refused(place, json!(u64::MAX)), times, "{place}");
    }
}

/// An acknowledgement that Linux's receiver sent and the one here does not is a difference.
#[test]
fn a_missing_acknowledgement_is_a_difference() {
    let file = files("exact").into_iter().find(|f| f.ends_with("dctcp.jsonl")).unwrap();
    let text = fs::read_to_string(file).unwrap();
    let mut each = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut case = each.find(|case| case["name"] == "dctcp-plain").expect("the case");
    let outcome = |case: &Value| Case::parse(&case.to_string()).unwrap().play();
    let recorded = outcome(&case);
    assert_eq!(recorded.windows_differ, None);
    for key in ["dt_us", "ack", "window", "cwnd", "ssthresh", "state"] {
        case["got"][key].as_array_mut().expect(key).push(json!(1));
    }
    assert_eq!(outcome(&case).windows_differ, Some(recorded.heard_there.len()));
}

/// The documented number of runs is inside by the table in the binary, and that table agrees with
/// the runs that are played here: all of at most 1 Mbit/s, and one in six of the faster ones, as
/// these take most of the time. `TXWEIR_ROWS=all` plays every run, and so does `.ci/run`, with the
/// built program.
#[test]
fn runs_come_out_as_linux_had_them() {
    let table = include_str!("../../assets/tcp/summary.jsonl");
    let table = txweir_lab::fidelity::Table::parse(table).unwrap();
    let known: BTreeMap<&str, &Row> = table.rows().iter().map(|r| (r.name.as_str(), r)).collect();
    let all = std::env::var("TXWEIR_ROWS").is_ok_and(|rows| rows == "all");
    let (mut seen, mut played) = (0, 0);
    for (half, least) in INSIDE {
        let mut runs: Vec<_> =
            files(half).iter().flat_map(|f| matrix::read(&fs::read_to_string(f).unwrap()).unwrap()).collect();
        seen += runs.len();
        let inside = runs.iter().filter(|run| known[run.name.as_str()].inside).count();
        assert!(inside >= least, "{half}: {inside} of {} inside, {least} are known", runs.len());
        let fast = |name: &str| known[name].rate_bit_s > 1_000_000;
        let mut nth = 0;
        runs.retain(|run| {
            nth += usize::from(fast(&run.name));
            all || !fast(&run.name) || nth % 6 == 0
        });
        let compared = matrix::play_all(&runs, threads()).unwrap();
        let summary = txweir_lab::fidelity::Table::parse(&matrix::summary(&compared)).unwrap();
        for row in summary.rows() {
            assert_eq!(known[row.name.as_str()].inside, row.inside, "{}: the table is stale", row.name);
        }
        played += summary.rows().len();
    }
    assert_eq!((seen, known.len()), (342, 342));
    assert_eq!(played, if all { 342 } else { 109 });
}

/// A changed recording is distinguished from the model: the comparison can fail.
#[test]
fn a_changed_recording_is_outside() {
    let file = files("seen").into_iter().find(|f| f.ends_with("cake.jsonl")).unwrap();
    let text = fs::read_to_string(file).unwrap();
    let one = |text: &str| {
        let runs = matrix::read(text).unwrap();
        let named = runs.into_iter().find(|r| r.name.starts_with("cubic-") && r.flow_count() == 1);
        matrix::play_all(&[named.expect("a run of one flow")], threads()).unwrap().remove(0).verdict()
    };
    assert_eq!(one(&text), Verdict::Inside);
    let changed = text.replace("\"goodput_bps\":", "\"goodput_bps\":1");
    assert_ne!(changed, text);
    assert_eq!(one(&changed), Verdict::Outside);
}
