//! Failures and the Java exceptions they become.
//!
//! | failure | exception |
//! |---|---|
//! | no space on disk, or to show what is there | `io.warmset.region.NoSpaceException` (an `IOException`) |
//! | I/O, bad settings at `open`, a segment larger than the pool | `java.io.IOException` |
//! | unknown store, region or segment, wrong order of calls, bad argument | `java.lang.IllegalArgumentException` |
//! | a Java exception that is pending already | itself |
//! | a panic | `java.lang.RuntimeException` |

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use jni::JNIEnv;
use warmset_region::Error;

pub(crate) enum Failure {
    /// Where Java declares `IOException` for every error.
    Checked(Error),
    Store(Error),
    Argument(String),
    Jni(jni::errors::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Store(error)
    }
}

impl From<jni::errors::Error> for Failure {
    fn from(error: jni::errors::Error) -> Self {
        Failure::Jni(error)
    }
}

impl Failure {
    fn throw(self, env: &mut JNIEnv<'_>) {
        let (class, message) = match self {
            Failure::Jni(jni::errors::Error::JavaException) => return,
            Failure::Jni(error) => ("java/lang/RuntimeException", error.to_string()),
            Failure::Argument(message) => ("java/lang/IllegalArgumentException", message),
            Failure::Checked(error) => (checked_class(&error), error.to_string()),
            Failure::Store(error @ (Error::Misuse(_) | Error::Config { .. })) => {
                ("java/lang/IllegalArgumentException", error.to_string())
            }
            Failure::Store(error) => (checked_class(&error), error.to_string()),
        };
        throw(env, class, &message);
    }
}

fn checked_class(error: &Error) -> &'static str {
    if error.is_no_space() { "io/warmset/region/NoSpaceException" } else { "java/io/IOException" }
}

fn throw(env: &mut JNIEnv<'_>, class: &str, message: &str) {
    if env.throw_new(class, message).is_err() && !env.exception_check().unwrap_or(true) {
        // Its constructor is missing, which only a wrong jar can cause; any exception is better than none.
        let _ = env.throw(format!("{class}: {message}"));
    }
}

/// Runs one call from Java; after a failure the exception is pending and `fallback` is returned.
pub(crate) fn guarded<T>(
    env: &mut JNIEnv<'_>,
    fallback: T,
    call: impl FnOnce(&mut JNIEnv<'_>) -> Result<T, Failure>,
) -> T {
    match catch_unwind(AssertUnwindSafe(|| call(env))) {
        Ok(Ok(value)) => value,
        Ok(Err(failure)) => {
            failure.throw(env);
            fallback
        }
        Err(panic) => {
            throw(env, "java/lang/RuntimeException", &format!("warmset: internal error: {}", text(&*panic)));
            fallback
        }
    }
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}

pub(crate) fn json<T: serde::Serialize>(value: &T) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| Failure::Argument(error.to_string()))
}
