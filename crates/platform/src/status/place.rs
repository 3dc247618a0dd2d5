//! Where status files are: a directory of each user's, in memory where the system has one.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// Names the directory, in place of all others; empty: nothing is published.
pub const VARIABLE: &str = "WARMSET_STATUS_DIR";
const NAME: &str = "warmset";

/// What directories are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The one that this process writes to: the first that works.
    ToWrite,
    /// All that it may read.
    ToRead,
}

/// A directory, and whose it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its path.
    pub path: PathBuf,
    /// The user.
    pub user: u32,
}

/// Candidates, the best first.
#[must_use]
pub fn directories(wanted: Wanted) -> Vec<Place> {
    let user = geteuid().as_raw();
    let variable = |name: &str| env::var_os(name).map(PathBuf::from);
    candidates(wanted, user, variable(VARIABLE), variable("XDG_RUNTIME_DIR"), Path::new("/"))
}

fn candidates(
    wanted: Wanted,
    user: u32,
    chosen: Option<PathBuf>,
    runtime: Option<PathBuf>,
    root: &Path,
) -> Vec<Place> {
    match chosen {
        Some(path) if path.is_absolute() => return vec![Place { path, user }],
        // Nothing is written to a place that depends on where the program was started.
        Some(_) => return Vec::new(),
        None => {}
    }
    let own = |path: PathBuf| Place { path, user };
    // A runtime directory of somebody else's may be left in the environment by `su`.
    let runtime = runtime.filter(|path| path.is_absolute() && owner(path) == Some(user));
    let mut all: Vec<Place> = runtime.into_iter().map(|path| own(path.join(NAME))).collect();
    if user == 0 {
        all.push(own(root.join("run").join(NAME)));
    }
    let of_user = root.join("run/user").join(user.to_string());
    if owner(&of_user) == Some(user) {
        all.push(own(of_user.join(NAME)));
    }
    all.push(own(root.join("tmp").join(format!("{NAME}-{user}"))));
    if user == 0 && wanted == Wanted::ToRead {
        let users = names(&root.join("run/user"));
        let of_users = users.iter().filter_map(|name| Some((name.parse().ok()?, name)));
        all.extend(of_users.map(|(user, name)| {
            let path = root.join("run/user").join(name).join(NAME);
            Place { path, user }
        }));
        let fallbacks = names(&root.join("tmp"));
        all.extend(fallbacks.iter().filter_map(|name| {
            let user = name.strip_prefix(NAME)?.strip_prefix('-')?.parse().ok()?;
            Some(Place { path: root.join("tmp").join(name), user })
        }));
    }
    let mut seen: Vec<Place> = Vec::new();
    for place in all {
        if !seen.contains(&place) {
            seen.push(place);
        }
    }
    seen
}

fn owner(path: &Path) -> Option<u32> {
    fs::symlink_metadata(path).ok().filter(fs::Metadata::is_dir).map(|found| found.uid())
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_in_place_of_all_others() {
        let at = |chosen: &str| candidates(Wanted::ToRead, 1000, Some(chosen.into()), None, Path::new("/"));
        assert_eq!(at("/a/b"), [Place { path: "/a/b".into(), user: 1000 }]);
        assert_eq!((at(""), at("relative")), (vec![], vec![]));
    }

    #[test]
    fn a_user_reads_what_it_wrote_and_root_reads_all() {
        let root = tempfile::tempdir().expect("dir");
        let own = geteuid().as_raw();
        for dir in ["run/user/7", "tmp/warmset-8", "tmp/other", &format!("run/user/{own}")] {
            fs::create_dir_all(root.path().join(dir)).expect("made");
        }
        let paths = |wanted, user| {
            let found = candidates(wanted, user, None, None, root.path());
            let relative = |place: Place| place.path.strip_prefix(root.path()).expect("below").to_owned();
            found.into_iter().map(relative).collect::<Vec<_>>()
        };
        // The directory of user 7 is not theirs here.
        assert_eq!(paths(Wanted::ToWrite, 7 + own), [PathBuf::from(format!("tmp/warmset-{}", 7 + own))]);
        let mine = paths(Wanted::ToWrite, own);
        assert!(mine.contains(&PathBuf::from(format!("run/user/{own}/warmset"))), "{mine:?}");
        let all = paths(Wanted::ToRead, 0);
        for dir in ["run/warmset", "tmp/warmset-0", "run/user/7/warmset", "tmp/warmset-8"] {
            assert!(all.contains(&PathBuf::from(dir)), "{all:?}");
        }
        assert!(!all.iter().any(|path| path.ends_with("other")));
        let runtime = root.path().join(format!("run/user/{own}"));
        let first = candidates(Wanted::ToWrite, own, None, Some(runtime.clone()), root.path());
        assert_eq!(first[0].path, runtime.join("warmset"));
    }
}
