//! How the random part of a token may be written, folded as messages are, and which of its places each character shows.

use std::ops::Range;

use crate::encoding::{STANDARD, base64_within};

/// From how much of it a form is recognized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// From any six characters on: each says much.
    Piece,
    /// From any sixteen characters on.
    Block,
    /// From its beginning.
    Whole,
}

/// One way of writing it.
pub(super) struct Form {
    pub(super) core: u32,
    /// Folded.
    pub(super) text: Box<[u8]>,
    /// The place in the random part that each character shows.
    places: Box<[u8]>,
    pub(super) reach: Reach,
    /// Whether its first and last character may show a place only in part.
    pub(super) is_coded: bool,
}

/// A text and the places that its characters show, before it is folded.
#[derive(Clone)]
struct WrittenText {
    text: Vec<u8>,
    places: Vec<u8>,
}

// === impl Form ===

impl Form {
    /// The places that a part of the form shows.
    pub(super) fn seen(&self, part: Range<usize>) -> u64 {
        self.places[part].iter().fold(0, |seen, place| seen | 1 << place)
    }

    fn new(core: u32, written: &WrittenText, reach: Reach, is_coded: bool) -> Self {
        let folded = written.text.iter().zip(&written.places).filter(|(byte, _)| byte.is_ascii_alphanumeric());
        let (text, places): (Vec<u8>, Vec<u8>) =
            folded.map(|(byte, place)| (byte.to_ascii_lowercase(), *place)).unzip();
        Self { core, text: text.into(), places: places.into(), reach, is_coded }
    }
}

/// All ways of writing it that are looked for, each once.
pub(super) fn forms(core: &str, index: u32) -> Vec<Form> {
    let plain = WrittenText::plain(core);
    let mut forms =
        vec![Form::new(index, &plain, Reach::Piece, false), Form::new(index, &plain.reversed(), Reach::Piece, false)];
    for text in [core.to_owned(), core.to_ascii_lowercase(), core.to_ascii_uppercase()] {
        let plain = WrittenText::plain(&text);
        let base64: Vec<WrittenText> = (0..3).map(|offset| plain.base64(offset)).collect();
        forms.extend(base64.iter().map(|it| Form::new(index, it, Reach::Piece, true)));
        let hex = [plain.each(lower_hex), plain.each(|byte| format!("{byte:02X}"))];
        forms.push(Form::new(index, &hex[0], Reach::Block, true));
        // One within another. Percent signs, references and `\u` around any of these are read when a message is folded.
        let inner = base64.iter().chain(&hex).cloned().chain([
            plain.reversed(),
            plain.each(|byte| format!("%{byte:02x}")),
            plain.each(|byte| format!("%{byte:02X}")),
            plain.each(|byte| format!("\\u{byte:04x}")),
            plain.each(|byte| format!("&#{byte};")),
            plain.each(|byte| format!("&#x{byte:x};")),
        ]);
        for inner in inner {
            let outer = (0..3).map(|offset| inner.base64(offset)).chain([inner.each(lower_hex)]);
            forms.extend(outer.map(|it| Form::new(index, &it, Reach::Whole, true)));
        }
        let turned = base64.iter().chain([&hex[0]]).map(WrittenText::reversed);
        forms.extend(turned.map(|it| Form::new(index, &it, Reach::Whole, true)));
    }
    forms.retain(|form| form.text.len() >= super::BLOCK + super::STRIDE || form.reach == Reach::Piece);
    forms.sort_by(|one, other| one.text.cmp(&other.text));
    forms.dedup_by(|one, other| one.text == other.text);
    forms
}

// === impl WrittenText ===

impl WrittenText {
    fn plain(core: &str) -> Self {
        Self { text: core.as_bytes().to_vec(), places: (0..).take(core.len()).collect() }
    }

    fn reversed(&self) -> Self {
        let Self { text, places } = self;
        Self { text: text.iter().rev().copied().collect(), places: places.iter().rev().copied().collect() }
    }

    /// The digits of base64 that say nothing of what stands around it, when it begins `offset` bytes after a group of
    /// three.
    fn base64(&self, offset: usize) -> Self {
        let text = base64_within(&self.text, offset, STANDARD).unwrap_or_default();
        // The first digit that is of this text alone: each has six bits.
        let first = (offset * 8).div_ceil(6);
        let byte = |digit: usize| ((first + digit) * 6 / 8).saturating_sub(offset).min(self.places.len() - 1);
        Self { places: (0..text.len()).map(|digit| self.places[byte(digit)]).collect(), text: text.into_bytes() }
    }

    /// Each byte written so.
    fn each(&self, write: impl Fn(u8) -> String) -> Self {
        let mut written = Self { text: Vec::new(), places: Vec::new() };
        for (byte, place) in self.text.iter().zip(&self.places) {
            let text = write(*byte);
            written.places.extend(std::iter::repeat_n(*place, text.len()));
            written.text.extend(text.into_bytes());
        }
        written
    }
}

fn lower_hex(byte: u8) -> String {
    format!("{byte:02x}")
}
