//! `warmset direct` as a user meets it: the directories, the program that takes its place, and files moved in bulk.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

fn warmset(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warmset"));
    command.args(args).stdin(Stdio::null()).env_remove("LD_PRELOAD").env_remove("WARMSET_DIRECT_LIBRARY");
    command
}

fn direct(args: &[&str]) -> Output {
    let all: Vec<&str> = ["direct"].iter().chain(args).copied().collect();
    warmset(&all).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Bytes that repeat nowhere near a block's length.
fn bytes(len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

/// On a disk, where O_DIRECT matters; the build folder's.
fn on_disk() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

// ---- cat and cp

/// Around the block of 2 MiB, the page, and nothing.
const LENGTHS: [usize; 9] =
    [0, 1, 4095, 4096, 4097, (2 << 20) - 1, 2 << 20, (2 << 20) + 1, (17 << 20) + 12345];

#[test]
fn files_of_every_length_are_moved_whole() {
    for rooms in [(on_disk(), on_disk()), (on_disk(), TempDir::new().unwrap())] {
        let (from, to) = (rooms.0.path().join("from"), rooms.1.path().join("to"));
        for len in LENGTHS {
            let content = bytes(len);
            fs::write(&from, &content).unwrap();
            fs::set_permissions(&from, fs::Permissions::from_mode(0o640)).unwrap();
            let copied = direct(&["cp", path(&from), path(&to)]);
            assert!(copied.status.success(), "{len}: {}", text(&copied.stderr));
            assert!(fs::read(&to).unwrap() == content, "the copy of {len} bytes");
            assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o7777, 0o640);
            let shown = direct(&["cat", path(&from), path(&to)]);
            assert!(shown.stdout == [content.clone(), content].concat(), "{len} bytes twice");
            assert_eq!(
                (shown.status.code(), text(&shown.stderr)),
                (Some(0), ""),
                "no bar without a terminal"
            );
        }
        assert_eq!(fs::read_dir(rooms.1.path()).unwrap().count(), 1, "nothing is left aside");
    }
}

#[test]
fn a_copy_replaces_what_a_link_leads_to_and_goes_into_a_directory() {
    let room = on_disk();
    let file = |name: &str| room.path().join(name);
    fs::write(file("from"), "new").unwrap();
    fs::write(file("old"), "old").unwrap();
    fs::create_dir(file("dir")).unwrap();
    symlink(file("old"), file("link")).unwrap();
    assert!(direct(&["cp", path(&file("from")), path(&file("link"))]).status.success());
    assert_eq!(fs::read_to_string(file("old")).unwrap(), "new");
    assert!(fs::symlink_metadata(file("link")).unwrap().is_symlink());
    assert!(direct(&["cp", path(&file("from")), path(&file("dir"))]).status.success());
    assert_eq!(fs::read_to_string(file("dir/from")).unwrap(), "new");
}

#[test]
fn what_cannot_be_copied_is_named_and_the_target_stays() {
    let room = on_disk();
    let file = |name: &str| room.path().join(name);
    fs::write(file("one"), "one").unwrap();
    let failing = |args: &[&str]| {
        let done = direct(args);
        assert_eq!(done.status.code(), Some(2), "{args:?}");
        text(&done.stderr).to_owned()
    };
    assert!(failing(&["cp", path(&file("one")), path(&file("one"))]).contains("are the same file"));
    assert!(failing(&["cp", path(&file("none")), path(&file("one"))]).contains("none: "));
    assert!(failing(&["cp", path(room.path()), path(&file("one"))]).contains("directory"));
    assert!(failing(&["cp", path(&file("one")), path(&file("no/such"))]).contains("no/such: "));
    assert!(failing(&["cat", path(&file("one")), path(&file("none"))]).contains("none: "));
    assert_eq!(fs::read_to_string(file("one")).unwrap(), "one");
}

#[test]
fn cat_reads_what_is_no_file_and_stops_when_nobody_listens() {
    let done = direct(&["cat", "/proc/self/status", "/dev/null"]);
    assert!(text(&done.stdout).starts_with("Name:\twarmset"), "{}", text(&done.stdout));
    let room = on_disk();
    let large = room.path().join("large");
    fs::write(&large, bytes(32 << 20)).unwrap();
    let mut child = warmset(&["direct", "cat", path(&large)]).stdout(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 100];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(first, bytes(100)[..]);
    assert!(child.wait().unwrap().success(), "a closed pipe is no error");
}

// ---- run

/// A library that does nothing, compiled here; `None`, and the reason on stderr, without a compiler.
fn library(room: &Path, test: &str) -> Option<String> {
    let (source, built) = (room.join("nothing.c"), room.join("libnothing.so"));
    fs::write(&source, "int warmset_nothing;").unwrap();
    let done = Command::new("cc").args(["-shared", "-fPIC", "-o", path(&built), path(&source)]).output();
    if done.is_ok_and(|output| output.status.success()) {
        return Some(path(&built).to_owned());
    }
    eprintln!("SKIPPED {test}: there is no C compiler (cc)");
    None
}

#[test]
fn the_program_gets_the_library_the_directories_and_the_options() {
    let room = TempDir::new_in("/dev/shm").unwrap();
    let Some(library) = library(room.path(), "the_program_gets_the_library_the_directories_and_the_options")
    else {
        return;
    };
    let served = room.path().join("served");
    fs::create_dir(&served).unwrap();
    symlink(&served, room.path().join("link")).unwrap();
    let script = "echo $LD_PRELOAD; echo $WARMSET_DIRECT_DIRS; echo $WARMSET_DIRECT_STRICT $WARMSET_DIRECT_STATS; exit 7";
    let link = room.path().join("link");
    let mut command =
        warmset(&["direct", "run", "--dir", path(&link), "--dir", path(room.path()), "--strict"]);
    command.args(["--stats", "counts", "--", "sh", "-c", script]).current_dir(&served);
    command.env("WARMSET_DIRECT_LIBRARY", &library).env("LD_PRELOAD", &library);
    let done = command.output().unwrap();
    let expected = format!(
        "{library}:{library}\n{}:{}\n1 {}\n",
        path(&served),
        path(room.path()),
        path(&served.join("counts"))
    );
    assert_eq!(
        (text(&done.stdout), text(&done.stderr), done.status.code()),
        (expected.as_str(), "", Some(7))
    );
}

#[test]
fn programs_that_take_no_library_run_and_a_line_says_so() {
    let room = TempDir::new_in("/dev/shm").unwrap();
    let test = "programs_that_take_no_library_run_and_a_line_says_so";
    let Some(library) = library(room.path(), test) else { return };
    let (source, program) = (room.path().join("five.c"), room.path().join("five"));
    fs::write(&source, "int main(void) { return 5; }").unwrap();
    let built = Command::new("cc").args(["-static", "-o", path(&program), path(&source)]).output().unwrap();
    if !built.status.success() {
        eprintln!("SKIPPED {test}: the compiler cannot link statically");
        return;
    }
    // An executable file on a tmpfs that is mounted noexec cannot be started.
    let own = on_disk();
    let moved = own.path().join("five");
    fs::copy(&program, &moved).unwrap();
    let mut command = warmset(&["direct", "run", "--dir", path(room.path()), "--", path(&moved)]);
    let done = command.env("WARMSET_DIRECT_LIBRARY", &library).output().unwrap();
    assert_eq!(done.status.code(), Some(5));
    let errors = text(&done.stderr);
    assert!(errors.ends_with("runs as without `warmset direct`: it is statically linked\n"), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
}

#[test]
fn a_program_that_cannot_be_started_ends_with_126_and_a_missing_one_with_127() {
    let room = TempDir::new_in("/dev/shm").unwrap();
    let test = "a_program_that_cannot_be_started_ends_with_126_and_a_missing_one_with_127";
    let Some(library) = library(room.path(), test) else { return };
    let plain = room.path().join("plain");
    fs::write(&plain, "no program").unwrap();
    for (program, code) in [(path(&plain), 126), ("no-such-program-here", 127)] {
        let mut command = warmset(&["direct", "run", "--dir", path(room.path()), "--", program]);
        let done = command.env("WARMSET_DIRECT_LIBRARY", &library).output().unwrap();
        assert_eq!(done.status.code(), Some(code), "{program}: {}", text(&done.stderr));
        assert!(text(&done.stderr).contains(program), "{}", text(&done.stderr));
    }
}

#[test]
fn what_is_wrong_with_a_run_is_said_before_anything_is_started() {
    let room = TempDir::new_in("/dev/shm").unwrap();
    let colon = room.path().join("a:b");
    fs::create_dir(&colon).unwrap();
    let file = room.path().join("file");
    fs::write(&file, "").unwrap();
    let missing = room.path().join("none");
    for (directory, library, part) in [
        (path(&missing), "/dev/null", "none: "),
        (path(&colon), "/dev/null", "colon"),
        (path(&file), "/dev/null", "no directory"),
        (path(room.path()), "/no/such.so", "WARMSET_DIRECT_LIBRARY names /no/such.so"),
    ] {
        let mut command = warmset(&["direct", "run", "--dir", directory, "--", "echo", "started"]);
        let done = command.env("WARMSET_DIRECT_LIBRARY", library).output().unwrap();
        assert_eq!((done.status.code(), text(&done.stdout)), (Some(2), ""), "{directory}");
        assert!(text(&done.stderr).contains(part), "{part}: {}", text(&done.stderr));
    }
}

// ---- setup, status, teardown

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)))
}

/// The calls of one user: of nobody if the test runs as root, so that root's own directories stay out of it.
fn as_user(args: &[&str]) -> Output {
    let mut command = warmset(args);
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.output().unwrap()
}

const NOBODY: u32 = 65534;

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

/// A process that keeps a file open until its input ends.
fn keeper(file: &Path) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", "exec 7<\"$1\"; echo ready; read line", "sh", path(file)]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let mut child = command.spawn().unwrap();
    let mut ready = [0; 6];
    child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    child
}

#[test]
fn a_users_directory_is_made_shown_and_removed_when_nothing_uses_it() {
    let user = if is_root() {
        NOBODY
    } else {
        std::os::unix::fs::MetadataExt::uid(&fs::metadata("/proc/self").unwrap())
    };
    let own = Path::new("/dev/shm").join(format!("warmset-{user}"));
    if own.exists() {
        eprintln!(
            "SKIPPED a_users_directory_is_made_shown_and_removed_when_nothing_uses_it: {} exists",
            own.display()
        );
        return;
    }
    let paths = |report: &serde_json::Value| -> Vec<String> {
        let rows = report["directories"].as_array().unwrap();
        rows.iter().map(|row| row["path"].as_str().unwrap().to_owned()).collect()
    };
    let made = as_user(&["direct", "setup", "--json"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    assert_eq!(json(&made)["schema"], 1);
    assert!(paths(&json(&made)).contains(&path(&own).to_owned()));
    assert_eq!(fs::metadata(&own).unwrap().permissions().mode() & 0o777, 0o700);

    let file = own.join("file");
    fs::write(&file, bytes(100_000)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let report = json(&as_user(&["direct", "status", "--json"]));
    let rows = report["directories"].as_array().unwrap();
    let row = rows.iter().find(|row| row["path"] == path(&own)).unwrap();
    assert_eq!((row["files"].as_u64(), row["node"].is_null()), (Some(1), true), "{row}");
    let used = row["used_bytes"].as_u64().unwrap();
    assert!(used >= 100_000 && used < row["size_bytes"].as_u64().unwrap(), "{row}");

    let mut keeper = keeper(&file);
    let refused = as_user(&["direct", "teardown"]);
    assert_eq!(refused.status.code(), Some(2));
    let errors = text(&refused.stderr);
    assert!(errors.contains(&format!("{} (sh): {}", keeper.id(), file.display())), "{errors}");
    assert!(file.exists());
    keeper.stdin.take().unwrap().write_all(b"end\n").unwrap();
    keeper.wait().unwrap();

    let removed = as_user(&["direct", "teardown"]);
    assert!(removed.status.success(), "{}", text(&removed.stderr));
    assert!(text(&removed.stderr).contains("with 1 files"), "{}", text(&removed.stderr));
    assert!(!own.exists());
}

#[test]
fn root_mounts_one_directory_per_node() {
    // All in a mount namespace of its own, with a tmpfs over /mnt: nothing of it is seen outside.
    let script = r#"
        set -e
        mount -t tmpfs none /mnt
        w() { "$WARMSET" direct "$@"; }
        w status && exit 50 || test $? = 1
        w setup --size 64M --json > /mnt/made
        grep -q '"size_bytes": 67108864' /mnt/made
        grep -q '"path": "/mnt/warmset/direct/node' /mnt/made
        w setup 2> /mnt/again && exit 51
        grep -q 'is there already' /mnt/again
        grep ' /mnt/warmset/direct/node' /proc/self/mountinfo > /mnt/mounts
        ls -d /sys/devices/system/node/node* > /dev/null && grep -q 'mpol=bind' /mnt/mounts
        first=$(ls -d /mnt/warmset/direct/node* | head -1)
        echo text > $first/file
        w status | grep -q "$first.*in 1 files"
        (cd $first; w teardown 2> /mnt/busy) && exit 52
        grep -q 'nothing was removed' /mnt/busy
        test -e $first/file
        w teardown
        test ! -e /mnt/warmset
        w setup --size 1000T 2> /mnt/large && exit 53
        grep -q 'less than --size' /mnt/large
        test ! -e /mnt/warmset/direct/node0
        echo all done
    "#;
    let mut command = Command::new("unshare");
    command.args(["-m", "--propagation", "private", "bash", "-c", script]);
    let output = command.env("WARMSET", env!("CARGO_BIN_EXE_warmset")).output();
    let Ok(output) = output.as_ref().map_err(|_| ()) else {
        eprintln!("SKIPPED root_mounts_one_directory_per_node: there is no unshare");
        return;
    };
    let errors = text(&output.stderr);
    if errors.contains("ermitted") || errors.contains("ermission denied") {
        eprintln!("SKIPPED root_mounts_one_directory_per_node: mounting needs root: {errors}");
        return;
    }
    assert!(
        output.status.success() && text(&output.stdout).ends_with("all done\n"),
        "{}\n{errors}",
        output.status
    );
}
