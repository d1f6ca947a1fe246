//! `printf` with the verbs that texts are made with.

use minijinja::{Error, Value as Cell};

use super::number::{number, whole};
use super::{at, failed, made, text_of};

/// The widest field.
const WIDTH_MAX: usize = 1_000;

/// `printf "%s-%03d" .a .b`.
pub(super) fn printf(arguments: &[Cell]) -> Result<Cell, Error> {
    let format = text_of(at(arguments, 0)?)?;
    let mut values = arguments[1..].iter();
    let mut out = String::new();
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut spec = Spec::default();
        while let Some(flag) = chars.next_if(|c| matches!(c, '-' | '0' | '+' | '#' | ' ')) {
            match flag {
                '-' => spec.left = true,
                '0' => spec.zeros = true,
                '+' => spec.plus = true,
                _ => {}
            }
        }
        spec.width = digits(&mut chars).unwrap_or(0);
        if chars.next_if_eq(&'.').is_some() {
            spec.precision = Some(digits(&mut chars).unwrap_or(0));
        }
        let verb = chars.next().ok_or_else(|| failed(format!("`printf`: `{format}` ends with `%`")))?;
        if verb == '%' {
            out.push('%');
            continue;
        }
        let value = values.next().ok_or_else(|| failed(format!("`printf`: `{format}` asks for more values")))?;
        spec.write(verb, value, &mut out)?;
    }
    if values.next().is_some() {
        return Err(failed(format!("`printf`: `{format}` asks for fewer values")));
    }
    made(out)
}

fn digits(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<usize> {
    let mut number = None;
    while let Some(digit) = chars.next_if(char::is_ascii_digit) {
        let digit = digit.to_digit(10).map_or(0, |digit| digit as usize);
        number = Some((number.unwrap_or(0) * 10 + digit).min(WIDTH_MAX));
    }
    number
}

/// What stands between `%` and the verb.
#[derive(Default)]
struct Spec {
    left: bool,
    zeros: bool,
    plus: bool,
    width: usize,
    precision: Option<usize>,
}

impl Spec {
    fn write(&self, verb: char, value: &Cell, out: &mut String) -> Result<(), Error> {
        let signed = |text: String| if self.plus && !text.starts_with('-') { format!("+{text}") } else { text };
        let text = match verb {
            's' | 'v' => {
                let text = text_of(value)?;
                self.precision.map_or(text.clone(), |most| text.chars().take(most).collect())
            }
            'q' => serde_json::Value::from(text_of(value)?).to_string(),
            'd' => signed(whole(value)?.to_string()),
            'x' => format!("{:x}", whole(value)?),
            'X' => format!("{:X}", whole(value)?),
            'o' => format!("{:o}", whole(value)?),
            'b' => format!("{:b}", whole(value)?),
            't' => value.is_true().to_string(),
            'f' | 'F' | 'g' | 'e' => {
                let float = number(value).ok_or_else(|| failed(format!("`printf`: `%{verb}` of {value}")))?;
                match verb {
                    'g' => signed(float.to_string()),
                    'e' => signed(format!("{float:e}")),
                    _ => signed(format!("{float:.*}", self.precision.unwrap_or(6).min(64))),
                }
            }
            other => return Err(failed(format!("`printf`: no verb `%{other}`"))),
        };
        let missing = self.width.saturating_sub(text.chars().count());
        if self.left {
            out.push_str(&text);
            out.extend(std::iter::repeat_n(' ', missing));
        } else if self.zeros && verb != 's' {
            let (sign, digits) = text.split_at(usize::from(text.starts_with(['-', '+'])));
            out.push_str(sign);
            out.extend(std::iter::repeat_n('0', missing));
            out.push_str(digits);
        } else {
            out.extend(std::iter::repeat_n(' ', missing));
            out.push_str(&text);
        }
        Ok(())
    }
}
