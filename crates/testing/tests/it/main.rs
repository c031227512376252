//! Is the harness any good? It must acquit the correct toy on every seed and convict each bug of
//! it. Is the engine? It must be acquitted by that harness.

mod acquittal;
mod conviction;
mod determinism;
mod engine;
