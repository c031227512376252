//! Block pointers: 16 bytes in an indirect block or an inode (B-07, B-08).
//!
//! | layer | bits 0–39 | 40–79 | 80–127 |
//! | --- | --- | --- | --- |
//! | volume file | vvbn | cached pvbn | tag |
//!
//! | layer | bits 0–39 | 40–87 | 88–95 | 96–127 |
//! | --- | --- | --- | --- | --- |
//! | aggregate file, container file | pvbn | tag | kind | zero |
//!
//! An all-zero pointer is a hole. The top 16 block numbers are reserved: [`LOST`], [`SAVED`],
//! [`UNKNOWN`].

use crate::bytes::low_bits;
use crate::number::{NUMBER_BITS, NUMBER_END};
use crate::tag::TAG_BITS;
use crate::{Damage, Pvbn, Tag, Vvbn};

/// Bytes of a pointer on media.
pub const POINTER_BYTES: usize = 16;
/// Reserved number: the block could not be read and was not recovered (EIO).
pub const LOST: u64 = (1 << NUMBER_BITS) - 1;
/// Reserved number: saved by compression; the data sits in a neighbour.
pub const SAVED: u64 = (1 << NUMBER_BITS) - 2;
/// Reserved number: the pvbn is not known, ask the container.
pub const UNKNOWN: u64 = (1 << NUMBER_BITS) - 3;

/// The kind of file system that a pointer, block or file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Layer {
    /// The aggregate itself: blocks have a pvbn only.
    Aggregate,
    /// A volume inside a container file: blocks have a vvbn and a cached pvbn.
    Volume,
}

/// A reference to a block and to its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pointer {
    /// The block in the volume; zero at the aggregate layer.
    pub vvbn: Vvbn,
    /// The block in the aggregate; at the volume layer a hint (O-09).
    pub pvbn: Pvbn,
    /// Expected content.
    pub tag: Tag,
}

impl Pointer {
    /// A pointer to no block: reads return zeroes.
    pub const HOLE: Pointer = Pointer {
        vvbn: Vvbn(0),
        pvbn: Pvbn(0),
        tag: Tag(0),
    };

    /// A pointer to a lost block: the block was unreadable when it was needed, and reads return an
    /// error until it is overwritten (docs/design/design.md §5). At the volume layer only.
    pub const LOST: Pointer = Pointer {
        vvbn: Vvbn(LOST),
        pvbn: Pvbn(LOST),
        tag: Tag(0),
    };

    /// True for [`Pointer::LOST`].
    #[must_use]
    pub fn is_lost(&self) -> bool {
        *self == Self::LOST
    }

    /// True if it names a block: it is no hole, and not lost.
    #[must_use]
    pub fn has_block(&self) -> bool {
        !self.is_hole() && !self.is_lost()
    }

    /// True for [`Pointer::HOLE`].
    #[must_use]
    pub fn is_hole(&self) -> bool {
        *self == Self::HOLE
    }

    /// The bytes on media.
    #[must_use]
    pub fn encode(&self, layer: Layer) -> [u8; POINTER_BYTES] {
        let (vvbn, pvbn, tag) = (self.vvbn.0, self.pvbn.0, self.tag.0);
        assert!(
            vvbn >> NUMBER_BITS == 0 && pvbn >> NUMBER_BITS == 0,
            "{self:?} exceeds 40 bits"
        );
        assert!(tag >> TAG_BITS == 0, "{self:?} exceeds a tag");
        let value = match layer {
            Layer::Volume => {
                u128::from(vvbn) | u128::from(pvbn) << NUMBER_BITS | u128::from(tag) << 80
            }
            Layer::Aggregate => {
                assert_eq!(vvbn, 0, "aggregate pointers have no vvbn");
                u128::from(pvbn) | u128::from(tag) << NUMBER_BITS
            }
        };
        value.to_le_bytes()
    }

    /// Reads a pointer.
    ///
    /// # Errors
    /// Reserved numbers this version does not use, kinds it does not know, half a hole.
    pub fn decode(bytes: [u8; POINTER_BYTES], layer: Layer) -> Result<Pointer, Damage> {
        let value = u128::from_le_bytes(bytes);
        let pointer = match layer {
            Layer::Volume => Pointer {
                vvbn: Vvbn(low_bits(value, NUMBER_BITS)),
                pvbn: Pvbn(low_bits(value >> NUMBER_BITS, NUMBER_BITS)),
                tag: Tag(low_bits(value >> 80, TAG_BITS)),
            },
            Layer::Aggregate => {
                let rest = value >> 88;
                if rest != 0 {
                    return Err(Damage::new("pointer kind and flags", 0, rest));
                }
                Pointer {
                    vvbn: Vvbn(0),
                    pvbn: Pvbn(low_bits(value, NUMBER_BITS)),
                    tag: Tag(low_bits(value >> NUMBER_BITS, TAG_BITS)),
                }
            }
        };
        if pointer.is_hole() || (layer == Layer::Volume && pointer.is_lost()) {
            return Ok(pointer);
        }
        let number_ok = |n: u64| n != 0 && n < NUMBER_END;
        if !number_ok(pointer.pvbn.0) {
            return Err(Damage::new(
                "pointer pvbn",
                "1 up to 2^40 - 17",
                pointer.pvbn.0,
            ));
        }
        if layer == Layer::Volume && !number_ok(pointer.vvbn.0) {
            return Err(Damage::new(
                "pointer vvbn",
                "1 up to 2^40 - 17",
                pointer.vvbn.0,
            ));
        }
        Ok(pointer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pointers_survive_the_round_trip(
            v in 1..NUMBER_END, p in 1..NUMBER_END, t in 0..1u64 << 48,
        ) {
            let again = |pointer: Pointer, layer| Pointer::decode(pointer.encode(layer), layer);
            let volume = Pointer { vvbn: Vvbn(v), pvbn: Pvbn(p), tag: Tag(t) };
            prop_assert_eq!(again(volume, Layer::Volume), Ok(volume));
            let lost = Pointer::LOST;
            prop_assert_eq!(again(lost, Layer::Volume), Ok(lost));
            prop_assert!(lost.is_lost() && !lost.has_block() && volume.has_block());
            let aggregate = Pointer { vvbn: Vvbn(0), ..volume };
            prop_assert_eq!(again(aggregate, Layer::Aggregate), Ok(aggregate));
        }

        #[test]
        fn any_bytes_decode_to_a_pointer_that_encodes_the_same_or_to_damage(bytes: [u8; 16]) {
            for layer in [Layer::Volume, Layer::Aggregate] {
                if let Ok(pointer) = Pointer::decode(bytes, layer) {
                    prop_assert_eq!(pointer.encode(layer), bytes);
                }
            }
        }
    }
}
