//! Mechanisms that can be switched off, for benchmarks that show what each of them does (N-06).
//!
//! Both ways are right and are tested, and media may have been used with either. Operators have no
//! use for this, so no configuration file has it.

use std::str::FromStr;

use everglade_engine::Options;

/// A mechanism that is switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ablation {
    /// LUNs with few changes are cleaned together (D-23).
    LunBatching,
    /// What cleaning lets go is released for a whole consistency point at a time (D-10).
    Stages,
    /// What a LUN that is put in order shares with snapshots and clones stays shared (H-03, H-14).
    SharedMoves,
}

impl Ablation {
    /// All of them.
    pub const ALL: [Ablation; 3] = [
        Ablation::LunBatching,
        Ablation::Stages,
        Ablation::SharedMoves,
    ];

    /// Its name after `--ablation`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Ablation::LunBatching => "lun-batching",
            Ablation::Stages => "stages",
            Ablation::SharedMoves => "shared-moves",
        }
    }

    /// Switches it off.
    pub(crate) fn apply(self, options: Options) -> Options {
        match self {
            Ablation::LunBatching => Options {
                luns_together: 1,
                ..options
            },
            Ablation::Stages => Options {
                stage_blocks: 1,
                ..options
            },
            Ablation::SharedMoves => Options {
                moves_unshare: true,
                ..options
            },
        }
    }
}

impl FromStr for Ablation {
    type Err = String;

    fn from_str(word: &str) -> Result<Ablation, String> {
        let found = Ablation::ALL.into_iter().find(|it| it.name() == word);
        found.ok_or_else(|| {
            let names = Ablation::ALL.map(Ablation::name).join(", ");
            format!("there is no such mechanism; known are: {names}")
        })
    }
}

#[cfg(test)]
mod tests {
    use everglade_engine::{LUNS_TOGETHER, STAGE_BLOCKS};

    use super::*;

    #[test]
    fn each_is_known_by_its_name_and_switches_something_off() {
        for ablation in Ablation::ALL {
            assert_eq!(ablation.name().parse(), Ok(ablation));
        }
        let refused = "all".parse::<Ablation>().unwrap_err();
        assert!(refused.contains("lun-batching, stages"), "{refused}");
        let usual = Options::default();
        let switches = |options: Options| (options.luns_together, options.stage_blocks);
        assert_eq!(switches(usual), (LUNS_TOGETHER, STAGE_BLOCKS));
        let without = |it: Ablation| switches(it.apply(usual));
        assert_eq!(without(Ablation::LunBatching), (1, STAGE_BLOCKS));
        assert_eq!(without(Ablation::Stages), (LUNS_TOGETHER, 1));
    }
}
