//! The seccomp filter: the tracer is told of reads and of mapped files, and of nothing else.

use libc::{sock_filter, sock_fprog};

const TRACED: [i64; 9] = [
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_sendfile,
    libc::SYS_copy_file_range,
    libc::SYS_execve,
    libc::SYS_execveat,
];
/// `AUDIT_ARCH_X86_64`: calls of 32-bit programs have other numbers.
const ARCHITECTURE: u32 = 0xC000_003E;
/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const KIND: u32 = 4;
const FIFTH_ARGUMENT: u32 = 16 + 4 * 8;

fn load(offset: u32) -> sock_filter {
    sock_filter { code: (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, jt: 0, jf: 0, k: offset }
}

fn equal(value: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, jt, jf, k: value }
}

fn answer(value: u32) -> sock_filter {
    sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: value }
}

/// The filter's instructions.
pub(super) fn program() -> Vec<sock_filter> {
    let mut lines =
        vec![load(KIND), equal(ARCHITECTURE, 1, 0), answer(libc::SECCOMP_RET_ALLOW), load(NUMBER)];
    for number in TRACED {
        lines.push(equal(number as u32, 0, 1));
        lines.push(answer(libc::SECCOMP_RET_TRACE));
    }
    // mmap of a descriptor; -1 is memory of no file.
    lines.push(equal(libc::SYS_mmap as u32, 1, 0));
    lines.push(answer(libc::SECCOMP_RET_ALLOW));
    lines.push(load(FIFTH_ARGUMENT));
    lines.push(equal(u32::MAX, 0, 1));
    lines.push(answer(libc::SECCOMP_RET_ALLOW));
    lines.push(answer(libc::SECCOMP_RET_TRACE));
    lines
}

/// Installs the filter for this thread and all that it starts.
///
/// # Safety
/// Only calls that are safe after a fork are made; the filter must live until the call returns.
pub(super) unsafe fn install(filter: &[sock_filter]) -> bool {
    let program = sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the kernel copies the filter, which the caller keeps alive; the other arguments are numbers.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    }
}
