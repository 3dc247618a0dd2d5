//! The keep-set against the access patterns it is made for, in a store that is a set of numbers.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use warmset_placement::{AccessClock, Class, KeepSet, Key, Score, Verdict};

const FRAME_BYTES: u64 = 2 << 20;

/// A store of one-frame segments: everything but the bytes.
struct Model {
    set: KeepSet,
    resident: HashSet<Key>,
    scores: HashMap<Key, (Score, u64)>,
    budget: u64,
    live: u64,
    ticks: u64,
    demotions: Vec<Key>,
    /// Segments of a region; keys are given out region after region.
    region: u64,
}

impl Model {
    fn new(budget: u64) -> Self {
        Self {
            set: KeepSet::new(budget),
            resident: HashSet::new(),
            scores: HashMap::new(),
            budget,
            live: 0,
            ticks: 0,
            demotions: Vec::new(),
            region: u64::MAX,
        }
    }

    fn make_room(&mut self) {
        while self.resident.len() as u64 >= self.budget {
            let scores = &self.scores;
            let victim = self.set.take_victim(|_, _| Verdict::Take, |key| score(scores, key));
            let victim = victim.expect("nothing is pinned");
            assert!(self.resident.remove(&victim), "a victim was resident");
            self.demotions.push(victim);
        }
    }

    fn position(&self, key: Key) -> u32 {
        (key % self.region) as u32
    }

    fn write(&mut self, key: Key) {
        self.make_room();
        self.set.add_written(key, 1, self.position(key));
        self.set.unpark(key, Score::NEVER);
        self.resident.insert(key);
        self.live += 1;
    }

    /// Reads a segment; true if it was resident.
    fn read(&mut self, key: Key) -> bool {
        let hit = self.resident.contains(&key);
        if !hit {
            self.make_room();
            let scores = &self.scores;
            let position = self.position(key);
            self.set.add_promoted(key, 1, position, score(scores, key), |key| score(scores, key));
            self.resident.insert(key);
        }
        self.ticks += AccessClock::for_live_bytes(self.live * FRAME_BYTES).ticks(FRAME_BYTES);
        let (before, last) = self.scores.get(&key).copied().unwrap_or((Score::NEVER, 0));
        if before == Score::NEVER || !Score::is_same_access(last, self.ticks) {
            self.scores.insert(key, (before.accessed(self.ticks), self.ticks));
        }
        hit
    }

    fn pass(&mut self, keys: impl Iterator<Item = Key>) -> u64 {
        keys.map(|key| u64::from(self.read(key))).sum()
    }

    fn kept(&self) -> HashSet<Key> {
        self.resident.iter().copied().filter(|&key| self.set.class(key) == Some(Class::Keep)).collect()
    }

    fn keep_room(&self) -> u64 {
        self.budget - self.set.reserve_frames()
    }
}

fn score(scores: &HashMap<Key, (Score, u64)>, key: Key) -> Score {
    scores.get(&key).map_or(Score::NEVER, |entry| entry.0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_region_keeps_its_beginning(regions in 8u64..40, region in 8u64..20, part in 2u64..4, hot in any::<bool>()) {
        let size = regions * region;
        let budget = (size / part).max(32);
        let mut model = Model { region, ..Model::new(budget) };
        (0..size).for_each(|key| model.write(key));
        // Beside them a region whose segments are read four times as often.
        let others = size..size + if hot { budget / 4 } else { 0 };
        others.clone().for_each(|key| model.write(key));
        for _ in 0..8 {
            for quarter in 0..4 {
                model.pass(size * quarter / 4..size * (quarter + 1) / 4);
                model.pass(others.clone());
            }
        }
        let kept = model.kept();
        prop_assert!(others.clone().all(|key| kept.contains(&key)), "what is hotter is not displaced");
        let depth = |of: u64| (0..region).take_while(|at| model.resident.contains(&(of * region + at))).count() as u64;
        let depths: Vec<u64> = (0..regions).map(depth).collect();
        let fair = (model.keep_room() - (others.end - others.start)) / regions;
        prop_assert!(depths.iter().all(|&depth| depth + 1 >= fair), "{depths:?}, {fair} of {region} would be fair");
        model.demotions.clear();
        model.pass(0..size);
        prop_assert!(hot || model.kept() == kept, "and stays so");
    }
}

proptest! {
    #[test]
    fn a_uniform_cycle_hits_budget_over_size_and_does_not_churn(budget in 16u64..200, more in 2u64..300) {
        let size = budget + more;
        let mut model = Model::new(budget);
        (0..size).for_each(|key| model.write(key));
        for _ in 0..3 {
            model.pass(0..size);
        }
        let kept = model.kept();
        model.demotions.clear();
        for _ in 0..4 {
            let hits = model.pass(0..size);
            prop_assert!(hits >= model.keep_room(), "{hits} hits of {size}, room for {}", model.keep_room());
        }
        prop_assert_eq!(model.kept(), kept, "the kept subset is stable");
        let churned = model.demotions.iter().filter(|key| kept_contains(&model, **key)).count();
        prop_assert_eq!(churned, 0);
    }

    #[test]
    fn the_order_of_the_scan_does_not_matter(budget in 16u64..100, more in 2u64..100, shift in 0u64..200) {
        let size = budget + more;
        let order = move || (0..size).map(move |n| size - 1 - (n + shift) % size);
        let mut model = Model::new(budget);
        (0..size).for_each(|key| model.write(key));
        for _ in 0..3 {
            model.pass(order());
        }
        prop_assert!(model.pass(order()) >= model.keep_room());
    }

    #[test]
    fn hot_columns_displace_what_is_never_read(budget in 32u64..200, columns in 3u64..10) {
        // Row groups of `columns` segments; the scans read one column, which exceeds no budget.
        let groups = budget * 3 / 4;
        let size = groups * columns;
        let mut model = Model::new(budget);
        (0..size).for_each(|key| model.write(key));
        let hot = || (0..groups).map(|group| group * columns + columns - 1);
        for _ in 0..3 {
            model.pass(hot());
        }
        let hits = model.pass(hot());
        prop_assert!(hits >= groups.min(model.keep_room()), "{hits} of {groups}");
    }

    #[test]
    fn a_new_phase_takes_over_in_a_few_passes(budget in 32u64..128, passes in 3usize..30) {
        let hot = budget * 3 / 4;
        let size = budget * 4;
        let mut model = Model::new(budget);
        (0..size).for_each(|key| model.write(key));
        for _ in 0..passes {
            model.pass(0..hot);
        }
        for _ in 0..10 {
            model.pass(size - hot..size);
        }
        let hits = model.pass(size - hot..size);
        prop_assert!(hits * 10 >= hot.min(model.keep_room()) * 9, "{hits} of {hot} after a change of phase");
    }

    #[test]
    fn the_same_history_gives_the_same_decisions(keys in prop::collection::vec(0u64..80, 1..400)) {
        let run = || {
            let mut model = Model::new(24);
            (0..80).for_each(|key| model.write(key));
            let hits: Vec<bool> = keys.iter().map(|&key| model.read(key)).collect();
            (hits, model.demotions)
        };
        prop_assert_eq!(run(), run());
    }

    #[test]
    fn any_history_keeps_the_books(ops in prop::collection::vec((0u8..8, 0u64..40, 1u64..5), 1..300)) {
        let mut books = Books { set: KeepSet::new(64), members: HashMap::new(), parked: HashSet::new() };
        for (op, key, frames) in ops {
            books.take(op, key, frames);
            books.check();
        }
    }
}

fn kept_contains(model: &Model, key: Key) -> bool {
    model.set.class(key) == Some(Class::Keep)
}

/// What a keep-set should say of its members after any calls.
struct Books {
    set: KeepSet,
    members: HashMap<Key, u64>,
    parked: HashSet<Key>,
}

impl Books {
    fn take(&mut self, op: u8, key: Key, frames: u64) {
        match op {
            0 | 1 if !self.members.contains_key(&key) => {
                self.set.add_written(key, frames, key as u32 % 8);
                self.members.insert(key, frames);
                self.parked.insert(key);
            }
            2 | 3 if !self.members.contains_key(&key) => {
                let score = Score::NEVER.accessed(key);
                let (_, displaced) =
                    self.set.add_promoted(key, frames, key as u32 % 8, score, |_| Score::NEVER);
                self.members.insert(key, frames);
                assert!(displaced.iter().all(|&victim| self.set.class(victim) == Some(Class::Stream)));
            }
            4 => {
                self.set.unpark(key, Score::NEVER);
                self.parked.remove(&key);
            }
            5 => {
                self.parked.remove(&key);
                assert_eq!(self.set.remove(key), self.members.remove(&key).is_some());
            }
            6 => self.take_victim(),
            _ => self.set.set_budget(16 + key * 4),
        }
    }

    /// Every third candidate is pinned.
    fn take_victim(&mut self) {
        let mut asked = Vec::new();
        let verdict = |key, _| {
            asked.push(key);
            if key % 3 == 0 { Verdict::Pinned } else { Verdict::Take }
        };
        let taken = self.set.take_victim(verdict, |_| Score::NEVER);
        for key in asked {
            assert!(!self.parked.contains(&key), "a parked member was proposed");
            if Some(key) == taken {
                assert!(self.members.remove(&key).is_some());
            } else {
                self.parked.insert(key);
            }
        }
    }

    fn check(&self) {
        let kept = self.members.iter().filter(|(key, _)| self.set.class(**key) == Some(Class::Keep));
        assert_eq!(self.set.keep_frames(), kept.map(|(_, frames)| frames).sum::<u64>());
        assert!(self.members.keys().all(|&key| self.set.class(key).is_some()));
    }
}
