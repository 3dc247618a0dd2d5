//! The build-id of a program or library, which tells whether an offset still is the same instruction.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use object::Object;
use object::read::ReadCache;
use rustix::fs::OFlags;

/// The file's build-id in hexadecimal digits; `None` if it has none or is no ELF file. The path may be anybody's: what
/// is no regular file is not opened.
#[must_use]
pub fn build_id(path: &Path) -> Option<String> {
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let cache = ReadCache::new(
        OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path).ok()?,
    );
    let file = object::File::parse(&cache).ok()?;
    let id = file.build_id().ok()??;
    Some(id.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}
