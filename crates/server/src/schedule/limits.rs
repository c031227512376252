//! Storing the limits of LUNs and volumes and the policies that they may follow, and telling the
//! engine of them. They are in the aggregates' parts of the book: a pool that moves brings its
//! limits along, and the policies of these.

use std::collections::BTreeMap;

use everglade_api::{Code, Problem, QosPolicy, SetQosPolicy, counted};
use everglade_engine::{Engine, LimitSettings};
use everglade_target::reservations::LunUuid;

use super::library::Asked;
use super::limited::{Limited, Rates};
use super::reserved::{digits, uuid};
use super::{Inner, Schedule};

/// Most limits of an aggregate: a third of its notes.
const LIMITS_MAX: usize = 3000;
/// Most policies.
const POLICIES_MAX: usize = 500;

/// Who follows the limits.
pub(super) struct Follower {
    engine: Engine,
    /// What the engine was told.
    told: BTreeMap<LunUuid, LimitSettings>,
}

/// What a limit is to be.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// These rates. Without any rate, the limit is removed.
    Rates(LimitSettings),
    /// Those of a policy, by its name.
    Policy(String),
}

/// Returns the rates of a limit. A rate that is not limited is absent.
pub(crate) fn rates_of(settings: LimitSettings) -> SetQosPolicy {
    let rate = |rate: u64| (rate > 0).then_some(rate);
    let small = |number: u32| (number > 0).then_some(number);
    SetQosPolicy {
        iops: rate(settings.operations_per_second),
        bytes_per_second: rate(settings.bytes_per_second),
        burst_milliseconds: small(settings.burst_milliseconds),
        weight: small(settings.weight),
    }
}

fn view((name, rates): (&String, &Rates), object_count: u64) -> QosPolicy {
    let rates = rates_of(rates.settings());
    QosPolicy {
        name: name.clone(),
        iops: rates.iops,
        bytes_per_second: rates.bytes_per_second,
        burst_milliseconds: rates.burst_milliseconds,
        weight: rates.weight,
        object_count,
    }
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

    /// Sets the limit of a LUN or a volume of an aggregate, by its UUID; without any rate, removes
    /// it.
    ///
    /// # Errors
    /// Nothing was changed.
    pub(crate) fn set_limit(
        &self,
        home: u32,
        of: &LunUuid,
        wanted: &Wanted,
    ) -> Result<(), Problem> {
        let unavailable = |text| Problem::new(Code::Unavailable, text);
        let mut inner = self.lock();
        inner.can_keep(home).map_err(unavailable)?;
        let mut book = inner.book.clone();
        let limited = match wanted {
            Wanted::Rates(settings) => Limited {
                own: Rates::of(*settings),
                policy: None,
                home: Some(home),
            },
            Wanted::Policy(name) => {
                inner.must_have_qos_policy(name)?;
                Limited {
                    own: Rates::default(),
                    policy: Some(name.clone()),
                    home: Some(home),
                }
            }
        };
        match limited.policy.is_none() && limited.own == Rates::default() {
            true => _ = book.limits.remove(&digits(of)),
            false => _ = book.limits.insert(digits(of), limited),
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

    /// Returns the policy of each limit that has one, by the UUID of what is limited.
    pub(crate) fn policies_of_limits(&self) -> BTreeMap<LunUuid, String> {
        let inner = self.lock();
        let limits = inner.book.limits.iter();
        let named = limits.filter_map(|(of, limited)| Some((uuid(of)?, limited.policy.clone()?)));
        named.collect()
    }

    /// Returns the policies of limits, by name.
    #[must_use]
    pub fn qos_policies(&self) -> Vec<QosPolicy> {
        let inner = self.lock();
        let policies = inner.book.qos_policies.iter();
        let shown = policies.map(|policy| view(policy, inner.book.limited_by(policy.0)));
        shown.collect()
    }

    /// Returns a policy of limits.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn qos_policy(&self, name: &str) -> Result<QosPolicy, Problem> {
        let inner = self.lock();
        inner.must_have_qos_policy(name)?;
        let policy = inner.book.qos_policies.get_key_value(name);
        let policy = policy.expect("just looked up");
        Ok(view(policy, inner.book.limited_by(name)))
    }

    /// Makes a policy of limits, or changes it as a whole: everything that follows it changes, too.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn set_qos_policy(
        &self,
        name: &str,
        settings: LimitSettings,
    ) -> Result<QosPolicy, Problem> {
        let mut inner = self.lock();
        let policies = &inner.book.qos_policies;
        if !policies.contains_key(name) && policies.len() >= POLICIES_MAX {
            let text = format!(
                "there are {POLICIES_MAX} policies of limits already; delete one with \
                'qos-policy delete' first"
            );
            return Err(Problem::new(Code::TooMany, text));
        }
        inner.change(|book| {
            let rates = Rates::of(settings);
            _ = book.qos_policies.insert(name.to_owned(), rates);
        })?;
        inner.publish_limits();
        drop(inner);
        self.qos_policy(name)
    }

    /// Removes a policy of limits that nothing follows.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn delete_qos_policy(&self, name: &str) -> Result<(), Problem> {
        let mut inner = self.lock();
        inner.must_have_qos_policy(name)?;
        let objects = inner.book.limited_by(name);
        if objects > 0 {
            let text = format!(
                "policy {name} is followed by {}; 'qos show --where policy={name}' lists what has \
                them, and 'qos set' or 'qos clear' gives it another one or none",
                counted(objects, "limit")
            );
            return Err(Problem::new(Code::InUse, text));
        }
        inner.change(|book| _ = book.qos_policies.remove(name))
    }

    /// Forgets the limits of deleted LUNs and volumes, and comments on these.
    pub(crate) fn forget_limits(&self, gone: &[LunUuid]) {
        let mut inner = self.lock();
        let mut count = 0;
        for of in gone {
            count += usize::from(inner.book.limits.remove(&digits(of)).is_some());
            count += usize::from(inner.book.comments.remove(&digits(of)).is_some());
        }
        if count > 0 {
            let book = inner.book.clone();
            if let Err(text) = inner.library.write(&book, Asked::ByNobody) {
                // Nothing else ever has their identities.
                tracing::debug!("the limits of what was deleted stay for now: {}", text.text);
            }
            inner.publish_limits();
        }
    }
}

impl Inner {
    fn must_have_qos_policy(&self, name: &str) -> Result<(), Problem> {
        let policies = &self.book.qos_policies;
        if policies.contains_key(name) {
            return Ok(());
        }
        let names: Vec<&str> = policies.keys().map(String::as_str).take(10).collect();
        let text = match names.is_empty() {
            true => format!(
                "there is no policy {name:.64} for limits; 'qos-policy set {name:.64} --iops \
                NUMBER' makes it"
            ),
            false => format!(
                "there is no policy {name:.64} for limits; use one of {}, or make it with \
                'qos-policy set'",
                names.join(", ")
            ),
        };
        Err(Problem::of_field(Code::NotFound, "policy", text))
    }

    /// Tells the engine what has changed.
    pub(super) fn publish_limits(&mut self) {
        let Some(follower) = &mut self.limiter else {
            return;
        };
        let limits = self.book.limits.iter();
        let settings = |limited: &Limited| match &limited.policy {
            None => limited.own.settings(),
            Some(policy) => {
                let rates = self.book.qos_policies.get(policy).copied();
                rates.unwrap_or_default().settings()
            }
        };
        let now: BTreeMap<LunUuid, LimitSettings> = limits
            .filter_map(|(of, limited)| Some((uuid(of)?, settings(limited))))
            .collect();
        for of in follower.told.keys().filter(|of| !now.contains_key(*of)) {
            follower.engine.set_limit(*of, LimitSettings::default());
        }
        for (of, settings) in &now {
            if follower.told.get(of) != Some(settings) {
                follower.engine.set_limit(*of, *settings);
            }
        }
        follower.told = now;
    }
}
