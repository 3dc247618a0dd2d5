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
        for held in 0..3 {
            for flags in FLAGS {
                // A writer has one hold until it ends: with the seal, by giving up, or by a release.
                let given_up = state == Writing && held == 0 && flags & RELEASED > 0;
                if matches!(state, Writing | Sealing) && held != 1 && !given_up {
                    continue;
                }
                let word = StateWord(AtomicU64::new(state as u64 | flags | held * ONE_HOLD));
                let outcome = call(&word);
                let (wanted, next) = expected(state, held, flags);
                let what = format!("{name} of {state:?}, {held} holds, flags {flags:#x}");
                assert_eq!(outcome, wanted, "{what}");
                let (state, held, flags) = next.unwrap_or((state, held, flags));
                let after = word.0.load(Ordering::Relaxed);
                assert_eq!(after, state as u64 | flags | held * ONE_HOLD, "{what}: now {:?}", word.look());
            }
        }
    }
}

#[test]
fn a_look_sees_what_is_there() {
    check("look", StateWord::look, |state, held, flags| {
        (Look { state, holds: held as u32, released: flags & RELEASED > 0 }, None)
    });
    let look = |state| Look { state, holds: 2, released: false };
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
    check("hold", StateWord::hold, |state, held, flags| {
        if state == Freed || flags & RELEASED > 0 {
            return (Hold::Gone, None);
        }
        let more = Some((state, held + 1, flags));
        match state {
            Writing | Sealing => (Hold::Unsealed, None),
            Absent => (Hold::Absent, None),
            Promoting => (Hold::Pending, more),
            _ => (Hold::Ready, more),
        }
    });
    check("hold_ready", StateWord::hold_ready, |state, held, flags| {
        let ready = matches!(state, Dirty | WritingBack | Clean | Mapped) && flags & RELEASED == 0;
        (ready, ready.then_some((state, held + 1, flags)))
    });
}

#[test]
fn the_last_reader_is_told_what_it_has_to_do() {
    check("unhold", StateWord::unhold, |state, held, flags| {
        if held == 0 || matches!(state, Writing | Sealing) {
            return (Unhold::Underflow, None);
        }
        if held == 2 {
            return (Unhold::Done, Some((state, 1, flags)));
        }
        let (was_parked, released, mapped) = (flags & PARKED > 0, flags & RELEASED > 0, state == Mapped);
        let last = was_parked || released || mapped;
        let outcome = if last { Unhold::Last { was_parked, released, mapped } } else { Unhold::Done };
        (outcome, Some((state, 0, flags & !PARKED)))
    });
}

#[test]
fn a_writers_turn_ends_once() {
    check("seal", StateWord::seal, |state, held, flags| {
        let sealed = state == Writing && flags & RELEASED == 0;
        (sealed, sealed.then(|| (Dirty, held - 1, flags)))
    });
    check("begin_seal", StateWord::begin_seal, |state, held, flags| {
        let begun = state == Writing && flags & RELEASED == 0;
        (begun, begun.then_some((Sealing, held, flags)))
    });
    check("abandon", StateWord::abandon, |state, held, flags| {
        let given_up = state == Writing && held > 0;
        (given_up, given_up.then(|| (Writing, held - 1, flags | RELEASED)))
    });
    let sealing = || StateWord(AtomicU64::new(Sealing as u64 | ONE_HOLD));
    let word = sealing();
    word.end_seal(true);
    assert_eq!(word.look(), Look { state: Absent, holds: 0, released: false });
    let word = sealing();
    word.end_seal(false);
    assert_eq!(word.look(), Look { state: Writing, holds: 0, released: true });
    assert!(StateWord::writing(true).0.load(Ordering::Relaxed) & RAW > 0);
    assert_eq!(StateWord::writing(false).0.load(Ordering::Relaxed), Writing as u64 | ONE_HOLD);
}

#[test]
fn transfers_end_as_they_began() {
    check("begin_write", StateWord::begin_write, |state, held, flags| {
        (state == Dirty, (state == Dirty).then_some((WritingBack, held, flags)))
    });
    for (begin, promote) in [("begin_promote", true), ("map", false)] {
        let call = |word: &StateWord| if promote { word.begin_promote() } else { word.map() };
        check(begin, call, |state, held, flags| {
            let begun = state == Absent && flags & RELEASED == 0;
            let to = if promote { Promoting } else { Mapped };
            (begun, begun.then_some((to, held + 1, flags)))
        });
    }
    check("unmap", StateWord::unmap, |state, held, flags| {
        let ended = state == Mapped && held == 0;
        (ended, ended.then_some((Absent, held, flags)))
    });
    let ends = |state: State, end: fn(&StateWord)| {
        let word = StateWord(AtomicU64::new(state as u64 | 2 * ONE_HOLD | PARKED));
        end(&word);
        assert_eq!(word.0.load(Ordering::Relaxed) & !STATE, 2 * ONE_HOLD | PARKED);
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
    check("demote", StateWord::demote, |state, held, flags| {
        if matches!(state, Clean | Dirty | Promoting | WritingBack) && held > 0 {
            return (Demote::Parked, Some((state, held, flags | PARKED)));
        }
        match state {
            _ if flags & RELEASED > 0 => (Demote::Busy, None),
            Clean => (Demote::Demoted, Some((Absent, held, flags))),
            Dirty => (Demote::Dirty, None),
            _ => (Demote::Busy, None),
        }
    });
    check("park_if_held", StateWord::park_if_held, |state, held, flags| {
        let parks = matches!(state, Clean | Dirty | Promoting | WritingBack) && held > 0;
        (parks, parks.then_some((state, held, flags | PARKED)))
    });
    check("free", StateWord::free, |state, held, flags| {
        let at_rest = matches!(state, Writing | Dirty | Clean | Absent);
        let freed = at_rest && flags & RELEASED > 0 && held == 0;
        (freed.then_some(state), freed.then_some((Freed, held, flags)))
    });
}

#[test]
fn a_release_ends_the_hold_of_a_writer_that_knows_an_address_only() {
    check("release", StateWord::release, |state, held, flags| {
        if flags & RELEASED > 0 {
            return ((), None);
        }
        let ends = state == Writing && flags & RAW > 0;
        ((), Some((state, held - u64::from(ends), flags | RELEASED)))
    });
}
