//! Hosts, groups of hosts and mappings, as they are in an aggregate's part of the book (decision
//! 0047).
//!
//! Hosts and groups are known in all pools, like policies. The part of an aggregate has those that
//! its mappings name. Those that no mapping names are in the part of the first aggregate. Hosts and
//! groups share their names, so that a mapping needs one word.
//!
//! Several parts may have a host. A change of it is written to one part after the other, so a crash
//! can leave an older version in some, and an aggregate that is away keeps one. So each host and
//! group has a number that it keeps, and one that grows with each change: of versions of one host
//! the newest counts, and two hosts that only share a name are told apart.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::candidates::candidates;
use super::reserved::uuid;
use crate::access::{Identifier, Table};

/// A host, with what it is known by in the usual form, or a group, with the names of its hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Named {
    /// Given by chance when it was made; below 2⁶³.
    pub(super) id: u64,
    /// Number of changes since then.
    pub(super) changes: u64,
    /// What it is known by, or its hosts.
    pub(super) has: BTreeSet<String>,
}

/// Hosts, groups and mappings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Access {
    /// Hosts, by name.
    #[serde(default, rename = "host", skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) hosts: BTreeMap<String, Named>,
    /// Groups, by name.
    #[serde(default, rename = "group", skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) groups: BTreeMap<String, Named>,
    /// Mappings of LUNs, by the digits of their UUIDs.
    #[serde(
        default,
        rename = "mapping",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub(super) mappings: BTreeMap<String, Mapped>,
}

/// The hosts and groups that a LUN is mapped to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mapped {
    /// Names of hosts and groups.
    pub(super) to: BTreeSet<String>,
    /// The number of the aggregate that has the LUN.
    #[serde(skip)]
    pub(super) home: Option<u32>,
}

impl Access {
    pub(super) fn is_empty(&self) -> bool {
        self.hosts.is_empty() && self.groups.is_empty() && self.mappings.is_empty()
    }

    /// Checks that it is what was written.
    ///
    /// # Errors
    /// A description of the mistake, in one line.
    pub(super) fn check(&self) -> Result<(), String> {
        for (host, known) in &self.hosts {
            for text in &known.has {
                let parsed = text.parse::<Identifier>();
                parsed.map_err(|error| format!("host {host:.64}: {error}"))?;
            }
        }
        match self.mappings.keys().find(|lun| uuid(lun).is_none()) {
            Some(lun) => Err(format!("the mapped LUN {lun:.40} is no UUID")),
            None => Ok(()),
        }
    }

    /// Returns whether a host or a group has this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.hosts.contains_key(name) || self.groups.contains_key(name)
    }

    /// Returns the hosts that a name means: itself, or those of the group.
    pub(super) fn hosts_of<'a>(&'a self, name: &'a str) -> Vec<&'a str> {
        match self.groups.get(name) {
            Some(group) => group.has.iter().map(String::as_str).collect(),
            None => self
                .hosts
                .get_key_value(name)
                .map(|(name, _)| vec![name.as_str()])
                .unwrap_or_default(),
        }
    }

    /// Returns the table for sessions. A name that means nothing here admits nobody.
    pub(super) fn table(&self) -> Table {
        let mut table = Table::new();
        for (lun, mapped) in &self.mappings {
            let hosts = mapped.to.iter().flat_map(|name| self.hosts_of(name));
            let known = hosts.filter_map(|host| self.hosts.get(host));
            let texts = known.flat_map(|host| &host.has);
            let parse = |text: &String| text.parse().expect("checked when it was made");
            let identifiers: Vec<Identifier> = texts.map(parse).collect();
            table.insert(uuid(lun).expect("checked when it was made"), identifiers);
        }
        table
    }

    /// Returns the part of an aggregate: its mappings, and what they name. `all` is for the one
    /// that has what no mapping names, too.
    pub(super) fn part(&self, home: u32, all: bool) -> Access {
        let of_it = self.mappings.iter();
        let of_it = of_it.filter(|(_, mapped)| mapped.home == Some(home));
        let mappings: BTreeMap<_, _> = of_it
            .map(|(lun, mapped)| (lun.clone(), mapped.clone()))
            .collect();
        let named = |mappings: &BTreeMap<String, Mapped>| -> BTreeSet<String> {
            let to = mappings.values().flat_map(|mapped| mapped.to.iter());
            let to: BTreeSet<&String> = to.collect();
            let hosts = to.iter().flat_map(|name| self.hosts_of(name));
            let hosts = hosts.map(str::to_owned);
            hosts.chain(to.iter().map(|name| (*name).clone())).collect()
        };
        let (own, anywhere) = (named(&mappings), named(&self.mappings));
        // A group that nobody names needs its hosts, too.
        let spare = self
            .groups
            .iter()
            .filter(|(name, _)| !anywhere.contains(*name));
        let of_spare: BTreeSet<&String> = spare.flat_map(|(_, group)| &group.has).collect();
        let is_in = |name: &String| {
            own.contains(name) || all && (!anywhere.contains(name) || of_spare.contains(name))
        };
        let chosen = |all: &BTreeMap<String, Named>| {
            let chosen = all.iter().filter(|(name, _)| is_in(name));
            chosen
                .map(|(name, these)| (name.clone(), these.clone()))
                .collect()
        };
        Access {
            hosts: chosen(&self.hosts),
            groups: chosen(&self.groups),
            mappings,
        }
    }

    /// Adds the part of an aggregate. Hosts and groups get another name if something different has
    /// their name here; the new names are returned with the old ones.
    pub(super) fn merge(
        &mut self,
        home: u32,
        aggregate: &str,
        part: Access,
    ) -> Vec<(String, String)> {
        let mut renamed = BTreeMap::new();
        for (name, host) in part.hosts {
            let now = place(&mut self.hosts, &self.groups, (&name, aggregate), host);
            if now != name {
                renamed.insert(name, now);
            }
        }
        let hosts = renamed.clone();
        for (name, mut group) in part.groups {
            let now = |name: String| hosts.get(&name).cloned().unwrap_or(name);
            group.has = group.has.into_iter().map(now).collect();
            let now = place(&mut self.groups, &self.hosts, (&name, aggregate), group);
            if now != name {
                renamed.insert(name, now);
            }
        }
        let now = |name: String| renamed.get(&name).cloned().unwrap_or(name);
        for (lun, mapped) in part.mappings {
            let to = mapped.to.into_iter().map(now).collect();
            let home = Some(home);
            self.mappings.insert(lun, Mapped { to, home });
        }
        renamed.into_iter().collect()
    }

    /// Drops the mappings of an aggregate.
    pub(super) fn leave(&mut self, home: u32) {
        self.mappings.retain(|_, mapped| mapped.home != Some(home));
    }
}

/// Puts a host or a group of an aggregate to those that are known, where a newer version of it
/// stays. Returns the name that it has now.
fn place(
    known: &mut BTreeMap<String, Named>,
    others: &BTreeMap<String, Named>,
    (name, aggregate): (&str, &str),
    new: Named,
) -> String {
    let same = known.iter().find(|(_, it)| it.id == new.id);
    if let Some((now, old)) = same.map(|(now, old)| (now.clone(), old)) {
        if new.changes > old.changes {
            known.insert(now.clone(), new);
        }
        return now;
    }
    let mut names = candidates(name, aggregate);
    let is_free = |name: &String| !known.contains_key(name) && !others.contains_key(name);
    let now = names.find(is_free);
    let now = now.expect("there are more numbers than names");
    drop(names);
    known.insert(now.clone(), new);
    now
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn lun(number: u8) -> String {
        format!("{number:02x}").repeat(16)
    }

    fn mapped(to: &[&str], home: u32) -> Mapped {
        Mapped {
            to: set(to),
            home: Some(home),
        }
    }

    /// Names that begin alike have the same number.
    fn named(name: &str, has: &[&str]) -> (String, Named) {
        let id = u64::from(name.as_bytes()[0]);
        let has = set(has);
        (
            name.to_owned(),
            Named {
                id,
                changes: 0,
                has,
            },
        )
    }

    /// Two aggregates with a LUN each; host `c` and group `spare` are named by no mapping.
    fn book() -> Access {
        let hosts = [("a", "10.0.0.1/32"), ("b", "iqn.x:b"), ("c", "nqn.c")];
        Access {
            hosts: hosts.map(|(name, id)| named(name, &[id])).into(),
            groups: [("all", &["a", "b"][..]), ("spare", &["a", "c"])]
                .map(|(name, hosts)| named(name, hosts))
                .into(),
            mappings: [(lun(1), mapped(&["all"], 1)), (lun(2), mapped(&["b"], 2))].into(),
        }
    }

    fn names(all: &BTreeMap<String, Named>) -> Vec<&str> {
        all.keys().map(String::as_str).collect()
    }

    #[test]
    fn a_part_has_what_its_mappings_name() {
        let second = book().part(2, false);
        assert_eq!(names(&second.hosts), ["b"]);
        assert!(second.groups.is_empty());
        assert_eq!(second.mappings.len(), 1);
        let first = book().part(1, true);
        assert_eq!(names(&first.hosts), ["a", "b", "c"]);
        assert_eq!(names(&first.groups), ["all", "spare"]);
    }

    #[test]
    fn parts_make_the_book_again() {
        let mut again = Access::default();
        for home in [2, 1] {
            let part = book().part(home, home == 1);
            let text = toml::to_string(&part).expect("a text");
            let part: Access = toml::from_str(&text).expect("the same");
            assert_eq!(part.check(), Ok(()));
            assert_eq!(again.merge(home, "aggr", part), vec![]);
        }
        assert_eq!(again, book());
    }

    #[test]
    fn names_that_mean_something_else_here_are_changed() {
        let mut here = Access::default();
        let other = |name: &str| {
            let (name, known) = named(name, &["10.9.9.9/32"]);
            (
                name,
                Named {
                    id: 1 << 40,
                    ..known
                },
            )
        };
        here.hosts.extend([other("a"), other("all")]);
        let renamed = here.merge(1, "moved", book().part(1, false));
        let new = |name: &str| (name.to_owned(), format!("{name}-moved"));
        assert_eq!(renamed, [new("a"), new("all")]);
        assert_eq!(here.groups["all-moved"].has, set(&["a-moved", "b"]));
        assert_eq!(here.mappings[&lun(1)].to, set(&["all-moved"]));
        let table = here.table();
        assert_eq!(table[&[1; 16]].len(), 2);
    }

    /// A crash came between the parts of two aggregates.
    #[test]
    fn of_two_versions_of_a_host_the_newer_one_counts() {
        let mut newer = book();
        let host = newer.hosts.get_mut("b").expect("there");
        (host.changes, host.has) = (1, set(&["local"]));
        for order in [[1, 2], [2, 1]] {
            let mut merged = Access::default();
            for home in order {
                let part = match home {
                    1 => newer.part(1, true),
                    _ => book().part(2, false),
                };
                assert_eq!(merged.merge(home, "aggr", part), vec![]);
            }
            assert_eq!(merged, newer);
        }
    }

    #[test]
    fn what_is_not_understood_is_not_read() {
        for text in [
            "[host.a]\nid = 1\nchanges = 0\nhas = [\"somebody\"]\n",
            "[mapping.xyz]\nto = [\"a\"]\n",
            "[guest]\n",
        ] {
            let parsed: Result<Access, _> = toml::from_str(text);
            assert!(
                parsed.map_or(true, |access| access.check().is_err()),
                "{text}"
            );
        }
    }
}
