//! Texts: `key=value`, each ended by a zero byte (RFC 7143 §6.1).

/// Longest key (RFC 7143 §6.1).
const KEY_BYTES_MAX: usize = 63;
/// Longest value (RFC 7143 §6.1, for all keys but those with binary values).
const VALUE_BYTES_MAX: usize = 8192;
/// Most keys in one text. An initiator sends about 20 in a login.
const KEYS_MAX: usize = 128;

/// The text cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAText;

/// Returns the keys of a text with their values, in order.
///
/// # Errors
/// A pair has no `=`, no end, an empty key, bytes that are not text, or is too long; there are too
/// many pairs.
pub fn parse(bytes: &[u8]) -> Result<Vec<(String, String)>, NotAText> {
    let mut pairs = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == 0).ok_or(NotAText)?;
        let (pair, behind) = (&rest[..end], &rest[end + 1..]);
        rest = behind;
        // Some initiators pad with zeroes that they count as data.
        if pair.is_empty() {
            continue;
        }
        let pair = std::str::from_utf8(pair).map_err(|_| NotAText)?;
        let (key, value) = pair.split_once('=').ok_or(NotAText)?;
        let is_key = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
        let fits = key.len() <= KEY_BYTES_MAX && value.len() <= VALUE_BYTES_MAX;
        if !is_key || !fits || pairs.len() == KEYS_MAX {
            return Err(NotAText);
        }
        pairs.push((key.to_owned(), value.to_owned()));
    }
    Ok(pairs)
}

/// Appends a pair to a text.
pub fn push(text: &mut Vec<u8>, key: &str, value: &str) {
    text.extend_from_slice(key.as_bytes());
    text.push(b'=');
    text.extend_from_slice(value.as_bytes());
    text.push(0);
}

/// Reads a number: decimal, or hexadecimal with `0x` (RFC 7143 §6.1).
#[must_use]
pub fn number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let is_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_digits && !digits.is_empty())
        .then(|| u64::from_str_radix(digits, radix).ok())
        .flatten()
}

/// Reads binary bytes: `0x` with hexadecimal digits, or `0b` with base64. At most `bytes_max`.
#[must_use]
pub fn binary(text: &str, bytes_max: usize) -> Option<Vec<u8>> {
    let (prefix, digits) = text.split_at_checked(2)?;
    let bytes = match prefix {
        "0x" | "0X" => from_hexadecimal(digits)?,
        "0b" | "0B" => from_base64(digits)?,
        _ => return None,
    };
    (bytes.len() <= bytes_max).then_some(bytes)
}

/// Returns bytes as `0x` with hexadecimal digits.
#[must_use]
pub fn hexadecimal(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    std::iter::once("0x".to_owned()).chain(digits).collect()
}

fn from_hexadecimal(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| u8::try_from(char::from(byte).to_digit(16)?).ok();
    let digits = digits.as_bytes();
    // An odd number of digits lacks a leading zero.
    let (first, pairs) = digits.split_at(digits.len() % 2);
    let first = first.iter().map(|byte| digit(*byte));
    let pairs = pairs
        .chunks_exact(2)
        .map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?));
    first.chain(pairs).collect()
}

fn from_base64(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.trim_end_matches('=');
    if digits.len() % 4 == 1 {
        return None;
    }
    let value = |byte: u8| -> Option<u32> {
        Some(u32::from(match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        }))
    };
    let mut bytes = Vec::with_capacity(digits.len());
    for group in digits.as_bytes().chunks(4) {
        let mut bits = 0;
        for (place, byte) in group.iter().enumerate() {
            bits |= value(*byte)? << (18 - 6 * place);
        }
        bytes.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_in_order_and_others_are_not() {
        let pairs = parse(b"A=1\0B=\0\0C=x=y\0").expect("a text");
        let expected = [("A", "1"), ("B", ""), ("C", "x=y")];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(pairs, expected);
        let many = b"K=V\0".repeat(KEYS_MAX + 1);
        for bad in [&b"A=1"[..], b"A\0", b"=1\0", b"A=\xff\0", b"A b=1\0", &many] {
            assert_eq!(parse(bad), Err(NotAText), "{bad:?}");
        }
        let mut text = Vec::new();
        push(&mut text, "Key", "Value");
        assert_eq!(text, b"Key=Value\0");
    }

    #[test]
    fn numbers_and_bytes_have_two_notations() {
        assert_eq!((number("10"), number("0xfF")), (Some(10), Some(255)));
        for bad in ["", "0x", "+1", "-1", "1 ", "99999999999999999999"] {
            assert_eq!(number(bad), None, "{bad}");
        }
        let bytes = [0x00, 0x9f, 0xff];
        assert_eq!(hexadecimal(&bytes), "0x009fff");
        assert_eq!(binary("0x009FFF", 3).as_deref(), Some(&bytes[..]));
        assert_eq!(binary("0xfff", 3).as_deref(), Some(&[0x0f, 0xff][..]));
        assert_eq!(binary("0bAJ//", 3).as_deref(), Some(&bytes[..]));
        assert_eq!(binary("0bAJ8=", 3).as_deref(), Some(&bytes[..2]));
        for bad in ["", "0", "0xg1", "0bA", "0b!!!!", "1234", "0x01020304", "é0"] {
            assert_eq!(binary(bad, 3), None, "{bad}");
        }
    }
}
