//! Comments on volumes. They are in the aggregates' parts of the book, so a pool that moves brings
//! them along.

use everglade_api::{Code, Problem};

use super::Schedule;
use super::commented::Commented;
use super::library::Asked;
use super::reserved::digits;

impl Schedule {
    /// Notes a comment on a volume of an aggregate, by its UUID; an empty one removes it.
    ///
    /// # Errors
    /// Nothing was changed.
    pub(crate) fn set_comment(
        &self,
        home: u32,
        volume: &[u8; 16],
        text: &str,
    ) -> Result<(), Problem> {
        let unavailable = |text| Problem::new(Code::Unavailable, text);
        let mut inner = self.lock();
        inner.can_keep(home).map_err(unavailable)?;
        let mut book = inner.book.clone();
        let commented = Commented {
            text: text.to_owned(),
            home: Some(home),
        };
        match text.is_empty() {
            true => _ = book.comments.remove(&digits(volume)),
            false => _ = book.comments.insert(digits(volume), commented),
        }
        inner.keep(home, book, Asked::ByPeople).map_err(unavailable)
    }

    /// Returns the comment on a volume, by its UUID; empty if there is none.
    pub(crate) fn comment_of(&self, volume: &[u8; 16]) -> String {
        let inner = self.lock();
        if inner.book.comments.is_empty() {
            return String::new();
        }
        let comment = inner.book.comments.get(&digits(volume));
        comment.map(|it| it.text.clone()).unwrap_or_default()
    }
}
