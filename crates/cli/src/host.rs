//! `everglade host …`, `everglade host-group …` and `everglade mapping …`.

use everglade_api::{
    AccessChange, AccessChangeKind, AccessPlan, CreateHost, CreateHostGroup, CreateMapping, Host,
    HostGroup, HostGroups, Hosts, Lun, Mapping, Mappings, ModifyHost, ModifyHostGroup, Name,
    counted,
};
use serde_json::json;

use crate::failure::{Failure, exit};
use crate::listing::{self, Cell, Column};
use crate::lun;
use crate::output::Output;
use crate::session::{Answer, Session};
use crate::verb::{HostGroupVerb, HostVerb, MappingVerb};

const HOSTS: [Column<Host>; 4] = [
    Column::text("name", |it| Cell::text(&it.name)),
    Column::text("identifiers", |it| list(&it.identifiers)),
    Column::text("groups", |it| list(&it.groups)),
    Column::count("luns", |it| Cell::Count(it.lun_count)),
];

const GROUPS: [Column<HostGroup>; 3] = [
    Column::text("name", |it| Cell::text(&it.name)),
    Column::text("hosts", |it| list(&it.hosts)),
    Column::count("luns", |it| Cell::Count(it.lun_count)),
];

const MAPPINGS: [Column<Mapping>; 4] = [
    Column::text("lun", |it| Cell::text(&it.lun)),
    Column::text("to", |it| Cell::text(&it.to)),
    Column::words("kind", "MappingKind", |it| Cell::text(it.kind)),
    Column::text("hosts", |it| list(&it.hosts)),
];

fn list(names: &[String]) -> Cell {
    match names.is_empty() {
        true => Cell::None,
        false => Cell::text(names.join(",")),
    }
}

pub(crate) fn run(verb: &HostVerb, session: &Session, output: &Output) -> Result<u8, Failure> {
    match verb {
        HostVerb::Create(create) => {
            let request = CreateHost {
                name: create.name.clone(),
                identifiers: create.identifiers.clone(),
            };
            let told = session.post::<Host>("/v1/hosts", &request)?;
            output.made(&told.raw, || listing::of_one(&told.meant, &HOSTS))?;
        }
        HostVerb::Show(show) => match &show.name {
            Some(name) => {
                let told = session.get::<Host>(&format!("/v1/hosts/{name}"))?;
                listing::print_one(&told, &HOSTS, &show.listing, output)?;
            }
            None => {
                let told = session.get::<Hosts>("/v1/hosts")?;
                let items = ("hosts", told.meant.hosts.as_slice());
                listing::print(&told, items, &HOSTS, &show.listing, output)?;
            }
        },
        HostVerb::Modify(modify) if modify.dry_run => {
            let change = AccessChange {
                name: Some(modify.name.clone()),
                add: modify.add.clone(),
                remove: modify.remove.clone(),
                ..of_kind(AccessChangeKind::ModifyHost)
            };
            plan(&change, session, output)?;
        }
        HostVerb::Modify(modify) => {
            let request = ModifyHost {
                add: modify.add.clone(),
                remove: modify.remove.clone(),
            };
            let path = format!("/v1/hosts/{}/actions/modify", modify.name);
            let told = session.post::<Host>(&path, &request)?;
            output.made(&told.raw, || listing::of_one(&told.meant, &HOSTS))?;
        }
        HostVerb::Delete(one) => {
            session.remove(&format!("/v1/hosts/{}", one.name))?;
            output.done(&format!("deleted host {}", one.name));
        }
    }
    Ok(exit::OK)
}

pub(crate) fn run_group(
    verb: &HostGroupVerb,
    session: &Session,
    output: &Output,
) -> Result<u8, Failure> {
    match verb {
        HostGroupVerb::Create(create) => {
            let request = CreateHostGroup {
                name: create.name.clone(),
                hosts: create.hosts.clone(),
            };
            let told = session.post::<HostGroup>("/v1/host-groups", &request)?;
            output.made(&told.raw, || listing::of_one(&told.meant, &GROUPS))?;
        }
        HostGroupVerb::Show(show) => match &show.name {
            Some(name) => {
                let told = session.get::<HostGroup>(&format!("/v1/host-groups/{name}"))?;
                listing::print_one(&told, &GROUPS, &show.listing, output)?;
            }
            None => {
                let told = session.get::<HostGroups>("/v1/host-groups")?;
                let items = ("host_groups", told.meant.host_groups.as_slice());
                listing::print(&told, items, &GROUPS, &show.listing, output)?;
            }
        },
        HostGroupVerb::Modify(modify) if modify.dry_run => {
            let texts = |names: &[Name]| names.iter().map(Name::to_string).collect();
            let change = AccessChange {
                name: Some(modify.name.clone()),
                add: texts(&modify.add),
                remove: texts(&modify.remove),
                ..of_kind(AccessChangeKind::ModifyHostGroup)
            };
            plan(&change, session, output)?;
        }
        HostGroupVerb::Modify(modify) => {
            let request = ModifyHostGroup {
                add: modify.add.clone(),
                remove: modify.remove.clone(),
            };
            let path = format!("/v1/host-groups/{}/actions/modify", modify.name);
            let told = session.post::<HostGroup>(&path, &request)?;
            output.made(&told.raw, || listing::of_one(&told.meant, &GROUPS))?;
        }
        HostGroupVerb::Delete(one) => {
            session.remove(&format!("/v1/host-groups/{}", one.name))?;
            output.done(&format!("deleted group {}", one.name));
        }
    }
    Ok(exit::OK)
}

pub(crate) fn run_mapping(
    verb: &MappingVerb,
    session: &Session,
    output: &Output,
) -> Result<u8, Failure> {
    match verb {
        MappingVerb::Create(create) if create.dry_run => {
            let change = AccessChange {
                lun: Some(create.lun.clone()),
                to: Some(create.to.clone()),
                ..of_kind(AccessChangeKind::CreateMapping)
            };
            plan(&change, session, output)?;
        }
        MappingVerb::Create(create) => {
            let request = CreateMapping {
                lun: create.lun.clone(),
                to: create.to.clone(),
            };
            let told = session.post::<Mapping>("/v1/mappings", &request)?;
            output.made(&told.raw, || listing::of_one(&told.meant, &MAPPINGS))?;
        }
        MappingVerb::Show(show) => {
            let Answer { meant, raw } = session.get::<Mappings>("/v1/mappings")?;
            let mut told = Answer { meant, raw };
            if let Some(name) = &show.lun {
                // The daemon says whether there is such a LUN.
                session.get::<Lun>(&lun::path_of(name))?;
                let wanted = name.to_string();
                told.meant.mappings.retain(|mapping| mapping.lun == wanted);
                told.raw = listing::versioned(json!({ "mappings": &told.meant.mappings }));
            }
            let items = ("mappings", told.meant.mappings.as_slice());
            listing::print(&told, items, &MAPPINGS, &show.listing, output)?;
        }
        MappingVerb::Delete(of) if of.dry_run => {
            let change = AccessChange {
                lun: Some(of.lun.clone()),
                to: Some(of.to.clone()),
                ..of_kind(AccessChangeKind::DeleteMapping)
            };
            plan(&change, session, output)?;
        }
        MappingVerb::Delete(of) => {
            let path = format!("{}/mappings/{}", lun::path_of(&of.lun), of.to);
            session.remove(&path)?;
            output.done(&format!("deleted the mapping of {} to {}", of.lun, of.to));
        }
    }
    Ok(exit::OK)
}

fn of_kind(change: AccessChangeKind) -> AccessChange {
    AccessChange {
        change,
        name: None,
        add: Vec::new(),
        remove: Vec::new(),
        lun: None,
        to: None,
    }
}

/// Says which connections a change would end.
fn plan(change: &AccessChange, session: &Session, output: &Output) -> Result<(), Failure> {
    let told = session.post::<AccessPlan>("/v1/access/plan", change)?;
    output.data(&told.raw, || told_of(&told.meant))
}

fn told_of(plan: &AccessPlan) -> String {
    let staying = counted(plan.staying_count, "connection");
    let mut text = match plan.ending.len() {
        0 => format!("no connection would end; {staying} would go on\n"),
        count => format!(
            "{} would end; {staying} would go on\n",
            counted(count as u64, "connection")
        ),
    };
    for connection in &plan.ending {
        let host = connection.host.as_ref();
        let host = host.map_or_else(String::new, |host| format!(" ({host})"));
        text += &format!(
            "  {} by {}{host} over {}\n",
            connection.lun, connection.client, connection.protocol
        );
    }
    text
}
