//! Expansion of a layout with groups: another group, a group whose drives became larger, or a
//! parity group with more data drives (decisions 0050 and 0052).
//!
//! 1. An expansion appends members and extents, and changes no former one but the sizes of drives
//!    that became larger, and the columns of parity behind new data columns.
//! 2. It is planned before the freeze in which it happens, and a removal may begin or end in
//!    between. So a group that leaves by then is not expanded, and the reserve is computed from
//!    what stays.
//! 3. It is in the layout before it is in a config record. Until a consistency point has recorded
//!    it, the layout is *grown*: its config is no record of any epoch.

use everglade_env::DeviceId;
use everglade_format::config::Uuid;
use everglade_format::{Extent, Member, Removal, Role};

use super::{Layout, Use, rows_of};
use crate::media::reserve::reserve_for;

/// See the module's documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expansion {
    /// Number of members before.
    pub(crate) former_members: usize,
    /// Number of extents before.
    pub(crate) former_extents: usize,
    /// Members that are added, with their devices.
    pub(crate) added: Vec<(Member, DeviceId)>,
    /// Members that became larger: index, UUID, and blocks now.
    pub(crate) enlarged: Vec<(usize, Uuid, u64)>,
    /// Extents that are added.
    pub(crate) extents: Vec<Extent>,
}

impl Layout {
    /// Returns the layout with an expansion, which is to be recorded; `None` if the expansion was
    /// planned for another layout, if a drive that it enlarges is not in full use any more, or if a
    /// group that it expands leaves.
    pub(crate) fn with_expansion(&self, expansion: &Expansion) -> Option<Layout> {
        let is_same = self.config.members.len() == expansion.former_members
            && self.config.extents.len() == expansion.former_extents;
        let is_unchanged = is_same && !self.is_grown() && self.successor.is_none();
        let mut config = self.config.clone();
        for (index, uuid, blocks) in &expansion.enlarged {
            let member = config.members.get_mut(*index)?;
            if member.uuid != *uuid || self.uses[*index] != Use::Full {
                return None;
            }
            member.size_blocks = *blocks;
        }
        let seats = config.members.iter_mut().map(|member| &mut member.seat);
        for seat in seats.filter(|seat| seat.role == Role::Parity) {
            let added = expansion.added.iter().map(|(member, _)| member.seat);
            let data = added.filter(|it| (it.group, it.role) == (seat.group, Role::Data));
            seat.column += u8::try_from(data.count()).ok()?;
        }
        let (mut devices, mut uses) = (self.devices.clone(), self.uses.clone());
        for (member, device) in &expansion.added {
            config.members.push(member.clone());
            devices.push(Some(*device));
            uses.push(match member.seat.is_current() {
                true => Use::Full,
                false => Use::Out,
            });
        }
        config.extents.extend(&expansion.extents);
        let mut extended = expansion.extents.iter().map(|extent| extent.member);
        let mut joined = expansion.added.iter().map(|(member, _)| member.seat.group);
        let is_leaving = extended.any(|member| config.is_leaving(member))
            || joined.any(|group| self.is_group_leaving(group));
        config.reserve_blocks = reserve_for(config.staying_areas_blocks(), config.area_blocks);
        let (rows, row_of) = rows_of(&config).ok()?;
        let geometry = config.geometry().ok()?;
        let next = Layout {
            config,
            geometry,
            devices,
            uses,
            rows,
            row_of,
            grown_from: Some(expansion.former_members),
            ..self.clone()
        };
        (is_unchanged && !is_leaving).then(|| next.with_drives())
    }

    /// True if the layout has an expansion that no record has.
    pub(crate) fn is_grown(&self) -> bool {
        self.grown_from.is_some()
    }

    /// True if there are drives in a group of this number.
    pub(crate) fn has_group(&self, group: u16) -> bool {
        let mut members = self.config.members.iter();
        members.any(|member| member.seat.group == group)
    }

    /// True if the drives of a group are being removed, or were.
    fn is_group_leaving(&self, group: u16) -> bool {
        let members = self.config.members.iter();
        let mut own = members.filter(|member| member.seat.group == group);
        own.any(|member| member.seat.removal != Removal::None)
    }

    /// Returns the drives that get a seat with the next record, and that are behind in it: index of
    /// the member, and device.
    pub(crate) fn newcomers(&self) -> impl Iterator<Item = (usize, DeviceId)> {
        let successor = self.successor.iter();
        let successor = successor.map(|it| (it.member as usize, it.device));
        let first = self.grown_from.unwrap_or(self.devices.len());
        let added = self.devices.iter().zip(&self.uses).enumerate().skip(first);
        let added = added.filter_map(|(index, (device, it))| {
            let is_behind = matches!(it, Use::Out | Use::CatchingUp);
            device.filter(|_| is_behind).map(|device| (index, device))
        });
        successor.chain(added)
    }

    /// Returns for each extent of a parity group the first extent whose rows it shares: they are in
    /// the same stripes of the same group. `None` for extents of other members.
    pub(crate) fn rows_of_extents(&self) -> Vec<Option<usize>> {
        let extents = self.geometry.extents().iter();
        let place = |extent: &Extent| Some((self.group_of(extent.member)?, extent.first_dbn));
        let places: Vec<_> = extents.map(place).collect();
        let first = |place: &Option<_>| {
            place.as_ref()?;
            places.iter().position(|other| other == place)
        };
        places.iter().map(first).collect()
    }
}
