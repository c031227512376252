//! The `everglade` binary.
fn main() {}
