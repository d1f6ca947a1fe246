//! The forms in which providers count.
//!
//! | provider | cached input | cache writes | reasoning |
//! |---|---|---|---|
//! | OpenAI (both wires) | inside input | inside input | inside output |
//! | Anthropic | beside input | beside input | inside output |
//! | Gemini (chat) | inside input | – | beside output, seen in the total only |
//! | xAI (chat) | inside input | – | beside output, and in the total |
//! | DeepSeek (chat) | `prompt_cache_hit_tokens`, inside input | – | inside output |
//! | llama.cpp (chat) | inside input, or `timings.cache_n` | – | inside output |

use super::Usage;
use crate::json::Json;

fn count(usage: &Json, key: &str) -> u64 {
    usage.count_at(key).unwrap_or(0)
}

fn detail(usage: &Json, details: &str, key: &str) -> Option<u64> {
    usage.member(details)?.count_at(key)
}

/// `usage` of chat completions; `timings` where llama.cpp sends them.
pub(crate) fn chat(usage: &Json, timings: Option<&Json>) -> Usage {
    let input = count(usage, "prompt_tokens");
    let cached = detail(usage, "prompt_tokens_details", "cached_tokens")
        .or_else(|| usage.count_at("prompt_cache_hit_tokens"))
        .or_else(|| timings?.count_at("cache_n"))
        .unwrap_or(0);
    let cache_writes = detail(usage, "prompt_tokens_details", "cache_write_tokens").unwrap_or(0);
    let reasoning = detail(usage, "completion_tokens_details", "reasoning_tokens").unwrap_or(0);
    let written = count(usage, "completion_tokens");
    let (output, reasoning) = match usage.count_at("total_tokens").and_then(|total| total.checked_sub(input)) {
        // What the total has besides input and output are thoughts.
        Some(output) if output > written => (output, reasoning.max(output - written)),
        _ if reasoning > written => (written.saturating_add(reasoning), reasoning),
        _ => (written, reasoning),
    };
    Usage { input, cached, cache_writes, cache_writes_hour: 0, output, reasoning }.bounded()
}

/// `usage` of Responses.
pub(crate) fn responses(usage: &Json) -> Usage {
    Usage {
        input: count(usage, "input_tokens"),
        cached: detail(usage, "input_tokens_details", "cached_tokens").unwrap_or(0),
        cache_writes: detail(usage, "input_tokens_details", "cache_write_tokens").unwrap_or(0),
        cache_writes_hour: 0,
        output: count(usage, "output_tokens"),
        reasoning: detail(usage, "output_tokens_details", "reasoning_tokens").unwrap_or(0),
    }
    .bounded()
}

/// `usage` of Messages. A stream says it several times; for each count the last one said is valid, so `parts` are all of
/// them in order.
pub(crate) fn messages(parts: &[Json]) -> Usage {
    let last = |read: &dyn Fn(&Json) -> Option<u64>| parts.iter().rev().find_map(read).unwrap_or(0);
    let by_time = |key: &str| last(&|usage| detail(usage, "cache_creation", key));
    let fresh = last(&|usage| usage.count_at("input_tokens"));
    let cached = last(&|usage| usage.count_at("cache_read_input_tokens"));
    let hour = by_time("ephemeral_1h_input_tokens");
    let writes = last(&|usage| usage.count_at("cache_creation_input_tokens"))
        .max(by_time("ephemeral_5m_input_tokens").saturating_add(hour));
    Usage {
        input: fresh.saturating_add(cached).saturating_add(writes),
        cached,
        cache_writes: writes,
        cache_writes_hour: hour,
        output: last(&|usage| usage.count_at("output_tokens")),
        reasoning: last(&|usage| detail(usage, "output_tokens_details", "thinking_tokens")),
    }
    .bounded()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned()).unwrap()
    }

    fn usage(input: u64, cached: u64, output: u64, reasoning: u64) -> Usage {
        Usage { input, cached, output, reasoning, ..Usage::default() }
    }

    #[test]
    fn openai_counts_the_cache_inside_input_and_reasoning_inside_output() {
        // From the guide on prompt caching.
        let text = r#"{"prompt_tokens":2006,"completion_tokens":300,"total_tokens":2306,
             "prompt_tokens_details":{"cached_tokens":1920},"completion_tokens_details":{"reasoning_tokens":0,
             "accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}"#;
        assert_eq!(chat(&json(text), None), usage(2_006, 1_920, 300, 0));
        // From the reference of Responses.
        let text = r#"{"input_tokens":75,"input_tokens_details":{"cached_tokens":0},"output_tokens":1186,"output_tokens_details":{"reasoning_tokens":1024},"total_tokens":1261}"#;
        assert_eq!(responses(&json(text)), usage(75, 0, 1_186, 1_024));
    }

    #[test]
    fn anthropic_counts_the_cache_beside_input() {
        // From the guide on prompt caching: a read, a write for five minutes and one for an hour.
        let text = r#"{"input_tokens":2048,"cache_read_input_tokens":1800,"cache_creation_input_tokens":248,
             "output_tokens":503,"cache_creation":{"ephemeral_5m_input_tokens":148,
             "ephemeral_1h_input_tokens":100}}"#;
        let expect =
            Usage { input: 4_096, cached: 1_800, cache_writes: 248, cache_writes_hour: 100, output: 503, reasoning: 0 };
        assert_eq!(messages(&[json(text)]), expect);
        let start = r#"{"input_tokens":25,"cache_read_input_tokens":7,"output_tokens":1}"#;
        let end = r#"{"output_tokens":15,"input_tokens":null,"output_tokens_details":{"thinking_tokens":4}}"#;
        assert_eq!(messages(&[json(start), json(end)]), usage(32, 7, 15, 4));
        assert_eq!(messages(&[]), Usage::default());
    }

    #[test]
    fn thoughts_beside_the_output_are_output() {
        // Gemini's OpenAI endpoint: only the total has them.
        let gemini = r#"{"prompt_tokens":10,"completion_tokens":20,"total_tokens":130}"#;
        assert_eq!(chat(&json(gemini), None), usage(10, 0, 120, 100));
        // xAI: beside the output and in the total.
        let grok = r#"{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135,
             "prompt_tokens_details":{"cached_tokens":6},"completion_tokens_details":{"reasoning_tokens":94}}"#;
        assert_eq!(chat(&json(grok), None), usage(32, 6, 103, 94));
        // The same without a total.
        let odd = r#"{"prompt_tokens":1,"completion_tokens":9,"completion_tokens_details":{"reasoning_tokens":94}}"#;
        assert_eq!(chat(&json(odd), None), usage(1, 0, 103, 94));
    }

    #[test]
    fn other_names_of_the_cache_are_read() {
        let deepseek = r#"{"prompt_tokens":100,"completion_tokens":5,"total_tokens":105,"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":36}"#;
        assert_eq!(chat(&json(deepseek), None), usage(100, 64, 5, 0));
        let llama = json(r#"{"prompt_tokens":100,"completion_tokens":5,"total_tokens":105}"#);
        assert_eq!(chat(&llama, Some(&json(r#"{"cache_n":90,"prompt_n":10}"#))), usage(100, 90, 5, 0));
    }

    #[test]
    fn odd_counts_stay_bounded() {
        let odd = r#"{"prompt_tokens":5,"completion_tokens":-3,"total_tokens":1,"prompt_tokens_details":{"cached_tokens":50},"completion_tokens_details":null}"#;
        assert_eq!(chat(&json(odd), None), usage(5, 5, 0, 0));
        assert_eq!(responses(&json(r#"{"input_tokens":"many"}"#)), Usage::default());
        assert_eq!(responses(&json("[]")), Usage::default());
    }
}
