//! One stripe that is written: its old and new content as far as they are known, and the parity
//! that follows ([`Plan`] says what must be known).

use crate::plan::{Plan, Way};
use crate::{Block, Code, Columns};

/// See the module's documentation.
pub struct Stripe<'a> {
    /// How it is coded.
    pub code: Code,
    /// New content of data columns; `None` for those that stay.
    pub new: &'a [Option<&'a Block>],
    /// Old content of the columns that the plan needs, parity columns included.
    pub old: &'a [Option<&'a Block>],
    /// Columns that cannot be read or written.
    pub lost: Columns,
}

impl Stripe<'_> {
    /// Computes all parity columns as they are after the write. Those of lost columns are right if
    /// the way is not subtraction, and are not to be written anyway.
    ///
    /// # Panics
    /// If something that the plan needs is not there, or the numbers of columns are not those of
    /// the code.
    pub fn parity(&self, plan: &Plan, parity: &mut [&mut Block]) {
        let code = self.code;
        assert_eq!(
            (self.new.len(), self.old.len(), parity.len()),
            (code.data(), code.columns(), code.parity()),
            "columns of the code"
        );
        let old = |column: usize| self.old[column].expect("the plan's blocks were read");
        match plan.way {
            // Also where no parity can be written: then the content of what stays does not matter.
            Way::Full => {
                let zero = [0; crate::code::BLOCK_BYTES];
                let data: Vec<&Block> = self.new.iter().map(|new| new.unwrap_or(&zero)).collect();
                code.encode(&data, parity);
            }
            Way::Recalculation => {
                let content =
                    |(column, new): (usize, &Option<_>)| new.unwrap_or_else(|| old(column));
                let data: Vec<&Block> = self.new.iter().enumerate().map(content).collect();
                code.encode(&data, parity);
            }
            Way::Subtraction => {
                for (at, parity) in parity.iter_mut().enumerate() {
                    let column = code.data() + at;
                    match self.lost.has(column) {
                        true => parity.fill(0),
                        false => parity.copy_from_slice(old(column)),
                    }
                }
                for (column, new) in self.new.iter().enumerate() {
                    let Some(new) = new else { continue };
                    let mut delta = *old(column);
                    crate::code::add(new, &mut delta);
                    code.update(column, &delta, parity);
                }
            }
            Way::Reconstruction => {
                let content = |old: &Option<&Block>| match old {
                    Some(block) => **block,
                    None => [0; crate::code::BLOCK_BYTES],
                };
                let mut whole: Vec<Block> = self.old.iter().map(content).collect();
                let mut columns: Vec<&mut Block> = whole.iter_mut().collect();
                let lost: Vec<usize> = self.lost.iter().collect();
                code.reconstruct(&mut columns, &lost)
                    .expect("there is a plan");
                let content = |(new, old): (&Option<_>, _)| new.unwrap_or(old);
                let data: Vec<&Block> = self.new.iter().zip(&whole).map(content).collect();
                code.encode(&data, parity);
            }
        }
    }
}
