//! Gardening beside everything else: whatever a simulation does, areas are emptied and LUNs are put
//! in order meanwhile.
//!
//! The simulation does not ask for it. The system under test asks itself for one job after another:
//! a cleaning, a rebalance of the devices or a space map, then the layout of a LUN. Between two
//! jobs it waits for some consistency points. And now and then it reads a part of a LUN in order,
//! which the engine puts in order once in a while. So gardening alone never keeps a system busy for
//! ever.

use everglade_engine::admin::Change;
use everglade_engine::{GardeningState, State};
use everglade_env::BLOCK_SIZE;
use everglade_target::Target;

use super::cleaning::Cleaning;
use super::maker::EngineMaker;
use super::server::EngineSystem;

/// The token of the requests.
const TOKEN: u64 = u64::MAX;
/// Turns between two looks.
const TURNS: u32 = 32;
/// Kinds of jobs.
const JOBS: usize = 2;
/// Looks between two that read a part of a LUN.
const LOOKS: u32 = 2;
/// Blocks between the beginnings of two such parts.
const LOOK_BLOCKS: u64 = 32;
/// Consistency points without cleaning.
const REST_POINTS: u64 = 4;

impl EngineSystem {
    /// Cleaning begins when some consistency points are committed.
    pub(super) fn set_cleaning(&mut self, maker: &EngineMaker) {
        self.cleaning = maker.least_free_percent.map(|percent| Cleaning {
            rebalances: maker.rebalances,
            maps_space: maker.maps_space,
            moves_unshare: maker.moves_unshare,
            ..Cleaning::new(percent)
        });
    }

    /// Asks for a cleaning if it is time to.
    pub(super) fn clean(&mut self, reactor: usize) {
        let Some(cleaning) = &mut self.cleaning else {
            return;
        };
        cleaning.turns += 1;
        if cleaning.is_asked || !cleaning.turns.is_multiple_of(TURNS) {
            return;
        }
        let info = self.info();
        let cleaning = self.cleaning.as_mut().expect("as above");
        if info.state != State::Online {
            return;
        }
        let looks = cleaning.turns / TURNS;
        if looks.is_multiple_of(LOOKS) {
            self.look_over(reactor, looks / LOOKS);
        }
        let cleaning = self.cleaning.as_mut().expect("as above");
        let garden = &info.garden;
        let states = [
            garden.cleaning.state,
            garden.layout.state,
            garden.rebalance.state,
            garden.space_map.state,
        ];
        if states.contains(&GardeningState::Running) {
            cleaning.seen = info.committed_cp;
        } else if info.committed_cp >= cleaning.seen + REST_POINTS {
            cleaning.jobs += 1;
            let (jobs, least_free_percent) = (cleaning.jobs, cleaning.least_free_percent);
            let rebalances = cleaning.rebalances && (jobs / JOBS).is_multiple_of(2);
            let maps = cleaning.maps_space && (jobs / JOBS).is_multiple_of(3);
            let luns = self.cores[reactor].exports();
            let lun = luns.get(jobs / JOBS % luns.len().max(1));
            let change = match (lun, jobs % JOBS) {
                (Some(lun), 0) => {
                    let (volume, lun) = lun.name.split_once('/').expect("volume/lun");
                    Change::StartLayout {
                        volume: volume.to_owned(),
                        lun: lun.to_owned(),
                        is_estimate: false,
                    }
                }
                _ if maps => Change::MapSpace,
                _ if rebalances => Change::StartRebalance,
                _ => Change::StartCleaning { least_free_percent },
            };
            let cleaning = self.cleaning.as_mut().expect("as above");
            cleaning.seen = info.committed_cp;
            cleaning.is_asked = true;
            self.cores[reactor].change(self.aggregate, change, TOKEN);
        }
    }

    /// Reads a part of a LUN in order, so that it is put in order.
    fn look_over(&mut self, reactor: usize, number: u32) {
        let core = &mut self.cores[reactor];
        let luns = core.exports();
        let Some(lun) = luns.get(number as usize % luns.len().max(1)) else {
            return;
        };
        if let Ok((handle, export)) = core.open(&lun.name) {
            let blocks = export.size_bytes / BLOCK_SIZE as u64;
            core.look_over(handle, u64::from(number) * LOOK_BLOCKS % blocks.max(1));
            core.close(handle);
        }
    }

    /// Appends the answers to changes that others have asked for.
    pub fn poll_changes(&mut self, reactor: usize, done: &mut Vec<everglade_engine::AdminDone>) {
        self.take_answers(reactor);
        done.append(&mut self.answers[reactor]);
    }

    /// Takes the answers of a reactor, so that it has nothing to do because of them, also where
    /// nobody else asks it for changes.
    pub(super) fn take_answers(&mut self, reactor: usize) {
        let mut done = std::mem::take(&mut self.answers[reactor]);
        self.cores[reactor].poll_admin(&mut done);
        self.take_removals(&mut done);
        if let Some(cleaning) = &mut self.cleaning {
            let all = done.len();
            done.retain(|one| one.token != TOKEN);
            cleaning.is_asked &= done.len() == all;
        }
        self.answers[reactor] = done;
    }

    /// True if the blocks of a LUN that is put in order are written anew. Then images differ in
    /// blocks that no client has written.
    #[must_use]
    pub fn moves_unshare(&self) -> bool {
        let cleaning = self.cleaning.as_ref();
        cleaning.is_some_and(|it| it.moves_unshare)
    }

    /// True while areas are emptied.
    #[must_use]
    pub fn is_cleaning(&self) -> bool {
        self.info().garden.cleaning.state == GardeningState::Running
    }

    /// True while devices are made equally full.
    #[must_use]
    pub fn is_rebalancing(&self) -> bool {
        self.info().garden.rebalance.state == GardeningState::Running
    }

    /// True while something waits to be put in order because it was read.
    #[must_use]
    pub fn writes_after_read(&self) -> bool {
        self.info().garden.after_read.waiting_blocks > 0
    }

    /// True while a LUN is put in order.
    #[must_use]
    pub fn is_ordering(&self) -> bool {
        self.info().garden.layout.state == GardeningState::Running
    }
}
