//! The unwinder, found when it is needed: when a thread is cancelled in a call of libc's, the stack is unwound through
//! this library, by libgcc_s, which libc has loaded for that.
//!
//! Linked to it as usual, this library would load it into every program, which takes two fifths of its start. With an
//! unwinder of its own it would give the registers that the other one handed over to the wrong one.

use core::arch::global_asm;
use core::ffi::{c_char, c_void};

/// Where a function of libgcc_s is. Without one there is no way on.
extern "C" fn find(name: *const c_char) -> *mut c_void {
    // SAFETY: both names are C strings.
    let found = unsafe {
        let library = libc::dlopen(c"libgcc_s.so.1".as_ptr(), libc::RTLD_LAZY);
        if library.is_null() { library } else { libc::dlsym(library, name) }
    };
    if found.is_null() {
        std::process::abort();
    }
    found
}

/// Each jumps to the function of its name, with the registers and the stack that it was called with.
macro_rules! forward {
    ($($name:literal)*) => {$(
        global_asm!(
            ".pushsection .text",
            concat!(".globl ", $name),
            concat!(".hidden ", $name),
            concat!(".type ", $name, ", @function"),
            concat!($name, ":"),
            concat!("mov r11, qword ptr [rip + warmset_direct_at", $name, "]"),
            "test r11, r11",
            "jnz 2f",
            "push rdi",
            "push rsi",
            "push rdx",
            "push rcx",
            "sub rsp, 8",
            concat!("lea rdi, [rip + warmset_direct_name", $name, "]"),
            "call {find}",
            "mov r11, rax",
            concat!("mov qword ptr [rip + warmset_direct_at", $name, "], rax"),
            "add rsp, 8",
            "pop rcx",
            "pop rdx",
            "pop rsi",
            "pop rdi",
            "2: jmp r11",
            ".popsection",
            ".pushsection .data.warmset_direct_unwind, \"aw\", @progbits",
            ".balign 8",
            concat!("warmset_direct_at", $name, ": .quad 0"),
            concat!("warmset_direct_name", $name, ": .asciz \"", $name, "\""),
            ".popsection",
            find = sym find,
        );
    )*};
}

forward! {
    "_Unwind_Backtrace" "_Unwind_DeleteException" "_Unwind_FindEnclosingFunction" "_Unwind_GetCFA" "_Unwind_GetDataRelBase"
    "_Unwind_GetIP" "_Unwind_GetIPInfo" "_Unwind_GetLanguageSpecificData" "_Unwind_GetRegionStart"
    "_Unwind_GetTextRelBase" "_Unwind_RaiseException" "_Unwind_Resume" "_Unwind_SetGR" "_Unwind_SetIP"
}
