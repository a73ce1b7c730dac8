//! Sweeps: places of a file, their values, and the order of runs.

use toml::Value;
use txweir_lab::run::{Options, run, run_for_page};
use txweir_lab::sweep::{AXES_MAX, Sweep, SweepError, VALUES_MAX, changed, measurements};

const FILE: &str = r#"title = "t"
duration = "200ms"
[[host]]
name = "a"
[[host]]
name = "b"
send_buffer = "64kb"
[[host]]
name = "c.d"
[[link]]
from = "a"
to = "b"
rate = "10mbit"
[[link]]
from = "b"
to = "c.d"
rate = "100mbit"
delay = "1ms"
[[traffic]]
name = "x"
from = "a"
to = "c.d"
kind = "stream"
count = 2
"#;

fn sweep(over: &[&str]) -> Result<Sweep, SweepError> {
    let mut read = |file: &str| match file {
        "short.tc" => Ok("qdisc add root pfifo limit 3\n".to_owned()),
        file => Err(format!("{file}: none")),
    };
    Sweep::new(FILE, "s.toml", over, &mut read)
}

fn good(over: &[&str]) -> Sweep {
    sweep(over).unwrap_or_else(|e| panic!("{over:?}: {e:?}"))
}

#[test]
fn the_last_place_changes_fastest() {
    let all = good(&["link.a.b.rate=1mbit,2mbit", "seed=5..7", "count=1,4"]);
    assert_eq!(all.runs(), 12);
    let keys: Vec<&str> = all.axes().iter().map(|axis| axis.key.as_str()).collect();
    assert_eq!(keys, ["link.a.b.rate", "seed", "count"]);
    let values: Vec<String> = (0..12).map(|run| all.values(run).join(" ")).collect();
    assert_eq!(values[..4], ["1mbit 5 1", "1mbit 5 4", "1mbit 6 1", "1mbit 6 4"]);
    assert_eq!(values[11], "2mbit 7 4");
    assert_eq!(all.scenario(11).expect("good").seed(), 7);
    // A place that comes twice has the values of both.
    assert_eq!(good(&["seed=1,2", "count=1", "seed=9"]).axes()[0].values, ["1", "2", "9"]);
    assert_eq!(good(&[]).runs(), 1);
}

/// Each run is the run of the file with these values in their places.
#[test]
fn a_run_is_that_of_the_file_with_its_values() {
    let over = ["delay=1ms,3ms", "link.a.b.policy=@short.tc,qdisc add root fq_codel", "send_buffer=8kb"];
    let all = good(&over);
    let of = |text: &str| {
        let scenario = txweir_lab::scenario::Scenario::parse(text, "s.toml").expect("good");
        measurements(&run(&scenario, Options::default(), |_| {}).expect("a run"))
    };
    let mut different = Vec::new();
    for number in 0..all.runs() {
        let [delay, policy, _] = all.values(number)[..] else { panic!("three values") };
        let policy = if policy == "@short.tc" { "qdisc add root pfifo limit 3" } else { policy };
        let text = FILE
            .replace("delay = \"1ms\"", &format!("delay = \"{delay}\""))
            .replace("rate = \"10mbit\"", &format!("rate = \"10mbit\"\npolicy = \"{policy}\""))
            .replace("64kb", "8kb");
        let scenario = all.scenario(number).expect("good");
        let measured = measurements(&run(&scenario, Options::default(), |_| {}).expect("a run"));
        assert_eq!(measured, of(&text), "{number}");
        assert!(!different.contains(&measured), "{number}");
        different.push(measured);
    }
    let first = &different[0];
    let has = |section: &str, object: &str, metric: &str| {
        first.iter().any(|m| (&*m.section, &*m.object, &*m.metric) == (section, object, metric))
    };
    assert!(has("traffic", "x", "throughput_bit_s") && has("links", "b.c.d", "tx_packets"));
    assert!(has("queues", "a.b", "backlog_bytes.mean"));
}

#[test]
fn what_is_no_place_and_no_value_is_refused() {
    for (over, said) in [
        ("seed", "--over: expected KEY=VALUE,VALUE, given seed"),
        ("=3", "--over: expected KEY=VALUE,VALUE, given ="),
        ("rate=1mbit", "--over rate: expected one place, given link.a.b.rate, link.b.c.d.rate"),
        (
            "speed=3",
            "--over speed: the file has no such place: expected seed, or a key of host.a, host.b, host.c.d, \
             link.a.b, link.b.c.d, traffic.x",
        ),
        ("traffic.y.count=3", "--over traffic.y.count: the file has no such place: expected"),
        ("host=3", "--over host: the file has no such place: expected"),
        ("count=many", "--over count: expected a value of type integer, given many"),
        ("count=", "--over count: expected a value of type integer, given "),
        ("count=3..1", "--over count: expected a value of type integer, given 3..1"),
        ("seed=1..9223372036854775806", "--over seed: expected at most 100000 values, given more"),
        ("delay=@none.tc", "none.tc: none"),
    ] {
        match sweep(&[over]) {
            Err(SweepError::Axis(line)) => assert!(line.starts_with(said), "{over}: {line}"),
            other => panic!("{over}: {other:?}"),
        }
    }
    // A value that the scenario refuses, behind a good one, and a key that it does not have.
    for over in ["delay=1ms,2parsec", "host.a.nosuch=1", "link.a.b.policy=qdisc add root nosuch"] {
        assert!(matches!(sweep(&[over]), Err(SweepError::Scenario(_))), "{over}");
    }
    // The limits: of values, of places, of runs.
    let most = format!("seed=1..{VALUES_MAX}");
    assert_eq!(sweep(&[&most, "seed=7"]).unwrap_err(), sweep(&["seed=1..100001"]).unwrap_err());
    let many = [
        "count=1..400",
        "seed=1..400",
        "delay=1ms,2ms",
        "title=a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w,x,y,z,aa,bb,cc,dd,ee,ff",
    ];
    assert!(matches!(sweep(&many), Err(SweepError::Axis(line)) if line.contains("10000000 runs")));
    let keys: Vec<String> = (0..=AXES_MAX).map(|n| format!("host.a.key{n}=1")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    assert!(matches!(sweep(&keys), Err(SweepError::Axis(line)) if line.contains("at most 16 places")));
}

/// Groups of one name, and links between the same hosts, are told apart: by their ends, then by a
/// number.
#[test]
fn objects_of_one_name_are_told_apart() {
    let again = "[[traffic]]\nname = \"x\"\nfrom = \"b\"\nto = \"a\"\nkind = \"stream\"\n";
    let text = format!("{FILE}{again}{again}");
    let all = Sweep::new(&text, "s.toml", &["traffic.x.b.a.2.count=3"], &mut |_| Err(String::new()));
    let all = all.expect("a place");
    let scenario = all.scenario(0).expect("good");
    let (report, page) = run_for_page(&scenario, Options::default(), |_| {}).expect("a run");
    assert_eq!(report.traffic.iter().map(|t| t.count).collect::<Vec<_>>(), [2, 1, 3]);
    let mut objects: Vec<String> = measurements(&report).into_iter().map(|m| m.object).collect();
    objects.dedup();
    assert_eq!(objects[..3], ["x.a.c.d", "x.b.a", "x.b.a.2"]);
    let [policy] = &page.policies[..] else { panic!("one run") };
    let shown: Vec<&str> = policy.groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(shown, ["x a -> c.d", "x b -> a", "x b -> a.2"]);
    let mut measured = policy.measures.iter().filter_map(|measure| measure.group.as_deref());
    assert!(measured.all(|group| shown.contains(&group)));
}

/// A changed scenario is the file with these values; a value is taken as it is, whatever its signs.
#[test]
fn a_scenario_takes_other_values() {
    let policy = "qdisc add root handle 1: prio # 1..5, @file\n";
    let text = |text: &str| Value::String(text.into());
    let changes = [("rate", text("1gbit")), ("link.a.b.policy", text(policy)), ("count", Value::Integer(3))];
    let refused = |changes: &[(&str, Value)]| match changed(FILE, "s.toml", changes) {
        Err(SweepError::Axis(line)) => line,
        other => panic!("{changes:?}: {other:?}"),
    };
    assert_eq!(
        refused(&changes),
        "rate: expected one place, given link.a.b.rate, link.b.c.d.rate",
        "two links have a rate"
    );
    let good =
        changed(FILE, "s.toml", &[("link.a.b.rate", text("1gbit")), changes[1].clone(), changes[2].clone()]);
    let good = good.expect("good");
    let report = run(&good, Options::default(), |_| {}).expect("a run");
    assert_eq!((report.links[0].rate_bit_s, report.traffic[0].count), (1_000_000_000, 3));
    assert_eq!(report.queues[0].qdisc, "prio");
    assert_eq!(refused(&[("count", text("3"))]), "count: expected a value of type integer, given \"3\"");
    assert!(refused(&[("nosuch", text("3"))]).starts_with("nosuch: the file has no such place"));
    let wrong = changed(FILE, "s.toml", &[("link.a.b.rate", text("1parsec"))]);
    assert!(matches!(wrong, Err(SweepError::Scenario(_))), "{wrong:?}");
}
