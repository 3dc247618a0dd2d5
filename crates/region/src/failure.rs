//! Checks that end a store when they fail (see [`Health`](crate::health::Health)), in release builds too.

use std::any::Any;
use std::cell::RefCell;

thread_local! {
    /// What the check that is making this thread panic says.
    static BROKEN: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Panics if `holds` is false; the message is what a store that is locked meanwhile fails with.
#[track_caller]
pub(crate) fn invariant(holds: bool, message: impl FnOnce() -> String) {
    if !holds {
        broken(message());
    }
}

/// The same for what is known to be wrong.
#[track_caller]
pub(crate) fn broken(message: String) -> ! {
    BROKEN.with(|broken| *broken.borrow_mut() = Some(message.clone()));
    panic!("{message}");
}

/// What made this thread panic, as far as it is known before the panic is caught.
pub(crate) fn broken_here() -> String {
    let message = BROKEN.with(|broken| broken.borrow_mut().take());
    message.unwrap_or_else(|| "a panic, which its thread has reported".to_owned())
}

/// The text of a panic that was caught.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}
