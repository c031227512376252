//! The notes of an aggregate. The verifier checks where they end, not what the text means.

use everglade_format::notes::{NOTES_PER_BLOCK, decode};
use everglade_format::{BLOCK_SIZE, Damage};

use crate::findings::Findings;
use crate::problem::{Kind, Object, ProblemPlace};

/// Blocks that were read so far, in order.
#[derive(Default)]
pub(crate) struct Notes {
    is_over: bool,
}

impl Notes {
    /// The next block.
    pub(crate) fn read(
        &mut self,
        block: &[u8; BLOCK_SIZE],
        place: ProblemPlace,
        object: &Object,
        findings: &mut Findings,
    ) {
        let damage = match decode(block) {
            Ok(text) if self.is_over && !text.is_empty() => {
                let found = format!("{} bytes", text.len());
                Damage::new("bytes of notes", "none after the end of the text", found)
            }
            Ok(text) => {
                self.is_over |= text.len() < NOTES_PER_BLOCK;
                return;
            }
            Err(damage) => damage,
        };
        findings.damage(Kind::NotesDamaged, object, place, &damage);
    }
}
