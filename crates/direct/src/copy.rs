//! Copies that end at a fault instead of killing the process.
//!
//! A page of a mapped file faults when the file was cut shorter, or when the file system has no page left; the caller's
//! buffer faults when it is not the caller's. The handler in `fault` recognises an instruction of these routines and
//! continues them at their exit, which reports the fault. They use no stack and change only registers that a call may
//! change.

use core::arch::global_asm;
use core::sync::atomic::{AtomicU8, Ordering};

global_asm!(
    ".pushsection .text",
    ".balign 64",
    "warmset_direct_guarded_begin:",
    // copy(to, from, bytes) -> 1 done, 0 fault: 32-byte registers, the rest by a string move.
    ".globl warmset_direct_copy",
    ".hidden warmset_direct_copy",
    "warmset_direct_copy:",
    "mov rcx, rdx",
    "shr rcx, 7",
    "jz 3f",
    "2: vmovdqu ymm0, [rsi]",
    "vmovdqu ymm1, [rsi + 32]",
    "vmovdqu ymm2, [rsi + 64]",
    "vmovdqu ymm3, [rsi + 96]",
    "vmovdqu [rdi], ymm0",
    "vmovdqu [rdi + 32], ymm1",
    "vmovdqu [rdi + 64], ymm2",
    "vmovdqu [rdi + 96], ymm3",
    "sub rsi, -128",
    "sub rdi, -128",
    "dec rcx",
    "jnz 2b",
    "vzeroupper",
    "and edx, 127",
    "3: mov ecx, edx",
    "rep movsb",
    "mov eax, 1",
    "ret",
    // copy_around(to, from, bytes), of at least 160 bytes: as copy, but what is written goes around the caches.
    ".globl warmset_direct_copy_around",
    ".hidden warmset_direct_copy_around",
    "warmset_direct_copy_around:",
    "mov ecx, edi",
    "neg ecx",
    "and ecx, 31",
    "sub rdx, rcx",
    "rep movsb",
    "mov rcx, rdx",
    "shr rcx, 7",
    "5: prefetcht0 [rsi + 1024]",
    "prefetcht0 [rsi + 1088]",
    "vmovdqu ymm0, [rsi]",
    "vmovdqu ymm1, [rsi + 32]",
    "vmovdqu ymm2, [rsi + 64]",
    "vmovdqu ymm3, [rsi + 96]",
    "vmovntdq [rdi], ymm0",
    "vmovntdq [rdi + 32], ymm1",
    "vmovntdq [rdi + 64], ymm2",
    "vmovntdq [rdi + 96], ymm3",
    "sub rsi, -128",
    "sub rdi, -128",
    "dec rcx",
    "jnz 5b",
    "sfence",
    "vzeroupper",
    "and edx, 127",
    "mov ecx, edx",
    "rep movsb",
    "mov eax, 1",
    "ret",
    // The same by string moves alone, for processors without 32-byte registers.
    ".globl warmset_direct_copy_string",
    ".hidden warmset_direct_copy_string",
    "warmset_direct_copy_string:",
    "mov rcx, rdx",
    "rep movsb",
    "mov eax, 1",
    "ret",
    // touch(first, last) -> 1 readable, 0 fault: one byte of each page of [first, last].
    ".globl warmset_direct_touch",
    ".hidden warmset_direct_touch",
    "warmset_direct_touch:",
    "4: mov al, [rdi]",
    "add rdi, 4096",
    "cmp rdi, rsi",
    "jb 4b",
    "mov al, [rsi]",
    "mov eax, 1",
    "ret",
    "warmset_direct_guarded_end:",
    "warmset_direct_faulted:",
    "xor eax, eax",
    "ret",
    ".globl warmset_direct_guarded",
    ".hidden warmset_direct_guarded",
    ".popsection",
    ".pushsection .data.rel.ro.warmset_direct, \"aw\", @progbits",
    ".balign 8",
    "warmset_direct_guarded:",
    ".quad warmset_direct_guarded_begin",
    ".quad warmset_direct_guarded_end",
    ".quad warmset_direct_faulted",
    ".popsection",
);

unsafe extern "C" {
    fn warmset_direct_copy(to: *mut u8, from: *const u8, bytes: usize) -> u32;
    fn warmset_direct_copy_around(to: *mut u8, from: *const u8, bytes: usize) -> u32;
    fn warmset_direct_copy_string(to: *mut u8, from: *const u8, bytes: usize) -> u32;
    fn warmset_direct_touch(first: *const u8, last: *const u8) -> u32;
    static warmset_direct_guarded: [usize; 3];
}

/// Where to continue after a fault at this instruction, if it is one of these routines'.
pub fn exit_of(instruction: usize) -> Option<usize> {
    // SAFETY: a constant table that the assembler made; the loader relocated it before any code of this library ran.
    let [begin, end, exit] = unsafe { warmset_direct_guarded };
    (begin..end).contains(&instruction).then_some(exit)
}

const UNKNOWN: u8 = 0;
const WIDE: u8 = 1;
const NARROW: u8 = 2;
static REGISTERS: AtomicU8 = AtomicU8::new(UNKNOWN);

fn has_wide_registers() -> bool {
    match REGISTERS.load(Ordering::Relaxed) {
        UNKNOWN => {
            let wide = std::arch::is_x86_feature_detected!("avx");
            REGISTERS.store(if wide { WIDE } else { NARROW }, Ordering::Relaxed);
            wide
        }
        found => found == WIDE,
    }
}

/// Copies into a file go around the caches from here on: measured on AMD EPYC, 64 KiB take 3.3 instead of 5.3 µs.
pub const AROUND_INTO_FILE: usize = 16 << 10;
/// Copies into the program's buffer do from here on: the caches would not hold so much.
pub const AROUND_INTO_BUFFER: usize = 4 << 20;

/// Copies, from `around` bytes on around the caches; false at a fault, with a part of `to` written.
///
/// # Safety
/// `to` and `from` are memory of the program's, or of a mapping that stays in place, or not mapped at all; what is
/// written there may be changed by others meanwhile. The handlers of `fault` are installed.
pub unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize, around: usize) -> bool {
    // SAFETY: as the caller promises; each of them ends at a fault.
    unsafe {
        if !has_wide_registers() {
            warmset_direct_copy_string(to, from, bytes) != 0
        } else if bytes >= around {
            warmset_direct_copy_around(to, from, bytes) != 0
        } else {
            warmset_direct_copy(to, from, bytes) != 0
        }
    }
}

/// Whether each page of `bytes` from `at` can be read. No bytes can always be.
///
/// # Safety
/// The handlers of `fault` are installed.
pub unsafe fn is_readable(at: *const u8, bytes: usize) -> bool {
    let Some(to_last) = bytes.checked_sub(1) else {
        return true;
    };
    // An end past the last address wraps around, below the first: the kernel says what that is.
    let last = at.wrapping_add(to_last);
    // SAFETY: it only reads, and ends at a fault.
    last >= at && unsafe { warmset_direct_touch(at, last) != 0 }
}
