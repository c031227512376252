//! Limits of LUNs beside everything else: they are set, changed and removed meanwhile, so that
//! operations of clients are held, and begin later.

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
        let settings = match number % 5 {
            0 => LimitSettings::default(),
            of => LimitSettings {
                operations_per_second: [0, 100, 0, 2000, 500][of as usize],
                bytes_per_second: [0, 0, 1 << 20, 1 << 24, 1 << 22][of as usize],
            },
        };
        self.engine.set_limit(lun.lun_uuid, settings);
    }
}
