//! The data of `NBD_OPT_INFO` and `NBD_OPT_GO`, and the facts sent in return
//! (proto "Option types", "Option reply types": `NBD_REP_INFO`).

use everglade_target::Limits;

use super::fields::{string, take_bytes, take_u16, take_u32};
use super::handshake::ExportParameters;

/// Facts about an export a client may ask for.
pub mod facts {
    /// Size and flags; always sent.
    pub const EXPORT: u16 = 0;
    /// The canonical name.
    pub const NAME: u16 = 1;
    /// Text for people.
    pub const DESCRIPTION: u16 = 2;
    /// Smallest, preferred and largest request.
    pub const BLOCK_SIZE: u16 = 3;
}

/// The data of a client's `INFO` or `GO`.
///
/// | bytes | field |
/// | --- | --- |
/// | 4 | length of the name |
/// | … | name, UTF-8 |
/// | 2 | number of facts wanted |
/// | 2 each | facts |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfoRequest {
    /// The requested export; empty means the default export.
    pub name: String,
    /// [`facts`] wanted, known to us or not.
    pub wanted: Vec<u16>,
}

impl InfoRequest {
    /// Encodes the message as the option's data.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let name_bytes = u32::try_from(self.name.len()).expect("export names are short");
        let count = u16::try_from(self.wanted.len()).expect("there are few facts");
        let mut bytes = name_bytes.to_be_bytes().to_vec();
        bytes.extend_from_slice(self.name.as_bytes());
        bytes.extend_from_slice(&count.to_be_bytes());
        self.wanted
            .iter()
            .for_each(|fact| bytes.extend_from_slice(&fact.to_be_bytes()));
        bytes
    }

    /// Parses the bytes; returns `None` unless `data` is exactly one request with a proper name.
    #[must_use]
    pub fn parse(data: &[u8]) -> Option<Self> {
        let mut rest = data;
        let name_bytes = usize::try_from(take_u32(&mut rest)?).ok()?;
        let name = string(take_bytes(&mut rest, name_bytes)?)?.to_owned();
        let count = usize::from(take_u16(&mut rest)?);
        if rest.len() != 2 * count {
            return None;
        }
        let wanted = rest
            .chunks_exact(2)
            .map(|fact| u16::from_be_bytes([fact[0], fact[1]]));
        Some(InfoRequest {
            name,
            wanted: wanted.collect(),
        })
    }
}

/// Returns the name sent with `NBD_OPT_EXPORT_NAME`; `None` if it is not a string of the protocol.
#[must_use]
pub fn export_name(data: &[u8]) -> Option<&str> {
    string(data)
}

/// Returns the data of an `EXPORT` fact.
#[must_use]
pub fn export_data(parameters: &ExportParameters) -> Vec<u8> {
    [&facts::EXPORT.to_be_bytes()[..], &parameters.encode()].concat()
}

/// Returns the data of a `NAME` fact.
#[must_use]
pub fn name_data(name: &str) -> Vec<u8> {
    [&facts::NAME.to_be_bytes()[..], name.as_bytes()].concat()
}

/// Returns the data of a `BLOCK_SIZE` fact.
#[must_use]
pub fn block_size_data(limits: &Limits) -> Vec<u8> {
    let mut bytes = facts::BLOCK_SIZE.to_be_bytes().to_vec();
    for size in [limits.block_min, limits.block_preferred, limits.payload_max] {
        bytes.extend_from_slice(&size.to_be_bytes());
    }
    bytes
}
