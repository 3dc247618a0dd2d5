//! The io_uring queue: callers submit inline, one thread reaps.
//!
//! Invariant: the submission queue is only touched under `submit`'s mutex, the completion queue only by the
//! reaper. A [`Flight`] is owned by the kernel (as `user_data`) from submission to completion.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use io_uring::{IoUring, opcode, types};

use super::queue::{Op, Request, stalled};
use super::turns::Turns;
use crate::sched::take_short_turns;
use crate::sysinfo::uring::{Uring, probe};

/// Bytes given to the kernel at once, or one transfer; more wait here. 16 MiB in flight keep a flash device busy, and the
/// first one asked for is the first one done: with all of a deep window in flight it would share the device with those
/// that are not needed yet. With 24 MiB a cloud's virtual disk was slower (docs/reference/benchmarks.md, `region-scan`).
const IN_FLIGHT_BYTES_MAX: usize = 16 << 20;
/// Transfers given to the kernel at once, however small.
const IN_FLIGHT_MAX: usize = RING_ENTRIES as usize;
const RING_ENTRIES: u32 = 32;
/// Bytes of one operation at most; a larger transfer is several.
const ONCE_BYTES_MAX: usize = 1 << 30;
/// `user_data` of the request that tells the reaper to look at `closing`.
const WAKE: u64 = 0;

pub(super) struct UringQueue {
    shared: Arc<Shared>,
    reaper: Option<JoinHandle<()>>,
}

struct Shared {
    ring: IoUring,
    submit: Mutex<Submit>,
}

#[derive(Default)]
struct Submit {
    in_flight: usize,
    in_flight_bytes: usize,
    waiting: Turns<Box<Flight>>,
    closing: bool,
}

impl Submit {
    fn has_room(&self, flight: &Flight) -> bool {
        let bytes = self.in_flight_bytes.saturating_add(flight.request.len);
        self.in_flight == 0 || (self.in_flight < IN_FLIGHT_MAX && bytes <= IN_FLIGHT_BYTES_MAX)
    }

    fn submitted(&mut self, flight: &Flight) {
        self.in_flight += 1;
        self.in_flight_bytes += flight.request.len;
    }
}

/// A request and how much of it is done.
struct Flight {
    request: Request,
    moved: usize,
}

impl UringQueue {
    pub(super) fn start() -> io::Result<Self> {
        match probe() {
            Uring::Works => {}
            Uring::TooOld => return Err(io::Error::other("this kernel's io_uring lacks read and write")),
            Uring::Refused { reason } => return Err(io::Error::other(reason)),
        }
        let ring = IoUring::builder().setup_clamp().build(RING_ENTRIES)?;
        let shared = Arc::new(Shared { ring, submit: Mutex::default() });
        let reaper = {
            let shared = Arc::clone(&shared);
            thread::Builder::new().name("warmset-io".into()).spawn(move || shared.reap())?
        };
        Ok(Self { shared, reaper: Some(reaper) })
    }

    pub(super) fn submit(&self, request: Request) {
        self.shared.start(Box::new(Flight { request, moved: 0 }));
    }

    pub(super) fn hasten(&self, tag: u64) {
        self.shared.lock().waiting.hasten(tag);
    }
}

impl Drop for UringQueue {
    fn drop(&mut self) {
        {
            let mut submit = self.shared.lock();
            submit.closing = true;
            self.shared.push(&opcode::Nop::new().build().user_data(WAKE));
        }
        if let Some(reaper) = self.reaper.take() {
            if reaper.thread().id() != thread::current().id() {
                drop(reaper.join());
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Submit> {
        // Plain counters and a queue; a panic elsewhere cannot leave them half changed.
        self.submit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, flight: Box<Flight>) {
        let mut submit = self.lock();
        if submit.waiting.is_empty() && submit.has_room(&flight) {
            submit.submitted(&flight);
            self.launch(flight);
        } else {
            submit.waiting.push(flight.request.urgency, flight.request.tag, flight);
        }
    }

    /// Hands a flight to the kernel. The caller holds the `submit` lock.
    fn launch(&self, flight: Box<Flight>) {
        let request = &flight.request;
        let fd = types::Fd(request.file.as_fd().as_raw_fd());
        let address = request.address + flight.moved;
        let len = once_bytes(request.len - flight.moved);
        let offset = request.offset + flight.moved as u64;
        let entry = match request.op {
            Op::Read => opcode::Read::new(fd, address as *mut u8, len).offset(offset).build(),
            Op::Write => opcode::Write::new(fd, address as *const u8, len).offset(offset).build(),
        };
        self.push(&entry.user_data(Box::into_raw(flight) as u64));
    }

    /// Queues one entry and enters the kernel. The caller holds the `submit` lock.
    fn push(&self, entry: &io_uring::squeue::Entry) {
        loop {
            // SAFETY: the caller holds the `submit` lock, so this is the only user of the submission queue;
            // the memory and file behind the entry live as long as its flight, which completion frees.
            let pushed = unsafe { self.ring.submission_shared().push(entry).is_ok() };
            // The kernel may be short of memory for a moment (EAGAIN, EBUSY) or interrupted: entries stay in
            // the queue, so another enter submits them; nothing is lost by asking again.
            while let Err(error) = self.ring.submit() {
                if !transient(&error) {
                    break;
                }
                thread::yield_now();
            }
            if pushed {
                return;
            }
        }
    }

    fn reap(&self) {
        // Refused: the disk waits for this thread's turn now and then, as it does on older kernels.
        drop(take_short_turns());
        loop {
            self.wait_for_completion();
            // SAFETY: only this thread uses the completion queue.
            let completions: Vec<_> = unsafe { self.ring.completion_shared() }.collect();
            for completion in completions {
                if completion.user_data() != WAKE {
                    self.land(completion.user_data(), completion.result());
                }
            }
            let submit = self.lock();
            if submit.closing && submit.in_flight == 0 {
                return;
            }
        }
    }

    fn wait_for_completion(&self) {
        const GETEVENTS: u32 = 1;
        // SAFETY: waits for one completion and submits nothing; no argument structure is passed.
        let outcome = unsafe { self.ring.submitter().enter::<()>(0, 1, GETEVENTS, None) };
        if outcome.is_err() {
            // EINTR and the like: the loop looks at the completion queue and comes back.
            thread::yield_now();
        }
    }

    fn land(&self, user_data: u64, result: i32) {
        // SAFETY: `user_data` came from `Box::into_raw` in `launch`, and the kernel completes it once.
        let mut flight = unsafe { Box::from_raw(user_data as *mut Flight) };
        let outcome = match result {
            0 => Err(stalled(flight.request.op)),
            count if count > 0 => {
                flight.moved += count as usize;
                Ok(())
            }
            code => Err(io::Error::from_raw_os_error(-code)),
        };
        let outcome = match outcome {
            Ok(()) if flight.moved < flight.request.len => return self.again(flight),
            Err(error) if transient(&error) => return self.again(flight),
            outcome => outcome,
        };
        // The device goes on while the outcome is told, which takes as long as a checksum of the bytes.
        self.launch_waiting(flight.request.len);
        flight.request.finish(outcome);
    }

    /// A transfer of so many bytes is over: hands over what now has room.
    fn launch_waiting(&self, ended_bytes: usize) {
        let mut submit = self.lock();
        submit.in_flight -= 1;
        submit.in_flight_bytes -= ended_bytes;
        while submit.waiting.peek().is_some_and(|next| submit.has_room(next)) {
            let Some(next) = submit.waiting.pop() else { break };
            submit.submitted(&next);
            self.launch(next);
        }
    }

    fn again(&self, flight: Box<Flight>) {
        let _submit = self.lock();
        self.launch(flight);
    }
}

/// How much of what is left one operation moves: its length has 32 bits, and the kernel stops short of 2 GiB.
fn once_bytes(left: usize) -> u32 {
    left.min(ONCE_BYTES_MAX) as u32
}

/// Errors after which the same request may be submitted again. ECANCELED: the submitting thread ended.
fn transient(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let Some(code) = error.raw_os_error() else { return false };
    matches!(Errno::from_raw_os_error(code), Errno::INTR | Errno::AGAIN | Errno::BUSY | Errno::CANCELED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_operation_is_longer_than_its_length_can_say() {
        assert_eq!(once_bytes(4096), 4096);
        assert_eq!(once_bytes(5 << 30), 1 << 30);
        assert_eq!(once_bytes(1 << 32), 1 << 30, "not 0");
    }
}
