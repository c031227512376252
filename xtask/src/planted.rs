//! Part of `cargo xtask test`: the programs with mistakes in them, in one build, and those who have
//! to find the mistakes.

use crate::step::{cargo, whole};
use crate::tally::Tally;
use crate::{sim, torture};

/// What is built: the simulation's hunt, the server, and the rig that robs it of its power.
const PROGRAMS: [&str; 3] = ["planted", "everglade-planted", "everglade-torture"];

/// Builds them and runs them.
pub(crate) fn verify(tally: &mut Tally) {
    let mut build = cargo(&["build", "--quiet", "--release", "--workspace"]);
    build.args(PROGRAMS.iter().flat_map(|name| ["--bin", name]));
    build.args(["--features", "everglade/planted,everglade-testing/planted"]);
    let failed = tally.failed();
    whole(tally, "building planted bugs", &mut build);
    if tally.failed() == failed {
        sim::planted(tally);
        torture::planted(tally);
    }
}
