//! The library takes the unwinder of libgcc in: else every program that is started with it would load libgcc_s, too,
//! which takes two fifths of the library's start. Where the compiler has no such archive, libgcc_s is loaded.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let Some(out) = std::env::var_os("OUT_DIR").map(PathBuf::from) else { return };
    let archive = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output();
    let Ok(archive) = archive.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()) else {
        return;
    };
    // The linker looks here first, and reads a library that is text as a script.
    let script = out.join("libgcc_s.so");
    if Path::new(&archive).is_absolute() && std::fs::write(script, format!("INPUT({archive})\n")).is_ok() {
        println!("cargo:rustc-link-search=native={}", out.display());
    }
}
