//! What a program sees and does is the same alone, recorded, and run with its profile.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use warmset_prefetch::Store;

use crate::place::{Place, text};

/// Each way to start a program beside its own.
const WAYS: [&[&str]; 4] = [&["learn", "--user"], &["learn"], &["run"], &["run", "--trigger", "launch"]];

fn script(place: &Place, name: &str, text: &str) {
    fs::write(place.path(name), text).unwrap();
    fs::set_permissions(place.path(name), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn names_and_relative_paths_are_the_programs_own() {
    let place = Place::new();
    place.build("name.c", "name", &[]);
    script(&place, "script", "#!/bin/sh\necho \"$0 $*\"\n");
    script(&place, "bare", "echo \"$0 $*\"\n");
    fs::create_dir(place.path("sub")).unwrap();
    let here = place.path("");
    let start = |mut command: Command, path: &OsStr| {
        let found = command.current_dir(&here).env("PATH", path).output().unwrap();
        (found.status.code(), text(&found.stdout), text(&found.stderr))
    };
    let relative = [".:/usr/bin:/bin", ":/usr/bin:/bin", "sub/../:/usr/bin:/bin"];
    let names = ["./name", "./script", "./bare", "sub/../script"].map(|name| (name, "/usr/bin:/bin"));
    let on_path = relative.iter().flat_map(|path| ["name", "script", "bare"].map(|name| (name, *path)));
    for (name, path) in names.into_iter().chain(on_path) {
        // A shell's `exec` finds and starts it as the C library does.
        let mut plain = Command::new("/usr/bin/env");
        plain.args([name, "a b", ""]);
        let (code, wanted, _) = start(plain, path.as_ref());
        assert_eq!(code, Some(0), "{name} {path}");
        for way in WAYS {
            let words = [name, "a b", ""].map(str::to_owned);
            let (code, found, errors) = start(place.warmset(way, &words), path.as_ref());
            assert_eq!((code, found.as_str()), (Some(0), wanted.as_str()), "{way:?} {name} {path}: {errors}");
            let silent = way[0] == "learn" || errors.is_empty();
            assert!(silent, "{way:?} {name} {path}: {errors}");
        }
    }
}

#[test]
fn what_cannot_be_started_is_told_as_a_shell_does() {
    let place = Place::new();
    fs::write(place.path("plain"), "").unwrap();
    fs::write(place.path("broken"), "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(place.path("broken"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = |name: &str| place.path(name).to_str().unwrap().to_owned();
    for way in WAYS {
        let told = |name: String| {
            let found = place.output(way, &[name]);
            (found.status.code(), text(&found.stderr))
        };
        for (name, code, reason) in [
            (path("plain"), 126, "no permission to execute it"),
            (path(""), 126, "is a directory"),
            (path("missing"), 127, "no such program"),
            ("no-such-program".to_owned(), 127, "no such program"),
        ] {
            let (found, errors) = told(name.clone());
            assert!(found == Some(code) && errors.contains(reason), "{way:?} {name} {found:?}: {errors}");
        }
        let (code, errors) = told(path("broken"));
        let wanted = if way[0] == "run" { 126 } else { 2 };
        assert!(code == Some(wanted) && errors.contains("No such file"), "{way:?} {code:?}: {errors}");
    }
}

/// The same with the default actions for signals: who runs the tests in the background has SIGINT ignored.
fn interruptible(command: &Command) -> Command {
    let mut prefixed = Command::new("/usr/bin/env");
    prefixed.arg("--default-signal=HUP,INT,QUIT,TERM").arg(command.get_program()).args(command.get_args());
    prefixed
}

/// A shell that says when it is ready, and ends with code 0 by SIGTERM and 5 by SIGINT.
fn waiting(place: &Place, way: &[&str]) -> (Child, BufReader<std::process::ChildStdout>) {
    let line = "trap 'echo ended; exit 0' TERM; trap 'echo ended; exit 5' INT; echo ready; \
                while test -e \"$1\"; do sleep 0.02; done";
    let mut words = ["/bin/sh", "-c", line, "sh"].map(str::to_owned).to_vec();
    words.push(place.path("first").to_str().unwrap().to_owned());
    let mut started = interruptible(&place.warmset(way, &words));
    started.env("XDG_DATA_HOME", place.path("data")).stdin(Stdio::null());
    let mut started = started.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(started.stdout.take().unwrap());
    let mut said = String::new();
    output.read_line(&mut said).unwrap();
    assert_eq!(said, "ready\n", "{way:?}");
    (started, output)
}

#[test]
fn a_program_that_is_asked_to_end_does_so_and_is_recorded() {
    let place = Place::new();
    for way in WAYS {
        for (signal, code) in [(Signal::TERM, 0), (Signal::INT, 5)] {
            let (started, mut output) = waiting(&place, way);
            kill_process(Pid::from_child(&started), signal).unwrap();
            let mut rest = String::new();
            output.read_to_string(&mut rest).unwrap();
            let found = started.wait_with_output().unwrap();
            let errors = text(&found.stderr);
            assert_eq!((found.status.code(), rest.as_str()), (Some(code), "ended\n"), "{way:?}: {errors}");
            if way[0] == "learn" {
                let wanted = if code == 0 { "warmset: profile sh-" } else { "no profile" };
                assert!(errors.contains(wanted), "{way:?} {signal:?}: {errors}");
            }
        }
    }
}

#[test]
fn a_program_that_ctrl_c_ends_is_recorded() {
    let place = Place::new();
    for way in [&["learn", "--user"][..], &["learn"]] {
        // `script` makes a terminal, whose control-C goes to all of them.
        let line = "echo ready; exec sleep 60";
        let command = interruptible(&place.warmset(way, &["/bin/sh".into(), "-c".into(), line.into()]));
        let words: Vec<String> = std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(|word| format!("'{}'", word.to_str().unwrap()))
            .collect();
        let mut terminal = Command::new("script");
        terminal.args(["-qec", &words.join(" "), "/dev/null"]).env("XDG_DATA_HOME", place.path("data"));
        let mut terminal = terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(terminal.stdout.take().unwrap());
        let mut said = String::new();
        while !said.contains("ready") {
            assert!(output.read_line(&mut said).unwrap() > 0, "{way:?}: {said}");
        }
        let mut keys = terminal.stdin.take().unwrap();
        std::io::Write::write_all(&mut keys, b"\x03").unwrap();
        output.read_to_string(&mut said).unwrap();
        assert_eq!(terminal.wait().unwrap().code(), Some(130), "{way:?}: {said}");
        assert!(said.contains("warmset: profile sh-"), "{way:?}: {said}");
    }
}

#[test]
fn a_profile_is_found_by_its_programs_name_and_used_for_that_program_only() {
    let place = Place::new();
    let command = |word: &str| ["/bin/echo".to_owned(), word.to_owned()];
    place.output(&["learn", "--user"], &command("one"));
    let shown = place.output(&["profile", "show", "echo"], &[]);
    assert!(shown.status.success() && text(&shown.stdout).contains("echo one"), "{}", text(&shown.stdout));
    place.output(&["learn", "--user"], &command("two words"));
    let several = place.output(&["profile", "rm", "echo"], &[]);
    assert_eq!(several.status.code(), Some(2));
    assert!(
        text(&several.stderr).contains("there are 2 profiles of echo: echo-"),
        "{}",
        text(&several.stderr)
    );
    let listed = text(&place.output(&["profile", "list"], &[]).stdout);
    assert!(listed.contains("echo 'two words'"), "{listed}");
    let missing = text(&place.output(&["run"], &command("it's")).stderr);
    assert!(missing.ends_with(" warmset learn -- /bin/echo 'it'\\''s'\n"), "{missing}");
    // Another program's profile in the place of this one's.
    let store = Store::at(place.path("data/warmset/profiles"));
    let of = |program: &str, word: &str| store.path(&Store::name(program.as_ref(), &[word.to_owned()]));
    fs::copy(of("/bin/echo", "one"), of("/bin/printf", "one")).unwrap();
    let foreign = place.output(&["run"], &["/bin/printf".into(), "one".into()]);
    assert_eq!((foreign.status.code(), text(&foreign.stdout).as_str()), (Some(0), "one"));
    let errors = text(&foreign.stderr);
    assert!(errors.contains("runs without prefetching") && errors.contains("\"/bin/echo\""), "{errors}");
}
