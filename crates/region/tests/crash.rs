//! SIGKILL: anonymous regions leave no file, a saved region is absent or whole.
//!
//! The victims are this test binary itself, started again with `WARMSET_CRASH_DIR` set.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use warmset_region::{Config, Error, FRAME_BYTES, Store};

mod support;
use support::{FRAME, bytes, dir};

const DIR: &str = "WARMSET_CRASH_DIR";

/// Starts a victim and waits until it says that it is at work.
fn start(victim: &str, dir: &Path) -> Child {
    let mut child = Command::new(env::current_exe().expect("this binary"))
        .args(["--exact", victim, "--nocapture", "--test-threads", "1"])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
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
