//! What is read from a certificate beside its signature, which rustls checks: from when until when it counts, whose it is
//! and who issued it (RFC 5280, section 4). Bytes in, values out.

use toolcrib_base::Timestamp;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const BOOLEAN: u8 = 0x01;
const OCTETS: u8 = 0x04;
const OBJECT_ID: u8 = 0x06;
const UTF8: u8 = 0x0c;
const PRINTABLE: u8 = 0x13;
const ASCII: u8 = 0x16;
const SHORT_TIME: u8 = 0x17;
const LONG_TIME: u8 = 0x18;
/// The version and the extensions, each in a wrapper of its own.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// The names of a `subjectAltName` that count, section 4.2.1.6.
const DNS_NAME: u8 = 0x82;
const URI_NAME: u8 = 0x86;
/// `id-at-commonName`, 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// `id-ce-subjectAltName`, 2.5.29.17.
const ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 0x11];

/// A certificate's own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CertificateFields<'a> {
    pub(super) not_before: Timestamp,
    pub(super) not_after: Timestamp,
    /// The encoded names, to be compared only.
    pub(super) issuer: &'a [u8],
    pub(super) subject: &'a [u8],
    uris: Vec<&'a str>,
    dns_names: Vec<&'a str>,
    common_name: Option<&'a str>,
}

/// Elements of DER, one after the other.
struct Elements<'a>(&'a [u8]);

// === impl CertificateFields ===

impl<'a> CertificateFields<'a> {
    /// Reads a certificate; `None` where it is none.
    pub(super) fn read(der: &'a [u8]) -> Option<Self> {
        let mut certificate = Elements(Elements(der).expect(SEQUENCE)?);
        let mut body = Elements(certificate.expect(SEQUENCE)?);
        body.skip(VERSION);
        // The serial number and the algorithm.
        body.next()?;
        body.next()?;
        let issuer = body.expect(SEQUENCE)?;
        let mut validity = Elements(body.expect(SEQUENCE)?);
        let (not_before, not_after) = (validity.moment()?, validity.moment()?);
        let subject = body.expect(SEQUENCE)?;
        body.expect(SEQUENCE)?;
        let mut fields = Self {
            not_before,
            not_after,
            issuer,
            subject,
            uris: Vec::new(),
            dns_names: Vec::new(),
            common_name: common_name(subject),
        };
        while let Some((tag, bytes)) = body.next() {
            if tag == EXTENSIONS {
                fields.read_names(bytes)?;
            }
        }
        Some(fields)
    }

    fn read_names(&mut self, extensions: &'a [u8]) -> Option<()> {
        let mut all = Elements(Elements(extensions).expect(SEQUENCE)?);
        while let Some((_, extension)) = all.next() {
            let mut extension = Elements(extension);
            let id = extension.expect(OBJECT_ID)?;
            extension.skip(BOOLEAN);
            if id != ALTERNATIVE_NAME {
                continue;
            }
            let mut names = Elements(Elements(extension.expect(OCTETS)?).expect(SEQUENCE)?);
            while let Some((tag, name)) = names.next() {
                match tag {
                    URI_NAME => self.uris.push(std::str::from_utf8(name).ok()?),
                    DNS_NAME => self.dns_names.push(std::str::from_utf8(name).ok()?),
                    _ => {}
                }
            }
        }
        Some(())
    }

    /// Whose it is: the first URI, else the first DNS name, else the common name.
    pub(super) fn name(&self) -> Option<&'a str> {
        let names = self.uris.first().or(self.dns_names.first()).copied().or(self.common_name);
        names.filter(|name| !name.is_empty())
    }
}

// === impl Elements ===

impl<'a> Elements<'a> {
    /// The tag and the content of the next one; `None` at the end and where it is cut off.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // At most four bytes of length (X.690, section 8.1.3.5).
            0x81..=0x84 => {
                let (digits, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
                (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }

    fn expect(&mut self, expected: u8) -> Option<&'a [u8]> {
        self.next().filter(|(tag, _)| *tag == expected).map(|(_, content)| content)
    }

    /// `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ`, section 4.1.2.5.
    fn moment(&mut self) -> Option<Timestamp> {
        let (tag, content) = self.next()?;
        let text = std::str::from_utf8(content).ok().filter(|text| text.is_ascii())?;
        let (year, rest) = match tag {
            SHORT_TIME => {
                let (year, rest) = text.split_at_checked(2)?;
                let century = if year >= "50" { "19" } else { "20" };
                (format!("{century}{year}"), rest)
            }
            LONG_TIME => text.split_at_checked(4).map(|(year, rest)| (year.to_owned(), rest))?,
            _ => return None,
        };
        let digits = rest.strip_suffix('Z').filter(|digits| digits.len() == 10)?;
        let pair = |at: usize| &digits[at..at + 2];
        Timestamp::parse(&format!("{year}-{}-{}T{}:{}:{}Z", pair(0), pair(2), pair(4), pair(6), pair(8)))
    }

    /// Passes over the next one if it has this tag.
    fn skip(&mut self, tag: u8) {
        if self.0.first() == Some(&tag) {
            self.next();
        }
    }
}

/// The last common name: the most specific one.
fn common_name(subject: &[u8]) -> Option<&str> {
    let (mut parts, mut found) = (Elements(subject), None);
    while let Some((SET, part)) = parts.next() {
        let mut attributes = Elements(part);
        while let Some((SEQUENCE, attribute)) = attributes.next() {
            let mut attribute = Elements(attribute);
            if attribute.expect(OBJECT_ID) == Some(COMMON_NAME)
                && let Some((UTF8 | PRINTABLE | ASCII, text)) = attribute.next()
            {
                found = std::str::from_utf8(text).ok().or(found);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn element(tag: u8, content: &[u8]) -> Vec<u8> {
        let mut all = vec![tag, 0x82];
        all.extend(u16::try_from(content.len()).unwrap().to_be_bytes());
        all.extend(content);
        all
    }

    fn common(name: &str) -> Vec<u8> {
        element(SET, &element(SEQUENCE, &[element(OBJECT_ID, COMMON_NAME), element(UTF8, name.as_bytes())].concat()))
    }

    fn certificate(subject: &[Vec<u8>], times: [&str; 2], names: &[(u8, &str)]) -> Vec<u8> {
        let time = |text: &&str| element(if text.len() > 13 { LONG_TIME } else { SHORT_TIME }, text.as_bytes());
        let names: Vec<u8> = names.iter().flat_map(|(tag, name)| element(*tag, name.as_bytes())).collect();
        let extension = [
            element(OBJECT_ID, ALTERNATIVE_NAME),
            element(BOOLEAN, &[0xff]),
            element(OCTETS, &element(SEQUENCE, &names)),
        ];
        let body = [
            element(VERSION, &element(0x02, &[2])),
            element(0x02, &[1]),
            element(SEQUENCE, &[]),
            element(SEQUENCE, &common("authority")),
            element(SEQUENCE, &times.iter().flat_map(time).collect::<Vec<_>>()),
            element(SEQUENCE, &subject.concat()),
            element(SEQUENCE, &[]),
            element(EXTENSIONS, &element(SEQUENCE, &element(SEQUENCE, &extension.concat()))),
        ];
        element(SEQUENCE, &element(SEQUENCE, &body.concat()))
    }

    const TIMES: [&str; 2] = ["491231235959Z", "20500101000000Z"];

    #[test]
    fn the_name_is_a_uri_else_a_host_else_the_common_name() {
        let subject = [common("one"), common("two")];
        for (names, expected) in [
            (&[(DNS_NAME, "a.example"), (URI_NAME, "spiffe://a/b"), (URI_NAME, "x:y")][..], Some("spiffe://a/b")),
            (&[(0x81, "mail@a.example"), (DNS_NAME, "a.example")], Some("a.example")),
            (&[], Some("two")),
        ] {
            let der = certificate(&subject, TIMES, names);
            assert_eq!(CertificateFields::read(&der).unwrap().name(), expected);
        }
        let der = certificate(&[], TIMES, &[]);
        assert_eq!(CertificateFields::read(&der).unwrap().name(), None);
    }

    #[test]
    fn times_are_read_in_both_forms() {
        let der = certificate(&[], TIMES, &[]);
        let fields = CertificateFields::read(&der).unwrap();
        assert_eq!(fields.not_before.to_string(), "2049-12-31T23:59:59.000Z");
        assert_eq!(fields.not_after.to_string(), "2050-01-01T00:00:00.000Z");
        for wrong in ["", "50", "500101000000", "500101000000+", "501301000000Z", "5001010000000Z", "99999999999999Z"] {
            assert_eq!(CertificateFields::read(&certificate(&[], [wrong, TIMES[1]], &[])), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_certificate_or_none(at in 0usize..300, byte: u8, cut in 0usize..300) {
            let mut der = certificate(&[common("one")], TIMES, &[(DNS_NAME, "a.example")]);
            let length = der.len();
            der[at % length] = byte;
            let _ = CertificateFields::read(&der);
            prop_assert_eq!(CertificateFields::read(&der[..cut % length]), None);
        }
    }
}
