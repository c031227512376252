//! `everglade policy …`: snapshots that volumes get by themselves.

use std::fmt::Write as _;

use everglade_api::{
    CreatePolicy, ModifyPolicy, Policies, Policy, SetPolicy, VolumePolicy, Volumes,
};
use serde_json::json;

use crate::failure::{Failure, exit};
use crate::listing::{self, Cell, Column};
use crate::output::Output;
use crate::session::{Answer, Session};
use crate::verb::{PolicyCreate, PolicyVerb};

const COLUMNS: [Column<Policy>; 8] = [
    Column::text("name", |it| Cell::text(&it.name)),
    Column::count("hourly", |it| Cell::Count(it.hourly)),
    Column::count("daily", |it| Cell::Count(it.daily)),
    Column::count("weekly", |it| Cell::Count(it.weekly)),
    Column::text("at", |it| Cell::text(it.at)),
    Column::words("weekday", "Weekday", |it| match it.weekly {
        0 => Cell::None,
        _ => Cell::text(it.weekday),
    }),
    Column::text("time-zone", |it| Cell::text(&it.time_zone)),
    Column::count("volumes", |it| Cell::Count(it.volume_count)),
];

pub(crate) fn run(verb: &PolicyVerb, session: &Session, output: &Output) -> Result<u8, Failure> {
    match verb {
        PolicyVerb::Create(create) => {
            let told = session.post::<Policy>("/v1/policies", &request(create))?;
            output.made(&told.raw, || listing::of_one(&told.meant, &COLUMNS))?;
        }
        PolicyVerb::Show(show) => match &show.name {
            Some(name) => {
                let told = session.get::<Policy>(&format!("/v1/policies/{name}"))?;
                listing::print_one(&told, &COLUMNS, &show.listing, output)?;
            }
            None => {
                let told = session.get::<Policies>("/v1/policies")?;
                let items = ("policies", told.meant.policies.as_slice());
                listing::print(&told, items, &COLUMNS, &show.listing, output)?;
            }
        },
        PolicyVerb::Modify(modify) => {
            let request = ModifyPolicy {
                hourly: modify.hourly,
                daily: modify.daily,
                weekly: modify.weekly,
                at: modify.at,
                weekday: modify.weekday,
                time_zone: modify.time_zone.clone(),
            };
            let path = format!("/v1/policies/{}", modify.name);
            let told = session.patch::<Policy>(&path, &request)?;
            output.made(&told.raw, || listing::of_one(&told.meant, &COLUMNS))?;
        }
        PolicyVerb::Delete(one) => {
            session.remove(&format!("/v1/policies/{}", one.name))?;
            output.done(&format!("deleted policy {}", one.name));
        }
        PolicyVerb::Set(set) => {
            let path = format!("/v1/volumes/{}/policy", set.volume);
            let policy = set.policy.clone();
            let told = session.put::<VolumePolicy>(&path, &SetPolicy { policy })?;
            output.made(&told.raw, || describe(&told.meant))?;
        }
        PolicyVerb::Status(status) => match &status.volume {
            Some(volume) => {
                let told = status_of(session, volume.as_str())?;
                output.data(&told.raw, || describe(&told.meant))?;
            }
            None => {
                let volumes = session.get::<Volumes>("/v1/volumes")?.meant.volumes;
                let told = volumes.iter().map(|it| status_of(session, &it.name));
                let all = told.map(|told| Ok(told?.meant));
                let all = all.collect::<Result<Vec<VolumePolicy>, Failure>>()?;
                let raw = listing::versioned(json!({ "volumes": &all }));
                output.data(&raw, || all.iter().map(describe).collect())?;
            }
        },
    }
    Ok(exit::OK)
}

fn status_of(session: &Session, volume: &str) -> Result<Answer<VolumePolicy>, Failure> {
    session.get(&format!("/v1/volumes/{volume}/policy"))
}

fn request(create: &PolicyCreate) -> CreatePolicy {
    CreatePolicy {
        name: create.name.clone(),
        hourly: create.hourly,
        daily: create.daily,
        weekly: create.weekly,
        at: create.at,
        weekday: create.weekday,
        time_zone: create.time_zone.clone(),
    }
}

fn describe(status: &VolumePolicy) -> String {
    let mut text = format!("volume {}: policy {}", status.volume, status.policy);
    // Writing to a String cannot fail.
    if let Some(next) = &status.next {
        let _ = write!(text, ", next snapshot at {next}");
    }
    text.push('\n');
    if let Some(failure) = &status.failure {
        let _ = writeln!(text, "  the last snapshot was not taken: {failure}");
    }
    for name in &status.snapshots {
        let note = if status.overdue.contains(name) {
            ", which stays though it is old: it is held or in use"
        } else {
            ""
        };
        let _ = writeln!(text, "  {}@{name}{note}", status.volume);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_and_what_failed_is_said() {
        let status = VolumePolicy {
            volume: "v".to_owned(),
            policy: "default".to_owned(),
            next: Some("2026-11-22T04:00:00Z".to_owned()),
            snapshots: vec!["hourly.a".to_owned(), "hourly.b".to_owned()],
            overdue: vec!["hourly.a".to_owned()],
            failure: Some("no space".to_owned()),
        };
        let expected = "volume v: policy default, next snapshot at 2026-11-22T04:00:00Z\n  \
                        the last snapshot was not taken: no space\n  \
                        v@hourly.a, which stays though it is old: it is held or in use\n  \
                        v@hourly.b\n";
        assert_eq!(describe(&status), expected);
    }
}
