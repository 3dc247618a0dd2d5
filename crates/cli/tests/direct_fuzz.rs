//! The differential fuzzer of the direct path by itself: on two plain directories it finds nothing, and what is
//! changed behind its back it finds.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The fuzzer's binary and two directories on a tmpfs.
struct Fuzz {
    program: PathBuf,
    room: TempDir,
}

impl Fuzz {
    /// Compiles it; `None`, and the reason on stderr, where there is no compiler or no tmpfs.
    fn build(test: &str) -> Option<Self> {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/direct/fuzz");
        let Ok(room) = TempDir::new_in("/dev/shm") else {
            eprintln!("SKIPPED {test}: /dev/shm cannot be written");
            return None;
        };
        let built = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap().keep();
        let program = built.join("fuzz");
        let mut compile = Command::new("cc");
        compile.args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(&program);
        for part in ["main.c", "check.c", "io_ops.c", "file_ops.c", "process_ops.c", "thread_ops.c"] {
            compile.arg(sources.join(part));
        }
        let Ok(output) = compile.output() else {
            eprintln!("SKIPPED {test}: there is no C compiler (cc)");
            return None;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        for side in ["served", "plain"] {
            std::fs::create_dir(room.path().join(side)).unwrap();
        }
        Some(Self { program, room })
    }

    fn run(&self, options: &[&str]) -> Output {
        let mut command = Command::new(&self.program);
        command.args(options).arg(self.room.path().join("served")).arg(self.room.path().join("plain"));
        command.output().unwrap()
    }
}

impl Drop for Fuzz {
    fn drop(&mut self) {
        if let Some(built) = self.program.parent() {
            let _ = std::fs::remove_dir_all(built);
        }
    }
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn two_plain_directories_do_not_differ() {
    let Some(fuzz) = Fuzz::build("two_plain_directories_do_not_differ") else { return };
    for options in [
        &["--seed", "11", "--ops", "150000"][..],
        &["--seed", "12", "--ops", "50000", "--strict", "--raw-position"],
        &["--seed", "13", "--ops", "50000", "--signals"],
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
        ] {
            assert!(options[3] != "150000" || done(name) > 0, "{name} was never done with success: {result}");
        }
    }
}

#[test]
fn two_full_file_systems_do_not_differ() {
    let Some(fuzz) = Fuzz::build("two_full_file_systems_do_not_differ") else { return };
    let output = fuzz.run(&["--seed", "14", "--ops", "50000", "--full"]);
    if output.status.code() == Some(2) {
        eprintln!("SKIPPED two_full_file_systems_do_not_differ: {}", said(&output));
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
