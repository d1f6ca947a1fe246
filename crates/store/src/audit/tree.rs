//! A tree of hashes over the rows between two checkpoints: from its root and a few hashes follows that a row is in it. The
//! shape is that of RFC 9162, section 2.1; the leaves are the rows' own hashes.

use sha2::{Digest, Sha256};

use super::hash::RowHash;

/// Names what is hashed: no row begins so.
const DOMAIN: &[u8] = b"toolcrib audit node 1\n";

/// The tree while it grows: one hash for each full subtree, the largest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HashTree {
    subtrees: Vec<(u32, RowHash)>,
}

impl HashTree {
    /// Adds the next row: one hash, on average.
    pub(crate) fn push(&mut self, leaf: RowHash) {
        let mut node = (0, leaf);
        while let Some((_, left)) = self.subtrees.pop_if(|(height, _)| *height == node.0) {
            node = (node.0 + 1, parent(left, node.1));
        }
        self.subtrees.push(node);
    }

    /// The root; zeroes where there are no rows.
    pub(crate) fn root(&self) -> RowHash {
        let mut right_to_left = self.subtrees.iter().rev().map(|(_, hash)| *hash);
        let last = right_to_left.next().unwrap_or(RowHash::GENESIS);
        right_to_left.fold(last, |right, left| parent(left, right))
    }
}

/// The hashes beside the way from the leaf `index` to the root, from below.
pub(crate) fn path(leaves: &[RowHash], index: usize) -> Vec<RowHash> {
    if leaves.len() <= 1 || index >= leaves.len() {
        return Vec::new();
    }
    // The largest power of two that leaves something for the right side.
    let half = leaves.len().next_power_of_two() / 2;
    let (left, right) = leaves.split_at(half);
    let root = |leaves: &[RowHash]| {
        let mut tree = HashTree::default();
        leaves.iter().for_each(|leaf| tree.push(*leaf));
        tree.root()
    };
    let (mut below, beside) = match index < half {
        true => (path(left, index), root(right)),
        false => (path(right, index - half), root(left)),
    };
    below.push(beside);
    below
}

/// The root that a leaf leads to by its path in a tree of so many leaves; `None` where the path does not fit the place
/// (RFC 9162, section 2.1.3.2).
pub(crate) fn root_of(leaf: RowHash, index: u64, leaves: u64, path: &[RowHash]) -> Option<RowHash> {
    if index >= leaves {
        return None;
    }
    let (mut place, mut last, mut node) = (index, leaves - 1, leaf);
    for beside in path {
        if last == 0 {
            return None;
        }
        if place & 1 == 1 || place == last {
            node = parent(*beside, node);
            while place & 1 == 0 && place != 0 {
                place >>= 1;
                last >>= 1;
            }
        } else {
            node = parent(node, *beside);
        }
        place >>= 1;
        last >>= 1;
    }
    (last == 0).then_some(node)
}

fn parent(left: RowHash, right: RowHash) -> RowHash {
    let digest = Sha256::new().chain_update(DOMAIN).chain_update(left.0).chain_update(right.0);
    RowHash(digest.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(count: u8) -> Vec<RowHash> {
        (0..count).map(|number| RowHash([number; 32])).collect()
    }

    fn root(leaves: &[RowHash]) -> RowHash {
        let mut tree = HashTree::default();
        leaves.iter().for_each(|leaf| tree.push(*leaf));
        tree.root()
    }

    #[test]
    fn every_leaf_of_every_tree_leads_to_its_root_by_its_path_and_by_no_other() {
        for count in 1..=40 {
            let leaves = leaves(count);
            let expect = root(&leaves);
            for (index, leaf) in leaves.iter().enumerate() {
                let way = path(&leaves, index);
                let at =
                    |leaf, index: usize, count: u8, way: &[RowHash]| root_of(leaf, index as u64, count.into(), way);
                assert_eq!(at(*leaf, index, count, &way), Some(expect), "{index} of {count}");
                assert_ne!(at(RowHash([99; 32]), index, count, &way), Some(expect));
                for other in (0..leaves.len()).filter(|other| *other != index) {
                    assert_ne!(at(*leaf, other, count, &way), Some(expect), "{index} as {other} of {count}");
                }
                if let Some((_, shorter)) = way.split_last() {
                    assert_eq!(at(*leaf, index, count, shorter), None);
                }
                let longer = [&way[..], &[expect]].concat();
                assert_eq!(at(*leaf, index, count, &longer), None);
            }
        }
    }

    #[test]
    fn the_root_depends_on_every_leaf_and_on_their_order() {
        let all = leaves(11);
        for index in 0..all.len() {
            let mut changed = all.clone();
            changed[index] = RowHash([99; 32]);
            assert_ne!(root(&changed), root(&all));
            let mut swapped = all.clone();
            swapped.swap(index, (index + 1) % all.len());
            assert_ne!(root(&swapped), root(&all));
        }
        assert_ne!(root(&all[..10]), root(&all));
        assert_eq!(root(&all[..1]), all[0]);
    }
}
