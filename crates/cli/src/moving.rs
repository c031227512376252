//! `everglade aggregate export` and `everglade aggregate import`.

use std::path::PathBuf;

use everglade_api::{
    Aggregate, ExportedAggregate, FoundAggregate, FoundAggregates, ImportAggregate, ImportPlan,
    ScanFolders, counted, shell_word,
};

use crate::failure::Failure;
use crate::listing::{self, Column};
use crate::output::Output;
use crate::path::absolute;
use crate::session::Session;
use crate::verb::{AggregateExport, AggregateImport};

pub(crate) fn export(
    export: &AggregateExport,
    session: &Session,
    output: &Output,
) -> Result<(), Failure> {
    let path = format!("/v1/aggregates/{}/actions/export", export.name);
    let told = session.post::<ExportedAggregate>(&path, &serde_json::json!({}))?;
    output.made(&told.raw, || exported(&told.meant))
}

/// Says how to take the aggregate up again.
fn exported(aggregate: &ExportedAggregate) -> String {
    let devices: Vec<String> = aggregate.devices.iter().map(|it| shell_word(it)).collect();
    format!(
        "exported aggregate {}; to take it up again:\n  everglade aggregate import {}\n",
        aggregate.name,
        devices.join(" ")
    )
}

pub(crate) fn import(
    import: &AggregateImport,
    columns: &[Column<Aggregate>],
    session: &Session,
    output: &Output,
) -> Result<(), Failure> {
    if !import.scan.is_empty() {
        return scan(&import.scan, session, output);
    }
    let devices = import.devices.iter().map(|path| absolute(path, "PATH"));
    let request = ImportAggregate {
        devices: devices.collect::<Result<_, _>>()?,
        name: import.name.clone(),
        accept_rollback: import.accept_rollback,
        read_only: import.read_only,
        dry_run: import.dry_run,
    };
    let path = "/v1/aggregates/actions/import";
    let named = |failure: Failure| failure.of_argument("--devices", "PATH");
    if import.dry_run {
        let told = session.post::<ImportPlan>(path, &request).map_err(named)?;
        return output.data(&told.raw, || plan(&told.meant));
    }
    let told = session.post::<Aggregate>(path, &request).map_err(named)?;
    output.made(&told.raw, || listing::of_one(&told.meant, columns))
}

/// Lists the aggregates whose devices are in these folders, each with the command that imports
/// it.
fn scan(folders: &[PathBuf], session: &Session, output: &Output) -> Result<(), Failure> {
    let folders = folders.iter().map(|path| absolute(path, "--scan"));
    let request = ScanFolders {
        folders: folders.collect::<Result<_, _>>()?,
    };
    let told = session.post::<FoundAggregates>("/v1/aggregates/actions/scan", &request);
    let told = told.map_err(|failure| failure.of_option("folders", "--scan"))?;
    output.data(&told.raw, || found(&told.meant))
}

fn found(all: &FoundAggregates) -> String {
    let looked = format!("looked at {}", counted(all.looked_at_count, "path"));
    let unread = match all.unreadable_count {
        0 => String::new(),
        count => format!("; {count} of them are in use, or cannot be read"),
    };
    if all.aggregates.is_empty() {
        return format!("no aggregate that is not open here; {looked}{unread}\n");
    }
    let mut text = String::new();
    for aggregate in &all.aggregates {
        let FoundAggregate { name, uuid, .. } = aggregate;
        let devices: Vec<String> = aggregate.devices.iter().map(|it| shell_word(it)).collect();
        let devices = devices.join(" ");
        match (&aggregate.problem, aggregate.missing_count) {
            (Some(problem), _) => {
                text.push_str(&format!(
                    "{name} ({uuid}) on {devices}\n  not now: {problem}\n"
                ));
            }
            (None, missing) => {
                let missing = match missing {
                    0 => String::new(),
                    missing => format!(", {missing} missing"),
                };
                let count = counted(aggregate.device_count, "device");
                text.push_str(&format!(
                    "{name} ({uuid}), {count}{missing}\n  everglade aggregate import {devices}\n"
                ));
            }
        }
    }
    text.push_str(&format!("{looked}{unread}\n"));
    text
}

/// Describes the aggregate that would be imported.
fn plan(plan: &ImportPlan) -> String {
    let name = match plan.name == plan.former_name {
        true => plan.name.clone(),
        false => format!("{}, as {}", plan.former_name, plan.name),
    };
    let devices = match plan.missing_count {
        0 => counted(plan.device_count, "device"),
        missing => format!(
            "{}, {missing} missing",
            counted(plan.device_count, "device")
        ),
    };
    format!(
        "would import aggregate {name} ({}) at consistency point {}, with {devices}\n",
        plan.uuid, plan.committed_cp
    )
}
