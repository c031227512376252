//! Waiting until the daemon has done work in the background. Meanwhile one line shows the progress.

use std::time::Duration;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress::Progress;
use crate::session::Answer;

/// Time between two looks at the progress.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Calls `again` at intervals, and shows the line that `line_of` makes of each answer. Returns the
/// first answer without a line. If somebody presses Ctrl-C, returns the failure that `interrupted`
/// makes.
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
