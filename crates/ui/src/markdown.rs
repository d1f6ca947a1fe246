//! Markdown that others wrote, as HTML: headings, lists, quotes, code, emphasis, and links to http and https. Whatever
//! else it holds, HTML and pictures among it, stays the text that it is. Nothing of it is loaded from elsewhere.
//!
//! ```
//! use toolcrib_ui::markdown::Markdown;
//!
//! let html = Markdown::of("# Report\n\n- **two** files\n- <script>alert(1)</script>").to_string();
//! assert!(html.contains("<strong>two</strong>") && html.contains("&lt;script&gt;"));
//! ```

use std::fmt::{self, Display};

use askama::filters::HtmlSafe;

use crate::text::Visible;

mod block;
mod inline;
#[cfg(test)]
mod tests;

use block::Block;

/// A text as its blocks. It displays as HTML, whose headings stand below the second level of a page.
#[derive(Debug, Clone)]
pub struct Markdown(Vec<Block>);

// === impl Markdown ===

impl Markdown {
    /// Reads any text; one without marks is paragraphs.
    pub fn of(text: &str) -> Self {
        Self(block::read(text))
    }

    /// Reads a text whose kind is not said, if it looks like Markdown: if two of its signs are there.
    pub fn recognized(text: &str) -> Option<Self> {
        let read = Self::of(text);
        (block::signs(&read.0) >= 2).then_some(read)
    }
}

impl Display for Markdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|block| write_block(block, f))
    }
}

impl HtmlSafe for Markdown {}

fn write_block(block: &Block, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match block {
        Block::Heading(level, text) => {
            let level = (level + 2).min(6);
            write!(f, "<h{level}>{}</h{level}>", inline::Line(text))
        }
        Block::Paragraph(text) => write!(f, "<p>{}</p>", inline::Line(text)),
        Block::Code(text) | Block::Table(text) => {
            write!(f, "<pre class=\"wrap\"><code>{}</code></pre>", Visible(text.clone()))
        }
        Block::Rule => f.write_str("<hr>"),
        Block::Quote(blocks) => {
            f.write_str("<blockquote>")?;
            blocks.iter().try_for_each(|block| write_block(block, f))?;
            f.write_str("</blockquote>")
        }
        Block::List { first, items } => {
            match first {
                Some(1) => f.write_str("<ol>")?,
                Some(first) => write!(f, "<ol start=\"{first}\">")?,
                None => f.write_str("<ul>")?,
            }
            for item in items {
                f.write_str("<li>")?;
                match &item[..] {
                    // A line alone needs no paragraph.
                    [Block::Paragraph(text), rest @ ..] => {
                        write!(f, "{}", inline::Line(text))?;
                        rest.iter().try_for_each(|block| write_block(block, f))?;
                    }
                    blocks => blocks.iter().try_for_each(|block| write_block(block, f))?,
                }
                f.write_str("</li>")?;
            }
            f.write_str(if first.is_some() { "</ol>" } else { "</ul>" })
        }
    }
}
