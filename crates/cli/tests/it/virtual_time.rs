//! Live tests in a kernel of their own, in virtual time. Computing takes no time there, so that
//! nothing that they measure hangs on the machine. The kernel is the reference kernel, User-Mode
//! Linux (`oracle/build`); without it the test prints the reason and passes. It needs no privilege.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::common::{Folder, Process, bound, kernel_or_skip};

/// The tests of this binary that run there: whatever they send has its time on a modelled wire, or
/// its number. Time would stand still for a sender that only a clock ends.
const TESTS: [&str; 9] = [
    "daemon::live_links_forward_and_lose_nothing_while_qdiscs_are_replaced",
    "live::a_duration_ends_it",
    "live::a_run_that_was_stopped_goes_on_and_counts_every_frame",
    "live::filters_choose_and_actions_tell",
    "live::intervals_report_every_packet",
    "live::policies_and_packet_sockets_carry_tcp",
    "live::signals_end_it_with_counters_and_success",
    "live::turns_of_flows_keep_a_request_from_waiting_behind_bulk",
    "workers::eight_workers_over_the_queues_of_tap_devices_count_every_frame",
];

/// The one that measures at 200 Mbit/s, which takes a kernel minutes.
const FAST: &str = "live::byte_limits_cut_the_latency_of_requests_beside_bulk_and_keep_its_rate";

/// Longest time of a kernel on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// Boots a kernel for these tests of this binary. Returns their output.
fn tested(kernel: &Path, tests: &[&str]) -> String {
    let folder = Folder::new("virtual");
    let init = folder.script(include_str!("virtual_time/init.sh"));
    let mut command = bound(kernel);
    command.args(["mem=512M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro"]);
    command.args(["time-travel=inf-cpu", "con=null", "con0=null,fd:1"]).arg(format!("init={init}"));
    // Words with a value that the kernel does not know are the environment of process 1.
    command.arg(format!("FOLDER={}", folder.0.display()));
    command.arg(format!("PACKAGE={}", env!("CARGO_MANIFEST_DIR")));
    command.arg(format!("PROGRAM={}", std::env::current_exe().expect("a path").display()));
    command.arg(format!("TESTS=\"{}\"", tests.join(" ")));
    command.env_clear().env("HOME", &folder.0).env("ORACLE_SEED", "1");
    let fixed = kernel.with_file_name("fixed.so");
    if fixed.exists() {
        command.env("LD_PRELOAD", fixed);
    }
    let (_, console, _) = Process::spawn(command.current_dir(&folder.0)).end_within(PATIENCE);
    fs::read_to_string(folder.at("said")).unwrap_or_else(|error| panic!("{error}: {console}"))
}

#[test]
fn live_tests_pass_in_virtual_time_and_say_the_same_twice() {
    let kernel = kernel_or_skip!();
    let mut tests = TESTS.to_vec();
    match std::env::var_os("TXWEIR_ROWS").is_some_and(|rows| rows == "all") {
        true => tests.push(FAST),
        false => println!("{FAST}: skipped, because it takes minutes (TXWEIR_ROWS=all adds it)"),
    }
    let [one, two] = [(); 2].map(|()| tested(&kernel, &tests));
    // Its results are no results of this run.
    one.lines().for_each(|line| println!("| {line}"));
    let passed = format!("test result: ok. {} passed; 0 failed;", tests.len());
    assert!(one.contains(&passed), "{one}");
    // A test that is skipped measures nothing.
    assert!(!one.contains("skipped, because"), "{one}");
    assert!(one == two, "{one}\n{two}");
}
