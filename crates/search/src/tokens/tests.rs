//! The count is that of a tokenizer by others.

use proptest::prelude::*;

use super::*;

fn real(text: &str) -> usize {
    tiktoken_rs::o200k_base_singleton().encode_ordinary(text).len()
}

fn check(text: &str) {
    assert_eq!(count(text), real(text), "{text:?} in {:?}", split::pieces(text).collect::<Vec<_>>());
}

#[test]
fn the_vocabulary_is_that_of_its_source() {
    let (table, source) = (Table::shared(), tiktoken_rs::o200k_base_singleton());
    for rank in 0..u32::try_from(table::TOKENS).unwrap() {
        assert_eq!(table.token(rank), source.decode_bytes(&[rank]).unwrap(), "token {rank}");
        assert_eq!(table.count(table.token(rank)), 1);
    }
    assert!(source.decode_bytes(&[u32::try_from(table::TOKENS).unwrap()]).is_err(), "there are no more");
}

#[test]
fn texts_for_models_are_counted_exactly() {
    for text in [
        "",
        "- files/read_file(path: string, head?: integer, tail?: integer) — Read the complete contents of a file from the file system as text.\n",
        "- github/create_pull_request(owner: string, repo: string, draft?: boolean) — Create a new pull request…\n",
        r#"{"type":"object","properties":{"path":{"type":"string","description":"Where the file lies"},"limit":{"minimum":1,"maximum":1000}}}"#,
        "{\n  \"name\": \"list_directory\",\n  \"inputSchema\": {\n    \"type\": \"object\"\n  }\n}",
        "It's what they'RE saying: we'll've HADN'T; 'ſ a'ſ HTTPServer getHTTPResponseCode 1234567 x86_64",
        "使用必应搜索指定的关键词，并返回搜索结果列表",
        "Найти файлы по имени и содержанию. البحث عن الملفات. फ़ाइलें खोजें ค้นหาไฟล์",
        "🙂🙂🙂 👩‍👩‍👧‍👦 \u{202e}\u{200b} e\u{301}A \u{301}A  \u{301}",
        "  \n \t\r\n\n  x   y \u{3000}\u{a0}z  ",
        "//path//\n/x -> <=> ... ====\r\n\r\n= ",
        "ǅ ʰA ªB ⅷ½ ١٢٣٤ 一二三",
    ] {
        check(text);
    }
}

#[test]
fn nonsense_without_spaces_is_counted_nearly_and_costs_little() {
    for text in ["a".repeat(10_000), "xq".repeat(5_000), "字".repeat(3_000), "=".repeat(1_000), " ".repeat(1_000)] {
        let (counted, real) = (count(&text), real(&text));
        assert!(counted.abs_diff(real) * 20 <= real + 20, "{counted} for {real}");
    }
}

proptest! {
    #[test]
    fn any_text_is_counted_exactly(text in any_text()) {
        prop_assert_eq!(count(&text), real(&text));
    }
}

/// Short pieces of every kind, mixed.
fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-zA-Z]{1,12}",
        "[a-z_]{1,10}",
        "[ \t\r\n]{1,4}",
        "[!-/:-@]{1,4}",
        "[0-9]{1,5}",
        "'(s|S|re|LL|x|ve)",
        "\\PC{1,3}",
        "[\\p{L}\\p{M}]{1,4}",
        "[字検ü界Ñ]{1,3}",
    ];
    prop::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}
