//! The lines that two texts have in common, by Myers' algorithm: "An O(ND) Difference Algorithm and Its Variations",
//! 1986, section 4a, with the paths kept. Lines are compared as numbers.

use std::collections::HashMap;

/// Edits up to which the shortest way is looked for; the paths take the square of it in memory. Beyond it, what lies
/// between the same beginning and the same end counts as changed as a whole.
const MAX_EDITS: usize = 1_000;

/// Lines in both texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// Where they begin in the first text.
    pub(super) before: usize,
    /// Where they begin in the second text.
    pub(super) after: usize,
    /// How many there are.
    pub(super) count: usize,
}

/// What two texts have in common, in order.
pub(super) fn common<'a>(before: &[&'a str], after: &[&'a str]) -> Vec<Run> {
    let mut numbers: HashMap<&'a str, u32> = HashMap::new();
    let old = number(before, &mut numbers);
    let new = number(after, &mut numbers);
    let start = old.iter().zip(&new).take_while(|(one, two)| one == two).count();
    let room = old.len().min(new.len()) - start;
    let end = old.iter().rev().zip(new.iter().rev()).take(room).take_while(|(one, two)| one == two).count();
    let mut runs = vec![Run { before: 0, after: 0, count: start }];
    let middle = between(&old[start..old.len() - end], &new[start..new.len() - end]);
    runs.extend(middle.into_iter().map(|run| Run { before: run.before + start, after: run.after + start, ..run }));
    runs.push(Run { before: old.len() - end, after: new.len() - end, count: end });
    runs.retain(|run| run.count > 0);
    runs
}

fn number<'a>(lines: &[&'a str], numbers: &mut HashMap<&'a str, u32>) -> Vec<u32> {
    lines
        .iter()
        .map(|line| {
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            *numbers.entry(line).or_insert(next)
        })
        .collect()
}

/// How far the diagonals came with so many edits: `x` on the diagonal `x - y = 2 * index - edits`.
type Front = Vec<u32>;

/// The runs of two texts that begin and end with different lines.
fn between(old: &[u32], new: &[u32]) -> Vec<Run> {
    let max = (old.len() + new.len()).min(MAX_EDITS);
    let mut fronts: Vec<Front> = Vec::new();
    for edits in 0..=max {
        let mut front = Vec::with_capacity(edits + 1);
        for index in 0..=edits {
            let (x, _) = edited(fronts.last(), index);
            let Some(y) = (x + edits).checked_sub(2 * index) else {
                front.push(x as u32);
                continue;
            };
            let (rest, other) = (old.get(x..).unwrap_or_default(), new.get(y..).unwrap_or_default());
            let same = rest.iter().zip(other).take_while(|(one, two)| one == two).count();
            front.push((x + same) as u32);
            if x + same >= old.len() && y + same >= new.len() {
                fronts.push(front);
                return back(&fronts, old.len(), new.len());
            }
        }
        fronts.push(front);
    }
    Vec::new()
}

/// Where a diagonal is entered by one more edit, and whether that adds a line.
fn edited(last: Option<&Front>, index: usize) -> (usize, bool) {
    let reached = |index: Option<usize>| last.and_then(|last| last.get(index?)).map(|x| *x as usize);
    let (added, removed) = (reached(Some(index)), reached(index.checked_sub(1)).map(|x| x + 1));
    match (added, removed) {
        (None, None) => (0, false),
        (Some(x), None) => (x, true),
        (None, Some(x)) => (x, false),
        (Some(added), Some(removed)) => (added.max(removed), added >= removed),
    }
}

/// The way back from the ends of both texts, as runs in order.
fn back(fronts: &[Front], mut x: usize, mut y: usize) -> Vec<Run> {
    let mut runs = Vec::new();
    for edits in (0..fronts.len()).rev() {
        let index = (x + edits - y) / 2;
        let (entered, is_added) = edited(edits.checked_sub(1).map(|before| &fronts[before]), index);
        let count = x - entered;
        if count > 0 {
            runs.push(Run { before: entered, after: y - count, count });
        }
        (x, y) = (entered, y - count);
        match (edits, is_added) {
            (0, _) => {}
            (_, true) => y -= 1,
            (_, false) => x -= 1,
        }
    }
    runs.reverse();
    runs
}
