//! `warmset learn`, `run` and `profile` with a program whose reads are known.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const MIB: u64 = 1 << 20;
const SECOND: u64 = 3 << 19;

/// A directory with the program, its two files, and profiles.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let place = Self { directory };
        for (name, size) in [("first", 3 * MIB), ("second", SECOND)] {
            fs::write(place.path(name), vec![7; size as usize]).unwrap();
        }
        for (name, flags) in [("pie", ["-pie", "-fPIE"]), ("fixed", ["-no-pie", "-fno-pie"])] {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program.c");
            let built = Command::new("cc")
                .args(["-O1", "-Wl,--build-id", "-pthread"])
                .args(flags)
                .args([source.as_os_str(), "-o".as_ref(), place.path(name).as_os_str()])
                .status()
                .unwrap();
            assert!(built.success());
        }
        place
    }

    /// Drops the files from the page cache. What was just written is there in large folios, which are mapped whole at
    /// their first fault: then no tracepoint tells what else of them is touched.
    fn evict(&self) {
        for name in ["first", "second", "pie", "fixed"] {
            let file = fs::File::open(self.path(name)).unwrap();
            file.sync_all().unwrap();
            fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    fn command(&self, binary: &str, wait_ms: u32, mode: &str) -> Vec<String> {
        let text = |name: &str| self.path(name).to_str().unwrap().to_owned();
        // Exit status 3 would be a failure to learn from.
        let line = "\"$@\"; code=$?; test $code = 3 || exit $code";
        let mut words: Vec<String> = ["/bin/sh", "-c", line, "sh"].map(str::to_owned).to_vec();
        words.extend([text(binary), text("first"), text("second"), wait_ms.to_string()]);
        words.extend((!mode.is_empty()).then(|| mode.to_owned()));
        words
    }

    fn warmset(&self, words: &[&str], command: &[String]) -> Command {
        let mut warmset = Command::new(env!("CARGO_BIN_EXE_warmset"));
        warmset.env("XDG_DATA_HOME", self.path("data")).stdin(Stdio::null()).args(words);
        if !command.is_empty() {
            warmset.arg("--").args(command);
        }
        warmset
    }

    fn output(&self, words: &[&str], command: &[String]) -> Output {
        self.warmset(words, command).output().unwrap()
    }

    /// The only profile, as `profile show --json` gives it.
    fn profile(&self) -> Value {
        let listed = text(&self.output(&["profile", "list"], &[]).stdout);
        let name =
            listed.split_whitespace().next().unwrap_or_else(|| panic!("no profile: {listed}")).to_owned();
        let shown = self.output(&["profile", "show", "--json", &name], &[]);
        serde_json::from_slice::<Value>(&shown.stdout).unwrap()["profile"].take()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether the recorder for root works here; says so where it does not.
fn has_tracepoints(test: &str, learned: &Output) -> bool {
    let works = text(&learned.stderr).contains("as root");
    if !works {
        eprintln!("SKIPPED {test}: no tracepoints here: {}", text(&learned.stderr));
    }
    works
}

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
        for options in [&["learn"][..], &["learn", "--user"]] {
            let place = Place::new();
            let command = place.command(binary, 1, mode);
            let plain = Command::new(&command[0]).args(&command[1..]).output().unwrap();
            place.evict();
            let learned = place.output(options, &command);
            if options.len() == 1 && !has_tracepoints(test, &learned) {
                continue;
            }
            let what = format!("{options:?} {binary} {mode}: {}", text(&learned.stderr));
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
    place.evict();
    let learned = place.output(&["learn"], &command);
    if !has_tracepoints(test, &learned) {
        return;
    }
    assert!(text(&learned.stderr).contains("once more"), "{}", text(&learned.stderr));
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
fn a_program_that_traces_itself_runs_as_alone() {
    let place = Place::new();
    let command = place.command("pie", 1, "ptrace");
    let plain = Command::new(&command[0]).args(&command[1..]).output().unwrap();
    place.evict();
    let learned = place.output(&["learn"], &command);
    if has_tracepoints("a_program_that_traces_itself_runs_as_alone", &learned) {
        assert_eq!((learned.status, &learned.stdout), (plain.status, &plain.stdout));
        let found = place.output(&["run", "--trigger", "instruction"], &command);
        assert_eq!((found.status, &found.stdout), (plain.status, &plain.stdout));
    }
}

/// The processes that execute this `warmset` and were not started by the test itself: the fetching ones.
fn fetching(place: &Place) -> Vec<i32> {
    let entries =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    let processes = entries.filter_map(|name| name.parse::<i32>().ok());
    let data = place.path("data");
    let ours = |process: &i32| {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        let program = fs::read_link(format!("/proc/{process}/exe")).unwrap_or_default();
        program == Path::new(env!("CARGO_BIN_EXE_warmset"))
            && text(&environment).contains(&format!("XDG_DATA_HOME={}", data.display()))
    };
    processes.filter(ours).collect()
}

#[test]
fn the_program_survives_the_death_of_what_fetches() {
    let place = Place::new();
    let command = place.command("pie", 1200, "thread");
    place.evict();
    let learned = place.output(&["learn"], &command);
    if !has_tracepoints("the_program_survives_the_death_of_what_fetches", &learned) {
        return;
    }
    place.output(&["learn"], &command);
    let runs: Vec<_> = (0..100)
        .map(|_| {
            let mut run = place.warmset(&["run", "--trigger", "instruction"], &command);
            run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    // Some die before their trigger is set, some after; each in its turn, whatever it does.
    let mut killed = 0;
    let end = Instant::now() + Duration::from_secs(60);
    let programs: Vec<i32> = runs.iter().map(|run| run.id() as i32).collect();
    while killed < 100 && Instant::now() < end {
        let alive: Vec<i32> =
            fetching(&place).into_iter().filter(|process| !programs.contains(process)).collect();
        if alive.is_empty() && killed > 0 {
            break;
        }
        for process in alive {
            killed += usize::from(kill_process(Pid::from_raw(process).unwrap(), Signal::KILL).is_ok());
        }
    }
    assert!(killed > 0, "there was nothing to kill");
    for run in runs {
        let found = run.wait_with_output().unwrap();
        assert_eq!(
            (found.status.code(), &found.stdout),
            (Some(0), &learned.stdout),
            "{}",
            text(&found.stderr)
        );
    }
    let end = Instant::now() + Duration::from_secs(20);
    while !fetching(&place).is_empty() {
        assert!(Instant::now() < end, "what fetches has not ended with its program");
        std::thread::yield_now();
    }
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
