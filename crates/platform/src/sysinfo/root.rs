//! Where the system files are read from: the live machine, or a fixture tree below some directory.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The most that is read of one system file, in bytes; the largest real one (`mountinfo` of a busy host) is far below.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The directory that stands for `/`.
#[derive(Debug, Clone)]
pub struct Root(PathBuf);

impl Default for Root {
    fn default() -> Self {
        Root::live()
    }
}

impl Root {
    /// The running machine.
    pub fn live() -> Self {
        Root(PathBuf::from("/"))
    }

    /// A tree of fixture files, laid out as on a machine (`DIR/proc/meminfo`).
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Root(dir.into())
    }

    /// Where the absolute path `path` lies below this root.
    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The file as text, invalid UTF-8 replaced; `None` if it is missing or unreadable.
    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let mut bytes = Vec::new();
        File::open(self.join(path)).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The file as one number; `None` if it is missing or not a number.
    pub fn number(&self, path: impl AsRef<Path>) -> Option<i64> {
        self.text(path)?.trim().parse().ok()
    }

    /// The names in a directory, sorted; empty if it cannot be read.
    pub fn names(&self, path: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.join(path)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}
