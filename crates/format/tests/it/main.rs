//! What the format is, byte by byte.

mod frozen;
