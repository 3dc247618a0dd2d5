//! Tests in a real kernel with several memory nodes. `make test-tier` boots a virtual machine whose first process is
//! this program; it runs each scenario in a process of its own and writes what came of it to the console.

mod balance;
mod commands;
mod moving;
mod watching;
mod workload;

use std::fs;
use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, reboot};

/// A scenario that takes longer has failed; under emulation on a busy machine each takes a few seconds.
const SCENARIO_MAX: Duration = Duration::from_secs(150);

type Scenario = (&'static str, fn());

const TWO_NODES: [Scenario; 13] = [
    ("the_nodes_are_tiers_nearest_first", watching::nodes_are_tiers),
    ("the_tracker_finds_the_hot_part", watching::tracker_finds_the_hot_part),
    ("an_idle_process_is_watched_again", watching::idle_process_is_watched_again),
    ("the_probe_measures_each_node", watching::probe_measures_each_node),
    ("huge_pages_move_whole", moving::huge_pages_move_whole),
    ("base_pages_move_in_short_calls", moving::base_pages_move_in_short_calls),
    ("a_process_that_forks_unmaps_and_exits_is_unharmed", moving::process_is_unharmed),
    ("a_pool_is_bound_to_a_node", moving::pool_is_bound_to_a_node),
    ("the_share_follows_the_latencies", balance::share_follows_the_latencies),
    ("published_policies_harm_nothing", balance::published_policies_harm_nothing),
    ("damon_is_off_after_kill_9", commands::damon_is_off_after_kill_9),
    ("bad_calls_are_told", commands::bad_calls_are_told),
    ("a_program_keeps_its_exit_code", commands::program_keeps_its_exit_code),
];

const THREE_NODES: [Scenario; 2] = [
    ("three_tiers_are_balanced", balance::three_tiers_are_balanced),
    ("policies_for_two_tiers_say_so", commands::policies_for_two_tiers_say_so),
];

/// Node 1 is plugged in, which lets it go offline.
const PLUGGED_NODE: [Scenario; 1] =
    [("nodes_that_go_offline_are_told", commands::nodes_that_go_offline_are_told)];

/// For `make bench B=tier-daemon`: nothing is asserted.
const COST: [Scenario; 1] = [("what_watching_an_idle_map_costs", watching::cost_of_an_idle_map)];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
    match words[..] {
        ["workload", ref options @ ..] => workload::run(options),
        ["scenario", name] => {
            let all = TWO_NODES.iter().chain(&THREE_NODES).chain(&PLUGGED_NODE).chain(&COST);
            let (_, scenario) =
                all.clone().find(|(known, _)| *known == name).expect("a scenario of this name");
            scenario();
        }
        _ if std::process::id() == 1 => boot(),
        _ => eprintln!("SKIPPED guest: its scenarios run in a virtual machine, by `make test-tier`"),
    }
}

fn boot() {
    for directory in ["/proc", "/sys", "/dev", "/tmp"] {
        fs::create_dir_all(directory).expect("a directory");
    }
    for (kind, place) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/tmp")] {
        mount(kind, place, kind, MountFlags::empty(), None).expect("a mount");
    }
    let line = fs::read_to_string("/proc/cmdline").expect("the kernel's arguments");
    let chosen = line.split_whitespace().find_map(|word| word.strip_prefix("warmset.scenarios="));
    let scenarios: &[Scenario] = match chosen {
        Some("three") => &THREE_NODES,
        Some("plugged") => &PLUGGED_NODE,
        Some("cost") => &COST,
        _ => &TWO_NODES,
    };
    let only = line.split_whitespace().find_map(|word| word.strip_prefix("warmset.only="));
    for (name, _) in scenarios.iter().filter(|(name, _)| only.is_none_or(|only| only == *name)) {
        let begin = Instant::now();
        let outcome = run(name);
        console(&format!("guest: {name} {outcome} {:.1} s", begin.elapsed().as_secs_f64()));
    }
    console("guest: done");
    rustix::fs::sync();
    let _ = reboot(RebootCommand::PowerOff);
}

fn run(name: &str) -> &'static str {
    let mut child = Command::new("/init").args(["scenario", name]).spawn().expect("a process");
    let begin = Instant::now();
    loop {
        match child.try_wait().expect("its state") {
            Some(status) => return if status.success() { "ok" } else { "FAILED" },
            None if begin.elapsed() > SCENARIO_MAX => {
                let _ = child.kill();
                return "FAILED: too slow";
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn console(line: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("a console");
}

/// Asks again and again until there is an answer.
pub fn eventually<T>(what: &str, patience: Duration, mut ask: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(begin.elapsed() < patience, "{what}: not within {patience:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
