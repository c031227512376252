//! Kinds of simulation, by name: what `sim` runs under a seed, and what hunts for planted bugs.

use super::words::Cases;
use super::{
    Failure, Report, clonings, compared, corrupted, creation, cuts, exhaustive, growth, histories,
    long, mirror, moments, small, snapshots,
};
use crate::engine::EngineMaker;
use crate::system::Maker;
use crate::workload::small::sequence_count;
use crate::{Rng, Seed};

/// A pool that small operations fill.
const TIGHT_BYTES: u64 = 20 << 20;

/// Operations in an enumerated sequence, and the pool they run on.
const SMALL_LENGTH: u32 = 3;
const SMALL_BYTES: u64 = 16 << 20;

/// A kind of simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Lives with restarts and cuts.
    Long,
    /// Long lives in a pool that is always close to full.
    Tight,
    /// Long lives in a pool that fills up.
    Fill,
    /// Long lives with failing devices and full hosts.
    Faults,
    /// Long lives with devices that damage their content silently.
    Silent,
    /// A short run, cut at each write.
    Cuts,
    /// One sequence of three operations, cut at each write; consecutive seeds run all sequences.
    Small,
    /// A case of the exhaustive simulation.
    Exhaustive,
    /// The making of an aggregate, cut at each write.
    Creation,
    /// Snapshots come, go and are restored.
    Snapshots,
    /// The same on mirrors and parity groups, which get more drives meanwhile.
    Grouped,
    /// Snapshots while many clients work.
    Moments,
    /// A case of the exhaustive simulation of snapshots.
    Histories,
    /// All short sequences with clones and splits.
    Clonings,
    /// A block of metadata is damaged, and something is done.
    Corrupted,
    /// The pool grows while clients work.
    Growth,
    /// The same with mirrors and parity groups.
    Groups,
    /// Drives of mirrors break, lie, and are away.
    Mirror,
    /// The same with parity groups.
    Parity,
    /// Clients count by compare-and-write.
    Compared,
    /// One of the others, while areas are emptied.
    Cleaned,
}

/// What a kind of simulation has beside its own events. Kinds of numbered cases are not changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// A mirror or a parity group instead of each device of the aggregate.
    pub groups: bool,
    /// Areas are emptied meanwhile.
    pub cleaning: bool,
}

impl Kind {
    /// The kind a seed stands for.
    #[must_use]
    pub fn of_seed(seed: Seed) -> Kind {
        let mut rng = Rng::for_part(seed.0, "kind");
        [
            Kind::Long,
            Kind::Long,
            Kind::Tight,
            Kind::Fill,
            Kind::Faults,
            Kind::Faults,
            Kind::Silent,
            Kind::Silent,
            Kind::Cuts,
            Kind::Small,
            Kind::Snapshots,
            Kind::Snapshots,
            Kind::Moments,
            Kind::Moments,
        ][rng.index(14)]
    }

    /// The kind of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Kind> {
        let all = [
            Kind::Long,
            Kind::Tight,
            Kind::Fill,
            Kind::Faults,
            Kind::Silent,
            Kind::Cuts,
            Kind::Small,
            Kind::Exhaustive,
            Kind::Creation,
            Kind::Snapshots,
            Kind::Grouped,
            Kind::Moments,
            Kind::Histories,
            Kind::Clonings,
            Kind::Corrupted,
            Kind::Growth,
            Kind::Groups,
            Kind::Mirror,
            Kind::Parity,
            Kind::Compared,
            Kind::Cleaned,
        ];
        all.into_iter().find(|kind| kind.name() == name)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Returns the preparation of a kind that consists of numbered cases.
    #[must_use]
    pub fn cases(self) -> Option<fn() -> Result<Cases, Failure>> {
        match self {
            Kind::Histories => Some(histories::cases),
            Kind::Clonings => Some(clonings::cases),
            Kind::Corrupted => Some(corrupted::cases),
            _ => None,
        }
    }

    /// Simulates the engine under a seed. A failed assertion is a verdict as well; its message has
    /// been printed, or caught, by the panic hook.
    ///
    /// # Errors
    /// A promise was broken.
    pub fn run(self, seed: Seed, trace_lines: usize) -> Result<Report, Failure> {
        self.run_beside(seed, Beside::default(), trace_lines)
    }

    /// What the kind `cleaned` is for a seed.
    fn cleaned(seed: Seed) -> (Kind, Beside) {
        let mut rng = Rng::for_part(seed.0, "cleaned");
        let kinds = [
            Kind::Long,
            Kind::Tight,
            Kind::Fill,
            Kind::Faults,
            Kind::Silent,
            Kind::Cuts,
            Kind::Snapshots,
            Kind::Snapshots,
            Kind::Moments,
            Kind::Growth,
        ];
        let beside = Beside {
            groups: rng.one_in(3),
            cleaning: true,
        };
        (kinds[rng.index(kinds.len())], beside)
    }

    /// The same, with a mirror or a parity group instead of each device of the aggregate. Kinds of
    /// numbered cases have devices of their own, and are not changed.
    ///
    /// # Errors
    /// A promise was broken.
    pub fn run_in_groups(self, seed: Seed, trace_lines: usize) -> Result<Report, Failure> {
        let beside = Beside {
            groups: true,
            ..Beside::default()
        };
        self.run_beside(seed, beside, trace_lines)
    }

    /// The same, with other things beside it.
    ///
    /// # Errors
    /// A promise was broken.
    pub fn run_beside(
        self,
        seed: Seed,
        beside: Beside,
        trace_lines: usize,
    ) -> Result<Report, Failure> {
        if self == Kind::Cleaned {
            let (kind, beside) = Kind::cleaned(seed);
            return kind.run_beside(seed, beside, trace_lines);
        }
        let mut maker = EngineMaker::of_seed(seed);
        if beside.groups {
            maker = mirror::in_groups(seed, &maker);
        }
        if beside.cleaning {
            maker = maker.cleaning(seed);
        }
        // These kinds follow each change of the devices.
        let follows = [Kind::Growth, Kind::Mirror, Kind::Parity, Kind::Corrupted];
        maker.removes_members &= !follows.contains(&self);
        self.run_on(&maker, seed, trace_lines)
    }

    fn run_on(
        self,
        maker: &EngineMaker,
        seed: Seed,
        trace_lines: usize,
    ) -> Result<Report, Failure> {
        let plan = long::Plan {
            trace_lines,
            faults: self == Kind::Faults,
            silent: self == Kind::Silent,
            ..long::Plan::of_seed(seed)
        };
        let verdict = std::panic::catch_unwind(|| match self {
            Kind::Cuts => cuts::run_of_seed(seed, maker),
            Kind::Small => {
                let count = sequence_count(SMALL_LENGTH);
                let share = small::Share {
                    length: SMALL_LENGTH,
                    stride: usize::MAX,
                    first: usize::try_from(seed.0 % count).expect("some thousand"),
                };
                small::run(seed, SMALL_BYTES, maker, share, cuts::Thoroughness::SOME)
            }
            Kind::Exhaustive => {
                let prepared = exhaustive::Exhaustive::new(Seed(1))?;
                prepared.run(seed.0 % exhaustive::count())
            }
            Kind::Creation => creation::run(seed, &maker.devices(SMALL_BYTES), maker),
            Kind::Snapshots => snapshots::run(seed, snapshots::Plan::of_seed(seed), maker),
            Kind::Grouped => {
                let plan = snapshots::Plan {
                    grows: true,
                    ..snapshots::Plan::of_seed(seed)
                };
                snapshots::run(seed, plan, &mirror::in_groups(seed, maker))
            }
            Kind::Histories | Kind::Clonings | Kind::Corrupted => {
                let prepare = self.cases().expect("these have");
                let all = prepare()?;
                all.run(seed.0 % all.count())
            }
            Kind::Growth | Kind::Groups => {
                let maker = match self {
                    Kind::Groups => mirror::in_groups(seed, maker),
                    _ => *maker,
                };
                let plan = growth::Plan {
                    trace_lines,
                    ..growth::Plan::of_seed(seed)
                };
                growth::run(seed, plan, &maker)
            }
            Kind::Mirror | Kind::Parity => {
                let maker = match self {
                    Kind::Parity => mirror::with_parity(seed, maker),
                    _ => *maker,
                };
                let plan = mirror::Plan {
                    trace_lines,
                    ..mirror::Plan::of_seed(seed)
                };
                mirror::run(seed, plan, &maker)
            }
            Kind::Compared => compared::run(seed, maker),
            Kind::Moments => moments::run(seed, moments::Plan::of_seed(seed), maker),
            Kind::Tight => long::run(seed, plan.tight(TIGHT_BYTES), maker),
            Kind::Fill => long::run(seed, plan.filling(), maker),
            Kind::Long | Kind::Faults | Kind::Silent => long::run(seed, plan, maker),
            Kind::Cleaned => unreachable!("it is one of the others"),
        });
        verdict.unwrap_or_else(|_| Err(Failure::panicked()))
    }
}
