//! The snapshot at the edge: reloads, revoked keys and calls in every order. The same driver is the fuzz target
//! `snapshots`.

mod driver;

use driver::{Coverage, race, run};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// How many inputs are tried, always the same.
const INPUTS: u32 = 64;
/// How many times definitions change while calls are made.
const RELOADS: usize = 100;

#[test]
fn a_request_calls_by_the_snapshot_that_admitted_it() {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let config = Config { cases: INPUTS, failure_persistence: None, ..Config::default() };
    let total = std::cell::RefCell::new(Coverage::default());
    let inputs = prop::collection::vec(any::<u8>(), 48..96);
    let outcome = TestRunner::new_with_rng(config, rng).run(&inputs, |bytes| {
        let one = run(&bytes);
        let mut all = total.borrow_mut();
        all.refused += one.refused;
        all.reached += one.reached;
        all.unknown += one.unknown;
        all.shut_out += one.shut_out;
        all.by_their_own += one.by_their_own;
        all.changed_within += one.changed_within;
        Ok(())
    });
    outcome.unwrap();
    let all = total.into_inner();
    let counts = [all.refused, all.reached, all.unknown, all.shut_out, all.by_their_own, all.changed_within];
    assert!(counts.iter().all(|count| *count > 0), "the inputs must do all of it: {all:?}");
}

#[test]
fn no_key_calls_by_the_view_of_another_one_while_definitions_change() {
    assert!(race(RELOADS) > 0, "some calls must be let in");
}
