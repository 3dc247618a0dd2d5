//! What the tests of the library share: where it is, programs that are started with it, and what it counted of them.
#![allow(dead_code)] // Each test takes a part of it.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The library that Cargo built for this test: beside it, or in the folder above.
pub fn library() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let found = own.ancestors().skip(1).take(2).map(|folder| folder.join("libwarmset_direct.so"));
    found.into_iter().find(|path| path.is_file()).expect("Cargo builds the library for its tests")
}

/// Compiles a program; `None`, and the reason on stderr, without a compiler. All in the folder goes with the result.
pub fn compiled(test: &str, sources: &[PathBuf]) -> Option<(TempDir, PathBuf)> {
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = folder.path().join("program");
    let mut compile = Command::new("cc");
    compile.args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(&program).args(sources);
    let Ok(output) = compile.output() else {
        eprintln!("SKIPPED {test}: there is no C compiler (cc)");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some((folder, program))
}

/// One of the programs beside these tests.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// A directory on tmpfs; `None`, and the reason on stderr, without one.
pub fn room(test: &str) -> Option<TempDir> {
    let room = TempDir::new_in("/dev/shm");
    if room.is_err() {
        eprintln!("SKIPPED {test}: /dev/shm cannot be written");
    }
    room.ok()
}

/// A program in a directory that is served from the first operation on.
pub fn served(program: impl AsRef<std::ffi::OsStr>, room: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", library()).env("WARMSET_DIRECT_DIRS", room).env("WARMSET_DIRECT_AFTER", "0");
    command.current_dir(room);
    command
}

/// What stdout and stderr got.
pub fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The sum of a counter over all lines of a file of `WARMSET_DIRECT_STATS`.
pub fn counted(counts: &Path, key: &str) -> u64 {
    let lines = std::fs::read_to_string(counts).unwrap_or_default();
    let count = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()[key].as_u64().unwrap();
    lines.lines().map(count).sum()
}

/// Who makes descriptors append, and who counts served writes: a descriptor that appends sends the next writes of all
/// processes of a user to the kernel.
pub enum Appends {
    Makes,
    Counts,
}

/// Held by tests until they end, in whatever process and worktree they run.
pub struct AppendsLock(File);

pub fn lock_appends(who: Appends) -> AppendsLock {
    // SAFETY: geteuid always succeeds.
    let user = unsafe { libc::geteuid() };
    let file = File::create(format!("/tmp/warmset-direct-tests-{user}.lock")).unwrap();
    let kind = match who {
        Appends::Makes => libc::LOCK_SH,
        Appends::Counts => libc::LOCK_EX,
    };
    // SAFETY: an open descriptor.
    assert_eq!(unsafe { libc::flock(file.as_raw_fd(), kind) }, 0, "{}", std::io::Error::last_os_error());
    AppendsLock(file)
}
