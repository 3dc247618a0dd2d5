//! The differential fuzzer: random operations on a served and on a plain directory, with one result.
//!
//! By itself, on two plain directories, it finds nothing, and what is changed behind its back it finds.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{Appends, AppendsLock, compiled, counted, lock_appends, said};
use tempfile::TempDir;

/// The fuzzer's binary and two directories on a tmpfs.
struct Fuzz {
    program: PathBuf,
    room: TempDir,
    _built: TempDir,
    _lock: AppendsLock,
}

impl Fuzz {
    /// Compiles it; `None`, and the reason on stderr, where there is no compiler or no tmpfs.
    fn build(test: &str) -> Option<Self> {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/direct/fuzz");
        let room = common::room(test)?;
        let parts =
            ["main.c", "check.c", "io_ops.c", "file_ops.c", "process_ops.c", "thread_ops.c", "more_ops.c"];
        let (built, program) = compiled(test, &parts.map(|part| sources.join(part)))?;
        for side in ["served", "plain"] {
            std::fs::create_dir(room.path().join(side)).unwrap();
        }
        Some(Self { program, room, _built: built, _lock: lock_appends(Appends::Makes) })
    }

    fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(options).arg(self.room.path().join("served")).arg(self.room.path().join("plain"));
        command
    }

    fn run(&self, options: &[&str]) -> Output {
        self.command(options).output().unwrap()
    }

    /// With the library, which maps every file at its first operation; what it counted, summed over all processes.
    fn run_served(&self, options: &[&str]) -> (Output, Counters) {
        let counts = self.room.path().join("counts");
        let _ = std::fs::remove_file(&counts);
        let mut command = self.command(options);
        command
            .env("LD_PRELOAD", common::library())
            .env("WARMSET_DIRECT_DIRS", self.room.path().join("served"));
        command.env("WARMSET_DIRECT_AFTER", "0").env("WARMSET_DIRECT_STATS", &counts);
        if options.contains(&"--strict") {
            command.env("WARMSET_DIRECT_STRICT", "1");
        }
        let output = command.output().unwrap();
        let sums = Counters { reads: counted(&counts, "reads"), writes: counted(&counts, "writes") };
        (output, sums)
    }
}

/// Operations that the library served.
struct Counters {
    reads: u64,
    writes: u64,
}

#[test]
fn two_plain_directories_do_not_differ() {
    let Some(fuzz) = Fuzz::build("two_plain_directories_do_not_differ") else { return };
    for options in [
        &["--seed", "11", "--ops", "100000"][..],
        &["--seed", "12", "--ops", "20000", "--strict", "--raw-position"],
    ] {
        let output = fuzz.run(options);
        assert_eq!(output.status.code(), Some(0), "{options:?}: {}", said(&output));
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let done = |name: &str| result["done"][name][1].as_i64().unwrap();
        for name in [
            "read",
            "write",
            "fork",
            "companion",
            "program",
            "lease",
            "stream",
            "map",
            "disjoint",
            "position",
            "overlap",
        ] {
            assert!(options[3] != "100000" || done(name) > 0, "{name} was never done with success: {result}");
        }
    }
}

#[test]
fn two_full_file_systems_do_not_differ() {
    let Some(fuzz) = Fuzz::build("two_full_file_systems_do_not_differ") else { return };
    let output = fuzz.run(&["--seed", "14", "--ops", "20000", "--full"]);
    if output.status.code() == Some(2) {
        eprintln!("SKIPPED two_full_file_systems_do_not_differ: {}", said(&output));
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

#[test]
fn a_served_directory_does_not_differ_from_a_plain_one() {
    let Some(fuzz) = Fuzz::build("a_served_directory_does_not_differ_from_a_plain_one") else { return };
    for seed in ["21", "22", "23", "24", "25", "26", "27", "28"] {
        let options = ["--seed", seed, "--ops", "125000", "--no-holes"];
        let (output, served) = fuzz.run_served(&options);
        assert_eq!(output.status.code(), Some(0), "{options:?}: {}", said(&output));
        assert!(served.reads > 1000 && served.writes > 300, "{seed}: {} {}", served.reads, served.writes);
    }
    for mode in ["--strict", "--raw-position", "--signals"] {
        let options = ["--seed", "29", "--ops", "50000", "--no-holes", mode];
        let (output, served) = fuzz.run_served(&options);
        assert_eq!(output.status.code(), Some(0), "{options:?}: {}", said(&output));
        assert!(served.reads > 500, "{mode}: {}", served.reads);
        assert!((mode == "--strict") == (served.writes == 0), "{mode}: {}", served.writes);
    }
}

#[test]
fn a_served_file_system_fills_up_as_a_plain_one_does() {
    let Some(fuzz) = Fuzz::build("a_served_file_system_fills_up_as_a_plain_one_does") else { return };
    let (output, _) = fuzz.run_served(&["--seed", "30", "--ops", "50000", "--no-holes", "--full"]);
    if output.status.code() == Some(2) {
        eprintln!("SKIPPED a_served_file_system_fills_up_as_a_plain_one_does: {}", said(&output));
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

#[test]
fn one_changed_byte_is_found_and_the_steps_before_it_are_shown() {
    let Some(fuzz) = Fuzz::build("one_changed_byte_is_found_and_the_steps_before_it_are_shown") else {
        return;
    };
    let output = fuzz.run(&["--seed", "15", "--ops", "20000", "--sabotage", "4000"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let text = said(&output);
    assert!(text.contains("1 bytes differ") && text.contains("seed 15, step 4000"), "{text}");
    assert!(text.lines().filter(|line| line.contains("-> served")).count() == 20, "{text}");
}

#[test]
fn one_seed_gives_one_sequence() {
    let Some(fuzz) = Fuzz::build("one_seed_gives_one_sequence") else { return };
    let steps = |seed: &str| said(&fuzz.run(&["--seed", seed, "--ops", "3000", "--trace"]));
    let cut = |text: String| -> Vec<String> {
        text.lines().filter(|line| line.contains("-> served")).map(str::to_owned).collect()
    };
    let (one, again, other) = (cut(steps("16")), cut(steps("16")), cut(steps("17")));
    assert!(one.len() >= 3000, "{}", one.len());
    assert_eq!(one, again);
    assert_ne!(one, other);
}

#[test]
fn a_wrong_call_gets_the_usage() {
    let Some(fuzz) = Fuzz::build("a_wrong_call_gets_the_usage") else { return };
    let output = fuzz.run(&["--no-such-option"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).starts_with("usage: fuzz"), "{}", said(&output));
}
