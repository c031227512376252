//! Metadata contexts: the data of `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT`, and
//! of their replies (proto "Metadata querying", "Option types").

use super::fields::{string, take_bytes, take_u32};

/// Name of the context for allocation.
pub const ALLOCATION: &str = "base:allocation";
/// Matches all of its namespace in a list.
pub const BASE: &str = "base:";
/// Prefix of the contexts for changes; the label of the earlier image follows it. In a list, the
/// prefix alone stands for all of them.
pub const CHANGED: &str = "everglade:changed:";
/// Matches all of its namespace in a list.
pub const EVERGLADE: &str = "everglade:";

/// The data of a client's option, for both options.
///
/// | bytes | field |
/// | --- | --- |
/// | 4 | length of the export's name |
/// | … | name, UTF-8 |
/// | 4 | number of queries |
/// | 4 + … each | length and text of a query |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextRequest {
    /// Export asked about; empty means the default export.
    pub name: String,
    /// Names of contexts, or patterns of their namespaces.
    pub queries: Vec<String>,
}

impl ContextRequest {
    /// Encodes the message as the option's data.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut append = |text: &str| {
            let length = u32::try_from(text.len()).expect("names are short");
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(text.as_bytes());
        };
        append(&self.name);
        let name_bytes = 4 + self.name.len();
        self.queries.iter().for_each(|query| append(query));
        let count = u32::try_from(self.queries.len()).expect("there are few queries");
        bytes.splice(name_bytes..name_bytes, count.to_be_bytes());
        bytes
    }

    /// Parses the bytes; returns `None` unless `data` is exactly one request with proper strings.
    /// Their number is bounded by the length of the data, not by the number that the data claims.
    #[must_use]
    pub fn parse(data: &[u8]) -> Option<Self> {
        let mut rest = data;
        let name = take_string(&mut rest)?;
        let count = take_u32(&mut rest)?;
        let mut queries = Vec::new();
        for _ in 0..count {
            queries.push(take_string(&mut rest)?);
        }
        rest.is_empty().then_some(ContextRequest { name, queries })
    }
}

fn take_string(rest: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(take_u32(rest)?).ok()?;
    string(take_bytes(rest, length)?).map(str::to_owned)
}

/// Returns the data of a `META_CONTEXT` reply.
#[must_use]
pub fn context_data(id: u32, name: &str) -> Vec<u8> {
    [&id.to_be_bytes()[..], name.as_bytes()].concat()
}
