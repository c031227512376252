//! Storing and restoring reservations of LUNs, which are in the aggregates' parts of the book, too
//! (decision 0046): an aggregate has one text, and it is written as a whole.

use std::sync::Arc;

use everglade_target::reservations::{LunUuid, Registry};

use super::library::Asked;
use super::reserved::{Reserved, bytes, digits, uuid};
use super::{Inner, Schedule};

/// Limit of the reservations of an aggregate in bytes: half of its notes, so that there is always
/// room for policies.
const BYTES_MAX: usize = 512 << 10;

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
