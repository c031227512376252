//! Tests of the harness and of the engine: the harness must accept the correct toy on every seed
//! and report each bug of it, and must accept the engine.

mod acquittal;
mod conviction;
mod determinism;
mod engine;
