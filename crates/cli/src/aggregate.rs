//! `everglade aggregate …`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use everglade_api::{Aggregate, Aggregates, CreateAggregate};

use crate::failure::{Failure, exit};
use crate::output::{Output, size};
use crate::session::Session;
use crate::table::{Align, Table};
use crate::verb::{AggregateCreate, AggregateVerb};

pub(crate) fn run(
    verb: &AggregateVerb,
    session: &Session,
    output: &Output,
    yes: bool,
) -> Result<u8, Failure> {
    match verb {
        AggregateVerb::Create(create) => {
            let request = request(create, yes)?;
            let told = session.post::<Aggregate>("/v1/aggregates", &request)?;
            output.made(&told.raw, || table(&[told.meant], false))?;
        }
        AggregateVerb::Show(show) => match &show.name {
            Some(name) => {
                let told = session.get::<Aggregate>(&format!("/v1/aggregates/{name}"))?;
                output.data(&told.raw, || details(&told.meant, show.exact))?;
            }
            None => {
                let told = session.get::<Aggregates>("/v1/aggregates")?;
                output.data(&told.raw, || table(&told.meant.aggregates, show.exact))?;
            }
        },
    }
    Ok(exit::OK)
}

fn request(create: &AggregateCreate, yes: bool) -> Result<CreateAggregate, Failure> {
    let devices = create.devices.iter().map(|path| absolute(path));
    Ok(CreateAggregate {
        name: create.name.clone(),
        devices: devices.collect::<Result<_, _>>()?,
        size_bytes: create.size.map(everglade_api::Size::bytes),
        discard_contents: yes,
    })
}

/// As the daemon must have it, who has another current directory. Links stay links.
fn absolute(path: &Path) -> Result<String, Failure> {
    let refuse = |why: &dyn std::fmt::Display| {
        Failure::new(exit::USAGE, format!("--devices: {}: {why}", path.display()))
    };
    let path: PathBuf = std::path::absolute(path).map_err(|error| refuse(&error))?;
    let text = path.into_os_string().into_string();
    text.map_err(|_| refuse(&"not UTF-8; give it a name in UTF-8"))
}

fn table(aggregates: &[Aggregate], exact: bool) -> String {
    let mut table = Table::new(&[
        ("NAME", Align::Left),
        ("STATE", Align::Left),
        ("SIZE", Align::Right),
        ("USED", Align::Right),
        ("FREE", Align::Right),
        ("VOLUMES", Align::Right),
        ("DEVICES", Align::Right),
    ]);
    for aggregate in aggregates {
        table.row([
            aggregate.name.clone(),
            aggregate.state.to_string(),
            size(aggregate.size_bytes, exact),
            size(aggregate.used_bytes, exact),
            size(aggregate.free_bytes, exact),
            aggregate.volume_count.to_string(),
            aggregate.devices.len().to_string(),
        ]);
    }
    table.text()
}

/// All about one.
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
    line("raid", &aggregate.raid);
    for (name, bytes) in [
        ("size", aggregate.size_bytes),
        ("used", aggregate.used_bytes),
        ("free", aggregate.free_bytes),
        ("reserve", aggregate.reserve_bytes),
        ("being freed", aggregate.pending_free_bytes),
        ("LUN sizes", aggregate.logical_bytes),
        ("taken from host", aggregate.host_backed_bytes),
    ] {
        line(name, &size(bytes, exact));
    }
    if let Some(free) = aggregate.host_free_bytes {
        line("free on host", &size(free, exact));
    }
    line("volumes", &aggregate.volume_count.to_string());
    line("consistency points", &aggregate.committed_cp.to_string());
    let mut table = Table::new(&[
        ("DEVICE", Align::Left),
        ("KIND", Align::Left),
        ("SIZE", Align::Right),
    ]);
    for device in &aggregate.devices {
        let bytes = size(device.size_bytes, exact);
        table.row([device.path.clone(), device.kind.to_string(), bytes]);
    }
    format!("{text}\n{}", table.text())
}
