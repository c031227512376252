//! Counters since the daemon began, for `top`.

use everglade_api::{
    AggregateStatistics, CpuTime, DeviceOperation, DeviceStatistics, Operation, Statistics,
};
use everglade_engine::{AggregateInfo, Subsystem};
use everglade_env::{Nanos, TrafficInfo};

use super::administrator::Administrator;
use super::inventory::free_blocks;
use super::units::bytes;

impl Administrator {
    /// Returns the counters for `top`.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let (cache_hits, cache_misses) = self.engine.cache_counts();
        let aggregates = self.engine.aggregates();
        let view = |info: &AggregateInfo| AggregateStatistics {
            name: info.name.clone(),
            committed_cp: info.committed_cp,
            used_bytes: bytes(info.usage.used_blocks),
            free_bytes: bytes(free_blocks(info)),
            dirty_bytes: bytes(info.usage.dirty_pages),
            pending_free_bytes: bytes(info.usage.pending_blocks),
        };
        Statistics {
            uptime_ms: u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX),
            connection_count: u64::from(self.plane.placement.connections()),
            memory_bytes: bytes(everglade_env::pages_in_use() as u64),
            cache_hits,
            cache_misses,
            operations: self.operations(),
            cpu: self.cpu(),
            aggregates: aggregates.iter().map(view).collect(),
            devices: aggregates
                .iter()
                .flat_map(|info| self.devices_of(info))
                .collect(),
        }
    }

    /// Returns what the devices of an aggregate did.
    fn devices_of(&self, info: &AggregateInfo) -> impl Iterator<Item = DeviceStatistics> {
        let devices = info.devices.iter();
        devices.filter_map(|id| {
            let device = self.plane.world.info(*id)?;
            let errors = device.errors.iter().map(|(_, count)| count);
            Some(DeviceStatistics {
                path: device.path.to_string_lossy().into_owned(),
                aggregate: info.name.clone(),
                error_count: errors.sum(),
                operations: device.traffic.iter().map(view_traffic).collect(),
            })
        })
    }

    /// Returns the CPU time of reactors by subsystem.
    pub(crate) fn cpu_times(&self) -> Vec<Vec<(&'static str, Nanos)>> {
        let named = |times: [Nanos; Subsystem::ALL.len()]| {
            let names = Subsystem::ALL.iter().map(|it| it.name());
            names.zip(times).collect()
        };
        self.engine.cpu_times().into_iter().map(named).collect()
    }

    /// The same, summed over all reactors.
    fn cpu(&self) -> Vec<CpuTime> {
        let all = self.cpu_times();
        let sum = |(index, subsystem): (usize, &Subsystem)| CpuTime {
            subsystem: subsystem.name().to_owned(),
            time_us: all.iter().map(|reactor| reactor[index].1).sum::<Nanos>() / 1000,
        };
        Subsystem::ALL.iter().enumerate().map(sum).collect()
    }

    /// Returns the operations of clients by kind, summed over all protocols.
    fn operations(&self) -> Vec<Operation> {
        let mut operations: Vec<Operation> = Vec::new();
        let counts = self.plane.counts().into_iter();
        for counted in counts.flat_map(|(_, counts)| counts.sessions.operations) {
            let known = operations.iter().position(|it| it.op == counted.name);
            let index = known.unwrap_or_else(|| {
                operations.push(Operation {
                    op: counted.name.to_owned(),
                    ..Operation::default()
                });
                operations.len() - 1
            });
            let sum = &mut operations[index];
            sum.count += counted.requests;
            sum.error_count += counted.errors;
            sum.bytes += counted.bytes;
            sum.duration_us += counted.duration / 1000;
        }
        operations
    }
}

fn view_traffic(info: &TrafficInfo) -> DeviceOperation {
    DeviceOperation {
        op: info.op.to_owned(),
        count: info.durations.iter().sum(),
        bytes: bytes(info.blocks),
        duration_us: info.nanos / 1000,
    }
}
