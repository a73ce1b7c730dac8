//! Programs that try to hang their supervisor, to kill it, or to make it touch what is not theirs.

use std::process::Stdio;
use std::time::{Duration, Instant};

use super::super::{Daemon, Dir, told};
use super::{missing, skip_without};
use crate::common::machine;

/// A time longer than any of them takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);
const PROGRAMS: &str = include_str!("hostile.py");

/// Runs the program of this name, which has to come to its end.
fn run(name: &str) {
    let dir = Dir::new();
    let _daemon = Daemon::start(&mut dir.command(&["daemon", "--netlink"]));
    dir.ok("link add lan");
    dir.file("hostile.py", PROGRAMS);
    let mut command = dir.command(&["as-kernel", "--", "python3", "hostile.py", name]);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start the supervisor");
    let give_up = Instant::now() + PATIENCE;
    while child.try_wait().expect("wait").is_none() {
        if Instant::now() > give_up {
            // The kernel ends the calls of a program whose supervisor is gone.
            let _ = child.kill();
            panic!(
                "{name}: the supervisor does not come to its end: {:?}",
                told(&child.wait_with_output().expect("output"))
            );
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let (code, out, err) = told(&child.wait_with_output().expect("output"));
    assert_eq!((code, out.lines().last(), err.as_str()), (0, Some("good"), ""), "{name}: {out}");
    // The daemon serves as before.
    assert!(dir.ok("link show").contains("lan"));
}

macro_rules! programs {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                let _machine = machine::shared();
                skip_without!("python3");
                run(stringify!($name));
            }
        )*
    };
}

programs! {
    threads_that_die
    descriptors_that_change
    messages_of_others
    descriptors_that_travel
    memory_that_goes
    pointers_that_are_wrong
    memory_that_never_comes
    replies_that_nobody_takes
    receptions_without_end
    signals_that_interrupt
    signals_in_a_reception
    numbers_that_come_again
}
