//! What administrators do with hosts, groups of hosts and mappings of LUNs, in the book of the
//! aggregates (decision 0047).

use std::collections::BTreeSet;
use std::sync::Arc;

use everglade_api::{
    Code, CreateHost, CreateHostGroup, Host, HostGroup, Mapping, MappingKind, ModifyHost,
    ModifyHostGroup, Name, Problem,
};

use super::access::{Access, Mapped, Named};
use super::reserved::{digits, uuid};
use super::{Inner, Schedule};
use crate::access::{Gate, Identifier, Table};

/// Limits, for notes that have a bounded size.
const HOSTS_MAX: usize = 1_024;
const GROUPS_MAX: usize = 256;
const IDENTIFIERS_MAX: usize = 32;
const MAPPINGS_OF_LUN_MAX: usize = 64;

/// A LUN, as mappings know it.
pub(crate) struct MappedLun {
    /// `volume/lun`.
    pub(crate) name: String,
    /// Its UUID.
    pub(crate) uuid: [u8; 16],
    /// The number of its aggregate.
    pub(crate) home: u32,
}

/// A change of access that is only thought of.
pub(crate) enum Imagined<'a> {
    Host(&'a str, &'a ModifyHost),
    Group(&'a str, &'a ModifyHostGroup),
    Map(MappedLun, &'a str),
    Unmap(MappedLun, &'a str),
}

impl Schedule {
    /// Publishes mappings for sessions, now and after every change.
    pub(crate) fn follow_access(&self, gate: &Arc<Gate>) {
        let mut inner = self.lock();
        inner.gate = Some(Arc::clone(gate));
        inner.publish_access();
    }

    /// Returns all hosts, by name.
    #[must_use]
    pub fn hosts(&self) -> Vec<Host> {
        let inner = self.lock();
        let access = &inner.book.access;
        access
            .hosts
            .keys()
            .map(|name| view_host(access, name))
            .collect()
    }

    /// Returns one host.
    ///
    /// # Errors
    /// No host has this name.
    pub fn host(&self, name: &str) -> Result<Host, Problem> {
        let inner = self.lock();
        inner.must_have_host(name)?;
        Ok(view_host(&inner.book.access, name))
    }

    /// Makes a host.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn create_host(&self, request: &CreateHost) -> Result<Host, Problem> {
        let mut inner = self.lock();
        let name = request.name.as_str();
        inner.must_be_free(name)?;
        if inner.book.access.hosts.len() >= HOSTS_MAX {
            let text = format!("there are {HOSTS_MAX} hosts already; delete one first");
            return Err(Problem::new(Code::TooMany, text));
        }
        let has = identifiers("identifiers", &request.identifiers)?;
        has_few(&has)?;
        let host = Named {
            id: random(),
            changes: 0,
            has,
        };
        inner.change_access(|access| _ = access.hosts.insert(name.to_owned(), host))?;
        Ok(view_host(&inner.book.access, name))
    }

    /// Changes what a host is known by.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn modify_host(&self, name: &str, request: &ModifyHost) -> Result<Host, Problem> {
        let mut inner = self.lock();
        let change = inner.modified_host(name, request)?;
        inner.change_access(change)?;
        Ok(view_host(&inner.book.access, name))
    }

    /// Removes a host that nothing names.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn delete_host(&self, name: &str) -> Result<(), Problem> {
        let mut inner = self.lock();
        inner.must_have_host(name)?;
        let host = view_host(&inner.book.access, name);
        if let Some(group) = host.groups.first() {
            let text = format!(
                "host {name} is in group {group}; take it out with 'host-group modify {group} \
                --remove {name}'"
            );
            return Err(Problem::new(Code::InUse, text));
        }
        refuse_mapped(("host", name), host.lun_count)?;
        inner.change_access(|access| _ = access.hosts.remove(name))
    }

    /// Returns all groups, by name.
    #[must_use]
    pub fn host_groups(&self) -> Vec<HostGroup> {
        let inner = self.lock();
        let access = &inner.book.access;
        access
            .groups
            .keys()
            .map(|name| view_group(access, name))
            .collect()
    }

    /// Returns one group.
    ///
    /// # Errors
    /// No group has this name.
    pub fn host_group(&self, name: &str) -> Result<HostGroup, Problem> {
        let inner = self.lock();
        inner.must_have_group(name)?;
        Ok(view_group(&inner.book.access, name))
    }

    /// Makes a group.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn create_host_group(&self, request: &CreateHostGroup) -> Result<HostGroup, Problem> {
        let mut inner = self.lock();
        let name = request.name.as_str();
        inner.must_be_free(name)?;
        if inner.book.access.groups.len() >= GROUPS_MAX {
            let text = format!("there are {GROUPS_MAX} groups already; delete one first");
            return Err(Problem::new(Code::TooMany, text));
        }
        let group = Named {
            id: random(),
            changes: 0,
            has: inner.known_hosts("hosts", &request.hosts)?,
        };
        inner.change_access(|access| _ = access.groups.insert(name.to_owned(), group))?;
        Ok(view_group(&inner.book.access, name))
    }

    /// Changes the hosts of a group.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn modify_host_group(
        &self,
        name: &str,
        request: &ModifyHostGroup,
    ) -> Result<HostGroup, Problem> {
        let mut inner = self.lock();
        let change = inner.modified_group(name, request)?;
        inner.change_access(change)?;
        Ok(view_group(&inner.book.access, name))
    }

    /// Removes a group that no mapping names.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn delete_host_group(&self, name: &str) -> Result<(), Problem> {
        let mut inner = self.lock();
        inner.must_have_group(name)?;
        let group = view_group(&inner.book.access, name);
        refuse_mapped(("group", name), group.lun_count)?;
        inner.change_access(|access| _ = access.groups.remove(name))
    }

    /// Returns the mappings of these LUNs, in their order.
    pub(crate) fn mappings(&self, luns: &[MappedLun]) -> Vec<Mapping> {
        let inner = self.lock();
        let access = &inner.book.access;
        let of = |lun: &MappedLun| {
            let mapped = access.mappings.get(&digits(&lun.uuid));
            let to = mapped.map(|mapped| mapped.to.clone()).unwrap_or_default();
            let lun = lun.name.clone();
            to.into_iter().map(move |to| view(access, &lun, &to))
        };
        luns.iter().flat_map(of).collect()
    }

    /// Maps a LUN to a host or to a group. A mapping that is there already stays.
    ///
    /// # Errors
    /// Nothing was changed.
    pub(crate) fn map(&self, lun: &MappedLun, to: &str) -> Result<Mapping, Problem> {
        let mut inner = self.lock();
        let change = inner.mapped(lun, to)?;
        inner.change_access(change)?;
        Ok(view(&inner.book.access, &lun.name, to))
    }

    /// Removes a mapping of a LUN.
    ///
    /// # Errors
    /// Nothing was changed.
    pub(crate) fn unmap(&self, lun: &MappedLun, to: &str) -> Result<(), Problem> {
        let mut inner = self.lock();
        let change = inner.unmapped(lun, to)?;
        inner.change_access(change)
    }

    /// Returns the mappings that sessions would meet after a change.
    ///
    /// # Errors
    /// The change is not possible.
    pub(crate) fn imagine(&self, change: &Imagined<'_>) -> Result<Table, Problem> {
        let inner = self.lock();
        Ok(match *change {
            Imagined::Host(name, request) => inner.imagined(inner.modified_host(name, request)?),
            Imagined::Group(name, request) => inner.imagined(inner.modified_group(name, request)?),
            Imagined::Map(ref lun, to) => inner.imagined(inner.mapped(lun, to)?),
            Imagined::Unmap(ref lun, to) => inner.imagined(inner.unmapped(lun, to)?),
        })
    }

    /// Forgets the mappings of deleted LUNs, whose UUIDs no other LUN ever has.
    pub(crate) fn forget_mappings(&self, luns: &[[u8; 16]]) {
        let mut inner = self.lock();
        let is_gone = |lun: &String| uuid(lun).is_some_and(|lun| luns.contains(&lun));
        if !inner.book.access.mappings.keys().any(is_gone) {
            return;
        }
        let forgotten = inner.change_access(|access| {
            access.mappings.retain(|lun, _| !is_gone(lun));
        });
        if let Err(problem) = forgotten {
            tracing::debug!("the mappings of deleted LUNs stay for now: {problem}");
        }
    }
}

impl Inner {
    /// Gives the mappings to those that ask.
    pub(super) fn publish_access(&self) {
        if let Some(gate) = &self.gate {
            gate.publish(self.book.access.table());
        }
    }

    fn modified_host(
        &self,
        name: &str,
        request: &ModifyHost,
    ) -> Result<impl FnOnce(&mut Access) + use<>, Problem> {
        self.must_have_host(name)?;
        let added = identifiers("add", &request.add)?;
        let removed = identifiers("remove", &request.remove)?;
        let host = self.book.access.hosts[name].clone();
        if let Some(unknown) = removed.iter().find(|it| !host.has.contains(*it)) {
            let text = format!("host {name} is not known by {unknown}; see 'host show {name}'");
            return Err(Problem::invalid("remove", text));
        }
        let has: BTreeSet<String> = host.has.difference(&removed).cloned().collect();
        let has = &has | &added;
        has_few(&has)?;
        let host = Named {
            changes: host.changes + 1,
            has,
            ..host
        };
        let name = name.to_owned();
        Ok(move |access: &mut Access| _ = access.hosts.insert(name, host))
    }

    fn modified_group(
        &self,
        name: &str,
        request: &ModifyHostGroup,
    ) -> Result<impl FnOnce(&mut Access) + use<>, Problem> {
        self.must_have_group(name)?;
        let added = self.known_hosts("add", &request.add)?;
        let group = self.book.access.groups[name].clone();
        let removed: BTreeSet<String> = request.remove.iter().map(Name::to_string).collect();
        if let Some(unknown) = removed.iter().find(|it| !group.has.contains(*it)) {
            let text = format!("host {unknown} is not in group {name}");
            return Err(Problem::invalid("remove", text));
        }
        let has: BTreeSet<String> = group.has.difference(&removed).cloned().collect();
        let group = Named {
            changes: group.changes + 1,
            has: &has | &added,
            ..group
        };
        let name = name.to_owned();
        Ok(move |access: &mut Access| _ = access.groups.insert(name, group))
    }

    fn mapped(
        &self,
        lun: &MappedLun,
        to: &str,
    ) -> Result<impl FnOnce(&mut Access) + use<>, Problem> {
        if !self.book.access.has(to) {
            let text = format!(
                "there is no host or group {to:.64}; make one with 'host create {to:.64} \
                IDENTIFIER'"
            );
            return Err(Problem::of_field(Code::NotFound, "to", text));
        }
        self.must_be_writable(lun.home)?;
        let key = digits(&lun.uuid);
        let known = self.book.access.mappings.get(&key);
        let mut mapped = known.cloned().unwrap_or_default();
        mapped.home = Some(lun.home);
        mapped.to.insert(to.to_owned());
        if mapped.to.len() > MAPPINGS_OF_LUN_MAX {
            let text = format!(
                "LUN {} has {MAPPINGS_OF_LUN_MAX} mappings; put hosts into a group, and map the \
                LUN to that",
                lun.name
            );
            return Err(Problem::new(Code::TooMany, text));
        }
        Ok(move |access: &mut Access| _ = access.mappings.insert(key, mapped))
    }

    fn unmapped(
        &self,
        lun: &MappedLun,
        to: &str,
    ) -> Result<impl FnOnce(&mut Access) + use<>, Problem> {
        let key = digits(&lun.uuid);
        let known = self.book.access.mappings.get(&key);
        let known = known.filter(|mapped| mapped.to.contains(to)).cloned();
        let missing = || {
            let text = format!("{:.130} to {to:.64}", lun.name);
            Problem::not_found("mapping of", text)
        };
        let mut mapped = known.ok_or_else(missing)?;
        self.must_be_writable(lun.home)?;
        mapped.to.remove(to);
        Ok(move |access: &mut Access| match mapped.to.is_empty() {
            true => _ = access.mappings.remove(&key),
            false => _ = access.mappings.insert(key, mapped),
        })
    }

    /// Returns the mappings as they would be published after a change.
    fn imagined(&self, change: impl FnOnce(&mut Access)) -> Table {
        let mut access = self.book.access.clone();
        change(&mut access);
        access.table()
    }

    fn change_access(&mut self, change: impl FnOnce(&mut Access)) -> Result<(), Problem> {
        self.change(|book| change(&mut book.access))?;
        self.publish_access();
        Ok(())
    }

    fn must_be_free(&self, name: &str) -> Result<(), Problem> {
        if !self.book.access.has(name) {
            return Ok(());
        }
        let text = format!(
            "{name} is the name of a host or of a group already, which share their names; choose \
            another one"
        );
        Err(Problem::new(Code::Exists, text))
    }

    fn must_have_host(&self, name: &str) -> Result<(), Problem> {
        let is_there = self.book.access.hosts.contains_key(name);
        is_there
            .then_some(())
            .ok_or_else(|| Problem::not_found("host", format!("{name:.64}")))
    }

    fn must_have_group(&self, name: &str) -> Result<(), Problem> {
        let is_there = self.book.access.groups.contains_key(name);
        is_there
            .then_some(())
            .ok_or_else(|| Problem::not_found("host group", format!("{name:.64}")))
    }

    fn known_hosts(
        &self,
        field: &'static str,
        hosts: &[Name],
    ) -> Result<BTreeSet<String>, Problem> {
        let is_unknown = |name: &&Name| !self.book.access.hosts.contains_key(name.as_str());
        if let Some(unknown) = hosts.iter().find(is_unknown) {
            let text = format!("there is no host {unknown}; make it with 'host create'");
            return Err(Problem::of_field(Code::NotFound, field, text));
        }
        Ok(hosts.iter().map(Name::to_string).collect())
    }

    fn must_be_writable(&self, home: u32) -> Result<(), Problem> {
        match self.library.refusal_in(home) {
            Some(text) => Err(Problem::new(Code::Unavailable, text)),
            None => Ok(()),
        }
    }
}

/// Reads identifiers, and returns them in their usual form.
fn identifiers(field: &'static str, texts: &[String]) -> Result<BTreeSet<String>, Problem> {
    let usual = |text: &String| text.parse::<Identifier>().map(|it| it.to_string());
    let usual: Result<_, _> = texts.iter().map(usual).collect();
    usual.map_err(|error| Problem::invalid(field, error.to_string()))
}

fn has_few(identifiers: &BTreeSet<String>) -> Result<(), Problem> {
    if identifiers.len() > IDENTIFIERS_MAX {
        let text = format!("a host is known by at most {IDENTIFIERS_MAX} identifiers");
        return Err(Problem::new(Code::TooMany, text));
    }
    Ok(())
}

fn refuse_mapped((kind, name): (&str, &str), luns: u64) -> Result<(), Problem> {
    if luns == 0 {
        return Ok(());
    }
    let text = format!(
        "{} mapped to {kind} {name}; see 'mapping show --where to={name}', and delete these \
        mappings first",
        match luns {
            1 => "a LUN is".to_owned(),
            luns => format!("{luns} LUNs are"),
        }
    );
    Err(Problem::new(Code::InUse, text))
}

fn lun_count(access: &Access, name: &str) -> u64 {
    let mapped = access.mappings.values();
    let mapped = mapped.filter(|mapped: &&Mapped| mapped.to.contains(name));
    mapped.count() as u64
}

fn view_host(access: &Access, name: &str) -> Host {
    let groups = access.groups.iter();
    let groups = groups.filter(|(_, group)| group.has.contains(name));
    Host {
        name: name.to_owned(),
        identifiers: access.hosts[name].has.iter().cloned().collect(),
        groups: groups.map(|(group, _)| group.clone()).collect(),
        lun_count: lun_count(access, name),
    }
}

fn view_group(access: &Access, name: &str) -> HostGroup {
    HostGroup {
        name: name.to_owned(),
        hosts: access.groups[name].has.iter().cloned().collect(),
        lun_count: lun_count(access, name),
    }
}

fn view(access: &Access, lun: &str, to: &str) -> Mapping {
    let kind = match access.groups.contains_key(to) {
        true => MappingKind::Group,
        false => MappingKind::Host,
    };
    let hosts = access.hosts_of(to).into_iter().map(str::to_owned);
    Mapping {
        lun: lun.to_owned(),
        to: to.to_owned(),
        kind,
        hosts: hosts.collect(),
    }
}

/// A number that no other host or group has.
fn random() -> u64 {
    everglade_env::random_number() >> 1
}
