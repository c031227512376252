//! Drawings in files, and in lines of text.

use std::fs;
use std::path::Path;

use crate::failure::{Failure, exit};

/// Characters of a drawing in one line of text.
const CHARACTERS: usize = 64;

/// Draws a line of at most [`CHARACTERS`]: `character` makes one of neighbours.
pub(crate) fn strip<T>(parts: &[T], character: impl Fn(&[T]) -> char) -> String {
    let of_character = parts.len().div_ceil(CHARACTERS).max(1);
    parts.chunks(of_character).map(character).collect()
}

/// Writes a picture to a file.
pub(crate) fn draw(file: &Path, picture: &str) -> Result<(), Failure> {
    fs::write(file, picture).map_err(|error| {
        let text = format!("cannot write the picture {}: {error}", file.display());
        Failure::new(exit::FAILED, text)
    })
}
