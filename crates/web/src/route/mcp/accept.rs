//! Which forms of an answer a client takes: what its `Accept` header says. Read once for each request.

use http::header::{ACCEPT, HeaderMap};

/// What an `Accept` header names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Accept {
    /// Whether there is a header at all; without one, a client takes anything.
    is_given: bool,
    json: bool,
    events: bool,
    /// `application/*`.
    any_application: bool,
    /// `text/*`.
    any_text: bool,
    /// `*/*`.
    anything: bool,
}

impl Accept {
    /// Reads all `Accept` headers of a request. Weights are not looked at.
    pub(super) fn read(headers: &HeaderMap) -> Self {
        let mut accept = Self::default();
        for value in headers.get_all(ACCEPT) {
            accept.is_given = true;
            value.as_bytes().split(|byte| *byte == b',').for_each(|range| accept.note(range));
        }
        accept
    }

    fn note(&mut self, range: &[u8]) {
        let end = range.iter().position(|byte| *byte == b';').unwrap_or(range.len());
        let media = range[..end].trim_ascii();
        for (name, flag) in [
            (&b"application/json"[..], &mut self.json),
            (b"text/event-stream", &mut self.events),
            (b"application/*", &mut self.any_application),
            (b"text/*", &mut self.any_text),
            (b"*/*", &mut self.anything),
        ] {
            *flag |= media.eq_ignore_ascii_case(name);
        }
    }

    /// Whether it takes one of the two forms. Clients must accept both; those that name only one of them, or say
    /// nothing, are served anyway.
    pub(super) fn fits(self) -> bool {
        self.takes_events() || self.json || self.any_application
    }

    /// Whether an answer may be a stream.
    pub(super) fn takes_events(self) -> bool {
        !self.is_given || self.events || self.any_text || self.anything
    }

    /// Whether streams are asked for by their name: clients that take anything are seen to expect one body.
    pub(super) fn names_events(self) -> bool {
        self.events
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read(values: &[&'static str]) -> Accept {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(ACCEPT, HeaderValue::from_static(value));
        }
        Accept::read(&headers)
    }

    #[test]
    fn what_a_client_takes_is_read_from_all_its_headers() {
        for (values, fits, events, named) in [
            (&[][..], true, true, false),
            (&["application/json, text/event-stream"], true, true, true),
            (&["application/json", "text/event-stream"], true, true, true),
            (&["Application/JSON;q=0.9"], true, false, false),
            (&["TEXT/Event-Stream ; q=1 , */*"], true, true, true),
            (&["*/*"], true, true, false),
            (&["application/*"], true, false, false),
            (&["text/*"], true, true, false),
            (&["text/html, application/xml"], false, false, false),
            (&[""], false, false, false),
            (&["application/jsonp"], false, false, false),
        ] {
            let accept = read(values);
            assert_eq!(
                (accept.fits(), accept.takes_events(), accept.names_events()),
                (fits, events, named),
                "{values:?}"
            );
        }
    }
}
