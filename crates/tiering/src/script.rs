//! Scripts that stand in for what is measured: files of JSON that are read again at each look, so that a test or an
//! experiment can change them while the daemon runs.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::Error;

/// A file that is read again and again.
#[derive(Debug)]
pub struct Script {
    path: PathBuf,
}

impl Script {
    /// Takes a file that holds such a script now.
    ///
    /// # Errors
    /// When it cannot be read or is malformed.
    pub fn open<T: DeserializeOwned>(path: &Path) -> Result<Self, Error> {
        let script = Self { path: path.to_path_buf() };
        script.read::<T>()?;
        Ok(script)
    }

    /// What it holds now.
    ///
    /// # Errors
    /// When it cannot be read or is malformed.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let wrong = |reason: String| Error::Script { path: self.path.display().to_string(), reason };
        let text = std::fs::read_to_string(&self.path).map_err(|error| wrong(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))
    }
}
