//! What a file says of itself to this crate: JSON in the custom metadata of the Arrow footer, with a checksum beside it.
//!
//! ```text
//! ARROW1..  schema, [dictionaries,] batches           parts: checksums over all of it
//! footer    Arrow's; custom metadata:
//!           "warmset"       the layout, padded so that the last part ends at least 4096 bytes before the file does
//!           "warmset.xxh3"  XXH3-64 of that text, in hexadecimal
//! ```
//! Invariant: what [`Layout::parse`] returns was written by this crate, and its parts lie within the file.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;
use warmset_platform::io::DIRECT_ALIGN_BYTES;

/// Version of the layout; a reader refuses newer ones.
const VERSION: u32 = 1;
const KEY: &str = "warmset";
const KEY_CHECKSUM: &str = "warmset.xxh3";
/// Parts begin at multiples of this, and direct reads of the last one end at one, within the file.
pub(crate) const ALIGN_BYTES: u64 = DIRECT_ALIGN_BYTES as u64;

/// Bytes of the file with a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// A multiple of 4096.
    pub offset: u64,
    pub bytes: u64,
    /// XXH3-64.
    pub checksum: u64,
}

impl Part {
    pub fn end(&self) -> u64 {
        self.offset + self.bytes
    }
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Record batches.
    Table,
    /// One array of fixed-size elements.
    Array,
}

/// An array's shape and where its bytes are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayShape {
    /// NumPy's name of its elements' type, as it gave it.
    pub dtype: String,
    /// Elements in each dimension; rows first.
    pub shape: Vec<u64>,
    /// Bytes of a row.
    pub row_bytes: u64,
    /// Where the first row begins in the file, in bytes.
    pub data_offset: u64,
    /// Rows in each part but the last.
    pub part_rows: u64,
    /// Rows that a scan gives at once; a part has a whole number of these.
    pub batch_rows: u64,
}

impl ArrayShape {
    /// Rows: the first dimension.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.shape[0]
    }
}

/// The layout of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Layout {
    pub kind: Kind,
    pub rows: u64,
    /// The schema, then what becomes segments: the dictionaries if there are any, and batches or rows.
    pub parts: Vec<Part>,
    pub has_dictionaries: bool,
    /// Of an array.
    pub array: Option<ArrayShape>,
}

#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    version: u32,
    layout: T,
}

impl Layout {
    /// What becomes segments.
    pub fn segments(&self) -> &[Part] {
        &self.parts[1..]
    }

    /// The custom metadata that says it.
    pub fn encode(&self) -> [(String, String); 2] {
        // These types have no map with other keys than text, which is all that could fail.
        let json = serde_json::to_string(&Versioned { version: VERSION, layout: self }).unwrap_or_default();
        let text = format!("{json}{}", " ".repeat(DIRECT_ALIGN_BYTES));
        let checksum = format!("{:016x}", XxHash3_64::oneshot(text.as_bytes()));
        [(KEY.to_owned(), text), (KEY_CHECKSUM.to_owned(), checksum)]
    }

    /// Reads it from a file of `file_bytes`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(metadata: &HashMap<String, String>, file_bytes: u64) -> Result<Self, String> {
        let text = metadata.get(KEY).ok_or(
            "it is an Arrow file that no Warmset store has written: read it with an Arrow library and assign the table \
             to a name",
        )?;
        let checksum = format!("{:016x}", XxHash3_64::oneshot(text.as_bytes()));
        if metadata.get(KEY_CHECKSUM) != Some(&checksum) {
            return Err("the checksum of the layout in its footer is wrong".to_owned());
        }
        let unreadable = |error| format!("the layout in its footer cannot be read: {error}");
        let version: Versioned<serde::de::IgnoredAny> = serde_json::from_str(text).map_err(unreadable)?;
        if version.version > VERSION {
            return Err(format!(
                "it has layout {}, and this Warmset reads up to {VERSION}: install a newer one",
                version.version
            ));
        }
        let layout = serde_json::from_str::<Versioned<Layout>>(text).map_err(unreadable)?.layout;
        match layout.problem(file_bytes) {
            Some(problem) => Err(format!("the layout in its footer is impossible: {problem}")),
            None => Ok(layout),
        }
    }

    fn problem(&self, file_bytes: u64) -> Option<&'static str> {
        let mut end = 0;
        if self.parts.is_empty() {
            return Some("it has no parts");
        }
        for part in &self.parts {
            let Some(part_end) = part.offset.checked_add(part.bytes) else {
                return Some("a part is too long");
            };
            if part.offset != end - end % ALIGN_BYTES || part_end < end || part_end > file_bytes {
                return Some("its parts do not follow each other");
            }
            end = part_end;
        }
        match (&self.array, self.kind) {
            (None, Kind::Table) => None,
            (Some(array), Kind::Array) => self.array_problem(array),
            _ => Some("it is neither a table nor an array"),
        }
    }

    fn array_problem(&self, array: &ArrayShape) -> Option<&'static str> {
        let Some(&rows) = array.shape.first() else { return Some("an array has no dimension") };
        let bytes = rows.checked_mul(array.row_bytes);
        let Some((data_bytes, data_end)) =
            bytes.and_then(|bytes| Some((bytes, array.data_offset.checked_add(bytes)?)))
        else {
            return Some("an array is too long");
        };
        let segments = self.segments();
        let wanted = if data_bytes == 0 { 0 } else { rows.div_ceil(array.part_rows.max(1)) };
        if array.batch_rows == 0 || array.part_rows % array.batch_rows != 0 {
            return Some("its parts do not have a whole number of batches");
        }
        if array.part_rows == 0 || (segments.len() as u64) != wanted {
            return Some("it has other parts than rows");
        }
        let mut ends = segments.iter().enumerate().map(|(n, part)| {
            let through = (n as u64 + 1).saturating_mul(array.part_rows).min(rows);
            part.end() == array.data_offset + through * array.row_bytes
        });
        if !ends.all(|right| right) || segments.last().is_some_and(|last| last.end() != data_end) {
            return Some("its parts end elsewhere than rows");
        }
        None
    }
}
