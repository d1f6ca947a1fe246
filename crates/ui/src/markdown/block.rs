//! The blocks of a text, line by line. Each level of nesting reads its lines once.

use super::inline;

/// How deep quotes and lists nest; what is below is text.
const MAX_DEPTH: usize = 8;

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Block {
    /// A heading of a level, from 1.
    Heading(u8, String),
    /// Lines that belong together.
    Paragraph(String),
    /// Code, as it was written.
    Code(String),
    /// The lines of a table, as they were written.
    Table(String),
    /// A line across.
    Rule,
    /// What someone else said.
    Quote(Vec<Block>),
    /// Items; with the number of the first where they are counted.
    List { first: Option<u32>, items: Vec<Vec<Block>> },
}

/// Reads a text.
pub(super) fn read(text: &str) -> Vec<Block> {
    let lines: Vec<&str> = text.lines().collect();
    blocks(&lines, 0)
}

/// How many signs of Markdown there are. A heading, a list and marks in lines count once each: comments of programs begin
/// like headings, too.
pub(super) fn signs(blocks: &[Block]) -> usize {
    let has = |wanted: fn(&Block) -> bool| usize::from(blocks.iter().any(wanted));
    let marks = blocks.iter().map(|block| match block {
        Block::Paragraph(text) => inline::signs(text),
        Block::List { items, .. } => {
            items.iter().flatten().map(|it| if let Block::Paragraph(text) = it { inline::signs(text) } else { 0 }).sum()
        }
        _ => 0,
    });
    let headed = blocks.iter().any(|block| matches!(block, Block::Heading(..)));
    2 * has(|block| matches!(block, Block::Code(_) | Block::Table(_)))
        + usize::from(headed)
        + has(|block| matches!(block, Block::List { items, .. } if items.len() > 1))
        + marks.sum::<usize>()
}

fn blocks(lines: &[&str], depth: usize) -> Vec<Block> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        if line.trim().is_empty() {
            at += 1;
        } else if let Some(fence) = Fence::of(line) {
            let rest = &lines[at + 1..];
            let end = rest.iter().position(|line| fence.is_closed_by(line)).unwrap_or(rest.len());
            out.push(Block::Code(rest[..end].join("\n")));
            at += end + 2;
        } else if let Some(heading) = heading(lines, at) {
            out.push(heading);
            at += 1;
        } else if is_rule(line) {
            out.push(Block::Rule);
            at += 1;
        } else if is_table(lines, at) {
            let end = at + lines[at..].iter().take_while(|line| line.trim_start().starts_with('|')).count();
            out.push(Block::Table(lines[at..end].join("\n")));
            at = end;
        } else if depth < MAX_DEPTH && quoted(line).is_some() {
            let inner: Vec<&str> = lines[at..].iter().map_while(|line| quoted(line)).collect();
            at += inner.len();
            out.push(Block::Quote(blocks(&inner, depth + 1)));
        } else if depth < MAX_DEPTH && Bullet::of(line).is_some() {
            let (list, end) = list(lines, at, depth);
            out.push(list);
            at = end;
        } else {
            let end = at + 1 + lines[at + 1..].iter().take_while(|line| !ends_paragraph(line, depth)).count();
            out.push(Block::Paragraph(lines[at..end].join("\n")));
            at = end;
        }
    }
    out
}

fn ends_paragraph(line: &str, depth: usize) -> bool {
    let nests = depth < MAX_DEPTH && (quoted(line).is_some() || Bullet::of(line).is_some());
    line.trim().is_empty() || Fence::of(line).is_some() || nests || line.starts_with('#') || is_rule(line)
}

/// A heading. Lines that all begin so are comments of a program.
fn heading(lines: &[&str], at: usize) -> Option<Block> {
    let level = lines[at].bytes().take_while(|byte| *byte == b'#').count();
    let text = lines[at].get(level..)?.strip_prefix(' ')?.trim().trim_end_matches('#').trim_end();
    let same = &lines[at][..=level];
    let stands_alone = lines.get(at + 1).is_none_or(|next| !next.starts_with(same));
    let is_heading = (1..=6).contains(&level) && !text.is_empty() && stands_alone;
    is_heading.then(|| Block::Heading(u8::try_from(level).unwrap_or(6), text.to_owned()))
}

fn is_rule(line: &str) -> bool {
    let mut marks = line.bytes().filter(|byte| !byte.is_ascii_whitespace());
    let Some(first) = marks.next().filter(|first| b"-*_".contains(first)) else { return false };
    let mut count = 1;
    marks.all(|mark| {
        count += 1;
        mark == first
    }) && count >= 3
}

/// Two lines between bars, of which the second one is dashes.
fn is_table(lines: &[&str], at: usize) -> bool {
    let is_row = |line: &&str| line.trim_start().starts_with('|');
    let is_line =
        |line: &&str| is_row(line) && line.contains('-') && line.bytes().all(|byte| b"|-: \t".contains(&byte));
    is_row(&lines[at]) && lines.get(at + 1).is_some_and(is_line)
}

fn quoted(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix('>')?;
    Some(rest.strip_prefix(' ').unwrap_or(rest))
}

fn list(lines: &[&str], from: usize, depth: usize) -> (Block, usize) {
    let first = Bullet::of(lines[from]).and_then(|bullet| bullet.number);
    let indent = indent_of(lines[from]);
    let mut items = Vec::new();
    let mut at = from;
    while let Some(bullet) = lines.get(at).and_then(|line| Bullet::of(line)) {
        if indent_of(lines[at]) > indent + 1 || bullet.number.is_some() != first.is_some() {
            break;
        }
        let mut inner = vec![bullet.rest];
        at += 1;
        while let Some(line) = lines.get(at) {
            let is_blank = line.trim().is_empty();
            let is_deeper = indent_of(line) > indent + 1;
            let next_is_deeper =
                || lines.get(at + 1).is_some_and(|next| !next.trim().is_empty() && indent_of(next) > indent + 1);
            if is_blank && !next_is_deeper() || !is_blank && !is_deeper && ends_paragraph(line, depth) {
                break;
            }
            inner.push(without_indent(line, bullet.width));
            at += 1;
        }
        items.push(blocks(&inner, depth + 1));
        // Items may have a blank line between them.
        let is_next = |line: &&str| Bullet::of(line).is_some_and(|next| next.number.is_some() == first.is_some());
        if lines.get(at).is_some_and(|line| line.trim().is_empty()) && lines.get(at + 1).is_some_and(is_next) {
            at += 1;
        }
    }
    (Block::List { first, items }, at)
}

fn indent_of(line: &str) -> usize {
    line.bytes().take_while(|byte| *byte == b' ' || *byte == b'\t').count()
}

fn without_indent(line: &str, most: usize) -> &str {
    &line[indent_of(line).min(most)..]
}

/// The beginning of an item.
struct Bullet<'a> {
    /// Where it is counted.
    number: Option<u32>,
    /// How far its text is indented.
    width: usize,
    rest: &'a str,
}

impl<'a> Bullet<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let text = line.trim_start_matches([' ', '\t']);
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = match digits {
            0 => (None, text.strip_prefix(['-', '*', '+'])?),
            1..=6 => (text[..digits].parse().ok(), text[digits..].strip_prefix(['.', ')'])?),
            _ => return None,
        };
        let rest = after.strip_prefix(' ')?;
        let is_item = !rest.trim().is_empty() && !is_rule(line);
        is_item.then_some(Self { number, width: line.len() - rest.len(), rest })
    }
}

/// Where code begins.
struct Fence {
    mark: char,
    count: usize,
}

impl Fence {
    fn of(line: &str) -> Option<Self> {
        let text = line.trim_start();
        let mark = text.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let count = text.chars().take_while(|it| *it == mark).count();
        let is_fence = count >= 3 && !(mark == '`' && text[count..].contains('`'));
        is_fence.then_some(Self { mark, count })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let text = line.trim();
        text.len() >= self.count && text.chars().all(|it| it == self.mark)
    }
}
