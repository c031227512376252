//! How the devices of an aggregate protect each other.
//!
//! The devices of a mirror make *groups* of two or three *drives*, in the order in which they are
//! named: with groups of two, the first two devices are group 1, the next two are group 2. All
//! drives of a group have the same blocks.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Code, CreateAggregate, Problem};

/// Drives of a group of a mirror, if a request does not say how many.
pub const GROUP_SIZE_DEFAULT: u64 = 2;
/// Most drives of a group of a mirror.
pub const GROUP_SIZE_MAX: u64 = 3;

/// How the devices of an aggregate protect each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Raid {
    /// They do not.
    #[default]
    None,
    /// Each block is on all drives of a group.
    Mirror,
}

impl fmt::Display for Raid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Raid::None => "none",
            Raid::Mirror => "mirror",
        })
    }
}

impl FromStr for Raid {
    type Err = String;

    fn from_str(text: &str) -> Result<Raid, String> {
        match text {
            "none" => Ok(Raid::None),
            "mirror" => Ok(Raid::Mirror),
            other => Err(format!(
                "{other:?} is not possible in this version; use none or mirror"
            )),
        }
    }
}

impl CreateAggregate {
    /// Returns the number of drives that have each block: 1 without redundancy.
    #[must_use]
    pub fn drives_of_group(&self) -> u64 {
        match self.raid {
            Raid::None => 1,
            Raid::Mirror => self.group_size.unwrap_or(GROUP_SIZE_DEFAULT),
        }
    }

    /// Refuses devices and options that do not go with the redundancy.
    ///
    /// # Errors
    /// The first field that does not.
    pub(crate) fn check_raid(&self) -> Result<(), Problem> {
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
        let size = self.drives_of_group();
        if !(GROUP_SIZE_DEFAULT..=GROUP_SIZE_MAX).contains(&size) {
            let (least, most) = (GROUP_SIZE_DEFAULT, GROUP_SIZE_MAX);
            let text = format!("{size} is not possible; use {least} or {most}");
            return Err(Problem::invalid("group_size", text));
        }
        if self.journal_device.is_some() {
            let text = "a mirror has its journal on all drives of its first group; a device for \
                the journal alone is not possible with raid mirror in this version; leave it out";
            return Err(Problem::invalid("journal_device", text));
        }
        match self.devices.len() as u64 {
            0 => {
                let text = format!("missing; name {size} devices for each group of the mirror");
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
    fn raid_is_none_or_mirror() {
        for none in ["\"none\"", "null"] {
            let request = parse(&format!("\"raid\": {none}")).expect("possible");
            assert_eq!((request.raid, request.drives_of_group()), (Raid::None, 1));
        }
        for raid in ["\"triple\"", "\"NONE\"", "1"] {
            let problem = parse(&format!("\"raid\": {raid}")).expect_err(raid);
            assert_eq!(problem.code, Code::InvalidValue);
            assert_eq!(problem.field.as_deref(), Some("raid"));
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
