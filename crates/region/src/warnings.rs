//! What a store warns of, for a host that is no Rust program: a line each.
//!
//! Invariant: a subscriber that is there already stays.

use std::fmt::{Debug, Write as _};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::set_global_default;
use tracing::{Event, Level, Metadata, Subscriber};

/// Hands on what stores of this process warn of from now on, unless a `tracing` subscriber sees it already: one line each,
/// without its break. May be called by any thread, and by several at once.
pub fn hand_warnings_to(sink: impl Fn(&str) + Send + Sync + 'static) {
    // An error says that there is a subscriber: one of the host's, or ours from an earlier call.
    let _ = set_global_default(Lines(sink));
}

/// Hands each warning on as one line.
struct Lines<F>(F);

impl<F: Fn(&str) + Send + Sync + 'static> Subscriber for Lines<F> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        (self.0)(&text.line());
    }

    // The store has no spans, and lines would not show them.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Text {
    fn line(&self) -> String {
        let fields = self.fields.strip_prefix(", ").map(|fields| format!(" ({fields})")).unwrap_or_default();
        let text = format!("{}{fields}", self.message);
        // A file name may hold a line break.
        text.replace(['\n', '\r'], " ")
    }
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, ", {name}: {value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn a_warning_is_one_line_and_what_is_less_is_none() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&lines);
        let subscriber = Lines(move |line: &str| seen.lock().unwrap().push(line.to_owned()));
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(region = 7_u64, error = %"no\nspace", "a segment stays in memory");
            tracing::info!("not for users");
            tracing::warn!("plain");
        });
        let expected = ["a segment stays in memory (region: 7, error: no space)", "plain"];
        assert_eq!(*lines.lock().unwrap(), expected);
    }
}
