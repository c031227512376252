//! Applying the result of a cleaner leaves the same state as changing the trees leaf by leaf.

use std::collections::VecDeque;
use std::sync::Arc;

use everglade_env::{DeviceId, Page, PageRef, SegmentFault};
use everglade_format::{BLOCK_SIZE, FileId, Pointer, SPAN, Tag};

use super::*;
use crate::cp::fixture::{REGIONS, Scene};
use crate::pool::fragment::Fragment;
use crate::pool::overlay::Overlay;
use crate::tree::file::Leaf;

fn page(byte: u8) -> PageRef {
    Page::copy_of(&[byte; BLOCK_SIZE]).freeze()
}

fn data(byte: u8) -> Change {
    Change::Data(page(byte))
}

/// Bytes 100 up to 200 of a block.
fn fragment(byte: u8) -> Change {
    Change::Fragment(Fragment::new(page(byte), &(100..200)))
}

/// Regions that an overlay changes.
fn job(scene: &Scene, overlay: Overlay) -> Job {
    let overlay = Arc::new(overlay);
    let regions = overlay.regions.keys();
    let regions: VecDeque<_> = regions
        .map(|(_, region)| (*region, overlay.clone()))
        .collect();
    Job {
        volume: scene.volume,
        lun: scene.lun,
        regions,
    }
}

/// The reference: the same without a cleaner, and each block of the trees changed where it is.
fn leaf_by_leaf(site: &mut Site<'_>, cx: &mut LoadCx<'_>, ready: Ready<'_>) {
    let lun = ready.lun;
    let fragments = ready.fragments;
    site.note_lost(lun, fragments.unreadable);
    for Loaded {
        region,
        changes,
        replaced,
    } in ready.regions
    {
        if changes.punched_whole {
            for (leaf, _) in leaves_of(site.file(lun), region).expect("decoded") {
                let set = site.file(lun).set_leaf(leaf, Pointer::HOLE);
                set.expect("decoded");
            }
        }
        let end = site.file(lun).inode.block_count();
        let mut stored = Vec::new();
        for (leaf, change) in within(region, changes, end) {
            let content = match change {
                Change::Data(page) => Some(page),
                Change::Fragment(_) => fragments.merged.get(&leaf),
                Change::Punched => None,
            };
            let pointer = match (content, change) {
                (Some(page), _) => {
                    let mut pointer = site.take(Purpose::Data);
                    let key = &site.aggregate.key;
                    pointer.tag = Tag::of(everglade_journal::page_code(key, page));
                    site.enter(pointer, page.clone());
                    stored.push((pointer, page.clone()));
                    pointer
                }
                (None, Change::Punched) => Pointer::HOLE,
                (None, _) => Pointer::LOST,
            };
            let set = site.file(lun).set_leaf(leaf, pointer);
            set.expect("decoded");
        }
        cx.keep_data(stored);
        let file = site.file(lun);
        file.inode_changed = true;
        let old = match file.remove_if_empty(1, region) {
            Some(old) => old,
            None => {
                let new = site.take(Purpose::Data);
                let old = site.file(lun).place((1, region), new);
                let (cp, key) = (site.cp, &site.aggregate.key);
                let (pointer, page) = site.volume.fs.file(lun).seal((1, region), cp, key);
                site.record(cx, pointer, page);
                old
            }
        };
        for old in replaced {
            site.release(old.vvbn);
        }
        if old.has_block() {
            site.free(old.vvbn);
        }
    }
}

type Modify = fn(&mut Site<'_>, &mut LoadCx<'_>, Ready<'_>);

impl Scene {
    /// Cleans what an overlay has, and begins the next consistency point.
    fn clean(&mut self, overlay: Overlay, modify: Modify) {
        let mut job = job(self, overlay);
        while !job.regions.is_empty() {
            let mut site = self.home.site(self.volume).0;
            let regions = Room::default().take(&job);
            let count = regions.len();
            let (outcome, wants) = self.shelf.load(|cx| {
                for ready in load(&mut site, cx, vec![(job.lun, regions)])? {
                    modify(&mut site, cx, ready);
                }
                Ok::<_, Stop>(())
            });
            assert_eq!(wants, [], "all is in memory");
            outcome.expect("nothing stops");
            job.regions.drain(..count);
        }
        while !self.site().stage.is_empty() {
            let volume = self.volume;
            let home = &mut self.home;
            let (outcome, wants) = self.shelf.load(|cx| stage::release_some(home, cx, volume));
            assert_eq!(wants, [], "all is in memory");
            outcome.expect("nothing stops");
        }
        self.next_cp();
    }

    fn pointer(&mut self, leaf: u64) -> Pointer {
        let file = self.home.site(self.volume).0.volume.fs.files.get(&self.lun);
        let (pointer, _) = self
            .shelf
            .load(|cx| file.expect("made").pointer(cx, 0, leaf));
        pointer.expect("all is in memory")
    }

    /// Bytes 0 and 150 of a leaf; none of a hole.
    fn bytes(&mut self, leaf: u64) -> Option<[u8; 2]> {
        let file = self.home.site(self.volume).0.volume.fs.files.get(&self.lun);
        let (leaf, _) = self.shelf.load(|cx| file.expect("made").leaf(cx, leaf));
        match leaf.expect("all is in memory") {
            Leaf::Hole => None,
            found => Some([found.bytes()[0], found.bytes()[150]]),
        }
    }

    fn inode_blocks(&mut self) -> u64 {
        let lun = self.lun;
        self.site().file(lun).inode.blocks
    }
}

/// Leaves 0 to 9 and 20 of region 0, 3 of region 1, none of region 2.
fn before(lun: FileId) -> Overlay {
    let mut overlay = Overlay::default();
    for leaf in (0..10).chain([20, SPAN + 3]) {
        overlay.insert(
            lun,
            leaf,
            data(u8::try_from(leaf % SPAN).expect("small") + 1),
        );
    }
    overlay
}

/// Makes the changes in two scenes, by way of a cleaner and leaf by leaf, compares all that there
/// is afterwards, and returns the cleaner's. `spoil` happens to both before.
fn cleaned_after(spoil: fn(&mut Scene), change: fn(FileId, &mut Overlay)) -> Scene {
    let [mut scene, mut reference] = [clean_all as Modify, leaf_by_leaf].map(|modify| {
        let mut scene = Scene::new();
        let lun = scene.lun;
        scene.clean(before(lun), modify);
        spoil(&mut scene);
        let mut overlay = Overlay::default();
        change(lun, &mut overlay);
        scene.clean(overlay, modify);
        scene
    });
    let (found, expected) = (scene.digest(), reference.digest());
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.0, expected.0);
        assert!(found.1 == expected.1, "{} differs", found.0);
    }
    scene
}

fn cleaned(change: fn(FileId, &mut Overlay)) -> Scene {
    cleaned_after(|_| {}, change)
}

#[test]
fn an_overwritten_block_has_a_new_place_and_its_old_one_is_free() {
    let mut scene = Scene::new();
    let lun = scene.lun;
    scene.clean(before(lun), clean_all);
    let (old, used) = (scene.pointer(4), scene.site().volume.fs.used);
    let mut scene = cleaned(|lun, overlay| {
        overlay.insert(lun, 4, data(99));
        overlay.insert(lun, 11, data(98));
    });
    assert_eq!(scene.bytes(4), Some([99, 99]));
    assert_eq!(scene.bytes(11), Some([98, 98]));
    assert_eq!(scene.bytes(5), Some([6, 6]), "its neighbour stays");
    let pointer = scene.pointer(4);
    assert_ne!(pointer.vvbn, old.vvbn);
    let site = scene.site();
    assert_eq!(site.volume.fs.used, used + 1, "one block more");
    let container = site.below.file(site.id);
    let slot = |vvbn| container.leaf_pointer(vvbn).expect("it is changed");
    assert!(slot(old.vvbn.0).is_hole(), "the old vvbn was punched");
    assert_eq!(slot(pointer.vvbn.0).pvbn, pointer.pvbn);
    assert_eq!(slot(pointer.vvbn.0).tag, pointer.tag);
}

#[test]
fn a_punched_leaf_is_a_hole() {
    let mut scene = cleaned(|lun, overlay| {
        overlay.insert(lun, 4, Change::Punched);
        overlay.insert(lun, 12, Change::Punched);
    });
    assert_eq!(scene.bytes(4), None);
    assert_eq!(scene.bytes(5), Some([6, 6]));
    // Leaves, level-1 blocks and the one above.
    assert_eq!(scene.inode_blocks(), 11 + 2 + 1);
}

#[test]
fn a_region_punched_as_a_whole_has_only_what_came_later() {
    let mut scene = cleaned(|lun, overlay| {
        overlay.punch_region(lun, 0);
        overlay.insert(lun, 7, data(77));
        overlay.insert(lun, 9, fragment(78));
    });
    assert_eq!(scene.bytes(0), None);
    assert_eq!(scene.bytes(7), Some([77, 77]));
    assert_eq!(scene.bytes(9), Some([0, 78]), "what was below is gone");
    assert_eq!(scene.inode_blocks(), 3 + 2 + 1);
}

#[test]
fn a_level_1_block_goes_with_its_last_leaf() {
    let mut scene = cleaned(|lun, overlay| {
        overlay.punch_region(lun, 0);
        overlay.insert(lun, SPAN + 3, Change::Punched);
    });
    // The one above goes when the consistency point finishes.
    assert_eq!(scene.inode_blocks(), 1);
    let site = scene.site();
    assert_eq!((site.volume.fs.used, site.below.used), (0, 0));
}

#[test]
fn a_region_without_blocks_stays_as_it_is() {
    let mut scene = cleaned(|lun, overlay| {
        overlay.punch_region(lun, 2);
        overlay.insert(lun, SPAN + 4, Change::Punched);
    });
    assert_eq!(scene.bytes(SPAN + 3), Some([4, 4]));
    assert_eq!(scene.bytes(2 * SPAN), None);
    assert_eq!(scene.inode_blocks(), 12 + 2 + 1);
}

#[test]
fn a_fragment_goes_over_what_was_there() {
    let mut scene = cleaned(|lun, overlay| {
        overlay.insert(lun, 4, fragment(99));
        overlay.insert(lun, 2 * SPAN + 8, fragment(98));
    });
    assert_eq!(scene.bytes(4), Some([5, 99]));
    assert_eq!(scene.bytes(2 * SPAN + 8), Some([0, 98]), "over a hole");
}

#[test]
fn a_fragment_of_a_block_that_cannot_be_read_is_lost_and_noted_once() {
    let spoil = |scene: &mut Scene| {
        let pointer = scene.pointer(4);
        scene.shelf.damage(pointer);
    };
    let mut scene = cleaned_after(spoil, |lun, overlay| {
        overlay.insert(lun, 4, fragment(99));
        overlay.insert(lun, 5, data(98));
    });
    assert!(scene.pointer(4).is_lost());
    assert_eq!(scene.bytes(5), Some([98, 98]));
    assert_eq!(scene.site().volume.fs.lost, 1);
    // Lost stays lost, without another note, until all of it is overwritten.
    let lun = scene.lun;
    let mut overlay = Overlay::default();
    overlay.insert(lun, 4, fragment(97));
    scene.clean(overlay, clean_all);
    assert!(scene.pointer(4).is_lost());
    assert_eq!(scene.site().volume.fs.lost, 1);
    let mut overlay = Overlay::default();
    overlay.insert(lun, 4, data(96));
    scene.clean(overlay, clean_all);
    assert_eq!(scene.bytes(4), Some([96, 96]));
}

/// The file may come back, with the block in it.
#[test]
fn no_block_becomes_lost_while_a_segment_file_is_and_the_aggregate_halts() {
    let mut scene = Scene::without(vec![SegmentFault {
        device: DeviceId(0),
        path: "/d/00000001.seg".into(),
        found_bytes: None,
        expected_bytes: 1 << 30,
        range: 1 << 30..2 << 30,
    }]);
    let lun = scene.lun;
    scene.site().aggregate.standing.open();
    scene.clean(before(lun), clean_all);
    assert!(!scene.site().aggregate.is_halted());
    let pointer = scene.pointer(4);
    scene.shelf.damage(pointer);
    let mut overlay = Overlay::default();
    overlay.insert(lun, 4, fragment(99));
    scene.clean(overlay, clean_all);
    let site = scene.site();
    assert!(site.aggregate.is_halted());
    let state = format!("{:?}", site.aggregate.state());
    assert!(state.contains("a change needs a block"), "{state}");
    assert!(state.contains("; /d/00000001.seg is missing"), "{state}");
    assert_eq!(site.volume.fs.lost, 0);
}

/// A plan: volume, LUN and number of changed regions of each job.
fn plan(jobs: &[(u32, u32, u64)]) -> VecDeque<Job> {
    let job = |(volume, lun, count): &(u32, u32, u64)| {
        let mut overlay = Overlay::default();
        for region in 0..*count {
            overlay.insert(FileId(*lun), region * SPAN, data(1));
        }
        let overlay = Arc::new(overlay);
        Job {
            volume: FileId(*volume),
            lun: FileId(*lun),
            regions: (0..*count).map(|it| (it, overlay.clone())).collect(),
        }
    };
    jobs.iter().map(job).collect()
}

#[test]
fn a_step_takes_several_luns_of_one_volume() {
    let taken = |jobs: &[(u32, u32, u64)], luns_max| {
        let plan = plan(jobs);
        let taken = taken(&plan, luns_max);
        let luns: Vec<u32> = taken.iter().map(|(lun, _)| lun.0).collect();
        (luns, plan.len() - taken.len())
    };
    let small = [(1, 64, 1), (1, 65, 2), (1, 66, 1), (2, 64, 1)];
    assert_eq!(taken(&small, 32), (vec![64, 65, 66], 1), "one volume");
    assert_eq!(taken(&small, 2), (vec![64, 65], 2));
    assert_eq!(taken(&small, 1), (vec![64], 3), "each by itself");
    let large = [(1, 64, 40), (1, 65, 1)];
    assert_eq!(taken(&large, 32), (vec![64], 1), "there is no more room");
    let cut = [(1, 64, 20), (1, 65, 20), (1, 66, 1)];
    assert_eq!(taken(&cut, 32), (vec![64, 65], 1), "a part of the second");
    assert_eq!(taken(&[], 32), (vec![], 0));
    let plan = plan(&cut);
    let mut room = Room::default();
    let regions: Vec<usize> = plan.iter().map(|job| room.take(job).len()).collect();
    assert_eq!(regions, [20, 12, 0]);
}

#[test]
fn changes_beyond_the_end_of_a_lun_are_void() {
    let spoil = |scene: &mut Scene| {
        let lun = scene.lun;
        scene.site().file(lun).inode.size_bytes = (SPAN + 4) * BLOCK_SIZE as u64;
    };
    let mut scene = cleaned_after(spoil, |lun, overlay| {
        overlay.insert(lun, SPAN + 3, data(99));
        overlay.insert(lun, SPAN + 4, data(98));
        overlay.insert(lun, SPAN + 5, fragment(97));
    });
    assert_eq!(scene.bytes(SPAN + 3), Some([99, 99]));
    assert_eq!(scene.bytes(SPAN + 4), None);
    assert_eq!(scene.bytes(SPAN + 5), None);
}

#[test]
fn whole_regions_are_cleaned_in_the_order_of_their_leaves() {
    let mut scene = cleaned(|lun, overlay| {
        for leaf in 0..REGIONS * SPAN / 2 {
            overlay.insert(lun, leaf, data(u8::try_from(leaf % 251).expect("small")));
        }
    });
    let vvbns: Vec<u64> = (0..SPAN).map(|leaf| scene.pointer(leaf).vvbn.0).collect();
    assert!(vvbns.is_sorted());
    assert_eq!(scene.bytes(300), Some([49, 49]));
}
