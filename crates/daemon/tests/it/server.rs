//! The server over its socket, in real time: many clients at once, and clients that misbehave.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use txweir_core::Nanos;
use txweir_daemon::client::REPLY_MAX;
use txweir_daemon::protocol::{Ask, Batch, LINE_MAX};
use txweir_daemon::{Client, Daemon, Listener, Patience, Server};

/// A time longer than any single step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server on a thread of its own, ended with the test.
struct Running {
    dir: PathBuf,
    path: PathBuf,
    stop: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start() -> Self {
        Self::after(Patience::default(), |_| {})
    }

    /// Starts a server with this patience. `before` runs while the socket is there, and the server
    /// does not serve yet.
    fn after(patience: Patience, before: impl FnOnce(&Path)) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("txw-srv-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&dir).expect("a directory");
        let path = dir.join("s");
        let listener = Listener::bind(&path).expect("bind");
        before(&path);
        let (stop, stopped) = UnixStream::pair().expect("a pair");
        let thread = std::thread::spawn(move || {
            let mut server = Server::new(Daemon::new(), listener).with_patience(patience);
            server.serve(&stopped).expect("serve");
        });
        Self { dir, path, stop, thread: Some(thread) }
    }

    fn connect(&self) -> Wire {
        Wire::connect(&self.path)
    }
    fn client(&self) -> Client {
        Client::connect(&self.path).expect("connect")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.stop.write_all(b"x");
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(std::thread::panicking() || ended.is_ok(), "the server panicked");
        }
        assert!(std::thread::panicking() || !self.path.exists(), "the socket is left behind");
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// A raw connection.
struct Wire(BufReader<UnixStream>);

impl Wire {
    fn connect(path: &Path) -> Self {
        let stream = UnixStream::connect(path).expect("connect");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        Self(BufReader::new(stream))
    }
    fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).expect("write");
    }
    fn reply(&mut self) -> Value {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a reply in time");
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line:?}: {e}"))
    }
    fn ask(&mut self, line: &str) -> Value {
        self.send(format!("{line}\n").as_bytes());
        self.reply()
    }
    fn is_closed(&mut self) -> bool {
        matches!(self.0.read(&mut [0; 64]), Ok(0) | Err(_))
    }
}

fn link(words: &str) -> Ask {
    Ask::Link { args: words.split_whitespace().map(String::from).collect() }
}

#[test]
fn requests_are_answered_in_order_however_they_are_cut() {
    let server = Running::start();
    let mut wire = server.connect();
    let version = wire.ask(r#"{"id":"v","do":"version"}"#);
    let stdout = format!("txweir {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(version, json!({"id": "v", "status": 0, "stdout": stdout, "stderr": ""}));
    // The client sends five hundred requests at once, and then one request byte by byte.
    let many: String =
        (0..500).map(|i| format!("{{\"id\":{i},\"do\":\"link\",\"args\":[\"add\",\"l{i}\"]}}\n")).collect();
    let mut writer = wire.0.get_ref().try_clone().expect("clone");
    let writing = std::thread::spawn(move || writer.write_all(many.as_bytes()));
    for i in 0..500 {
        assert_eq!(wire.reply(), json!({"id": i, "status": 0, "stdout": "", "stderr": ""}));
    }
    writing.join().expect("the writer").expect("write");
    for byte in b"{\"do\":\"save\"}\n" {
        wire.send(&[*byte]);
    }
    assert_eq!(wire.reply()["stdout"].as_str().expect("text").lines().count(), 500);
}

#[test]
fn what_is_wrong_is_said_and_the_next_request_is_done() {
    let server = Running::start();
    let mut wire = server.connect();
    for (line, error) in [
        ("{", "request: expected JSON: EOF while parsing an object at line 1 column 1\n"),
        ("\u{1}\u{2}", "request: expected JSON: expected value at line 1 column 1\n"),
        ("", "request: expected JSON: EOF while parsing a value at line 1 column 0\n"),
        (r#"{"do":"fly"}"#, "do: expected \"tc\", \"link\", \"save\" or \"version\", given \"fly\"\n"),
        (r#"{"do":"link","args":[1]}"#, "args[0]: expected a text, given 1\n"),
    ] {
        let expected = json!({"id": null, "status": 1, "stdout": "", "stderr": error});
        assert_eq!(wire.ask(line), expected);
    }
    wire.send(b"\xff\xfe\xfd\n");
    assert_eq!(wire.reply()["status"], 1);
    // A line of ten megabytes causes one error, and the connection goes on.
    wire.send(&vec![b'x'; 10 << 20]);
    wire.send(b"\n");
    let error = format!("request: expected at most {LINE_MAX} bytes in a line, given more\n");
    assert_eq!(wire.reply(), json!({"id": null, "status": 1, "stdout": "", "stderr": error}));
    assert_eq!(wire.ask(r#"{"id":1,"do":"save"}"#)["status"], 0);
}

/// Returns a part of a batch as a request.
fn part(id: u32, name: &str, text: &str, more: bool) -> String {
    let batch = json!({"name": name, "text": text, "lines_before": 0, "more": more});
    json!({"id": id, "do": "tc", "args": ["--atomic", "-b", name], "batch": batch}).to_string()
}

/// A batch in parts is done with its last part, and not at all if that does not come.
#[test]
fn a_batch_in_parts_is_done_whole_or_not_at_all() {
    let server = Running::start();
    let mut wire = server.connect();
    wire.ask(r#"{"do":"link","args":["add","lan"]}"#);
    let saved = |wire: &mut Wire| wire.ask(r#"{"do":"save"}"#)["stdout"].as_str().expect("text").to_owned();
    let (first, second) =
        ("qdisc replace dev lan root handle 1: prio\n# \u{e9}", "\nqdisc add dev lan parent 1:1 ");
    // The client ends after two of three parts.
    let mut other = server.connect();
    assert_eq!(other.ask(&part(1, "b", first, true))["status"], 0);
    assert_eq!(other.ask(&part(2, "b", second, true))["status"], 0);
    drop(other);
    assert!(!saved(&mut wire).contains("prio"));
    // Parts of two clients do not mix, and a part may end anywhere.
    let mut other = server.connect();
    assert_eq!(wire.ask(&part(1, "b", first, true))["status"], 0);
    assert_eq!(other.ask(&part(1, "b", "qdisc add dev lan root handle 9: pfifo\n", false))["status"], 0);
    assert_eq!(wire.ask(&part(2, "b", second, true))["status"], 0);
    let done = wire.ask(&part(3, "b", "handle 5: pfifo limit 5\n", false));
    assert_eq!(done, json!({"id": 3, "status": 0, "stdout": "", "stderr": ""}));
    assert!(saved(&mut wire).contains("parent 1:1 handle 5: pfifo limit 5p"));
    // A wrong line undoes all parts; its number counts from the first part.
    wire.ask(&part(4, "b", "qdisc replace dev lan root handle 7: pfifo\n", true));
    let refused = wire.ask(&part(5, "b", "qdisc add dev lan root nothing\n", false));
    assert!(refused["stderr"].as_str().expect("text").contains("Command failed b:2\n"), "{refused}");
    assert!(saved(&mut wire).contains("handle 5: pfifo limit 5p"));
    // Another batch, and any other request, forgets the parts.
    wire.ask(&part(6, "b", "qdisc replace dev lan root handle 7: pfifo\n", true));
    assert_eq!(wire.ask(&part(7, "c", "# nothing\n", false))["status"], 0);
    wire.ask(&part(8, "b", "qdisc replace dev lan root handle 7: pfifo\n", true));
    saved(&mut wire);
    assert_eq!(wire.ask(&part(9, "b", "# nothing\n", false))["status"], 0);
    assert!(!saved(&mut wire).contains("handle 7:"));
    // The bound is that of all parts.
    let long = "#".repeat(900_000);
    let replies: Vec<Value> = (0..19).map(|n| wire.ask(&part(n, "b", &long, true))).collect();
    assert!(replies[..18].iter().all(|reply| reply["status"] == 0));
    let error = "batch: expected at most 16777216 bytes in all of its parts, given more\n";
    assert_eq!(replies[18], json!({"id": 18, "status": 1, "stdout": "", "stderr": error}));
}

#[test]
fn the_largest_request_is_taken() {
    let server = Running::start();
    let mut wire = server.connect();
    let frame = r#"{"id":1,"do":"link","args":["show",""]}"#;
    let word = "x".repeat(LINE_MAX - frame.len());
    let line = frame.replace("\"\"", &format!("\"{word}\""));
    assert_eq!(line.len(), LINE_MAX);
    let reply = wire.ask(&line);
    assert_eq!((&reply["id"], &reply["status"]), (&json!(1), &json!(1)));
    assert_eq!(wire.ask(&format!("{line} "))["id"], Value::Null);
}

#[test]
fn half_a_request_changes_nothing() {
    let server = Running::start();
    let mut wire = server.connect();
    wire.send(br#"{"do":"link","args":["add","half"]}"#);
    drop(wire);
    assert_eq!(server.client().ask(&Ask::Save).expect("a reply").stdout, "");
    // A client that shuts down its side after whole requests still gets its replies.
    let mut wire = server.connect();
    wire.send(b"{\"id\":1,\"do\":\"save\"}\n{\"id\":2,\"do\":\"save\"}\n{\"id\":3");
    wire.0.get_ref().shutdown(std::net::Shutdown::Write).expect("shut down");
    assert_eq!((wire.reply()["id"].clone(), wire.reply()["id"].clone()), (json!(1), json!(2)));
    assert!(wire.is_closed());
}

#[test]
fn many_clients_at_once_are_served_and_none_loses_its_change() {
    let server = Running::start();
    std::thread::scope(|scope| {
        for n in 0..16 {
            let mut client = server.client();
            scope.spawn(move || {
                for i in 0..20 {
                    let reply = client.ask(&link(&format!("add c{n}-{i}"))).expect("a reply");
                    assert_eq!((reply.status, reply.stderr.as_str()), (0, ""));
                    assert_eq!(client.ask(&link("show -j")).expect("a reply").status, 0);
                }
            });
        }
    });
    let saved = server.client().ask(&Ask::Save).expect("a reply").stdout;
    assert_eq!(saved.lines().count(), 16 * 20);
}

#[test]
fn hostile_clients_delay_nobody() {
    // The server never gives up any of the others: waiting for one of them would have no end.
    let server = Running::after(Patience { idle: NEVER, stalled: NEVER }, |_| {});
    let mut client = server.connect();
    for i in 0..200 {
        assert_eq!(client.ask(&format!(r#"{{"do":"link","args":["add","link{i}"]}}"#))["status"], 0);
    }
    // The other clients stay silent, stop in the middle of a line, never read, or disappear.
    let silent: Vec<_> = (0..10).map(|_| server.connect()).collect();
    let mut halves: Vec<_> = (0..10).map(|_| server.connect()).collect();
    halves.iter_mut().for_each(|wire| wire.send(b"{\"do\":"));
    let deaf: Vec<_> = (0..10)
        .map(|_| {
            let wire = server.connect();
            wire.0.get_ref().set_nonblocking(true).expect("non-blocking");
            let ask = b"{\"do\":\"link\",\"args\":[\"show\",\"-j\"]}\n".repeat(2000);
            let _ = wire.0.get_ref().write(&ask);
            wire
        })
        .collect();
    for _ in 0..10 {
        let mut wire = server.connect();
        wire.send(&b"{\"do\":\"link\",\"args\":[\"show\"]}\n".repeat(10));
        drop(wire);
    }
    for _ in 0..50 {
        assert_eq!(client.ask(r#"{"do":"version"}"#)["status"], 0);
    }
    drop((silent, halves, deaf));
    assert_eq!(client.ask(r#"{"do":"version"}"#)["status"], 0);
}

/// A time that no test reaches, and no time at all.
const NEVER: Nanos = Nanos::from_secs(86_400);
const NOW: Nanos = Nanos::ZERO;

/// Most clients of a server.
const CLIENTS: usize = 64;

/// A client has sent its request before the server looks; more connections than places come after
/// it, and all of them would have to make way for others at once.
#[test]
fn a_client_that_waits_for_its_answer_does_not_make_way() {
    let mut asked = Vec::new();
    let mut later = Vec::new();
    let _server = Running::after(Patience { idle: NOW, stalled: NOW }, |path| {
        asked.extend((0..3).map(|_| Wire::connect(path)));
        asked.iter_mut().for_each(|wire| wire.send(b"{\"id\":7,\"do\":\"version\"}\n"));
        later.extend((0..CLIENTS + 20).map(|_| Wire::connect(path)));
    });
    for wire in &mut asked {
        assert_eq!(wire.reply()["id"], 7);
    }
    // One of the clients that had to go got a line that says why.
    let line = later[0].reply();
    let said = "connection: expected a request or the reading of a reply, given nothing for some time while all \
                places are taken: it makes way for another client\n";
    assert_eq!(line, json!({"id": null, "status": 2, "stdout": "", "stderr": said}));
}

/// Every place is taken by a client in the middle of a request: one more client waits for a place,
/// and none loses its request.
#[test]
fn a_client_too_many_waits_for_a_place() {
    let server = Running::after(Patience { idle: NOW, stalled: NEVER }, |_| {});
    let mut halves: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    halves.iter_mut().for_each(|wire| wire.send(b"{\"id\":1,\"do\":"));
    let mut late = server.connect();
    late.send(b"{\"id\":2,\"do\":\"version\"}\n");
    // The server answers none of the requests before it is whole.
    for wire in &mut halves {
        wire.send(b"\"version\"}\n");
        assert_eq!(wire.reply()["id"], 1);
    }
    assert_eq!(late.reply()["id"], 2);
}

#[test]
fn a_client_that_stops_in_the_middle_of_a_request_makes_way_in_the_end() {
    let server = Running::after(Patience { idle: NEVER, stalled: NOW }, |_| {});
    let mut halves: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    halves.iter_mut().for_each(|wire| wire.send(b"{"));
    let mut late = server.connect();
    assert_eq!(late.ask(r#"{"do":"version"}"#)["status"], 0);
}

#[test]
fn a_reply_without_an_end_is_not_read_for_ever() {
    let (ours, theirs) = ("txw-endless", std::process::id());
    let path = std::env::temp_dir().join(format!("{ours}-{theirs}"));
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("bind");
    let endless = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("accept");
        let bite = vec![b'x'; 1 << 20];
        let mut sent = 0;
        while stream.write_all(&bite).is_ok() {
            sent += bite.len();
        }
        sent
    });
    let mut client = Client::connect(&path).expect("connect");
    let said = client.ask(&Ask::Version).expect_err("no reply").to_string();
    drop(client);
    std::fs::remove_file(&path).expect("remove");
    let end = format!("what came is no reply: it has more than {REPLY_MAX} bytes");
    assert!(said.ends_with(&end), "{said}");
    assert!(endless.join().expect("the sender") < REPLY_MAX + (16 << 20));
}

#[test]
fn one_client_too_many_makes_the_most_silent_go() {
    // Every client would have to make way, and only one does.
    let server = Running::after(Patience { idle: NOW, stalled: NOW }, |_| {});
    let mut all: Vec<_> = (0..64).map(|_| server.connect()).collect();
    for wire in all.iter_mut().skip(1) {
        assert_eq!(wire.ask(r#"{"do":"version"}"#)["status"], 0);
    }
    let mut late = server.connect();
    assert_eq!(late.ask(r#"{"do":"version"}"#)["status"], 0);
    assert_eq!((all[0].reply()["id"].clone(), all[0].is_closed()), (Value::Null, true));
    assert_eq!(all[1].ask(r#"{"do":"version"}"#)["status"], 0);
}

fn tc(words: &str, text: Option<&str>) -> Ask {
    let batch = text.map(|text| Batch { name: "p.tc".into(), text: text.into(), ..Batch::default() });
    Ask::Tc { args: words.split_whitespace().map(String::from).collect(), batch, class_names: None }
}

#[test]
fn traffic_goes_on_under_reconfiguration_and_every_packet_is_counted() {
    const PLANS: [&str; 4] = [
        "qdisc replace dev up root handle 1: prio\nqdisc replace dev up parent 1:2 handle 20: fq_codel limit 4000 target 9s\n",
        "qdisc replace dev up root handle 2: fq_codel limit 4000 target 9s\n",
        "qdisc replace dev up root handle 3: tbf rate 80mbit burst 20kb limit 10mb\n\
         qdisc replace dev up parent 3:1 handle 30: pfifo limit 4000\n",
        "qdisc replace dev up root handle 4: pfifo limit 4000\n",
    ];
    let server = Running::start();
    let mut client = server.client();
    let mut ask = |ask: Ask| {
        let reply = client.ask(&ask).expect("a reply");
        assert_eq!((reply.status, reply.stderr.as_str()), (0, ""), "{ask:?}");
        reply.stdout
    };
    ask(link("add up --type wire --rate 100mbit"));
    ask(tc("qdisc add dev up root pfifo limit 4000", None));
    let mut submitted = 0;
    let mut waited = 0;
    for round in 0..40 {
        ask(link("send up --packets 100 --flows 4 --size 1000"));
        submitted += 100;
        // The wire takes a hundred packets in 70 ms or more: they wait on a slow machine too.
        ask(link(&format!("set up --rate {}mbit --txqueuelen {}", 5 + round % 7, 100 + round)));
        ask(tc("-b p.tc --atomic", Some(PLANS[round % PLANS.len()])));
        let shown: Value = serde_json::from_str(&ask(link("show up -j"))).expect("JSON");
        waited = waited.max(shown[0]["backlog_packets"].as_u64().expect("a number"));
    }
    assert!(waited > 500, "packets waited while the tree was swapped: {waited}");
    ask(link("set up --rate 1gbit"));
    let deadline = Instant::now() + PATIENCE;
    loop {
        let shown: Value = serde_json::from_str(&ask(link("show up -j"))).expect("JSON");
        let count = |key: &str| shown[0][key].as_u64().expect("a number");
        assert_eq!((count("submitted"), count("drops")), (submitted, 0));
        let counted = count("packets") + count("backlog_packets");
        assert!(counted <= submitted && counted + count("inflight_bytes") / 1000 >= submitted, "{shown}");
        if count("backlog_packets") + count("inflight_bytes") == 0 {
            assert_eq!(counted, submitted);
            break;
        }
        assert!(Instant::now() < deadline, "the wire stands still: {shown}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_batch_that_fails_leaves_everything_as_it_was() {
    let server = Running::start();
    let mut client = server.client();
    assert_eq!(client.ask(&link("add up --type wire --rate 1mbit")).expect("a reply").status, 0);
    assert_eq!(client.ask(&link("send up --packets 100")).expect("a reply").status, 0);
    let before = client.ask(&Ask::Save).expect("a reply").stdout;
    let text = "qdisc replace dev up root handle 1: prio\nqdisc replace dev up parent 9:1 pfifo\n";
    let reply = client.ask(&tc("-b p.tc --atomic", Some(text))).expect("a reply");
    assert_eq!((reply.status, client.ask(&Ask::Save).expect("a reply").stdout), (1, before));
    assert!(reply.stderr.contains("p.tc:2"), "{}", reply.stderr);
}
