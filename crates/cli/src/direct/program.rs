//! What kind of program a file is: whether the dynamic linker can put a library into it, and whether that helps.
//!
//! Parsing is total: of a malformed or truncated file everything is `Kind::Dynamic`, which changes nothing: the kernel
//! says what is wrong with it.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use warmset_platform::tmpfs;

/// The start of a program that holds its headers and notes.
const HEAD_BYTES: u64 = 64 << 10;
/// Interpreters may be scripts themselves; the kernel follows as many.
const SCRIPTS_MAX: usize = 4;
const INTERPRETER: u32 = 3;
const NOTE: u32 = 4;
const PROGRAM_HEADER_BYTES: usize = 56;

/// How a program takes a preloaded library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// By its dynamic linker, as most do.
    Dynamic,
    /// It has no dynamic linker.
    Static,
    /// Go's runtime makes its system calls without libc.
    Go,
    /// The dynamic linker ignores the environment for programs with other rights than their user.
    Privileged,
    /// A 32-bit program cannot load a 64-bit library.
    Narrow,
    /// musl's dynamic linker cannot load a library of glibc, and would end the program.
    Musl,
}

impl Kind {
    /// Why the program runs as without the library; `None` if it does not.
    pub fn reason(self) -> Option<&'static str> {
        match self {
            Kind::Dynamic => None,
            Kind::Static => Some("it is statically linked"),
            Kind::Go => Some("it is written in Go, whose runtime makes its own system calls"),
            Kind::Privileged => Some("it is set-user-ID or set-group-ID"),
            Kind::Narrow => Some("it is a 32-bit program"),
            Kind::Musl => Some("it uses musl instead of glibc"),
        }
    }
}

/// Looks at a program; a script is what its interpreter is.
pub fn kind_of(program: &Path) -> Kind {
    let mut path = program.to_owned();
    for _ in 0..SCRIPTS_MAX {
        let mut head = Vec::with_capacity(HEAD_BYTES as usize);
        let Ok(file) = File::open(&path) else { return Kind::Dynamic };
        let metadata = file.metadata();
        if file.take(HEAD_BYTES).read_to_end(&mut head).is_err() {
            return Kind::Dynamic;
        }
        if let Some(next) = interpreter(&head) {
            path = next;
            continue;
        }
        // The kernel ignores these bits on scripts.
        let changes_rights = metadata.is_ok_and(|metadata| {
            let (user, group) = (tmpfs::user_id(), tmpfs::group_id());
            (metadata.mode() & 0o4000 != 0 && metadata.uid() != user)
                || (metadata.mode() & 0o2000 != 0 && metadata.gid() != group)
        });
        return if changes_rights { Kind::Privileged } else { parse(&head) };
    }
    Kind::Dynamic
}

/// The interpreter of a script: the first word after `#!`.
fn interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let word = std::str::from_utf8(line).ok()?.split_whitespace().next()?;
    Some(PathBuf::from(word))
}

fn parse(head: &[u8]) -> Kind {
    let Some(class) = head.strip_prefix(b"\x7fELF").and_then(|rest| rest.first()) else {
        return Kind::Dynamic;
    };
    if *class == 1 {
        return Kind::Narrow;
    }
    let (Some(table), Some(size), Some(count)) =
        (number(head, 32, 8), number(head, 54, 2), number(head, 56, 2))
    else {
        return Kind::Dynamic;
    };
    if size as usize != PROGRAM_HEADER_BYTES {
        return Kind::Dynamic;
    }
    let (mut linker, mut is_go) = (None, false);
    for index in 0..count {
        let at = (table as usize).saturating_add(index as usize * PROGRAM_HEADER_BYTES);
        let (Some(kind), Some(offset), Some(length)) = (
            number(head, at, 4),
            number(head, at.saturating_add(8), 8),
            number(head, at.saturating_add(32), 8),
        ) else {
            return Kind::Dynamic;
        };
        let range = offset as usize..(offset as usize).saturating_add(length as usize);
        match kind as u32 {
            INTERPRETER => linker = Some(head.get(range).unwrap_or_default()),
            NOTE => {
                is_go |= head.get(range).is_some_and(|note| note.windows(4).any(|word| word == b"Go\0\0"))
            }
            _ => {}
        }
    }
    match linker {
        _ if is_go => Kind::Go,
        None => Kind::Static,
        Some(name) if name.windows(4).any(|word| word == b"musl") => Kind::Musl,
        Some(_) => Kind::Dynamic,
    }
}

/// A number of `width` bytes, least byte first, as on every machine this runs on.
fn number(head: &[u8], at: usize, width: usize) -> Option<u64> {
    let bytes = head.get(at..at.checked_add(width)?)?;
    Some(bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program with these headers: kind, and what they name.
    fn made(headers: &[(u32, &[u8])]) -> Vec<u8> {
        let mut head = vec![0; 64];
        head[..5].copy_from_slice(b"\x7fELF\x02");
        head[32] = 64;
        head[54] = PROGRAM_HEADER_BYTES as u8;
        head[56] = headers.len() as u8;
        let mut offset = 64 + headers.len() * PROGRAM_HEADER_BYTES;
        for (kind, content) in headers {
            let mut header = [0; PROGRAM_HEADER_BYTES];
            header[..4].copy_from_slice(&kind.to_le_bytes());
            header[8..16].copy_from_slice(&(offset as u64).to_le_bytes());
            header[32..40].copy_from_slice(&(content.len() as u64).to_le_bytes());
            head.extend(header);
            offset += content.len();
        }
        head.extend(headers.iter().flat_map(|(_, content)| content.iter()));
        head
    }

    #[test]
    fn programs_are_told_apart_by_their_headers() {
        let linker: (u32, &[u8]) = (INTERPRETER, b"/lib64/ld-linux-x86-64.so.2\0");
        let musl: (u32, &[u8]) = (INTERPRETER, b"/lib/ld-musl-x86_64.so.1\0");
        let go: (u32, &[u8]) = (NOTE, b"\x04\0\0\0\x53\0\0\0\x04\0\0\0Go\0\0id");
        assert_eq!(parse(&made(&[(1, b""), linker])), Kind::Dynamic);
        assert_eq!(parse(&made(&[(1, b"")])), Kind::Static);
        assert_eq!(parse(&made(&[musl])), Kind::Musl);
        assert_eq!(parse(&made(&[go])), Kind::Go);
        assert_eq!(parse(&made(&[linker, go])), Kind::Go);
        assert_eq!(parse(b"\x7fELF\x01"), Kind::Narrow);
        assert_eq!(parse(b"text"), Kind::Dynamic);
        assert_eq!(parse(&made(&[(1, b""), linker])[..100]), Kind::Dynamic, "cut off");
    }

    #[test]
    fn this_test_is_dynamic_and_scripts_are_what_runs_them() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(kind_of(&own), Kind::Dynamic);
        let dir = tempfile::tempdir().unwrap();
        let (program, script) = (dir.path().join("static"), dir.path().join("script"));
        std::fs::write(&program, made(&[(1, b"")])).unwrap();
        std::fs::write(&script, format!("#! {} -x\n", program.display())).unwrap();
        assert_eq!(kind_of(&script), Kind::Static);
        assert_eq!(kind_of(&dir.path().join("missing")), Kind::Dynamic);
    }
}
