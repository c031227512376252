//! Limits and weights of LUNs and volumes beside everything else: they are set, changed and removed
//! meanwhile, so that operations of clients are held or wait for their turns, and begin later.

use everglade_engine::LimitSettings;
use everglade_target::Target;

use super::server::EngineSystem;

/// Turns between two changes.
const TURNS: u32 = 48;

impl EngineSystem {
    /// Limits are changed now and then.
    pub(super) fn set_limiting(&mut self, is_on: bool) {
        self.limiting = is_on.then_some(0);
    }

    /// Changes the limit of a LUN if it is time to.
    pub(super) fn limit(&mut self, reactor: usize) {
        let Some(turns) = &mut self.limiting else {
            return;
        };
        *turns += 1;
        if !turns.is_multiple_of(TURNS) {
            return;
        }
        let number = *turns / TURNS;
        let luns = self.cores[reactor].exports();
        let Some(lun) = luns.get(number as usize / 2 % luns.len().max(1)) else {
            return;
        };
        let settings = match number % 7 {
            0 => LimitSettings::default(),
            of => LimitSettings {
                operations_per_second: [0, 100, 0, 2000, 500, 0, 0][of as usize],
                bytes_per_second: [0, 0, 1 << 20, 1 << 24, 1 << 22, 0, 0][of as usize],
                burst_milliseconds: [0, 0, 500, 1, 0, 0, 0][of as usize],
                weight: [0, 0, 0, 1000, 0, 1, 30][of as usize],
            },
        };
        let volume = lun.name.split_once('/').map_or("", |(volume, _)| volume);
        let of = self.engine.volume_uuid(volume);
        match of.filter(|_| number.is_multiple_of(4)) {
            Some(volume) => self.engine.set_limit(volume, settings),
            None => self.engine.set_limit(lun.lun_uuid, settings),
        }
    }
}
