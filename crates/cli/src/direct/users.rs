//! Which processes use files below a directory: open, mapped, run, or worked in.
//!
//! Processes of other users, whose tables cannot be read, are not found; the kernel itself refuses to unmount what they
//! use.

use std::fs;
use std::path::{Path, PathBuf};

/// A process, and one of the files that it uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// One of the files.
    pub file: PathBuf,
}

/// All processes that use something below one of `directories`, except this one, in ascending order.
pub fn of(directories: &[PathBuf]) -> Vec<User> {
    let own = std::process::id();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let mut users: Vec<User> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|&pid| pid != own)
        .filter_map(|pid: u32| {
            let process = PathBuf::from(format!("/proc/{pid}"));
            let file = used(&process, directories)?;
            let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
            Some(User { pid, name: name.trim_end().to_owned(), file })
        })
        .collect();
    users.sort_by_key(|user| user.pid);
    users
}

fn used(process: &Path, directories: &[PathBuf]) -> Option<PathBuf> {
    let below = |path: &PathBuf| directories.iter().any(|directory| path.starts_with(directory));
    let links = ["cwd", "root", "exe"].into_iter().filter_map(|name| fs::read_link(process.join(name)).ok());
    let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let open = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    links.chain(open).find(below).or_else(|| {
        let maps = fs::read_to_string(process.join("maps")).unwrap_or_default();
        maps.lines().filter_map(mapped).find(below)
    })
}

/// The file of a line of `/proc/PID/maps`: what follows five fields.
fn mapped(line: &str) -> Option<PathBuf> {
    let at = line.find('/')?;
    Some(PathBuf::from(&line[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_file_is_the_end_of_its_line() {
        let line = "7f00-7f01 rw-s 00000000 00:1c 5                          /dev/shm/a b (deleted)";
        assert_eq!(mapped(line), Some(PathBuf::from("/dev/shm/a b (deleted)")));
        assert_eq!(mapped("7f00-7f01 rw-p 00000000 00:00 0 "), None);
    }
}
