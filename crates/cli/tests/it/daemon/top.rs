//! `txweir top` beside a daemon: one frame as plain text, a terminal that is given back, and a
//! daemon that goes.

use super::*;

/// A policy that sends a packet in 120 ms, so that some wait for a minute and more.
const POLICY: &str = "\
qdisc replace dev lan root handle 1: htb default 10
class add dev lan parent 1: classid 1:10 htb rate 100kbit
qdisc add dev lan parent 1:10 handle 10: pfifo limit 900
";

fn with_traffic(dir: &Dir) -> Daemon {
    let daemon = Daemon::start(&mut dir.command(&["daemon"]));
    dir.ok("link add lan --type wire --rate 100mbit");
    dir.ok("link add wan --type wire --rate 100mbit");
    dir.file("p.tc", POLICY);
    dir.ok("tc -b p.tc");
    dir.ok("link send lan --packets 1000");
    daemon
}

#[test]
fn one_frame_as_plain_text() {
    let _machine = machine::shared();
    let dir = Dir::new();
    let _daemon = with_traffic(&dir);
    let shown = dir.ok("top --once --interval 500ms --order backlog");
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("txweir top: 2 links by backlog, rates over "), "{shown}");
    assert!(lines[2].starts_with("> lan ") && lines[3].starts_with("  wan "), "{shown}");
    // The shaper has 900 packets for 108 seconds: whenever the daemon is asked, some have left.
    let rate = lines[2].split_whitespace().nth(2).unwrap_or_default();
    assert!(rate.parse::<f64>().is_ok_and(|rate| rate > 0.0), "{shown}");
    assert!(lines.contains(&"drops  overlimit 100") || shown.contains("drops  overlimit 99"), "{shown}");
    let names = ["qdisc htb 1:", " class htb 1:10", "  qdisc pfifo 10:"];
    let rows = &lines[lines.len() - names.len()..];
    assert!(rows.iter().zip(names).all(|(row, name)| row.starts_with(name)), "{shown}");
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    // The other link, and what is none.
    let shown = dir.ok("top --once --interval 100ms --link wan");
    assert!(shown.contains("> wan ") && shown.contains("\nwan: wire, up, line 100 Mbit/s"), "{shown}");
    let (code, out, err) = dir.run(&["top", "--once", "--link", "dmz"]);
    let said = "txweir: --link dmz: the daemon has no such link (links: lan, wan)\n";
    assert_eq!((code, out.as_str(), err.as_str()), (1, "", said));
    let (code, _, err) = dir.run(&["top", "--once", "--interval", "10ms"]);
    let said = "txweir: --interval: expected 100ms to 1h, given 10ms\n";
    assert_eq!((code, err.as_str()), (1, said));
}

#[test]
fn without_a_daemon_it_says_so() {
    let dir = Dir::new();
    let (code, out, err) = dir.run(&["top", "--once"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.starts_with("txweir: ") && err.contains("txweir.sock"), "{err}");
}

/// A terminal that is closed ends it.
#[test]
fn it_ends_when_its_terminal_is_gone() {
    let _machine = machine::shared();
    let dir = Dir::new();
    let _daemon = with_traffic(&dir);
    let number = dir.0.join("number");
    let shell = format!("echo $$ >{}; exec {TXWEIR} top --interval 100ms", number.display());
    let mut command = dir.command_of(Command::new("script"), &["-qec", &shell, "/dev/null"]);
    command.env("TERM", "xterm").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let Ok(mut script) = command.spawn().map(Process) else {
        println!("skipped, because script(1) cannot run");
        return;
    };
    let mut frame = [0; 2048];
    script.0.stdout.as_mut().expect("piped").read_exact(&mut frame).expect("a frame");
    let number = std::fs::read_to_string(number).expect("the number of the process");
    script.0.kill().expect("script(1)");
    script.0.wait().expect("script(1)");
    let running = || {
        let state = std::fs::read_to_string(format!("/proc/{}/stat", number.trim()));
        state.is_ok_and(|state| !state.contains(") Z "))
    };
    let give_up = Instant::now() + PATIENCE;
    while running() {
        assert!(Instant::now() < give_up, "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs `txweir top` on a terminal that script(1) makes. The caller writes keys to its stdin.
fn on_a_terminal(dir: &Dir) -> Option<Process> {
    let shell = format!("stty rows 24 cols 80; {TXWEIR} top --interval 100ms; echo status $?; stty -a");
    let mut command = dir.command_of(Command::new("script"), &["-qec", &shell, "/dev/null"]);
    command.env("TERM", "xterm").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    match command.spawn() {
        Ok(child) => Some(Process(child)),
        Err(e) => {
            println!("skipped, because script(1) cannot run: {e}");
            None
        }
    }
}

/// The terminal is a screen of its own while frames are on it, and as before afterwards, whether a
/// key ends it or the daemon.
#[test]
fn the_terminal_is_given_back() {
    let _machine = machine::shared();
    for by_key in [true, false] {
        let dir = Dir::new();
        let mut daemon = with_traffic(&dir);
        let Some(mut top) = on_a_terminal(&dir) else { return };
        let mut stdout = top.0.stdout.take().expect("piped");
        let (sender, seen) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            let (mut all, mut some) = (Vec::new(), [0; 4096]);
            while let Ok(n @ 1..) = stdout.read(&mut some) {
                all.extend_from_slice(&some[..n]);
                let _ = sender.send(n);
            }
            String::from_utf8_lossy(&all).into_owned()
        });
        // A frame has come.
        seen.recv_timeout(PATIENCE).expect("a frame");
        let mut stdin = top.0.stdin.take().expect("piped");
        match by_key {
            true => stdin.write_all(b"jsq").expect("keys"),
            false => {
                daemon.signal(Signal::TERM);
                daemon.ended();
            }
        }
        let give_up = Instant::now() + PATIENCE;
        while top.0.try_wait().expect("wait").is_none() {
            assert!(Instant::now() < give_up, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(stdin);
        let all = reader.join().expect("its output");
        let (enter, leave) = (all.find("\u{1b}[?1049h"), all.find("\u{1b}[?1049l"));
        assert!(enter.is_some() && enter < leave, "{all:?}");
        let after = &all[leave.unwrap_or(0)..];
        let cooked = ["icanon", "echo", "isig"];
        let is_cooked = cooked.iter().all(|word| after.split_whitespace().any(|other| other == *word));
        assert!(after.contains("\u{1b}[?25h") && is_cooked, "{after:?}");
        match by_key {
            true => assert!(after.contains("status 0\r\n"), "{after:?}"),
            false => assert!(
                after.contains("status 1\r\n") && after.contains("txweir: no answer from the daemon at "),
                "{after:?}"
            ),
        }
    }
}
