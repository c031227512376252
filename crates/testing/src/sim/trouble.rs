//! Loud faults of a life: errors of devices and hosts, apart from the power cut at its end.

use everglade_env::{BLOCK_SIZE, DeviceId};

use super::driver::Errors;
use crate::Rng;
use crate::system::Promises;
use crate::world::{Fault, Faults, SimWorld};

/// The faults of a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    /// The fault, if any.
    pub(super) fault: Option<Fault>,
    /// The errors that clients may get.
    pub(super) errors: Errors,
    /// Discards may do nothing.
    pub(super) discards_may_skip: bool,
    /// The device that vanishes, and after how many actions.
    pub(super) vanishes: Option<(DeviceId, u64)>,
}

impl Trouble {
    /// Good devices with room.
    pub(super) const NONE: Trouble = Trouble {
        fault: None,
        errors: Errors::Never,
        discards_may_skip: false,
        vanishes: None,
    };

    /// Returns the errors that reading clients may get.
    pub(super) fn in_reads(&self, promises: &Promises) -> Errors {
        match self.fault {
            Some(Fault::WriteError) if !promises.reads_survive_write_errors => Errors::Anywhere,
            None | Some(Fault::WriteError | Fault::FlushError | Fault::Slow | Fault::NoSpace) => {
                Errors::Never
            }
            Some(_) => Errors::Anywhere,
        }
    }

    /// Draws some, and switches it on in `world`.
    pub(super) fn draw(
        rng: &mut Rng,
        promises: &Promises,
        world: &SimWorld,
        actions: u64,
    ) -> Trouble {
        let kinds = [
            Fault::NoSpace,
            Fault::NoSpace,
            Fault::ReadError,
            Fault::WriteError,
            Fault::FlushError,
            Fault::Slow,
            Fault::Vanished,
        ];
        let fault = kinds[rng.index(kinds.len())];
        let mut trouble = Trouble {
            fault: Some(fault),
            ..Trouble::NONE
        };
        match fault {
            Fault::NoSpace => {
                if rng.one_in(2) {
                    let room = rng.below(16 << 20) / BLOCK_SIZE as u64 * BLOCK_SIZE as u64;
                    world.set_host_capacity(Some(world.host_used() + room));
                } else {
                    // The fault hits any step, and the next step may find space again.
                    switch(world, &Faults::only(fault, [1, 2, 4, 16][rng.index(4)]));
                }
                if !promises.full_host_is_no_space {
                    trouble.errors = Errors::End;
                }
                trouble.discards_may_skip = promises.discards_may_skip_when_full;
            }
            Fault::Slow => {
                let times = u32::try_from(rng.between(2, 100)).expect("at most 100");
                switch(world, &Faults::only(fault, times));
            }
            Fault::Vanished => {
                let devices = world.devices();
                let device = devices[rng.index(devices.len())];
                trouble.vanishes = Some((device, rng.between(0, actions)));
                trouble.errors = Errors::End;
            }
            _ => {
                switch(world, &Faults::only(fault, 1 << rng.between(4, 10)));
                trouble.errors = Errors::End;
            }
        }
        trouble
    }
}

/// Sets these faults on all devices.
fn switch(world: &SimWorld, faults: &Faults) {
    for device in world.devices() {
        world.set_faults(device, faults.clone());
    }
}
