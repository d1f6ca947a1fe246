//! Floods of what strangers may leave at the authorization server: how many rows stay, and that there is room for more.

use toolcrib_base::{PrincipalId, Timestamp};
use toolcrib_store::{
    Authorizations, CodeRecord, CodeUse, Config, RequestRecord, SecretHash, SessionRecord, Store, StoreError,
};

use crate::Home;

/// So many come when all places are taken.
const MORE: usize = 200;

fn hash(number: usize) -> SecretHash {
    let mut hash = [0xff; 32];
    hash[..8].copy_from_slice(&number.to_be_bytes());
    hash
}

/// Rows of a table as a flood leaves them: `values` of a number `n`.
fn fill(home: &Home, table: &str, values: &str, many: usize) {
    let sql = format!(
        "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {many}) \
         INSERT INTO {table} SELECT {values} FROM number"
    );
    home.shell().execute(&sql, []).unwrap();
}

fn rows(home: &Home, table: &str) -> usize {
    home.shell().query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

/// How many strangers come, without a disk that each waits for: `TOOLCRIB_FLOOD` (100,000 take a minute), or 10,000.
fn strangers() -> usize {
    std::env::var("TOOLCRIB_FLOOD").map_or(10_000, |number| number.parse().expect("a number"))
}

/// A store in memory, as the process keeps it alive.
fn in_memory() -> Authorizations {
    Store::in_memory(Config::default()).unwrap().authorizations()
}

#[test]
fn of_a_flood_of_registrations_the_newest_stay() {
    let (rows_of, many) = (in_memory(), strangers());
    let end = |number: usize| Timestamp(i64::MAX / 2 + i64::try_from(number).unwrap());
    for number in 0..many {
        rows_of.put_client(&format!("tcc_{number}"), "{}", end(number)).unwrap();
    }
    let is_there = |number: &usize| rows_of.client(&format!("tcc_{number}")).unwrap().is_some();
    let left: Vec<usize> = (0..many).filter(is_there).collect();
    assert!(left.len() <= Authorizations::CLIENTS_MAX && left.len() >= Authorizations::CLIENTS_MAX * 9 / 10);
    assert_eq!(left, (many - left.len()..many).collect::<Vec<_>>(), "the newest");
}

#[test]
fn of_a_flood_of_requests_those_within_the_bound_stay() {
    let (rows_of, many) = (in_memory(), strangers());
    let request = |number: usize| RequestRecord {
        id: hash(number),
        code: hash(number),
        // Each address has a few.
        address: format!("address {}", number / 4),
        details: "{}".to_owned(),
        decision: None,
        expires_at: Timestamp(i64::MAX),
    };
    for number in 0..many {
        let is_full = matches!(rows_of.put_request(&request(number)), Err(StoreError::Full { .. }));
        assert_eq!(is_full, number >= Authorizations::REQUESTS_MAX, "{number}");
    }
    let session = SessionRecord {
        id: "session".into(),
        principal: PrincipalId::new("user:acme/ann"),
        client: "editor".into(),
        details: "{}".into(),
        sealed: None,
        refresh: None,
        used_at: Timestamp(0),
        expires_at: Timestamp(i64::MAX),
    };
    for number in many..2 * many {
        let unknown = hash(number);
        assert_eq!(rows_of.code(&unknown).unwrap(), None);
        assert_eq!(rows_of.use_code(&unknown, &session).unwrap(), CodeUse::Unknown);
    }
    assert!(rows_of.sessions().unwrap().is_empty());
    for number in 0..2 * many {
        assert_eq!(
            rows_of.request(&hash(number)).unwrap().is_some(),
            number < Authorizations::REQUESTS_MAX,
            "{number}"
        );
    }
}

#[test]
fn a_flood_of_registrations_keeps_a_bound_and_lets_new_clients_in() {
    let home = Home::new();
    let store = home.open();
    let rows_of = store.authorizations();
    fill(&home, "authorization_client", "'', 'tcc_' || n, '{}', 60000 + n", Authorizations::CLIENTS_MAX);
    // The one that expires first has a session, so it stays.
    fill(&home, "authorization_session", "'', 's', 'local', 'tcc_1', '{}', NULL, NULL, NULL, NULL, 50000, 90000", 1);
    for number in 0..MORE {
        rows_of.put_client(&format!("new_{number}"), "{}", Timestamp(90_000)).unwrap();
        assert!(rows(&home, "authorization_client") <= Authorizations::CLIENTS_MAX);
    }
    for (id, is_there) in [("tcc_1", true), ("tcc_2", false), ("tcc_1000", true), ("new_0", true), ("new_199", true)] {
        assert_eq!(rows_of.client(id).unwrap().is_some(), is_there, "{id}");
    }
}

#[test]
fn a_flood_of_requests_keeps_a_bound_in_all_and_for_each_address() {
    let home = Home::new();
    let store = home.open();
    let rows_of = store.authorizations();
    let put = |number: usize, address: &str| {
        let (id, address, details) = (hash(number), address.to_owned(), "{}".to_owned());
        rows_of.put_request(&RequestRecord {
            id,
            code: id,
            address,
            details,
            decision: None,
            expires_at: Timestamp(60_000),
        })
    };
    let full = |outcome| matches!(outcome, Err(StoreError::Full { .. }));
    for number in 0..MORE {
        assert_eq!(full(put(number, "192.0.2.1")), number >= Authorizations::REQUESTS_OF_ADDRESS_MAX, "{number}");
    }
    let others = Authorizations::REQUESTS_MAX - Authorizations::REQUESTS_OF_ADDRESS_MAX;
    let values = "'', CAST('r' || n AS BLOB), CAST('r' || n AS BLOB), 'address ' || n, '{}', NULL, 60000";
    fill(&home, "authorization_request", values, others);
    for number in MORE..2 * MORE {
        assert!(full(put(number, &format!("another {number}"))), "{number}");
    }
    assert_eq!(rows(&home, "authorization_request"), Authorizations::REQUESTS_MAX);
    home.clock.advance(10_000);
    put(0, "192.0.2.1").unwrap();
}

#[test]
fn codes_that_were_used_make_room_for_others_and_those_that_count_do_not() {
    let home = Home::new();
    let store = home.open();
    let rows_of = store.authorizations();
    let put = |number: usize| {
        let (id, address, details) = (hash(number), format!("address {number}"), "{}".to_owned());
        let (decision, expires_at) = (None, Timestamp(60_000));
        rows_of.put_request(&RequestRecord {
            id,
            code: id,
            address,
            details: details.clone(),
            decision,
            expires_at,
        })?;
        rows_of.end_request(&id, Some(&CodeRecord { hash: id, details, expires_at })).map(drop)
    };
    let session = |number: usize| SessionRecord {
        id: format!("session {number}"),
        principal: PrincipalId::new(&format!("user:acme/{number}")),
        client: "editor".into(),
        details: "{}".into(),
        sealed: None,
        refresh: None,
        used_at: Timestamp(50_000),
        expires_at: Timestamp(60_000),
    };
    let values = "'', CAST('c' || n AS BLOB), '{}', NULL, 60000";
    fill(&home, "authorization_code", values, Authorizations::CODES_MAX - MORE);
    for number in 0..MORE {
        put(number).unwrap();
    }
    assert!(matches!(put(MORE), Err(StoreError::Full { .. })), "those that count still are never thrown away");
    for number in 0..MORE {
        assert!(matches!(rows_of.use_code(&hash(number), &session(number)).unwrap(), CodeUse::Used(_)));
    }
    // One that came twice is known, and ends what it gave.
    assert!(matches!(rows_of.use_code(&hash(7), &session(7)).unwrap(), CodeUse::Replayed(Some(_))));
    for number in 0..MORE {
        put(1_000 + number).unwrap();
        assert!(rows(&home, "authorization_code") <= Authorizations::CODES_MAX);
    }
    assert!(matches!(put(2_000), Err(StoreError::Full { .. })));
    for number in 0..MORE {
        let again = rows_of.use_code(&hash(number), &session(number)).unwrap();
        assert!(!matches!(again, CodeUse::Used(_)), "{number}");
    }
}
