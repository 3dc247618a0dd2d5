//! The `warmset` command as a user meets it: exit codes, streams, both views, and what it generates.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

fn warmset(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_warmset")).args(args).output().unwrap()
}

fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("warmset-cli-{}-{name}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    dir
}

#[test]
fn doctor_writes_json_with_a_schema_and_says_its_state_in_the_exit_code() {
    let dir = scratch("json");
    let out = warmset(&["doctor", "--json", "--dir", dir.to_str().unwrap()]);
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(report["schema"], 1);
    let code = if report["state"] == "ok" { 0 } else { 1 };
    assert_eq!(out.status.code(), Some(code));
    let checks: Vec<&str> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["check"].as_str().unwrap())
        .collect();
    for check in [
        "kernel",
        "io_uring",
        "thp",
        "thp_defrag",
        "hugetlb",
        "numa",
        "memory",
        "cgroup",
        "memory_limit",
        "overcommit",
        "swap",
        "dir",
        "o_direct",
        "o_tmpfile",
        "disk_speed",
        "read_ahead",
        "tmp",
        "memlock",
        "perf",
        "numa_balancing",
    ] {
        assert!(checks.contains(&check), "{check} is missing");
    }
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "the measurement left a file");
    fs::remove_dir(&dir).unwrap();
}

#[test]
fn doctor_writes_one_plain_line_per_finding() {
    let out = warmset(&["doctor", "--no-measure"]);
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(
        text.lines().all(|line| ["ok", "warn", "bad"].contains(&line.split_whitespace().next().unwrap()))
    );
    assert!(!text.contains('\u{1b}'), "colour without a terminal");
}

#[test]
fn a_missing_directory_is_an_error_that_names_the_option() {
    let out = warmset(&["doctor", "--dir", "/nonexistent/warmset"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(out.stdout.is_empty());
    assert!(String::from_utf8(out.stderr).unwrap().contains("--dir /nonexistent/warmset"));
}

#[test]
fn a_wrong_call_exits_with_two() {
    assert_eq!(warmset(&["doctor", "--nonsense"]).status.code(), Some(2));
    assert_eq!(warmset(&[]).status.code(), Some(2));
    assert_eq!(warmset(&["generate", "completions", "no-such-shell"]).status.code(), Some(2));
}

#[test]
fn man_pages_and_completions_are_generated() {
    let dir = scratch("man");
    assert!(warmset(&["generate", "man", dir.to_str().unwrap()]).status.success());
    let page = fs::read_to_string(dir.join("warmset-doctor.1")).unwrap();
    assert!(page.contains(".TH"));
    fs::remove_dir_all(&dir).unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let out = warmset(&["generate", "completions", shell]);
        assert!(out.status.success() && !out.stdout.is_empty());
    }
    let blocked = warmset(&["generate", "man", "/proc/warmset"]);
    assert_eq!(blocked.status.code(), Some(2));
}
