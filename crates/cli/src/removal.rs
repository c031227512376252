//! `everglade aggregate remove`: devices leave an aggregate that goes on.

use everglade_api::{Removal, RemovalState, RemoveDevice, Size, counted};

use crate::failure::{Failure, exit};
use crate::output::Output;
use crate::path::absolute;
use crate::session::Session;
use crate::status::duration;
use crate::verb::AggregateRemove;
use crate::wait::until_done;

pub(crate) fn remove(
    remove: &AggregateRemove,
    session: &Session,
    output: &Output,
) -> Result<(), Failure> {
    let name = &remove.name;
    if remove.stop {
        let path = format!("/v1/aggregates/{name}/actions/stop-removal");
        let told = session.act::<Removal>(&path)?;
        return output.made(&told.raw, || {
            format!("devices of aggregate {name} that were being removed stay\n")
        });
    }
    let show = format!("/v1/aggregates/{name}/removal");
    let told = match &remove.device {
        None => session.get::<Removal>(&show)?,
        Some(device) => {
            let request = RemoveDevice {
                device: absolute(device, "DEVICE")?,
                dry_run: remove.dry_run,
            };
            session.post::<Removal>(&format!("/v1/aggregates/{name}/actions/remove"), &request)?
        }
    };
    if !remove.wait {
        return match told.meant.state {
            RemovalState::None | RemovalState::Planned => {
                output.data(&told.raw, || text(&told.meant))
            }
            _ => output.made(&told.raw, || text(&told.meant)),
        };
    }
    let told = until_done(
        output,
        told,
        |removal| (removal.state != RemovalState::None).then(|| progress(removal)),
        |_| session.get::<Removal>(&show),
        |_| {
            let text = format!(
                "interrupted; the removal goes on: 'everglade aggregate remove {name}' shows it"
            );
            Failure::new(exit::INTERRUPTED, text)
        },
    )?;
    output.made(&told.raw, || {
        format!("nothing is being removed from aggregate {name} any more\n")
    })
}

/// Describes a removal, or what it would leave.
fn text(removal: &Removal) -> String {
    let Removal {
        aggregate, state, ..
    } = removal;
    let devices = removal.devices.join(", ");
    let size = Size(removal.size_bytes);
    match state {
        RemovalState::None => format!("nothing is being removed from aggregate {aggregate}\n"),
        RemovalState::Planned => format!(
            "would move all blocks of {devices} to the other devices of {aggregate}, and remove it \
            then; {size} would be left\n"
        ),
        _ => format!(
            "{devices} of aggregate {aggregate}: {}\n{}",
            progress(removal),
            advice(removal)
        ),
    }
}

/// Describes the progress of a removal in one line.
pub(crate) fn progress(removal: &Removal) -> String {
    let (Some(left), Some(total)) = (removal.left_bytes, removal.total_bytes) else {
        return "being removed; its blocks are counted".to_owned();
    };
    let eta = match removal.eta_seconds {
        Some(seconds) => format!(", {} left", duration(seconds)),
        None => String::new(),
    };
    let rate = Size(removal.bytes_per_second);
    let word = match removal.state {
        RemovalState::Waiting => "waits for free space",
        RemovalState::Paused => "paused, as gardening is",
        RemovalState::Stuck => "cannot be emptied",
        _ => "being removed",
    };
    let (left, total) = (Size(left), Size(total));
    format!(
        "{word}: {} %, {left} of {total} to move, {rate}/s{eta}",
        removal.percent
    )
}

fn advice(removal: &Removal) -> String {
    let name = &removal.aggregate;
    match removal.state {
        RemovalState::Waiting => format!(
            "the other devices are full; delete something, add another device, or let it stay: \
            everglade aggregate remove {name} --stop\n"
        ),
        RemovalState::Paused => format!(
            "see why, and let gardening go on: everglade garden show {name}, everglade garden \
            resume {name}\n"
        ),
        RemovalState::Stuck => format!(
            "{} cannot be read, so they cannot be moved; delete what has them, or let it stay: \
            everglade aggregate remove {name} --stop\n",
            counted(removal.stuck_block_count, "block")
        ),
        _ => format!("see how far it is: everglade aggregate remove {name}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_says_how_far_it_is_and_what_to_do() {
        let removal = Removal {
            aggregate: "fast".to_owned(),
            state: RemovalState::Running,
            devices: vec!["/dev/sdb".to_owned()],
            size_bytes: 1 << 40,
            ..Removal::default()
        };
        let said = text(&removal);
        assert!(
            said.starts_with("/dev/sdb of aggregate fast: being removed; "),
            "{said}"
        );
        let moving = Removal {
            total_bytes: Some(4 << 30),
            left_bytes: Some(1 << 30),
            percent: 75,
            bytes_per_second: 64 << 20,
            eta_seconds: Some(16),
            ..removal
        };
        let said = text(&moving);
        assert!(
            said.contains("75 %, 1.0 GiB of 4.0 GiB to move, 64.0 MiB/s, 16s left"),
            "{said}"
        );
        let stuck = text(&Removal {
            state: RemovalState::Stuck,
            stuck_block_count: 2,
            ..moving.clone()
        });
        assert!(
            stuck.contains("2 blocks cannot be read") && stuck.contains("--stop"),
            "{stuck}"
        );
        let planned = text(&Removal {
            state: RemovalState::Planned,
            ..moving
        });
        assert!(planned.contains("1.0 TiB would be left"), "{planned}");
    }
}
