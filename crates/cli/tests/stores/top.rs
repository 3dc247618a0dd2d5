//! `warmset top` as a user meets it: what this process's store does, and files that make no sense.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};
use warmset_platform::status;

use crate::filled;

const LATE: Duration = Duration::from_secs(120);

fn top(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_warmset")).arg("top").args(args).output().unwrap()
}

fn top_of(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warmset"));
    command.env(status::VARIABLE, dir).arg("top").args(args).output().unwrap()
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

fn record(out: &Output) -> Value {
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    serde_json::from_slice(&out.stdout).unwrap()
}

fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < LATE, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_store_of_another_process_is_shown_with_regions_and_rates() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path());
    let path = dir.path().canonicalize().unwrap();
    let path = path.to_str().unwrap();
    let table = store.table("numbers").unwrap();
    let read = || (0..table.pieces()).for_each(|n| drop(table.batch(n).unwrap()));
    let found = eventually("its table and rates", || {
        read();
        let shown = record(&top(&["--once", "--json", "--filter", path]));
        let [only] = &shown["stores"].as_array().unwrap()[..] else { return None };
        assert_eq!((&shown["schema"], &only["pid"]), (&json!(1), &json!(std::process::id())));
        let is_whole = only["largest_regions"][0]["name"] == "numbers" && only["resident_bytes"] != 0;
        (is_whole && only["rates"]["read_bytes_per_s"].is_number()).then(|| only.clone())
    });
    assert_eq!((&found["user"], &found["dirs"]), (&json!("python"), &json!([path])));
    assert_eq!(found["budget_bytes"], json!(32 << 20));
    assert!(found["rates"]["hit_ratio"].is_null() || found["rates"]["hit_ratio"].is_number(), "{found}");
    let out = text(top(&["--once", "--filter", path]).stdout);
    let row = out.lines().find(|line| line.contains(&std::process::id().to_string())).unwrap();
    assert!(row.contains("32.0 MiB") && row.contains("7.6 MiB"), "{out}");
    let file = dir.path().join("warmset.prom");
    let args = ["--once", "--metrics", file.to_str().unwrap(), "--filter", path];
    assert_eq!(top(&args).status.code(), Some(0));
    let metrics = fs::read_to_string(&file).unwrap();
    let labels = format!("pid=\"{}\"", std::process::id());
    let of_store = |line: &&str| line.contains(path) && line.contains(&labels);
    let lines: Vec<&str> = metrics.lines().filter(of_store).collect();
    let has = |name: &str, end: &str| lines.iter().any(|line| line.starts_with(name) && line.ends_with(end));
    assert!(has("warmset_store_budget_bytes{", " 33554432"), "{metrics}");
    assert!(has("warmset_store_resident_bytes{", ""), "{metrics}");
    // What is closed is gone.
    drop((table, store));
    eventually("it is gone", || {
        let shown = record(&top(&["--once", "--json", "--filter", path]));
        shown["stores"].as_array().unwrap().is_empty().then_some(())
    });
}

#[test]
fn files_that_make_no_sense_are_named_and_nothing_more() {
    let dir = tempfile::tempdir().unwrap();
    let _store = filled(dir.path());
    let status_dir = dir.path().join("status");
    fs::DirBuilder::new().mode(0o700).create(&status_dir).unwrap();
    let out = top_of(&status_dir, &["--once"]);
    assert_eq!((out.status.code(), out.stdout.len()), (Some(0), 0));
    assert!(text(out.stderr).contains("no store, tiering or prefetching"));
    let own = eventually("its file", || {
        let found = status::read().files.into_iter();
        found.into_iter().find(|file| file.pid == std::process::id() && file.text.contains("\"store\""))
    });
    let shown = |content: &str| {
        let path = status_dir.join(&own.name);
        fs::write(&path, content).unwrap();
        // Rates of what is not written again are not waited for.
        let before = SystemTime::now() - Duration::from_secs(3600);
        File::options().write(true).open(path).and_then(|file| file.set_modified(before)).unwrap();
        let out = top_of(&status_dir, &["--once"]);
        assert_eq!(out.status.code(), Some(0));
        (text(out.stdout), text(out.stderr))
    };
    let (stdout, _) = shown(&own.text);
    assert!(stdout.starts_with("Stores") && stdout.contains("(not answering)"), "{stdout}");
    for bad in ["", "{", "[]", "\u{1b}[31m", &own.text.replace("\"schema\":1", "\"schema\":999")] {
        let (stdout, stderr) = shown(bad);
        assert!(stdout.is_empty() && stderr.contains(&format!("process {}", own.pid)), "{bad}: {stderr}");
    }
    // One part that is bad, and one of a newer version, take nothing else with them.
    let more = own.text.replace("\"parts\":[", "\"parts\":[{\"kind\":\"new\"},{\"kind\":\"split\"},");
    let (stdout, stderr) = shown(&more);
    assert!(stdout.contains("32.0 MiB") && stderr.contains("missing field"), "{stdout}{stderr}");
    // Nothing that a program is called reaches the terminal as more than text.
    let mut named: Value = serde_json::from_str(&own.text).unwrap();
    named["name"] = json!("a\u{1b}[31mb\nc");
    let (stdout, _) = shown(&named.to_string());
    assert!(!stdout.contains('\u{1b}') && stdout.contains(r"a\u{1b}[31mb\nc"), "{stdout}");
}

#[test]
fn tiering_is_shown_until_it_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let status_dir = dir.path().join("status");
    let memory = vec![1_u8; 8 << 20];
    let start = memory.as_ptr() as usize;
    let (accesses, latencies) = (dir.path().join("accesses"), dir.path().join("latencies"));
    let range = json!([{ "start": start, "end": start + memory.len(), "rate": 1 }]);
    fs::write(&accesses, range.to_string()).unwrap();
    fs::write(&latencies, r#"[{"base_ns": 100}]"#).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_warmset"));
    command.env(status::VARIABLE, &status_dir).args(["tier", "--dry-run", "--tracker", "scripted"]);
    command.arg("--accesses").arg(&accesses).args(["--latency", "scripted", "--script"]).arg(&latencies);
    let mut tier =
        command.args(["--pid", &std::process::id().to_string()]).stderr(Stdio::null()).spawn().unwrap();
    let shown = || record(&top_of(&status_dir, &["--once", "--json"]))["tiers"].clone();
    let found = eventually("its first decision", || {
        assert_eq!(tier.try_wait().unwrap(), None);
        shown().get(0).cloned()
    });
    assert_eq!(
        (&found["target_pid"], &found["dry_run"]),
        (&json!(std::process::id()), &json!(true)),
        "{found}"
    );
    assert!(
        found["counters"]["quanta"].as_u64() > Some(0) && found["last"]["tiers"][0]["node"] == 0,
        "{found}"
    );
    // Whoever is killed leaves a file; nobody is shown for it.
    tier.kill().and_then(|()| tier.wait()).unwrap();
    assert!(fs::read_dir(&status_dir).unwrap().count() > 0);
    assert_eq!(shown(), json!([]));
    drop(memory);
}

/// The two ends of a terminal.
fn terminal() -> (File, File) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = openpt(flags).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    (File::from(ours), theirs)
}

#[test]
fn the_view_ends_with_a_key_and_with_its_terminal() {
    let dir = tempfile::tempdir().unwrap();
    for closes in [false, true] {
        let (mut ours, theirs) = terminal();
        let mut command = Command::new(env!("CARGO_BIN_EXE_warmset"));
        command.env(status::VARIABLE, dir.path()).arg("top");
        command.stdin(theirs.try_clone().unwrap()).stdout(theirs.try_clone().unwrap()).stderr(theirs);
        let mut view = command.spawn().unwrap();
        // What is held of the other end would keep the terminal from being closed.
        drop(command);
        // It has the terminal once it shows its own screen; keys are read one by one then.
        let mut shown = String::new();
        while !shown.contains("[?1049h") {
            let mut part = [0; 4096];
            let length = ours.read(&mut part).unwrap();
            shown += &String::from_utf8_lossy(&part[..length]);
        }
        if closes {
            drop(ours);
            assert!(ended(&mut view), "a view without a terminal");
        } else {
            ours.write_all(b"q").unwrap();
            // Its last words have to go somewhere.
            while ours.read(&mut [0; 4096]).is_ok_and(|length| length > 0) {}
            assert!(ended(&mut view) && view.wait().unwrap().success());
        }
    }
}

fn ended(child: &mut Child) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < LATE {
        if child.try_wait().unwrap().is_some() {
            return true;
        }
        std::thread::yield_now();
    }
    child.kill().and_then(|()| child.wait()).unwrap();
    false
}

#[test]
fn a_call_without_a_terminal_says_what_to_use() {
    let out = top(&[]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(out.stderr).contains("--once, --json or --metrics"));
    assert_eq!(top(&["--interval", "10"]).status.code(), Some(2));
}
