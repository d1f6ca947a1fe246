//! Whatever is loaded, used and unloaded in whatever order: the set keeps what it promises.

use std::collections::HashMap;

use proptest::prelude::*;
use toolcrib_base::ServerName;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Load(Vec<u8>),
    Unload(Vec<u8>),
    Call(u8),
    Wait(u32),
    Clear,
}

/// Three tools of each of four servers.
fn tool(number: u8) -> ToolId {
    let server = ["a", "b", "c", "d"][usize::from(number) / 3 % 4];
    ToolId::new(ServerName::new(server).unwrap(), &format!("t{}", number % 3))
}

fn tools(numbers: &[u8]) -> Vec<ToolId> {
    numbers.iter().map(|number| tool(*number)).collect()
}

fn step() -> impl Strategy<Value = Step> {
    let some = || prop::collection::vec(0..12_u8, 0..8);
    prop_oneof![
        5 => some().prop_map(Step::Load),
        2 => some().prop_map(Step::Unload),
        4 => (0..12_u8).prop_map(Step::Call),
        2 => (0..60_u32).prop_map(Step::Wait),
        1 => Just(Step::Clear),
    ]
}

fn rule() -> impl Strategy<Value = LoadRule> {
    let policy = prop_oneof![Just(OverQuota::Evict), Just(OverQuota::Block)];
    let after = prop::option::of((1..100_u64).prop_map(Duration::from_millis));
    (1..8_u32, prop::option::of(1..4_u32), policy, any::<bool>(), after).prop_map(
        |(tools, servers, policy, by_server, unload_after)| LoadRule {
            quota: Quota { tools, servers, policy },
            by_server,
            unload_after,
        },
    )
}

fn count_servers<'a>(tools: impl IntoIterator<Item = &'a ToolId>) -> usize {
    tools.into_iter().map(|tool| &tool.server).collect::<BTreeSet<_>>().len()
}

proptest! {
    #[test]
    fn a_set_never_breaks_its_promises(rule in rule(), steps in prop::collection::vec(step(), 0..40)) {
        let mut set = LoadedTools::default();
        // What was loaded or called when, told independently.
        let mut used: HashMap<ToolId, Moment> = HashMap::new();
        let mut time = 0;
        for (turn, step) in steps.into_iter().enumerate() {
            let now = Moment { turn: turn as u64 + 1, at: Timestamp(time) };
            let before = set.ids();
            match step {
                Step::Load(numbers) => {
                    let wanted = tools(&numbers);
                    let distinct: BTreeSet<ToolId> = wanted.iter().cloned().collect();
                    match set.load(&wanted, &rule, now, |_| true) {
                        Ok(LoadChange { added, evicted }) => {
                            let after = set.ids();
                            prop_assert!(distinct.is_subset(&after), "all are loaded");
                            let added: BTreeSet<_> = added.into_iter().collect();
                            let gone: BTreeSet<_> = evicted.iter().cloned().collect();
                            prop_assert_eq!(gone.len(), evicted.len(), "each is told once");
                            prop_assert!(added.is_disjoint(&before) && gone.is_subset(&before));
                            prop_assert!(gone.is_disjoint(&distinct), "what is wanted does not make room");
                            let expected: BTreeSet<_> = before.union(&added).filter(|id| !gone.contains(id)).cloned().collect();
                            prop_assert_eq!(&after, &expected, "what is told is what happened");
                            prop_assert!(gone.is_empty() || rule.quota.policy == OverQuota::Evict);
                            if !rule.by_server && rule.quota.servers.is_none() {
                                let newest_gone = gone.iter().map(|id| used[id]).max();
                                let oldest_kept = after.difference(&distinct).map(|id| used[id]).min();
                                if let (Some(gone), Some(kept)) = (newest_gone, oldest_kept) {
                                    prop_assert!(gone <= kept, "the least recently used goes first");
                                }
                            }
                            used.extend(distinct.into_iter().map(|id| (id, now)));
                        }
                        Err(refused) => {
                            prop_assert_eq!(&set.ids(), &before, "all or nothing");
                            prop_assert!(!distinct.is_subset(&before), "again is without harm");
                            let fits = rule.fits(distinct.len(), count_servers(&distinct));
                            prop_assert_eq!(matches!(refused, NotLoaded::TooLarge { .. }), !fits);
                            prop_assert!(!fits || rule.quota.policy == OverQuota::Block);
                        }
                    }
                }
                Step::Unload(numbers) => {
                    let gone: BTreeSet<_> = set.unload(&tools(&numbers)).into_iter().collect();
                    let named: BTreeSet<_> = tools(&numbers).into_iter().collect();
                    prop_assert_eq!(&gone, &before.intersection(&named).cloned().collect::<BTreeSet<_>>());
                    prop_assert_eq!(set.ids(), &before - &gone);
                }
                Step::Call(number) => {
                    let id = tool(number);
                    prop_assert_eq!(set.touch(&id, now), before.contains(&id));
                    prop_assert_eq!(&set.ids(), &before, "a call loads nothing");
                    used.insert(id, now);
                }
                Step::Wait(millis) => {
                    time += i64::from(millis);
                    let gone: BTreeSet<_> = set.unload_idle(&rule, Timestamp(time)).into_iter().collect();
                    let after = set.ids();
                    prop_assert_eq!(&after, &(&before - &gone));
                    let is_idle = |id: &ToolId| rule.unload_after.is_some_and(|after| {
                        u128::from(Timestamp(time).since(used[id].at)) >= after.as_millis()
                    });
                    prop_assert!(gone.iter().all(is_idle));
                    let fresh = |server: &ServerName| after.iter().any(|id| id.server == *server && !is_idle(id));
                    prop_assert!(after.iter().all(|id| !is_idle(id) || (rule.by_server && fresh(&id.server))));
                }
                Step::Clear => {
                    let gone: BTreeSet<_> = set.clear().into_iter().collect();
                    prop_assert_eq!(gone, before);
                    prop_assert!(set.is_empty());
                }
            }
            let ids = set.ids();
            prop_assert!(rule.fits(ids.len(), count_servers(&ids)), "never above the quota");
            prop_assert!(set.iter().all(|(id, at)| used[id] == at), "a set knows when what was used");
        }
    }
}

fn blocking(tools: u32) -> LoadRule {
    LoadRule { quota: Quota { tools, servers: None, policy: OverQuota::Block }, by_server: false, unload_after: None }
}

fn at(turn: u64) -> Moment {
    Moment { turn, at: Timestamp(0) }
}

#[test]
fn what_the_profile_shows_no_longer_makes_room_first() {
    let mut set = LoadedTools::default();
    set.load(&tools(&[0, 1]), &blocking(2), at(1), |_| true).unwrap();
    let shown = |id: &ToolId| *id != tool(1);
    let changed = set.load(&tools(&[3]), &blocking(2), at(2), shown).unwrap();
    assert_eq!(changed, LoadChange { added: tools(&[3]), evicted: Vec::new() });
    assert_eq!(set.ids(), tools(&[0, 3]).into_iter().collect());
    assert!(matches!(set.load(&tools(&[4]), &blocking(2), at(3), shown), Err(NotLoaded::Full(_))));
}

#[test]
fn a_smaller_quota_takes_nothing_away_until_more_is_loaded() {
    let mut set = LoadedTools::default();
    set.load(&tools(&[0, 1, 2]), &blocking(3), at(1), |_| true).unwrap();
    assert_eq!(set.load(&tools(&[0, 1, 2]), &blocking(2), at(2), |_| true), Ok(LoadChange::default()));
    assert!(matches!(set.load(&tools(&[0, 3]), &blocking(2), at(3), |_| true), Err(NotLoaded::Full(_))));
    assert_eq!(set.ids().len(), 3);
}

#[test]
fn a_clock_that_goes_back_changes_no_order_and_idles_nothing() {
    let mut rule = blocking(2);
    rule.quota.policy = OverQuota::Evict;
    rule.unload_after = Some(Duration::from_millis(10));
    let mut set = LoadedTools::default();
    for (turn, number, time) in [(1, 0, 1_000), (2, 1, 5)] {
        set.load(&[tool(number)], &rule, Moment { turn, at: Timestamp(time) }, |_| true).unwrap();
    }
    assert_eq!(set.unload_idle(&rule, Timestamp(5)), []);
    let changed = set.load(&[tool(2)], &rule, Moment { turn: 3, at: Timestamp(6) }, |_| true).unwrap();
    assert_eq!(changed.evicted, [tool(0)]);
}
