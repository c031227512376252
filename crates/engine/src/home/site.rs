//! Storing a block of a volume: a vvbn, a pvbn, the container's slot and the context.

use everglade_env::PageRef;
use everglade_format::{Context, FileId, Owner, Pointer, Pvbn, Tag, Vvbn};

use crate::alloc::blocks::Purpose;
use crate::alloc::filesystem::FileSystem;
use crate::home::aggregate::Home;
use crate::read::load::LoadCx;

/// A new vvbn on a new pvbn, tag still missing. Both were ensured.
pub(crate) fn take_virtual(
    aggregate: &mut FileSystem,
    volume: &mut FileSystem,
    purpose: Purpose,
) -> Pointer {
    let vvbn = Vvbn(volume.take(purpose));
    Pointer {
        vvbn,
        pvbn: Pvbn(aggregate.take(purpose)),
        tag: Tag(0),
    }
}

/// Stores a page in a new block of a volume.
pub(crate) fn store(
    home: &mut Home,
    volume_id: FileId,
    purpose: Purpose,
    page: &PageRef,
) -> Pointer {
    let volume = home
        .volumes
        .get_mut(&volume_id)
        .expect("planned volumes exist");
    let mut pointer = take_virtual(&mut home.fs, &mut volume.fs, purpose);
    pointer.tag = Tag::of(everglade_journal::page_code(&home.aggregate.key, page));
    enter(home, volume_id, pointer, page.clone());
    pointer
}

/// Enters a sealed node of a volume into the container and the context map, and writes it.
pub(crate) fn record(
    home: &mut Home,
    cx: &mut LoadCx<'_>,
    volume: FileId,
    pointer: Pointer,
    page: PageRef,
) {
    cx.keep(pointer, page.clone());
    enter(home, volume, pointer, page);
}

/// Enters a block with a new pvbn into the container and the context map, and writes it.
pub(crate) fn enter(home: &mut Home, volume: FileId, pointer: Pointer, page: PageRef) {
    let slot = Pointer {
        vvbn: Vvbn(0),
        ..pointer
    };
    let container = home.fs.file(volume);
    let old = container
        .set_leaf(pointer.vvbn.0, slot)
        .expect("the slot was a hole");
    assert!(
        old.is_hole(),
        "vvbn {} is written twice (it is write-once)",
        pointer.vvbn
    );
    let owner = Owner::Container {
        vvbn: pointer.vvbn.0,
    };
    home.fs.set_context(
        pointer.pvbn,
        Context {
            file: volume,
            owner,
            tag: pointer.tag,
        },
    );
    let run = home.run.as_mut().expect("under way");
    run.writer.push(&home.aggregate.media, pointer.pvbn, page);
}
