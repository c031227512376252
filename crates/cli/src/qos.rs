//! `everglade qos …` and `everglade qos-policy …`.

use everglade_api::{Limit, Limits, LunName, QosPolicies, QosPolicy, SetLimit};

use crate::failure::{Failure, exit};
use crate::listing::{self, Cell, Column};
use crate::output::Output;
use crate::session::Session;
use crate::verb::{QosObject, QosPolicyVerb, QosVerb};

fn count<N: Into<u64>>(number: Option<N>) -> Cell {
    number.map_or(Cell::None, |number| Cell::Count(number.into()))
}

const LIMITS: [Column<Limit>; 8] = [
    Column::text("name", |it| Cell::text(&it.name)),
    Column::count("iops", |it| count(it.iops)),
    Column::<Limit>::bytes("bandwidth", |it| {
        it.bytes_per_second.map_or(Cell::None, Cell::Bytes)
    })
    .called("bytes_per_second"),
    Column::<Limit>::count("burst-ms", |it| count(it.burst_milliseconds))
        .called("burst_milliseconds"),
    Column::count("weight", |it| count(it.weight)),
    Column::text("policy", |it| {
        it.policy.as_ref().map_or(Cell::None, Cell::text)
    }),
    Column::<Limit>::count("held", |it| Cell::Count(it.held_count)).called("held_count"),
    Column::<Limit>::count("held-ms", |it| Cell::Count(it.held_milliseconds))
        .called("held_milliseconds"),
];

const POLICIES: [Column<QosPolicy>; 6] = [
    Column::text("name", |it| Cell::text(&it.name)),
    Column::count("iops", |it| count(it.iops)),
    Column::<QosPolicy>::bytes("bandwidth", |it| {
        it.bytes_per_second.map_or(Cell::None, Cell::Bytes)
    })
    .called("bytes_per_second"),
    Column::<QosPolicy>::count("burst-ms", |it| count(it.burst_milliseconds))
        .called("burst_milliseconds"),
    Column::count("weight", |it| count(it.weight)),
    Column::<QosPolicy>::count("objects", |it| Cell::Count(it.object_count)).called("object_count"),
];

pub(crate) fn run(verb: &QosVerb, session: &Session, output: &Output) -> Result<u8, Failure> {
    match verb {
        QosVerb::Set(set) => {
            let request = SetLimit {
                policy: set.policy.clone(),
                ..SetLimit::of(set.rates.request())
            };
            let told = session.post::<Limit>(&path(&set.of), &request)?;
            output.made(&told.raw, || listing::of_one(&told.meant, &LIMITS))?;
        }
        QosVerb::Clear(one) => {
            session.post::<Limit>(&path(&one.of), &SetLimit::default())?;
            output.done(&format!("{} has no limit", one.of));
        }
        QosVerb::Show(show) => {
            let told = session.get::<Limits>("/v1/limits")?;
            let items = ("limits", told.meant.limits.as_slice());
            listing::print(&told, items, &LIMITS, &show.listing, output)?;
        }
    }
    Ok(exit::OK)
}

pub(crate) fn run_policy(
    verb: &QosPolicyVerb,
    session: &Session,
    output: &Output,
) -> Result<u8, Failure> {
    match verb {
        QosPolicyVerb::Set(set) => {
            let path = format!("/v1/qos-policies/{}", set.name);
            let told = session.put::<QosPolicy>(&path, &set.rates.request())?;
            output.made(&told.raw, || listing::of_one(&told.meant, &POLICIES))?;
        }
        QosPolicyVerb::Show(show) => match &show.name {
            Some(name) => {
                let told = session.get::<QosPolicy>(&format!("/v1/qos-policies/{name}"))?;
                listing::print_one(&told, &POLICIES, &show.listing, output)?;
            }
            None => {
                let told = session.get::<QosPolicies>("/v1/qos-policies")?;
                let items = ("policies", told.meant.policies.as_slice());
                listing::print(&told, items, &POLICIES, &show.listing, output)?;
            }
        },
        QosPolicyVerb::Delete(one) => {
            session.remove(&format!("/v1/qos-policies/{}", one.name))?;
            output.done(&format!("deleted policy {}", one.name));
        }
    }
    Ok(exit::OK)
}

fn path(of: &QosObject) -> String {
    match of {
        QosObject::Volume(name) => format!("/v1/volumes/{name}/actions/limit"),
        QosObject::Lun(LunName { volume, lun }) => {
            format!("/v1/volumes/{volume}/luns/{lun}/actions/limit")
        }
    }
}
