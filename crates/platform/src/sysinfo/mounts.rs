//! The mount table, from `/proc/self/mountinfo`.
//!
//! A malformed line is skipped, so that one odd mount never hides the others.

use std::path::{Path, PathBuf};

use super::Root;

/// One mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// `major:minor` of the device.
    pub device: String,
    /// Which directory of the file system is mounted.
    pub root: PathBuf,
    /// Where it is mounted.
    pub point: PathBuf,
    /// `rw`, `noexec`, ...
    pub options: Vec<String>,
    /// `ext4`, `tmpfs`, `cgroup2`, ...
    pub fs_type: String,
    /// Options of the file system; on cgroup v1 the controllers.
    pub super_options: Vec<String>,
}

/// Reads the mounts of this process; empty where the file is missing.
pub fn read(root: &Root) -> Vec<Mount> {
    root.text("/proc/self/mountinfo").map(|text| parse(&text)).unwrap_or_default()
}

/// Parses the text of `mountinfo` (format: proc_pid_mountinfo(5)).
pub fn parse(text: &str) -> Vec<Mount> {
    text.lines().filter_map(parse_line).collect()
}

/// The mount that `path` lies on: the longest mount point that is a prefix; of equals, the one mounted last.
pub fn holding<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.components().count())
}

fn parse_line(line: &str) -> Option<Mount> {
    let (head, tail) = line.split_once(" - ")?;
    let mut head = head.split(' ').skip(2);
    let device = head.next()?.to_owned();
    let root = PathBuf::from(unescape(head.next()?));
    let point = PathBuf::from(unescape(head.next()?));
    let options = list(head.next()?);
    let mut tail = tail.split(' ');
    let fs_type = tail.next()?.to_owned();
    let super_options = list(tail.nth(1).unwrap_or(""));
    Some(Mount { device, root, point, options, fs_type, super_options })
}

fn list(text: &str) -> Vec<String> {
    text.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// The kernel writes space, tab, newline and backslash as a backslash and three octal digits.
fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match octal(bytes, at) {
            Some(byte) => {
                out.push(byte);
                at += 4;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn octal(bytes: &[u8], at: usize) -> Option<u8> {
    let [b'\\', digits @ ..] = bytes.get(at..at + 4)? else { return None };
    digits
        .iter()
        .try_fold(0u32, |sum, digit| match digit {
            b'0'..=b'7' => Some(sum * 8 + u32::from(digit - b'0')),
            _ => None,
        })?
        .try_into()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
29 27 0:26 / /mnt/with\\040space rw,noexec shared:7 master:1 - tmpfs none rw
this line is not a mount
31 27 0:28 / /tmp rw,nosuid,noexec - tmpfs tmpfs rw,mode=755
";

    #[test]
    fn reads_points_options_and_escapes_and_skips_what_is_malformed() {
        let mounts = parse(TABLE);
        assert_eq!(mounts.len(), 3);
        assert_eq!(mounts[1].point, Path::new("/mnt/with space"));
        assert_eq!(mounts[1].fs_type, "tmpfs");
        assert!(mounts[2].options.contains(&"noexec".to_owned()));
    }

    #[test]
    fn the_holding_mount_is_the_longest_prefix_by_component() {
        let mounts = parse(TABLE);
        assert_eq!(holding(&mounts, Path::new("/tmp/a")).unwrap().point, Path::new("/tmp"));
        assert_eq!(holding(&mounts, Path::new("/tmpa")).unwrap().point, Path::new("/"));
    }

    proptest::proptest! {
        #[test]
        fn never_panics(text in "\\PC*", escaped in "[\\\\0-9a-z /:-]{0,60}") {
            parse(&text);
            parse(&escaped);
            unescape(&escaped);
        }
    }
}
