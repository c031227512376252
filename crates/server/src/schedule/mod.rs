//! The schedule: takes snapshots of volumes automatically, and deletes old ones.
//!
//! ```text
//! due ─▶ recorded ─▶ taken ─▶ recorded ─▶ too many? ─▶ the oldest deleted, unless held or in use
//!  │        └─ a crash ─▶ the next start finds it by its name
//!  └─ refused ─▶ reported, tried again a minute later
//! ```
//!
//! 1. A schedule of a volume (hourly, daily, weekly) remembers the last due time that it has
//!    handled. It is due when there is a later due time, so a daemon that was down takes one
//!    snapshot, and not one for each missed time.
//! 2. Snapshots are named by the clock of the policy's time zone. A snapshot that was taken late is
//!    named by the time when it was taken, so a name never claims that an image is older than it
//!    is.
//! 3. If the clock is set back by less than a period, nothing changes: handled times are not
//!    handled again. If it is set back further, the schedule continues from the new time. A clock
//!    that is set forward has the effect of downtime.
//! 4. A policy deletes only snapshots that the book lists as taken for it, by number and name. It
//!    deletes by count, not by age, so a wrong clock never makes it delete more. The newest `keep`
//!    snapshots always stay. Older snapshots that are held or open in a client stay, too; `status`
//!    and an event report them, and they are deleted when they are released.
//! 5. The book is written before a snapshot is taken and after. A crash between the two leaves a
//!    name in the book, and the snapshot with this name belongs to the policy.
//! 6. The entry of a volume is written before the volume is created, and removed after the volume
//!    is deleted. A crash in between leaves an entry without a volume; the next round drops it.

mod access;
mod book;
mod calendar;
mod candidates;
mod commented;
mod comments;
mod keeping;
mod library;
mod limited;
mod limits;
mod mapping;
mod reserved;
mod rounds;
mod scrubbed;
mod scrubs;

pub use library::NAME;
pub(crate) use library::{Shelf, Unwritten};
pub(crate) use limits::{Wanted, rates_of};
pub(crate) use mapping::{Imagined, MappedLun};
pub(crate) use rounds::{RoundEvent, SnapshotEntry, Volumes};
pub(crate) use scrubbed::{Scrubbed, Stage};

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use everglade_api::{
    Code, Condition, CreatePolicy, DEFAULT_POLICY, Health, ModifyPolicy, Moment, NO_POLICY, Policy,
    Problem, VolumePolicy,
};
use everglade_env::lock::{Mutex, MutexGuard};
use everglade_target::reservations::Registry;

use book::{Book, Entry, Run};
use calendar::{Calendar, Every};
use library::{Asked, Library};

use crate::access::Gate;

/// The largest number of policies that administrators may create.
const POLICIES_MAX: usize = 256;

/// See the module's documentation.
pub struct Schedule {
    inner: Mutex<Inner>,
    /// Rounds and renames of volumes run one at a time.
    turn: Mutex<()>,
}

struct Inner {
    book: Book,
    library: Library,
    /// Volumes that are being made.
    making: BTreeSet<String>,
    /// The reason why the last run of a schedule took nothing, and the time of the next attempt.
    failures: BTreeMap<(String, Every), Failure>,
    /// Snapshots beyond the number that their policy keeps, with the reason why they stay.
    overdue: BTreeMap<String, BTreeSet<(String, String)>>,
    /// Notices about parts of the book that could not be read as usual, by aggregate.
    told: BTreeMap<String, String>,
    /// The last reason why the book could not be written, so that it is logged once.
    refusal: Option<String>,
    /// Where reservations of LUNs are restored.
    registry: Option<Arc<Registry>>,
    /// LUNs whose reservations were restored.
    restored: BTreeSet<String>,
    /// Who is told of limits of LUNs.
    limiter: Option<limits::Follower>,
    /// Where mappings of LUNs are published.
    gate: Option<Arc<Gate>>,
}

struct Failure {
    text: String,
    again: i64,
}

impl Schedule {
    /// Opens the book of the aggregates, with the entries that an old file of the data directory
    /// has. The daemon also serves if something cannot be read.
    pub(crate) fn open(shelf: Box<dyn Shelf>, data_dir: &Path) -> Schedule {
        let (library, book, lost) = Library::open(shelf, data_dir);
        if let Some(text) = &lost {
            tracing::error!("{text}");
        }
        Schedule {
            inner: Mutex::new(Inner {
                book,
                library,
                making: BTreeSet::new(),
                failures: BTreeMap::new(),
                overdue: BTreeMap::new(),
                told: lost
                    .map(|text| ("policies".to_owned(), text))
                    .into_iter()
                    .collect(),
                refusal: None,
                registry: None,
                restored: BTreeSet::new(),
                limiter: None,
                gate: None,
            }),
            turn: Mutex::default(),
        }
    }

    /// Locks the schedule, after it has read the parts of all aggregates that are online.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.inner.lock();
        inner.load_new_parts();
        inner
    }

    /// Reads the parts of aggregates that came online. What they say counts from now on, without
    /// waiting for the next round.
    pub(crate) fn take_up(&self) {
        drop(self.lock());
    }

    /// Returns all policies, by name.
    #[must_use]
    pub fn policies(&self) -> Vec<Policy> {
        self.lock().book.policies()
    }

    /// Returns one policy.
    ///
    /// # Errors
    /// No policy has this name.
    pub fn policy(&self, name: &str) -> Result<Policy, Problem> {
        let found = self.lock().book.policy(name);
        found.ok_or_else(|| Problem::not_found("policy", format!("{name:.64}")))
    }

    /// Makes a policy.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn create(&self, request: &CreatePolicy) -> Result<Policy, Problem> {
        calendar::zone(&request.time_zone).map_err(|text| Problem::invalid("time_zone", text))?;
        let mut inner = self.lock();
        let name = request.name.as_str();
        let known = inner.book.policies();
        if known.iter().any(|policy| policy.name == name) {
            let text = format!("policy {name} exists already; choose another name");
            return Err(Problem::new(Code::Exists, text));
        }
        if known.len() > POLICIES_MAX {
            let text = format!("there are {POLICIES_MAX} policies already; delete one first");
            return Err(Problem::new(Code::TooMany, text));
        }
        let policy = Policy {
            name: name.to_owned(),
            hourly: request.hourly,
            daily: request.daily,
            weekly: request.weekly,
            at: request.at,
            weekday: request.weekday.unwrap_or_default(),
            time_zone: request.time_zone.clone(),
            volume_count: 0,
        };
        inner.change(|book| book.add(policy.clone()))?;
        Ok(policy)
    }

    /// Changes a policy, for all volumes that have it.
    ///
    /// # Errors
    /// Nothing was changed, unless the problem says that the outcome is unknown.
    pub fn modify(
        &self,
        now: Moment,
        name: &str,
        request: &ModifyPolicy,
    ) -> Result<Policy, Problem> {
        if let Some(zone) = &request.time_zone {
            calendar::zone(zone).map_err(|text| Problem::invalid("time_zone", text))?;
        }
        let _turn = self.turn.lock();
        let mut inner = self.lock();
        let known = inner.book.policy(name);
        let known = known.ok_or_else(|| Problem::not_found("policy", format!("{name:.64}")))?;
        if name == DEFAULT_POLICY {
            let text = format!(
                "policy {DEFAULT_POLICY} never changes; create another one, and give it to \
                volumes with 'policy set'"
            );
            return Err(Problem::new(Code::StillNeeded, text));
        }
        let policy = request.applied(&known)?;
        inner.change(|book| book.modify(&policy, seconds(now)))?;
        Ok(policy)
    }

    /// Removes a policy that no volume has.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn delete(&self, name: &str) -> Result<(), Problem> {
        let mut inner = self.lock();
        let policy = inner.book.policy(name);
        let policy = policy.ok_or_else(|| Problem::not_found("policy", format!("{name:.64}")))?;
        if name == DEFAULT_POLICY {
            let text = format!(
                "policy {DEFAULT_POLICY} is always there; 'policy set VOLUME {NO_POLICY}' does \
                without"
            );
            return Err(Problem::new(Code::StillNeeded, text));
        }
        if policy.volume_count > 0 {
            let having = inner.book.volumes.iter();
            let having = having.filter(|(_, entry)| entry.policy == name).take(10);
            let names: Vec<_> = having.map(|(volume, _)| volume.as_str()).collect();
            let names = names.join(", ");
            let text = match policy.volume_count {
                1 => format!(
                    "policy {name} is used by volume {names}; give it another with 'policy set'"
                ),
                count => format!(
                    "policy {name} is used by {count} volumes ({names}); 'policy set' gives them \
                    another"
                ),
            };
            return Err(Problem::new(Code::InUse, text));
        }
        inner.change(|book| book.remove(name))
    }

    /// Checks that a volume can get this policy.
    ///
    /// # Errors
    /// No policy has this name.
    pub fn check(&self, policy: &str) -> Result<(), Problem> {
        if policy == NO_POLICY {
            return Ok(());
        }
        let known = self.policies();
        if known.iter().any(|known| known.name == policy) {
            return Ok(());
        }
        let names: Vec<_> = known.iter().map(|known| known.name.as_str()).collect();
        let text = format!(
            "there is no policy {policy:.64}; use {NO_POLICY} or one of {}",
            names.join(", ")
        );
        Err(Problem::of_field(Code::NotFound, "policy", text))
    }

    /// Gives a volume a policy, or `none`. If the policy changes, snapshots taken for the old
    /// policy are no longer deleted.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn assign(&self, now: Moment, volume: &str, policy: &str) -> Result<(), Problem> {
        self.check(policy)?;
        let mut inner = self.lock();
        if let Some(text) = inner.library.refusal(volume) {
            return Err(Problem::new(Code::Unavailable, text));
        }
        if inner.policy_of(volume) == policy {
            return Ok(());
        }
        if !inner.library.can_write(volume) {
            let text = format!("the aggregate of volume {volume} does not take changes now");
            return Err(Problem::new(Code::Unavailable, text));
        }
        let home = inner.library.home(volume);
        inner.begin(now, volume, policy, home)
    }

    /// Takes a volume out of the trash with `change`, and gives it a policy. No round runs
    /// meanwhile: it would not find the volume, and forget its policy.
    ///
    /// # Errors
    /// Those of `change`. That the policy could not be written is logged.
    pub(crate) fn bring_back(
        &self,
        now: Moment,
        (volume, policy): (&str, &str),
        change: impl FnOnce() -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let _turn = self.turn.lock();
        change()?;
        if let Err(problem) = self.assign(now, volume, policy) {
            tracing::warn!("volume {volume} is back, but has no snapshot policy yet: {problem}");
        }
        Ok(())
    }

    /// Makes a volume in an aggregate with `change`, with a policy, or `none`. The policy is
    /// recorded first, because a crash may come between the two: a volume never exists without its
    /// policy. Only where the book of a newer version would be replaced it comes after, so that a
    /// refusal replaces nothing.
    ///
    /// # Errors
    /// Nothing was changed.
    pub(crate) fn create_volume(
        &self,
        now: Moment,
        (aggregate, volume): (u32, &str),
        policy: &str,
        change: impl FnOnce() -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        self.check(policy)?;
        let mut inner = self.lock();
        if inner.library.home(volume).is_some() {
            // The one that has the name keeps its policy, and this is refused.
            drop(inner);
            return change();
        }
        if policy != NO_POLICY {
            if let Some(text) = inner.library.refusal_in(aggregate) {
                return Err(without_policy(Problem::new(Code::Unavailable, text)));
            }
            if inner.library.is_foreign(aggregate) {
                drop(inner);
                change()?;
                if let Err(problem) = self.assign(now, volume, policy) {
                    tracing::error!("volume {volume} is made, but without its policy: {problem}");
                }
                return Ok(());
            }
        }
        if !inner.making.insert(volume.to_owned()) {
            let text = format!(
                "volume {volume} is being made by somebody else; look what it is, and try again"
            );
            return Err(Problem::new(Code::InUse, text));
        }
        let begun = inner.begin(now, volume, policy, Some(aggregate));
        drop(inner);
        // The change may wait for space, and other requests must not wait for it.
        let changed = begun.map_err(without_policy).and_then(|()| change());
        let mut inner = self.lock();
        inner.making.remove(volume);
        // Another may have got the name meanwhile, with a policy of its own.
        if changed.is_err()
            && inner.library.home(volume).is_none()
            && let Err(problem) = inner.forget(volume)
        {
            tracing::warn!("the policy of volume {volume}, which was not made, is left: {problem}");
        }
        changed
    }

    /// Drops the records of a deleted volume, unless a volume of its name is being created.
    ///
    /// # Errors
    /// The change could not be recorded; the next round tries again.
    pub(crate) fn forget(&self, volume: &str) -> Result<(), Problem> {
        let mut inner = self.lock();
        let is_there = inner.library.home(volume).is_some() || inner.making.contains(volume);
        if is_there {
            Ok(())
        } else {
            inner.forget(volume)
        }
    }

    /// Drops the records of a deleted aggregate and its volumes. Policies without volumes move to
    /// the next aggregate.
    pub fn leave(&self, aggregate: u32) {
        let mut inner = self.lock();
        let Inner { library, book, .. } = &mut *inner;
        let gone = library.leave(aggregate, book);
        for volume in gone {
            inner.failures.retain(|(failed, _), _| *failed != volume);
            inner.overdue.remove(&volume);
        }
        let book = inner.book.clone();
        if let Err(text) = inner.library.write(&book, Asked::ByNobody) {
            tracing::warn!("the policies cannot be written: {text}");
        }
        inner.publish_access();
    }

    /// Renames a volume with `change`; its policy follows it. The intention is recorded first,
    /// because a crash may come between the change and the record after it. Every round sees both
    /// or neither.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn rename(
        &self,
        volume: &str,
        to: &str,
        change: impl FnOnce() -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let _turn = self.turn.lock();
        if let Some(text) = self.lock().library.refusal(volume) {
            return Err(Problem::new(Code::Unavailable, text));
        }
        let plan = |becomes: Option<String>| {
            let mut inner = self.lock();
            if !inner.book.volumes.contains_key(volume) {
                return Ok(());
            }
            inner.change(|book| {
                let entry = book.volumes.get_mut(volume).expect("looked up just now");
                entry.becomes = becomes;
            })
        };
        plan(Some(to.to_owned())).map_err(not_begun)?;
        let changed = change();
        let written = match &changed {
            Ok(()) => self.lock().renamed(volume, to),
            Err(_) => plan(None),
        };
        if let Err(problem) = written {
            // The next round finds out.
            tracing::error!("the policy of volume {volume} cannot be written: {problem}");
        }
        changed
    }

    /// Returns the name of a volume's policy.
    #[must_use]
    pub fn policy_of(&self, volume: &str) -> String {
        self.lock().policy_of(volume).to_owned()
    }

    /// Returns the past and future work of a volume's policy. `present` are the existing snapshots.
    #[must_use]
    pub(crate) fn view(
        &self,
        now: Moment,
        volume: &str,
        present: &[SnapshotEntry],
    ) -> VolumePolicy {
        let inner = self.lock();
        let entry = inner.book.volumes.get(volume);
        let policy = entry.and_then(|entry| inner.book.policy(&entry.policy));
        let calendar = policy.as_ref().map(Calendar::of);
        let next = entry.zip(calendar).and_then(|(entry, calendar)| {
            let due = entry.runs.keys();
            due.map(|every| calendar.next(*every, seconds(now))).min()
        });
        let runs = entry.into_iter().flat_map(|entry| entry.runs.values());
        let mut taken: Vec<_> = runs.flat_map(|run| &run.taken).collect();
        taken.retain(|known| present.iter().any(|seen| seen.is(known)));
        taken.sort_by_key(|known| known.id);
        let overdue = inner.overdue.get(volume).into_iter().flatten();
        let failure = inner.failures.iter();
        let mut failure = failure.filter(|((failed, _), _)| failed == volume);
        VolumePolicy {
            volume: volume.to_owned(),
            policy: inner.policy_of(volume).to_owned(),
            next: next.map(|next| moment(next).to_string()),
            snapshots: taken.iter().map(|known| known.name.clone()).collect(),
            overdue: overdue.map(|(name, _)| name.clone()).collect(),
            failure: failure.next().map(|(_, failure)| failure.text.clone()),
        }
    }

    /// Notices for operators.
    #[must_use]
    pub fn conditions(&self) -> Vec<Condition> {
        let inner = self.lock();
        let condition = |code: Code, health, object: String, what, action: &str| Condition {
            code: code.to_string(),
            health,
            object,
            what,
            action: action.to_owned(),
            page: code.page(),
        };
        let lost = inner.told.iter().map(|(object, text)| {
            let name = object.strip_prefix("aggregate ");
            let action = match name.is_some_and(|name| inner.library.is_unanswered(name)) {
                true => {
                    "see that the devices of the aggregate answer, and restart the daemon; \
                    nothing is lost"
                }
                false => {
                    "give the volumes their policies again with 'policy set'; what was taken for \
                    them stays"
                }
            };
            condition(
                Code::ScheduleFailed,
                Health::Warning,
                object.clone(),
                text.clone(),
                action,
            )
        });
        let failed = inner.failures.iter().map(|((volume, every), failure)| {
            condition(
                Code::ScheduleFailed,
                Health::Warning,
                format!("volume {volume} ({} snapshots)", every.word()),
                format!("no snapshot was taken: {}", failure.text),
                "do what the message says; it is tried again every minute",
            )
        });
        let overdue = inner.overdue.iter().map(|(volume, kept)| {
            let kept: Vec<_> = kept
                .iter()
                .map(|(name, why)| format!("{name} ({why})"))
                .collect();
            condition(
                Code::SnapshotsKept,
                Health::Healthy,
                format!("volume {volume}"),
                format!("its policy would have deleted {}", kept.join(", ")),
                "none, if that is meant; else release the holds, or disconnect the clients",
            )
        });
        lost.chain(failed).chain(overdue).collect()
    }
}

impl Inner {
    fn load_new_parts(&mut self) {
        if self.library.is_up_to_date() {
            return;
        }
        for (aggregate, text) in self.library.load_new_parts(&mut self.book) {
            tracing::error!("aggregate {aggregate}: {text}");
            self.told.insert(format!("aggregate {aggregate}"), text);
        }
        self.restore_reservations();
        self.publish_limits();
        self.publish_access();
        if let Err(text) = self.library.write(&self.book, Asked::ByNobody) {
            // The write is retried with the next change, or when the next aggregate comes online.
            tracing::debug!("the policies are not written yet: {text}");
        }
    }

    fn policy_of(&self, volume: &str) -> &str {
        let entry = self.book.volumes.get(volume);
        entry.map_or(NO_POLICY, |entry| &entry.policy)
    }

    fn renamed(&mut self, volume: &str, to: &str) -> Result<(), Problem> {
        self.failures
            .retain(|(failed, _), _| failed != volume && failed != to);
        self.overdue.remove(to);
        if let Some(overdue) = self.overdue.remove(volume) {
            self.overdue.insert(to.to_owned(), overdue);
        }
        self.change(|book| book.rename(volume, to))
    }

    fn forget(&mut self, volume: &str) -> Result<(), Problem> {
        self.make_room(volume)?;
        if self.book.volumes.contains_key(volume) {
            self.change(|book| _ = book.volumes.remove(volume))?;
        }
        Ok(())
    }

    /// Called before the records of a name are replaced or removed.
    fn make_room(&mut self, volume: &str) -> Result<(), Problem> {
        // A volume of this name comes or goes, and the one that had it has got another since.
        let entry = self.book.volumes.get(volume);
        if let Some(to) = entry.and_then(|entry| entry.becomes.clone()) {
            self.renamed(volume, &to)?;
        }
        self.failures.retain(|(failed, _), _| failed != volume);
        self.overdue.remove(volume);
        Ok(())
    }

    /// Replaces the records of a volume by a policy, or by `none`.
    fn begin(
        &mut self,
        now: Moment,
        volume: &str,
        policy: &str,
        home: Option<u32>,
    ) -> Result<(), Problem> {
        if policy == NO_POLICY {
            return self.forget(volume);
        }
        self.make_room(volume)?;
        let known = self.book.policy(policy);
        let policy = known.ok_or_else(|| Problem::not_found("policy", policy))?;
        let entry = Entry {
            runs: runs(&policy, seconds(now)),
            policy: policy.name,
            becomes: None,
            home,
        };
        self.change(|book| _ = book.volumes.insert(volume.to_owned(), entry))
    }

    /// Changes the book, or leaves it as it is if it cannot be written.
    fn change(&mut self, change: impl FnOnce(&mut Book)) -> Result<(), Problem> {
        let mut book = self.book.clone();
        change(&mut book);
        let written = self.library.write(&book, Asked::ByPeople);
        written.map_err(|unwritten| {
            let code = match unwritten.is_unknown {
                true => Code::OutcomeUnknown,
                false => Code::Unavailable,
            };
            Problem::new(code, unwritten.text)
        })?;
        self.book = book;
        let library = &self.library;
        self.told.retain(|object, _| {
            let aggregate = object.strip_prefix("aggregate ");
            aggregate.is_some_and(|name| library.has_foreign(name))
        });
        Ok(())
    }
}

/// Returns the reason why a volume cannot be made, and a remedy.
fn without_policy(problem: Problem) -> Problem {
    let detail = format!(
        "{}; or make the volume with the policy {NO_POLICY}",
        problem.detail
    );
    Problem {
        detail,
        ..not_begun(problem)
    }
}

/// Marks the outcome as known: the intention was not recorded, so the change was not begun. The
/// state of the book may still be unknown.
fn not_begun(problem: Problem) -> Problem {
    let code = match problem.code {
        Code::OutcomeUnknown => Code::Unavailable,
        code => code,
    };
    Problem {
        code,
        outcome: None,
        ..problem
    }
}

/// Returns the runs of a new policy, which begins with the next due time of each schedule.
fn runs(policy: &Policy, now: i64) -> BTreeMap<Every, Run> {
    let calendar = Calendar::of(policy);
    let wanted = Every::ALL
        .into_iter()
        .filter(|every| every.keep(policy) > 0);
    let run = |every| Run {
        seen: calendar.last(every, now),
        ..Run::default()
    };
    wanted.map(|every| (every, run(every))).collect()
}

fn seconds(moment: Moment) -> i64 {
    i64::try_from(moment.0).unwrap_or(i64::MAX)
}

fn moment(seconds: i64) -> Moment {
    Moment(u64::try_from(seconds).unwrap_or(0))
}

#[cfg(test)]
mod tests;
