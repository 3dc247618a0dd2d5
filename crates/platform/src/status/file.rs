//! One process's file: written aside and renamed, and read by others with mistrust.
//!
//! Invariants: the directory is the user's and nobody else can look into it, whoever made it; all files are named
//! relative to its descriptor, so that nobody can put another in its place. What is read is a regular file of bounded size.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fchmod, fstat, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::SCHEMA;
use super::place::Place;
use crate::fork::Origin;
use crate::sysinfo::Root;
use crate::sysinfo::process::process;

/// The longest file that is written or read.
pub const STATUS_BYTES_MAX: u64 = 1 << 20;
/// Of a directory, so much is read: a user cannot fill the memory of root's view.
const DIRECTORY_BYTES_MAX: u64 = 64 * STATUS_BYTES_MAX;
const FILES_MAX: usize = 4096;
/// In another PID namespace a process cannot be looked up: it is taken for dead when its file is so old.
const OLD: Duration = Duration::from_secs(15);
/// And when it has written less often than it said.
const TURNS_MISSED_MAX: u32 = 5;

/// Which process: its number, when it started, and in which PID namespace that number is its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    pid: u32,
    start_ticks: u64,
    namespace: u64,
}

impl Identity {
    fn own() -> Self {
        let pid = std::process::id();
        let start_ticks = process(&Root::live(), pid).map_or(0, |own| own.start_ticks);
        Self { pid, start_ticks, namespace: namespace() }
    }

    fn name(&self) -> String {
        format!("{}-{}-{}.json", self.pid, self.start_ticks, self.namespace)
    }

    fn parse(name: &str) -> Option<Self> {
        let mut numbers = name.strip_suffix(".json")?.split('-').map(|number| number.parse::<u64>().ok());
        let (pid, start_ticks, namespace) = (numbers.next()??, numbers.next()??, numbers.next()??);
        let identity = Self { pid: u32::try_from(pid).ok()?, start_ticks, namespace };
        (numbers.next().is_none() && identity.name() == name).then_some(identity)
    }

    /// Whether it runs; `age` of its file where it is in another namespace.
    fn is_alive(&self, age: Duration) -> bool {
        if self.namespace != namespace() {
            return age < OLD;
        }
        let found = process(&Root::live(), self.pid);
        found.is_some_and(|found| !found.ended && found.start_ticks == self.start_ticks)
    }
}

/// This process's PID namespace.
fn namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |found| found.ino())
}

/// Opens a place's directory, and looks whose it is.
fn open_directory(place: &Place) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = openat(CWD, &place.path, flags, Mode::empty())?;
    if fstat(&dir)?.st_uid != place.user {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the directory is another user's"));
    }
    Ok(dir)
}

/// The file of this process; removed when it is dropped.
#[derive(Debug)]
pub struct StatusFile {
    dir: OwnedFd,
    name: String,
    head: String,
    origin: Origin,
}

impl StatusFile {
    /// Starts one in the first of the places that works, and removes what dead processes left there.
    pub fn begin(places: Vec<Place>) -> io::Result<Self> {
        let mut failed = io::Error::from(io::ErrorKind::NotFound);
        for place in places {
            match Self::begin_in(&place) {
                Ok(file) => return Ok(file),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    fn begin_in(place: &Place) -> io::Result<Self> {
        match mkdirat(CWD, &place.path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let dir = open_directory(place)?;
        if fstat(&dir)?.st_mode & 0o077 != 0 {
            fchmod(&dir, Mode::RWXU)?;
        }
        sweep(&dir, &place.path);
        let identity = Identity::own();
        let comm = fs::read_to_string("/proc/self/comm").unwrap_or_default();
        let head = serde_json::json!({
            "schema": SCHEMA, "version": env!("CARGO_PKG_VERSION"), "pid": identity.pid,
            "name": comm.trim_end_matches('\n'),
        });
        let head = head.to_string().trim_end_matches('}').to_owned();
        Ok(Self { dir, name: identity.name(), head, origin: Origin::here() })
    }

    /// Writes what there is to say now. Parts that do not fit are left out.
    pub fn write(&mut self, parts: &[String], interval: Duration) -> io::Result<()> {
        let at_ns = now_ns();
        let mut text =
            format!("{},\"at_ns\":{at_ns},\"interval_ms\":{},\"parts\":[", self.head, interval.as_millis());
        let mut separator = "";
        for part in parts {
            if (text.len() + part.len()) as u64 + 16 < STATUS_BYTES_MAX {
                text += separator;
                text += part;
                separator = ",";
            }
        }
        text += "]}\n";
        let aside = format!("{}.new", self.name);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(&self.dir, &aside, flags, Mode::RUSR | Mode::WUSR)?;
        let written = File::from(opened).write_all(text.as_bytes());
        let renamed = written.and_then(|()| Ok(renameat(&self.dir, &aside, &self.dir, &self.name)?));
        if renamed.is_err() {
            let _ = unlinkat(&self.dir, &aside, AtFlags::empty());
        }
        renamed
    }
}

impl Drop for StatusFile {
    fn drop(&mut self) {
        if self.origin.is_here() {
            let _ = unlinkat(&self.dir, &self.name, AtFlags::empty());
        }
    }
}

/// Nanoseconds of a clock that all processes of this boot share.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Removes the files of dead processes.
fn sweep(dir: &OwnedFd, path: &Path) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(identity) = name.to_str().and_then(|name| Identity::parse(name.trim_end_matches(".new")))
        else {
            continue;
        };
        let age = entry.metadata().map_or(Duration::ZERO, |found| age(&found));
        // A container that was stopped for a while writes its file again.
        if !identity.is_alive(age / 4) {
            let _ = unlinkat(dir, &name, AtFlags::empty());
        }
    }
}

fn age(found: &fs::Metadata) -> Duration {
    let modified = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    SystemTime::now().duration_since(modified).unwrap_or_default()
}

/// A process's file.
#[derive(Debug, Clone)]
pub struct Found {
    /// The number of the process in its own PID namespace.
    pub pid: u32,
    /// Tells it from all other processes of this boot.
    pub name: String,
    /// The user who wrote it.
    pub user: u32,
    /// Since it was written.
    pub age: Duration,
    /// What it says: JSON, unless somebody else has written it.
    pub text: String,
}

impl Found {
    /// Whether its process has missed several turns of `interval_ms`: it is stopped, or its machine is overloaded.
    #[must_use]
    pub fn is_late(&self, interval_ms: u64) -> bool {
        self.age > Duration::from_millis(interval_ms.clamp(1000, 600_000)) * TURNS_MISSED_MAX
    }
}

/// What a directory has.
#[derive(Debug, Clone, Default)]
pub struct FoundIn {
    /// Files of living processes, by name.
    pub files: Vec<Found>,
    /// Files that cannot be read, and why.
    pub problems: Vec<(PathBuf, String)>,
}

/// Reads the files of a directory; nothing if there is none.
#[must_use]
pub fn read_directory(place: &Place) -> FoundIn {
    let mut all = FoundIn::default();
    let dir = match open_directory(place) {
        Ok(dir) => dir,
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                all.problems.push((place.path.clone(), error.to_string()));
            }
            return all;
        }
    };
    let mut bytes = 0;
    for entry in fs::read_dir(&place.path).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some((name, identity)) = name.to_str().and_then(|name| Some((name, Identity::parse(name)?)))
        else {
            continue;
        };
        if bytes > DIRECTORY_BYTES_MAX || all.files.len() + all.problems.len() >= FILES_MAX {
            all.problems.push((place.path.clone(), "it has more files than can be shown".to_owned()));
            break;
        }
        match read_file(&dir, name, identity) {
            Ok(found) => {
                bytes += found.as_ref().map_or(0, |found| found.text.len() as u64);
                all.files.extend(found);
            }
            // Its process has just ended.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => all.problems.push((entry.path(), error.to_string())),
        }
    }
    all.files.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

fn read_file(dir: &OwnedFd, name: &str, identity: Identity) -> io::Result<Option<Found>> {
    // A pipe is not waited for.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(dir, name, flags, Mode::empty())?);
    let found = file.metadata()?;
    if !found.is_file() || found.len() > STATUS_BYTES_MAX {
        return Err(io::Error::other("it is no status file"));
    }
    let age = age(&found);
    if !identity.is_alive(age) {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(STATUS_BYTES_MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(Some(Found { pid: identity.pid, name: name.to_owned(), user: found.uid(), age, text }))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::Command;

    use rustix::process::geteuid;

    use super::*;

    fn place(dir: &Path) -> Place {
        Place { path: dir.join("warmset"), user: geteuid().as_raw() }
    }

    fn names(place: &Place) -> Vec<String> {
        let entries = fs::read_dir(&place.path).expect("dir");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("entry").file_name().into_string().expect("text")).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_private_whole_and_gone_when_it_is_dropped() {
        let dir = tempfile::tempdir().expect("dir");
        let place = place(dir.path());
        let elsewhere = Place { path: dir.path().join("no/such/parent"), user: place.user };
        let mut file = StatusFile::begin(vec![elsewhere, place.clone()]).expect("the second works");
        for n in 0..3 {
            file.write(&[format!("{{\"n\":{n}}}"), "{}".to_owned()], Duration::from_secs(1)).expect("write");
        }
        let found = read_directory(&place);
        let [only] = &found.files[..] else { panic!("{found:?}") };
        assert_eq!((only.pid, only.user), (std::process::id(), place.user));
        assert!(!only.is_late(1000));
        let text: serde_json::Value = serde_json::from_str(&only.text).expect("JSON");
        assert_eq!((&text["schema"], &text["pid"]), (&SCHEMA.into(), &only.pid.into()));
        assert_eq!(text["parts"], serde_json::json!([{ "n": 2 }, {}]));
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&place.path), mode(&place.path.join(&only.name))), (0o700, 0o600));
        drop(file);
        assert_eq!(names(&place).len(), 0);
    }

    #[test]
    fn what_does_not_fit_is_left_out() {
        let dir = tempfile::tempdir().expect("dir");
        let place = place(dir.path());
        let mut file = StatusFile::begin(vec![place.clone()]).expect("begin");
        let long = format!("\"{}\"", "x".repeat(600_000));
        file.write(&[long.clone(), long, "7".to_owned()], Duration::from_secs(1)).expect("write");
        let found = read_directory(&place);
        let text: serde_json::Value = serde_json::from_str(&found.files[0].text).expect("JSON");
        assert_eq!((text["parts"].as_array().map(Vec::len), &text["parts"][1]), (Some(2), &7.into()));
    }

    #[test]
    fn files_of_dead_processes_are_not_shown_and_the_next_process_removes_them() {
        let dir = tempfile::tempdir().expect("dir");
        let place = place(dir.path());
        drop(StatusFile::begin(vec![place.clone()]).expect("begin"));
        let mut child = Command::new("sleep").arg("1000").spawn().expect("started");
        let start_ticks = process(&Root::live(), child.id()).expect("it runs").start_ticks;
        let identity = Identity { pid: child.id(), start_ticks, namespace: namespace() };
        fs::write(place.path.join(identity.name()), "of the child").expect("write");
        fs::write(place.path.join(format!("{}.new", identity.name())), "half").expect("write");
        let foreign = Identity { namespace: 1, ..identity };
        fs::write(place.path.join(foreign.name()), "of another namespace").expect("write");
        fs::write(place.path.join("notes.txt"), "of somebody").expect("write");
        let reused = Identity { start_ticks: start_ticks + 1, ..identity };
        fs::write(place.path.join(reused.name()), "of one before").expect("write");
        let shown = |found: FoundIn| found.files.into_iter().map(|file| file.text).collect::<Vec<_>>();
        let mut both = shown(read_directory(&place));
        both.sort();
        assert_eq!(both, ["of another namespace", "of the child"]);
        child.kill().and_then(|()| child.wait()).expect("killed");
        assert_eq!(shown(read_directory(&place)), ["of another namespace"]);
        let _file = StatusFile::begin(vec![place.clone()]).expect("begin");
        assert_eq!(names(&place), [foreign.name(), "notes.txt".to_owned()]);
    }

    #[test]
    fn a_directory_with_too_many_files_is_read_in_part() {
        let dir = tempfile::tempdir().expect("dir");
        let place = place(dir.path());
        let _file = StatusFile::begin(vec![place.clone()]).expect("begin");
        let files = DIRECTORY_BYTES_MAX / STATUS_BYTES_MAX + 3;
        for pid in 1..=files as u32 {
            let name = Identity { pid, start_ticks: 1, namespace: 1 }.name();
            // Nothing is stored of a hole.
            let file = File::create(place.path.join(name)).expect("file");
            file.set_len(STATUS_BYTES_MAX).expect("long");
        }
        let found = read_directory(&place);
        let [(path, why)] = &found.problems[..] else { panic!("{} problems", found.problems.len()) };
        assert_eq!((path, found.files.len() as u64), (&place.path, files - 2), "{why}");
    }

    #[test]
    fn what_is_no_status_file_is_a_problem_and_nothing_more() {
        let dir = tempfile::tempdir().expect("dir");
        let place = place(dir.path());
        let file = StatusFile::begin(vec![place.clone()]).expect("begin");
        let name = |pid: u32| Identity { pid, start_ticks: 1, namespace: 1 }.name();
        let path = |pid| place.path.join(name(pid));
        assert!(Command::new("mkfifo").arg(path(1)).status().expect("mkfifo").success());
        symlink("/etc/passwd", path(2)).expect("link");
        fs::create_dir(path(3)).expect("dir");
        File::create(path(4)).and_then(|file| file.set_len(STATUS_BYTES_MAX + 1)).expect("file");
        for odd in ["0-0-0-0.json", "-1-2-3.json", "01-2-3.json", "a-b-c.json", "1-2.json", ".json"] {
            fs::write(place.path.join(odd), "{}").expect("write");
        }
        let found = read_directory(&place);
        assert_eq!((found.files.len(), found.problems.len()), (0, 4), "{found:?}");
        drop(file);
        // Nor is a link to a directory followed, nor another user's believed.
        symlink(&place.path, dir.path().join("link")).expect("link");
        let linked = Place { path: dir.path().join("link"), ..place.clone() };
        assert!(StatusFile::begin(vec![linked.clone()]).is_err());
        assert_eq!(read_directory(&linked).problems.len(), 1);
        let theirs = Place { user: place.user + 1, ..place };
        assert_eq!(read_directory(&theirs).problems.len(), 1);
    }
}
