//! The fallback queue: a few threads with `pread` and `pwrite`.
//!
//! Invariant: requests start in the order of [`Turns`]; they may finish in any order.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::queue::{Op, Request, stalled};
use super::turns::Turns;

/// Enough transfers in flight to keep a flash device busy with 2 MiB requests.
const THREADS: usize = 8;

pub(super) struct ThreadQueue {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    requests: Turns<Request>,
    closing: bool,
}

impl ThreadQueue {
    pub(super) fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let workers = (0..THREADS)
            .map(|n| {
                let shared = Arc::clone(&shared);
                thread::Builder::new().name(format!("warmset-io-{n}")).spawn(move || shared.work())
            })
            .collect::<io::Result<_>>()?;
        Ok(Self { shared, workers })
    }

    pub(super) fn submit(&self, request: Request) {
        self.shared.lock().requests.push(request.urgency, request.tag, request);
        self.shared.wake.notify_one();
    }

    pub(super) fn hasten(&self, tag: u64) {
        self.shared.lock().requests.hasten(tag);
    }
}

impl Drop for ThreadQueue {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.wake.notify_all();
        for worker in self.workers.drain(..) {
            if worker.thread().id() != thread::current().id() {
                drop(worker.join());
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The guarded state is a plain queue; a panic elsewhere cannot leave it half changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some(request) = self.next() {
            let outcome = transfer(&request);
            request.finish(outcome);
        }
    }

    fn next(&self) -> Option<Request> {
        let mut state = self.lock();
        loop {
            if let Some(request) = state.requests.pop() {
                return Some(request);
            }
            if state.closing {
                return None;
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn transfer(request: &Request) -> io::Result<()> {
    let mut moved = 0;
    while moved < request.len {
        let start = request.address + moved;
        let offset = request.offset + moved as u64;
        let step = match request.op {
            Op::Read => {
                // SAFETY: `IoQueue::submit`'s caller promised that this memory is mapped and nobody else's
                // until `done` has run.
                let bytes = unsafe { std::slice::from_raw_parts_mut(start as *mut u8, request.len - moved) };
                request.file.read_at(bytes, offset)
            }
            Op::Write => {
                // SAFETY: as above; for a write the memory is promised not to change.
                let bytes = unsafe { std::slice::from_raw_parts(start as *const u8, request.len - moved) };
                request.file.write_at(bytes, offset)
            }
        };
        match step {
            Ok(0) => return Err(stalled(request.op)),
            Ok(count) => moved += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
