//! What the store's tests share: directories on the build's disk, recognisable bytes, patience.
#![allow(dead_code)] // each test file uses a part

use std::io::Write;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use warmset_region::{FRAME_BYTES, Region};

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

/// Compares without printing megabytes.
pub fn assert_bytes(found: &[u8], seed: u64, len: usize) {
    assert_eq!(found.len(), len, "length of {seed}");
    assert!(found == bytes(seed, len), "bytes of {seed} are wrong");
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
