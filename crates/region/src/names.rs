//! What the host calls the settings. The store has names of its own, and puts the host's into its errors.

use serde::Deserialize;

/// What the settings are called where the store was opened, for its errors. Default: the keys of [`Config`](crate::Config).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Names {
    /// Of `dir`.
    pub dir: String,
    /// Of `budget_bytes`.
    pub budget_bytes: String,
    /// Of `budget_bytes_max`.
    pub budget_bytes_max: String,
    /// Of `flash_bytes_max`.
    pub flash_bytes_max: String,
    /// Of `flash_reserve_bytes`.
    pub flash_reserve_bytes: String,
    /// Of `huge_pages`.
    pub huge_pages: String,
    /// Of `io`.
    pub io: String,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            dir: "dir".to_owned(),
            budget_bytes: "budget_bytes".to_owned(),
            budget_bytes_max: "budget_bytes_max".to_owned(),
            flash_bytes_max: "flash_bytes_max".to_owned(),
            flash_reserve_bytes: "flash_reserve_bytes".to_owned(),
            huge_pages: "huge_pages".to_owned(),
            io: "io".to_owned(),
        }
    }
}
