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
    // copy(to, from, bytes, witness) -> 1 done, 0 fault: 32-byte registers. One byte at `witness` is read before the copy
    // and after it.
    ".globl warmset_direct_copy",
    ".hidden warmset_direct_copy",
    "warmset_direct_copy:",
    "movzx eax, byte ptr [rcx]",
    "mov rax, rdx",
    "shr rax, 7",
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
    "dec rax",
    "jnz 2b",
    // The rest of less than 128 bytes: a string move, even of nothing, would take as long as 512 bytes here.
    "3: test dl, 127",
    "jz 9f",
    "test dl, 64",
    "jz 4f",
    "vmovdqu ymm0, [rsi]",
    "vmovdqu ymm1, [rsi + 32]",
    "vmovdqu [rdi], ymm0",
    "vmovdqu [rdi + 32], ymm1",
    "add rsi, 64",
    "add rdi, 64",
    "4: test dl, 32",
    "jz 5f",
    "vmovdqu ymm0, [rsi]",
    "vmovdqu [rdi], ymm0",
    "add rsi, 32",
    "add rdi, 32",
    "5: test dl, 16",
    "jz 6f",
    "vmovdqu xmm0, [rsi]",
    "vmovdqu [rdi], xmm0",
    "add rsi, 16",
    "add rdi, 16",
    "6: test dl, 8",
    "jz 7f",
    "mov rax, [rsi]",
    "mov [rdi], rax",
    "add rsi, 8",
    "add rdi, 8",
    "7: test dl, 4",
    "jz 8f",
    "mov eax, [rsi]",
    "mov [rdi], eax",
    "add rsi, 4",
    "add rdi, 4",
    "8: and edx, 3",
    "jz 9f",
    "10: mov al, [rsi]",
    "mov [rdi], al",
    "inc rsi",
    "inc rdi",
    "dec edx",
    "jnz 10b",
    "9: vzeroupper",
    "movzx eax, byte ptr [rcx]",
    "mov eax, 1",
    "ret",
    // copy_around(to, from, bytes, witness), of at least 160 bytes: as copy, but what is written goes around the caches.
    ".globl warmset_direct_copy_around",
    ".hidden warmset_direct_copy_around",
    "warmset_direct_copy_around:",
    "mov r8, rcx",
    "movzx eax, byte ptr [r8]",
    "mov ecx, edi",
    "neg ecx",
    "and ecx, 31",
    "jz 4f",
    "sub rdx, rcx",
    "rep movsb",
    "4: mov rcx, r8",
    "mov rax, rdx",
    "shr rax, 7",
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
    "dec rax",
    "jnz 5b",
    "sfence",
    "jmp 3b",
    // The same by string moves alone, for processors without 32-byte registers.
    ".globl warmset_direct_copy_string",
    ".hidden warmset_direct_copy_string",
    "warmset_direct_copy_string:",
    "mov r8, rcx",
    "movzx eax, byte ptr [r8]",
    "mov rcx, rdx",
    "rep movsb",
    "movzx eax, byte ptr [r8]",
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
    fn warmset_direct_copy(to: *mut u8, from: *const u8, bytes: usize, witness: *const u8) -> u32;
    fn warmset_direct_copy_around(to: *mut u8, from: *const u8, bytes: usize, witness: *const u8) -> u32;
    fn warmset_direct_copy_string(to: *mut u8, from: *const u8, bytes: usize, witness: *const u8) -> u32;
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
const AROUND_INTO_FILE: usize = 16 << 10;
/// And from here on into a file that the caches would not hold: 4 KiB take 0.38 instead of 0.62 µs.
const AROUND_INTO_LARGE_FILE: usize = 4 << 10;
const LARGE_FILE: usize = 16 << 20;
/// Copies into the program's buffer do from here on: the caches would not hold so much.
const AROUND_INTO_BUFFER: usize = 4 << 20;

/// The size from which a write to a file of this size goes around the caches.
pub fn around_into_file(file_bytes: usize) -> usize {
    if file_bytes >= LARGE_FILE { AROUND_INTO_LARGE_FILE } else { AROUND_INTO_FILE }
}

/// The same for a read.
pub fn around_into_buffer() -> usize {
    AROUND_INTO_BUFFER
}

/// Copies, from `around` bytes on around the caches, and reads the byte at `witness` before and after it; false at a
/// fault, with a part of `to` written.
///
/// # Safety
/// `to`, `from` and `witness` are memory of the program's, or of a mapping that stays in place, or not mapped at all; what
/// is written there may be changed by others meanwhile. The handlers of `fault` are installed.
pub unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize, around: usize, witness: *const u8) -> bool {
    // SAFETY: as the caller promises; each of them ends at a fault.
    unsafe {
        if !has_wide_registers() {
            warmset_direct_copy_string(to, from, bytes, witness) != 0
        } else if bytes >= around {
            warmset_direct_copy_around(to, from, bytes, witness) != 0
        } else {
            warmset_direct_copy(to, from, bytes, witness) != 0
        }
    }
}

/// Has the processor fetch what lies at an address, any address.
#[inline(always)]
pub fn fetch(at: *const u8) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    for line in 0..4 {
        // SAFETY: SSE is part of x86-64; a prefetch reads nothing, and faults nowhere.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(line * 64).cast()) };
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
