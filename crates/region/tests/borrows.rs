//! What handles show, with the least of everything: small enough for Miri, which finds a reference that outlives its
//! memory, two writers of one byte, and a race. `make test-miri` runs it there, on simulated files.

use std::path::PathBuf;
use std::sync::mpsc;

use warmset_region::{Config, FRAME_BYTES, HugePages, Root, Store};

const FRAME: u64 = FRAME_BYTES as u64;

#[cfg(miri)]
fn dir(name: &str) -> PathBuf {
    let dir = PathBuf::from("/simulated").join(name);
    warmset_platform::io::Disk::make(&dir, 1 << 40);
    dir
}

#[cfg(not(miri))]
fn dir(name: &str) -> PathBuf {
    let dir =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("borrows-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    dir
}

fn open(name: &str) -> (PathBuf, Store) {
    let dir = dir(name);
    let mut config = Config::new(&dir, 3 * FRAME);
    if cfg!(miri) {
        // No machine either: nothing is known of its memory.
        config.system = Root::at("/simulated");
        config.huge_pages = HugePages::Off;
    }
    let store = Store::open(config).expect("open");
    (dir, store)
}

fn done(dir: PathBuf) {
    drop(std::fs::remove_dir_all(dir));
}

#[test]
fn segments_go_to_disk_and_come_back_under_readers() {
    let (dir, store) = open("readers");
    let region = store.create_region().expect("region");
    for n in 0..6 {
        region.write(&[n; 100]).expect("write");
    }
    let held = region.pin(0).expect("pin");
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let region = &region;
            scope.spawn(move || {
                for n in 0..6 {
                    let segment = (n + 3 * reader) % 6;
                    let pin = region.pin(segment).expect("pin");
                    assert!(pin.iter().all(|&byte| u64::from(byte) == segment));
                }
            });
        }
        assert!(held.iter().all(|&byte| byte == 0));
    });
    let path = dir.join("saved");
    region.save(&path).expect("save");
    drop(region);
    let saved = store.open_saved(&path).expect("open");
    assert_eq!(saved.pin(5).expect("pin")[..], [5; 100]);
    assert_eq!(held[..], [0; 100]);
    drop((held, saved, store));
    done(dir);
}

#[test]
fn a_drafts_bytes_are_its_own() {
    let (dir, store) = open("drafts");
    let region = store.create_region().expect("region");
    let mut drafts: Vec<_> = (0..5).map(|_| region.draft(50).expect("draft")).collect();
    let id = region.id();
    for (n, draft) in drafts.iter_mut().enumerate() {
        draft.fill(n as u8);
    }
    drafts.remove(1);
    let sealed: Vec<_> = drafts.drain(2..).map(|draft| draft.seal(20).expect("sealed")).collect();
    assert_eq!(region.pin(sealed[1]).expect("pin")[..], [4; 20]);
    store.release(id);
    drop(region);
    for (n, draft) in [0, 2].into_iter().zip(&mut drafts) {
        assert_eq!(draft[..], [n; 50]);
        draft.fill(9);
    }
    // A thread of the store tells the region's segments that it is released: one that is sealed before is sealed.
    store.close();
    for mut draft in drafts {
        assert_eq!(draft[..], [9; 50]);
        draft.fill(10);
        assert!(draft.seal(50).is_err());
    }
    drop(store);
    done(dir);
}

#[test]
fn what_is_held_outlives_its_store() {
    let (dir, store) = open("outlives");
    let region = store.create_region().expect("region");
    region.write(&[7; 64]).expect("write");
    let pin = region.pin(0).expect("pin");
    let prefetch = region.prefetch(0).expect("sealed").expect("it is there");
    let (send, sent) = mpsc::channel::<warmset_region::Pin>();
    let reader = std::thread::spawn(move || {
        let pin = sent.recv().expect("a pin");
        assert_eq!(pin[..], [7; 64]);
    });
    drop(region);
    store.close();
    drop(store);
    send.send(pin).expect("it listens");
    assert_eq!(prefetch.wait().expect("held")[..], [7; 64]);
    reader.join().expect("no panic");
    done(dir);
}
