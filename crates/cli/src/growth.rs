//! `everglade aggregate add` and `everglade aggregate resize`.

use everglade_api::{AddDevices, GrownDevice, Growth, ResizeAggregate, Size};

use crate::failure::Failure;
use crate::output::Output;
use crate::path::absolute;
use crate::session::{Answer, Session};
use crate::table::{Align, Table};
use crate::verb::{AggregateAdd, AggregateResize};

pub(crate) fn add(
    add: &AggregateAdd,
    session: &Session,
    output: &Output,
    yes: bool,
) -> Result<(), Failure> {
    let devices = add.devices.iter().map(|path| absolute(path, "--devices"));
    let request = AddDevices {
        devices: devices.collect::<Result<_, _>>()?,
        size_bytes: add.size.map(Size::bytes),
        group: add.group.map(u64::from),
        parity: add.parity,
        discard_contents: yes,
        dry_run: add.dry_run,
    };
    let path = format!("/v1/aggregates/{}/actions/add", add.name);
    show(&session.post::<Growth>(&path, &request)?, output)
}

pub(crate) fn resize(
    resize: &AggregateResize,
    session: &Session,
    output: &Output,
) -> Result<(), Failure> {
    let device = resize.device.as_deref();
    let request = ResizeAggregate {
        device: device.map(|path| absolute(path, "--device")).transpose()?,
        size_bytes: resize.size.map(Size::bytes),
        dry_run: resize.dry_run,
    };
    let path = format!("/v1/aggregates/{}/actions/resize", resize.name);
    show(&session.post::<Growth>(&path, &request)?, output)
}

fn show(told: &Answer<Growth>, output: &Output) -> Result<(), Failure> {
    if told.meant.dry_run {
        output.data(&told.raw, || text(&told.meant))
    } else {
        output.made(&told.raw, || text(&told.meant))
    }
}

/// Describes what became larger, or what would become larger and what would be lost.
fn text(growth: &Growth) -> String {
    let name = &growth.aggregate;
    let (before, after) = (Size(growth.former_size_bytes), Size(growth.size_bytes));
    let verb = if growth.dry_run { "would grow" } else { "grew" };
    let mut columns = vec![
        ("DEVICE", Align::Left),
        ("KIND", Align::Left),
        ("BEFORE", Align::Right),
        ("AFTER", Align::Right),
    ];
    if growth.dry_run {
        columns.push(("WOULD LOSE", Align::Left));
    }
    let columns = columns.into_iter();
    let mut table = Table::new(columns.map(|(name, align)| (name.to_owned(), align)));
    for device in &growth.devices {
        let mut cells = row(device);
        if growth.dry_run {
            let lost = match device.holds_data {
                true => "what it holds; needs --yes",
                false => "nothing",
            };
            cells.push(lost.to_owned());
        }
        table.row(cells);
    }
    let what = match (
        growth.former_size_bytes == growth.size_bytes,
        growth.dry_run,
    ) {
        (false, _) => format!("aggregate {name} {verb} from {before} to {after}"),
        (true, false) => format!("aggregate {name} has more redundancy as soon as these catch up"),
        (true, true) => format!("aggregate {name} would get more redundancy, and no space"),
    };
    format!("{what}\n\n{}", table.text(true))
}

fn row(device: &GrownDevice) -> Vec<String> {
    let former = device.former_size_bytes;
    vec![
        device.path.clone(),
        device.kind.to_string(),
        former.map_or_else(|| "new".to_owned(), |bytes| Size(bytes).to_string()),
        Size(device.size_bytes).to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use everglade_api::DeviceKind;

    use super::*;

    fn growth(dry_run: bool) -> Growth {
        let device = |path: &str, former_size_bytes, holds_data| GrownDevice {
            path: path.to_owned(),
            kind: DeviceKind::File,
            former_size_bytes,
            size_bytes: 4 << 30,
            holds_data,
        };
        Growth {
            aggregate: "a".to_owned(),
            dry_run,
            former_size_bytes: 2 << 30,
            size_bytes: 8 << 30,
            reserve_bytes: 128 << 20,
            devices: vec![device("/f", Some(1 << 30), false), device("/g", None, true)],
        }
    }

    #[test]
    fn a_growth_is_told_with_its_devices() {
        let said = text(&growth(false));
        assert_eq!(
            said,
            "aggregate a grew from 2.0 GiB to 8.0 GiB\n\n\
            DEVICE  KIND   BEFORE    AFTER\n\
            /f      file  1.0 GiB  4.0 GiB\n\
            /g      file      new  4.0 GiB\n"
        );
    }

    #[test]
    fn a_plan_says_what_would_be_lost() {
        let said = text(&growth(true));
        assert!(
            said.starts_with("aggregate a would grow from 2.0 GiB to 8.0 GiB\n"),
            "{said}"
        );
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[3].ends_with("nothing"), "{said}");
        assert!(lines[4].ends_with("needs --yes"), "{said}");
    }
}
