//! Accepts every image that the engine left, and reports for every damaged image exactly its
//! damage.
//!
//! Each image is checked as it is, then damaged in every way that finds a victim in it, one at a
//! time. The verifier must name the damage by its kind and its victim; whatever else it reports
//! must follow from it.
//!
//! `EVERGLADE_CHECK_IMAGES=1000 cargo test --release -p everglade-check corruption -- --nocapture`
//! checks that many images and prints the number of tries of each way.

use std::collections::{BTreeMap, BTreeSet};

use everglade_check::{Kind, Report};
use everglade_env::BLOCK_SIZE;
use everglade_testing::system::Maker;
use everglade_testing::{Rng, SimWorld};

use crate::corrupter::{self, Atlas, Damage, Way, harmless};
use crate::lived::{self, Lived};
use crate::reading;
use crate::snapped;

/// Images in an ordinary run: some seconds.
const IMAGES: u64 = 30;
/// Each way must have been tried so often in an ordinary run.
const TRIES_MIN: u64 = 5;
/// But one that needs a power cut between the commit of a deletion and the first step of its scan:
/// a step releases all that the small volumes here have.
const ONCE_IS_ENOUGH: &str = "delete-scan-farther-than-it-is";

fn images() -> u64 {
    let text = std::env::var("EVERGLADE_CHECK_IMAGES");
    text.map_or(IMAGES, |text| text.parse().expect("a number"))
}

/// Why the verifier's opinion of a damaged image is wrong, if it is.
fn fault(damage: &Damage, report: &Report, before: &BTreeSet<Kind>) -> Option<String> {
    let all = report.problems.iter().chain(&report.warnings);
    let named = all.clone().any(|problem| {
        let line = problem.to_string();
        problem.kind == damage.expect && damage.words.iter().all(|word| line.contains(word))
    });
    if !named {
        let (kind, words) = (damage.expect.name(), &damage.words);
        return Some(format!("no {kind} with {words:?}"));
    }
    let follows = |kind: Kind| {
        kind == damage.expect || damage.along.contains(&kind) || before.contains(&kind)
    };
    let other = all.clone().find(|problem| !follows(problem.kind))?;
    Some(format!("accused of {}", other.kind.name()))
}

/// Tries one way on one image. Returns the error in the verdict, if any; `None` if the way finds no
/// victim.
fn try_way(
    way: &Way,
    lived: &Lived,
    atlas: &Atlas,
    before: &BTreeSet<Kind>,
    rng: &mut Rng,
) -> Option<Result<(), String>> {
    let (name, make) = way;
    let damage = make(atlas, rng)?;
    let world = lived.world();
    damage.apply(atlas, &world);
    let report = lived::report(&world);
    Some(match fault(&damage, &report, before) {
        None => Ok(()),
        Some(fault) => Err(format!("image {}, {name}: {fault}\n{report}", lived.seed)),
    })
}

/// Acquits images, damages each in every way, and convicts.
fn judge(make: fn(u64) -> Lived, images: u64, ways: &[Way]) {
    let mut tries: BTreeMap<&str, u64> = ways.iter().map(|(name, _)| (*name, 0)).collect();
    let (mut blocks, mut unreplayed, mut wrong) = (0, 0, Vec::new());
    for seed in 0..images {
        let lived = make(seed);
        let report = lived::report(&lived.world());
        assert!(report.is_clean(), "image {seed}: {report}");
        blocks += report.counts.blocks_used;
        unreplayed += u64::from(report.journal.is_some_and(|it| it.operations > 0));
        let before = report.totals.keys().copied().collect();
        let atlas = Atlas::of(&lived.world());
        let mut rng = Rng::for_part(seed, "corrupter");
        for way in ways {
            let verdict = try_way(way, &lived, &atlas, &before, &mut rng);
            *tries.get_mut(way.0).expect("listed") += u64::from(verdict.is_some());
            wrong.extend(verdict.and_then(Result::err));
        }
    }
    let count = wrong.len();
    wrong.truncate(20);
    assert!(
        wrong.is_empty(),
        "{count} wrong verdicts: {}",
        wrong.join("\n\n")
    );
    println!(
        "{images} images with {blocks} blocks, {unreplayed} of them with an unreplayed journal: \
        all acquitted"
    );
    println!(
        "{} damaged in {} ways: all convicted",
        tries.values().sum::<u64>(),
        ways.len()
    );
    for (name, tries) in &tries {
        println!("  {tries:6} {name}");
    }
    let rare: Vec<_> = tries
        .iter()
        .filter(|(name, tries)| {
            let least = match **name {
                ONCE_IS_ENOUGH => 1,
                _ => TRIES_MIN.min(images),
            };
            **tries < least
        })
        .collect();
    assert!(rare.is_empty(), "tried too seldom: {rare:?}");
}

#[test]
fn images_that_lived_are_acquitted_and_damaged_ones_convicted() {
    judge(lived::image, images(), &corrupter::all());
}

#[test]
fn images_that_grew_are_acquitted_and_damaged_ones_convicted() {
    let (mut epochs, mut cut) = (BTreeSet::new(), 0);
    for seed in 0..images() {
        let report = lived::report(&lived::grown(seed).world());
        epochs.insert(report.epoch);
        cut += u64::from(report.totals.contains_key(&Kind::ChangeCut));
    }
    assert!(epochs.len() > 2 && cut > 0, "{epochs:?}, {cut} cut");
    judge(lived::grown, images(), &corrupter::of_growths());
}

#[test]
fn images_with_snapshots_are_acquitted_and_damaged_ones_convicted() {
    judge(snapped::image, 5 * images(), corrupter::of_snapshots());
}

#[test]
fn images_with_clones_of_luns_are_acquitted_and_damaged_ones_convicted() {
    judge(
        snapped::image_with_clones,
        2 * images(),
        corrupter::of_lun_clones(),
    );
}

#[test]
fn images_with_clones_are_acquitted_and_damaged_ones_convicted() {
    judge(snapped::cloned, 3 * images(), &corrupter::of_clones());
}

#[test]
fn images_with_splits_are_acquitted_and_damaged_ones_convicted() {
    judge(snapped::split, 3 * images(), corrupter::of_splits());
}

/// Checks that changes which the verifier accepts do not change the content of any read.
fn reads_as_before(make: fn(u64) -> Lived, change: corrupter::Make) {
    let (mut changed, mut errors) = (0, 0);
    for seed in 0..60 {
        let lived = make(seed);
        let (world, mut rng) = (lived.world(), Rng::for_part(seed, "harmless"));
        let atlas = Atlas::of(&world);
        let Some(change) = change(&atlas, &mut rng) else {
            continue;
        };
        change.apply(&atlas, &world);
        let report = lived::report(&world);
        assert!(report.is_clean(), "image {seed}: {report}");
        let before = reading::all(&lived.maker, &lived.world()).expect("it starts");
        let now = reading::all(&lived.maker, &world).expect("it starts");
        let wrong = reading::wrong(&before, &now);
        assert!(wrong.is_empty(), "image {seed}: {wrong:?}");
        errors += now.values().filter(|bytes| bytes.is_none()).count();
        changed += 1;
        if changed == 12 {
            break;
        }
    }
    assert!(changed > 3, "{changed}");
    assert_eq!(errors, 0, "hints that are wrong cost nobody an answer");
}

#[test]
fn a_pvbn_that_is_out_of_date_is_found_by_the_container_in_any_volume() {
    reads_as_before(lived::image, harmless::mislead);
}

#[test]
fn a_volume_that_does_not_know_that_it_was_split_reads_as_before() {
    reads_as_before(snapped::split, corrupter::splits::done_forgotten);
}

#[test]
fn a_volume_that_says_for_nothing_that_it_was_split_reads_as_before() {
    reads_as_before(snapped::split, corrupter::splits::done_for_nothing);
}

#[test]
fn damage_to_splits_is_never_read_as_other_data() {
    let ways = corrupter::of_splits();
    let mut changed = 0;
    for seed in 0..10 {
        let lived = snapped::split(seed);
        let atlas = Atlas::of(&lived.world());
        let Some(before) = reading::all(&lived.maker, &lived.world()) else {
            panic!("image {seed} does not start");
        };
        for (name, make) in ways {
            let world = lived.world();
            let Some(damage) = make(&atlas, &mut Rng::for_part(seed, name)) else {
                continue;
            };
            damage.apply(&atlas, &world);
            changed += 1;
            let now = reading::all(&lived.maker, &world).unwrap_or_default();
            let wrong = reading::wrong(&before, &now);
            assert!(wrong.is_empty(), "image {seed}, {name}: {wrong:?}");
        }
    }
    assert!(changed > 20, "{changed}");
}

#[test]
fn a_snapshot_marked_unfolded_for_nothing_is_harmless() {
    let mut changed = 0;
    for seed in 0..12 {
        let lived = snapped::image(seed);
        let (world, mut rng) = (lived.world(), Rng::for_part(seed, "harmless"));
        let atlas = Atlas::of(&world);
        let Some(change) = corrupter::snapshots::unfold(&atlas, &mut rng) else {
            continue;
        };
        change.apply(&atlas, &world);
        let report = lived::report(&world);
        assert!(report.is_clean(), "image {seed}: {report}");
        changed += 1;
    }
    assert!(changed > 3, "{changed}");
}

#[test]
fn a_clone_of_an_older_clone_of_the_same_snapshot_is_as_good_as_one_of_the_parent() {
    let mut changed = 0;
    for seed in 0..60 {
        let lived = snapped::cloned(seed);
        let (world, mut rng) = (lived.world(), Rng::for_part(seed, "harmless"));
        let atlas = Atlas::of(&world);
        let change = corrupter::clones::base_of_an_older_clone(&atlas, &mut rng);
        let Some(change) = change else { continue };
        change.apply(&atlas, &world);
        let report = lived::report(&world);
        assert!(report.is_clean(), "image {seed}: {report}");
        lived.maker.mount(&world).expect("it starts");
        changed += 1;
    }
    assert!(changed > 3, "{changed}");
}

#[test]
fn what_the_verifier_counts_is_what_the_next_start_replays() {
    // Two readers that share no code but the codec.
    let (mut compared, mut seed) = (0, 0);
    while compared < 10 {
        let lived = lived::image(seed);
        let report = lived::report(&lived.world());
        let journal = report.journal.filter(|journal| journal.operations > 0);
        if let (Some(journal), Some(last)) = (journal, journal.and_then(|_| lived.recovered())) {
            assert_eq!(journal.next_sequence, last + 1, "image {seed}");
            compared += 1;
        }
        seed += 1;
        assert!(seed < 500, "journals are rarely unreplayed");
    }
}

#[test]
fn ways_have_names_of_their_own_and_cover_the_kinds() {
    let ways = corrupter::all();
    let names: BTreeSet<&str> = ways.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.len(), ways.len());
    assert!(ways.len() >= 60, "{}", ways.len());
}

#[test]
fn harmless_changes_are_acquitted() {
    let mut changed = 0;
    for seed in 0..12 {
        let lived = lived::image(seed);
        let world = lived.world();
        for change in [harmless::mislead, harmless::repaint] {
            let atlas = Atlas::of(&world);
            let Some(change) = change(&atlas, &mut Rng::for_part(seed, "harmless")) else {
                continue;
            };
            change.apply(&atlas, &world);
            let report = lived::report(&world);
            assert!(report.is_clean(), "image {seed}: {report}");
            changed += 1;
        }
    }
    assert!(changed > 10, "{changed}");
}

#[test]
fn a_block_repainted_twice_leaves_the_image_as_it_was() {
    let lived = (0..)
        .map(lived::image)
        .find(|lived| !Atlas::of(&lived.world()).leaves().is_empty());
    let lived = lived.expect("some image has data");
    let (before, world) = (lived.world(), lived.world());
    for round in 0..2 {
        let atlas = Atlas::of(&world);
        let repaint = harmless::repaint(&atlas, &mut Rng::new(1)).expect("it has data");
        repaint.apply(&atlas, &world);
        assert_eq!(bytes(&before) == bytes(&world), round == 1);
    }
}

/// Returns all blocks that are not zero.
fn bytes(world: &SimWorld) -> BTreeMap<(u32, u64), Vec<u8>> {
    let storage = world.storage();
    let mut all = BTreeMap::new();
    for device in world.devices() {
        for block in 0..storage.size_bytes(device) / BLOCK_SIZE as u64 {
            let mut bytes = vec![0; BLOCK_SIZE];
            storage
                .read(device, block * BLOCK_SIZE as u64, &mut bytes)
                .expect("no faults");
            if bytes.iter().any(|byte| *byte != 0) {
                all.insert((device.0, block), bytes);
            }
        }
    }
    all
}
