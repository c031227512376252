//! Waiting for the end of what the daemon does in the background, with a line of progress.

use std::time::Duration;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress::Progress;
use crate::session::Answer;

/// Time between two looks at the progress.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Asks `again` and again until `line_of` has no line for the answer any more. Returns the last
/// answer, or `interrupted` if somebody presses Ctrl-C.
pub(crate) fn until_done<T>(
    output: &Output,
    mut told: Answer<T>,
    line_of: impl Fn(&T) -> Option<String>,
    again: impl Fn(&T) -> Result<Answer<T>, Failure>,
    interrupted: impl Fn(&T) -> Failure,
) -> Result<Answer<T>, Failure> {
    let mut line = Progress::new(output.is_quiet());
    let interrupt = Interrupt::watch();
    while let Some(text) = line_of(&told.meant) {
        line.show(&text);
        if !interrupt.sleep(LOOK_EVERY) {
            line.clear();
            return Err(interrupted(&told.meant));
        }
        told = again(&told.meant)?;
    }
    line.clear();
    Ok(told)
}
