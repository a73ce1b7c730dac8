//! The socket for readers: every request of the protocol, by the names that it declares.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Duration;

use txweir_core::Nanos;
use txweir_daemon::protocol::{Ask, Batch, REQUESTS};
use txweir_daemon::socket::own_group;
use txweir_daemon::{Client, Daemon, Listener, Patience, Server};
use txweir_tc::command::VERBS;

/// A server with two sockets, ended with the test.
struct Running {
    dir: PathBuf,
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
        let [all, readers] = ["all", "readers"].map(|name| Listener::bind(&dir.join(name)).expect("bind"));
        let readers = readers.open_to(own_group()).expect("its group");
        let (stop, stopped) = UnixStream::pair().expect("a pair");
        let thread = std::thread::spawn(move || {
            let mut server = Server::new(Daemon::new(), all).with_readers(readers).with_patience(patience);
            server.serve(&stopped).expect("serve");
        });
        Self { dir, stop, thread: Some(thread) }
    }
    fn client(&self, socket: &str) -> Client {
        Client::connect(&self.dir.join(socket)).expect("connect")
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

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(String::from).collect()
}

fn tc(line: &str) -> Ask {
    Ask::Tc { args: words(line), batch: None, class_names: None }
}

/// Returns the lines of `tc` and `link` for each verb that is declared, and whether a reader may
/// have it.
fn every_request(help: &str) -> Vec<(Ask, bool)> {
    let mut all = Vec::new();
    for request in REQUESTS {
        match request {
            "save" => all.push((Ask::Save, true)),
            "version" => all.push((Ask::Version, true)),
            "tc" => {
                for (object, verbs) in VERBS {
                    for (verb, _) in verbs {
                        let may = ["show", "list", "get"].contains(verb);
                        all.push((tc(&format!("{object} {verb} dev lan")), may));
                        all.push((tc(&format!("--dry-run {object} {verb} dev lan")), may));
                    }
                }
                let text = "qdisc show\n".to_owned();
                for flags in ["-b b", "--dry-run -b b", "--atomic -b b"] {
                    let batch =
                        Some(Batch { name: "b".into(), text: text.clone(), lines_before: 0, more: false });
                    all.push((Ask::Tc { args: words(flags), batch, class_names: None }, false));
                }
            }
            "link" => {
                let verbs = help.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1);
                for verb in verbs.map_while(|line| line.split_whitespace().next()) {
                    all.push((Ask::Link { args: words(&format!("{verb} lan")) }, verb == "show"));
                }
            }
            other => panic!("{other}: say here if readers may make this request"),
        }
    }
    all
}

#[test]
fn a_reader_may_look_at_everything_and_change_nothing() {
    let server = Running::start("readers");
    let (mut writer, mut reader) = (server.client("all"), server.client("readers"));
    for ask in [Ask::Link { args: words("add lan") }, tc("qdisc add dev lan root handle 1: prio")] {
        assert_eq!(writer.ask(&ask).expect("a reply").stderr, "");
    }
    let before = writer.ask(&Ask::Save).expect("a reply");
    let help = reader.ask(&Ask::Link { args: words("--help") }).expect("a reply");
    assert_eq!(help.status, 0);
    let all = every_request(&help.stdout);
    // 33 verbs of tc twice, three batches, six verbs of link, and two requests without words.
    assert_eq!((all.len(), all.iter().filter(|(_, may)| *may).count()), (77, 29));
    let path = server.dir.join("readers");
    for (ask, may) in all {
        let reply = reader.ask(&ask).expect("a reply");
        let refusal = format!("refused: the socket {} is read-only: expected", path.display());
        assert_eq!(reply.stderr.contains(&refusal), !may, "{ask:?}: {}", reply.stderr);
        assert!(may || (reply.status == 2 && reply.stdout.is_empty()), "{ask:?}");
    }
    assert_eq!(
        writer.ask(&Ask::Save).expect("a reply"),
        txweir_daemon::protocol::Reply { id: 4.into(), ..before }
    );
    let shown = reader.ask(&tc("-s qdisc show dev lan")).expect("a reply");
    assert!(shown.status == 0 && shown.stdout.starts_with("qdisc prio 1: root"), "{}", shown.stdout);
}

/// Readers that stay connected and busy take no place of a client that may change something.
#[test]
fn readers_have_places_of_their_own() {
    // No client makes way for another one.
    let forever = Nanos::from_secs(3600);
    let server = Running::patient("places", Patience { idle: forever, stalled: forever });
    let connect = |socket: &str, text: &[u8]| {
        let mut stream = UnixStream::connect(server.dir.join(socket)).expect("connect");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        stream.write_all(text).expect("write");
        BufReader::new(stream)
    };
    let version = b"{\"do\":\"version\"}\n";
    let reply = |client: &mut BufReader<UnixStream>| {
        let mut line = String::new();
        client.read_line(&mut line).map(|_| line.contains("\"status\":0")).unwrap_or(false)
    };
    let mut readers: Vec<_> = (0..100).map(|_| connect("readers", version)).collect();
    assert!(readers[..32].iter_mut().all(reply));
    let mut writers: Vec<_> = (0..64).map(|_| connect("all", version)).collect();
    assert!(writers.iter_mut().all(reply));
    // The first of the others waits for a place, and gets it.
    drop(readers.swap_remove(0));
    assert!(reply(&mut readers[32]));
}

#[test]
fn the_socket_for_readers_is_for_a_group_and_the_other_for_its_owner() {
    let server = Running::start("modes");
    let seen = ["all", "readers"].map(|name| {
        let there = std::fs::metadata(server.dir.join(name)).expect("the socket");
        (there.permissions().mode() & 0o777, there.gid())
    });
    let own = own_group().as_raw();
    assert_eq!(seen[0].0, 0o600);
    assert_eq!(seen[1], (0o660, own));
}
