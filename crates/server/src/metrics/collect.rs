//! Fills a page: asks the administrator for the objects, and the data plane for its counters.

use std::fs;

use everglade_api::{Aggregate, AggregateState, DeviceState, Health, JobState};
use everglade_env::{DEVICE_DURATION_BOUNDS, RUN_BOUNDS};
use everglade_target::sessions::metrics::{DURATION_BOUNDS, Snapshot};
use everglade_target::sessions::{MemorySnapshot, tally};

use super::page::{Page, seconds};
use crate::Descriptors;
use crate::administrator::{Administrator, PHASE_BOUNDS};
use crate::records::Records;
use crate::rest::attempts::{Attempts, Reason};

/// Returns all metrics of the data plane and of the process.
pub(super) fn all(administrator: &Administrator, records: &Records) -> Page {
    let mut page = Page::default();
    let aggregates = administrator.aggregates().aggregates;
    overview(&mut page, administrator, records, &aggregates);
    space(&mut page, &aggregates);
    clients(&mut page, administrator);
    consistency_points(&mut page, &aggregates);
    journals(&mut page, &aggregates);
    drives(&mut page, &aggregates);
    engine(&mut page, administrator);
    limits(&mut page, administrator);
    luns(&mut page, administrator);
    trash(&mut page, administrator, &aggregates);
    memory(&mut page, administrator);
    process(&mut page, administrator);
    page
}

/// Adds the use of descriptors, and the refused callers.
pub(super) fn doors(
    page: &mut Page,
    administrator: &Administrator,
    descriptors: &Descriptors,
    attempts: &Attempts,
) {
    let shares = &descriptors.shares;
    let counts = administrator.descriptor_counts();
    page.family("everglade_descriptors_limit")
        .value(&[], shares.limit as u64);
    let mut family = page.family("everglade_descriptors");
    for (owner, share, used) in [
        ("process", shares.process, shares.process),
        ("devices", shares.devices, counts.devices.used),
        (
            "administration",
            shares.administration(),
            descriptors.administrators(),
        ),
        (
            "connections",
            shares.connections as usize,
            counts.connections as usize,
        ),
    ] {
        family.value(&[owner, "share"], share as u64);
        family.value(&[owner, "used"], used as u64);
    }
    let mut family = page.family("everglade_descriptor_waits_total");
    family.value(&["devices"], counts.devices.waits);
    family.value(&["connections"], counts.pauses);
    let mut family = page.family("everglade_api_auth_failures_total");
    for reason in Reason::ALL {
        family.value(&[reason.name()], attempts.count(reason));
    }
}

fn overview(
    page: &mut Page,
    administrator: &Administrator,
    records: &Records,
    aggregates: &[Aggregate],
) {
    let version = administrator.version().program;
    page.family("everglade_build_info").value(&[&version], 1);
    let status = administrator.status();
    page.family("everglade_uptime_seconds")
        .value(&[], status.uptime_seconds);
    let health = match status.health {
        Health::Healthy => 0,
        Health::Warning => 1,
        Health::Unhealthy => 2,
    };
    page.family("everglade_health").value(&[], health);
    let mut family = page.family("everglade_conditions");
    for condition in &status.conditions {
        family.value(&[&condition.code, &condition.object], 1);
    }
    let mut family = page.family("everglade_aggregate_up");
    for aggregate in aggregates {
        let is_up = aggregate.state == AggregateState::Online;
        family.value(&[&aggregate.name], u64::from(is_up));
    }
    let mut family = page.family("everglade_aggregate_read_only");
    for aggregate in aggregates {
        let is_read_only = aggregate.state == AggregateState::ReadOnly;
        family.value(&[&aggregate.name], u64::from(is_read_only));
    }
    page.family("everglade_volumes")
        .value(&[], status.volume_count);
    page.family("everglade_luns").value(&[], status.lun_count);
    let jobs = records.jobs.all(administrator.now());
    let running = jobs.iter().filter(|job| job.state == JobState::Running);
    page.family("everglade_jobs_running")
        .value(&[], running.count() as u64);
    page.family("everglade_history_unwritten")
        .value(&[], records.history.unwritten() as u64);
}

fn space(page: &mut Page, aggregates: &[Aggregate]) {
    let mut family = page.family("everglade_space_bytes");
    for aggregate in known(aggregates) {
        for (kind, bytes) in [
            ("size", Some(aggregate.size_bytes)),
            ("used", Some(aggregate.used_bytes)),
            ("free", Some(aggregate.free_bytes)),
            ("reserve", Some(aggregate.reserve_bytes)),
            ("pending", Some(aggregate.pending_free_bytes)),
            ("logical", Some(aggregate.logical_bytes)),
            ("shared", Some(aggregate.shared_bytes)),
            ("dirty", Some(aggregate.dirty_bytes)),
            ("host_backed", Some(aggregate.host_backed_bytes)),
            ("host_free", aggregate.host_free_bytes),
        ] {
            if let Some(bytes) = bytes {
                family.value(&[&aggregate.name, kind], bytes);
            }
        }
    }
}

/// Returns the aggregates whose numbers are known.
fn known(aggregates: &[Aggregate]) -> impl Iterator<Item = &Aggregate> {
    let is_known = |aggregate: &&Aggregate| aggregate.state != AggregateState::Unavailable;
    aggregates.iter().filter(is_known)
}

/// Adds the counters of client sessions, by protocol, and the memory that they share.
fn clients(page: &mut Page, administrator: &Administrator) {
    let mut memory = MemorySnapshot::default();
    for (protocol, counts) in administrator.clients() {
        of_protocol(page, protocol, &counts.sessions);
        memory += counts.memory;
    }
    let mut family = page.family("everglade_network_memory_bytes");
    family.value(&["limit"], memory.total);
    family.value(&["used"], memory.used);
    for (name, value) in [
        ("everglade_network_memory_waiting", memory.waiting),
        ("everglade_network_memory_waits_total", memory.waits),
        ("everglade_network_memory_stalled_total", memory.stalled),
    ] {
        page.family(name).value(&[], value);
    }
}

fn of_protocol(page: &mut Page, protocol: &str, counted: &Snapshot) {
    let name = |what: &str| format!("everglade_{protocol}_{what}");
    let operations = &counted.operations;
    let mut family = page.family(&name("requests_total"));
    for it in operations {
        family.value(&[it.name], it.requests);
    }
    let mut family = page.family(&name("request_errors_total"));
    for it in operations {
        family.value(&[it.name], it.errors);
    }
    let mut family = page.family(&name("bytes_total"));
    for it in operations {
        family.value(&[it.name], it.bytes);
    }
    let mut family = page.family(&name("request_duration_seconds"));
    for it in operations {
        family.histogram(&[it.name], &DURATION_BOUNDS, &it.buckets, it.duration);
    }
    for (what, value) in [
        ("requests_refused_total", counted.requests_refused),
        ("connections", counted.sessions_open),
        ("sessions_total", counted.sessions_total),
        ("handshakes_failed_total", counted.handshakes_failed),
    ] {
        page.family(&name(what)).value(&[], value);
    }
}

fn consistency_points(page: &mut Page, aggregates: &[Aggregate]) {
    let mut family = page.family("everglade_cp_number");
    for aggregate in known(aggregates) {
        family.value(&[&aggregate.name], aggregate.committed_cp);
    }
    let counted = || {
        known(aggregates).filter_map(|aggregate| Some((&aggregate.name, aggregate.cp.as_ref()?)))
    };
    let mut family = page.family("everglade_cp_total");
    for (name, cp) in counted() {
        for (trigger, count) in &cp.by_trigger {
            family.value(&[name, trigger], *count);
        }
    }
    let mut family = page.family("everglade_cp_back_to_back_total");
    counted().for_each(|(name, cp)| family.value(&[name], cp.back_to_back));
}

fn journals(page: &mut Page, aggregates: &[Aggregate]) {
    let journals = || {
        known(aggregates)
            .filter_map(|aggregate| Some((&aggregate.name, aggregate.journal.as_ref()?)))
    };
    let mut family = page.family("everglade_journal_half_bytes");
    journals().for_each(|(name, journal)| family.value(&[name], journal.half_bytes));
    let mut family = page.family("everglade_journal_fill_ratio");
    for (name, journal) in journals() {
        family.ratio(&[name], journal.used_bytes, journal.half_bytes);
    }
    let mut family = page.family("everglade_journal_unlogged_bytes");
    journals().for_each(|(name, journal)| family.value(&[name], journal.unlogged_bytes));
    let mut family = page.family("everglade_lost_blocks");
    known(aggregates).for_each(|aggregate| {
        family.value(&[&aggregate.name], aggregate.damage.lost_block_count);
    });
    let mut family = page.family("everglade_unreadable_blocks_total");
    known(aggregates).for_each(|aggregate| {
        family.value(&[&aggregate.name], aggregate.damage.unreadable_block_count);
    });
    let mut family = page.family("everglade_metadata_mended_total");
    known(aggregates).for_each(|aggregate| {
        for (file, blocks) in &aggregate.damage.mended {
            family.value(&[&aggregate.name, file], *blocks);
        }
    });
    let recoveries = || {
        known(aggregates)
            .filter_map(|aggregate| Some((&aggregate.name, aggregate.recovery.as_ref()?)))
    };
    let mut family = page.family("everglade_recovery_operations");
    recoveries().for_each(|(name, recovery)| family.value(&[name], recovery.operation_count));
    let mut family = page.family("everglade_recovery_bytes");
    recoveries().for_each(|(name, recovery)| family.value(&[name], recovery.bytes));
    let mut family = page.family("everglade_recovery_seconds");
    recoveries().for_each(|(name, recovery)| family.ratio(&[name], recovery.duration_ms, 1000));
}

fn drives(page: &mut Page, aggregates: &[Aggregate]) {
    let mut family = page.family("everglade_drives");
    for aggregate in known(aggregates) {
        for state in DeviceState::ALL {
            let devices = aggregate.devices.iter();
            let count = devices.filter(|device| device.state == Some(state)).count();
            family.value(&[&aggregate.name, state.word()], count as u64);
        }
    }
    let copies =
        || known(aggregates).filter_map(|aggregate| Some((&aggregate.name, aggregate.copies?)));
    let mut family = page.family("everglade_mirror_read_elsewhere_total");
    copies().for_each(|(name, it)| family.value(&[name], it.read_elsewhere_block_count));
    let mut family = page.family("everglade_mirror_rewritten_total");
    copies().for_each(|(name, it)| family.value(&[name], it.rewritten_block_count));
    let stripes =
        || known(aggregates).filter_map(|aggregate| Some((&aggregate.name, aggregate.stripes?)));
    let mut family = page.family("everglade_stripes_total");
    stripes().for_each(|(name, it)| {
        family.value(&[name, "full"], it.full_count);
        family.value(&[name, "partial"], it.partial_count);
    });
    let mut family = page.family("everglade_stripe_blocks_total");
    stripes().for_each(|(name, it)| {
        family.value(&[name, "read"], it.read_block_count);
        family.value(&[name, "filled"], it.filled_block_count);
        family.value(&[name, "reconstructed"], it.reconstructed_block_count);
    });
    let mut family = page.family("everglade_drive_faults_total");
    for aggregate in known(aggregates) {
        for device in &aggregate.devices {
            let Some(faults) = device.faults else {
                continue;
            };
            for (kind, count) in [
                ("read", faults.read_error_count),
                ("wrong", faults.wrong_block_count),
                ("write", faults.write_error_count),
                ("hung", faults.hung_count),
                ("mended", faults.mended_block_count),
                ("not_copied", faults.not_copied_block_count),
            ] {
                family.value(&[&aggregate.name, &device.path, kind], count);
            }
        }
    }
}

fn engine(page: &mut Page, administrator: &Administrator) {
    let counts = administrator.engine_counts();
    let reactors = || counts.reactors.iter().zip(0u32..);
    let mut family = page.family("everglade_reactor_connections");
    for ((connections, _), reactor) in reactors() {
        family.value(&[&reactor.to_string()], u64::from(*connections));
    }
    page.family("everglade_connections_moved_total")
        .value(&[], counts.connections_moved);
    let mut family = page.family("everglade_reactor_aggregates");
    for ((_, aggregates), reactor) in reactors() {
        family.value(&[&reactor.to_string()], *aggregates as u64);
    }
    let mut family = page.family("everglade_cp_phase_seconds");
    for (aggregate, phases) in &counts.phases {
        for (phase, times) in phases {
            let labels = [aggregate.as_str(), *phase];
            family.histogram(&labels, &PHASE_BOUNDS, &times.buckets, times.sum);
        }
    }
    let mut family = page.family("everglade_cleaner_total");
    for (aggregate, cleaned) in &counts.cleaned {
        family.value(&[aggregate, "step"], cleaned.steps);
        family.value(&[aggregate, "lun"], cleaned.luns);
        family.value(&[aggregate, "region"], cleaned.regions);
    }
    let mut family = page.family("everglade_cp_blocks_total");
    for (aggregate, blocks) in &counts.cp_blocks {
        for (kind, count) in blocks {
            family.value(&[aggregate, kind], *count);
        }
    }
    let mut family = page.family("everglade_cp_wait_seconds_total");
    for (aggregate, waits) in &counts.waits {
        for (cause, nanos) in waits {
            family.ratio(&[aggregate, cause], *nanos, 1_000_000_000);
        }
    }
    let mut family = page.family("everglade_snapshot_scan_maps_total");
    for volume in &counts.volumes {
        let maps = volume.scan.counts;
        family.value(&[&volume.name, "subtraction"], maps.subtracted);
        family.value(&[&volume.name, "addition"], maps.added);
        family.value(&[&volume.name, "skipped"], maps.skipped);
    }
    let mut family = page.family("everglade_snapshot_scan_pace_ratio");
    for volume in &counts.volumes {
        let percent = u64::from(volume.scan.pace_percent);
        family.ratio(&[&volume.name], percent, 100);
    }
    let mut family = page.family("everglade_volume_read_bytes_total");
    for volume in &counts.volumes {
        family.value(&[&volume.name], volume.read_bytes);
    }
    let mut family = page.family("everglade_volume_written_bytes_total");
    for volume in &counts.volumes {
        family.value(&[&volume.name], volume.written_bytes);
    }
    let mut family = page.family("everglade_volume_space_bytes");
    for volume in administrator.volumes().volumes {
        family.value(&[&volume.name, "logical"], volume.logical_bytes);
        family.value(&[&volume.name, "used"], volume.used_bytes);
    }
    let mut family = page.family("everglade_device_errors_total");
    for (device, errors) in &counts.device_errors {
        for (kind, count) in errors {
            family.value(&[device, *kind], *count);
        }
    }
    let mut family = page.family("everglade_device_run_blocks");
    for (device, traffic) in &counts.device_traffic {
        for it in traffic.iter().filter(|it| it.op != "flush") {
            family.plain_histogram(&[device, it.op], &RUN_BOUNDS, &it.runs, it.blocks);
        }
    }
    let mut family = page.family("everglade_device_duration_seconds");
    for (device, traffic) in &counts.device_traffic {
        for it in traffic {
            let labels = [device.as_str(), it.op];
            family.histogram(&labels, &DEVICE_DURATION_BOUNDS, &it.durations, it.nanos);
        }
    }
    let mut family = page.family("everglade_fallthrough_total");
    family.value(&["inline", "stripe_busy"], counts.queued_operations);
    family.value(&["read", "stale"], counts.stale_reads);
    let mut family = page.family("everglade_garden_moved_bytes_total");
    for (aggregate, garden) in &counts.gardens {
        family.value(&[aggregate], garden.moved_bytes);
    }
    let mut family = page.family("everglade_garden_after_read_bytes_total");
    for (aggregate, garden) in &counts.gardens {
        family.value(&[aggregate], garden.after_read_bytes);
    }
    let mut family = page.family("everglade_garden_waiting_bytes");
    for (aggregate, garden) in &counts.gardens {
        family.value(&[aggregate], garden.waiting_bytes);
    }
    let mut family = page.family("everglade_removal_left_bytes");
    for (aggregate, garden) in &counts.gardens {
        if let Some(left) = garden.leaving_bytes {
            family.value(&[aggregate], left);
        }
    }
    let mut family = page.family("everglade_trash_purged_total");
    for (aggregate, garden) in &counts.gardens {
        family.value(&[aggregate], garden.purged);
    }
    let mut family = page.family("everglade_garden_cleaned_areas_total");
    for (aggregate, garden) in &counts.gardens {
        family.value(&[aggregate], garden.cleaned_areas);
    }
}

fn luns(page: &mut Page, administrator: &Administrator) {
    let tallies = administrator.tallies();
    let directions = || {
        tallies.iter().flat_map(|(lun, tally)| {
            let lun = lun.as_deref().unwrap_or("(others)");
            [(lun, "read", tally.reads), (lun, "write", tally.writes)]
        })
    };
    let mut family = page.family("everglade_lun_operations_total");
    for (lun, op, answered) in directions() {
        family.value(&[lun, op], answered.count);
    }
    let mut family = page.family("everglade_lun_bytes_total");
    for (lun, op, answered) in directions() {
        family.value(&[lun, op], answered.bytes);
    }
    let bounds = tally::bounds();
    let mut family = page.family("everglade_lun_duration_seconds");
    for (lun, op, answered) in directions() {
        family.histogram(&[lun, op], &bounds, &answered.buckets, answered.duration);
    }
}

fn trash(page: &mut Page, administrator: &Administrator, aggregates: &[Aggregate]) {
    let trash = administrator.trash().trash;
    let mut family = page.family("everglade_trash_bytes");
    for aggregate in aggregates {
        family.value(&[&aggregate.name], aggregate.trash_bytes);
    }
    let mut family = page.family("everglade_trash_objects");
    for aggregate in aggregates {
        let here = trash.iter().filter(|it| it.aggregate == aggregate.name);
        family.value(&[&aggregate.name], here.count() as u64);
    }
}

fn limits(page: &mut Page, administrator: &Administrator) {
    let all = administrator.held_back();
    let mut family = page.family("everglade_qos_held_total");
    for (object, held) in &all {
        family.value(&[object], held.operations);
    }
    let mut family = page.family("everglade_qos_held_seconds_total");
    for (object, held) in &all {
        family.text_value(&[object], &seconds(held.nanos));
    }
}

fn memory(page: &mut Page, administrator: &Administrator) {
    let statistics = administrator.statistics();
    page.family("everglade_cache_hits_total")
        .value(&["page"], statistics.cache_hits);
    page.family("everglade_cache_misses_total")
        .value(&["page"], statistics.cache_misses);
    page.family("everglade_memory_pages_bytes")
        .value(&[], statistics.memory_bytes);
}

/// Adds the kernel's numbers about the process, and the reactors' CPU time; numbers that the kernel
/// does not have are left out.
fn process(page: &mut Page, administrator: &Administrator) {
    let read = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
    let pages: Option<u64> = read("statm")
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse().ok());
    let mut family = page.family("process_resident_memory_bytes");
    if let Some(pages) = pages {
        family.value(&[], pages * rustix::param::page_size() as u64);
    }
    let mut family = page.family("process_cpu_seconds_total");
    if let Some(nanos) = cpu_nanos(&read("stat"), rustix::param::clock_ticks_per_second()) {
        family.ratio_text(&seconds(nanos));
    }
    let mut family = page.family("everglade_cpu_seconds_total");
    for (reactor, times) in administrator.cpu_times().iter().enumerate() {
        for (subsystem, nanos) in times {
            let labels = [&*reactor.to_string(), *subsystem];
            family.text_value(&labels, &seconds(*nanos));
        }
    }
    let mut family = page.family("process_open_fds");
    if let Ok(files) = fs::read_dir("/proc/self/fd") {
        family.value(&[], files.count() as u64);
    }
}

/// Returns user and system time in nanoseconds; the name in brackets may contain any characters.
fn cpu_nanos(stat: &str, ticks_per_second: u64) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<_> = fields.split(' ').collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let ticks = field(14)?.checked_add(field(15)?)?;
    ticks
        .checked_mul(1_000_000_000)?
        .checked_div(ticks_per_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_read_behind_the_name() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20";
        assert_eq!(cpu_nanos(stat, 100), Some(2_000_000_000));
        assert_eq!(cpu_nanos("", 100), None);
        assert_eq!(cpu_nanos(stat, 0), None);
    }
}
