//! A tetris: the blocks that a group gets at once, and the writes that follow (D-16, L-02).
//!
//! ```text
//! push ─▶ plan ─▶ reads ─▶ arrived ─▶ finish ─▶ a run of blocks for each column, parity included
//!          ▲                  │ a drive fails: fail
//!          └──────────────────┘
//! ```
//!
//! 1. Each stripe is planned by itself ([`Plan`]). A plan is made anew when a column is lost
//!    meanwhile; blocks that have arrived count as known.
//! 2. The caller compares what it reads with the checksum that it has, before it says that a block
//!    arrived: else an error of a drive would become part of parity (parity pollution).
//! 3. Nothing is written to lost columns. A block of a lost data column exists in parity alone.
//! 4. For a stripe that is written in part, the result has its *base*: the parity that the stripe
//!    would have if the written columns were zero. Whoever knows the base, and the columns that are
//!    not written, can tell the content of what was not written, even if the write is cut between
//!    two drives (docs/design/design.md §7, the RAID log).
//!
//! This module knows no drives: it says what to read, and what to write.

use std::collections::BTreeMap;

use everglade_env::{Page, PageRef};

use crate::plan::Way;
use crate::{Block, Code, Columns, Plan, Stripe, TooManyLost};

/// See the module's documentation.
pub struct Tetris {
    code: Code,
    lost: Columns,
    stripes: BTreeMap<u64, Write>,
}

/// The write of one stripe.
struct Write {
    /// New content of data columns.
    new: Vec<Option<PageRef>>,
    /// Old content of columns, as far as it is known.
    old: Vec<Option<PageRef>>,
    plan: Option<Plan>,
}

/// A block of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Column in the group.
    pub column: usize,
    /// Stripe: the number of the block on its drive.
    pub stripe: u64,
}

/// Neighbouring blocks of one column, to be written.
pub struct Run {
    /// The first block.
    pub first: Place,
    /// Content from there on.
    pub pages: Vec<PageRef>,
}

/// A stripe that is written in part.
pub struct Partial {
    /// The stripe.
    pub stripe: u64,
    /// Data columns that are written.
    pub written: Columns,
    /// Parity as it would be if those were zero; one for each parity column.
    pub base: Vec<PageRef>,
}

/// The result of a tetris.
pub struct Written {
    /// Runs in the order of their columns, and of stripes within a column.
    pub runs: Vec<Run>,
    /// Stripes that are written in part and have parity that is not lost.
    pub partial: Vec<Partial>,
    /// Stripes by the way in which their parity was computed.
    pub ways: Ways,
    /// Blocks that were read for parity.
    pub reads: u64,
}

/// Numbers of stripes by the way in which their parity was computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ways {
    /// All data columns were written.
    pub full: u64,
    /// The other data columns were read.
    pub recalculation: u64,
    /// Old content and old parity were read.
    pub subtraction: u64,
    /// The stripe was reconstructed first.
    pub reconstruction: u64,
}

impl Tetris {
    /// Returns an empty tetris of a group whose columns `lost` can be neither read nor written.
    ///
    /// # Errors
    /// More columns are lost than the code has parity.
    pub fn new(code: Code, lost: Columns) -> Result<Tetris, TooManyLost> {
        if lost.count() > code.parity() {
            return Err(TooManyLost);
        }
        Ok(Tetris {
            code,
            lost,
            stripes: BTreeMap::new(),
        })
    }

    /// Adds a block to write.
    ///
    /// # Panics
    /// If the column is no data column, or the block is there already.
    pub fn push(&mut self, place: Place, page: PageRef) {
        let code = self.code;
        assert!(place.column < code.data(), "{place:?} of {code:?}");
        let stripe = self.stripes.entry(place.stripe).or_insert_with(|| Write {
            new: vec![None; code.data()],
            old: vec![None; code.columns()],
            plan: None,
        });
        let former = stripe.new[place.column].replace(page);
        assert!(former.is_none(), "{place:?} is written twice");
    }

    /// Plans every stripe that has no plan. Returns the blocks to read, stripe by stripe. `known`
    /// returns old content that is in memory.
    pub fn plan(&mut self, known: impl Fn(Place) -> Option<PageRef>) -> Vec<Place> {
        let mut reads = Vec::new();
        let (code, lost) = (self.code, self.lost);
        for (number, stripe) in &mut self.stripes {
            if stripe.plan.is_some() {
                continue;
            }
            let place = |column| Place {
                column,
                stripe: *number,
            };
            let written = stripe.written();
            if written.count() < code.data() {
                for column in 0..code.columns() {
                    let old = &mut stripe.old[column];
                    *old = old.take().or_else(|| known(place(column)));
                }
            }
            let there = |column: &usize| stripe.old[*column].is_some();
            let there = (0..code.columns()).filter(there).collect();
            let plan = Plan::new(code, written, lost, there);
            let plan = plan.expect("losses were counted when they happened");
            reads.extend(plan.reads.iter().map(place));
            stripe.plan = Some(plan);
        }
        reads
    }

    /// Takes a block that was read for a plan.
    ///
    /// # Panics
    /// If there is no such stripe or column.
    pub fn arrived(&mut self, place: Place, page: PageRef) {
        let stripe = self.stripes.get_mut(&place.stripe);
        stripe.expect("it was asked for").old[place.column] = Some(page);
    }

    /// A column was lost: the stripes that still need something of it are planned anew by the next
    /// [`Tetris::plan`].
    ///
    /// # Errors
    /// More columns are lost than the code has parity; nothing can be written.
    pub fn fail(&mut self, column: usize) -> Result<(), TooManyLost> {
        self.lost.insert(column);
        if self.lost.count() > self.code.parity() {
            return Err(TooManyLost);
        }
        for stripe in self.stripes.values_mut() {
            let left = stripe.left();
            stripe.plan.take_if(|_| left.has(column));
        }
        Ok(())
    }

    /// True if every stripe has a plan, and what the plans need.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let mut stripes = self.stripes.values();
        stripes.all(|stripe| stripe.plan.is_some() && stripe.left().is_empty())
    }

    /// Computes parity, and returns all writes.
    ///
    /// # Panics
    /// If the tetris is not ready.
    #[must_use]
    pub fn finish(self) -> Written {
        assert!(self.is_ready(), "something is not planned, or not read");
        let code = self.code;
        let mut columns: Vec<Vec<Run>> = (0..code.columns()).map(|_| Vec::new()).collect();
        let (mut partial, mut ways, mut reads) = (Vec::new(), Ways::default(), 0);
        for (number, stripe) in self.stripes {
            let plan = stripe.plan.expect("it is ready");
            reads += plan.reads.count() as u64;
            ways.count(plan.way);
            let parity = stripe.parity(code, self.lost, &plan);
            let written = stripe.written();
            let has_parity = (0..code.parity()).any(|at| !self.lost.has(code.data() + at));
            if written.count() < code.data() && has_parity {
                partial.push(Partial {
                    stripe: number,
                    written,
                    base: stripe.base(code, &parity),
                });
            }
            let data = stripe.new.into_iter().enumerate();
            let data = data.filter_map(|(column, page)| Some((column, page?)));
            let parity = parity.into_iter().enumerate();
            let parity = parity.map(|(at, page)| (code.data() + at, page));
            for (column, page) in data.chain(parity) {
                if !self.lost.has(column) {
                    append(&mut columns[column], column, number, page);
                }
            }
        }
        Written {
            runs: columns.into_iter().flatten().collect(),
            partial,
            ways,
            reads,
        }
    }
}

/// Adds a block to the last run of its column, or begins another one.
fn append(runs: &mut Vec<Run>, column: usize, stripe: u64, page: PageRef) {
    if let Some(last) = runs.last_mut()
        && last.first.stripe + last.pages.len() as u64 == stripe
    {
        return last.pages.push(page);
    }
    runs.push(Run {
        first: Place { column, stripe },
        pages: vec![page],
    });
}

impl Write {
    fn written(&self) -> Columns {
        let new = self.new.iter().enumerate();
        new.filter(|(_, page)| page.is_some())
            .map(|(column, _)| column)
            .collect()
    }

    /// Columns that the plan needs and that have not arrived.
    fn left(&self) -> Columns {
        let Some(plan) = &self.plan else {
            return Columns::NONE;
        };
        let needs = plan.needs.iter();
        needs.filter(|column| self.old[*column].is_none()).collect()
    }

    /// Computes the parity of the stripe as it will be.
    fn parity(&self, code: Code, lost: Columns, plan: &Plan) -> Vec<PageRef> {
        fn blocks(pages: &[Option<PageRef>]) -> Vec<Option<&Block>> {
            pages.iter().map(|page| page.as_deref()).collect()
        }
        let mut parity: Vec<Page> = (0..code.parity()).map(|_| Page::for_read()).collect();
        let stripe = Stripe {
            code,
            new: &blocks(&self.new),
            old: &blocks(&self.old),
            lost,
        };
        stripe.parity(plan, &mut as_blocks(&mut parity));
        parity.into_iter().map(Page::freeze).collect()
    }

    /// Returns the parity as it would be if the written columns were zero.
    fn base(&self, code: Code, parity: &[PageRef]) -> Vec<PageRef> {
        let mut base: Vec<Page> = parity.iter().map(|page| Page::copy_of(page)).collect();
        let new = self.new.iter().enumerate();
        for (column, page) in new.filter_map(|(column, page)| Some((column, page.as_ref()?))) {
            code.update(column, page, &mut as_blocks(&mut base));
        }
        base.into_iter().map(Page::freeze).collect()
    }
}

fn as_blocks(pages: &mut [Page]) -> Vec<&mut Block> {
    pages.iter_mut().map(|page| &mut **page).collect()
}

impl Ways {
    fn count(&mut self, way: Way) {
        *match way {
            Way::Full => &mut self.full,
            Way::Recalculation => &mut self.recalculation,
            Way::Subtraction => &mut self.subtraction,
            Way::Reconstruction => &mut self.reconstruction,
        } += 1;
    }
}
