//! How many slips of the keyboard lie between two words, given up early where there are too many: asked for every word
//! of an index. Not here: the names that are near to an unknown one (`toolcrib_base::nearest`).

/// The number of insertions, deletions, replacements and swaps of neighbours between two names (optimal string
/// alignment); `None` above `bound`.
pub(crate) fn edits(a: &[char], b: &[char], bound: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > bound {
        return None;
    }
    let mut before: Vec<usize> = vec![usize::MAX / 2; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    let mut row = last.clone();
    for i in 1..=a.len() {
        row[0] = i;
        let mut least = i;
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
            least = least.min(row[j]);
        }
        // A swap reaches back two rows, hence one more.
        if least > bound + 1 {
            return None;
        }
        std::mem::swap(&mut before, &mut last);
        std::mem::swap(&mut last, &mut row);
    }
    Some(last[b.len()]).filter(|edits| *edits <= bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_count_swaps_once_and_stop_at_the_bound() {
        let check = |a: &str, b: &str, bound, expect| {
            let letters = |text: &str| text.chars().collect::<Vec<_>>();
            assert_eq!(edits(&letters(a), &letters(b), bound), expect, "{a} {b}");
        };
        check("abcd", "abcd", 1, Some(0));
        check("abcd", "abdc", 1, Some(1));
        check("abcd", "badc", 2, Some(2));
        check("abcd", "xyz", 2, None);
        check("", "ab", 2, Some(2));
        check("kitten", "sitting", 3, Some(3));
    }
}
