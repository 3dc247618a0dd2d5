//! The command takes the unwinder of libgcc in, as the library of the direct path does: `warmset direct run` starts before
//! each program, and loading libgcc_s is a good part of that. Where the compiler has no such archive, it is loaded.

use std::env::var;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // musl programs are static anyway.
    if var("CARGO_CFG_TARGET_ENV").as_deref() != Ok("gnu") || var("HOST") != var("TARGET") {
        return;
    }
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
