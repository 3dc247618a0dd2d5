//! What the store's tests share: directories on the build's disk, recognisable bytes, patience.
#![allow(dead_code)] // each test file uses a part

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use warmset_region::{Config, Error, FRAME_BYTES, Op, Region};

/// A frame in the store's own unit.
pub const FRAME: u64 = FRAME_BYTES as u64;

/// A directory on the build's disk; `/tmp` may be a tmpfs.
pub fn dir() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

static TAPE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut tape = Vec::with_capacity(16 * FRAME_BYTES);
    while tape.len() < 16 * FRAME_BYTES {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        tape.extend_from_slice(&state.to_le_bytes());
    }
    tape
});

/// `len` bytes that differ from those of any other seed, as a part of one long random tape: cheap to make and
/// to compare in a debug build.
pub fn bytes(seed: u64, len: usize) -> &'static [u8] {
    let places = (TAPE.len() - len) as u64;
    let start = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % places;
    &TAPE[start as usize..start as usize + len]
}

/// Adds `count` sealed segments; number `n` has `len(n)` bytes of seed `n`.
pub fn fill(region: &Region, count: u64, len: impl Fn(u64) -> usize) {
    for n in 0..count {
        region.write(bytes(n, len(n))).expect("a segment");
    }
}

/// The same until there is no room: how many there are then, and the error. The disk or the quota has to be small.
pub fn fill_until_full(region: &Region) -> (u64, Error) {
    let error = (0..100).find_map(|n| Some((n, region.write(bytes(n, FRAME_BYTES)).err()?)));
    error.expect("100 segments are more than there is room for")
}

/// Compares without printing megabytes.
pub fn assert_bytes(found: &[u8], seed: u64, len: usize) {
    assert_eq!(found.len(), len, "length of {seed}");
    assert!(found == bytes(seed, len), "bytes of {seed} are wrong");
}

/// A device that stops in the middle of the next write once it is told to.
pub struct StoppingDevice {
    armed: Arc<AtomicBool>,
    arrived: Receiver<()>,
    go_on: Sender<Option<i32>>,
}

impl StoppingDevice {
    pub fn of(config: &mut Config) -> Self {
        let (arrive, arrived) = mpsc::channel();
        let (let_go, go_on) = mpsc::channel();
        let (armed, go_on) = (Arc::new(AtomicBool::new(false)), Mutex::new(go_on));
        let device = Self { armed: Arc::clone(&armed), arrived, go_on: let_go };
        config.faults = Some(Arc::new(move |op, _, _| {
            if op != Op::Write || !armed.swap(false, Ordering::SeqCst) {
                return None;
            }
            arrive.send(()).expect("the test listens");
            let errno: Option<i32> = go_on.lock().expect("one writer").recv().expect("the test lets go");
            errno.map(io::Error::from_raw_os_error)
        }));
        device
    }

    pub fn arm(&self) {
        self.armed.store(true, Ordering::SeqCst);
    }

    /// Waits until it has stopped.
    pub fn wait(&self) {
        self.arrived.recv_timeout(Duration::from_secs(30)).expect("a write begins");
    }

    /// The write goes on.
    pub fn let_go(&self) {
        self.go_on.send(None).expect("the write waits");
    }

    /// The write fails.
    pub fn fail(&self, errno: i32) {
        self.go_on.send(Some(errno)).expect("the write waits");
    }
}

/// Says that a test cannot run here, past the test runner, which shows what a passing test prints to nobody.
pub fn skipped(test: &str, why: impl std::fmt::Display) {
    std::io::stderr().write_all(format!("SKIPPED {test}: {why}\n").as_bytes()).expect("stderr is open");
}

/// Waits for something that happens in the background.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "not within 20 s: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A small file system of its own, taken down on drop; `None` where mounting is not allowed.
pub struct Mounted(tempfile::TempDir);

impl Mounted {
    pub fn tmpfs(options: &str, test: &str) -> Option<Self> {
        let dir = dir();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "warmset-test"])
            .arg(dir.path())
            .output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(dir));
        }
        skipped(test, "mounting a tmpfs needs root");
        None
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let taken_down = Command::new("umount").arg(self.0.path()).status();
        assert!(std::thread::panicking() || taken_down.is_ok_and(|status| status.success()), "umount");
    }
}

/// The nameless data files of this process in `dir`, opened once more.
pub fn data_files(dir: &Path) -> Vec<File> {
    let device = fs::metadata(dir).expect("a directory").dev();
    let nameless = |path: &PathBuf| {
        let target = fs::read_link(path).unwrap_or_default();
        target.starts_with(dir) && target.to_string_lossy().ends_with(" (deleted)")
    };
    let files = fs::read_dir("/proc/self/fd").expect("proc").filter_map(|entry| Some(entry.ok()?.path()));
    let files =
        files.filter(nameless).filter_map(|path| OpenOptions::new().read(true).write(true).open(path).ok());
    files.filter(|file| file.metadata().is_ok_and(|found| found.dev() == device)).collect()
}
