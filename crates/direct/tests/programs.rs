//! Real programs under the library: a killed database is whole, and fio reads back what all kinds of writers wrote.

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use common::{Appends, compiled, lock_appends, said, served};
use tempfile::TempDir;

/// A directory on tmpfs; `None`, and the reason on stderr, without one or without the program.
fn room(test: &str, program: &str) -> Option<TempDir> {
    if Command::new(program).arg("--version").output().is_err() {
        eprintln!("SKIPPED {test}: there is no {program}");
        return None;
    }
    common::room(test)
}

fn sqlite(room: &Path, text: &str) -> String {
    let output = served("sqlite3", room).args(["db", text]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_database_is_whole_after_its_writer_was_killed_a_hundred_times() {
    let test = "a_database_is_whole_after_its_writer_was_killed_a_hundred_times";
    let Some(room) = room(test, "sqlite3") else { return };
    let room = room.path();
    sqlite(room, "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT); CREATE INDEX tb ON t(b);");
    let counts = room.join("counts");
    let (mut rows, mut grown) = (0, 0);
    for round in 0..100 {
        // Its lines tell that transactions are under way; it is killed long before it ends by itself.
        let insert = "BEGIN; INSERT INTO t(b) SELECT hex(randomblob(60)) FROM generate_series(1,40); \
                      UPDATE t SET b=b||'x' WHERE a%7=1; COMMIT; SELECT 'done';"
            .replace(
                "generate_series(1,40)",
                "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<40) SELECT i FROM n)",
            );
        let script = insert.repeat(400);
        let mut child = served("stdbuf", room)
            .args(["-oL", "sqlite3", "db", ".timeout 10000", &script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = [0; 5];
        let mut out = child.stdout.take().unwrap();
        for _ in 0..=round % 4 {
            std::io::Read::read_exact(&mut out, &mut first).unwrap();
            assert_eq!(&first, b"done\n");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let mut check = served("sqlite3", room);
        check.env("WARMSET_DIRECT_STATS", &counts);
        let output = check.args(["db", "PRAGMA integrity_check; SELECT count(*) FROM t;"]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let now: u64 = text
            .strip_prefix("ok\n")
            .and_then(|rest| rest.trim().parse().ok())
            .unwrap_or_else(|| panic!("round {round}: {text}"));
        assert!(now >= rows && now % 40 == 0, "round {round}: {rows} rows, then {now}");
        grown += u32::from(now > rows);
        rows = now;
        if rows > 4000 {
            sqlite(room, "DELETE FROM t;");
            rows = 0;
        }
    }
    assert!(grown > 50, "{grown}");
    assert!(common::counted(&counts, "reads") > 1000, "the checks were served");
}

/// Runs one of the programs beside this file; what the library counted of it under this key.
fn counted(test: &str, source: &str, arguments: &[&str], key: &str) -> Option<u64> {
    let room = common::room(test)?;
    let (_folder, program) = compiled(test, &[common::source(source)])?;
    let counts = room.path().join("counts");
    let mut command = served(program, room.path());
    let output = command.env("WARMSET_DIRECT_STATS", &counts).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}: {}", output.status, said(&output));
    Some(common::counted(&counts, key))
}

fn overlapping(test: &str, mode: &str, rounds: &str) -> Option<u64> {
    counted(test, "overlap.c", &[mode, "file", rounds], "writes")
}

#[test]
fn threads_at_one_position_read_a_growing_file_once() {
    let test = "threads_at_one_position_read_a_growing_file_once";
    let Some(passed) = counted(test, "position.c", &["file", "20000"], "passed_on") else { return };
    // The second thread leaves the position to the kernel.
    assert!(passed > 20000 - 1000, "{passed}");
}

#[test]
fn writes_that_overlap_do_not_mix() {
    let _lock = lock_appends(Appends::Counts);
    let rounds = 300;
    let Some(writes) = overlapping("writes_that_overlap_do_not_mix", "mixed", &rounds.to_string()) else {
        return;
    };
    // Two of three writers and the parent are served, but for the first writes of each.
    assert!(writes > 3 * (rounds - 10), "{writes}");
}

#[test]
fn a_killed_writer_holds_nobody_up() {
    let _lock = lock_appends(Appends::Counts);
    let Some(writes) = overlapping("a_killed_writer_holds_nobody_up", "killed", "100") else { return };
    assert!(writes > 150, "{writes}");
}

#[test]
fn fio_verifies_what_served_and_other_writers_wrote() {
    let test = "fio_verifies_what_served_and_other_writers_wrote";
    let Some(room) = room(test, "fio") else { return };
    let room = room.path();
    let size = 32 << 20;
    for block in ["512", "4k", "64k", "4k-128k"] {
        let _ = std::fs::remove_file(room.join("file"));
        std::fs::write(room.join("file"), vec![0; size]).unwrap();
        let arguments = |half: usize, job: &str| {
            let offset = half * size / 2;
            [
                "--name=x".into(),
                "--filename=file".into(),
                format!("--offset={offset}"),
                format!("--size={}", size / 2),
                "--rw=randwrite".into(),
                format!("--bs{}={block}", if block.contains('-') { "range" } else { "" }),
                "--ioengine=psync".into(),
                "--verify=crc32c".into(),
                "--verify_fatal=1".into(),
                "--allow_file_create=0".into(),
                "--randseed=7".into(),
                format!("--{job}"),
            ]
        };
        let quiet =
            |mut command: Command| command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Both halves at once, one served and one not; then each is read by the other kind.
        for job in ["do_verify=1", "verify_only=1"] {
            let (mut ours, mut plain) = (served("fio", room), Command::new("fio"));
            let swapped = usize::from(job == "verify_only=1");
            ours.args(arguments(swapped, job));
            plain.args(arguments(1 - swapped, job)).current_dir(room);
            for child in [quiet(ours), quiet(plain)] {
                let output = child.wait_with_output().unwrap();
                assert!(output.status.success(), "{block}: {}", String::from_utf8_lossy(&output.stderr));
            }
        }
    }
}
