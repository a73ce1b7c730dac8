//! Dumps of this machine's own kernel, by its own tc.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::{configured, differing, made, policies, quoted, read, tc};

/// A network namespace that lives as long as the process in it.
struct Namespace(Child);

impl Namespace {
    /// Returns one with two devices `a` and `b` of four queues, or the reason why there is none.
    fn new() -> Result<Self, String> {
        let mut unshare = Command::new("unshare");
        unshare.args(["-n", "sh", "-c", "echo ready; exec cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = unshare.stderr(Stdio::null()).spawn().map_err(|e| format!("unshare: {e}"))?;
        let mut ready = [0; 6];
        let out = child.stdout.as_mut().map(|out| out.read_exact(&mut ready));
        let namespace = Self(child);
        if !matches!(out, Some(Ok(()))) {
            return Err("unshare -n needs root".into());
        }
        for dev in ["a", "b"] {
            namespace
                .run("ip", &format!("link add name {dev} numtxqueues 4 type veth peer name far-{dev}"))?;
            namespace.run("ip", &format!("link set dev {dev} up"))?;
        }
        Ok(namespace)
    }

    /// Runs a command in it.
    fn run(&self, program: &str, args: &str) -> Result<String, String> {
        let target = self.0.id().to_string();
        let mut inside = Command::new("nsenter");
        inside.args(["-n", "-t", &target, program]).args(quoted(args)).stdin(Stdio::null());
        let done = inside.output().map_err(|e| format!("nsenter: {e}"))?;
        match done.status.success() {
            true => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
            false => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
        }
    }

    /// Removes everything from a device.
    fn clear(&self, dev: &str) {
        for place in ["root", "clsact"] {
            let _ = self.run("tc", &format!("qdisc del dev {dev} {place}"));
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// The real tc and this kernel, as far as it has the kinds: what they print of a policy makes it
/// again.
#[test]
fn this_machine_is_carried_over() {
    let namespace = match Namespace::new() {
        Ok(namespace) => namespace,
        Err(reason) => return println!("skipped: {reason}"),
    };
    let mut carried = 0;
    for (policy, _) in policies() {
        namespace.clear("a");
        let lines = policy.lines();
        if lines.clone().any(|line| namespace.run("tc", line).is_err()) {
            continue;
        }
        let show = |args: &str| namespace.run("tc", args).unwrap_or_default();
        let mut text = String::from("{\"dev\":\"a\"}");
        for what in ["qdisc", "class", "filter"] {
            text.push_str(&show(&format!("-s -d -j {what} show dev a")));
        }
        for end in ["ingress", "egress"].into_iter().filter(|_| policy.contains("clsact")) {
            let list = show(&format!("-s -d -j filter show dev a {end}"));
            text.push_str(&format!("{{\"{end}\":{list}}}"));
        }
        let dump = match read(&text) {
            Ok(dump) => dump,
            // An expression, which this tc prints amid the JSON, or a kind of txweir's own options.
            Err(said) => {
                println!("refused: {said}");
                continue;
            }
        };
        let mut again = made(&["a", "b"], 4, &dump.lines);
        let real: Value = serde_json::from_str(&show("-d -j qdisc show dev a")).expect("JSON");
        let ours = tc(&mut again, "-d -j qdisc show dev a").stdout;
        let ours: Value = serde_json::from_str(&ours).expect("JSON");
        let (ours, real) = (configured(&ours), configured(&real));
        assert!(ours == real, "{}", differing(&format!("{policy}\n{}", dump.lines), &ours, &real));
        carried += 1;
    }
    println!("{carried} policies carried over");
    assert!(carried > 0);
}
