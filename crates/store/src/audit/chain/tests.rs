//! The encoding of rows can be read back, so no two rows share their bytes; and its form is fixed permanently.

use proptest::option;
use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    seq: u64,
    previous: [u8; 32],
    numbers: [i64; 2],
    texts: [String; 7],
    options: [Option<String>; 6],
    args_hash: Option<Vec<u8>>,
    later: [Option<String>; LATER.len()],
}

impl Row {
    fn encoded(&self) -> Vec<u8> {
        let [principal, door, method, target, decision, outcome, request_id] = &self.texts;
        let [profile, arguments, session, credential, address, guard] = &self.options;
        let fields = Fields {
            at: self.numbers[0],
            principal,
            profile: profile.as_deref(),
            door,
            method,
            target,
            args_hash: self.args_hash.as_deref(),
            arguments: arguments.as_deref(),
            decision,
            outcome,
            duration_us: self.numbers[1],
            request_id,
            session: session.as_deref(),
            credential: credential.as_deref(),
            address: address.as_deref(),
            guard: guard.as_deref(),
            later: self.later.each_ref().map(Option::as_deref),
        };
        let mut out = Vec::new();
        encode(self.seq, RowHash(self.previous), &fields, &mut out);
        out
    }

    /// The inverse of the encoding: that it exists is what makes the encoding injective.
    fn decoded(bytes: &[u8]) -> Row {
        let mut reader = Reader(bytes);
        assert_eq!(reader.take(DOMAIN.len()), DOMAIN);
        let seq = u64::from_be_bytes(reader.take(8).try_into().unwrap());
        let previous = reader.take(32).try_into().unwrap();
        let at = reader.number();
        let principal = reader.text();
        let profile = reader.option().map(text);
        let (door, method, target) = (reader.text(), reader.text(), reader.text());
        let args_hash = reader.option();
        let arguments = reader.option().map(text);
        let (decision, outcome) = (reader.text(), reader.text());
        let duration_us = reader.number();
        let request_id = reader.text();
        let session = reader.option().map(text);
        let credential = reader.0.first().is_some_and(|first| *first == 0).then(|| reader.text());
        let address =
            reader.0.first().is_some_and(|first| *first == ADDRESS_MARK).then(|| reader.option().map(text)).flatten();
        let mut marked = |mark| {
            reader.0.first().is_some_and(|first| *first == mark).then(|| {
                reader.take(1);
                reader.text()
            })
        };
        let guard = marked(GUARD_MARK);
        let mut mark = GUARD_MARK;
        let later = LATER.map(|_| {
            mark += 1;
            marked(mark)
        });
        assert!(reader.0.is_empty());
        let texts = [principal, door, method, target, decision, outcome, request_id];
        Row {
            seq,
            previous,
            numbers: [at, duration_us],
            texts,
            options: [profile, arguments, session, credential, address, guard],
            args_hash,
            later,
        }
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    fn number(&mut self) -> i64 {
        i64::from_be_bytes(self.take(8).try_into().unwrap())
    }

    fn bytes(&mut self) -> Vec<u8> {
        let length = u64::from_be_bytes(self.take(8).try_into().unwrap());
        self.take(usize::try_from(length).unwrap()).to_vec()
    }

    fn text(&mut self) -> String {
        text(self.bytes())
    }

    fn option(&mut self) -> Option<Vec<u8>> {
        (self.take(1)[0] == 1).then(|| self.bytes())
    }
}

/// Short texts of few letters, with NUL and with bytes like those of the encoding, so that clashes would show.
fn small() -> impl Strategy<Value = String> {
    "[ab\u{0}\u{1}\u{8}]{0,3}"
}

fn rows() -> impl Strategy<Value = Row> {
    let texts = prop::array::uniform7(small());
    let options = prop::array::uniform6(option::of(small()));
    let args_hash = option::of(prop::collection::vec(0..3_u8, 0..4));
    let later = prop::array::uniform14(option::weighted(0.2, small()));
    let fixed = (0..3_u64, prop::array::uniform32(0..2_u8), prop::array::uniform2(-1..2_i64));
    (fixed, texts, options, args_hash, later).prop_map(
        |((seq, previous, numbers), texts, options, args_hash, later)| Row {
            seq,
            previous,
            numbers,
            texts,
            options,
            args_hash,
            later,
        },
    )
}

proptest! {
    #[test]
    fn the_encoding_can_be_read_back(row in rows()) {
        prop_assert_eq!(Row::decoded(&row.encoded()), row);
    }

    #[test]
    fn text_moved_between_fields_changes_the_bytes(row in rows(), from in 0..7_usize, to in 0..7_usize) {
        let mut moved = row.clone();
        if let Some(last) = moved.texts[from].pop() {
            moved.texts[to].insert(0, last);
        }
        prop_assert_eq!(row == moved, row.encoded() == moved.encoded());
    }

    #[test]
    fn different_rows_have_different_bytes(one in rows(), other in rows()) {
        prop_assert_eq!(one == other, one.encoded() == other.encoded());
    }
}

/// The expected value was computed by another program from the description of the encoding.
/// Changing the encoding would make every log written so far look tampered with.
#[test]
fn the_hash_of_a_known_row_stays() {
    let fields = Fields {
        at: 1_795_132_800_001,
        principal: "local",
        profile: Some("default"),
        door: "mcp",
        method: "tools/call",
        target: "files/read",
        args_hash: Some(&[7; 32]),
        arguments: None,
        decision: "permit:profile",
        outcome: "ok",
        duration_us: 1_234,
        request_id: "17",
        session: None,
        credential: None,
        address: None,
        guard: None,
        later: [None; LATER.len()],
    };
    let hash = |fields| row_hash(1, RowHash::GENESIS, &fields, &mut Vec::new()).to_string();
    assert_eq!(hash(fields), "0cdf40d06fecc7c897d8c38636c6ddaca0d62b973a889303b43b489360ef9154");
    let with_credential = Fields { credential: Some("owner"), ..fields };
    assert_eq!(hash(with_credential), "6aa946de9ce15ad99e20121cde4fe73333cb96b081903b65b5644340ec3344f5");
    assert_eq!(
        hash(Fields { address: Some("192.0.2.7"), ..with_credential }),
        "1f11bee6a2ab4cfe99e41252db4cf7f48a74873a3d2bd60f55dc2c9be89008d8"
    );
    let mut later = [None; LATER.len()];
    (later[0], later[13]) = (Some("key"), Some("cnr_1"));
    assert_eq!(
        hash(Fields { later, ..with_credential }),
        "c2fdc0b3952959250cf60d1407c8d5891aa849faccfca8127a8ae2aa734a955b"
    );
}
