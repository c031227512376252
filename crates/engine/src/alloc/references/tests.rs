//! References, against plain counts.

use std::collections::BTreeMap;

use everglade_format::{CpNumber, FileId, Vvbn, refcount};
use proptest::prelude::*;

use super::{prepare_release, release};
use crate::alloc::fixture::{CONTAINER, Pair, is_used, load};
use crate::read::load::Stop;

const STAMP: (CpNumber, u64) = (CpNumber(1), 0);

fn add(pair: &mut Pair, vvbn: Vvbn) -> u16 {
    let count = load(|cx| pair.volume.prepare_reference(cx, STAMP, vvbn));
    let count = count.expect("nothing is loaded");
    pair.volume.add_reference(vvbn);
    count
}

fn drop_one(pair: &mut Pair, vvbn: Vvbn) {
    let Pair { aggregate, volume } = pair;
    load(|cx| prepare_release(aggregate, volume, CONTAINER, cx, vvbn)).expect("it is in use");
    release(aggregate, volume, CONTAINER, vvbn);
}

#[test]
fn without_a_refcount_file_the_first_release_frees() {
    let mut pair = Pair::new();
    let vvbn = pair.store();
    drop_one(&mut pair, vvbn);
    assert!(!is_used(&mut pair.volume, vvbn.0));
    assert!(!pair.volume.has_counts, "nobody made the file");
}

#[test]
fn a_count_that_cannot_go_higher_is_damage_before_anything_changes() {
    let mut pair = Pair::new();
    let vvbn = pair.store();
    add(&mut pair, vvbn);
    let (block, slot) = refcount::block_and_slot(vvbn);
    let file: FileId = everglade_format::metafile::REFCOUNTS;
    let page = pair
        .volume
        .file(file)
        .changed_page(0, block)
        .expect("changed");
    refcount::set(page, slot, refcount::COUNT_MAX);
    let refused = load(|cx| pair.volume.prepare_reference(cx, STAMP, vvbn));
    assert!(matches!(refused, Err(Stop::Damaged(_))));
    drop_one(&mut pair, vvbn);
    assert_eq!(
        add(&mut pair, vvbn),
        refcount::COUNT_MAX - 1,
        "one less is enough"
    );
}

proptest! {
    #[test]
    fn a_block_is_freed_with_its_last_reference_and_not_before(
        steps in prop::collection::vec((0..3_usize, any::<bool>()), 1..60),
    ) {
        let mut pair = Pair::new();
        let vvbns = [pair.store(), pair.store(), pair.store()];
        let mut references: BTreeMap<Vvbn, u16> = vvbns.iter().map(|vvbn| (*vvbn, 1)).collect();
        for (which, is_more) in steps {
            let vvbn = vvbns[which];
            let known = references[&vvbn];
            match (known, is_more) {
                (0, _) => continue,
                (_, true) => {
                    prop_assert_eq!(add(&mut pair, vvbn), known - 1, "beyond the first");
                    references.insert(vvbn, known + 1);
                }
                (_, false) => {
                    drop_one(&mut pair, vvbn);
                    references.insert(vvbn, known - 1);
                }
            }
            for (vvbn, count) in &references {
                prop_assert_eq!(is_used(&mut pair.volume, vvbn.0), *count > 0);
                prop_assert_eq!(pair.slot(*vvbn).has_block(), *count > 0);
            }
        }
    }
}
