//! The book of the schedule: the policies, the policy of each volume, and the snapshots taken for
//! them. [`super::library`] keeps it: each aggregate has the part that its volumes need, so an
//! aggregate that moves to another daemon takes its part along.

use std::collections::BTreeMap;

use everglade_api::{DEFAULT_POLICY, Policy, TimeOfDay, Weekday};
use serde::{Deserialize, Serialize};

use super::access::Access;
use super::calendar::Every;
use super::candidates::candidates;
use super::commented::Commented;
use super::limited::{Limited, Rates};
use super::reserved::Reserved;
use super::scrubbed::Scrubbed;

const VERSION: u64 = 1;
const END: &str = "# end of policies";
/// The contents of the book.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Book {
    version: u64,
    /// The policies that administrators created; `default` is not among them.
    #[serde(default, rename = "policy", skip_serializing_if = "Vec::is_empty")]
    made: Vec<Policy>,
    /// Entries of volumes, by name.
    #[serde(default, rename = "volume", skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) volumes: BTreeMap<String, Entry>,
    /// Reservations of LUNs, by the digits of their UUIDs.
    #[serde(
        default,
        rename = "reservation",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub(super) reservations: BTreeMap<String, Reserved>,
    /// Limits of LUNs and volumes, by the digits of their UUIDs.
    #[serde(default, rename = "limit", skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) limits: BTreeMap<String, Limited>,
    /// Policies that limits follow, by name.
    #[serde(
        default,
        rename = "qos_policy",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub(super) qos_policies: BTreeMap<String, Rates>,
    /// Comments on volumes, by the digits of their UUIDs.
    #[serde(
        default,
        rename = "comment",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub(super) comments: BTreeMap<String, Commented>,
    /// The last scrub of each aggregate.
    #[serde(default, rename = "scrub", skip_serializing_if = "Vec::is_empty")]
    pub(super) scrubs: Vec<Scrubbed>,
    /// Who may use which LUN.
    #[serde(default, skip_serializing_if = "Access::is_empty")]
    pub(super) access: Access,
}

/// A volume that has a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    /// Its policy.
    pub(super) policy: String,
    /// The new name while the volume is being renamed. If the daemon ends before the rename is
    /// recorded, the next start checks which of the two names exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) becomes: Option<String>,
    /// The number of the aggregate that has the volume, once that is known.
    #[serde(skip)]
    pub(super) home: Option<u32>,
    /// The work done for the policy, by schedule.
    #[serde(default, rename = "run", skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) runs: BTreeMap<Every, Run>,
}

/// The work of one schedule of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Run {
    /// The last due time that was seen to, seconds since 1970.
    pub(super) seen: i64,
    /// The name of a snapshot that is about to be taken: if the daemon ends before it is in
    /// `taken`, the next one knows whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) taking: Option<Taking>,
    /// The snapshots that were taken, oldest first. Only a snapshot of this number *and* name is
    /// ever deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) taken: Vec<Taken>,
}

/// A snapshot that is being taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Taking {
    /// Its name.
    pub(super) name: String,
    /// Lower bound of the snapshot's number. An older snapshot with the same name is not the
    /// policy's.
    pub(super) after: u64,
    /// The schedule that it is taken for.
    pub(super) due: i64,
}

/// A snapshot that a policy took. Written as its number, a blank and its name: there may be a
/// thousand for each volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "Written")]
pub(super) struct Taken {
    /// Its number in the volume.
    pub(super) id: u64,
    /// The name it was given. A renamed snapshot does not belong to the policy any more.
    pub(super) name: String,
}

/// The ways in which a snapshot is, or was, written down.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Line(String),
    Table { id: u64, name: String },
}

impl From<Taken> for String {
    fn from(Taken { id, name }: Taken) -> String {
        format!("{id} {name}")
    }
}

impl TryFrom<Written> for Taken {
    type Error = String;

    fn try_from(written: Written) -> Result<Taken, String> {
        let line = match written {
            Written::Table { id, name } => return Ok(Taken { id, name }),
            Written::Line(line) => line,
        };
        let parts = line.split_once(' ').and_then(|(id, name)| {
            let id = id.parse().ok()?;
            Some(Taken {
                id,
                name: name.to_owned(),
            })
        });
        parts.ok_or_else(|| format!("{line:.80} is no number and name of a snapshot"))
    }
}

/// Returns the policy of new volumes: six hours, two days, two weeks.
pub(super) fn usual() -> Policy {
    Policy {
        name: DEFAULT_POLICY.to_owned(),
        hourly: 6,
        daily: 2,
        weekly: 2,
        at: TimeOfDay::default(),
        weekday: Weekday::Sunday,
        time_zone: "UTC".to_owned(),
        volume_count: 0,
    }
}

/// Returns the entries that are wanted.
fn those<T: Clone>(
    all: &BTreeMap<String, T>,
    is_wanted: impl Fn(&T) -> bool,
) -> BTreeMap<String, T> {
    let wanted = all.iter().filter(|(_, it)| is_wanted(it));
    wanted.map(|(key, it)| (key.clone(), it.clone())).collect()
}

impl Book {
    pub(super) fn policy(&self, name: &str) -> Option<Policy> {
        self.policies().into_iter().find(|known| known.name == name)
    }

    /// Returns all policies, by name, with the number of volumes that have them.
    pub(super) fn policies(&self) -> Vec<Policy> {
        let mut policies = vec![usual()];
        policies.extend(self.made.iter().cloned());
        for policy in &mut policies {
            let having = self.volumes.values();
            let having = having.filter(|entry| entry.policy == policy.name);
            policy.volume_count = having.count() as u64;
        }
        policies.sort_by(|a, b| a.name.cmp(&b.name));
        policies
    }

    /// Renames a volume. All records of the new name are outdated.
    pub(super) fn rename(&mut self, volume: &str, to: &str) {
        self.volumes.remove(to);
        if let Some(entry) = self.volumes.remove(volume) {
            let entry = Entry {
                becomes: None,
                ..entry
            };
            self.volumes.insert(to.to_owned(), entry);
        }
    }

    pub(super) fn add(&mut self, policy: Policy) {
        self.made.push(policy);
    }

    /// Changes a policy that was made. Volumes that have it go on from `now`: what they took stays
    /// theirs, unless the policy takes no such snapshots any more.
    pub(super) fn modify(&mut self, policy: &Policy, now: i64) {
        for known in self
            .made
            .iter_mut()
            .filter(|known| known.name == policy.name)
        {
            known.clone_from(policy);
            known.volume_count = 0;
        }
        let having = self.volumes.values_mut();
        for entry in having.filter(|entry| entry.policy == policy.name) {
            let mut before = std::mem::take(&mut entry.runs);
            entry.runs = super::runs(policy, now);
            for (every, run) in &mut entry.runs {
                if let Some(known) = before.remove(every) {
                    *run = Run {
                        seen: run.seen,
                        ..known
                    };
                }
            }
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.made.retain(|known| known.name != name);
    }

    /// Returns how many limits follow a policy.
    pub(super) fn limited_by(&self, policy: &str) -> u64 {
        let limits = self.limits.values();
        let following = limits.filter(|limited| limited.policy.as_deref() == Some(policy));
        following.count() as u64
    }

    /// Returns the policies of limits that an aggregate has; `all` as in [`Book::part`].
    fn qos_part(&self, home: u32, all: bool) -> BTreeMap<String, Rates> {
        let is_used = |name: &String, by: Option<u32>| {
            let mut limits = self.limits.values();
            limits.any(|it| it.policy.as_ref() == Some(name) && (by.is_none() || it.home == by))
        };
        let policies = self.qos_policies.iter();
        let part = policies
            .filter(|(name, _)| is_used(name, Some(home)) || all && !is_used(name, None))
            .map(|(name, rates)| (name.clone(), *rates));
        part.collect()
    }

    /// Adds policies of limits. A policy gets another name if its name means something else here;
    /// returns the new names by the old ones.
    fn merge_qos(
        &mut self,
        aggregate: &str,
        policies: BTreeMap<String, Rates>,
    ) -> BTreeMap<String, String> {
        let mut renamed = BTreeMap::new();
        for (before, rates) in policies {
            let mut names = candidates(&before, aggregate);
            let name = names.find(|name| {
                let known = self.qos_policies.get(name);
                known.is_none_or(|known| *known == rates)
            });
            let name = name.expect("there are more numbers than policies");
            drop(names);
            self.qos_policies.insert(name.clone(), rates);
            if name != before {
                renamed.insert(before, name);
            }
        }
        renamed
    }

    /// Returns the part of an aggregate: its volumes and their policies. `all` is for the one that
    /// has the policies that no volume has, too.
    pub(super) fn part(&self, home: u32, all: bool) -> Book {
        let volumes = those(&self.volumes, |it| it.home == Some(home));
        let used = |policy: &Policy, volumes: &BTreeMap<String, Entry>| {
            volumes.values().any(|entry| entry.policy == policy.name)
        };
        let made = self.made.iter();
        let made =
            made.filter(|policy| used(policy, &volumes) || all && !used(policy, &self.volumes));
        Book {
            version: VERSION,
            made: made.cloned().collect(),
            volumes,
            reservations: those(&self.reservations, |it| it.home == Some(home)),
            limits: those(&self.limits, |it| it.home == Some(home)),
            qos_policies: self.qos_part(home, all),
            comments: those(&self.comments, |it| it.home == Some(home)),
            scrubs: self
                .scrubs
                .iter()
                .filter(|it| it.home == Some(home))
                .cloned()
                .collect(),
            access: self.access.part(home, all),
        }
    }

    /// Returns the volumes that are kept in no part, with their aggregates, and their policies.
    pub(super) fn rest(&self, is_kept: impl Fn(Option<u32>) -> bool) -> Book {
        let volumes = those(&self.volumes, |entry| !is_kept(entry.home));
        let is_used = |policy: &&Policy| volumes.values().any(|entry| entry.policy == policy.name);
        Book {
            version: VERSION,
            made: self.made.iter().filter(is_used).cloned().collect(),
            volumes,
            // These were never in a file.
            reservations: BTreeMap::new(),
            limits: BTreeMap::new(),
            qos_policies: BTreeMap::new(),
            comments: BTreeMap::new(),
            scrubs: Vec::new(),
            access: Access::default(),
        }
    }

    /// Adds the part of an aggregate. It replaces earlier records of its volumes. A policy gets
    /// another name if a different policy has its name here; the new names are returned.
    pub(super) fn merge(&mut self, home: u32, aggregate: &str, part: Book) -> Vec<String> {
        let mut renamed = BTreeMap::new();
        for policy in part.made {
            let before = policy.name.clone();
            let mut names = candidates(&before, aggregate);
            let found = names.find_map(|name| {
                let policy = Policy {
                    name,
                    ..policy.clone()
                };
                let known = self.policy(&policy.name);
                match known {
                    None => Some((policy, true)),
                    Some(_) if self.made.contains(&policy) => Some((policy, false)),
                    Some(_) => None,
                }
            });
            let (policy, is_new) = found.expect("there are more numbers than policies");
            drop(names);
            if policy.name != before {
                renamed.insert(before, policy.name.clone());
            }
            if is_new {
                self.made.push(policy);
            }
        }
        for (volume, mut entry) in part.volumes {
            if let Some(now) = renamed.get(&entry.policy) {
                entry.policy.clone_from(now);
            }
            entry.home = Some(home);
            self.volumes.insert(volume, entry);
        }
        for (lun, mut reserved) in part.reservations {
            reserved.home = Some(home);
            self.reservations.insert(lun, reserved);
        }
        let limiting = self.merge_qos(aggregate, part.qos_policies);
        for (of, mut limited) in part.limits {
            if let Some(now) = limited.policy.as_ref().and_then(|it| limiting.get(it)) {
                limited.policy = Some(now.clone());
            }
            limited.home = Some(home);
            self.limits.insert(of, limited);
        }
        for (volume, mut commented) in part.comments {
            commented.home = Some(home);
            self.comments.insert(volume, commented);
        }
        for mut scrubbed in part.scrubs.into_iter().take(1) {
            scrubbed.home = Some(home);
            self.note_scrub(scrubbed);
        }
        let hosts = self.access.merge(home, aggregate, part.access);
        let renamed = renamed.into_iter().chain(limiting).chain(hosts);
        renamed
            .map(|(before, now)| format!("{before} is called {now}"))
            .collect()
    }

    /// Notes the last scrub of an aggregate.
    pub(super) fn note_scrub(&mut self, scrubbed: Scrubbed) {
        self.scrubs.retain(|it| it.home != scrubbed.home);
        self.scrubs.push(scrubbed);
    }

    /// Returns whether the book is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.made.is_empty()
            && self.volumes.is_empty()
            && self.reservations.is_empty()
            && self.limits.is_empty()
            && self.qos_policies.is_empty()
            && self.comments.is_empty()
            && self.scrubs.is_empty()
            && self.access.is_empty()
    }

    /// Returns the book as text; empty if the book is empty.
    pub(super) fn encode(&self) -> Result<String, String> {
        if self.is_empty() {
            return Ok(String::new());
        }
        let book = Book {
            version: VERSION,
            ..self.clone()
        };
        let text = toml::to_string(&book).map_err(|error| error.to_string())?;
        Ok(format!("{text}{END}\n"))
    }

    /// Parses the text of a book.
    ///
    /// # Errors
    /// A description of the mistake, in one line.
    pub(super) fn decode(text: &str) -> Result<Book, String> {
        if text.is_empty() {
            return Ok(Book::default());
        }
        if !text.trim_end().ends_with(END) {
            return Err(format!(
                "it does not end with '{END}', so it may be cut short"
            ));
        }
        let book: Book = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        if book.version != VERSION {
            return Err(format!(
                "it has version {}; expected {VERSION}",
                book.version
            ));
        }
        let mut reservations = book.reservations.iter();
        reservations.try_for_each(|(lun, reserved)| reserved.check(lun))?;
        let mut limits = book.limits.iter();
        limits.try_for_each(|(lun, limited)| limited.check(lun))?;
        book.access.check()?;
        Ok(Book { version: 0, ..book })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(name: &str, time_zone: &str) -> Policy {
        Policy {
            name: name.to_owned(),
            time_zone: time_zone.to_owned(),
            ..usual()
        }
    }

    fn entry(policy: &str, home: Option<u32>) -> Entry {
        let known = Taken {
            id: 7,
            name: "daily.2026-11-22_0000".to_owned(),
        };
        let run = Run {
            seen: 5,
            taking: Some(Taking {
                name: "daily.2026-11-23_0000".to_owned(),
                after: 7,
                due: 6,
            }),
            taken: vec![known],
        };
        Entry {
            policy: policy.to_owned(),
            becomes: Some("w".to_owned()),
            home,
            runs: [(Every::Daily, run)].into(),
        }
    }

    #[test]
    fn what_was_written_is_read_and_what_was_torn_is_not() {
        assert_eq!(Book::decode(""), Ok(Book::default()));
        let mut book = Book::default();
        assert_eq!(book.encode(), Ok(String::new()));
        book.add(policy("p", "Europe/Berlin"));
        book.volumes.insert("v".to_owned(), entry("p", None));
        let text = book.encode().expect("a text");
        assert_eq!(Book::decode(&text), Ok(book));
        let torn = &text[..text.len() / 2];
        let unknown = text.replace("policy = \"p\"", "polciy = \"p\"");
        let newer = text.replace("version = 1", "version = 2");
        let number = text.replace("7 daily", "x daily");
        for bad in [torn, &unknown, &newer, &number] {
            assert!(Book::decode(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn snapshots_are_read_as_they_were_written_at_first_too() {
        let text = "version = 1\n[volume.v]\npolicy = \"default\"\n[volume.v.run.daily]\nseen = 5\n\
            [[volume.v.run.daily.taken]]\nid = 7\nname = \"x\"\n# end of policies\n";
        let book = Book::decode(text).expect("the former way");
        let known = &book.volumes["v"].runs[&Every::Daily].taken[0];
        assert_eq!((known.id, known.name.as_str()), (7, "x"));
    }

    #[test]
    fn parts_have_what_their_volumes_need_and_make_the_whole_again() {
        let mut book = Book::default();
        for name in ["a", "b", "nobodys"] {
            book.add(policy(name, "UTC"));
        }
        book.volumes.insert("v".to_owned(), entry("a", Some(1)));
        book.volumes.insert("w".to_owned(), entry("b", Some(2)));
        book.volumes
            .insert("x".to_owned(), entry(DEFAULT_POLICY, Some(2)));
        let parts = [book.part(1, true), book.part(2, false)];
        let names = |part: &Book| -> Vec<String> {
            part.made.iter().map(|policy| policy.name.clone()).collect()
        };
        assert_eq!(names(&parts[0]), ["a", "nobodys"]);
        assert_eq!(names(&parts[1]), ["b"]);
        let mut whole = Book::default();
        for (home, part) in (1..).zip(parts) {
            let text = part.encode().expect("a text");
            let part = Book::decode(&text).expect("just written");
            assert!(whole.merge(home, "pool", part).is_empty());
        }
        assert_eq!(whole.policies(), book.policies());
        assert_eq!(whole.volumes, book.volumes);
    }

    #[test]
    fn limits_take_their_policies_along_and_these_get_another_name_if_theirs_is_taken() {
        let rates = |iops| Rates {
            iops,
            ..Rates::default()
        };
        let limited = |policy: &str, home| Limited {
            policy: Some(policy.to_owned()),
            home,
            ..Limited::default()
        };
        let (a, b) = ("0a".repeat(16), "0b".repeat(16));
        let mut book = Book::default();
        for (name, iops) in [("gold", 500), ("nobodys", 5)] {
            book.qos_policies.insert(name.to_owned(), rates(iops));
        }
        book.limits.insert(a.clone(), limited("gold", Some(1)));
        let commented = Commented {
            home: Some(1),
            ..Commented::default()
        };
        book.comments.insert(a.clone(), commented.clone());
        let parts = [book.part(1, false), book.part(2, true)];
        let names = |part: &Book| part.qos_policies.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&parts[0]), ["gold"]);
        assert_eq!(names(&parts[1]), ["nobodys"]);
        let text = parts[0].encode().expect("a text");
        let part = Book::decode(&text).expect("just written");
        let mut whole = Book::default();
        whole.qos_policies.insert("gold".to_owned(), rates(7));
        whole.limits.insert(b.clone(), limited("gold", Some(3)));
        for _ in 0..2 {
            let told = whole.merge(1, "tank", part.clone());
            assert_eq!(told, ["gold is called gold-tank"]);
        }
        assert_eq!(whole.limits[&a], limited("gold-tank", Some(1)));
        assert_eq!(whole.limits[&b], limited("gold", Some(3)));
        assert_eq!(whole.qos_policies["gold-tank"], rates(500));
        assert_eq!(whole.limited_by("gold"), 1);
        assert_eq!(whole.comments[&a], commented);
    }

    #[test]
    fn limits_are_read_as_they_were_written_at_first_too() {
        let lun = "0a".repeat(16);
        let text = format!(
            "version = 1\n[limit.{lun}]\niops = 5\nbytes_per_second = 0\n# end of policies\n"
        );
        let book = Book::decode(&text).expect("the former way");
        assert_eq!(book.limits[&lun].own.iops, 5);
        let unknown = text.replace("iops", "oips");
        assert!(Book::decode(&unknown).is_err());
    }

    #[test]
    fn a_policy_of_another_pool_with_a_name_of_ours_gets_another_one() {
        let mut book = Book::default();
        book.add(policy("office", "UTC"));
        let mut other = Book::default();
        other.add(policy("office", "Europe/Berlin"));
        other.volumes.insert("v".to_owned(), entry("office", None));
        for _ in 0..2 {
            let told = book.merge(2, "tank", other.clone());
            assert_eq!(told, ["office is called office-tank"]);
        }
        assert_eq!(book.made.len(), 2, "the second time it is known");
        assert_eq!(book.volumes["v"].policy, "office-tank");
        assert_eq!(book.volumes["v"].home, Some(2));
    }
}
