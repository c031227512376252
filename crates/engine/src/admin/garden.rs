//! Requests to the gardener.

use std::collections::BTreeMap;

use everglade_format::SPAN;

use crate::change::Error;
use crate::home::aggregate::Home;
use crate::home::find::find_lun;
use crate::home::gardener::LayoutJob;
use crate::home::rebalance::Rebalance;
use crate::pool::garden::{GardeningState, LayoutInfo, LayoutPart};

/// Parts of a LUN in an estimate.
const PARTS_MAX: u64 = 256;

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

/// Begins to make devices about equally full.
pub(super) fn start_rebalance(home: &mut Home, seconds: u64) -> Result<(), Error> {
    if home.removing.is_some() {
        let text = "a device is being removed, so all its blocks move anyway; wait for that";
        return Err(Error::Busy(text.to_owned()));
    }
    if home.gardener.rebalances() {
        let text = "a rebalance is under way; see 'garden show', or stop it with 'garden stop'";
        return Err(Error::Busy(text.to_owned()));
    }
    let config = &home.aggregate.media.layout().config;
    let mut units: BTreeMap<u32, (Vec<usize>, u64)> = BTreeMap::new();
    let mut ends = vec![0; config.extents.len()];
    for (index, extent) in config.extents.iter().enumerate() {
        if config.is_leaving(extent.member) {
            continue;
        }
        // The drives of a group count as the first of them.
        let first = config.group_of(extent.member).into_iter().min();
        let (extents, blocks) = units.entry(first.unwrap_or(extent.member)).or_default();
        extents.push(index);
        *blocks += extent.length;
        if home.fs.is_leader(index) {
            ends[index] = home.fs.areas_in_use_of(index);
        }
    }
    if units.len() < 2 {
        let text = "all its blocks are on one device or group, so there is nothing to balance; \
            'aggregate add' adds another one";
        return Err(Error::Busy(text.to_owned()));
    }
    let rebalance = Rebalance::new(units.into_values().collect(), ends);
    home.gardener.start_rebalance(rebalance, seconds);
    home.tell_garden();
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
    let (part_regions, parts) = match is_estimate {
        true => {
            let regions = total_regions.div_ceil(PARTS_MAX).max(1);
            (regions, total_regions.div_ceil(regions))
        }
        false => (0, 0),
    };
    let info = LayoutInfo {
        parts: vec![LayoutPart::default(); usize::try_from(parts).expect("a few")],
        part_regions,
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
