//! `warmset learn`, `run` and `profile` with a program whose reads are known.

mod alike;
mod place;
mod triggers;

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use place::{MIB, Place, SECOND, text};

/// The recorded ranges of one file, merged.
fn ranges(profile: &Value, path: &Path) -> Vec<(u64, u64)> {
    let files = profile["files"].as_array().unwrap();
    let file = files.iter().position(|file| file["path"] == path.to_str().unwrap());
    let reads = profile["reads"].as_array().unwrap().iter();
    let of_file = reads.filter(|read| file.is_some_and(|file| read["file"] == file));
    let mut found: Vec<(u64, u64)> =
        of_file.map(|read| (read["start"].as_u64().unwrap(), read["end"].as_u64().unwrap())).collect();
    found.sort_unstable();
    found.dedup_by(|next, last| {
        let touching = last.1 == next.0;
        if touching {
            last.1 = next.1;
        }
        touching
    });
    found
}

#[test]
fn both_recorders_see_exactly_what_is_read() {
    let test = "both_recorders_see_exactly_what_is_read";
    for (binary, mode) in
        [("pie", ""), ("fixed", ""), ("pie", "fork"), ("pie", "thread"), ("fixed", "exec"), ("pie", "dlopen")]
    {
        for as_root in [true, false] {
            let place = Place::new();
            let command = place.command(binary, 1, mode);
            let plain = Command::new(&command[0]).args(&command[1..]).output().unwrap();
            let learned = if as_root {
                place.recorded_as_root(test, &command)
            } else {
                place.evict();
                Some(place.output(&["learn", "--user"], &command))
            };
            let Some(learned) = learned else { continue };
            let what = format!("root {as_root} {binary} {mode}: {}", text(&learned.stderr));
            assert_eq!(
                (learned.status.code(), text(&learned.stdout)),
                (Some(0), text(&plain.stdout)),
                "{what}"
            );
            let profile = place.profile();
            assert_eq!(ranges(&profile, &place.path("first")), [(MIB, 2 * MIB)], "{what}");
            assert_eq!(ranges(&profile, &place.path("second")), [(0, SECOND)], "{what}");
            assert!(!ranges(&profile, &place.path(binary)).is_empty(), "{what}");
        }
    }
}

#[test]
fn the_second_run_chooses_a_trigger_and_each_kind_fires() {
    let test = "the_second_run_chooses_a_trigger_and_each_kind_fires";
    let place = Place::new();
    let command = place.command("pie", 1200, "");
    let Some(learned) = place.recorded_in_bursts(test, &command) else { return };
    let again = place.output(&["learn"], &command);
    assert!(text(&again.stderr).contains("is opened (open 1)"), "{}", text(&again.stderr));
    let profile = place.profile();
    let late = profile["bursts"].as_array().unwrap().last().unwrap();
    assert!(late["quiet_ms"].as_u64().unwrap() > 1000, "{late}");
    let kinds = late["candidates"].to_string();
    assert!(kinds.contains("\"file\"") && kinds.contains("\"instruction\""), "{kinds}");
    let second = place.path("second");
    for kind in ["file", "instruction", "launch"] {
        let found = place.output(&["run", "--trigger", kind], &command);
        assert_eq!((found.status.code(), text(&found.stdout)), (Some(0), text(&learned.stdout)), "{kind}");
    }
    // A file that was replaced is neither fetched nor a trigger.
    fs::remove_file(&second).unwrap();
    fs::write(&second, vec![7; SECOND as usize]).unwrap();
    let found = place.output(&["run"], &command);
    assert_eq!((found.status.code(), text(&found.stdout)), (Some(0), text(&learned.stdout)));
    let checked = place.output(&["profile", "check"], &[]);
    assert_eq!(checked.status.code(), Some(1));
    assert!(text(&checked.stdout).contains("run `warmset learn` again"), "{}", text(&checked.stdout));
}

#[test]
fn a_user_learns_an_instruction_and_runs_with_it() {
    let test = "a_user_learns_an_instruction_and_runs_with_it";
    let place = Place::new();
    let command = place.command("pie", 1200, "");
    let learned = place.output(&["learn", "--user"], &command);
    assert!(text(&learned.stderr).contains("once more"), "{}", text(&learned.stderr));
    let again = place.output(&["learn", "--user"], &command);
    assert!(text(&again.stderr).contains("burst at"), "{}", text(&again.stderr));
    let profile = place.profile();
    let late = profile["bursts"].as_array().unwrap().last().unwrap();
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    if paranoid.trim().parse().is_ok_and(|level: i32| level > 2) {
        eprintln!("SKIPPED {test}: kernel.perf_event_paranoid is {}", paranoid.trim());
        return;
    }
    let kinds = late["candidates"].to_string();
    assert!(kinds.contains("\"file\"") && kinds.contains("\"instruction\""), "{kinds}");
    assert!(kinds.contains(place.path("pie").to_str().unwrap()), "{kinds}");
    let found = place.output(&["run", "--verbose", "--trigger", "instruction"], &command);
    assert_eq!((found.status.code(), text(&found.stdout)), (Some(0), text(&learned.stdout)));
    let errors = text(&found.stderr);
    let fired: Vec<&str> = errors.lines().filter(|line| line.contains("a trigger has fired")).collect();
    let after_ms = |line: &str| line.split(' ').nth(1).unwrap().parse::<u64>().unwrap();
    assert!(fired.len() == 1 && after_ms(fired[0]) > 500, "{errors}");
}

#[test]
fn an_ignored_or_default_sigpipe_is_the_programs_too() {
    let place = Place::new();
    let status = ["/bin/grep", "SigIgn", "/proc/self/status"].map(str::to_owned);
    let plain = |line: &str| {
        let run = Command::new("sh").args(["-c", line, "sh"]).args(&status).output().unwrap();
        text(&run.stdout)
    };
    for trap in ["", "trap '' PIPE; "] {
        let wanted = plain(&format!("{trap}exec \"$@\""));
        for words in [&["run"][..], &["learn", "--user"], &["learn"]] {
            let warmset = place.warmset(words, &status);
            let mut started = Command::new("sh");
            started.args(["-c", &format!("{trap}exec \"$@\""), "sh"]).arg(warmset.get_program());
            started.args(warmset.get_args()).env("XDG_DATA_HOME", place.path("data"));
            let found = started.output().unwrap();
            assert_eq!(text(&found.stdout), wanted, "{words:?} {trap}: {}", text(&found.stderr));
        }
    }
    assert_ne!(plain("exec \"$@\""), plain("trap '' PIPE; exec \"$@\""));
}

/// The read-ahead of the disk with these files, and the file that sets it.
fn read_ahead(place: &Place) -> Option<(PathBuf, String)> {
    let device = fs::metadata(place.path("first")).unwrap().dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let disk = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let settings = ["queue/read_ahead_kb", "../queue/read_ahead_kb"].map(|name| disk.join(name));
    let setting = settings.into_iter().find(|setting| setting.exists())?;
    let value = fs::read_to_string(&setting).unwrap();
    Some((setting, value))
}

#[test]
fn an_exact_recording_gives_the_read_ahead_back_and_is_alone() {
    let test = "an_exact_recording_gives_the_read_ahead_back_and_is_alone";
    let place = Place::new();
    let Some((setting, before)) = read_ahead(&place) else {
        return eprintln!("SKIPPED {test}: the disk of the build has no read-ahead to set");
    };
    let (started, go_on) = (place.path("started"), place.path("go-on"));
    // In its second, evicted run it waits for this test.
    let line = "cat \"$1\" >/dev/null; test -e \"$2\" || { : >\"$2\"; exit; }; : >\"$2\".2; \
                while test -e \"$1\" && ! test -e \"$3\"; do sleep 0.02; done";
    let words = ["/bin/sh", "-c", line, "sh"].map(str::to_owned).into_iter();
    let files = [place.path("first"), started.clone(), go_on.clone()];
    let command: Vec<String> = words.chain(files.map(|path| path.to_str().unwrap().to_owned())).collect();
    let second_run = started.with_extension("2");
    let begin = || {
        for left in [&started, &second_run, &go_on] {
            let _ = fs::remove_file(left);
        }
        let mut learner = place.warmset(&["learn", "--exact"], &command);
        let mut learner = learner.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        until("the evicted run has started", || second_run.exists() || learner.try_wait().unwrap().is_some());
        learner
    };
    let mut learner = begin();
    if let Some(status) = learner.try_wait().unwrap() {
        let said = text(&learner.wait_with_output().unwrap().stderr);
        return eprintln!("SKIPPED {test}: it cannot record here ({status}): {said}");
    }
    assert_eq!(fs::read_to_string(&setting).unwrap().trim(), "0");
    let other = place.output(&["learn", "--exact"], &["/bin/cat".into(), files_first(&place)]);
    assert!(!other.status.success());
    assert!(text(&other.stderr).contains("another `learn --exact`"), "{}", text(&other.stderr));
    fs::write(&go_on, "").unwrap();
    assert!(learner.wait().unwrap().success());
    assert_eq!(fs::read_to_string(&setting).unwrap(), before);

    // Killed in its middle.
    let mut learner = begin();
    learner.kill().unwrap();
    learner.wait().unwrap();
    until("the read-ahead has its old value", || fs::read_to_string(&setting).unwrap() == before);
    fs::write(&go_on, "").unwrap();
}

fn files_first(place: &Place) -> String {
    place.path("first").to_str().unwrap().to_owned()
}

/// Waits for something that is about to happen.
fn until(what: &str, mut ask: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !ask() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}: not within a minute");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_is_asked_for_later_is_recorded_again() {
    let test = "what_is_asked_for_later_is_recorded_again";
    let place = Place::new();
    let command = place.command("pie", 1200, "");
    if place.recorded_in_bursts(test, &command).is_none() {
        return;
    }
    let again = place.output(&["learn", "--disk-order"], &command);
    assert!(text(&again.stderr).contains("once more"), "{}", text(&again.stderr));
    assert_eq!(place.profile()["disk_order"], true);
    // Without the option, what was recorded with it is looked at.
    let chosen = place.output(&["learn"], &command);
    assert!(text(&chosen.stderr).contains("burst at"), "{}", text(&chosen.stderr));
    assert_eq!(place.profile()["disk_order"], true);
}

#[test]
fn arguments_are_the_programs_whatever_bytes_and_stars_they_have() {
    let place = Place::new();
    let strange = OsString::from_vec(b"a\xffb".to_vec());
    for words in [&["learn", "--user"][..], &["run"], &["run", "--verbose"]] {
        let mut warmset = place.warmset(words, &["/bin/echo".into(), "x".into()]);
        let found = warmset.arg(&strange).output().unwrap();
        assert_eq!((found.status.code(), &found.stdout[..]), (Some(0), &b"x a\xffb\n"[..]), "{words:?}");
    }
    // A star in what was recorded is a star, and only in a pattern more than that.
    let echo = |word: &str| vec!["/bin/echo".to_owned(), word.to_owned()];
    place.output(&["learn", "--user"], &echo("*"));
    let missing =
        |command: &[String]| text(&place.output(&["run"], command).stderr).contains("no profile yet");
    assert!(!missing(&echo("*")) && missing(&echo("other")));
    place.output(&["learn", "--user", "--match", "*"], &echo("one"));
    assert!(!missing(&echo("other")));
}

#[test]
fn a_program_that_traces_itself_runs_as_alone() {
    let place = Place::new();
    let command = place.command("pie", 1, "ptrace");
    let plain = Command::new(&command[0]).args(&command[1..]).output().unwrap();
    let test = "a_program_that_traces_itself_runs_as_alone";
    let Some(learned) = place.recorded_as_root(test, &command) else { return };
    assert_eq!((learned.status, &learned.stdout), (plain.status, &plain.stdout));
    let found = place.output(&["run", "--trigger", "instruction"], &command);
    assert_eq!((found.status, &found.stdout), (plain.status, &plain.stdout));
}

#[test]
fn without_a_profile_one_line_says_how_to_learn_one() {
    let place = Place::new();
    let found = place.output(&["run"], &["/bin/sh".into(), "-c".into(), "echo out; exit 5".into()]);
    assert_eq!((found.status.code(), text(&found.stdout).as_str()), (Some(5), "out\n"));
    let errors = text(&found.stderr);
    assert!(errors.lines().count() == 1 && errors.contains("warmset learn -- /bin/sh"), "{errors}");
    // A profile that cannot be read does not stop the program.
    fs::create_dir_all(place.path("data/warmset/profiles")).unwrap();
    place.output(&["learn", "--user"], &["/bin/true".into()]);
    for entry in fs::read_dir(place.path("data/warmset/profiles")).unwrap() {
        fs::write(entry.unwrap().path(), b"{}").unwrap();
    }
    let found = place.output(&["run"], &["/bin/true".into()]);
    assert_eq!(found.status.code(), Some(0));
    assert!(text(&found.stderr).contains("is not a profile"), "{}", text(&found.stderr));
}

#[test]
fn a_profile_is_drawn() {
    let place = Place::new();
    place.output(&["learn", "--user"], &place.command("pie", 1, ""));
    let listed = text(&place.output(&["profile", "list"], &[]).stdout);
    let name = listed.split_whitespace().next().unwrap();
    let shown = text(&place.output(&["profile", "show", name], &[]).stdout);
    assert!(shown.contains('█') && shown.contains("trigger") && shown.contains("launch"), "{shown}");
    let svg = place.path("drawing.svg");
    let drawn = place.output(&["profile", "show", name, "--svg", svg.to_str().unwrap()], &[]);
    assert!(drawn.status.success(), "{}", text(&drawn.stderr));
    assert!(fs::read_to_string(&svg).unwrap().starts_with("<svg"));
    let gone = place.output(&["profile", "show", "nothing"], &[]);
    assert_eq!(gone.status.code(), Some(2));
    assert!(text(&gone.stderr).contains("warmset profile list"), "{}", text(&gone.stderr));
}
