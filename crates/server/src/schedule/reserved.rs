//! Reservations of LUNs, which are in the aggregates' parts of the book, too (decision 0046): an
//! aggregate has one text, and it is written as a whole.

use std::sync::Arc;

use everglade_target::reservations::{LunUuid, Registry};
use serde::{Deserialize, Serialize};

use super::library::Asked;
use super::{Inner, Schedule};

/// Limit of the reservations of an aggregate in bytes: half of its notes, so that there is always
/// room for policies.
const BYTES_MAX: usize = 512 << 10;

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

impl Schedule {
    /// Restores stored reservations, now and whenever an aggregate comes online.
    pub(crate) fn follow_reservations(&self, registry: &Arc<Registry>) {
        let mut inner = self.lock();
        inner.registry = Some(Arc::clone(registry));
        inner.restore_reservations();
    }

    /// Stores the reservations of LUNs of an aggregate; `None` if nothing of a LUN is to be stored.
    ///
    /// # Errors
    /// The reason in one line. What was stored before is stored still, unless the aggregate fails.
    pub(crate) fn keep_reservations(
        &self,
        home: u32,
        states: &[(LunUuid, Option<Vec<u8>>)],
    ) -> Result<(), String> {
        let mut inner = self.lock();
        if let Some(text) = inner.library.refusal_in(home) {
            return Err(text);
        }
        if inner.library.is_foreign(home) {
            let text = "the aggregate's notes are those of another version, or damaged, and are \
                not replaced; give one of its volumes a policy with 'policy set' to replace them";
            return Err(text.to_owned());
        }
        let mut book = inner.book.clone();
        for (lun, state) in states {
            match state {
                Some(state) => {
                    let reserved = Reserved {
                        state: digits(state),
                        home: Some(home),
                    };
                    book.reservations.insert(digits(lun), reserved);
                }
                None => _ = book.reservations.remove(&digits(lun)),
            }
        }
        let of_home = book.reservations.values();
        let of_home = of_home.filter(|it| it.home == Some(home));
        if of_home.map(|it| it.state.len()).sum::<usize>() > BYTES_MAX {
            return Err(format!(
                "the reservations of an aggregate have at most {BYTES_MAX} bytes; unregister some \
                hosts first"
            ));
        }
        let written = inner.library.write(&book, Asked::ByNobody);
        written.map_err(|unwritten| unwritten.text)?;
        if !inner.library.has_written(home) {
            return Err("the aggregate does not take changes now".to_owned());
        }
        inner.book = book;
        Ok(())
    }

    /// Forgets the reservations of deleted LUNs.
    pub(crate) fn forget_reservations(&self, luns: &[LunUuid]) {
        let mut inner = self.lock();
        let mut gone = 0;
        for lun in luns {
            gone += usize::from(inner.book.reservations.remove(&digits(lun)).is_some());
        }
        if gone > 0 {
            let book = inner.book.clone();
            if let Err(text) = inner.library.write(&book, Asked::ByNobody) {
                // No other LUN ever has their identities.
                tracing::debug!("the reservations of deleted LUNs stay for now: {text}");
            }
        }
    }
}

impl Inner {
    /// Restores the reservations of LUNs that were not restored yet.
    pub(super) fn restore_reservations(&mut self) {
        let Some(registry) = &self.registry else {
            return;
        };
        for (lun, reserved) in &self.book.reservations {
            let known = uuid(lun).expect("checked when it was read");
            if self.restored.insert(lun.clone()) {
                let state = bytes(&reserved.state).expect("checked when it was read");
                let restored = registry.lun(&known).restore(&state);
                restored.expect("checked when it was read");
            }
        }
    }
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let [high, low] = pair else { return None };
        let digit = |it: &u8| char::from(*it).to_digit(16);
        u8::try_from(digit(high)? << 4 | digit(low)?).ok()
    };
    pairs.map(byte).collect()
}

fn uuid(digits: &str) -> Option<LunUuid> {
    bytes(digits)?.try_into().ok()
}
