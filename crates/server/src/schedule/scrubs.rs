//! Keeping the last scrub of each aggregate in its part of the book (decision 0048).

use super::library::Asked;
use super::scrubbed::Scrubbed;
use super::{Inner, Schedule};

impl Schedule {
    /// Returns what is kept of the last scrub of an aggregate.
    pub(crate) fn scrubbed(&self, home: u32) -> Option<Scrubbed> {
        let inner = self.lock();
        let known = inner.book.scrubs.iter();
        let mut known = known.filter(|it| it.home == Some(home));
        known.next().cloned()
    }

    /// Keeps the last scrub of an aggregate.
    ///
    /// # Errors
    /// The reason in one line. What was kept before is kept still.
    pub(crate) fn keep_scrub(&self, scrubbed: Scrubbed) -> Result<(), String> {
        let mut inner = self.lock();
        let home = scrubbed.home.ok_or("it is of no aggregate")?;
        inner.can_keep(home)?;
        let mut book = inner.book.clone();
        book.note_scrub(scrubbed);
        let written = inner.library.write(&book, Asked::ByNobody);
        written.map_err(|unwritten| unwritten.text)?;
        inner.book = book;
        Ok(())
    }
}

impl Inner {
    /// Returns the reason why nothing new can be kept in an aggregate.
    pub(super) fn can_keep(&self, home: u32) -> Result<(), String> {
        if let Some(text) = self.library.refusal_in(home) {
            return Err(text);
        }
        match self.library.is_foreign(home) {
            true => Err(
                "the aggregate's notes are those of another version, or damaged, and are not \
                replaced; give one of its volumes a policy with 'policy set' to replace them"
                    .to_owned(),
            ),
            false => Ok(()),
        }
    }
}
