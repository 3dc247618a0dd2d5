//! The build-id of a program or library, which tells whether an offset still is the same instruction.

use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;

use object::Object;
use object::read::ReadCache;

/// The file's build-id in hexadecimal digits; `None` if it has none or is no ELF file.
#[must_use]
pub fn build_id(path: &Path) -> Option<String> {
    let cache = ReadCache::new(File::open(path).ok()?);
    let file = object::File::parse(&cache).ok()?;
    let id = file.build_id().ok()??;
    Some(id.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}
