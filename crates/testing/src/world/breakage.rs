//! Breakages: devices that stop working at a given write of the world, in the middle of whatever is
//! under way then.

use everglade_env::DeviceId;

use super::SimWorld;
use super::fault::Faults;

/// What becomes of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Breakage {
    /// It vanishes: everything under way and everything later fails.
    Vanishes,
    /// It hangs: everything that begins later takes very long.
    Hangs,
    /// From then on it has these faults.
    Fails(Faults),
}

/// A device that has yet to break.
struct Break {
    /// The write of the world at which it does.
    at: u64,
    device: usize,
    breakage: Breakage,
}

/// The devices that have yet to break.
#[derive(Default)]
pub(super) struct Breaks(Vec<Break>);

impl Breaks {
    /// Takes out a device that breaks at this write of the world, or should have before.
    pub(super) fn take_due(&mut self, write: u64) -> Option<(usize, Breakage)> {
        let place = self.0.iter().position(|it| it.at <= write)?;
        let due = self.0.remove(place);
        Some((due.device, due.breakage))
    }
}

impl SimWorld {
    /// A device breaks when the world counts write number `write`, which is under way then.
    pub fn break_at(&self, write: u64, device: DeviceId, breakage: Breakage) {
        let device = usize::try_from(device.0).expect("few devices");
        self.state().breaks.0.push(Break {
            at: write,
            device,
            breakage,
        });
    }
}
