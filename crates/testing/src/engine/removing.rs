//! Removals beside everything else: members leave an aggregate of several devices or groups, and
//! some are told to stay before they are gone.
//!
//! The simulation does not ask for it. The system under test asks itself, now and then. A device
//! that was removed stays in the world, with its old label, as if nobody had erased it.

use everglade_engine::State;
use everglade_engine::admin::Change;
use everglade_format::Removal;

use super::leaving::Removing;
use super::server::EngineSystem;

/// The token of the requests.
const TOKEN: u64 = u64::MAX - 1;
/// Turns between two looks.
const TURNS: u32 = 64;

impl EngineSystem {
    /// Members leave now and then.
    pub(super) fn set_removing(&mut self, is_on: bool) {
        self.removing = is_on.then(Removing::default);
    }

    /// Asks for a removal, or for the end of one, if it is time to.
    pub(super) fn remove_members(&mut self, reactor: usize) {
        let Some(removing) = &mut self.removing else {
            return;
        };
        removing.turns += 1;
        if removing.is_asked || !removing.turns.is_multiple_of(TURNS) {
            return;
        }
        let look = removing.turns / TURNS;
        let info = self.info();
        if info.state != State::Online {
            return;
        }
        let members = (0..).zip(&info.members);
        let with = |removal: Removal| {
            let meant = members.clone();
            meant.filter(move |(_, member)| member.seat.removal == removal)
        };
        let change = match with(Removal::Evacuating).count() {
            0 if look.is_multiple_of(4) => {
                let staying: Vec<u32> = with(Removal::None).map(|(index, _)| index).collect();
                let member = staying[(look / 4) as usize % staying.len()];
                Change::StartRemoval { member }
            }
            // Most are not told to stay.
            1.. if look.is_multiple_of(29) => Change::StopRemoval,
            _ => return,
        };
        self.removing.as_mut().expect("as above").is_asked = true;
        self.cores[reactor].change(self.aggregate, change, TOKEN);
    }

    /// Takes the answers to these requests out. What was asked for may be refused.
    pub(super) fn take_removals(&mut self, done: &mut Vec<everglade_engine::AdminDone>) {
        if let Some(removing) = &mut self.removing {
            let all = done.len();
            done.retain(|one| one.token != TOKEN);
            removing.is_asked &= done.len() == all;
        }
    }

    /// True if a request is under way.
    pub(super) fn is_removal_asked(&self) -> bool {
        self.removing.as_ref().is_some_and(|it| it.is_asked)
    }

    /// True if members leave now and then.
    pub(super) fn removes_members(&self) -> bool {
        self.removing.is_some()
    }

    /// True while members are being evacuated.
    #[must_use]
    pub fn is_evacuating(&self) -> bool {
        self.info().removal.is_some()
    }
}
