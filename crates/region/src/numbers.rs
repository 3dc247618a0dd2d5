//! The numbers of frames: those of each memory node's pool follow one another.
//!
//! Invariant: between two nodes is a number that no frame has, so that no run of frames lies on both. Pure.

use crate::FRAME_BYTES;

#[derive(Debug, Clone)]
pub(crate) struct FrameNumbers {
    nodes: Vec<NodeFrames>,
}

#[derive(Debug, Clone, Copy)]
struct NodeFrames {
    /// Address of its first frame.
    base: usize,
    /// Number of its first frame.
    first: u64,
    frames: u64,
}

impl FrameNumbers {
    /// Of pools that begin at these addresses and have so many frames.
    pub fn of(pools: impl IntoIterator<Item = (usize, u64)>) -> Self {
        let mut first = 0;
        let number = |(base, frames)| {
            let node = NodeFrames { base, first, frames };
            first += frames + 1;
            node
        };
        Self { nodes: pools.into_iter().map(number).collect() }
    }

    /// One past the last number.
    pub fn end(&self) -> u64 {
        self.nodes.last().map_or(0, |node| node.first + node.frames)
    }

    /// Numbers that no frame has.
    pub fn gaps(&self) -> impl Iterator<Item = u64> + '_ {
        self.nodes.iter().skip(1).map(|node| node.first - 1)
    }

    /// Frames of all nodes.
    pub fn frames(&self) -> u64 {
        self.nodes.iter().map(|node| node.frames).sum()
    }

    /// Frames of the largest node: no segment can have more.
    pub fn longest(&self) -> u64 {
        self.nodes.iter().map(|node| node.frames).max().unwrap_or(0)
    }

    /// The place in the list of pools of a frame's, and how many bytes of it lie before the frame.
    pub fn locate(&self, frame: u64) -> (usize, usize) {
        let node = self.nodes.partition_point(|node| node.first <= frame) - 1;
        (node, (frame - self.nodes[node].first) as usize * FRAME_BYTES)
    }

    pub fn address(&self, frame: u64) -> usize {
        let (node, bytes) = self.locate(frame);
        self.nodes[node].base + bytes
    }

    /// The frame at an address; `None` outside of the pools.
    pub fn at(&self, address: usize) -> Option<u64> {
        self.nodes.iter().find_map(|node| {
            let frame = (address.checked_sub(node.base)? / FRAME_BYTES) as u64;
            (frame < node.frames).then_some(node.first + frame)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_two_nodes_are_numbered_through_and_apart() {
        let numbers = FrameNumbers::of([(100 << 21, 8), (40 << 21, 3)]);
        assert_eq!((numbers.end(), numbers.frames(), numbers.longest()), (12, 11, 8));
        assert_eq!(numbers.gaps().collect::<Vec<_>>(), [8]);
        let frames = (0..8).chain(9..12);
        for frame in frames {
            assert_eq!(numbers.at(numbers.address(frame)), Some(frame));
            assert_eq!(numbers.at(numbers.address(frame) + FRAME_BYTES - 1), Some(frame));
        }
        assert_eq!((numbers.locate(7), numbers.locate(9)), ((0, 7 * FRAME_BYTES), (1, 0)));
        assert_eq!(numbers.address(10), 41 << 21);
        for outside in [0, (100 << 21) - 1, 108 << 21, (40 << 21) - 1, 43 << 21, usize::MAX] {
            assert_eq!(numbers.at(outside), None);
        }
    }
}
