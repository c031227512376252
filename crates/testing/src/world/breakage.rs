//! Breakages: devices that stop working at a given write of the world, in the middle of whatever is
//! under way then.

use everglade_env::DeviceId;

use super::SimWorld;
use super::fault::Faults;
use super::state::State;

/// What becomes of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Breakage {
    /// It vanishes: everything under way and everything later fails.
    Vanishes,
    /// From then on it has these faults.
    Fails(Faults),
}

/// A device that has yet to break.
pub(super) struct Break {
    /// The write of the world at which it does.
    at: u64,
    device: usize,
    breakage: Breakage,
}

impl SimWorld {
    /// A device breaks when the world counts write number `write`, which is under way then.
    pub fn break_at(&self, write: u64, device: DeviceId, breakage: Breakage) {
        let device = usize::try_from(device.0).expect("few devices");
        self.state().breaks.push(Break {
            at: write,
            device,
            breakage,
        });
    }
}

impl State {
    /// Breaks the devices whose time has come.
    pub(super) fn break_devices(&mut self) {
        let writes = self.writes;
        while let Some(place) = self.breaks.iter().position(|it| it.at <= writes) {
            let Break {
                device, breakage, ..
            } = self.breaks.remove(place);
            self.trace_line(|| format!("device {device}: {breakage:?}"));
            let device = &mut self.devices[device];
            match breakage {
                Breakage::Vanishes => device.gone = true,
                Breakage::Fails(faults) => device.faults = faults,
            }
        }
    }
}
