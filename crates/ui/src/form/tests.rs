//! Forms at their public edge: a schema becomes a form, the form HTML, the HTML what a browser would send, and that
//! JSON again.

use super::*;

mod bounds;
mod browser;
mod corpus;
mod edits;
mod kinds;
mod properties;

use browser::Page;

fn form(schema: &str) -> Form {
    Form::parse(schema).expect("a schema")
}

/// What a browser that opens the form sends, changed by some pairs and the press of a button.
fn sent(form: &Form, changes: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut pairs = Page::parse(&form.to_string()).pairs();
    for (name, value) in changes {
        match pairs.iter_mut().find(|(known, _)| known == name) {
            Some(pair) => (*value).clone_into(&mut pair.1),
            None => pairs.push(((*name).to_owned(), (*value).to_owned())),
        }
    }
    pairs
}

/// Fills a form with a value and expects it back from what a browser sends.
fn check_kept(schema: &str, value: &str) {
    let mut form = form(schema);
    form.fill(value).expect("a value");
    let html = form.to_string();
    Page::parse(&html).check();
    let answer = form.read(&sent(&form, &[]));
    let Submission::Complete(text) = &answer else { panic!("{schema}\n{value}\n{answer:?}\n{html}") };
    let (before, after) = (Json::parse(value).expect("a value"), Json::parse(text).expect("JSON"));
    assert!(before.is_same(&after), "{schema}\nbefore {value}\nafter  {text}\n{html}");
}

/// Enters pairs in a blank form and expects a JSON text.
fn check_entered(schema: &str, changes: &[(&str, &str)], expected: &str) {
    let mut form = form(schema);
    let pairs = sent(&form, changes);
    assert_eq!(form.read(&pairs), Submission::Complete(expected.to_owned()), "{schema}\n{form}");
}

/// Enters pairs in a blank form and expects the first error.
fn check_wrong(schema: &str, changes: &[(&str, &str)], path: &str, message: &str) {
    let mut form = form(schema);
    let pairs = sent(&form, changes);
    let Submission::Wrong(errors) = form.read(&pairs) else { panic!("nothing is wrong: {schema} {pairs:?}") };
    assert_eq!((errors[0].path.as_str(), errors[0].message.as_str()), (path, message), "{errors:?}");
    let page = Page::parse(&form.to_string());
    page.check();
    // It is shown, and what was entered is kept.
    assert!(page.elements.iter().any(|element| element.get("class") == Some("wrong")));
    let again = page.pairs();
    for (name, value) in pairs.iter().filter(|(name, _)| !name.starts_with("shown:")) {
        assert!(again.iter().any(|(known, kept)| known == name && kept == value), "{name} {value}: {again:?}");
    }
}
