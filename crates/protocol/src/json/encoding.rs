//! Whether bytes are UTF-8, by vector instructions: the check takes in every byte of every message.

use super::Fault;

/// `bytes` as text.
///
/// # Errors
/// [`Fault::Encoding`] with the place of the first byte that does not belong to a text.
pub(super) fn checked(bytes: &[u8]) -> Result<&str, Fault> {
    // The fast check knows no place, and a text that passes it needs none.
    simdutf8::basic::from_utf8(bytes)
        .or_else(|_| std::str::from_utf8(bytes).map_err(|error| Fault::Encoding { at: error.valid_up_to() }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_says_what_the_standard_library_says(
            start in "[a-zäöü漢字😀\"]{0,200}", odd in prop::collection::vec(any::<u8>(), 0..6), end in "[a-zé😀]{0,100}",
        ) {
            let bytes = [start.as_bytes(), &odd, end.as_bytes()].concat();
            match std::str::from_utf8(&bytes) {
                Ok(text) => prop_assert_eq!(checked(&bytes).unwrap(), text),
                Err(error) => {
                    let fault = checked(&bytes).unwrap_err();
                    prop_assert_eq!(fault.to_string(), Fault::Encoding { at: error.valid_up_to() }.to_string());
                }
            }
        }
    }
}
