//! Reservations of one LUN, as they are in an aggregate's part of the book (decision 0046).

use everglade_target::reservations::{LunUuid, Registry};
use serde::{Deserialize, Serialize};

/// Reservations of one LUN.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reserved {
    /// The state, in hexadecimal digits ([`everglade_target::reservations::stored`]).
    pub(super) state: String,
    /// The number of the aggregate that has the LUN.
    #[serde(skip)]
    pub(super) home: Option<u32>,
}

impl Reserved {
    /// Checks that it is what was written.
    ///
    /// # Errors
    /// A description of the mistake, in one line.
    pub(super) fn check(&self, lun: &str) -> Result<(), String> {
        let bytes = bytes(&self.state).filter(|_| uuid(lun).is_some());
        let registry = Registry::default();
        let is_well = bytes.is_some_and(|bytes| registry.lun(&[0; 16]).restore(&bytes).is_ok());
        is_well.then_some(()).ok_or_else(|| {
            format!("the reservations of LUN {lun:.40} are not of a kind that this version knows")
        })
    }
}

/// Returns bytes as hexadecimal digits.
pub(super) fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the bytes of hexadecimal digits.
pub(super) fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let [high, low] = pair else { return None };
        let digit = |it: &u8| char::from(*it).to_digit(16);
        u8::try_from(digit(high)? << 4 | digit(low)?).ok()
    };
    pairs.map(byte).collect()
}

/// Returns the identity of a LUN that has these digits.
pub(super) fn uuid(digits: &str) -> Option<LunUuid> {
    bytes(digits)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_state_of_a_lun_is_not_read() {
        let registry = Registry::default();
        let state = digits(&registry.lun(&[1; 16]).store());
        let reserved = |state: &str| Reserved {
            state: state.to_owned(),
            home: None,
        };
        let lun = digits(&[0xa5; 16]);
        assert_eq!(reserved(&state).check(&lun), Ok(()));
        assert!(reserved(&state).check(&lun[2..]).is_err(), "no UUID");
        for bad in [&state[2..], &state[..state.len() - 1], "", "zz"] {
            assert!(reserved(bad).check(&lun).is_err(), "{bad}");
        }
        assert_eq!(bytes(&digits(&[0, 0x7f, 0xff])), Some(vec![0, 0x7f, 0xff]));
    }
}
