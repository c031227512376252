//! Storing the limits of LUNs, and telling the engine of them. They are in the aggregates' parts of
//! the book: a pool that moves brings its limits along.

use std::collections::BTreeMap;

use everglade_api::{Code, Problem};
use everglade_engine::{Engine, LimitSettings};
use everglade_target::reservations::LunUuid;

use super::library::Asked;
use super::limited::Limited;
use super::reserved::{digits, uuid};
use super::{Inner, Schedule};

/// Most limits of an aggregate: a third of its notes.
const LIMITS_MAX: usize = 3000;

/// Who follows the limits.
pub(super) struct Follower {
    engine: Engine,
    /// What the engine was told.
    told: BTreeMap<LunUuid, LimitSettings>,
}

impl Schedule {
    /// Tells an engine of all limits, now and whenever one is changed or an aggregate comes online.
    pub(crate) fn follow_limits(&self, engine: &Engine) {
        let mut inner = self.lock();
        inner.limiter = Some(Follower {
            engine: engine.clone(),
            told: BTreeMap::new(),
        });
        inner.publish_limits();
    }

    /// Sets the limit of a LUN of an aggregate; with no rate at all, removes it.
    ///
    /// # Errors
    /// Nothing was changed.
    pub(crate) fn set_limit(
        &self,
        home: u32,
        lun: &LunUuid,
        settings: LimitSettings,
    ) -> Result<(), Problem> {
        let unavailable = |text| Problem::new(Code::Unavailable, text);
        let mut inner = self.lock();
        inner.can_keep(home).map_err(unavailable)?;
        let mut book = inner.book.clone();
        match settings == LimitSettings::default() {
            true => _ = book.limits.remove(&digits(lun)),
            false => {
                let limited = Limited {
                    iops: settings.operations_per_second,
                    bytes_per_second: settings.bytes_per_second,
                    home: Some(home),
                };
                book.limits.insert(digits(lun), limited);
            }
        }
        let of_home = book.limits.values();
        if of_home.filter(|it| it.home == Some(home)).count() > LIMITS_MAX {
            let text = format!(
                "an aggregate has at most {LIMITS_MAX} limits; remove one with 'qos clear' first"
            );
            return Err(Problem::new(Code::TooMany, text));
        }
        let kept = inner.keep(home, book, Asked::ByPeople);
        kept.map_err(unavailable)?;
        inner.publish_limits();
        Ok(())
    }

    /// Forgets the limits of deleted LUNs.
    pub(crate) fn forget_limits(&self, luns: &[LunUuid]) {
        let mut inner = self.lock();
        let mut gone = 0;
        for lun in luns {
            gone += usize::from(inner.book.limits.remove(&digits(lun)).is_some());
        }
        if gone > 0 {
            let book = inner.book.clone();
            if let Err(text) = inner.library.write(&book, Asked::ByNobody) {
                // No other LUN ever has their identities.
                tracing::debug!("the limits of deleted LUNs stay for now: {}", text.text);
            }
            inner.publish_limits();
        }
    }
}

impl Inner {
    /// Tells the engine what has changed.
    pub(super) fn publish_limits(&mut self) {
        let Some(follower) = &mut self.limiter else {
            return;
        };
        let limits = self.book.limits.iter();
        let now: BTreeMap<LunUuid, LimitSettings> = limits
            .filter_map(|(lun, limited)| Some((uuid(lun)?, limited.settings())))
            .collect();
        for lun in follower.told.keys().filter(|lun| !now.contains_key(*lun)) {
            follower.engine.set_limit(*lun, LimitSettings::default());
        }
        for (lun, settings) in &now {
            if follower.told.get(lun) != Some(settings) {
                follower.engine.set_limit(*lun, *settings);
            }
        }
        follower.told = now;
    }
}
