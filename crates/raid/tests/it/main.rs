//! The code of stripes, judged by its definition and by a solver of linear equations.

mod losses;
mod oracle;
mod writes;
