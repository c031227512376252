//! The files that pages refer to: one style sheet, one script.

/// The style sheet.
pub const STYLE: &str = include_str!("console.css");
/// The script. Pages work without it.
pub const SCRIPT: &str = include_str!("console.js");
