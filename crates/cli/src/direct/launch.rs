//! `warmset direct run`: starts a program with the library.
//!
//! The program takes this process's place, so that signals, terminal, streams and exit code are its own.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use warmset_platform::sysinfo::{Root, mounts};
use warmset_platform::tmpfs;

use super::args::RunArgs;
use super::places;
use super::program::{Kind, kind_of};
use crate::command::Command as Found;

const LIBRARY: &str = "libwarmset_direct.so";

/// Starts the program. Returns only if it could not be started.
pub fn run(wanted: &RunArgs) -> io::Result<ExitCode> {
    if !cfg!(target_arch = "x86_64") {
        let arch = env::consts::ARCH;
        return Err(io::Error::other(format!(
            "the library is for x86-64, and this is {arch}: start the program without `warmset direct run`"
        )));
    }
    let found = match Found::find(&wanted.command) {
        Ok(found) => found,
        Err(code) => return Ok(code),
    };
    let directories = served(&wanted.directories)?;
    let mut command = found.start();
    let kind = kind_of(&found.program);
    if let Some(reason) = kind.reason() {
        let name = Path::new(&wanted.command[0]).display();
        writeln!(io::stderr(), "warmset: {name} runs as without `warmset direct`: {reason}")?;
    }
    // A static program does not load it, but may start others that do.
    if kind != Kind::Musl {
        let library = library()?;
        command.env("LD_PRELOAD", before_others(&library, env::var_os("LD_PRELOAD"))?);
        command.env("WARMSET_DIRECT_DIRS", directories);
        if wanted.strict {
            command.env("WARMSET_DIRECT_STRICT", "1");
        }
        if let Some(file) = &wanted.stats {
            command.env("WARMSET_DIRECT_STATS", std::path::absolute(file)?);
        }
    }
    Ok(found.failed(&command.exec()))
}

/// The directories as the library takes them: absolute, links resolved, separated by colons.
fn served(asked: &[PathBuf]) -> io::Result<OsString> {
    let directories = if asked.is_empty() {
        places::all().into_iter().map(|place| place.path).collect()
    } else {
        asked.to_vec()
    };
    if directories.is_empty() {
        return Err(io::Error::other(
            "no directory is served: make some with `warmset direct setup`, or name one with --dir",
        ));
    }
    let mut joined = OsString::new();
    for directory in &directories {
        let shown = directory.display();
        let path =
            directory.canonicalize().map_err(|error| io::Error::other(format!("--dir {shown}: {error}")))?;
        if !path.is_dir() {
            return Err(io::Error::other(format!("--dir {shown}: it is no directory")));
        }
        if path.as_os_str().as_bytes().contains(&b':') {
            return Err(io::Error::other(format!("--dir {shown}: a path with a colon cannot be passed on")));
        }
        if !tmpfs::holds(&path)? {
            let mounts = mounts::read(&Root::live());
            let fs_type =
                mounts::holding(&mounts, &path).map_or("another file system", |mount| &mount.fs_type);
            writeln!(
                io::stderr(),
                "warmset: {shown} is on {fs_type}, not on tmpfs: the kernel reads and writes its files, as without this"
            )?;
        }
        if !joined.is_empty() {
            joined.push(":");
        }
        joined.push(&path);
    }
    Ok(joined)
}

/// Where the library is: named by the environment, beside this command, or where a package puts it.
fn library() -> io::Result<PathBuf> {
    if let Some(path) = env::var_os("WARMSET_DIRECT_LIBRARY") {
        let path = std::path::absolute(PathBuf::from(path))?;
        return if path.is_file() {
            Ok(path)
        } else {
            Err(io::Error::other(format!(
                "WARMSET_DIRECT_LIBRARY names {}, which is no file",
                path.display()
            )))
        };
    }
    let own = env::current_exe()?;
    let candidates = candidates(own.parent().unwrap_or(Path::new("/")));
    candidates.iter().find(|path| path.is_file()).cloned().ok_or_else(|| {
        let places: Vec<String> = candidates.iter().map(|path| path.display().to_string()).collect();
        io::Error::other(format!(
            "{LIBRARY} is not installed; looked for {}; WARMSET_DIRECT_LIBRARY can name it",
            places.join(", ")
        ))
    })
}

fn candidates(directory: &Path) -> Vec<PathBuf> {
    let mut found = vec![directory.join(LIBRARY)];
    if let Some(parent) = directory.parent() {
        found.push(parent.join("lib/warmset").join(LIBRARY));
        // In the build folder: of the other profile.
        let other = match directory.file_name().and_then(OsStr::to_str) {
            Some("debug") => Some("release"),
            Some("release") => Some("debug"),
            _ => None,
        };
        found.extend(other.map(|profile| parent.join(profile).join(LIBRARY)));
    }
    found
}

/// The value of `LD_PRELOAD` with the library before what is there already.
fn before_others(library: &Path, others: Option<OsString>) -> io::Result<OsString> {
    let mut value = library.as_os_str().as_bytes().to_vec();
    // The dynamic linker splits at these, and nothing quotes them.
    if value.iter().any(|byte| *byte == b':' || byte.is_ascii_whitespace()) {
        let shown = library.display();
        return Err(io::Error::other(format!("{shown}: LD_PRELOAD takes no path with a space or colon")));
    }
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        value.push(b':');
        value.extend(others.as_bytes());
    }
    Ok(OsString::from_vec(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_goes_before_what_is_preloaded_already() {
        let library = Path::new("/opt/lib.so");
        assert_eq!(before_others(library, None).unwrap(), "/opt/lib.so");
        assert_eq!(before_others(library, Some("".into())).unwrap(), "/opt/lib.so");
        assert_eq!(before_others(library, Some("/a.so /b.so".into())).unwrap(), "/opt/lib.so:/a.so /b.so");
        assert!(before_others(Path::new("/my lib.so"), None).is_err());
    }

    #[test]
    fn the_library_is_beside_the_command_or_where_a_package_puts_it() {
        let found = candidates(Path::new("/usr/bin"));
        assert_eq!(
            found,
            ["/usr/bin/libwarmset_direct.so", "/usr/lib/warmset/libwarmset_direct.so"].map(PathBuf::from)
        );
        assert!(candidates(Path::new("/t/debug")).contains(&"/t/release/libwarmset_direct.so".into()));
    }
}
