//! Drain: the blocks that the overflow files own since the last consistency point become free
//! (E-08).
//!
//! A volume's overflow file is drained only when the volume has something to write anyway;
//! otherwise an idle system would write for ever, since writing the maps fills the overflow file
//! again.

use everglade_format::metafile::OVERFLOW;
use everglade_format::planted::{self, Bug};
use everglade_format::{FileId, Pointer};

use crate::alloc::blocks::{free_virtual, prepare_free_virtual};
use crate::alloc::filesystem::FileSystem;
use crate::home::aggregate::Home;
use crate::read::load::{Gather, LoadCx, Stop};

pub(crate) fn step(home: &mut Home, cx: &mut LoadCx<'_>) -> Result<(), Stop> {
    if home.search_wanted {
        home.fs.search(cx, &home.host)?;
        home.search_wanted = false;
        home.host.searched = true;
    }
    let active: Vec<FileId> = home
        .run
        .as_ref()
        .expect("under way")
        .active
        .iter()
        .copied()
        .collect();
    for id in active {
        drain_volume(home, cx, id)?;
    }
    let blocks = overflowed(&mut home.fs, cx)?;
    let mut gather = Gather::default();
    for block in &blocks {
        gather.add(home.fs.prepare_free(cx, block.pvbn.0));
    }
    gather.finish()?;
    for block in blocks {
        if planted::is(Bug::OverflowForgotten) {
            continue;
        }
        home.fs.free(block.pvbn.0);
    }
    forget(&mut home.fs);
    Ok(())
}

fn drain_volume(home: &mut Home, cx: &mut LoadCx<'_>, id: FileId) -> Result<(), Stop> {
    let Some(volume) = home.volumes.get_mut(&id) else {
        return Ok(());
    };
    let blocks = overflowed(&mut volume.fs, cx)?;
    let mut gather = Gather::default();
    for block in &blocks {
        gather.add(prepare_free_virtual(
            &mut home.fs,
            &mut volume.fs,
            id,
            cx,
            block.vvbn,
        ));
    }
    gather.finish()?;
    for block in blocks {
        free_virtual(&mut home.fs, &mut volume.fs, id, block.vvbn);
    }
    forget(&mut volume.fs);
    Ok(())
}

fn overflowed(fs: &mut FileSystem, cx: &mut LoadCx<'_>) -> Result<Vec<Pointer>, Stop> {
    let file = fs.file(OVERFLOW);
    if file.inode.blocks == 0 {
        Ok(Vec::new())
    } else {
        file.clear(cx)
    }
}

fn forget(fs: &mut FileSystem) {
    let file = fs.file(OVERFLOW);
    if file.inode.blocks > 0 {
        file.reset();
    }
}
