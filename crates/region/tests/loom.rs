//! Every interleaving of the state word, as loom sees it. Run by
//! `RUSTFLAGS="--cfg loom" cargo test --release -p warmset-region --test loom`; empty otherwise.
//!
//! A loom cell stands for the segment's bytes: loom fails a test in which a reader under a pin and whoever
//! takes the frames may touch it at the same time, or without the ordering that makes writes visible.
#![cfg(loom)]

#[allow(dead_code)]
#[path = "../src/failure.rs"]
mod failure;
#[allow(dead_code)]
#[path = "../src/segment/state.rs"]
mod state;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use state::{Demote, Pinned, State, StateWord, Unpinned};

struct Segment {
    word: StateWord,
    bytes: UnsafeCell<u64>,
    /// Stands for the ledger's lock; true while the keep-set may propose the segment as a victim.
    ledger: Mutex<bool>,
    freed: AtomicUsize,
}

const WRITTEN: u64 = 7;
const REUSED: u64 = 99;

impl Segment {
    fn in_state(state: State) -> Arc<Self> {
        Arc::new(Self::new(state))
    }

    fn new(state: State) -> Self {
        Self {
            word: if state == State::Writing { StateWord::writing(false) } else { StateWord::new(state) },
            bytes: UnsafeCell::new(WRITTEN),
            ledger: Mutex::new(true),
            freed: AtomicUsize::new(0),
        }
    }

    fn write(&self) {
        // SAFETY: as in `read`.
        self.bytes.with_mut(|bytes| unsafe { *bytes = WRITTEN });
    }

    fn read(&self) {
        // SAFETY: the point of the test: loom reports any write that may happen at the same time.
        assert_eq!(self.bytes.with(|bytes| unsafe { *bytes }), WRITTEN);
    }

    /// The frames' next owner writes over them.
    fn reuse(&self) {
        // SAFETY: as in `read`.
        self.bytes.with_mut(|bytes| unsafe { *bytes = REUSED });
    }

    /// What the store does with a pin that ends.
    fn unpin(&self) {
        match self.word.unpin() {
            Unpinned::Done => {}
            Unpinned::Underflow => panic!("a pin was lost"),
            Unpinned::Last { was_parked, released, .. } => {
                if was_parked {
                    *self.ledger.lock().unwrap() = true;
                }
                if released {
                    self.free();
                }
            }
        }
    }

    fn demote(&self) -> bool {
        let mut proposed = self.ledger.lock().unwrap();
        if !*proposed {
            return false;
        }
        match self.word.demote() {
            Demote::Demoted => {
                *proposed = false;
                self.reuse();
                true
            }
            Demote::Parked => {
                *proposed = false;
                false
            }
            Demote::Dirty | Demote::Busy => false,
        }
    }

    fn free(&self) {
        if let Some(last) = self.word.free() {
            self.freed.fetch_add(1, Ordering::Relaxed);
            if last != State::Absent {
                self.reuse();
            }
        }
    }
}

/// A thread that holds, reads and lets go; true if it got the pin.
fn reader(segment: &Arc<Segment>) -> thread::JoinHandle<bool> {
    let segment = Arc::clone(segment);
    thread::spawn(move || {
        let pinned = segment.word.pin() == Pinned::Ready;
        if pinned {
            segment.read();
            segment.unpin();
        }
        pinned
    })
}

/// Three preemptions per run find what these few operations can get wrong and keep the suite at seconds;
/// `LOOM_MAX_PREEMPTIONS` raises them (all interleavings: some minutes).
fn check(interleaved: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.or(Some(3));
    model.check(interleaved);
}

#[test]
fn a_held_segment_is_not_demoted_and_its_last_reader_reports_it() {
    check(|| {
        let segment = Segment::in_state(State::Clean);
        let readers = [reader(&segment), reader(&segment)];
        let demoted = segment.demote();
        let pinned: Vec<bool> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
        let look = segment.word.look();
        assert_eq!(look.pins, 0);
        assert_eq!(look.state == State::Absent, demoted);
        assert!(
            demoted || *segment.ledger.lock().unwrap(),
            "parked and forgotten: it could never be demoted"
        );
        assert!(demoted || pinned.iter().all(|&pinned| pinned), "a resident segment can always be pinned");
    });
}

#[test]
fn a_released_segment_is_freed_once_and_not_under_a_reader() {
    check(|| {
        let segment = Segment::in_state(State::Clean);
        let readers = [reader(&segment), reader(&segment)];
        segment.word.release();
        segment.free();
        for reader in readers {
            reader.join().unwrap();
        }
        assert_eq!(segment.freed.load(Ordering::Relaxed), 1);
        assert_eq!(segment.word.look().state, State::Freed);
        assert_eq!(segment.word.pin(), Pinned::Gone);
    });
}

#[test]
fn release_and_demotion_do_not_both_take_the_frames() {
    check(|| {
        let segment = Segment::in_state(State::Clean);
        let reader = reader(&segment);
        let demoter = {
            let segment = Arc::clone(&segment);
            thread::spawn(move || segment.demote())
        };
        segment.word.release();
        segment.free();
        let demoted = demoter.join().unwrap();
        reader.join().unwrap();
        // A demoter that was refused because of the release leaves the freeing to the releaser.
        assert_eq!(segment.freed.load(Ordering::Relaxed), 1, "demoted: {demoted}");
    });
}

#[test]
fn a_promotion_shows_its_bytes_to_everyone_who_waited() {
    check(|| {
        let segment = Segment::in_state(State::Absent);
        segment.reuse();
        let asker = {
            let segment = Arc::clone(&segment);
            thread::spawn(move || {
                let started = segment.word.pin() == Pinned::Absent && {
                    let _ledger = segment.ledger.lock().unwrap();
                    segment.word.begin_promote()
                };
                if started {
                    // The device writes the bytes, then the completion ends the state.
                    // SAFETY: as in `Segment::read`.
                    segment.bytes.with_mut(|bytes| unsafe { *bytes = WRITTEN });
                    segment.word.end_promote(true);
                    segment.read();
                    segment.unpin();
                }
                started
            })
        };
        let pinned = segment.word.pin();
        if pinned == Pinned::Ready {
            segment.read();
        }
        assert!(asker.join().unwrap());
        if matches!(pinned, Pinned::Ready | Pinned::Pending) {
            assert!(segment.word.look().resident());
            segment.read();
            segment.unpin();
        }
        assert_eq!(segment.word.look().pins, 0);
    });
}

/// What the store keeps beside the word: why the last promotion failed, and where readers sleep meanwhile.
struct Promoted {
    segment: Arc<Segment>,
    failure: Mutex<bool>,
    lock: Mutex<()>,
    wake: Condvar,
}

impl Promoted {
    /// Takes frames and a pin, with the ledger locked.
    fn begin(&self) -> bool {
        let _ledger = self.segment.ledger.lock().unwrap();
        let begun = self.segment.word.begin_promote();
        if begun {
            *self.failure.lock().unwrap() = false;
        }
        begun
    }

    /// The device is done; frames that it did not fill are somebody else's at once.
    fn end(&self, read: bool) {
        if read {
            // SAFETY: as in `Segment::read`.
            self.segment.bytes.with_mut(|bytes| unsafe { *bytes = WRITTEN });
            self.segment.word.end_promote(true);
        } else {
            *self.failure.lock().unwrap() = true;
            let _ledger = self.segment.ledger.lock().unwrap();
            self.segment.reuse();
            self.segment.word.end_promote(false);
        }
        drop(self.lock.lock().unwrap());
        self.wake.notify_all();
    }

    fn sleep_until_read(&self) {
        let mut guard = self.lock.lock().unwrap();
        while self.segment.word.look().state == State::Promoting {
            guard = self.wake.wait(guard).unwrap();
        }
    }

    /// Ends the pin of somebody who waits; true if the bytes came.
    fn wait(&self) -> bool {
        loop {
            match self.segment.word.look().state {
                State::Promoting => self.sleep_until_read(),
                State::Absent => {
                    let failed = *self.failure.lock().unwrap();
                    if failed {
                        self.segment.unpin();
                        return false;
                    }
                    // Somebody has begun a second try since the look.
                }
                State::Clean => {
                    self.segment.read();
                    self.segment.unpin();
                    return true;
                }
                state => panic!("{state:?} while it is pinned"),
            }
        }
    }
}

#[test]
fn a_promotion_that_fails_is_told_to_all_who_wait_and_leaves_no_hold() {
    for second_try in [None, Some(false), Some(true)] {
        check(move || {
            let segment = Segment::in_state(State::Absent);
            let failure = Mutex::new(false);
            let promoted =
                Arc::new(Promoted { segment, failure, lock: Mutex::new(()), wake: Condvar::new() });
            assert!(promoted.begin());
            let other = {
                let promoted = Arc::clone(&promoted);
                thread::spawn(move || match (promoted.segment.word.pin(), second_try) {
                    (Pinned::Pending, _) => promoted.wait(),
                    (Pinned::Absent, Some(read)) => {
                        assert!(promoted.begin(), "nobody else does");
                        promoted.end(read);
                        promoted.wait()
                    }
                    (Pinned::Absent, None) => false,
                    (pinned, _) => panic!("{pinned:?}"),
                })
            };
            let device = {
                let promoted = Arc::clone(&promoted);
                thread::spawn(move || promoted.end(false))
            };
            let came = promoted.wait();
            device.join().unwrap();
            let came_to_other = other.join().unwrap();
            let look = promoted.segment.word.look();
            assert_eq!(look.pins, 0);
            assert_eq!(look.state == State::Clean, came_to_other);
            assert!(came_to_other || !came, "only a second try brings the bytes");
            promoted.segment.word.release();
            promoted.segment.free();
            assert_eq!(promoted.segment.freed.load(Ordering::Relaxed), 1);
        });
    }
}

#[test]
fn a_write_back_ends_before_the_segment_is_freed() {
    check(|| {
        let segment = Segment::in_state(State::WritingBack);
        let device = {
            let segment = Arc::clone(&segment);
            thread::spawn(move || {
                segment.read();
                segment.word.end_write(true);
                segment.free();
            })
        };
        let reader = reader(&segment);
        segment.word.release();
        segment.free();
        device.join().unwrap();
        reader.join().unwrap();
        assert_eq!(segment.freed.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_seal_to_disk_ends_before_the_segment_is_freed() {
    for written in [true, false] {
        check(move || {
            let segment = Segment::in_state(State::Writing);
            let writer = {
                let segment = Arc::clone(&segment);
                thread::spawn(move || {
                    if segment.word.begin_seal() {
                        segment.read();
                        segment.word.end_seal(written);
                    } else {
                        assert!(segment.word.abandon(), "the writer's pin is its own");
                    }
                    segment.free();
                })
            };
            segment.word.release();
            segment.free();
            writer.join().unwrap();
            assert_eq!(segment.freed.load(Ordering::Relaxed), 1);
        });
    }
}

/// Writes under the writer's pin, then seals, or gives up if it was released.
fn write_and_seal(segment: &Segment, raw: bool) {
    segment.write();
    if !segment.word.seal() && !raw {
        assert!(segment.word.abandon(), "the writer's pin is its own");
    }
    segment.free();
}

#[test]
fn a_release_does_not_free_under_a_writer() {
    check(|| {
        let segment = Segment::in_state(State::Writing);
        let writer = {
            let segment = Arc::clone(&segment);
            thread::spawn(move || write_and_seal(&segment, false))
        };
        segment.word.release();
        segment.free();
        segment.word.release();
        segment.free();
        writer.join().unwrap();
        assert_eq!(segment.freed.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_release_ends_a_raw_writers_hold_once() {
    check(|| {
        let segment = Arc::new(Segment { word: StateWord::writing(true), ..Segment::new(State::Writing) });
        let other = {
            let segment = Arc::clone(&segment);
            thread::spawn(move || {
                segment.word.release();
                segment.free();
            })
        };
        let sealed = segment.word.seal();
        segment.word.release();
        segment.free();
        other.join().unwrap();
        let look = segment.word.look();
        assert_eq!((look.state, look.pins), (State::Freed, 0), "sealed: {sealed}");
        assert_eq!(segment.freed.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_mapping_ends_once_and_not_under_a_reader() {
    check(|| {
        let segment = Segment::in_state(State::Absent);
        assert!(segment.word.map());
        let other = {
            let segment = Arc::clone(&segment);
            thread::spawn(move || {
                if segment.word.pin() == Pinned::Ready {
                    segment.read();
                    end_hold_on_mapping(&segment)
                } else {
                    false
                }
            })
        };
        segment.read();
        let ended = end_hold_on_mapping(&segment);
        assert!(ended ^ other.join().unwrap(), "one of the two took the mapping down");
        assert_eq!(segment.word.look().state, State::Absent);
    });
}

fn end_hold_on_mapping(segment: &Segment) -> bool {
    match segment.word.unpin() {
        Unpinned::Last { mapped: true, .. } => {
            let _ledger = segment.ledger.lock().unwrap();
            let ended = segment.word.unmap();
            if ended {
                segment.reuse();
            }
            ended
        }
        _ => false,
    }
}
