//! Is the harness any good? It must acquit the correct toy on every seed and convict each bug of it.

mod acquittal;
mod conviction;
mod determinism;
mod smoke;
