//! Requests to the gardener.

use everglade_format::SPAN;

use crate::change::Error;
use crate::home::aggregate::Home;
use crate::home::find::find_lun;
use crate::home::gardener::LayoutJob;
use crate::pool::garden::{GardeningState, LayoutInfo};

/// Begins to empty the areas of which at least so many percent are free.
pub(super) fn start_cleaning(home: &mut Home, least_free_percent: u8) -> Result<(), Error> {
    if !(1..=100).contains(&least_free_percent) {
        let problem = format!("{least_free_percent} is not from 1 to 100 percent");
        return Err(Error::Invalid {
            field: "least_free_percent",
            problem,
        });
    }
    home.start_cleaning(least_free_percent);
    Ok(())
}

/// Begins to put a LUN in order.
pub(super) fn start_layout(
    home: &mut Home,
    seconds: u64,
    (volume, name): (&str, &str),
    is_estimate: bool,
) -> Result<(), Error> {
    let (found, lun) = find_lun(home, volume, name)?;
    let volume_id = found.shared.id;
    let file = &found.fs.files[&lun.file];
    let total_regions = file.inode.block_count().div_ceil(SPAN);
    if home.gardener.layout().is_some() {
        let under_way = &home.gardener.info().layout;
        return Err(Error::Busy(format!(
            "LUN {}/{} is being put in order; wait for it, or stop it with 'garden stop'",
            under_way.volume, under_way.lun
        )));
    }
    let job = LayoutJob {
        volume: volume_id,
        lun: lun.file,
        next: 0,
        is_estimate,
    };
    let info = LayoutInfo {
        state: GardeningState::Running,
        volume: volume.to_owned(),
        lun: name.to_owned(),
        is_estimate,
        total_regions,
        begun_seconds: seconds,
        ..LayoutInfo::default()
    };
    home.gardener.start_layout(job, info);
    home.tell_garden();
    Ok(())
}
