//! Instructions as triggers, in each way in which they are watched: the program is the same, and each fires once.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read as _};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use object::{Object, ObjectSegment, ObjectSymbol};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use warmset_prefetch::{Burst, FileRecord, Profile, Read, Recorder, Store, Trigger};

use crate::place::{MIB, Place, SECOND, text};

/// How instructions are watched.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    RegisterAsRoot,
    Register,
    Page,
}

const WAYS: [Way; 3] = [Way::RegisterAsRoot, Way::Register, Way::Page];

impl Way {
    /// What has to be executed before `warmset`, so that it has this way only; `None` where this machine cannot.
    fn prefix(self, place: &Place) -> Option<Vec<String>> {
        let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
        let is_root = geteuid().is_root();
        let user = || {
            let words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"];
            if is_root { words.map(str::to_owned).to_vec() } else { Vec::new() }
        };
        match self {
            Self::RegisterAsRoot => is_root.then(Vec::new),
            Self::Register => paranoid.trim().parse().is_ok_and(|level: i32| level <= 2).then(user),
            Self::Page => {
                place.build("deny.c", "deny", &[]);
                let mut words = user();
                words.push(place.path("deny").to_str().unwrap().to_owned());
                Some(words)
            }
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::RegisterAsRoot | Self::Register => "with a breakpoint register",
            Self::Page => "by its page table",
        }
    }
}

/// Each way that this machine has, with what has to be executed first; says which it has not.
fn ways(test: &str, place: &Place) -> Vec<(Way, Vec<String>)> {
    let found = WAYS.into_iter().filter_map(|way| match way.prefix(place) {
        Some(words) => Some((way, words)),
        None => {
            eprintln!("SKIPPED {test}: {way:?}: not for this user on this machine");
            None
        }
    });
    found.collect()
}

/// The instruction at a symbol.
fn instruction(path: &Path, symbol: &str) -> Trigger {
    let bytes = fs::read(path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let address = file.symbols().find(|each| each.name() == Ok(symbol)).unwrap().address();
    let holds = |segment: &object::Segment<'_, '_>| {
        (segment.address()..segment.address() + segment.size()).contains(&address)
    };
    let segment = file.segments().find(holds).unwrap();
    let offset = address - segment.address() + segment.file_range().0;
    let build_id = file.build_id().unwrap().unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
    Trigger::Instruction { path: path.to_owned(), build_id, offset }
}

/// Saves a profile of the program with these arguments, whose late burst is `second`.
fn save(place: &Place, program: &Path, arguments: &[String], trigger: Trigger) {
    let record = |path: &Path| FileRecord::of(path, &fs::metadata(path).unwrap());
    let files = vec![record(&place.path("first")), record(&place.path("second"))];
    let read = |file, start, end, at_ms| Read { file, start, end, at_ms, disk_offset: 0 };
    let burst = |at_ms, trigger: Trigger| Burst {
        reads: 1,
        start_ms: at_ms,
        end_ms: at_ms,
        quiet_ms: at_ms,
        candidates: vec![trigger.clone()],
        trigger,
        lead_ms: Some(0),
    };
    let profile = Profile {
        program: program.to_owned(),
        arguments: arguments.to_vec(),
        recorder: Recorder::Tracepoints,
        is_pattern: false,
        exact: false,
        disk_order: false,
        seconds: 1.0,
        files,
        reads: vec![read(0, MIB, 2 * MIB, 0), read(1, 0, SECOND, 500)],
        bursts: vec![burst(0, Trigger::Launch), burst(500, trigger)],
    };
    Store::at(place.path("data/warmset/profiles")).save(&profile).unwrap();
}

/// `warmset run` of a command, after what makes it have one way only.
fn run(place: &Place, prefix: &[String], options: &[&str], command: &[String]) -> Command {
    let warmset = env!("CARGO_BIN_EXE_warmset").to_owned();
    let words: Vec<&String> = prefix.iter().chain([&warmset]).collect();
    let mut run = Command::new(words[0]);
    run.args(&words[1..]).arg("run").args(options).arg("--").args(command);
    run.env("XDG_DATA_HOME", place.path("data")).stdin(Stdio::null());
    run
}

/// These tests depend on when something happens: only one runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets a run go on as its triggers are seen: to the instruction when it is watched, and to its end when what fetches has
/// ended. Returns its standard output and error.
fn guided(
    mut run: Child,
    gate: &Path,
    way: Way,
    directory: &str,
    index: usize,
) -> (Option<i32>, String, String) {
    let mut output = run.stdout.take().unwrap();
    let output = std::thread::spawn(move || {
        let mut all = String::new();
        output.read_to_string(&mut all).map(|_| all).unwrap()
    });
    let open = |time: u32| drop(File::create(format!("{}.{time}", gate.display())).unwrap());
    let mut errors = String::new();
    let mut watched = false;
    for line in BufReader::new(run.stderr.take().unwrap()).lines().map(Result::unwrap) {
        errors = errors + &line + "\n";
        if line.contains(way.words()) && !watched {
            watched = true;
            // A child that was started just before, and what executes itself, are found a moment later.
            std::thread::sleep(Duration::from_secs(1));
            open(1);
        }
        if line.contains("a trigger has fired") {
            assert!(watched, "{errors}");
            // Nothing stays beside the program, which still waits.
            let end = Instant::now() + Duration::from_secs(20);
            while fetching(directory, &[]).contains_key(&index) {
                assert!(Instant::now() < end, "what fetches goes on: {errors}");
                std::thread::sleep(Duration::from_millis(5));
            }
            assert!(run.try_wait().unwrap().is_none(), "{errors}");
            open(2);
        }
    }
    open(2);
    (run.wait().unwrap().code(), output.join().unwrap(), errors)
}

#[test]
fn each_way_fires_once_and_the_program_is_as_alone() {
    let _alone = alone();
    let place = Place::new();
    place.build("library.c", "late.so", &["-shared", "-fPIC"]);
    let path = |name: &str| place.path(name).to_str().unwrap().to_owned();
    let directory = path("data");
    let modes = [
        "", "fork", "thread", "exec", "dlopen", "ptrace", "traceme", "threads", "child", "traced", "library",
    ];
    let modes = modes.map(|mode| ("pie", mode)).into_iter().chain([("fixed", ""), ("fixed", "exec")]);
    let modes: Vec<(&str, &str)> = modes.collect();
    let command = |binary: &str, mode: &str, gate: &str| {
        let mut command = vec![path(binary), path("first"), path("second"), path(gate), mode.to_owned()];
        command.extend((mode == "library").then(|| path("late.so")));
        command
    };
    let piped = |command: &mut Command| {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    for time in ["open.1", "open.2"] {
        fs::write(place.path(time), []).unwrap();
    }
    let plain = modes.iter().map(|(binary, mode)| {
        let command = command(binary, mode, "open");
        Command::new(&command[0]).args(&command[1..]).output().unwrap()
    });
    let plain: Vec<Output> = plain.collect();
    for (way, prefix) in ways("each_way_fires_once_and_the_program_is_as_alone", &place) {
        place.evict();
        std::thread::scope(|scope| {
            for (index, ((binary, mode), plain)) in modes.iter().zip(&plain).enumerate() {
                let gate = format!("{way:?}-{binary}-{mode}");
                let command = command(binary, mode, &gate);
                let (code, symbol) =
                    if *mode == "library" { ("late.so", "late") } else { (*binary, "read_second") };
                save(&place, &place.path(binary), &command[1..], instruction(&place.path(code), symbol));
                let mut start = run(&place, &prefix, &["--verbose", "--trigger", "instruction"], &command);
                let child = piped(start.env("RUN", index.to_string()));
                let (gate, directory) = (place.path(&gate), &directory);
                scope.spawn(move || {
                    let (code, output, errors) = guided(child, &gate, way, directory, index);
                    let what = format!("{way:?} {command:?}: {errors}");
                    assert_eq!((code, output), (plain.status.code(), text(&plain.stdout)), "{what}");
                    assert_eq!(errors.matches("a trigger has fired").count(), 1, "{what}");
                });
            }
        });
    }
}

/// The processes that fetch for profiles in a directory, by the number of their run: they execute `warmset`, and were not
/// started by the test itself.
fn fetching(directory: &str, known: &[i32]) -> HashMap<usize, i32> {
    let entries =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    let processes = entries.filter_map(|name| name.parse::<i32>().ok());
    let index = |process: i32| {
        let program = fs::read_link(format!("/proc/{process}/exe")).ok()?;
        if program != Path::new(env!("CARGO_BIN_EXE_warmset")) || known.contains(&process) {
            return None;
        }
        let environment = text(&fs::read(format!("/proc/{process}/environ")).ok()?);
        let ours = environment.split('\0').any(|word| word.strip_prefix("XDG_DATA_HOME=") == Some(directory));
        let index = environment.split('\0').find_map(|word| word.strip_prefix("RUN="))?.parse().ok()?;
        ours.then_some((index, process))
    };
    processes.filter_map(index).collect()
}

/// Whether the code that a process has mapped of this file is the file's; `None` if it does not execute it (yet).
fn code_is_unchanged(process: u32, path: &Path) -> Option<bool> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).ok()?;
    let memory = File::open(format!("/proc/{process}/mem")).ok()?;
    let file = fs::read(path).unwrap();
    let line = maps.lines().find(|line| line.contains(" r-xp ") && line.ends_with(path.to_str().unwrap()))?;
    let mut fields = line.split(['-', ' ']);
    let mut number = || u64::from_str_radix(fields.next()?, 16).ok();
    let (start, end) = (number()?, number()?);
    let offset = u64::from_str_radix(line.split(' ').nth(2)?, 16).ok()?;
    let mut code = vec![0; (end - start) as usize];
    memory.read_exact_at(&mut code, start).ok()?;
    let wanted = &file[offset as usize..file.len().min((offset + end - start) as usize)];
    Some(code[..wanted.len()] == *wanted)
}

/// Many runs look at all processes at the same time.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// When a run's fetching process is killed.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// So long after it was started: mostly before its trigger is watched.
    Early(Duration),
    /// As soon as it says that its trigger is watched.
    Watching,
    /// So long after the program was let go on to what fires the trigger.
    Firing(Duration),
}

/// Kills what fetches for a run. Returns whether it was still there.
fn kill(run: &mut Child, moment: Moment, gate: &Path, words: &str, directory: &str, index: usize) -> bool {
    let own = run.id() as i32;
    if let Moment::Watching | Moment::Firing(_) = moment {
        let mut lines = BufReader::new(run.stderr.as_mut().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.contains(words)), "run {index}: it is not watched: {words}");
    }
    let end = Instant::now() + Duration::from_secs(20);
    let helper = || fetching(directory, &[own]).get(&index).and_then(|&helper| Pid::from_raw(helper));
    let mut found = helper();
    while found.is_none() {
        assert!(Instant::now() < end && run.try_wait().unwrap().is_none(), "run {index}: nothing fetches");
        std::thread::sleep(LOOK_EVERY);
        found = helper();
    }
    match moment {
        Moment::Early(delay) => std::thread::sleep(delay),
        Moment::Watching => {}
        Moment::Firing(delay) => {
            File::create(format!("{}.1", gate.display())).unwrap();
            std::thread::sleep(delay);
        }
    }
    let mut killed = false;
    // Early it may have been the process that starts it.
    while let Some(process) = found {
        assert!(Instant::now() < end, "run {index}: what fetches is still there");
        killed |= kill_process(process, Signal::KILL).is_ok();
        std::thread::sleep(LOOK_EVERY);
        found = helper();
    }
    killed
}

#[test]
fn the_program_survives_the_death_of_what_fetches_at_any_moment() {
    const KILLS: usize = 100;
    const RUNS: usize = 10;
    let _alone = alone();
    let test = "the_program_survives_the_death_of_what_fetches_at_any_moment";
    let place = Place::new();
    let path = |name: &str| place.path(name).to_str().unwrap().to_owned();
    let (pie, directory) = (place.path("pie"), path("data"));
    let code = instruction(&pie, "read_second");
    let file = (None, vec![], Trigger::Launch);
    let ways = ways(test, &place).into_iter().map(|(way, prefix)| (Some(way), prefix, code.clone()));
    for (number, (way, prefix, trigger)) in ways.chain([file]).enumerate() {
        let (kind, words) = way.map_or(("file", "watches for open"), |way| ("instruction", way.words()));
        let mut killed = 0;
        for batch in 0.. {
            if killed >= KILLS {
                break;
            }
            assert!(batch < 3 * KILLS / RUNS, "{way:?}: {killed} killed");
            let gone = Barrier::new(RUNS);
            let kills = std::thread::scope(|scope| {
                let runs = (0..RUNS).map(|index| {
                    let gate = place.path(&format!("gate-{number}-{batch}-{index}"));
                    // Opens are counted whoever opens: each run has a file of its own.
                    let second = place.path(&format!("second-{number}-{index}"));
                    fs::copy(place.path("second"), &second).unwrap();
                    let of = |path: &Path| path.to_str().unwrap().to_owned();
                    let command = [of(&pie), path("first"), of(&second), of(&gate), "threads".to_owned()];
                    let open = Trigger::File { path: second.clone(), nth: 1 };
                    save(&place, &pie, &command[1..], if way.is_some() { trigger.clone() } else { open });
                    let mut run = run(&place, &prefix, &["--verbose", "--trigger", kind], &command);
                    run.env("RUN", index.to_string()).stdout(Stdio::piped()).stderr(Stdio::piped());
                    let mut run = run.spawn().unwrap();
                    // No two of them alike.
                    let spread = ((batch * RUNS + index) as u64 * 7919) % 1000;
                    let moment = match index % 3 {
                        0 => Moment::Early(Duration::from_micros(spread * 100)),
                        1 => Moment::Watching,
                        _ => Moment::Firing(Duration::from_micros(spread * 5)),
                    };
                    let (gone, pie, directory) = (&gone, &pie, &directory);
                    scope.spawn(move || {
                        let what = format!("{way:?} {moment:?} run {index}");
                        let killed = catch_unwind(AssertUnwindSafe(|| {
                            kill(&mut run, moment, &gate, words, directory, index)
                        }));
                        // Whatever one of them left would be in the others, too. All have to come here, also if one failed.
                        gone.wait();
                        let killed = killed.unwrap_or_else(|panic| resume_unwind(panic));
                        let unchanged = code_is_unchanged(run.id(), pie);
                        assert_eq!(unchanged, Some(true), "{what}: the program's code is not the file's");
                        for time in [1, 2] {
                            File::create(format!("{}.{time}", gate.display())).unwrap();
                        }
                        let found = run.wait_with_output().unwrap();
                        let what = format!("{what}: {}", text(&found.stderr));
                        let sum = 7 * MIB + 8 * 7 * SECOND / 4096;
                        let wanted = (Some(3), format!("sum {sum} x\n"));
                        let what = format!("{what}{}", found.status);
                        assert_eq!((found.status.code(), text(&found.stdout)), wanted, "{what}");
                        usize::from(killed)
                    })
                });
                let runs: Vec<_> = runs.collect();
                runs.into_iter().map(|run| run.join().unwrap()).sum::<usize>()
            });
            killed += kills;
        }
    }
}

/// What the program prints: 7 for each byte of 1 MiB of `first`, and for each page of `second`.
fn sum() -> String {
    (7 * MIB + 7 * SECOND / 4096).to_string()
}

#[test]
fn signals_terminal_and_environment_are_the_programs_own() {
    let _alone = alone();
    let place = Place::new();
    let line = "trap 'echo got; exit 7' USR1; echo $$; while :; do read line || exit 8; done";
    let code = instruction(&place.path("pie"), "read_second");
    for (way, prefix) in ways("signals_terminal_and_environment_are_the_programs_own", &place) {
        let command = ["/bin/sh", "-c", line].map(str::to_owned);
        save(&place, Path::new("/bin/sh"), &command[1..], code.clone());
        let mut start = run(&place, &prefix, &["--trigger", "instruction"], &command);
        let mut child =
            start.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The program has the process that was started.
        let mut told = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut told).unwrap();
        assert_eq!(told.trim(), child.id().to_string(), "{way:?}");
        kill_process(Pid::from_child(&child), Signal::USR1).unwrap();
        // The shell runs the trap when its input ends or the signal interrupts it.
        drop(child.stdin.take());
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        assert_eq!((child.wait().unwrap().code(), rest.as_str()), (Some(7), "got\n"), "{way:?}");

        let line = "test -t 0 && test -t 1 && test -t 2 && echo terminal; stty -a | head -n 1; env | grep -v '^_=' | sort; \
                    ps -o stat= -p $$ | tr -d ' \n'; kill -TERM $$";
        let command = ["/bin/sh", "-c", line].map(str::to_owned);
        save(&place, Path::new("/bin/sh"), &command[1..], code.clone());
        let quoted = |words: &[String]| {
            let words = words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''")));
            words.collect::<Vec<_>>().join(" ")
        };
        let in_terminal = |line: String| {
            let mut script = Command::new("script");
            script
                .args(["-qec", &line, "/dev/null"])
                .env("XDG_DATA_HOME", place.path("data"))
                .stdin(Stdio::null());
            let found = script.output().unwrap();
            (found.status.code(), text(&found.stdout))
        };
        let mut words = prefix.clone();
        words.extend(
            [env!("CARGO_BIN_EXE_warmset"), "run", "--trigger", "instruction", "--"].map(str::to_owned),
        );
        words.extend(command.clone());
        let mut plain = prefix.clone();
        plain.extend(command);
        let plain = in_terminal(quoted(&plain));
        assert!(plain.1.contains("terminal"), "{plain:?}");
        assert_eq!(in_terminal(quoted(&words)), plain, "{way:?}");
    }
}

#[test]
fn a_changed_file_is_no_trigger_and_run_says_to_learn_again() {
    let _alone = alone();
    let place = Place::new();
    let path = |name: &str| place.path(name).to_str().unwrap().to_owned();
    let command = [path("pie"), path("first"), path("second"), "1".to_owned()];
    let options = &["--verbose"][..];
    let replace = |name: &str, bytes: Vec<u8>| {
        let aside: PathBuf = place.path("aside");
        fs::copy(place.path(name), &aside).unwrap();
        fs::write(&aside, bytes).unwrap();
        fs::rename(aside, place.path(name)).unwrap();
    };
    save(&place, &place.path("pie"), &command[1..], Trigger::File { path: place.path("second"), nth: 1 });
    let found = run(&place, &[], options, &command).output().unwrap();
    assert!(!text(&found.stderr).contains("have changed"), "{}", text(&found.stderr));
    assert!(text(&found.stderr).contains("watches for open 1 of"), "{}", text(&found.stderr));

    replace("second", vec![7; SECOND as usize]);
    let found = run(&place, &[], options, &command).output().unwrap();
    let errors = text(&found.stderr);
    assert!(errors.contains("60 % of the profile's bytes have changed"), "{errors}");
    assert!(errors.contains(&format!("warmset learn -- {}", command.join(" "))), "{errors}");
    assert!(errors.contains("second: it has changed: its burst is fetched at launch"), "{errors}");
    assert_eq!(text(&found.stdout), format!("sum {} x\n", sum()));
    // The same without options, where the arguments are not parsed.
    let found = run(&place, &[], &[], &command).output().unwrap();
    assert!(text(&found.stderr).contains("have changed"), "{}", text(&found.stderr));

    save(&place, &place.path("pie"), &command[1..], instruction(&place.path("pie"), "read_second"));
    let program = fs::read(place.path("pie")).unwrap();
    let mut program = program;
    let id = object::File::parse(&*program).unwrap().build_id().unwrap().unwrap().to_vec();
    let at = program.windows(id.len()).position(|bytes| bytes == id).unwrap();
    program[at] ^= 1;
    replace("pie", program);
    let found = run(&place, &[], options, &command).output().unwrap();
    let errors = text(&found.stderr);
    assert!(errors.contains("pie: it has changed: its burst is fetched at launch"), "{errors}");
    // The program itself has no ranges in this profile.
    assert!(!errors.contains("have changed;"), "{errors}");
    assert_eq!(text(&found.stdout), format!("sum {} x\n", sum()));
}
