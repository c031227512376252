//! The format on media, byte by byte.

mod frozen;
