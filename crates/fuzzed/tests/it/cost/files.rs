//! Scenarios, the traffic of trials, and traces.

use std::num::NonZeroUsize;

use txweir_core::Nanos;
use txweir_lab::replay::Trace;
use txweir_lab::report::Report;
use txweir_lab::run;
use txweir_lab::scenario::Scenario;
use txweir_lab::trial::{Entry, Resources, Setup, Traffic, html, run_with};
use txweir_tc::Policy;

use super::{Case, Steps};

/// Makes a scenario, and runs it.
fn scenario(text: &str, steps: &mut Steps) {
    let scenario = steps.step("parse", || Scenario::parse(text, "s").map_err(|e| e.to_string()).expect("it"));
    let mut built =
        steps.step("build", || scenario.build(1).map_err(|e| e.to_string()).expect("it is built"));
    steps.step("run", || run::play(&scenario, &mut built, &mut |_| {}));
    let report = steps.step("report", || Report::new(&scenario, 1, &built));
    steps.step("text", || drop((report.json(), report.to_string())));
}

const TOP: &str = "title = \"t\"\nduration = \"1ms\"\n[[host]]\nname = \"x\"\n[[host]]\nname = \"y\"\n";
const LINK: &str = "[[link]]\nfrom = \"x\"\nto = \"y\"\nrate = \"10mbit\"\n";
const STREAM: &str = "[[traffic]]\nname = \"t\"\nfrom = \"x\"\nto = \"y\"\nkind = \"stream\"\n";

fn each(n: usize, f: impl Fn(usize) -> String) -> String {
    (0..n).map(f).collect()
}

fn trace(n: usize) -> String {
    let mut text = String::from(
        "{\"txweir-trace\":1,\"kind\":\"pfifo\",\"name\":\"n\",\"seed\":1,\"device\":{\"mtu\":1500,\"txqueuelen\":1000,\
         \"queues\":1},\"linux\":\"6\",\"iproute2\":\"6\"}\n",
    );
    let row = |i| {
        format!("{{\"proto\":\"udp\",\"src\":\"10.0.0.1\",\"dst\":\"10.0.0.2\",\"sport\":{i},\"dport\":2}}")
    };
    let rows: Vec<String> = (0..n.min(60_000)).map(row).collect();
    text += &format!("{{\"packets\":[{}]}}\n", rows.join(","));
    text += "{\"at\":-1000000,\"tc\":\"qdisc add dev v0 root handle 1: tbf rate 10mbit burst 3000 limit \
         1000000\",\"status\":0}\n";
    text += &each(n, |i| format!("{{\"send\":[[{},{},200]]}}\n", i * 1_000_000, i % 60_000));
    text += &each(n, |i| format!("{{\"depart\":[[{},{i}]]}}\n", i * 1_000_000));
    let at = n * 1_000_000 + 1_000_000;
    text += &format!(
        "{{\"at\":{at},\"show\":{{\"qdisc\":[],\"class\":[],\"qdisc_text\":\"\",\"class_text\":\"\"}}}}\n"
    );
    text
}

pub fn cases() -> Vec<Case> {
    let text = |name: &str, n, make: fn(usize) -> String| Case {
        name: name.into(),
        n,
        run: Box::new(move |n, steps| scenario(&make(n), steps)),
    };
    vec![
        text("hosts", 2000, |n| {
            format!("{TOP}{}{LINK}{STREAM}", each(n, |i| format!("[[host]]\nname = \"h{i}\"\n")))
        }),
        text("links", 15, |n| {
            let hosts = each(n, |i| format!("[[host]]\nname = \"h{i}\"\n"));
            let links = each(n, |i| format!("[[link]]\nfrom = \"y\"\nto = \"h{i}\"\nrate = \"10mbit\"\n"));
            format!("{TOP}{hosts}{LINK}{links}{STREAM}")
        }),
        text("a chain of links", 15, |n| {
            let hosts = each(n + 1, |i| format!("[[host]]\nname = \"h{i}\"\n"));
            let links =
                each(n, |i| format!("[[link]]\nfrom = \"h{i}\"\nto = \"h{}\"\nrate = \"10mbit\"\n", i + 1));
            format!("{TOP}{hosts}{LINK}{links}{STREAM}")
        }),
        text("steps of a rate", 2000, |n| {
            let steps = each(n, |i| format!("[[link.step]]\nat = \"{i}ms\"\nrate = \"5mbit\"\n"));
            format!("{TOP}{LINK}{steps}{STREAM}")
        }),
        text("rules of a policy", 500, |n| {
            let lines = each(n, |i| {
                format!("filter add parent 1: protocol ip prio {} matchall classid 1:1\n", i + 1)
            });
            format!("{TOP}{LINK}policy = \"\"\"\nqdisc add root handle 1: prio\n{lines}\"\"\"\n{STREAM}")
        }),
        text("classes of a policy", 500, |n| {
            let lines = each(n, |i| format!("class add parent 1: classid 1:{:x} htb rate 1mbit\n", i + 1));
            format!(
                "{TOP}{LINK}policy = \"\"\"\nqdisc add root handle 1: htb default 1\n{lines}\"\"\"\n{STREAM}"
            )
        }),
        text("groups of traffic", 240, |n| {
            let groups = each(n, |i| {
                format!(
                    "[[traffic]]\nname = \"t{i}\"\nfrom = \"x\"\nto = \"y\"\nkind = \"stream\"\nstart = \"1s\"\n"
                )
            });
            format!("{TOP}{LINK}{groups}")
        }),
        text("times of short flows", 2000, |n| {
            let times: Vec<String> = (0..n).map(|i| format!("\"{}ms\"", i + 1)).collect();
            let keys = format!("kind = \"short\"\nsize = \"10kb\"\narrivals_at = [{}]\n", times.join(", "));
            format!("{TOP}{LINK}[[traffic]]\nname = \"t\"\nfrom = \"x\"\nto = \"y\"\n{keys}")
        }),
        Case {
            name: "traffic of a trial".into(),
            n: 500,
            run: Box::new(|n, steps| {
                let text = each(n, |i| {
                    format!(
                        "[[traffic]]\nname = \"t{i}\"\nfrom = \"a{i}\"\nto = \"b{i}\"\nkind = \"stream\"\n"
                    )
                });
                let read = || Traffic::file(text.as_bytes(), "t", Nanos::from_secs(1), 1);
                steps.step("read", || read().map_err(|e| e.to_string()).expect("traffic"));
            }),
        },
        Case {
            name: "classes of a trial".into(),
            n: 500,
            run: Box::new(|n, steps| {
                let class = |i| format!("class add dev x parent 1: classid 1:{:x} htb rate 1mbit\n", i + 1);
                let text = format!("qdisc add dev x root handle 1: htb default 1\n{}", each(n, class));
                let policy = steps.step("read", || Policy::parse(&text, "p").map_err(|e| e.to_string()));
                let entry = Entry { name: "p".into(), policy: Some(policy.expect("a policy")) };
                let setup = Setup { time: Nanos::from_millis(100), runs: 1, ..Setup::default() };
                let traffic = Traffic::mix("bulk+rr").expect("a mix");
                let resources = Resources { threads: NonZeroUsize::MIN, ..Resources::default() };
                let trial = run_with(&resources, &setup, &traffic, &[entry], &mut |_, _| {});
                let trial = trial.map_err(|e| e.to_string()).expect("a trial");
                steps.step("table", || drop(trial.to_string()));
                let json = steps.step("json", || trial.to_json());
                steps.step("page", || drop(html(&json)));
            }),
        },
        Case {
            name: "packets of a trace".into(),
            n: 1000,
            run: Box::new(|n, steps| {
                let text = trace(n);
                let read = steps.step("read", || Trace::read(&text).expect("a trace"));
                steps.step("replay", || drop(read.replay_once(1)));
            }),
        },
    ]
}
