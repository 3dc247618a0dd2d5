//! What every operation makes of every word.

use super::*;

const STATES: [State; 9] = [Writing, Sealing, Dirty, WritingBack, Clean, Promoting, Absent, Mapped, Freed];
const FLAGS: [u64; 8] =
    [0, PARKED, RELEASED, RAW, PARKED | RELEASED, PARKED | RAW, RELEASED | RAW, PARKED | RELEASED | RAW];

/// Every word that could be: what `call` makes of it is what `expected` says, and nothing where that says `None`.
fn check<T: PartialEq + std::fmt::Debug>(
    name: &str,
    call: impl Fn(&StateWord) -> T,
    expected: impl Fn(State, u64, u64) -> (T, Option<(State, u64, u64)>),
) {
    for state in STATES {
        for pinned in 0..3 {
            for flags in FLAGS {
                // A writer has one pin until it ends: with the seal, by giving up, or by a release.
                let given_up = state == Writing && pinned == 0 && flags & RELEASED > 0;
                if matches!(state, Writing | Sealing) && pinned != 1 && !given_up {
                    continue;
                }
                let word = StateWord(AtomicU64::new(state as u64 | flags | (pinned * ONE_PIN)));
                let outcome = call(&word);
                let (wanted, next) = expected(state, pinned, flags);
                let what = format!("{name} of {state:?}, {pinned} pins, flags {flags:#x}");
                assert_eq!(outcome, wanted, "{what}");
                let (state, pinned, flags) = next.unwrap_or((state, pinned, flags));
                let after = word.0.load(Ordering::Relaxed);
                assert_eq!(after, state as u64 | flags | (pinned * ONE_PIN), "{what}: now {:?}", word.look());
            }
        }
    }
}

#[test]
fn a_look_sees_what_is_there() {
    check("look", StateWord::look, |state, pinned, flags| {
        (Look { state, pins: pinned as u32, released: flags & RELEASED > 0 }, None)
    });
    let look = |state| Look { state, pins: 2, released: false };
    let seen = |state| (look(state).readers(), look(state).resident());
    let expected = [
        (0, false),
        (0, false),
        (2, true),
        (2, true),
        (2, true),
        (2, false),
        (2, false),
        (2, false),
        (2, false),
    ];
    assert_eq!(STATES.map(seen), expected);
}

#[test]
fn readers_hold_what_is_readable_or_about_to_be() {
    check("pin", StateWord::pin, |state, pinned, flags| {
        if state == Freed || flags & RELEASED > 0 {
            return (Pinned::Gone, None);
        }
        let more = Some((state, pinned + 1, flags));
        match state {
            Writing | Sealing => (Pinned::Unsealed, None),
            Absent => (Pinned::Absent, None),
            Promoting => (Pinned::Pending, more),
            _ => (Pinned::Ready, more),
        }
    });
    check("pin_ready", StateWord::pin_ready, |state, pinned, flags| {
        let ready = matches!(state, Dirty | WritingBack | Clean | Mapped) && flags & RELEASED == 0;
        (ready, ready.then_some((state, pinned + 1, flags)))
    });
}

#[test]
fn the_last_reader_is_told_what_it_has_to_do() {
    check("unpin", StateWord::unpin, |state, pinned, flags| {
        if pinned == 0 || matches!(state, Writing | Sealing) {
            return (Unpinned::Underflow, None);
        }
        if pinned == 2 {
            return (Unpinned::Done, Some((state, 1, flags)));
        }
        let (was_parked, released, mapped) = (flags & PARKED > 0, flags & RELEASED > 0, state == Mapped);
        let last = was_parked || released || mapped;
        let outcome = if last { Unpinned::Last { was_parked, released, mapped } } else { Unpinned::Done };
        (outcome, Some((state, 0, flags & !PARKED)))
    });
}

#[test]
fn a_writers_turn_ends_once() {
    check("seal", StateWord::seal, |state, pinned, flags| {
        let sealed = state == Writing && flags & RELEASED == 0;
        (sealed, sealed.then(|| (Dirty, pinned - 1, flags)))
    });
    check("begin_seal", StateWord::begin_seal, |state, pinned, flags| {
        let begun = state == Writing && flags & RELEASED == 0;
        (begun, begun.then_some((Sealing, pinned, flags)))
    });
    check("abandon", StateWord::abandon, |state, pinned, flags| {
        let given_up = state == Writing && pinned > 0;
        (given_up, given_up.then(|| (Writing, pinned - 1, flags | RELEASED)))
    });
    for flags in FLAGS {
        let sealing = || StateWord(AtomicU64::new(Sealing as u64 | ONE_PIN | flags));
        let after = |word: &StateWord| word.0.load(Ordering::Relaxed);
        let word = sealing();
        word.end_seal(true);
        assert_eq!(after(&word), Absent as u64 | flags);
        let word = sealing();
        word.end_seal(false);
        assert_eq!(after(&word), Writing as u64 | flags | RELEASED, "lost, whoever released it meanwhile");
    }
    assert!(StateWord::writing(true).0.load(Ordering::Relaxed) & RAW > 0);
    assert_eq!(StateWord::writing(false).0.load(Ordering::Relaxed), Writing as u64 | ONE_PIN);
}

#[test]
fn transfers_end_as_they_began() {
    check("begin_write", StateWord::begin_write, |state, pinned, flags| {
        (state == Dirty, (state == Dirty).then_some((WritingBack, pinned, flags)))
    });
    for (begin, promote) in [("begin_promote", true), ("map", false)] {
        let call = |word: &StateWord| if promote { word.begin_promote() } else { word.map() };
        check(begin, call, |state, pinned, flags| {
            let begun = state == Absent && flags & RELEASED == 0;
            let to = if promote { Promoting } else { Mapped };
            (begun, begun.then_some((to, pinned + 1, flags)))
        });
    }
    check("unmap", StateWord::unmap, |state, pinned, flags| {
        let ended = state == Mapped && pinned == 0;
        (ended, ended.then_some((Absent, pinned, flags)))
    });
    let ends = |state: State, end: fn(&StateWord)| {
        let word = StateWord(AtomicU64::new(state as u64 | (2 * ONE_PIN) | PARKED));
        end(&word);
        assert_eq!(word.0.load(Ordering::Relaxed) & !STATE, (2 * ONE_PIN) | PARKED);
        word.look().state
    };
    assert_eq!(ends(WritingBack, |word| word.end_write(true)), Clean);
    assert_eq!(ends(WritingBack, |word| word.end_write(false)), Dirty);
    assert_eq!(ends(Promoting, |word| word.end_promote(true)), Clean);
    assert_eq!(ends(Promoting, |word| word.end_promote(false)), Absent);
    for end in [
        (|word| word.end_write(true)) as fn(&StateWord),
        |word| word.end_promote(true),
        |word| word.end_seal(true),
    ] {
        let word = StateWord::new(Clean);
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| end(&word)));
        assert!(ended.is_err(), "what has not begun does not end");
    }
}

#[test]
fn only_what_nobody_holds_loses_its_frames() {
    check("demote", StateWord::demote, |state, pinned, flags| {
        if matches!(state, Clean | Dirty | Promoting | WritingBack) && pinned > 0 {
            return (Demote::Parked, Some((state, pinned, flags | PARKED)));
        }
        match state {
            _ if flags & RELEASED > 0 => (Demote::Busy, None),
            Clean => (Demote::Demoted, Some((Absent, pinned, flags))),
            Dirty => (Demote::Dirty, None),
            _ => (Demote::Busy, None),
        }
    });
    check("park_if_pinned", StateWord::park_if_pinned, |state, pinned, flags| {
        let parks = matches!(state, Clean | Dirty | Promoting | WritingBack) && pinned > 0;
        (parks, parks.then_some((state, pinned, flags | PARKED)))
    });
    check("free", StateWord::free, |state, pinned, flags| {
        let at_rest = matches!(state, Writing | Dirty | Clean | Absent);
        let freed = at_rest && flags & RELEASED > 0 && pinned == 0;
        (freed.then_some(state), freed.then_some((Freed, pinned, flags)))
    });
}

#[test]
fn a_release_ends_the_hold_of_a_writer_that_knows_an_address_only() {
    check("release", StateWord::release, |state, pinned, flags| {
        if flags & RELEASED > 0 {
            return ((), None);
        }
        let ends = state == Writing && flags & RAW > 0;
        ((), Some((state, pinned - u64::from(ends), flags | RELEASED)))
    });
}
