//! From where a stopped thread was called: its stack is searched for return addresses, since most programs keep no frame
//! pointers. What a finished call left there is found, too.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::registers;
use crate::opens::FileId;
use crate::sysinfo::maps::{Line, line};

/// How much of the stack is searched.
const STACK_BYTES: usize = 16 << 10;
/// The longest call instruction that is recognised.
const CALL_BYTES: u64 = 6;

/// An instruction that has called a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The file with the code.
    pub file: FileId,
    /// Its path.
    pub path: PathBuf,
    /// Where in the file the instruction is.
    pub offset: u64,
}

/// The calls that a thread, which has to be stopped by us, seems to be in, the outermost first. Those in the C library and
/// the loader are left out: everybody makes them.
#[must_use]
pub fn callers(thread: u32) -> Vec<Caller> {
    find(thread).unwrap_or_default()
}

fn find(thread: u32) -> Option<Vec<Caller>> {
    let registers = registers(thread as libc::pid_t)?;
    let maps = fs::read_to_string(format!("/proc/{thread}/maps")).ok()?;
    let code: Vec<Line<'_>> = maps.lines().filter_map(line).filter(is_code).collect();
    let memory = File::open(format!("/proc/{thread}/mem")).ok()?;
    let mut stack = vec![0; STACK_BYTES];
    let count = memory.read_at(&mut stack, registers.rsp).ok()?;
    let mut found: Vec<Caller> = Vec::new();
    for word in stack[..count].chunks_exact(8).rev() {
        let address = u64::from_ne_bytes(word.try_into().expect("eight bytes"));
        let holds =
            |line: &&Line<'_>| line.mapping.start + CALL_BYTES <= address && address < line.mapping.end;
        let Some(line) = code.iter().find(holds) else { continue };
        let mut before = [0; CALL_BYTES as usize];
        if memory.read_exact_at(&mut before, address - CALL_BYTES).is_err() {
            continue;
        }
        let Some(length) = call_bytes(&before) else { continue };
        let Some(path) = line.path() else { continue };
        let caller = Caller {
            file: FileId { device: line.device, inode: line.inode },
            path: path.to_owned(),
            offset: address - length - line.mapping.start + line.offset,
        };
        if !found.contains(&caller) {
            found.push(caller);
        }
    }
    Some(found)
}

fn is_code(line: &Line<'_>) -> bool {
    const OF_ALL: [&str; 4] = ["libc.so.", "libc-", "ld-linux", "libpthread"];
    let is_of_all = |name: &[u8]| OF_ALL.iter().any(|start| name.starts_with(start.as_bytes()));
    let name = line.path().and_then(Path::file_name);
    line.rights.contains('x') && name.is_some_and(|name| !is_of_all(name.as_encoded_bytes()))
}

/// The length of the call that ends these bytes, if one does.
fn call_bytes(before: &[u8; CALL_BYTES as usize]) -> Option<u64> {
    match *before {
        [0xff, 0x15 | 0x90..=0x97, ..] => Some(6),
        [_, 0xe8, ..] => Some(5),
        [.., 0x41, 0xff, 0xd0..=0xd7] | [.., 0xff, 0x50..=0x57, _] => Some(3),
        [.., 0xff, 0xd0..=0xd7] => Some(2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_recognised_by_their_bytes() {
        assert_eq!(call_bytes(&[0xff, 0x15, 1, 2, 3, 4]), Some(6));
        assert_eq!(call_bytes(&[0, 0xe8, 1, 2, 3, 4]), Some(5));
        assert_eq!(call_bytes(&[0, 0, 0, 0x41, 0xff, 0xd4]), Some(3));
        assert_eq!(call_bytes(&[0, 0, 0, 0x90, 0xff, 0xd0]), Some(2));
        assert_eq!(call_bytes(&[0x90; 6]), None);
    }

    #[test]
    fn the_c_library_is_left_out() {
        let of = |name: &str| is_code(&line(&format!("5000-7000 r-xp 0 fe:00 12 {name}")).unwrap());
        assert!(of("/usr/bin/gdb") && of("/usr/lib/libcrypto.so.3"));
        assert!(
            !of("/lib/x86_64-linux-gnu/libc.so.6") && !of("/lib64/ld-linux-x86-64.so.2") && !of("[vdso]")
        );
    }
}
