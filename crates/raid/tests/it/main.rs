//! The code of stripes, judged by its definition and by a solver of linear equations; and what is
//! built on it.

mod losses;
mod oracle;
mod recovery;
mod tetris;
mod writes;
