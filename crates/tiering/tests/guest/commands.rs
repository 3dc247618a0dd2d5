//! `warmset tier` itself.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::eventually;
use crate::watching::kdamond_state;
use crate::workload::Workload;

const WARMSET: &str = "/bin/warmset";
const SCRIPT: &str = "/tmp/latency";
const PATIENCE: Duration = Duration::from_secs(60);

fn script() {
    fs::write(SCRIPT, r#"[{"base_ns": 100}, {"base_ns": 200}]"#).expect("a script");
}

fn tier(arguments: &[&str]) -> Output {
    Command::new(WARMSET).arg("tier").args(arguments).output().expect("warmset")
}

/// One that goes on until it is ended.
fn start_daemon(pid: &str, errors: Stdio) -> Child {
    Command::new(WARMSET)
        .args(["tier", "--pid", pid, "--latency", "scripted", "--script", SCRIPT, "--json"])
        .stdout(Stdio::null())
        .stderr(errors)
        .spawn()
        .expect("warmset")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn damon_is_off_after_kill_9() {
    script();
    let mut workload = Workload::start(16, 4, true);
    let pid = workload.pid().to_string();
    let mut daemon = start_daemon(&pid, Stdio::inherit());
    eventually("DAMON is on", PATIENCE, || (kdamond_state() == "on").then_some(()));
    // A second one is told that DAMON is taken.
    let output = tier(&["--pid", &pid, "--latency", "scripted", "--script", SCRIPT]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("DAMON is on already"), "{}", said(&output));
    assert!(daemon.try_wait().expect("its state").is_none(), "the first one goes on");
    assert_eq!(kdamond_state(), "on", "the first one goes on");
    daemon.kill().expect("kill -9");
    daemon.wait().expect("its end");
    eventually("DAMON is off", PATIENCE, || (kdamond_state() == "off").then_some(()));
    workload.check();
    // SIGTERM ends it in order.
    let mut daemon = start_daemon(&pid, Stdio::inherit());
    eventually("DAMON is on", PATIENCE, || (kdamond_state() == "on").then_some(()));
    let number = libc::pid_t::try_from(daemon.id()).expect("a number");
    // SAFETY: a signal to a child that was not waited for yet.
    assert_eq!(unsafe { libc::kill(number, libc::SIGTERM) }, 0);
    assert_eq!(daemon.wait().expect("its end").code(), Some(0));
    assert_eq!(kdamond_state(), "off");
    workload.end();
}

pub fn bad_calls_are_told() {
    script();
    let output = tier(&["--pid", "99999"]);
    assert_eq!((output.status.code(), said(&output).contains("no process 99999")), (Some(2), true));
    let output = tier(&["--pid", "2"]);
    assert_eq!((output.status.code(), said(&output).contains("kernel thread")), (Some(2), true));
    let workload = Workload::start(4, 1, true);
    let pid = workload.pid().to_string();
    let output =
        Command::new(WARMSET).args(["tier", "--pid", &pid]).uid(1000).gid(1000).output().expect("warmset");
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    assert!(said(&output).contains("belongs to user 0"), "{}", said(&output));
    let output = Command::new(WARMSET)
        .args(["tier", "--latency", "scripted", "--script", SCRIPT, "--", WARMSET, "--version"])
        .uid(1000)
        .gid(1000)
        .output()
        .expect("warmset");
    assert_eq!(output.status.code(), Some(0), "the program runs as without us: {}", said(&output));
    assert!(said(&output).contains("needs root"), "{}", said(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("warmset "), "{output:?}");
    let output = tier(&["--pid", &pid, "--policy", "none"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let balancing = "/proc/sys/kernel/numa_balancing";
    fs::write(balancing, "1").expect("a setting");
    let output =
        tier(&["--pid", &pid, "--once", "--dry-run", "--json", "--latency", "scripted", "--script", SCRIPT]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let events: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a record")).collect();
    assert_eq!(
        events.iter().map(|event| event["event"].as_str()).collect::<Vec<_>>(),
        [Some("start"), Some("quantum"), Some("end")]
    );
    assert!(events.iter().all(|event| event["schema"] == 1));
    assert!(text.contains("NUMA balancing is on"), "{text}");
    fs::write(balancing, "0").expect("a setting");
    let output = tier(&["--pid", &pid, "--once", "--json", "--latency", "scripted", "--script", SCRIPT]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(!String::from_utf8_lossy(&output.stdout).contains("NUMA balancing"), "{output:?}");
    workload.end();
}

pub fn program_keeps_its_exit_code() {
    script();
    let options = ["--latency", "scripted", "--script", SCRIPT, "--metrics", "/tmp/metrics.prom", "--"];
    let mut arguments = options.to_vec();
    arguments.extend(["/init", "workload", "8", "2", "huge"]);
    let mut daemon = Command::new(WARMSET)
        .arg("tier")
        .args(&arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("warmset");
    let metrics = eventually("metrics are written", PATIENCE, || {
        fs::read_to_string("/tmp/metrics.prom").ok().filter(|text| text.contains("quanta_total"))
    });
    assert!(metrics.contains("warmset_tier_resident_bytes{pid="), "{metrics}");
    // The program ends when its input does.
    drop(daemon.stdin.take());
    assert_eq!(daemon.wait().expect("its end").code(), Some(0));
    assert_eq!(kdamond_state(), "off");
    let output = tier(&["--", "/bin/nothing"]);
    assert_eq!(output.status.code(), Some(127), "{}", said(&output));
    let output = tier(&["--latency", "scripted", "--script", SCRIPT, "--", "/init", "workload"]);
    assert_eq!(output.status.code(), Some(101), "a panic's: {}", said(&output));
}

pub fn nodes_that_go_offline_are_told() {
    script();
    let mut workload = Workload::start(8, 2, true);
    let pid = workload.pid().to_string();
    let mut daemon = start_daemon(&pid, Stdio::piped());
    eventually("DAMON is on", PATIENCE, || (kdamond_state() == "on").then_some(()));
    let blocks: Vec<_> = fs::read_dir("/sys/devices/system/node/node1")
        .expect("node 1")
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.join("phys_index").exists())
        .collect();
    assert!(!blocks.is_empty());
    for block in &blocks {
        if let Err(error) = fs::write(block.join("state"), "offline") {
            println!("SKIPPED nodes_that_go_offline_are_told: {}: {error}", block.display());
            let _ = daemon.kill();
            let _ = daemon.wait();
            return;
        }
    }
    let output = daemon.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    assert!(said(&output).contains("went offline"), "{}", said(&output));
    assert_eq!(kdamond_state(), "off");
    workload.check();
    workload.end();
}

pub fn policies_for_two_tiers_say_so() {
    fs::write(SCRIPT, r#"[{"base_ns": 100}, {"base_ns": 200}, {"base_ns": 300}]"#).expect("a script");
    let workload = Workload::start(4, 1, true);
    let pid = workload.pid().to_string();
    let output = tier(&["--pid", &pid, "--policy", "hemem", "--latency", "scripted", "--script", SCRIPT]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("use --policy equal"), "{}", said(&output));
    assert_eq!(kdamond_state(), "off");
    workload.end();
}
