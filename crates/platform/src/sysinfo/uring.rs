//! Whether io_uring works here, found out by setting up a small ring.

use io_uring::{IoUring, Probe, opcode};
use serde::Serialize;

/// What a ring can do for this process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Uring {
    /// A ring was set up, and it reads and writes.
    Works,
    /// A ring was set up, but this kernel's ring lacks plain reads or writes.
    TooOld,
    /// No ring: `reason` is the kernel's answer.
    Refused {
        /// The error of `io_uring_setup`.
        reason: String,
    },
}

/// Sets up a ring of eight entries and asks it what it knows.
pub fn probe() -> Uring {
    let ring = match IoUring::new(8) {
        Ok(ring) => ring,
        Err(error) => return Uring::Refused { reason: error.to_string() },
    };
    let mut probe = Probe::new();
    let known = ring.submitter().register_probe(&mut probe).is_ok()
        && probe.is_supported(opcode::Read::CODE)
        && probe.is_supported(opcode::Write::CODE);
    if known { Uring::Works } else { Uring::TooOld }
}
