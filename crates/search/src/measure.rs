//! The measures of one ranking with known answers: recall at 1, 5 and 10, success at 1 and 5, reciprocal rank, NDCG at
//! 10 with binary gains.

use std::collections::HashSet;
use std::fmt;

/// How well one query was answered, or the mean of many.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Scores {
    /// Which share of what is relevant is among the first 1, 5 and 10.
    pub recall: [f64; 3],
    /// Whether anything relevant is among the first 1 and 5.
    pub success: [f64; 2],
    /// One divided by the rank of the first that is relevant.
    pub reciprocal_rank: f64,
    /// Discounted gain of the first 10 as a share of the best possible.
    pub ndcg: f64,
}

const CUTS: [usize; 3] = [1, 5, 10];

// === impl Scores ===

impl Scores {
    /// The heads of the columns that are displayed.
    pub const HEAD: &str = "  R@1   R@5  R@10    S@1    S@5   MRR NDCG@10";

    /// Judges one ranking; an id that stands twice in it counts twice.
    pub fn of(relevant: &[String], ranked: &[&str]) -> Self {
        let relevant: HashSet<&str> = relevant.iter().map(String::as_str).collect();
        if relevant.is_empty() {
            return Self::default();
        }
        let gain = |rank: usize| 1.0 / (rank as f64 + 2.0).log2();
        let is_relevant = |rank: &usize| ranked.get(*rank).is_some_and(|id| relevant.contains(id));
        let found = |most: usize| (0..most).filter(is_relevant).count() as f64;
        let best: f64 = (0..relevant.len().min(10)).map(gain).sum();
        Self {
            recall: CUTS.map(|most| found(most) / relevant.len() as f64),
            success: [CUTS[0], CUTS[1]].map(|most| found(most).min(1.0)),
            reciprocal_rank: (0..100).find(is_relevant).map_or(0.0, |rank| 1.0 / (rank as f64 + 1.0)),
            // Not by `sum`, which makes -0 of nothing.
            ndcg: (0..10).filter(is_relevant).map(gain).fold(0.0, |sum, gain| sum + gain) / best,
        }
    }

    /// Judges hits, each with the ids of the equal tools that were folded into it: one of these is enough.
    pub fn of_hits(relevant: &[String], hits: &[Vec<&str>]) -> Self {
        let mut wanted = relevant.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        let mut ranked = Vec::new();
        for ids in hits {
            let best = ids.iter().copied().find(|id| wanted.iter().any(|wanted| wanted == id));
            ranked.push(best.or(ids.first().copied()).unwrap_or_default());
            if let Some(best) = best {
                wanted.retain(|wanted| wanted == best || !ids.contains(&wanted.as_str()));
            }
        }
        Self::of(&wanted, &ranked)
    }

    /// The mean of many queries, or of many sets.
    pub fn mean(all: &[Self]) -> Self {
        let count = all.len().max(1) as f64;
        let mean = |value: &dyn Fn(&Self) -> f64| all.iter().map(value).sum::<f64>() / count;
        Self {
            recall: [0, 1, 2].map(|at| mean(&|it| it.recall[at])),
            success: [0, 1].map(|at| mean(&|it| it.success[at])),
            reciprocal_rank: mean(&|it| it.reciprocal_rank),
            ndcg: mean(&|it| it.ndcg),
        }
    }
}

impl fmt::Display for Scores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([one, five, ten], [first, among]) = (self.recall, self.success);
        write!(f, "{one:>5.4} {five:>5.4} {ten:>5.4} {first:>5.4} {among:>5.4}")?;
        write!(f, " {:>5.4} {:>7.4}", self.reciprocal_rank, self.ndcg)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(relevant: &[&str], ranked: &[&str], expect: [f64; 5]) {
        let relevant: Vec<String> = relevant.iter().map(ToString::to_string).collect();
        let Scores { recall: [one, five, ten], reciprocal_rank, ndcg, success } = Scores::of(&relevant, ranked);
        assert_eq!(success, [one, five].map(|recall| f64::from(u8::from(recall > 0.0))), "{relevant:?} {ranked:?}");
        for (got, expect) in [one, five, ten, reciprocal_rank, ndcg].into_iter().zip(expect) {
            assert!((got - expect).abs() < 1e-4, "{relevant:?} {ranked:?}: {got} instead of {expect}");
        }
    }

    /// The expected values are what the sets' own `score.py` prints for these rankings.
    #[test]
    fn the_measures_are_those_of_the_sets() {
        check(&["a"], &["a", "b"], [1.0, 1.0, 1.0, 1.0, 1.0]);
        check(&["b"], &["a", "b"], [0.0, 1.0, 1.0, 0.5, 0.6309]);
        check(&["a", "c", "x"], &["b", "a", "d", "c", "e", "f"], [0.0, 0.6667, 0.6667, 0.5, 0.4982]);
        check(&["k"], &["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"], [0.0, 0.0, 0.0, 0.0909, 0.0]);
        check(&["a"], &[], [0.0; 5]);
        assert!(Scores::of(&["a".to_owned()], &[]).ndcg.is_sign_positive());
        check(&["a", "a"], &["a"], [1.0; 5]);
    }

    #[test]
    fn a_hit_stands_for_the_equal_tools_in_it() {
        fn check(relevant: &[&str], hits: &[Vec<&str>], expect: [f64; 2]) {
            let relevant: Vec<String> = relevant.iter().map(ToString::to_string).collect();
            let scores = Scores::of_hits(&relevant, hits);
            assert_eq!([scores.recall[0], scores.reciprocal_rank], expect, "{relevant:?} {hits:?}");
        }

        let folded = [vec!["a/x", "b/x", "c/x"], vec!["d/y"]];
        check(&["a/x"], &folded, [1.0, 1.0]);
        check(&["b/x"], &folded, [1.0, 1.0]);
        check(&["c/x", "b/x"], &folded, [1.0, 1.0]);
        check(&["d/y"], &folded, [0.0, 0.5]);
        check(&["b/x", "d/y"], &folded, [0.5, 1.0]);
        check(&["e/z"], &folded, [0.0, 0.0]);
        check(&["e/z"], &[], [0.0, 0.0]);
    }

    #[test]
    fn a_mean_is_over_queries() {
        let one = Scores::of(&["a".to_owned()], &["a"]);
        assert_eq!(Scores::mean(&[one, Scores::default()]).ndcg, 0.5);
        assert_eq!(Scores::mean(&[]), Scores::default());
    }
}
