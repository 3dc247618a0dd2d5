//! Kernel trace events of one process tree, through an instance of tracefs of our own.
//!
//! Invariant: the instance is removed when its [`TraceInstance`] is dropped; other users of tracefs see nothing of it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, mount};

const TRACEFS: &str = "/sys/kernel/tracing";
const MARK: &str = "warmset follows this thread";

/// A trace buffer that follows this thread's children.
#[derive(Debug)]
pub struct TraceInstance {
    directory: PathBuf,
}

impl TraceInstance {
    /// Makes an instance whose events are those of the calling thread and of every process and thread that it and its
    /// children start from now on. `buffer_kib` is per processor.
    ///
    /// # Errors
    /// The kernel's: `PermissionDenied` for all but root; `NotFound` where it has no tracefs.
    pub fn of_this_thread(name: &str, buffer_kib: u32) -> io::Result<Self> {
        let root = Path::new(TRACEFS);
        if !root.join("instances").exists() {
            mount("none", root, "tracefs", MountFlags::empty(), None)?;
        }
        let directory = root.join("instances").join(name);
        // What a recorder of this name left that was killed.
        let _ = fs::remove_dir(&directory);
        fs::create_dir(&directory)?;
        let instance = Self { directory };
        instance.set("buffer_size_kb", &buffer_kib.to_string())?;
        // Events carry the thread's number in the first PID namespace, which no call tells inside another one.
        instance.set("trace_marker", MARK)?;
        let thread = instance
            .text()?
            .lines()
            .find(|line| line.contains(MARK))
            .and_then(thread_of)
            .ok_or_else(|| io::Error::other("the trace buffer does not show what was written to it"))?;
        instance.set("options/event-fork", "1")?;
        instance.set("set_event_pid", &thread.to_string())?;
        instance.set("trace", "")?;
        Ok(instance)
    }

    /// Records an event, named as `group/event`.
    ///
    /// # Errors
    /// `NotFound` where this kernel has no such event.
    pub fn enable(&self, event: &str) -> io::Result<()> {
        self.set(&format!("events/{event}/enable"), "1")
    }

    /// Stops recording; what was recorded stays.
    ///
    /// # Errors
    /// The kernel's.
    pub fn stop(&self) -> io::Result<()> {
        self.set("tracing_on", "0")
    }

    /// Everything recorded so far, a line per event, in order of time.
    ///
    /// # Errors
    /// The kernel's.
    pub fn text(&self) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(self.directory.join("trace"))?).into_owned())
    }

    /// How many events found no room in the buffers.
    ///
    /// # Errors
    /// The kernel's.
    pub fn lost(&self) -> io::Result<u64> {
        let mut lost = 0;
        for entry in fs::read_dir(self.directory.join("per_cpu"))? {
            let stats = fs::read_to_string(entry?.path().join("stats"))?;
            for name in ["overrun: ", "dropped events: "] {
                let found = stats.lines().find_map(|line| line.strip_prefix(name));
                lost += found.and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or(0);
            }
        }
        Ok(lost)
    }

    fn set(&self, file: &str, value: &str) -> io::Result<()> {
        fs::write(self.directory.join(file), value)
    }
}

impl Drop for TraceInstance {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.directory);
    }
}

/// The thread's number in a line such as `name-123 [001] .....  12.345678: event: …`.
fn thread_of(line: &str) -> Option<u32> {
    line.split_once(" [")?.0.trim().rsplit_once('-')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::thread_of;

    #[test]
    fn a_line_names_its_thread() {
        assert_eq!(thread_of("   a-b c-421   [000] .....  1.5: x: y"), Some(421));
        assert_eq!(thread_of("# tracer: nop"), None);
    }
}
