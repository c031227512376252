//! How the devices of an aggregate protect each other.
//!
//! The devices of a mirror make *groups* of two or three *drives*, in the order in which they are
//! named: with groups of two, the first two devices are group 1, the next two are group 2. All
//! drives of a group have the same blocks.
//!
//! With parity, a group has drives with data, and one, two or three drives with parity, which are
//! the last ones. Without a size, all devices are one group.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Code, CreateAggregate, Problem};

/// Drives of a group of a mirror, if a request does not say how many.
pub const GROUP_SIZE_DEFAULT: u64 = 2;
/// Most drives of a group of a mirror.
pub const GROUP_SIZE_MAX: u64 = 3;
/// Most drives with data of a parity group.
pub const GROUP_DATA_MAX: u64 = 28;

/// How the devices of an aggregate protect each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Raid {
    /// They do not.
    #[default]
    None,
    /// Each block is on all drives of a group.
    Mirror,
    /// One drive of each group has parity: it survives the loss of one drive.
    Single,
    /// Two drives of each group have parity: it survives the loss of two drives.
    Double,
    /// Three drives of each group have parity: it survives the loss of three drives.
    Triple,
}

impl Raid {
    /// Drives with parity of each group; 0 if there is no parity.
    #[must_use]
    pub fn parity(self) -> u64 {
        match self {
            Raid::None | Raid::Mirror => 0,
            Raid::Single => 1,
            Raid::Double => 2,
            Raid::Triple => 3,
        }
    }
}

impl fmt::Display for Raid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Raid::None => "none",
            Raid::Mirror => "mirror",
            Raid::Single => "single",
            Raid::Double => "double",
            Raid::Triple => "triple",
        })
    }
}

impl FromStr for Raid {
    type Err = String;

    fn from_str(text: &str) -> Result<Raid, String> {
        match text {
            "none" => Ok(Raid::None),
            "mirror" => Ok(Raid::Mirror),
            "single" => Ok(Raid::Single),
            "double" => Ok(Raid::Double),
            "triple" => Ok(Raid::Triple),
            other => Err(format!(
                "{other:?} is not possible; use none, mirror, single, double or triple"
            )),
        }
    }
}

impl CreateAggregate {
    /// Returns the number of drives of each group: 1 without redundancy.
    #[must_use]
    pub fn drives_of_group(&self) -> u64 {
        match self.raid {
            Raid::None => 1,
            Raid::Mirror => self.group_size.unwrap_or(GROUP_SIZE_DEFAULT),
            Raid::Single | Raid::Double | Raid::Triple => {
                self.group_size.unwrap_or(self.devices.len() as u64)
            }
        }
    }

    /// Refuses a number of drives of a group that the redundancy does not permit.
    fn check_group_size(&self, size: u64) -> Result<(), Problem> {
        let (least, most) = match self.raid.parity() {
            0 => (GROUP_SIZE_DEFAULT, GROUP_SIZE_MAX),
            parity => (parity + 1, parity + GROUP_DATA_MAX),
        };
        if (least..=most).contains(&size) {
            return Ok(());
        }
        let raid = self.raid;
        match self.group_size {
            Some(_) => {
                let text =
                    format!("{size} is not possible with raid {raid}; use {least} to {most}");
                Err(Problem::invalid("group_size", text))
            }
            None => {
                let text = format!(
                    "{size} make no group with raid {raid}; name {least} to {most}, or say how \
                     many drives each group has"
                );
                Err(Problem::invalid("devices", text))
            }
        }
    }

    /// Refuses devices and options that do not go with the redundancy.
    ///
    /// # Errors
    /// The first field that does not.
    pub fn check_raid(&self) -> Result<(), Problem> {
        if self.raid == Raid::None {
            let Some(size) = self.group_size else {
                return Ok(());
            };
            let text = format!(
                "{size} is not possible without redundancy, which has no groups; leave it out, or \
                use raid mirror"
            );
            return Err(Problem::invalid("group_size", text));
        }
        let (raid, size) = (self.raid, self.drives_of_group());
        if !self.devices.is_empty() || self.group_size.is_some() {
            self.check_group_size(size)?;
        }
        if self.journal_device.is_some() {
            let text = format!(
                "with raid {raid} the journal is on drives of the first group; a device for the \
                 journal alone is not possible in this version; leave it out"
            );
            return Err(Problem::invalid("journal_device", text));
        }
        match self.devices.len() as u64 {
            0 => {
                let text = match size {
                    0 => format!("missing; name the devices of a group with raid {raid}"),
                    size => format!("missing; name {size} devices for each group with raid {raid}"),
                };
                Err(Problem::of_field(Code::MissingField, "devices", text))
            }
            count if !count.is_multiple_of(size) => {
                let devices = match count {
                    1 => "1 device makes".to_owned(),
                    count => format!("{count} devices make"),
                };
                let text = format!("{devices} no groups of {size}; name a multiple of {size}");
                Err(Problem::invalid("devices", text))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(fields: &str) -> Result<CreateAggregate, Problem> {
        CreateAggregate::parse(format!("{{\"name\": \"a\", {fields}}}").as_bytes())
    }

    #[test]
    fn raid_is_one_of_the_known_ones() {
        for none in ["\"none\"", "null"] {
            let request = parse(&format!("\"raid\": {none}")).expect("possible");
            assert_eq!((request.raid, request.drives_of_group()), (Raid::None, 1));
        }
        for raid in ["\"raid5\"", "\"NONE\"", "1"] {
            let problem = parse(&format!("\"raid\": {raid}")).expect_err(raid);
            assert_eq!(problem.code, Code::InvalidValue);
            assert_eq!(problem.field.as_deref(), Some("raid"));
        }
    }

    #[test]
    fn devices_make_parity_groups() {
        let devices = |count: usize| {
            let paths: Vec<String> = (0..count).map(|it| format!("\"/{it}\"")).collect();
            format!("\"devices\": [{}]", paths.join(", "))
        };
        let of = |raid: &str, count: usize, more: &str| {
            parse(&format!("\"raid\": \"{raid}\", {}{more}", devices(count)))
        };
        for (raid, least, parity) in [("single", 2, 1), ("double", 3, 2), ("triple", 4, 3)] {
            let request = of(raid, least, "").expect("one group");
            assert_eq!(
                (request.raid.parity(), request.drives_of_group()),
                (parity, least as u64)
            );
            assert_eq!(request.raid.to_string(), raid);
            let problem = of(raid, least - 1, "").expect_err("too few");
            assert_eq!(problem.field.as_deref(), Some("devices"));
        }
        let two = of("double", 12, ", \"group_size\": 6").expect("two groups");
        assert_eq!(two.drives_of_group(), 6);
        for (count, more, field) in [
            (12, ", \"group_size\": 5", "devices"),
            (12, ", \"group_size\": 2", "group_size"),
            (31, "", "devices"),
            (6, ", \"journal_device\": \"/j\"", "journal_device"),
            (0, "", "devices"),
        ] {
            let problem = of("double", count, more).expect_err("refused");
            assert_eq!(problem.field.as_deref(), Some(field), "{count} {more}");
        }
    }

    #[test]
    fn devices_make_groups() {
        let mirror = |fields: &str| parse(&format!("\"raid\": \"mirror\", {fields}"));
        let two = mirror("\"devices\": [\"/a\", \"/b\", \"/c\", \"/d\"]").expect("two groups");
        assert_eq!((two.raid, two.drives_of_group()), (Raid::Mirror, 2));
        let three = mirror("\"devices\": [\"/a\", \"/b\", \"/c\"], \"group_size\": 3");
        assert_eq!(three.expect("a group of three").drives_of_group(), 3);
        for (fields, code, field) in [
            ("\"devices\": []", Code::MissingField, "devices"),
            ("\"devices\": [\"/a\"]", Code::InvalidValue, "devices"),
            (
                "\"devices\": [\"/a\", \"/b\", \"/c\"]",
                Code::InvalidValue,
                "devices",
            ),
            (
                "\"devices\": [\"/a\", \"/b\"], \"group_size\": 3",
                Code::InvalidValue,
                "devices",
            ),
            (
                "\"devices\": [\"/a\"], \"group_size\": 1",
                Code::InvalidValue,
                "group_size",
            ),
            (
                "\"devices\": [\"/a\", \"/b\", \"/c\", \"/d\"], \"group_size\": 4",
                Code::InvalidValue,
                "group_size",
            ),
            (
                "\"devices\": [\"/a\", \"/b\"], \"journal_device\": \"/c\"",
                Code::InvalidValue,
                "journal_device",
            ),
        ] {
            let problem = mirror(fields).expect_err(fields);
            assert_eq!(
                (problem.code, problem.field.as_deref()),
                (code, Some(field)),
                "{fields}"
            );
        }
        let problem = parse("\"group_size\": 2").expect_err("no groups");
        assert_eq!(problem.field.as_deref(), Some("group_size"));
    }
}
