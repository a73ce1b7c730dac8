//! Metrics over TCP and a Unix socket, read by a parser of the test's own and compared with what
//! `tc -s -j` and `link show -j` say.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use txweir_core::Nanos;
use txweir_core::text::stats::Counters as _;
use txweir_daemon::protocol::{Ask, Batch};
use txweir_daemon::{Client, Daemon, Entrance, Listener, Patience, Server};

/// A time longer than any single step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server with a socket for clients and one for metrics, ended with the test.
struct Running {
    dir: PathBuf,
    address: SocketAddr,
    stop: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start(name: &str) -> Self {
        Self::patient(name, Patience::default())
    }
    fn patient(name: &str, patience: Patience) -> Self {
        let dir = std::env::temp_dir().join(format!("txw-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let listener = Listener::bind(&dir.join("all")).expect("bind");
        let tcp = TcpListener::bind("127.0.0.1:0").expect("bind");
        tcp.set_nonblocking(true).expect("non-blocking");
        let address = tcp.local_addr().expect("its address");
        let (stop, stopped) = UnixStream::pair().expect("a pair");
        let thread = std::thread::spawn(move || {
            let server = Server::new(Daemon::new(), listener).with_patience(patience);
            server.with_metrics(Entrance::Tcp(tcp)).serve(&stopped).expect("serve");
        });
        Self { dir, address, stop, thread: Some(thread) }
    }
    fn client(&self) -> Client {
        Client::connect(&self.dir.join("all")).expect("connect")
    }
    fn dial(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("connect");
        stream.set_read_timeout(Some(PATIENCE)).expect("a bound");
        stream
    }
    /// Sends a request, and returns the head and the body of the response.
    fn http(&self, request: &str) -> (String, String) {
        let mut stream = self.dial();
        stream.write_all(request.as_bytes()).expect("send");
        response(stream)
    }
    fn page(&self) -> Page {
        let (head, body) = self.http("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(
            head.contains("\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n")
        );
        Page::read(&body)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.stop.write_all(b"x");
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(std::thread::panicking() || ended.is_ok(), "the server panicked");
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Reads a response to its end, and checks its length.
fn response(mut stream: impl Read) -> (String, String) {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("a response");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    assert_eq!(length(head), body.len(), "{head}");
    (head.to_owned() + "\r\n", body.to_owned())
}

/// Returns the length of the body that a head states.
fn length(head: &str) -> usize {
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).expect("a length");
    length.parse().expect("a number")
}

/// A sample: its name with its labels in order.
type Sample = (String, BTreeMap<String, String>);

/// A page as the format defines it: the type of each family, and the samples.
#[derive(Debug, Default)]
struct Page {
    types: BTreeMap<String, String>,
    samples: BTreeMap<Sample, f64>,
}

impl Page {
    /// Reads a page, and checks the rules of the format: one block for each family, with type, unit
    /// and help ahead of the samples; names that fit the type; no sample twice; the end.
    fn read(text: &str) -> Self {
        let mut page = Self::default();
        let body = text.strip_suffix("# EOF\n").expect("the end");
        let (mut family, mut kind) = (String::new(), String::new());
        for line in body.lines() {
            if let Some(rest) = line.strip_prefix("# ") {
                let mut words = rest.splitn(3, ' ');
                let (what, name) = (words.next().expect("a word"), words.next().expect("a name"));
                let rest = words.next().unwrap_or_default();
                match what {
                    "TYPE" => {
                        (family, kind) = (name.to_owned(), rest.to_owned());
                        assert!(["counter", "gauge", "histogram", "info"].contains(&rest), "{line}");
                        let twice = page.types.insert(name.to_owned(), rest.to_owned());
                        assert!(twice.is_none(), "{line}: the family is there already");
                    }
                    "UNIT" => assert!(name == family && name.ends_with(&format!("_{rest}")), "{line}"),
                    "HELP" => {
                        // Samples are in seconds.
                        let is_other = ["anosecond", "icrosecond"].iter().any(|unit| line.contains(unit));
                        assert!(name == family && !rest.is_empty() && !is_other, "{line}");
                    }
                    _ => panic!("{line}"),
                }
                continue;
            }
            let (name, rest) = line.split_once('{').expect("labels");
            let end = match kind.as_str() {
                "counter" => "_total",
                "info" => "_info",
                "histogram" => ["_bucket", "_count", "_sum"]
                    .into_iter()
                    .find(|end| name.ends_with(end))
                    .unwrap_or_else(|| panic!("{line}")),
                _ => "",
            };
            assert_eq!(name, format!("{family}{end}"), "{line}");
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'), "{line}");
            let (labels, value) = labels(rest);
            let value: f64 = value.trim_start().parse().expect("a number");
            assert!(kind == "gauge" || value >= 0.0, "{line}");
            assert!(page.samples.insert((name.to_owned(), labels), value).is_none(), "twice: {line}");
        }
        page
    }

    /// Returns the value of the only sample of this name with these labels, and maybe others.
    fn get(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let all: Vec<f64> = self.of(name, labels);
        assert_eq!(all.len(), 1, "{name} {labels:?}: {all:?}");
        all[0]
    }

    fn of(&self, name: &str, labels: &[(&str, &str)]) -> Vec<f64> {
        let fits = |given: &BTreeMap<String, String>| {
            labels.iter().all(|(key, value)| given.get(*key).is_some_and(|is| is == value))
        };
        self.samples.iter().filter(|((n, l), _)| n == name && fits(l)).map(|(_, v)| *v).collect()
    }

    /// Returns the value of a metric by the words of its name without the unit and `_total`; `None`
    /// if there is none.
    fn of_key(&self, scope: &str, key: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let stem = key.strip_suffix("_us").unwrap_or(key);
        let seconds = [("_seconds", 1e6)];
        let others = [("", 1.0), ("_bytes", 1.0), ("_bytes_per_second", 1.0), ("_ratio", 1.0)];
        let found = others.iter().map(|(unit, one)| (key, unit, one));
        let found = found.chain(seconds.iter().map(|(unit, one)| (stem, unit, one)));
        let found = found.flat_map(|(key, unit, one)| {
            ["", "_total"].map(|end| (format!("txweir_{scope}_{key}{unit}{end}"), *one))
        });
        // `received` and `received_bytes` are two keys: the name without a unit comes first.
        let mut found = found.map(|(name, one)| (self.of(&name, labels), one));
        let (values, one) = found.find(|(values, _)| !values.is_empty())?;
        assert_eq!(values.len(), 1, "{scope} {key} {labels:?}");
        Some(values[0] * one)
    }
}

/// Reads labels behind their brace. Returns them with the rest.
fn labels(text: &str) -> (BTreeMap<String, String>, &str) {
    let mut all = BTreeMap::new();
    let mut rest = text;
    while !rest.starts_with('}') {
        let (name, behind) = rest.trim_start_matches(',').split_once("=\"").expect("a label");
        let (mut value, mut escaped, mut end) = (String::new(), false, None);
        for (at, c) in behind.char_indices() {
            match (escaped, c) {
                (true, 'n') => value.push('\n'),
                (true, c) => value.push(c),
                (false, '\\') => {}
                (false, '"') => {
                    end = Some(at);
                    break;
                }
                (false, c) => value.push(c),
            }
            escaped = !escaped && c == '\\';
        }
        rest = &behind[end.expect("a quote") + 1..];
        assert!(all.insert(name.to_owned(), value).is_none(), "{text}");
    }
    (all, &rest[1..])
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(String::from).collect()
}

/// Performs lines that must succeed, and returns the output of the last.
fn perform(client: &mut Client, lines: &[&str]) -> String {
    let mut out = String::new();
    for line in lines {
        let (command, rest) = line.split_once(' ').expect("two words");
        let ask = match command {
            "link" => Ask::Link { args: words(rest) },
            _ => Ask::Tc { args: words(rest), batch: None, class_names: None },
        };
        let reply = client.ask(&ask).expect("a reply");
        assert_eq!((reply.status, reply.stderr.as_str()), (0, ""), "{line}");
        out = reply.stdout;
    }
    out
}

fn json(client: &mut Client, line: &str) -> Vec<Value> {
    serde_json::from_str(&perform(client, &[line])).expect("JSON")
}

/// Links with qdiscs whose numbers time does not change.
const LINKS: [&str; 22] = [
    "link add lan",
    "tc qdisc replace dev lan root handle 1: prio bands 3",
    "tc qdisc add dev lan parent 1:3 handle 30: tbf rate 64bit burst 1600 limit 3000",
    "tc qdisc add dev lan parent 1:2 handle 20: fq_codel limit 100",
    "link send lan --packets 9 --size 1000 --priority 1:3",
    "link send lan --packets 5 --size 200 --priority 1:2",
    "link add slow --type wire --rate 8bit --queues 2",
    "tc qdisc replace dev slow root handle 9: mq",
    "tc qdisc add dev slow parent 9:1 handle 5: fq",
    "link send slow --packets 40 --size 100 --flows 8",
    "link add shaped --type wire --rate 1mbit",
    "tc qdisc replace dev shaped root handle 1: htb default 10",
    "tc class add dev shaped parent 1: classid 1:1 htb rate 80kbit ceil 160kbit",
    "tc class add dev shaped parent 1:1 classid 1:10 htb rate 8bit ceil 8bit",
    "tc qdisc add dev shaped parent 1:10 handle 10: pie",
    "link send shaped --packets 20 --size 500",
    "link add cake",
    "tc qdisc replace dev cake root handle 1: cake bandwidth 8bit",
    "link send cake --packets 20 --size 1000",
    "link add drr",
    "tc qdisc replace dev drr root handle 1: drr",
    "tc class add dev drr parent 1: classid 1:1 drr quantum 700",
];

/// Numbers that go on with the time: they are there, and are not compared.
const MOVING: [&str; 6] = ["tokens", "ctokens", "deficit", "next_packet_delay", "latency", "delay"];
/// Members that are no counters.
const NO_COUNTERS: [&str; 3] = ["refcnt", "flows_plimit_", "link_layer"];

/// Compares the counters of a JSON object with the page. Returns their number.
fn compare(page: &Page, object: &Value, usual: &str, own: &str, labels: &[(&str, &str)]) -> usize {
    let mut compared = 0;
    for (key, value) in object.as_object().expect("an object") {
        let Some(n) = value.as_f64() else { continue };
        if NO_COUNTERS.contains(&key.as_str()) {
            continue;
        }
        let found = page.of_key(usual, key, labels).or_else(|| page.of_key(own, key, labels));
        let found = found.unwrap_or_else(|| panic!("{key} of {labels:?}"));
        let is_equal = (found - n).abs() <= 1e-9 * n.abs().max(1.0);
        assert!(is_equal || MOVING.contains(&key.as_str()), "{key} of {labels:?}: {n} and {found}");
        compared += 1;
    }
    for (key, name) in [("drop_reasons", "drop_reasons"), ("mark_reasons", "mark_reasons")] {
        for (reason, n) in object[key].as_object().into_iter().flatten() {
            let labels: Vec<(&str, &str)> =
                labels.iter().copied().chain([("reason", reason.as_str())]).collect();
            let found = page.of_key(usual, name, &labels);
            assert_eq!(found, n.as_f64(), "{key} {reason} of {labels:?}");
            compared += 1;
        }
    }
    compared
}

#[test]
fn each_metric_is_what_tc_and_link_show_say() {
    let running = Running::start("metrics-same");
    let mut client = running.client();
    perform(&mut client, &LINKS);
    // Nothing moves once the first packet of "shaped" has left its wire; each next one of a link
    // that is slow takes longer than the test.
    let began = Instant::now();
    while json(&mut client, "link show shaped -j")[0]["packets"] != 1 {
        assert!(began.elapsed() < PATIENCE, "a packet of 4 ms has not left");
        std::thread::sleep(Duration::from_millis(2));
    }
    let page = running.page();
    let mut compared = 0;
    for link in json(&mut client, "link show -j") {
        let name = link["name"].as_str().expect("a name");
        let on = [("link", name)];
        for key in ["submitted", "packets", "bytes", "drops", "lost", "backlog_packets", "backlog_bytes"] {
            let found = page.of_key("link", key, &on);
            assert_eq!(found, link[key].as_f64(), "{name} {key}");
        }
        assert_eq!(page.get("txweir_link_up", &on), 1.0);
        for (stage, shown) in link["delays"].as_object().expect("stages") {
            let of = [("link", name), ("stage", stage.as_str())];
            let all = page.get("txweir_link_delay_seconds_count", &of);
            assert_eq!(Some(all), shown["frames"].as_f64(), "{name} {stage}");
            let below = page.get("txweir_link_delay_seconds_bucket", &[&of[..], &[("le", "+Inf")]].concat());
            assert_eq!(all, below, "{name} {stage}");
        }
        for (scope, key) in [("path", "path"), ("frames", "stats")] {
            for (key, n) in link[key].as_object().expect("counters") {
                let stem = key.strip_suffix("_ns").unwrap_or(key);
                let found = page
                    .of_key(scope, key, &on)
                    .or(page.of_key(scope, &format!("{stem}_us"), &on).map(|us| us * 1e3));
                let moving = ["busy_ns", "late_max_ns"].contains(&key.as_str());
                assert!(found.is_some() && (moving || found == n.as_f64()), "{name} {key}: {found:?} {n}");
                compared += 1;
            }
        }
        for (queue, shown) in link["per_queue"].as_array().into_iter().flatten().enumerate() {
            let queue = queue.to_string();
            compared += compare(&page, shown, "queue", "queue", &[("link", name), ("queue", &queue)]);
            let limit = page.get("txweir_queue_bql_limit_bytes", &[("link", name), ("queue", &queue)]);
            assert_eq!(Some(limit), shown["bql"]["limit"].as_f64());
        }
        if link["per_queue"].is_null() {
            // Queue 0 stands for the path of all queues, with the numbers of the link.
            let of = [("link", name), ("queue", "0")];
            for key in ["backlog_packets", "backlog_bytes"] {
                assert_eq!(page.of_key("queue", key, &of), link[key].as_f64(), "{name} {key}");
            }
            let limit = page.of_key("queue_bql", "limit", &of);
            assert_eq!(limit.is_some(), link["bql"]["limit"].is_number(), "{name}");
        }
        let qdiscs = json(&mut client, &format!("tc -s -j qdisc show dev {name}"));
        for qdisc in &qdiscs {
            let (kind, handle) =
                (qdisc["kind"].as_str().expect("a kind"), qdisc["handle"].as_str().expect("one"));
            let parent = qdisc["parent"].as_str().unwrap_or("root");
            let labels = [("link", name), ("qdisc", handle), ("parent", parent), ("kind", kind)];
            compared += compare(&page, qdisc, "qdisc", kind, &labels);
            let tins = ["Bulk", "Best Effort", "Voice"];
            for (tin, name) in qdisc["tins"].as_array().into_iter().flatten().zip(tins) {
                let labels: Vec<(&str, &str)> = labels.into_iter().chain([("tin", name)]).collect();
                compared += compare(&page, tin, "cake_tin", "cake_tin", &labels);
            }
        }
        let classes = json(&mut client, &format!("tc -s -j class show dev {name}"));
        let flows =
            |class: &&Value| !["fq_codel", "cake"].contains(&class["class"].as_str().expect("a kind"));
        for class in classes.iter().filter(flows) {
            let (kind, id) =
                (class["class"].as_str().expect("a kind"), class["handle"].as_str().expect("one"));
            let labels = [("link", name), ("class", id), ("kind", kind)];
            compared += compare(&page, class, "class", &format!("{kind}_class"), &labels);
        }
        // No object is on the page that is not shown.
        let shown: BTreeSet<&str> = qdiscs.iter().filter_map(|qdisc| qdisc["handle"].as_str()).collect();
        let given =
            page.samples.keys().filter(|(n, l)| n == "txweir_qdisc_packets_total" && l["link"] == name);
        assert_eq!(
            given.map(|(_, labels)| labels["qdisc"].as_str()).collect::<BTreeSet<_>>(),
            shown,
            "{name}"
        );
    }
    assert!(compared > 300, "{compared}");
    // Numbers that the test knows by itself.
    let tbf = [("link", "lan"), ("kind", "tbf")];
    let bytes = |name: &str| page.get(name, &tbf);
    assert_eq!(bytes("txweir_qdisc_bytes_total") + bytes("txweir_qdisc_backlog_bytes"), 4000.0);
    assert_eq!(page.get("txweir_tbf_rate_bytes_per_second", &tbf), 8.0);
    assert_eq!(page.get("txweir_htb_class_ceil_bytes_per_second", &[("class", "1:1")]), 20_000.0);
    assert_eq!(page.get("txweir_link_rate_bytes_per_second", &[("link", "shaped")]), 125_000.0);
    assert_eq!(page.get("txweir_build_info", &[("version", env!("CARGO_PKG_VERSION"))]), 1.0);
}

#[test]
fn counters_never_go_down_under_traffic_and_changes_of_others() {
    let running = Running::start("metrics-up");
    let mut client = running.client();
    perform(&mut client, &LINKS);
    let mut before = running.page();
    for round in 0..6 {
        let other = format!("link add other{round}");
        perform(
            &mut client,
            &[
                "link send lan --packets 30 --size 500 --priority 1:3",
                "link send slow --packets 9 --size 100",
                "tc qdisc change dev lan parent 1:3 handle 30: tbf rate 1mbit burst 1600 limit 3000",
                "tc class change dev shaped parent 1:1 classid 1:10 htb rate 80kbit",
                &other,
            ],
        );
        let page = running.page();
        let mut risen = 0;
        for (sample, n) in &before.samples {
            if ["_total", "_bucket", "_count", "_sum"].iter().any(|end| sample.0.ends_with(end)) {
                let now = page.samples.get(sample).unwrap_or_else(|| panic!("{sample:?} is gone"));
                assert!(now >= n, "{sample:?}: {n} and then {now}");
                risen += usize::from(now > n);
            }
        }
        assert!(risen > 20, "{risen}");
        before = page;
    }
}

#[test]
fn each_metric_of_the_dashboard_exists() {
    let running = Running::start("metrics-dashboard");
    let mut client = running.client();
    perform(&mut client, &LINKS);
    // The counters of an interface come with one: that of a TAP device takes a privilege.
    let page = running.page();
    let mut names: BTreeSet<String> = page.samples.keys().map(|(name, _)| name.clone()).collect();
    names.extend(txweir_device::Counters::TABLE.iter().map(|c| format!("txweir_interface_{}_total", c.key)));
    names.extend(["drop", "mark"].map(|why| format!("txweir_link_{why}_reasons_total")));
    let text = include_str!("../../../../packaging/grafana.json");
    let dashboard: Value = serde_json::from_str(text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut named = BTreeSet::new();
    for target in panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets")) {
        let before = named.len();
        let expression = target["expr"].as_str().expect("an expression");
        for word in expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            if word.starts_with("txweir_") {
                assert!(names.contains(word), "{word}");
                named.insert(word.to_owned());
            }
        }
        assert!(named.len() > before || before > 0, "{expression}");
    }
    assert!(named.len() >= 14 && panels.len() >= 12, "{named:?}");
}

/// Returns a batch of a thousand classes, and as many qdiscs.
fn thousand() -> Ask {
    let class = |i: u32| {
        format!(
            "class add dev big parent 1: classid 1:{i:x} htb rate 1mbit\n\
             qdisc add dev big parent 1:{i:x} handle {:x}: pfifo\n",
            i + 0x100
        )
    };
    let text: String = (1..=1000).map(class).collect();
    let text = format!("link add big\nqdisc replace dev big root handle 1: htb\n{text}");
    let batch = Some(Batch { name: "b".into(), text, lines_before: 0, more: false });
    Ask::Tc { args: words("-b b"), batch, class_names: None }
}

#[test]
fn a_page_is_whole_while_classes_come_and_go() {
    let running = Running::start("metrics-thousand");
    let mut client = running.client();
    assert_eq!(client.ask(&thousand()).expect("a reply").status, 0);
    let page = running.page();
    assert_eq!(page.of("txweir_class_packets_total", &[("link", "big")]).len(), 1000);
    assert_eq!(page.of("txweir_qdisc_packets_total", &[("link", "big")]).len(), 1001);
    // No class is there twice, and none of the thousand that stay is missing.
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = running.client();
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                perform(&mut client, &["tc class add dev big parent 1: classid 1:ffe htb rate 1mbit"]);
                perform(&mut client, &["tc class del dev big classid 1:ffe"]);
            }
        });
        for _ in 0..10 {
            let classes = running.page().of("txweir_class_packets_total", &[("link", "big")]).len();
            assert!([1000, 1001].contains(&classes), "{classes}");
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn anything_but_get_metrics_is_refused() {
    let running = Running::start("metrics-http");
    for (request, status) in [
        ("GET / HTTP/1.1", "404 Not Found"),
        ("GET /metricss HTTP/1.1", "404 Not Found"),
        ("POST /metrics HTTP/1.1", "405 Method Not Allowed"),
        ("HEAD /metrics HTTP/1.1", "405 Method Not Allowed"),
        ("hello", "400 Bad Request"),
    ] {
        let (head, _) = running.http(&format!("{request}\r\nHost: a\r\n\r\n"));
        assert!(head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request}: {head}");
    }
    let (head, _) = running.http(&format!("GET /metrics HTTP/1.1\r\nA: {}", "x".repeat(9000)));
    assert!(head.starts_with("HTTP/1.1 431 "), "{head}");
    // A client that hangs up without a request gets nothing; one that has sent its request and ends
    // its side gets its page.
    let mut stream = running.dial();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("send");
    stream.shutdown(std::net::Shutdown::Write).expect("the end");
    assert!(response(stream).0.starts_with("HTTP/1.1 200 "));
}

#[test]
fn slow_collectors_end_and_others_have_their_turn() {
    let patience = Patience { stalled: Nanos::from_secs(1), ..Patience::default() };
    let running = Running::patient("metrics-slow", patience);
    let mut client = running.client();
    assert_eq!(client.ask(&thousand()).expect("a reply").status, 0);
    // All places are taken: by clients that send nothing, by one that stops in its request, and by
    // those that do not read.
    let mut slow: Vec<TcpStream> = (0..12).map(|_| running.dial()).collect();
    slow[1].write_all(b"GET /met").expect("send");
    for stream in &mut slow[2..] {
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("send");
    }
    // On a busy machine the page of a client that reads may take longer than the second too.
    let until = Instant::now() + 4 * PATIENCE;
    let page = loop {
        assert!(Instant::now() < until, "no page is whole");
        let (mut stream, mut text) = (running.dial(), String::new());
        let asked = stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
        if asked.and_then(|()| stream.read_to_string(&mut text)).is_ok()
            && let Some((head, body)) = text.split_once("\r\n\r\n")
            && length(head) == body.len()
        {
            break Page::read(body);
        }
    };
    assert_eq!(page.of("txweir_class_packets_total", &[("link", "big")]).len(), 1000);
    // Clients of the other socket are not kept out.
    perform(&mut client, &["link add lan"]);
    let mut rest = Vec::new();
    let ended = slow[0].read_to_end(&mut rest);
    assert!(ended.is_err() || rest.is_empty());
}

#[test]
fn a_unix_socket_has_metrics_too() {
    let dir = std::env::temp_dir().join(format!("txw-metrics-unix-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let [all, metrics] = ["all", "metrics"].map(|name| Listener::bind(&dir.join(name)).expect("bind"));
    let (mut stop, stopped) = UnixStream::pair().expect("a pair");
    let thread = std::thread::spawn(move || {
        Server::new(Daemon::new(), all).with_metrics(Entrance::Unix(metrics)).serve(&stopped).expect("serve");
    });
    let mut stream = UnixStream::connect(dir.join("metrics")).expect("connect");
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("send");
    let (head, body) = response(stream);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(Page::read(&body).types.len(), 1);
    stop.write_all(b"x").expect("stop");
    thread.join().expect("the server");
    std::fs::remove_dir_all(dir).expect("removed");
}
