//! Where profiles are kept: one JSON file for each program and its arguments, below the XDG data directory.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use thiserror::Error;
use twox_hash::XxHash3_64;

use crate::profile::{Profile, VERSION};

/// A profile that is larger than this was not written by this program.
const FILE_BYTES_MAX: u64 = 64 << 20;

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

    /// The name of the profile for a program and its arguments: `rustc-0123456789abcdef`.
    #[must_use]
    pub fn name(program: &Path, arguments: &[String]) -> String {
        let mut bytes = program.as_os_str().as_bytes().to_vec();
        for argument in arguments {
            bytes.push(0);
            bytes.extend_from_slice(argument.as_bytes());
        }
        let stem = program.file_name().unwrap_or(OsStr::new("program")).to_string_lossy();
        format!("{stem}-{:016x}", XxHash3_64::oneshot(&bytes))
    }

    /// The profile's file.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.json"))
    }

    /// Writes the profile aside and renames it. Returns its name.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn save(&self, profile: &Profile) -> Result<String, StoreError> {
        let name = Self::name(&profile.program, &profile.arguments);
        let path = self.path(&name);
        let aside = self.directory.join(format!(".{name}.{}", std::process::id()));
        let json = serde_json::to_vec(profile).map_err(io::Error::other);
        let written = fs::create_dir_all(&self.directory)
            .and(json)
            .and_then(|json| fs::write(&aside, json))
            .and_then(|()| fs::rename(&aside, &path));
        written.map_err(|source| StoreError::Io { path, source })?;
        Ok(name)
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
        let text = match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() && metadata.len() <= FILE_BYTES_MAX => fs::read(&path),
            Ok(_) => {
                return Err(StoreError::Corrupt { path, reason: "no regular file of at most 64 MiB".into() });
            }
            Err(error) => Err(error),
        };
        let text = text.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => StoreError::Missing(name.to_owned()),
            _ => StoreError::Io { path: path.clone(), source },
        })?;
        let profile: Profile = serde_json::from_slice(&text)
            .map_err(|error| StoreError::Corrupt { path: path.clone(), reason: error.to_string() })?;
        if profile.version != VERSION {
            let reason = format!("its version is {}, this program reads {VERSION}", profile.version);
            return Err(StoreError::Corrupt { path, reason });
        }
        Ok(profile)
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
            name.strip_suffix(".json").filter(|name| !name.starts_with('.')).map(str::to_owned)
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
