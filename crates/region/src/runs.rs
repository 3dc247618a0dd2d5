//! A set of numbers in which runs are found in logarithmic time.
//!
//! A binary tree over all numbers; each node knows how many members begin it, end it, and follow one another at most
//! in it. Invariant: a node's three figures are those of its two children together. Pure.

/// Members `0..len`.
#[derive(Debug)]
pub(crate) struct Runs {
    /// The root is 1, the children of `n` are `2n` and `2n + 1`, the leaves begin at `leaves`.
    nodes: Vec<Node>,
    leaves: usize,
    count: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Node {
    prefix: u32,
    suffix: u32,
    best: u32,
}

impl Node {
    fn leaf(member: bool) -> Self {
        let one = u32::from(member);
        Self { prefix: one, suffix: one, best: one }
    }

    /// Two neighbours of `width` numbers each.
    fn join(left: Node, right: Node, width: u32) -> Self {
        Self {
            prefix: if left.prefix == width { width + right.prefix } else { left.prefix },
            suffix: if right.suffix == width { width + left.suffix } else { right.suffix },
            best: left.best.max(right.best).max(left.suffix + right.prefix),
        }
    }
}

impl Runs {
    pub fn new(len: u64, full: bool) -> Self {
        let leaves = (len.max(1) as usize).next_power_of_two();
        let mut runs = Self { nodes: vec![Node::default(); 2 * leaves], leaves, count: 0 };
        if full {
            runs.set(0, len, true);
        }
        runs
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn get(&self, number: u64) -> bool {
        self.nodes[self.leaves + number as usize].best == 1
    }

    /// Makes `len` numbers from `start` members, or not.
    pub fn set(&mut self, start: u64, len: u64, member: bool) {
        if len == 0 {
            return;
        }
        let (mut from, mut to) = (self.leaves + start as usize, self.leaves + (start + len) as usize - 1);
        for leaf in &mut self.nodes[from..=to] {
            self.count -= u64::from(leaf.best);
            self.count += u64::from(member);
            *leaf = Node::leaf(member);
        }
        let mut width = 1;
        while from > 1 {
            (from, to) = (from / 2, to / 2);
            for node in from..=to {
                self.nodes[node] = Node::join(self.nodes[2 * node], self.nodes[2 * node + 1], width);
            }
            width *= 2;
        }
    }

    /// Where the first run of `len` members begins.
    pub fn find(&self, len: u64) -> Option<u64> {
        let len = u32::try_from(len).ok()?;
        if len == 0 || self.nodes[1].best < len {
            return None;
        }
        let (mut node, mut start, mut width) = (1, 0u64, self.leaves as u64);
        while node < self.leaves {
            width /= 2;
            let (left, right) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
            if left.best >= len {
                node *= 2;
            } else if left.suffix + right.prefix >= len {
                return Some(start + width - u64::from(left.suffix));
            } else {
                node = 2 * node + 1;
                start += width;
            }
        }
        Some(start)
    }

    /// The greatest member.
    pub fn last(&self) -> Option<u64> {
        if self.nodes[1].best == 0 {
            return None;
        }
        let mut node = 1;
        while node < self.leaves {
            node = 2 * node + usize::from(self.nodes[2 * node + 1].best > 0);
        }
        Some((node - self.leaves) as u64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn first_run(members: &[bool], len: usize) -> Option<u64> {
        members.windows(len).position(|window| window.iter().all(|&member| member)).map(|start| start as u64)
    }

    proptest! {
        #[test]
        fn it_finds_what_a_walk_finds(
            len in 1..150usize,
            full in any::<bool>(),
            changes in prop::collection::vec((0..150usize, 1..40usize, any::<bool>()), 0..40),
        ) {
            let (mut runs, mut members) = (Runs::new(len as u64, full), vec![full; len]);
            for (start, count, member) in changes {
                let start = start % len;
                let count = count.min(len - start);
                runs.set(start as u64, count as u64, member);
                members[start..start + count].fill(member);
                for wanted in 1..=len {
                    prop_assert_eq!(runs.find(wanted as u64), first_run(&members, wanted));
                }
                prop_assert_eq!(runs.find(len as u64 + 1), None);
                prop_assert_eq!(runs.count(), members.iter().filter(|&&member| member).count() as u64);
                prop_assert_eq!(runs.last(), members.iter().rposition(|&member| member).map(|last| last as u64));
                prop_assert!((0..len).all(|number| runs.get(number as u64) == members[number]));
            }
        }
    }
}
