//! Drawings in files, and in lines of text.

use std::fs;
use std::path::Path;

use crate::failure::{Failure, exit};

/// Characters of a drawing in one line of text.
pub(crate) const CHARACTERS: usize = 64;

/// Writes a picture to a file.
pub(crate) fn draw(file: &Path, picture: &str) -> Result<(), Failure> {
    fs::write(file, picture).map_err(|error| {
        let text = format!("cannot write the picture {}: {error}", file.display());
        Failure::new(exit::FAILED, text)
    })
}
