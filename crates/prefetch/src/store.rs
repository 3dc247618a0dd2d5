//! Where profiles are kept: one file for each program and its arguments, below the XDG data directory.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use thiserror::Error;
use twox_hash::XxHash3_64;
use warmset_platform::owner::AsOwner;

use crate::pattern;
use crate::profile::Profile;

/// A profile that is larger than this was not written by this program.
const FILE_BYTES_MAX: u64 = 64 << 20;
const EXTENSION: &str = "profile";

/// The directory of profiles.
#[derive(Debug, Clone)]
pub struct Store {
    directory: PathBuf,
}

/// Why a profile could not be read or written.
#[derive(Debug, Error)]
pub enum StoreError {
    /// There is none of this name or for this program.
    #[error("there is no profile {0}; `warmset profile list` shows those there are")]
    Missing(String),
    /// The file cannot be read, written or removed.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The kernel's reason.
        source: io::Error,
    },
    /// Several profiles have this program's name.
    #[error("there are {} profiles of {program}: {}", names.len(), names.join(", "))]
    Several {
        /// The program's name.
        program: String,
        /// Their names.
        names: Vec<String>,
    },
    /// The file is no profile.
    #[error("{path} is not a profile ({reason}); remove it and run `warmset learn` again", path = path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Neither variable that says where data belongs is set.
    #[error("neither XDG_DATA_HOME nor HOME is set: set one of them to say where profiles are kept")]
    NoHome,
}

impl Store {
    /// The user's store, `$XDG_DATA_HOME/warmset/profiles` or `~/.local/share/warmset/profiles`.
    ///
    /// # Errors
    /// [`StoreError::NoHome`].
    pub fn of_user() -> Result<Self, StoreError> {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let data = set("XDG_DATA_HOME").or_else(|| Some(set("HOME")?.join(".local/share")));
        data.map(|data| Self::at(data.join("warmset/profiles"))).ok_or(StoreError::NoHome)
    }

    /// A store in this directory.
    #[must_use]
    pub fn at(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// The name of the profile for a program and its arguments or their pattern:
    /// `rustc-0123456789abcdef-0123456789abcdef`.
    #[must_use]
    pub fn name(program: &Path, arguments: &[String]) -> String {
        let joined = arguments.join("\0");
        format!("{}{:016x}", prefix(program), XxHash3_64::oneshot(joined.as_bytes()))
    }

    /// The profile for a program and its arguments: the one that was recorded for exactly these, else one whose pattern
    /// they match.
    ///
    /// # Errors
    /// [`StoreError::Missing`] if there is none; the others if it cannot be read.
    pub fn find(&self, program: &Path, arguments: &[String]) -> Result<Profile, StoreError> {
        let name = Self::name(program, arguments);
        let own = |profile: Profile| {
            if profile.program == program {
                return Ok(profile);
            }
            let reason = format!("it is one of {:?}", profile.program);
            Err(StoreError::Corrupt { path: self.path(&name), reason })
        };
        let exact = self.load(&name);
        if !matches!(exact, Err(StoreError::Missing(_))) {
            return exact.and_then(own);
        }
        let prefix = prefix(program);
        let names = self.names()?.into_iter().filter(|name| name.starts_with(&prefix));
        let mut profiles = names.filter_map(|name| self.load(&name).ok());
        let found = profiles.find(|profile| {
            let fits = profile.is_pattern && pattern::matches(&profile.arguments, arguments);
            fits && profile.program == program
        });
        found.ok_or(StoreError::Missing(name))
    }

    /// The profile of this name, or the only one of the program of this name.
    ///
    /// # Errors
    /// [`StoreError::Missing`] if there is none, [`StoreError::Several`] if it is not clear which.
    pub fn named(&self, name: &str) -> Result<String, StoreError> {
        let mut names = self.names()?;
        if names.iter().any(|each| each == name) {
            return Ok(name.to_owned());
        }
        names.retain(|each| program_of(each) == Some(name));
        match names.len() {
            0 => Err(StoreError::Missing(name.to_owned())),
            1 => Ok(names.remove(0)),
            _ => Err(StoreError::Several { program: name.to_owned(), names }),
        }
    }

    /// The profile's file.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.{EXTENSION}"))
    }

    /// Writes the profile aside and renames it. Returns its name.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn save(&self, profile: &Profile) -> Result<String, StoreError> {
        let name = Self::name(&profile.program, &profile.arguments);
        let path = self.path(&name);
        let aside = self.directory.join(format!(".{name}.{}", std::process::id()));
        let bytes = profile.to_bytes().map_err(io::Error::other);
        // With `sudo`, a user's profiles stay the user's.
        let written = AsOwner::of(&self.directory).and_then(|_owner| self.write(&path, &aside, bytes?));
        written.map_err(|source| StoreError::Io { path, source })?;
        Ok(name)
    }

    fn write(&self, path: &Path, aside: &Path, bytes: Vec<u8>) -> io::Result<()> {
        fs::create_dir_all(&self.directory)?;
        let _ = fs::remove_file(aside);
        fs::File::create_new(aside)?.write_all(&bytes)?;
        fs::rename(aside, path)
    }

    /// Reads a profile.
    ///
    /// # Errors
    /// [`StoreError`], but for `NoHome`.
    pub fn load(&self, name: &str) -> Result<Profile, StoreError> {
        let path = self.path(name);
        if name.contains('/') {
            return Err(StoreError::Missing(name.to_owned()));
        }
        let corrupt = |reason: String| StoreError::Corrupt { path: path.clone(), reason };
        let bytes = match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() && metadata.len() <= FILE_BYTES_MAX => fs::read(&path),
            Ok(_) => return Err(corrupt("no regular file of at most 64 MiB".into())),
            Err(error) => Err(error),
        };
        let bytes = bytes.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => StoreError::Missing(name.to_owned()),
            _ => StoreError::Io { path: path.clone(), source },
        })?;
        Profile::parse(&bytes).map_err(|error| corrupt(error.to_string()))
    }

    /// The names of all profiles, sorted.
    ///
    /// # Errors
    /// [`StoreError::Io`]; a directory that is not there has none.
    pub fn names(&self) -> Result<Vec<String>, StoreError> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(StoreError::Io { path: self.directory.clone(), source }),
        };
        let names = entries.filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            name.strip_suffix(EXTENSION)?
                .strip_suffix('.')
                .filter(|name| !name.starts_with('.'))
                .map(str::to_owned)
        });
        let mut names: Vec<String> = names.collect();
        names.sort();
        Ok(names)
    }

    /// Removes a profile.
    ///
    /// # Errors
    /// [`StoreError::Missing`] and [`StoreError::Io`].
    pub fn remove(&self, name: &str) -> Result<(), StoreError> {
        let path = self.path(name);
        if name.contains('/') {
            return Err(StoreError::Missing(name.to_owned()));
        }
        fs::remove_file(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => StoreError::Missing(name.to_owned()),
            _ => StoreError::Io { path, source },
        })
    }
}

/// The program's part of a profile's name.
fn program_of(name: &str) -> Option<&str> {
    let mut parts = name.rsplitn(3, '-');
    (parts.next()?.len() == 16 && parts.next()?.len() == 16).then(|| parts.next()).flatten()
}

/// What the names of a program's profiles start with.
fn prefix(program: &Path) -> String {
    let stem = program.file_name().unwrap_or(OsStr::new("program")).to_string_lossy();
    format!("{stem}-{:016x}-", XxHash3_64::oneshot(program.as_os_str().as_bytes()))
}
