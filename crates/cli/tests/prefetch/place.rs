//! A program whose reads are known, its files, and a store of profiles.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::fs::{Advice, fadvise};
use serde_json::Value;
use warmset_platform::residency;

use crate::until;

pub const MIB: u64 = 1 << 20;
pub const SECOND: u64 = 3 << 19;

/// A directory with the program, its two files, and profiles.
pub struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let place = Self { directory };
        for (name, size) in [("first", 3 * MIB), ("second", SECOND)] {
            fs::write(place.path(name), vec![7; size as usize]).unwrap();
        }
        place.build("program.c", "pie", &["-pie", "-fPIE"]);
        place.build("program.c", "fixed", &["-no-pie", "-fno-pie"]);
        // Any user may look at it, and so run what is in it.
        fs::set_permissions(place.directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        place
    }

    /// Compiles one of the sources beside this file.
    pub fn build(&self, source: &str, name: &str, flags: &[&str]) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/prefetch").join(source);
        let built = Command::new("cc")
            .args(["-O1", "-fno-toplevel-reorder", "-Wl,--build-id", "-pthread"])
            .args(flags)
            .args([source.as_os_str(), "-o".as_ref(), self.path(name).as_os_str()])
            .status()
            .unwrap();
        assert!(built.success());
    }

    /// Drops the files from the page cache. What was just written is there in large folios, which are mapped whole at
    /// their first fault: then no tracepoint tells what else of them is touched. A page that something else holds for a
    /// moment stays: asked again until all are gone.
    pub fn evict(&self) {
        for name in ["first", "second", "pie", "fixed"] {
            let file = fs::File::open(self.path(name)).unwrap();
            let bytes = file.metadata().unwrap().len();
            file.sync_all().unwrap();
            until(&format!("{name} is out of the page cache"), || {
                fadvise(&file, 0, None, Advice::DontNeed).unwrap();
                !residency::pages(file.as_fd(), bytes).unwrap().contains(&true)
            });
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    pub fn command(&self, binary: &str, wait_ms: u32, mode: &str) -> Vec<String> {
        let text = |name: &str| self.path(name).to_str().unwrap().to_owned();
        // Exit status 3 would be a failure to learn from.
        let line = "\"$@\"; code=$?; test $code = 3 || exit $code";
        let mut words: Vec<String> = ["/bin/sh", "-c", line, "sh"].map(str::to_owned).to_vec();
        words.extend([text(binary), text("first"), text("second"), wait_ms.to_string()]);
        words.extend((!mode.is_empty()).then(|| mode.to_owned()));
        words
    }

    pub fn warmset(&self, words: &[&str], command: &[String]) -> Command {
        let mut warmset = Command::new(env!("CARGO_BIN_EXE_warmset"));
        warmset.env("XDG_DATA_HOME", self.path("data")).stdin(Stdio::null()).args(words);
        if !command.is_empty() {
            warmset.arg("--").args(command);
        }
        warmset
    }

    pub fn output(&self, words: &[&str], command: &[String]) -> Output {
        self.warmset(words, command).output().unwrap()
    }

    /// Evicts the files, and learns the command as root. `None`, and says so, where the recorder for root does not work.
    pub fn recorded_as_root(&self, test: &str, command: &[String]) -> Option<Output> {
        self.evict();
        let learned = self.output(&["learn"], command);
        let errors = text(&learned.stderr);
        if !errors.contains("recorded with tracepoints") {
            eprintln!("SKIPPED {test}: no tracepoints here: {errors}");
            return None;
        }
        Some(learned)
    }

    /// Learns a command whose late burst needs a trigger, which a second run would choose.
    pub fn recorded_in_bursts(&self, test: &str, command: &[String]) -> Option<Output> {
        let learned = self.recorded_as_root(test, command)?;
        assert!(text(&learned.stderr).contains("once more"), "{}", text(&learned.stderr));
        Some(learned)
    }

    /// The only profile, as `profile show --json` gives it.
    pub fn profile(&self) -> Value {
        let listed = text(&self.output(&["profile", "list"], &[]).stdout);
        let name =
            listed.split_whitespace().next().unwrap_or_else(|| panic!("no profile: {listed}")).to_owned();
        let shown = self.output(&["profile", "show", "--json", &name], &[]);
        serde_json::from_slice::<Value>(&shown.stdout).unwrap()["profile"].take()
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
