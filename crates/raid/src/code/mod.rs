//! The code of a stripe: row parity, diagonal parity, antidiagonal parity (L-01).
//!
//! Corbett et al., "Row-Diagonal Parity for Double Disk Failure Correction" (FAST 2004), with
//! p = 257, and Goel and Corbett, "RAID Triple Parity" (2012), which adds the antidiagonals. Each
//! block of 4 KiB is cut into 256 *pieces* of 16 bytes. All of the following is about columns of
//! pieces, and `+` is exclusive or.
//!
//! Let x be the shift by one piece in a ring of 257 pieces, and let a block be a ring whose last
//! piece is zero. Column *c* has a distinct number *n(c)* below 257: data column *c* has *c*, and
//! row parity has the number 255, whatever the width. So a group can grow: an absent column is a
//! column of zeros. With B(c) for the data columns and for row parity,
//!
//! ```text
//! sum of B(c)            = 0            row parity
//! sum of x^n(c) × B(c)   = D            diagonal parity
//! sum of x^-n(c) × B(c)  = A            antidiagonal parity
//! ```
//!
//! 1. D and A have 257 pieces, and a drive has room for 256. The last piece is not stored. It is
//!    the sum of the others: all pieces of D together are all pieces of all B(c) together, which is
//!    zero by row parity. The same holds for A.
//! 2. Two lost columns a and b with D: x^-a × D' + S = (1 + x^(b−a)) × B(b), where S and D' are the
//!    sums over the columns that remain. (1 + x^k) × Y = Z says Z\[i] = Y\[i] + Y\[i−k]. The last
//!    piece of a block is zero, and from there every k-th piece follows from the one before. Since
//!    257 is a prime, this reaches all pieces. With A instead of D, x^-1 takes the place of x.
//! 3. Three lost columns a, b and c: D' + (x^a + x^b) × S + x^(a+b) × A' =
//!    x^a × (1 + x^(b−c)) × (1 + x^(c−a)) × B(c). The division by the first factor yields a ring
//!    that is a multiple of 1 + x^k. The sum of its pieces is zero, which tells it from the only
//!    other solution, where every piece has the same value added.
//! 4. Row parity is one of the B(c). So its loss is the loss of one more of these.
//!
//! Parity of a stripe of zeros is zero.
//!
//! A *mirror* is a code, too ([`Code::copies`]): one data column, and columns with copies of it.

mod kernel;
mod ring;

use ring::{Direction, Ring};

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;

/// One block of a column.
pub type Block = [u8; BLOCK_BYTES];

/// Most data columns.
pub const DATA_MAX: usize = 28;

/// Most parity columns.
pub const PARITY_MAX: usize = 3;

/// Number of the row parity column in diagonals. No data column ever has it.
const ROW: usize = 255;

/// How a stripe of a group is coded: its numbers of data and of parity columns.
///
/// Columns are counted from 0: data columns first, then row, diagonal and antidiagonal parity, or
/// copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    data: usize,
    parity: usize,
    /// The columns behind the only data column are copies of it.
    is_mirror: bool,
}

/// More columns are lost than the code has parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyLost;

impl Code {
    /// Returns the code with `data` data columns (1 to 28) and `parity` parity columns (0 to 3);
    /// `None` if either is out of range.
    #[must_use]
    pub fn new(data: usize, parity: usize) -> Option<Code> {
        let is_known = (1..=DATA_MAX).contains(&data) && parity <= PARITY_MAX;
        is_known.then_some(Code {
            data,
            parity,
            is_mirror: false,
        })
    }

    /// Returns the code of a mirror with `copies` copies of each block (1 to 4, the first one
    /// included); `None` if that is out of range.
    #[must_use]
    pub fn copies(copies: usize) -> Option<Code> {
        let code = Code::new(1, copies.checked_sub(1)?)?;
        Some(Code {
            is_mirror: true,
            ..code
        })
    }

    /// Number of data columns.
    #[must_use]
    pub fn data(&self) -> usize {
        self.data
    }

    /// Number of parity columns: so many columns may be lost.
    #[must_use]
    pub fn parity(&self) -> usize {
        self.parity
    }

    /// Number of all columns.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.data + self.parity
    }

    /// Computes all parity columns of a stripe.
    ///
    /// # Panics
    /// If `data` or `parity` has another number of columns than the code.
    pub fn encode(&self, data: &[&Block], parity: &mut [&mut Block]) {
        assert_eq!(
            (data.len(), parity.len()),
            (self.data, self.parity),
            "columns of the code"
        );
        if self.is_mirror {
            return parity
                .iter_mut()
                .for_each(|copy| copy.copy_from_slice(data[0]));
        }
        let Some((row, diagonals)) = parity.split_first_mut() else {
            return;
        };
        kernel::row(data, row);
        for (out, direction) in diagonals.iter_mut().zip(DIRECTIONS) {
            self::diagonals(data.iter().copied(), row, direction, out);
        }
    }

    /// Changes parity as a data column changes (*subtraction*): `delta` is the old content of the
    /// block plus its new content.
    ///
    /// # Panics
    /// If there is no such data column, or `parity` has another number of columns than the code.
    pub fn update(&self, column: usize, delta: &Block, parity: &mut [&mut Block]) {
        assert!(column < self.data, "column {column} of {}", self.data);
        assert_eq!(parity.len(), self.parity, "columns of the code");
        if self.is_mirror {
            return parity.iter_mut().for_each(|copy| kernel::add(delta, copy));
        }
        let Some((row, diagonals)) = parity.split_first_mut() else {
            return;
        };
        kernel::add(delta, row);
        for (diagonal, direction) in diagonals.iter_mut().zip(DIRECTIONS) {
            kernel::add_rotated(delta, column, direction, diagonal);
            kernel::add_rotated(delta, ROW, direction, diagonal);
        }
    }

    /// Reconstructs the columns `lost` of a stripe from the others, which must be right. The
    /// content of the lost columns before does not matter.
    ///
    /// # Errors
    /// More columns are lost than the code has parity. Then no block was changed.
    ///
    /// # Panics
    /// If `blocks` has another number of columns than the code, or a number in `lost` is no column
    /// or is there twice.
    pub fn reconstruct(
        &self,
        blocks: &mut [&mut Block],
        lost: &[usize],
    ) -> Result<(), TooManyLost> {
        assert_eq!(blocks.len(), self.columns(), "columns of the code");
        for (at, column) in lost.iter().enumerate() {
            assert!(
                *column < self.columns() && !lost[..at].contains(column),
                "columns {lost:?} of {}",
                self.columns()
            );
        }
        if lost.len() > self.parity {
            return Err(TooManyLost);
        }
        if self.is_mirror {
            let present = (0..self.columns()).find(|column| !lost.contains(column));
            let content = *blocks[present.expect("fewer are lost than there are")];
            lost.iter().for_each(|column| *blocks[*column] = content);
            return Ok(());
        }
        let mut missing: Vec<usize> = lost.iter().copied().filter(|it| *it <= self.data).collect();
        missing.sort_unstable();
        self.solve(blocks, &missing, lost);
        for (at, direction) in DIRECTIONS.into_iter().enumerate() {
            let column = self.data + 1 + at;
            if lost.contains(&column) {
                let (before, behind) = blocks.split_at_mut(column);
                let (data, row) = before.split_at(self.data);
                diagonals(
                    data.iter().map(|block| &**block),
                    row[0],
                    direction,
                    behind[0],
                );
            }
        }
        Ok(())
    }

    /// Reconstructs data columns and row parity: `missing`, in ascending order, among the `lost`.
    fn solve(&self, blocks: &mut [&mut Block], missing: &[usize], lost: &[usize]) {
        if missing.is_empty() {
            return;
        }
        let mut sums = self.sums(blocks, missing);
        let has_diagonal = self.parity > 1 && !lost.contains(&(self.data + 1));
        let number = |at: usize| self.number(missing[at]);
        if missing.len() == 3 {
            let third = triple(&sums, (number(0), number(1), number(2)));
            sums.take(&third, number(2));
            third.store(blocks[missing[2]]);
        }
        if missing.len() > 1 {
            let (direction, diagonal) = match has_diagonal {
                true => (Direction::Up, &sums.diagonals[0]),
                false => (Direction::Down, &sums.diagonals[1]),
            };
            let second = pair(&sums.row, diagonal, direction, (number(0), number(1)));
            sums.take(&second, number(1));
            second.store(blocks[missing[1]]);
        }
        sums.row.store(blocks[missing[0]]);
    }

    /// Sums of the columns that remain beside `missing`. Diagonals that the stripe does not have,
    /// or has lost, are not used.
    fn sums(&self, blocks: &[&mut Block], missing: &[usize]) -> Sums {
        let mut row = Ring::zero();
        let mut diagonals = [Ring::zero(), Ring::zero()];
        for column in (0..=self.data).filter(|it| !missing.contains(it)) {
            let block = Ring::load(blocks[column]);
            row.add(&block);
            for (diagonal, direction) in diagonals.iter_mut().zip(DIRECTIONS) {
                diagonal.add_rotated(&block, self.number(column), direction);
            }
        }
        for (at, diagonal) in diagonals.iter_mut().enumerate() {
            if let Some(stored) = blocks.get(self.data + 1 + at) {
                diagonal.add(&Ring::load_with_sum(stored));
            }
        }
        Sums { row, diagonals }
    }

    /// Number of a data column, or of row parity, in diagonals.
    fn number(&self, column: usize) -> usize {
        match column < self.data {
            true => column,
            false => ROW,
        }
    }
}

/// Computes diagonal or antidiagonal parity of data columns and of their row parity.
fn diagonals<'a>(
    data: impl Iterator<Item = &'a Block>,
    row: &Block,
    direction: Direction,
    out: &mut Block,
) {
    out.fill(0);
    kernel::add_rotated(row, ROW, direction, out);
    for (number, block) in data.enumerate() {
        kernel::add_rotated(block, number, direction, out);
    }
}

/// Adds a block to another one.
pub fn add(source: &Block, out: &mut Block) {
    kernel::add(source, out);
}

/// Directions of the diagonal and of the antidiagonal parity.
const DIRECTIONS: [Direction; 2] = [Direction::Up, Direction::Down];

/// Sums over the columns that remain: S, D' and A' of the module's documentation.
struct Sums {
    row: Ring,
    diagonals: [Ring; 2],
}

impl Sums {
    /// A column with the number `number` was found: from now on it is one that remains.
    fn take(&mut self, column: &Ring, number: usize) {
        self.row.add(column);
        for (diagonal, direction) in self.diagonals.iter_mut().zip(DIRECTIONS) {
            diagonal.add_rotated(column, number, direction);
        }
    }
}

/// Of two lost columns with the numbers `a` and `b`, the second one (2.).
fn pair(row: &Ring, diagonal: &Ring, direction: Direction, (a, b): (usize, usize)) -> Ring {
    let mut z = row.clone();
    z.add_rotated(diagonal, a, direction.opposite());
    z.divide(direction.distance(a, b));
    z
}

/// Of three lost columns with the numbers `a`, `b` and `c`, the third one (3.).
fn triple(sums: &Sums, (a, b, c): (usize, usize, usize)) -> Ring {
    let [diagonal, antidiagonal] = &sums.diagonals;
    let mut z = sums.row.clone();
    z.add_rotated(&sums.row, b + ring::PIECES - a, Direction::Up);
    z.add_rotated(diagonal, a, Direction::Down);
    z.add_rotated(antidiagonal, b, Direction::Up);
    z.divide_to_even(Direction::Up.distance(c, b));
    z.divide(Direction::Up.distance(a, c));
    z
}
