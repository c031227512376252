//! `everglade aggregate …`.

use std::fmt::Write as _;

use everglade_api::{
    Aggregate, AggregateState, Aggregates, CreateAggregate, CreationPlan, Device, DeviceKind,
    DeviceState, DriveFaults, Rename, Size, Volume, Volumes, counted,
};
use serde_json::json;

use crate::failure::{Failure, exit};
use crate::growth;
use crate::listing::{self, Cell, Column, if_asked};
use crate::moving;
use crate::output::{Output, size};
use crate::path::absolute;
use crate::rebalance;
use crate::removal;
use crate::replacement;
use crate::scrub;
use crate::session::Session;
use crate::spare;
use crate::table::{Align, Table};
use crate::verb::{AggregateCreate, AggregateDelete, AggregateVerb};

/// The columns of aggregates. `df` shows a different selection of them.
const COLUMNS: [Column<Aggregate>; 22] = [
    Column::text("name", |it| Cell::text(&it.name)),
    Column::words("state", "AggregateState", |it| Cell::text(it.state)),
    Column::bytes("size", |it| Cell::Bytes(it.size_bytes)),
    Column::bytes("used", |it| Cell::Bytes(it.used_bytes)),
    Column::bytes("free", |it| Cell::Bytes(it.free_bytes)),
    Column::count("volumes", |it| Cell::Count(it.volume_count)),
    Column::count("devices", |it| Cell::Count(it.devices.len() as u64)),
    if_asked(Column::text("uuid", |it| Cell::text(&it.uuid))),
    if_asked(Column::text("raid", |it| Cell::text(&it.raid))),
    if_asked(Column::count("group-size", |it| {
        it.group_size.map_or(Cell::None, Cell::Count)
    })),
    if_asked(Column::count("drives-lost", |it| {
        Cell::Count(it.devices.iter().filter(|device| is_lost(device)).count() as u64)
    })),
    if_asked(Column::bytes("reserve", |it| Cell::Bytes(it.reserve_bytes))),
    if_asked(Column::bytes("pending", |it| {
        Cell::Bytes(it.pending_free_bytes)
    })),
    if_asked(Column::bytes("lun-sizes", |it| {
        Cell::Bytes(it.logical_bytes)
    })),
    if_asked(Column::bytes("shared", |it| Cell::Bytes(it.shared_bytes))),
    if_asked(Column::bytes("dirty", |it| Cell::Bytes(it.dirty_bytes))),
    if_asked(Column::bytes("from-host", |it| {
        Cell::Bytes(it.host_backed_bytes)
    })),
    if_asked(Column::bytes("host-free", |it| {
        Cell::bytes(it.host_free_bytes)
    })),
    if_asked(Column::count("cp", |it| Cell::Count(it.committed_cp))),
    if_asked(Column::count("back-to-back", |it| {
        it.cp
            .as_ref()
            .map_or(Cell::None, |cp| Cell::Count(cp.back_to_back))
    })),
    if_asked(Column::bytes("journal-half", |it| {
        Cell::bytes(it.journal.as_ref().map(|journal| journal.half_bytes))
    })),
    if_asked(Column::percent("journal-fill", |it| {
        let journal = it.journal.as_ref();
        journal.map_or(Cell::None, |journal| Cell::Percent(journal.fill_percent))
    })),
];

pub(crate) fn run(
    verb: &AggregateVerb,
    session: &Session,
    output: &Output,
    yes: bool,
) -> Result<u8, Failure> {
    match verb {
        AggregateVerb::Create(create) => {
            let request = request(create, yes)?;
            if create.dry_run {
                let told = session.post::<CreationPlan>("/v1/aggregates", &request)?;
                output.data(&told.raw, || plan(&told.meant))?;
            } else {
                let told = session.post::<Aggregate>("/v1/aggregates", &request)?;
                output.made(&told.raw, || listing::of_one(&told.meant, &COLUMNS))?;
            }
        }
        AggregateVerb::Show(show) => match &show.name {
            Some(name) => {
                listing::for_one(&COLUMNS, &show.listing)?;
                let told = session.get::<Aggregate>(&format!("/v1/aggregates/{name}"))?;
                if show.listing.columns.is_empty() {
                    output.data(&told.raw, || details(&told.meant, show.listing.exact))?;
                } else {
                    listing::print_one(&told, &COLUMNS, &show.listing, output)?;
                }
            }
            None => {
                let told = session.get::<Aggregates>("/v1/aggregates")?;
                let items = ("aggregates", told.meant.aggregates.as_slice());
                listing::print(&told, items, &COLUMNS, &show.listing, output)?;
            }
        },
        AggregateVerb::Rename(rename) => {
            let path = format!("/v1/aggregates/{}/actions/rename", rename.name);
            let name = rename.to.clone();
            let told = session.post::<Aggregate>(&path, &Rename { name })?;
            output.made(&told.raw, || listing::of_one(&told.meant, &COLUMNS))?;
        }
        AggregateVerb::Add(add) => growth::add(add, session, output, yes)?,
        AggregateVerb::Resize(resize) => growth::resize(resize, session, output)?,
        AggregateVerb::Replace(replace) => replacement::replace(replace, session, output, yes)?,
        AggregateVerb::Remove(remove) => removal::remove(remove, session, output)?,
        AggregateVerb::Rebalance(of) => rebalance::rebalance(of, session, output)?,
        AggregateVerb::Spare { verb } => spare::spare(verb, session, output)?,
        AggregateVerb::Scrub { verb } => scrub::scrub(verb, session, output)?,
        AggregateVerb::Export(export) => moving::export(export, session, output)?,
        AggregateVerb::Import(import) => moving::import(import, &COLUMNS, session, output)?,
        AggregateVerb::Delete(delete) => delete_one(delete, session, output, yes)?,
    }
    Ok(exit::OK)
}

fn delete_one(
    delete: &AggregateDelete,
    session: &Session,
    output: &Output,
    yes: bool,
) -> Result<(), Failure> {
    let path = format!("/v1/aggregates/{}", delete.name);
    if delete.dry_run || !yes {
        let aggregate = session.get::<Aggregate>(&path)?.meant;
        let all = session
            .get::<Aggregates>("/v1/aggregates")?
            .meant
            .aggregates;
        let obstacle = match all.len() {
            0 | 1 => Some("it is the only aggregate, make another first"),
            _ => None,
        };
        let mut volumes = session.get::<Volumes>("/v1/volumes")?.meant.volumes;
        volumes.retain(|volume| volume.aggregate == aggregate.name);
        let options = options(&aggregate, &volumes);
        if !delete.dry_run {
            let what = loss(&aggregate, &volumes);
            return Err(Failure::not_confirmed_by(options, what, obstacle));
        }
        let raw = listing::versioned(json!({
            "would": "aggregate delete", "object": aggregate.name, "obstacle": obstacle,
            "needs_discard_volumes": needs_discard_volumes(&aggregate, &volumes),
            "lost": {"aggregate": aggregate, "volumes": volumes},
        }));
        return output.data(&raw, || losses(&aggregate, &volumes, obstacle));
    }
    let (discard, disconnect) = (delete.discard_volumes, delete.disconnect);
    let query = format!("?discard_volumes={discard}&disconnect={disconnect}");
    session.remove(&format!("{path}{query}"))?;
    output.for_programs(&listing::versioned(json!({"deleted": delete.name})))?;
    output.done(&format!("deleted aggregate {}", delete.name));
    Ok(())
}

/// Returns whether a device is not in use, although its aggregate is.
fn is_lost(device: &Device) -> bool {
    device
        .state
        .is_some_and(|state| state != DeviceState::Online)
}

/// Returns whether the aggregate could not be opened, so that its contents are unknown.
fn is_unknown(aggregate: &Aggregate) -> bool {
    aggregate.state == AggregateState::Unavailable
}

fn needs_discard_volumes(aggregate: &Aggregate, volumes: &[Volume]) -> bool {
    is_unknown(aggregate) || !volumes.is_empty()
}

/// Returns the options that the deletion needs.
fn options(aggregate: &Aggregate, volumes: &[Volume]) -> &'static str {
    match needs_discard_volumes(aggregate, volumes) {
        true => "--yes and --discard-volumes",
        false => "--yes",
    }
}

/// Describes the data lost with an aggregate.
fn loss(aggregate: &Aggregate, volumes: &[Volume]) -> String {
    let name = &aggregate.name;
    match volumes.len() {
        _ if is_unknown(aggregate) => {
            format!("aggregate {name}, which cannot be opened and may have volumes,")
        }
        0 => format!("aggregate {name}, which has no volumes,"),
        1 => format!("aggregate {name} with its volume {}", volumes[0].name),
        count => format!("aggregate {name} with its {count} volumes"),
    }
}

/// Describes the data lost item by item, and the effect on the devices.
fn losses(aggregate: &Aggregate, volumes: &[Volume], obstacle: Option<&str>) -> String {
    let mut text = format!("{} would be lost for good\n", loss(aggregate, volumes));
    for volume in volumes {
        let luns = counted(volume.lun_count, "LUN");
        let bytes = Size(volume.logical_bytes);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  volume {} ({luns}, {bytes} in all)", volume.name);
    }
    for device in &aggregate.devices {
        let fate = match device.kind {
            DeviceKind::Directory => "its segment files would be removed",
            DeviceKind::File | DeviceKind::Block => "its labels would be overwritten",
        };
        let _ = writeln!(text, "  {} {}: {fate}", device.kind, device.path);
    }
    // Writing to a String cannot fail.
    let _ = writeln!(text, "it needs {}", options(aggregate, volumes));
    if let Some(obstacle) = obstacle {
        let _ = writeln!(text, "not now: {obstacle}");
    }
    text
}

fn request(create: &AggregateCreate, yes: bool) -> Result<CreateAggregate, Failure> {
    let devices = create
        .devices
        .iter()
        .map(|path| absolute(path, "--devices"));
    let journal = create.journal_device.as_deref();
    Ok(CreateAggregate {
        name: create.name.clone(),
        raid: create.raid.into(),
        group_size: create.group_size,
        devices: devices.collect::<Result<_, _>>()?,
        size_bytes: create.size.map(Size::bytes),
        journal_device: journal
            .map(|path| absolute(path, "--journal-device"))
            .transpose()?,
        journal_half_bytes: create.journal_half.map(Size::bytes),
        area_bytes: create.area_size.map(Size::bytes),
        discard_contents: yes,
        dry_run: create.dry_run,
    })
}

/// Describes the aggregate that would be created, and the data that would be lost.
fn plan(plan: &CreationPlan) -> String {
    let mut text = format!(
        "aggregate {} would have {}\n\n",
        plan.name,
        Size(plan.size_bytes)
    );
    let has_groups = plan.devices.iter().any(|device| device.group.is_some());
    let group = has_groups.then_some(("GROUP", Align::Right));
    let columns = [
        ("DEVICE", Align::Left),
        ("KIND", Align::Left),
        ("SIZE", Align::Right),
        ("FOR", Align::Left),
    ];
    let columns = columns.into_iter().chain(group);
    let columns = columns.chain([("WOULD LOSE", Align::Left)]);
    let mut table = Table::new(columns.map(|(name, align)| (name.to_owned(), align)));
    for device in &plan.devices {
        let lost = if device.holds_data {
            "what it holds; needs --yes"
        } else {
            "nothing"
        };
        let cells = [
            device.path.clone(),
            device.kind.to_string(),
            Size(device.size_bytes).to_string(),
            if device.is_journal { "journal" } else { "data" }.to_owned(),
        ];
        let group = has_groups.then(|| number(device.group));
        let cells = cells.into_iter().chain(group);
        table.row(cells.chain([lost.to_owned()]).collect());
    }
    text.push_str(&table.text(true));
    text
}

/// Returns a number that may be absent.
fn number(value: Option<u64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Describes one aggregate in full.
fn details(aggregate: &Aggregate, exact: bool) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:>18}: {value}");
    };
    line("aggregate", &aggregate.name);
    line("state", &aggregate.state.to_string());
    if let Some(reason) = &aggregate.reason {
        line("reason", reason);
    }
    line("uuid", &aggregate.uuid);
    match aggregate.group_size {
        None => line("raid", &aggregate.raid),
        Some(size) => {
            let text = format!("{}, groups of {size} drives", aggregate.raid);
            line("raid", &text);
        }
    }
    for (name, bytes) in [
        ("size", aggregate.size_bytes),
        ("used", aggregate.used_bytes),
        ("free", aggregate.free_bytes),
        ("reserve", aggregate.reserve_bytes),
        ("being freed", aggregate.pending_free_bytes),
        ("allocation area", aggregate.area_bytes),
        ("LUN sizes", aggregate.logical_bytes),
        ("shared", aggregate.shared_bytes),
        ("dirty in memory", aggregate.dirty_bytes),
        ("taken from host", aggregate.host_backed_bytes),
    ] {
        line(name, &size(bytes, exact));
    }
    if let Some(free) = aggregate.host_free_bytes {
        line("free on host", &size(free, exact));
    }
    line("volumes", &aggregate.volume_count.to_string());
    line("consistency points", &aggregate.committed_cp.to_string());
    if let Some(cp) = &aggregate.cp {
        let counts = cp.by_trigger.iter().filter(|(_, count)| **count > 0);
        let counts: Vec<_> = counts
            .map(|(name, count)| format!("{count} {name}"))
            .collect();
        let counts = match counts.as_slice() {
            [] => "none".to_owned(),
            counts => counts.join(", "),
        };
        line(
            "since start",
            &format!("{counts}; {} back to back", cp.back_to_back),
        );
    }
    let damage = &aggregate.damage;
    if damage.lost_block_count + damage.unreadable_block_count > 0 {
        let (lost, unreadable) = (damage.lost_block_count, damage.unreadable_block_count);
        line(
            "damage",
            &format!(
                "{} cannot be read, {lost} lost",
                counted(unreadable, "block")
            ),
        );
        for found in &damage.lines {
            line("", found);
        }
    }
    let mended: u64 = damage.mended.values().sum();
    if mended > 0 {
        let blocks = counted(mended, "block");
        let text = format!("{blocks} of metadata, derived from others; nothing was lost");
        line("mended", &text);
        for found in &damage.mended_lines {
            line("", found);
        }
    }
    if damage.metadata_damaged_count > 0 {
        let text = format!(
            "{} of metadata, which cannot be derived",
            counted(damage.metadata_damaged_count, "block")
        );
        line("damaged", &text);
        for found in &damage.metadata_damaged {
            line("", found);
        }
    }
    if let Some(copies) = &aggregate.copies {
        let text = format!(
            "{} blocks were wrong on one drive and read from another, {} of them written again",
            copies.read_elsewhere_block_count, copies.rewritten_block_count
        );
        line("copies", &text);
    }
    if let Some(stripes) = &aggregate.stripes {
        let text = format!(
            "{} written whole, {} in part with {} blocks read; {} blocks reconstructed",
            stripes.full_count,
            stripes.partial_count,
            stripes.read_block_count,
            stripes.reconstructed_block_count
        );
        line("stripes", &text);
    }
    match &aggregate.journal {
        None => line("journal", "none: a flush is a consistency point"),
        Some(journal) => {
            let half = size(journal.half_bytes, exact);
            let text = format!("two halves of {half}, {} % filled", journal.fill_percent);
            line("journal", &text);
        }
    }
    if let Some(removal) = &aggregate.removal {
        let devices = removal.devices.join(", ");
        line(
            "removal",
            &format!("{devices}: {}", removal::progress(removal)),
        );
    }
    if let Some(recovery) = &aggregate.recovery {
        let text = format!(
            "{} ({}) given back by the journal in {} ms",
            counted(recovery.operation_count, "operation"),
            size(recovery.bytes, exact),
            recovery.duration_ms
        );
        line("last recovery", &text);
    }
    format!("{text}\n{}", devices(aggregate, exact))
}

/// Returns the table of an aggregate's devices. Those of a mirror have a group, a column in it, and
/// a state.
fn devices(aggregate: &Aggregate, exact: bool) -> String {
    let has_groups = aggregate.group_size.is_some();
    let seat = [
        ("GROUP", Align::Right),
        ("COLUMN", Align::Right),
        ("STATE", Align::Left),
        ("ERRORS", Align::Right),
        ("WRONG", Align::Right),
        ("MENDED", Align::Right),
    ];
    let seat = seat.into_iter().filter(|_| has_groups);
    let columns = [
        ("DEVICE", Align::Left),
        ("KIND", Align::Left),
        ("SIZE", Align::Right),
    ];
    let columns = columns.into_iter().chain(seat);
    let mut table = Table::new(columns.map(|(name, align)| (name.to_owned(), align)));
    for device in &aggregate.devices {
        let bytes = size(device.size_bytes, exact);
        let mut cells = vec![device.path.clone(), device.kind.to_string(), bytes];
        if has_groups {
            cells.extend([
                number(device.group),
                number(device.column),
                replacement::state(device),
            ]);
            let faults = device.faults;
            let count = |of: fn(&DriveFaults) -> u64| number(faults.as_ref().map(of));
            cells.extend([
                count(|it| it.read_error_count + it.write_error_count),
                count(|it| it.wrong_block_count),
                count(|it| it.mended_block_count),
            ]);
        }
        table.row(cells);
    }
    table.text(true)
}

#[cfg(test)]
mod tests {
    use everglade_api::PlannedDevice;

    use super::*;

    #[test]
    fn a_plan_of_a_mirror_shows_its_groups() {
        let device = |path: &str, group| PlannedDevice {
            path: path.to_owned(),
            kind: DeviceKind::File,
            size_bytes: 1 << 30,
            holds_data: false,
            is_journal: false,
            group,
        };
        let of = |groups: [Option<u64>; 2]| CreationPlan {
            name: "a".to_owned(),
            size_bytes: 1 << 30,
            devices: vec![device("/f", groups[0]), device("/g", groups[1])],
        };
        assert_eq!(
            plan(&of([Some(1), Some(1)])),
            "aggregate a would have 1.0 GiB\n\n\
            DEVICE  KIND     SIZE  FOR   GROUP  WOULD LOSE\n\
            /f      file  1.0 GiB  data      1  nothing\n\
            /g      file  1.0 GiB  data      1  nothing\n"
        );
        assert!(!plan(&of([None, None])).contains("GROUP"));
    }
}
