//! The frequency of each kind of action, and the sizes of objects.

use crate::Rng;

/// The frequency of each kind of action, relative to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Reads.
    pub read: u64,
    /// Writes.
    pub write: u64,
    /// Discards.
    pub discard: u64,
    /// Writes of zeroes.
    pub zeroes: u64,
    /// Flushes.
    pub flush: u64,
    /// Consistency points asked for.
    pub cp: u64,
    /// LUNs created.
    pub create_lun: u64,
    /// LUNs deleted.
    pub delete_lun: u64,
    /// LUNs grown.
    pub grow: u64,
    /// LUNs made shorter.
    pub shrink: u64,
    /// Volumes created.
    pub create_volume: u64,
    /// Volumes deleted.
    pub delete_volume: u64,
    /// Pauses.
    pub pause: u64,
    /// One change in `durable` is durable by itself; zero for never.
    pub durable: u32,
    /// Writes are as long as they may be.
    pub long: bool,
}

impl Mix {
    /// A mix of all kinds.
    pub const EVERYTHING: Mix = Mix {
        read: 200,
        write: 400,
        discard: 60,
        zeroes: 60,
        flush: 30,
        cp: 10,
        create_lun: 8,
        delete_lun: 6,
        grow: 8,
        shrink: 0,
        create_volume: 3,
        delete_volume: 2,
        pause: 10,
        durable: 32,
        long: false,
    };

    /// Only growth.
    pub const FILL: Mix = Mix {
        write: 1000,
        discard: 0,
        delete_lun: 0,
        delete_volume: 0,
        ..Mix::EVERYTHING
    };

    /// Only shrinkage.
    pub const DRAIN: Mix = Mix {
        write: 20,
        discard: 300,
        zeroes: 100,
        create_lun: 0,
        delete_lun: 40,
        grow: 0,
        create_volume: 0,
        delete_volume: 10,
        ..Mix::EVERYTHING
    };

    /// Growth, and now and then a little room for more.
    pub const TIGHT: Mix = Mix {
        read: 100,
        write: 1000,
        discard: 4,
        zeroes: 4,
        flush: 10,
        cp: 5,
        create_lun: 5,
        delete_lun: 1,
        grow: 5,
        shrink: 0,
        create_volume: 2,
        delete_volume: 0,
        pause: 2,
        durable: 64,
        long: false,
    };

    /// Sizes that change all the time.
    pub const RESIZE: Mix = Mix {
        flush: 60,
        create_lun: 4,
        delete_lun: 3,
        grow: 60,
        shrink: 60,
        ..Mix::EVERYTHING
    };

    /// A mix without an administrator.
    pub const CLIENTS: Mix = Mix {
        create_lun: 0,
        delete_lun: 0,
        grow: 0,
        create_volume: 0,
        delete_volume: 0,
        ..Mix::EVERYTHING
    };

    /// Returns one of the mixes above, with some kinds left out and others stressed.
    pub fn random(rng: &mut Rng) -> Mix {
        let base = [
            Mix::EVERYTHING,
            Mix::EVERYTHING,
            Mix::FILL,
            Mix::DRAIN,
            Mix::CLIENTS,
        ];
        let mut mix = base[rng.index(base.len())];
        let kinds: [&mut u64; 11] = [
            &mut mix.read,
            &mut mix.discard,
            &mut mix.zeroes,
            &mut mix.flush,
            &mut mix.cp,
            &mut mix.create_lun,
            &mut mix.delete_lun,
            &mut mix.grow,
            &mut mix.create_volume,
            &mut mix.delete_volume,
            &mut mix.pause,
        ];
        for weight in kinds {
            *weight = [0, *weight, *weight, *weight, *weight * 4][rng.index(5)];
        }
        mix.long = mix.write >= Mix::FILL.write && rng.one_in(2);
        mix.durable = [0, 32, 32, 2][rng.index(4)];
        mix
    }
}

/// The sizes of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Largest LUN in bytes. LUNs are thin, so this size may exceed the pool.
    pub lun_bytes_max: u64,
    /// Most LUNs at a time.
    pub luns_max: usize,
    /// Most volumes at a time.
    pub volumes_max: usize,
    /// Largest read or write in bytes, at most 1 MiB.
    pub op_bytes_max: u64,
}

impl Scale {
    /// A few LUNs and operations of some blocks: for trying every cut.
    pub const SMALL: Scale = Scale {
        lun_bytes_max: 4 << 20,
        luns_max: 3,
        volumes_max: 2,
        op_bytes_max: 64 << 10,
    };
    /// LUNs with trees of three levels.
    pub const LARGE: Scale = Scale {
        lun_bytes_max: 1 << 30,
        luns_max: 12,
        volumes_max: 4,
        op_bytes_max: 1 << 20,
    };
}
