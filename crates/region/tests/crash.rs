//! SIGKILL: anonymous regions leave no file, a saved region is absent or whole, and what was saved is not lost.
//!
//! The victims are this test binary itself, started again with `WARMSET_CRASH_DIR` set.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use warmset_region::{Config, Error, FRAME_BYTES, Store};

mod support;
use support::{FRAME, bytes, dir};

const DIR: &str = "WARMSET_CRASH_DIR";

fn spawn(victim: &str, dir: &Path) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut child = Command::new(env::current_exe().expect("this binary"))
        .args(["--exact", victim, "--nocapture", "--test-threads", "1"])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    (child, lines)
}

/// Starts a victim and waits until it says that it is at work.
fn start(victim: &str, dir: &Path) -> Child {
    let (child, mut lines) = spawn(victim, dir);
    assert!(lines.any(|line| line.is_ok_and(|line| line.contains("at work"))), "the victim came to work");
    child
}

fn kill(mut child: Child) {
    child.kill().expect("kill");
    child.wait().expect("dead");
}

fn victim_dir() -> Option<PathBuf> {
    env::var_os(DIR).map(PathBuf::from)
}

#[test]
fn victim_that_overflows() {
    let Some(dir) = victim_dir() else { return };
    let store = Store::open(Config::new(dir, 8 * FRAME)).expect("open");
    let region = store.create_region().expect("region");
    for n in 0.. {
        region.write(bytes(n, FRAME_BYTES)).expect("write");
        if n == 40 {
            println!("at work");
        }
        if n > 400 {
            std::thread::sleep(Duration::from_secs(60));
        }
    }
}

#[test]
fn anonymous_regions_leave_no_file() {
    let dir = dir();
    let child = start("victim_that_overflows", dir.path());
    std::thread::sleep(Duration::from_millis(50));
    kill(child);
    assert_eq!(fs::read_dir(dir.path()).expect("dir").count(), 0);
}

const SAVED_SEGMENTS: u64 = 6;

#[test]
fn victim_that_saves() {
    let Some(dir) = victim_dir() else { return };
    let store = Store::open(Config::new(&dir, 8 * FRAME)).expect("open");
    println!("at work");
    for generation in 0.. {
        let region = store.create_region().expect("region");
        for n in 0..SAVED_SEGMENTS {
            // The first byte of the first segment says which generation a file is of.
            let mut copy = bytes(generation * 100 + n, FRAME_BYTES / 2).to_vec();
            copy[0] = (generation % 256) as u8;
            region.write(&copy).expect("write");
        }
        region.save(&dir.join("saved")).expect("save");
    }
}

#[test]
fn a_saved_region_is_absent_or_whole() {
    let dir = dir();
    let path = dir.path().join("saved");
    let mut whole = 0;
    for pause_ms in [0, 5, 20, 31, 57, 90, 140, 200] {
        let child = start("victim_that_saves", dir.path());
        if pause_ms > 20 {
            support::eventually("a first file", || path.exists());
        }
        std::thread::sleep(Duration::from_millis(pause_ms));
        kill(child);
        let store = Store::open(Config::new(dir.path(), 4 * FRAME)).expect("open");
        match store.open_saved(&path) {
            Err(Error::Io { source, .. }) => assert_eq!(source.kind(), std::io::ErrorKind::NotFound),
            Err(error) => panic!("after {pause_ms} ms: {error}"),
            Ok(region) => {
                whole += 1;
                assert_eq!(region.segments().expect("open"), SAVED_SEGMENTS);
                let generation = u64::from(region.pin(0).expect("pin")[0]);
                for n in 0..SAVED_SEGMENTS {
                    let pin = region.pin(n).expect("its checksum is right");
                    assert!(pin[1..] == bytes(generation * 100 + n, FRAME_BYTES / 2)[1..], "one generation");
                }
            }
        }
    }
    assert!(whole >= 5, "{whole} victims were killed between or during saves");
}

/// What the `generation`th saved region holds: its number, then bytes that follow from it.
fn generation_bytes(generation: u64, segment: u64) -> Vec<u8> {
    let len = FRAME_BYTES / 4 + (generation as usize * 4099 + segment as usize) % 10_000;
    let mut copy = bytes(generation * 100 + segment, len).to_vec();
    copy[..8].copy_from_slice(&generation.to_le_bytes());
    copy
}

/// Opens the saved region and checks every byte; its generation.
fn check_saved(store: &Store, path: &Path) -> u64 {
    let region = store.open_saved(path).expect("whole");
    assert_eq!(region.segments().expect("open"), SAVED_SEGMENTS);
    let first = region.pin(0).expect("its checksum is right");
    let generation = u64::from_le_bytes(first[..8].try_into().expect("8 bytes"));
    for n in 0..SAVED_SEGMENTS {
        let pin = region.pin(n).expect("its checksum is right");
        assert!(pin[..] == generation_bytes(generation, n)[..], "segment {n} of generation {generation}");
    }
    generation
}

/// Saves a region of the next generation and says so; meanwhile others write far past the budget, and read.
#[test]
fn victim_that_does_all_at_once() {
    let Some(dir) = victim_dir() else { return };
    let path = dir.join("saved");
    let store = Store::open(Config::new(&dir, 8 * FRAME)).expect("open");
    let first = if path.exists() { check_saved(&store, &path) + 1 } else { 1 };
    let told = |what: String| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{what}").and_then(|()| out.flush()).expect("somebody listens");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                let region = store.create_region().expect("region");
                for n in 0..24 {
                    region.write(bytes(n, FRAME_BYTES)).expect("write");
                    let read = n / 2;
                    support::assert_bytes(&region.pin(read).expect("pin"), read, FRAME_BYTES);
                }
            }
        });
        scope.spawn(|| {
            while path.exists() || first == 1 {
                if path.exists() {
                    check_saved(&store, &path);
                }
            }
        });
        told("at work".to_owned());
        for generation in first.. {
            let region = store.create_region().expect("region");
            for n in 0..SAVED_SEGMENTS {
                region.write(&generation_bytes(generation, n)).expect("write");
            }
            region.save(&path).expect("save");
            told(format!("saved {generation}"));
        }
    });
}

/// `WARMSET_KILLS=200` for as many rounds.
#[test]
fn kills_in_writes_saves_and_reads_leave_no_file_and_lose_no_saved_region() {
    let kills: u64 = env::var("WARMSET_KILLS").map_or(30, |kills| kills.parse().expect("a number"));
    let dir = dir();
    let path = dir.path().join("saved");
    let (mut saved, mut asides, mut state) = (0, 0, 0x9e37_79b9_7f4a_7c15_u64);
    for round in 0..kills {
        let (mut child, mut lines) = spawn("victim_that_does_all_at_once", dir.path());
        assert!(
            lines.any(|line| line.is_ok_and(|line| line.contains("at work"))),
            "round {round}: it came to work"
        );
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // Up to two saves, and then some part of the next one.
        let mut said =
            lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("saved ")?.parse().ok());
        saved = said.by_ref().take(state as usize % 3).last().unwrap_or(saved);
        let pause = Duration::from_micros((state >> 8) % 40_000);
        let killer = std::thread::spawn(move || {
            std::thread::sleep(pause);
            kill_now(&mut child);
        });
        saved = said.last().unwrap_or(saved);
        killer.join().expect("killed");

        let names = fs::read_dir(dir.path()).expect("dir").flatten().map(|entry| entry.file_name());
        let left: Vec<_> = names.filter(|name| name != "saved").collect();
        asides += left.len();
        // Killed between two calls that name the file: the next save removes it.
        assert!(
            left.len() <= 1 && left.iter().all(|name| name.to_string_lossy().ends_with(".partial")),
            "{left:?}"
        );
        if saved > 0 {
            let store = Store::open(Config::new(dir.path(), 8 * FRAME)).expect("open");
            let found = check_saved(&store, &path);
            assert!(found == saved || found == saved + 1, "round {round}: {found} after {saved}");
            saved = found;
        }
    }
    let store = Store::open(Config::new(dir.path(), 8 * FRAME)).expect("open");
    let region = store.open_saved(&path).expect("saved");
    region.save(&path).expect("saved again");
    let names: Vec<_> =
        fs::read_dir(dir.path()).expect("dir").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(names, ["saved"], "after {kills} kills; {asides} had left a name");
    assert!(saved >= kills / 2, "{saved} saves in {kills} rounds");
}

fn kill_now(child: &mut Child) {
    let began = Instant::now();
    child.kill().expect("kill");
    let status = child.wait().expect("dead");
    assert!(!status.success() && began.elapsed() < Duration::from_secs(60), "{status}");
}
