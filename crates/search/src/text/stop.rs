//! Words that say nothing about what a tool does. The list is closed-class English (articles, pronouns, auxiliaries,
//! prepositions) and the polite frame of a request; nouns and verbs that occur in tools' names (`table`, `index`,
//! `data`, `id`, `type`, `text`, `list`, `get` …) must never be in it.

/// Sorted, lower case; apostrophes are removed before the look-up.
const STOP_WORDS: &[&str] = &[
    "a", "about", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been", "being", "but", "by", "can",
    "could", "did", "do", "does", "doing", "dont", "each", "else", "for", "from", "had", "has", "have", "having", "he",
    "hello", "her", "here", "hers", "hey", "hi", "him", "his", "how", "i", "if", "ill", "im", "in", "into", "is", "it",
    "its", "ive", "just", "lets", "like", "may", "me", "might", "must", "my", "of", "on", "or", "our", "ours",
    "please", "shall", "she", "should", "so", "some", "such", "than", "thank", "thanks", "that", "the", "their",
    "them", "then", "there", "these", "they", "this", "those", "to", "too", "very", "want", "was", "we", "were",
    "what", "when", "where", "which", "while", "who", "whom", "whose", "why", "will", "with", "would", "you", "your",
    "yours",
];

/// Whether a lower-case word is left out of prose and queries.
pub(crate) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_harmless() {
        assert!(STOP_WORDS.is_sorted());
        for kept in ["table", "index", "data", "id", "type", "text", "list", "get", "set", "tool", "find", "all", "not"]
        {
            assert!(!is_stop_word(kept), "`{kept}` matters to tools");
        }
        assert!(is_stop_word("the") && is_stop_word("please"));
    }
}
