//! Snapshot policies: which snapshots a volume gets by itself, and how many of them stay.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::fields::required;
use crate::{Fields, Name, Problem};

/// The word that means that a volume has no policy.
pub const NO_POLICY: &str = "none";
/// The policy that is always there.
pub const DEFAULT_POLICY: &str = "default";
/// Limit of snapshots that a volume can have.
const KEEP_MAX: u64 = 1_023;

/// A time of day, `HH:MM`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct TimeOfDay {
    /// 0 to 23.
    pub hour: i8,
    /// 0 to 59.
    pub minute: i8,
}

impl FromStr for TimeOfDay {
    type Err = String;

    fn from_str(text: &str) -> Result<TimeOfDay, String> {
        let digits = |text: &str| {
            let is_plain = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
            is_plain.then(|| text.parse::<i8>().ok()).flatten()
        };
        let found = text
            .split_once(':')
            .and_then(|(hour, minute)| Some((digits(hour)?, digits(minute)?)));
        match found {
            Some((hour @ 0..=23, minute @ 0..=59)) => Ok(TimeOfDay { hour, minute }),
            _ => {
                let shown: String = text.chars().take(20).collect();
                Err(format!("{shown:?} is not a time of day; write HH:MM"))
            }
        }
    }
}

impl TryFrom<String> for TimeOfDay {
    type Error = String;

    fn try_from(text: String) -> Result<TimeOfDay, String> {
        text.parse()
    }
}

impl From<TimeOfDay> for String {
    fn from(time: TimeOfDay) -> String {
        time.to_string()
    }
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.hour, self.minute)
    }
}

/// A day of the week.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Weekday {
    /// The first of the week.
    Monday,
    /// The second.
    Tuesday,
    /// The third.
    Wednesday,
    /// The fourth.
    Thursday,
    /// The fifth.
    Friday,
    /// The sixth.
    Saturday,
    /// The last, and usual.
    #[default]
    Sunday,
}

impl Weekday {
    /// All weekdays, from Monday on.
    pub const ALL: [Weekday; 7] = [
        Weekday::Monday,
        Weekday::Tuesday,
        Weekday::Wednesday,
        Weekday::Thursday,
        Weekday::Friday,
        Weekday::Saturday,
        Weekday::Sunday,
    ];
}

impl fmt::Display for Weekday {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Weekday::Monday => "monday",
            Weekday::Tuesday => "tuesday",
            Weekday::Wednesday => "wednesday",
            Weekday::Thursday => "thursday",
            Weekday::Friday => "friday",
            Weekday::Saturday => "saturday",
            Weekday::Sunday => "sunday",
        })
    }
}

impl FromStr for Weekday {
    type Err = String;

    fn from_str(text: &str) -> Result<Weekday, String> {
        let found = Weekday::ALL.into_iter().find(|day| day.to_string() == text);
        found.ok_or_else(|| {
            let shown: String = text.chars().take(20).collect();
            format!("{shown:?} is not a day of the week; use monday to sunday")
        })
    }
}

/// A snapshot policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// Number of hourly snapshots to keep; 0: none are taken.
    pub hourly: u64,
    /// Number of daily snapshots to keep; 0: none are taken.
    pub daily: u64,
    /// Number of weekly snapshots to keep; 0: none are taken.
    pub weekly: u64,
    /// Time of daily and weekly snapshots; its minutes apply to hourly snapshots too.
    #[schema(value_type = String, pattern = "^[0-2][0-9]:[0-5][0-9]$", example = "00:00")]
    pub at: TimeOfDay,
    /// Day of weekly snapshots.
    pub weekday: Weekday,
    /// Time zone of the clock: an IANA name, such as `Europe/Berlin`.
    pub time_zone: String,
    /// Number of volumes with this policy.
    #[serde(default)]
    pub volume_count: u64,
}

/// `GET /v1/policies`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Policies {
    /// Policies, by name.
    pub policies: Vec<Policy>,
}

/// `POST /v1/policies`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CreatePolicy {
    /// Unique in the daemon; not `none`.
    pub name: Name,
    /// Number of hourly snapshots to keep; none are taken if absent.
    #[schema(required = false, maximum = 1023)]
    pub hourly: u64,
    /// Number of daily snapshots to keep; none are taken if absent.
    #[schema(required = false, maximum = 1023)]
    pub daily: u64,
    /// Number of weekly snapshots to keep; none are taken if absent.
    #[schema(required = false, maximum = 1023)]
    pub weekly: u64,
    /// Time of daily and weekly snapshots, `HH:MM`; its minutes apply to hourly snapshots too.
    /// Usually `00:00`.
    #[schema(required = false, value_type = String, pattern = "^[0-2][0-9]:[0-5][0-9]$")]
    pub at: TimeOfDay,
    /// Day of weekly snapshots; usually Sunday.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weekday: Option<Weekday>,
    /// Time zone of the clock: an IANA name; usually `UTC`.
    #[schema(required = false)]
    pub time_zone: String,
}

impl CreatePolicy {
    /// Reads a body. Whether the time zone exists is for others to say.
    ///
    /// # Errors
    /// The first field that is wrong, or contradicts another.
    pub fn parse(body: &[u8]) -> Result<CreatePolicy, Problem> {
        let mut fields = Fields::parse(body)?;
        let name: Option<Name> = fields.parsed("name")?;
        let hourly = fields.integer("hourly")?.unwrap_or(0);
        let daily = fields.integer("daily")?.unwrap_or(0);
        let weekly = fields.integer("weekly")?.unwrap_or(0);
        let at: Option<TimeOfDay> = fields.parsed("at")?;
        let weekday: Option<Weekday> = fields.parsed("weekday")?;
        let time_zone: Option<String> = fields.parsed("time_zone")?;
        fields.finish()?;
        let request = CreatePolicy {
            name: required("name", name)?,
            hourly,
            daily,
            weekly,
            at: at.unwrap_or_default(),
            weekday,
            time_zone: time_zone.unwrap_or_else(|| "UTC".to_owned()),
        };
        request.check()?;
        Ok(request)
    }

    fn check(&self) -> Result<(), Problem> {
        if self.name.as_str() == NO_POLICY {
            let text = format!("{NO_POLICY:?} means that there is no policy; choose another name");
            return Err(Problem::invalid("name", text));
        }
        let counts = [
            ("hourly", self.hourly),
            ("daily", self.daily),
            ("weekly", self.weekly),
        ];
        for (field, count) in counts {
            if count > KEEP_MAX {
                let text = format!("a volume has at most {KEEP_MAX} snapshots; keep fewer");
                return Err(Problem::invalid(field, text));
            }
        }
        let all: u64 = counts.iter().map(|(_, count)| count).sum();
        if all == 0 {
            let text =
                "it would take no snapshots; say how many to keep of hourly, daily or weekly ones";
            return Err(Problem::of_field(crate::Code::MissingField, "hourly", text));
        }
        if all > KEEP_MAX {
            let text = format!(
                "it would keep {all} snapshots in all, and a volume has at most {KEEP_MAX}; keep \
                fewer"
            );
            return Err(Problem::invalid("hourly", text));
        }
        if self.weekday.is_some() && self.weekly == 0 {
            let text =
                "it takes no weekly snapshots; leave this out, or say how many to keep of them";
            return Err(Problem::invalid("weekday", text));
        }
        if self.at.hour != 0 && self.daily + self.weekly == 0 {
            let text =
                "it takes hourly snapshots only; leave the hour 00, or keep daily or weekly ones";
            return Err(Problem::invalid("at", text));
        }
        Ok(())
    }
}

/// `PATCH /v1/policies/{p}`: what is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct ModifyPolicy {
    /// Number of hourly snapshots to keep; with 0 none are taken any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, maximum = 1023)]
    pub hourly: Option<u64>,
    /// Number of daily snapshots to keep; with 0 none are taken any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, maximum = 1023)]
    pub daily: Option<u64>,
    /// Number of weekly snapshots to keep; with 0 none are taken any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, maximum = 1023)]
    pub weekly: Option<u64>,
    /// Time of daily and weekly snapshots, `HH:MM`; its minutes apply to hourly snapshots too.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String, pattern = "^[0-2][0-9]:[0-5][0-9]$")]
    pub at: Option<TimeOfDay>,
    /// Day of weekly snapshots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weekday: Option<Weekday>,
    /// Time zone of the clock: an IANA name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub time_zone: Option<String>,
}

impl ModifyPolicy {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong, or no field is there.
    pub fn parse(body: &[u8]) -> Result<ModifyPolicy, Problem> {
        let mut fields = Fields::parse(body)?;
        let request = ModifyPolicy {
            hourly: fields.integer("hourly")?,
            daily: fields.integer("daily")?,
            weekly: fields.integer("weekly")?,
            at: fields.parsed("at")?,
            weekday: fields.parsed("weekday")?,
            time_zone: fields.parsed("time_zone")?,
        };
        fields.finish()?;
        if request == ModifyPolicy::default() {
            let text = "missing, and so is everything else; say what changes";
            return Err(Problem::of_field(crate::Code::MissingField, "hourly", text));
        }
        Ok(request)
    }

    /// Returns what a policy becomes.
    ///
    /// # Errors
    /// A field that is wrong, or contradicts another.
    pub fn applied(&self, policy: &Policy) -> Result<Policy, Problem> {
        let weekly = self.weekly.unwrap_or(policy.weekly);
        let whole = CreatePolicy {
            name: policy
                .name
                .parse()
                .map_err(|error| Problem::invalid("name", error))?,
            hourly: self.hourly.unwrap_or(policy.hourly),
            daily: self.daily.unwrap_or(policy.daily),
            weekly,
            at: self.at.unwrap_or(policy.at),
            weekday: self.weekday,
            time_zone: self.time_zone.as_ref().unwrap_or(&policy.time_zone).clone(),
        };
        whole.check()?;
        Ok(Policy {
            hourly: whole.hourly,
            daily: whole.daily,
            weekly,
            at: whole.at,
            weekday: whole.weekday.unwrap_or(policy.weekday),
            time_zone: whole.time_zone,
            ..policy.clone()
        })
    }
}

/// `PUT /v1/volumes/{v}/policy`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct SetPolicy {
    /// Name of the policy, or `none`.
    pub policy: Name,
}

impl SetPolicy {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<SetPolicy, Problem> {
        let mut fields = Fields::parse(body)?;
        let policy = fields.parsed("policy")?;
        fields.finish()?;
        let policy = required("policy", policy)?;
        Ok(SetPolicy { policy })
    }
}

/// `GET /v1/volumes/{v}/policy`: past and future work of a volume's policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumePolicy {
    /// Name of the volume.
    pub volume: String,
    /// Name of the policy, or `none`.
    pub policy: String,
    /// Time of the next snapshot, RFC 3339 in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub next: Option<String>,
    /// Existing snapshots that the policy took, oldest first.
    pub snapshots: Vec<String>,
    /// Snapshots that the policy would delete if they were neither held nor in use.
    pub overdue: Vec<String>,
    /// The reason why the last run took no snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    #[test]
    fn what_a_client_writes_the_daemon_reads() {
        let request = CreatePolicy {
            name: "p".parse().expect("a name"),
            hourly: 0,
            daily: 7,
            weekly: 4,
            at: TimeOfDay {
                hour: 22,
                minute: 5,
            },
            weekday: Some(Weekday::Friday),
            time_zone: "Europe/Berlin".to_owned(),
        };
        let body = serde_json::to_vec(&request).expect("JSON");
        assert_eq!(CreatePolicy::parse(&body), Ok(request));
    }

    #[test]
    fn a_policy_keeps_what_is_not_changed() {
        let policy = Policy {
            name: "p".to_owned(),
            hourly: 0,
            daily: 7,
            weekly: 4,
            at: TimeOfDay {
                hour: 22,
                minute: 5,
            },
            weekday: Weekday::Friday,
            time_zone: "Europe/Berlin".to_owned(),
            volume_count: 3,
        };
        let body = serde_json::to_vec(&ModifyPolicy {
            daily: Some(14),
            ..ModifyPolicy::default()
        });
        let change = ModifyPolicy::parse(&body.expect("JSON")).expect("good");
        let changed = change.applied(&policy).expect("good");
        assert_eq!(
            changed,
            Policy {
                daily: 14,
                ..policy.clone()
            }
        );
        let nothing = ModifyPolicy::parse(b"{}").expect_err("nothing changes");
        assert_eq!(nothing.code, Code::MissingField);
        for (body, field) in [
            (&b"{\"daily\": 0, \"weekly\": 0}"[..], "hourly"),
            (b"{\"weekly\": 0, \"weekday\": \"monday\"}", "weekday"),
            (b"{\"daily\": 2000}", "daily"),
        ] {
            let change = ModifyPolicy::parse(body).expect("each alone is good");
            let refused = change.applied(&policy).expect_err("together it is not");
            assert_eq!(refused.field.as_deref(), Some(field));
        }
    }

    #[test]
    fn contradictions_are_refused_by_name() {
        for (body, code, field) in [
            ("{}", Code::MissingField, "name"),
            ("{\"name\": \"p\"}", Code::MissingField, "hourly"),
            (
                "{\"name\": \"none\", \"daily\": 1}",
                Code::InvalidValue,
                "name",
            ),
            (
                "{\"name\": \"p\", \"daily\": 1024}",
                Code::InvalidValue,
                "daily",
            ),
            (
                "{\"name\": \"p\", \"daily\": 1000, \"weekly\": 24}",
                Code::InvalidValue,
                "hourly",
            ),
            (
                "{\"name\": \"p\", \"daily\": 1, \"weekday\": \"monday\"}",
                Code::InvalidValue,
                "weekday",
            ),
            (
                "{\"name\": \"p\", \"weekly\": 1, \"weekday\": \"someday\"}",
                Code::InvalidValue,
                "weekday",
            ),
            (
                "{\"name\": \"p\", \"hourly\": 1, \"at\": \"03:30\"}",
                Code::InvalidValue,
                "at",
            ),
            (
                "{\"name\": \"p\", \"daily\": 1, \"at\": \"24:00\"}",
                Code::InvalidValue,
                "at",
            ),
            (
                "{\"name\": \"p\", \"daily\": 1, \"at\": \"3:00\"}",
                Code::InvalidValue,
                "at",
            ),
            (
                "{\"name\": \"p\", \"daily\": -1}",
                Code::InvalidValue,
                "daily",
            ),
            (
                "{\"name\": \"p\", \"dayly\": 1}",
                Code::UnknownField,
                "dayly",
            ),
        ] {
            let problem = CreatePolicy::parse(body.as_bytes()).expect_err(body);
            assert_eq!(problem.code, code, "{body}");
            assert_eq!(problem.field.as_deref(), Some(field), "{body}");
        }
    }
}
