//! The table of all metrics: name, kind, labels and meaning. The daemon shows no other metrics, and
//! the dashboard and the alert rules of `dist/` may name no others; tests compare all three.

use std::fmt::Write as _;

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The value only grows while the daemon runs.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by size: `_bucket`, `_sum`, `_count`.
    Histogram,
}

impl Kind {
    /// Returns the name in the text format.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// Description of the metric.
    pub help: &'static str,
}

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric {
        name,
        kind: Kind::Counter,
        labels,
        help,
    }
}

const fn histogram(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric {
        name,
        kind: Kind::Histogram,
        labels,
        help,
    }
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric {
        name,
        kind: Kind::Gauge,
        labels,
        help,
    }
}

/// Metrics of the clients of a protocol: its name in names of metrics, and in texts.
macro_rules! of_clients {
    ($name:literal, $title:literal) => {
        &[
            counter(
                concat!("everglade_", $name, "_requests_total"),
                &["op"],
                concat!($title, " requests that were answered."),
            ),
            counter(
                concat!("everglade_", $name, "_request_errors_total"),
                &["op"],
                concat!($title, " requests that were answered with an error."),
            ),
            counter(
                concat!("everglade_", $name, "_bytes_total"),
                &["op"],
                concat!(
                    "Bytes of the ranges of ",
                    $title,
                    " requests without an error."
                ),
            ),
            histogram(
                concat!("everglade_", $name, "_request_duration_seconds"),
                &["op"],
                concat!(
                    "Time from the header of an ",
                    $title,
                    " request to its answer."
                ),
            ),
            counter(
                concat!("everglade_", $name, "_requests_refused_total"),
                &[],
                concat!($title, " requests of an unknown kind."),
            ),
            gauge(
                concat!("everglade_", $name, "_connections"),
                &[],
                concat!($title, " connections now."),
            ),
            counter(
                concat!("everglade_", $name, "_sessions_total"),
                &[],
                concat!($title, " sessions since the daemon started."),
            ),
            counter(
                concat!("everglade_", $name, "_handshakes_failed_total"),
                &[],
                concat!($title, " sessions that ended before an export was chosen."),
            ),
        ]
    };
}

/// All metrics, in groups. Each protocol is one group.
const PARTS: &[&[Metric]] = &[
    DAEMON,
    of_clients!("nbd", "NBD"),
    of_clients!("iscsi", "iSCSI"),
    of_clients!("nvme", "NVMe/TCP"),
    REST,
];

/// Returns all metrics, about in the order of a page.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    PARTS.iter().copied().flatten()
}

/// Metrics of the daemon, and of space.
#[rustfmt::skip]
const DAEMON: &[Metric] = &[
    gauge("everglade_build_info", &["version"], "Always 1; the label has the version of the \
        program."),
    gauge("everglade_uptime_seconds", &[], "Time since the daemon was ready."),
    gauge("everglade_health", &[], "0 healthy, 1 somebody should look, 2 something does not work."),
    gauge("everglade_conditions", &["code", "object"], "1 for every condition that status reports \
        now."),
    gauge("everglade_aggregate_up", &["aggregate"], "1 if the aggregate serves, else 0; 0 too if \
        it can only be read."),
    gauge("everglade_volumes", &[], "Number of volumes."),
    gauge("everglade_luns", &[], "Number of LUNs."),
    gauge("everglade_aggregate_read_only", &["aggregate"], "1 if everything in the aggregate can \
        be read and nothing can be changed."),
    gauge("everglade_jobs_running", &[], "Jobs under way."),
    gauge("everglade_history_unwritten", &[], "Changes that are missing from the history on disk, \
        because it could not be written."),
    gauge("everglade_space_bytes", &["object", "kind"], "Space of an aggregate: size, used, free, \
        reserve, pending (running deletions have yet to free it), logical (sizes of its LUNs), \
        shared, dirty (in memory), host_backed, host_free."),
];

/// Metrics of the data plane, of storage and of the process.
#[rustfmt::skip]
const REST: &[Metric] = &[
    gauge("everglade_reactor_connections", &["reactor"], "Connections of each reactor (a thread of \
        the data plane)."),
    counter("everglade_connections_moved_total", &[], "Connections that moved to another reactor \
        when the client named the export."),
    gauge("everglade_reactor_aggregates", &["reactor"], "Aggregates whose consistency points run \
        on each reactor. The server places the connections of their exports on another reactor, if \
        that has at most as many connections."),
    gauge("everglade_cp_number", &["aggregate"], "The last committed consistency point."),
    counter("everglade_cp_total", &["aggregate", "trigger"], "Consistency points, by their \
        trigger."),
    counter("everglade_cp_back_to_back_total", &["aggregate"], "Consistency points that began at \
        once, because clients wrote more during the one before than memory can hold: clients \
        wait."),
    gauge("everglade_journal_half_bytes", &["aggregate"], "Size of one half of the journal."),
    gauge("everglade_journal_fill_ratio", &["aggregate"], "Fill level of the current half, 0 to \
        1."),
    gauge("everglade_journal_unlogged_bytes", &["aggregate"], "Changes in memory for which no \
        client has asked for durability."),
    gauge("everglade_lost_blocks", &["aggregate"], "Blocks that became lost since the volumes were \
        made."),
    counter("everglade_unreadable_blocks_total", &["aggregate"], "Blocks found to be damaged or \
        unreadable since the aggregate was opened."),
    gauge("everglade_recovery_operations", &["aggregate"], "Operations replayed from the journal \
        when the aggregate was opened."),
    gauge("everglade_recovery_bytes", &["aggregate"], "Bytes of the journal read for that replay."),
    gauge("everglade_recovery_seconds", &["aggregate"], "Duration of that replay."),
    gauge("everglade_drives", &["aggregate", "state"], "Devices of an aggregate: online (in use), \
        failed (since the daemon started), behind (they missed writes before), missing."),
    counter("everglade_mirror_read_elsewhere_total", &["aggregate"], "Blocks that were wrong or \
        unreadable on one drive of a mirror and were read from another, since the aggregate was \
        opened."),
    counter("everglade_mirror_rewritten_total", &["aggregate"], "Blocks of these that were then \
        written again."),
    counter("everglade_stripes_total", &["aggregate", "kind"], "Stripes of parity groups that were \
        written since the aggregate was opened: full (nothing was read), partial (a part was read \
        to compute parity)."),
    counter("everglade_stripe_blocks_total", &["aggregate", "kind"], "Blocks of parity groups: \
        read (to compute parity), filled (free blocks that were filled with zeroes), reconstructed \
        (their drive was missing, or had them wrong)."),
    counter("everglade_drive_faults_total", &["aggregate", "device", "kind"], "Faults of a drive \
        of a mirror, since the aggregate was opened or the drive came: read (reads of a block that \
        failed), wrong (reads that gave other contents than were written), write (changes that \
        failed; the first one costs the drive), mended (blocks that were written again), \
        not_copied (blocks that it did not get when it caught up)."),
    counter("everglade_metadata_mended_total", &["aggregate", "file"], "Blocks of metadata that \
        could not be read and were derived from others since the aggregate was opened."),
    counter("everglade_cleaner_total", &["aggregate", "kind"], "What cleaning did: step, lun (once \
        for each step that took regions of it), region (level-1 blocks with changes below them)."),
    histogram("everglade_cp_phase_seconds", &["aggregate", "phase"], "How long each phase of the \
        consistency points took; clients wait for freeze and publish only."),
    counter("everglade_cp_blocks_total", &["aggregate", "kind"], "Blocks of consistency points. \
        Written: data, volume_metadata, aggregate_metadata, moved. Read: read (what was not in \
        memory)."),
    counter("everglade_cp_wait_seconds_total", &["aggregate", "cause"], "How long consistency \
        points waited: load (blocks that were not in memory), device (their own writes; only so \
        many may be in flight)."),
    counter("everglade_snapshot_scan_maps_total", &["volume", "way"], "Map blocks that deletions \
        of snapshots processed: by subtraction, by addition, or skipped because nothing changes in \
        them."),
    gauge("everglade_snapshot_scan_pace_ratio", &["volume"], "Share of their usual work that the \
        scans of the volume do in a consistency point, 0 to 1; at 0 they pause."),
    counter("everglade_volume_read_bytes_total", &["volume"], "Bytes that clients read since the \
        volume was opened."),
    counter("everglade_volume_written_bytes_total", &["volume"], "Bytes that clients wrote since \
        the volume was opened."),
    gauge("everglade_volume_space_bytes", &["volume", "kind"], "Space of a volume: logical (sizes \
        of its LUNs), used (what they take from the aggregate)."),
    counter("everglade_device_errors_total", &["device", "kind"], "Operations that a device, or \
        its host, failed: io, no_space, gone."),
    histogram("everglade_device_run_blocks", &["device", "op"], "Blocks of 4 KiB that one read or \
        write of a device has: the longer, the better for drives."),
    histogram("everglade_device_duration_seconds", &["device", "op"], "How long reads, writes and \
        flushes of a device took."),
    counter("everglade_fallthrough_total", &["path", "reason"], "Operations that could not take a \
        fast path and took the general path."),
    counter("everglade_garden_moved_bytes_total", &["aggregate"], "Bytes of blocks that segment \
        cleaning and the layout of LUNs have moved since the aggregate was opened."),
    counter("everglade_garden_after_read_bytes_total", &["aggregate"], "Bytes of blocks among them \
        that were moved because a client had read them in order."),
    gauge("everglade_garden_waiting_bytes", &["aggregate"], "Bytes of LUNs that clients have read \
        in order, and that are yet to be put in order."),
    gauge("everglade_removal_left_bytes", &["aggregate"], "Bytes in use on devices that are being \
        removed; absent while none are."),
    counter("everglade_lun_operations_total", &["lun", "op"], "Reads and writes of a LUN that were \
        answered without an error, over all protocols. LUNs beyond the first 256 that clients use \
        are counted together, as `(others)`."),
    counter("everglade_lun_bytes_total", &["lun", "op"], "Bytes of these."),
    histogram("everglade_lun_duration_seconds", &["lun", "op"], "How long these took."),
    gauge("everglade_trash_bytes", &["aggregate"], "Space that deleted objects take that can come \
        back."),
    gauge("everglade_trash_objects", &["aggregate"], "Deleted objects that can come back."),
    counter("everglade_trash_purged_total", &["aggregate"], "Objects that left the trash because \
        space was short, since the aggregate was opened."),
    counter("everglade_qos_held_total", &["object"], "Operations that the limit of a LUN or a \
        volume has held back since it was set, and those that waited for the shares of others."),
    counter("everglade_qos_held_seconds_total", &["object"], "How long they were held back, all \
        together."),
    counter("everglade_garden_cleaned_areas_total", &["aggregate"], "Areas that segment cleaning \
        has emptied since the aggregate was opened."),
    counter("everglade_cache_hits_total", &["kind"], "Cache look-ups that found an entry."),
    counter("everglade_cache_misses_total", &["kind"], "Cache look-ups that found no entry."),
    gauge("everglade_network_memory_bytes", &["kind"], "Memory for requests and replies of \
        clients: limit, used. An eighth of `memory`; clients beyond it wait their turn."),
    gauge("everglade_network_memory_waiting", &[], "Connections that wait for network memory now."),
    counter("everglade_network_memory_waits_total", &[], "How often connections had to wait for \
        network memory."),
    counter("everglade_network_memory_stalled_total", &[], "Connections that were closed because \
        they held network memory and did not move for ten seconds while others waited for it."),
    gauge("everglade_memory_pages_bytes", &[], "Memory for data and metadata, in pages."),
    counter("everglade_api_auth_failures_total", &["reason"], "Requests over TCP that were refused \
        because of their token: no_token, unknown_token."),
    gauge("everglade_descriptors_limit", &[], "Open files and sockets that the process may have."),
    gauge("everglade_descriptors", &["owner", "kind"], "How they are shared out: share and used of \
        process (what it keeps open; always all used), devices, administration (used: its \
        connections), connections (NBD)."),
    counter("everglade_descriptor_waits_total", &["owner"], "Times that devices waited for a \
        descriptor to open a segment file, or that accepting NBD connections paused."),
    gauge("process_resident_memory_bytes", &[], "Memory of the process that is in RAM."),
    counter("process_cpu_seconds_total", &[], "CPU time of all threads."),
    counter("everglade_cpu_seconds_total", &["reactor", "subsystem"], "CPU time of a reactor by \
        subsystem: protocol (sessions), client (their operations), journal, cleaner (places for \
        changed blocks), infrastructure (the rest of consistency points), parity, background \
        (freeing, scrubs, catching up, replay), device (the kernel's part in device operations and \
        waiting)."),
    gauge("process_open_fds", &[], "Open files and sockets."),
];

/// Returns the reference, in Markdown.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::from("| name | kind | labels | meaning |\n| --- | --- | --- | --- |\n");
    for metric in all() {
        let labels = metric.labels.join(", ");
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| `{}` | {} | {labels} | {} |",
            metric.name,
            metric.kind.name(),
            metric.help
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_kind_and_unit() {
        for metric in all() {
            let is_total = metric.name.ends_with("_total");
            assert_eq!(is_total, metric.kind == Kind::Counter, "{}", metric.name);
            let is_ours = metric.name.starts_with("everglade_");
            assert!(
                is_ours || metric.name.starts_with("process_"),
                "{}",
                metric.name
            );
            assert!(metric.help.ends_with('.'), "{}", metric.name);
            if metric.kind == Kind::Histogram {
                let has_unit = ["_seconds", "_blocks"].map(|unit| metric.name.ends_with(unit));
                assert!(has_unit.contains(&true), "{}", metric.name);
            }
        }
        let mut names: Vec<_> = all().map(|metric| metric.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all().count());
    }

    #[test]
    fn the_clients_of_every_protocol_are_counted() {
        let settings = crate::Settings {
            data_dir: Some("/srv/e".into()),
            ..crate::Settings::default()
        };
        let config = crate::Config::resolve(settings, None).expect("defaults");
        for protocol in crate::fronts::all(&config) {
            let first = format!("everglade_{}_requests_total", protocol.name());
            assert!(all().any(|metric| metric.name == first), "{first}");
        }
    }
}
