//! What is kept for each thread, reached by two instructions.
//!
//! `thread_local!` would call the dynamic linker's function on every operation, as a library that may be loaded late has
//! to. This one is only ever preloaded, so its threads' memory lies at a distance from the thread pointer that is fixed
//! when the program starts.

use core::arch::{asm, global_asm};
use core::cell::Cell;

global_asm!(
    ".pushsection .tbss.warmset_direct, \"awT\", @nobits",
    ".balign 16",
    ".globl warmset_direct_thread",
    ".hidden warmset_direct_thread",
    ".type warmset_direct_thread, @tls_object",
    ".size warmset_direct_thread, 16",
    "warmset_direct_thread: .zero 16",
    ".popsection",
);

/// All zeros when the thread starts. 16 bytes, as above.
#[repr(C, align(16))]
pub struct Thread {
    /// Its slot in [`crate::stats`], and one; 0 if it has none yet.
    pub slot: Cell<u32>,
    /// Its number in [`crate::ranges`]; 0 if it has none yet.
    pub number: Cell<u32>,
    /// Writes that it is in: more than one in a signal handler.
    pub depth: Cell<u32>,
    /// A handler wrote meanwhile.
    pub was_interrupted: Cell<u32>,
}

const _: () = assert!(size_of::<Thread>() == 16 && align_of::<Thread>() == 16);

/// This thread's.
pub fn own<'a>() -> &'a Thread {
    let at: *const Thread;
    // SAFETY: on x86-64 the word at fs:0 is the thread pointer, and the linker or the dynamic linker fills in the distance.
    // The memory is zeroed, stays while the thread runs, and a Thread of zeros is valid; it is not Sync.
    unsafe {
        asm!(
            "mov {at}, qword ptr fs:[0]",
            "add {at}, qword ptr [rip + warmset_direct_thread@GOTTPOFF]",
            at = out(reg) at,
            options(pure, readonly, nostack),
        );
        &*at
    }
}
