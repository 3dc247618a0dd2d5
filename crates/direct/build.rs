//! Links the library to libc alone, and not to glibc's dynamic linker by its name, as libc's linker script does for one
//! function: musl's dynamic linker finds no such file, and would end programs of musl that a served program starts.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the compiler has a file of libc's.
fn found(linker: &str, name: &str) -> Option<String> {
    let output = Command::new(linker).arg(format!("-print-file-name={name}")).output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    Path::new(&path).is_absolute().then_some(path)
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let variable = |name: &str| std::env::var(name).ok();
    let Some(out) = variable("OUT_DIR").map(PathBuf::from) else { return };
    // One that brings its own libc, as Zig's does, answers with no path and has no such script.
    let linker = variable("RUSTC_LINKER")
        .or_else(|| (variable("HOST") == variable("TARGET")).then(|| "cc".to_owned()));
    let Some(linker) = linker else { return };
    let (Some(shared), Some(rest)) = (found(&linker, "libc.so.6"), found(&linker, "libc_nonshared.a")) else {
        return;
    };
    // The linker looks here first, and reads a library that is text as a script.
    if std::fs::write(out.join("libc.so"), format!("GROUP({shared} {rest})\n")).is_ok() {
        println!("cargo:rustc-link-search=native={}", out.display());
    }
}
