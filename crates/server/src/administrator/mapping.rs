//! Mappings of LUNs to hosts, as administrators make and see them. The schedule keeps them in the
//! pools.

use everglade_api::{
    AccessChange, AccessChangeKind, AccessPlan, Code, Mapping, ModifyHost, ModifyHostGroup, Name,
    Problem,
};

use super::administrator::Administrator;
use crate::schedule::{Imagined, MappedLun};

impl Administrator {
    /// Returns all mappings, by LUN.
    #[must_use]
    pub fn mappings(&self) -> Vec<Mapping> {
        self.schedule().mappings(&self.mapped_luns(|_| true))
    }

    /// Returns one mapping.
    ///
    /// # Errors
    /// The LUN or the mapping does not exist.
    pub fn mapping(&self, volume: &str, lun: &str, to: &str) -> Result<Mapping, Problem> {
        let known = self.mapped_lun(volume, lun)?;
        let mut mappings = self.schedule().mappings(&[known]).into_iter();
        let found = mappings.find(|mapping| mapping.to == to);
        found.ok_or_else(|| {
            let text = format!("{volume:.64}/{lun:.64} to {to:.64}");
            Problem::not_found("mapping of", text)
        })
    }

    /// Maps a LUN to a host or a group.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn map(&self, volume: &str, lun: &str, to: &str) -> Result<Mapping, Problem> {
        let known = self.mapped_lun(volume, lun)?;
        self.schedule().map(&known, to)
    }

    /// Removes a mapping.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn unmap(&self, volume: &str, lun: &str, to: &str) -> Result<(), Problem> {
        let known = self.mapped_lun(volume, lun)?;
        self.schedule().unmap(&known, to)
    }

    /// Says which connections a change of access would end. Changes nothing.
    ///
    /// # Errors
    /// The change is not possible.
    pub fn plan_access(&self, request: &AccessChange) -> Result<AccessPlan, Problem> {
        let name = || needed("name", request.name.as_ref()).map(Name::as_str);
        let mapping = || {
            let lun = needed("lun", request.lun.as_ref())?;
            let to = needed("to", request.to.as_ref())?;
            let known = self.mapped_lun(lun.volume.as_str(), lun.lun.as_str())?;
            Ok::<_, Problem>((known, to.as_str()))
        };
        let schedule = self.schedule();
        let after = match request.change {
            AccessChangeKind::ModifyHost => {
                let change = ModifyHost {
                    add: request.add.clone(),
                    remove: request.remove.clone(),
                };
                schedule.imagine(&Imagined::Host(name()?, &change))?
            }
            AccessChangeKind::ModifyHostGroup => {
                let change = ModifyHostGroup {
                    add: names("add", &request.add)?,
                    remove: names("remove", &request.remove)?,
                };
                schedule.imagine(&Imagined::Group(name()?, &change))?
            }
            AccessChangeKind::CreateMapping => {
                let (lun, to) = mapping()?;
                schedule.imagine(&Imagined::Map(lun, to))?
            }
            AccessChangeKind::DeleteMapping => {
                let (lun, to) = mapping()?;
                schedule.imagine(&Imagined::Unmap(lun, to))?
            }
        };
        let (ending, staying) = self.sessions_without(after);
        Ok(AccessPlan {
            ending,
            staying_count: staying,
        })
    }

    fn mapped_lun(&self, volume: &str, lun: &str) -> Result<MappedLun, Problem> {
        self.lun(volume, lun)?;
        let name = format!("{volume}/{lun}");
        let mut found = self.mapped_luns(|known| known == name).into_iter();
        // Somebody may delete it this moment.
        found.next().ok_or_else(|| Problem::not_found("LUN", name))
    }

    fn mapped_luns(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<MappedLun> {
        let luns = self.engine.luns().into_iter();
        let wanted = luns.filter(|lun| is_wanted(&lun.name));
        let known = wanted.filter_map(|lun| {
            Some(MappedLun {
                home: self.engine.home_of(lun.name.split_once('/')?.0)?,
                uuid: lun.uuid,
                name: lun.name,
            })
        });
        known.collect()
    }
}

/// Returns a field that this change needs.
fn needed<'a, T>(field: &'static str, given: Option<&'a T>) -> Result<&'a T, Problem> {
    given.ok_or_else(|| Problem::of_field(Code::MissingField, field, "missing"))
}

fn names(field: &'static str, texts: &[String]) -> Result<Vec<Name>, Problem> {
    let name = |text: &String| {
        let parsed = text.parse::<Name>();
        parsed.map_err(|error| Problem::invalid(field, error.to_string()))
    };
    texts.iter().map(name).collect()
}
