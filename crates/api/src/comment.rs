//! Comments: what people note about an object.

use std::str::FromStr;

use serde::{Serialize, Serializer};
use utoipa::ToSchema;

/// Most characters of a comment.
const LENGTH_MAX: usize = 200;

/// A line of text for people, at most 200 characters; empty removes the comment.
#[derive(Clone, Debug, Default, PartialEq, Eq, ToSchema)]
#[schema(value_type = String, max_length = 200, example = "invoices, ask Eve")]
pub struct Comment(String);

impl Comment {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Comment {
    type Err = String;

    fn from_str(text: &str) -> Result<Comment, String> {
        if text.chars().any(char::is_control) {
            return Err("a comment is one line of text, without control characters".to_owned());
        }
        if text.chars().count() > LENGTH_MAX {
            return Err(format!("a comment has at most {LENGTH_MAX} characters"));
        }
        Ok(Comment(text.trim().to_owned()))
    }
}

impl Serialize for Comment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_is_one_line_that_is_not_long() {
        let comment: Comment = "  invoices, ask Eve ".parse().expect("a comment");
        assert_eq!(comment.as_str(), "invoices, ask Eve");
        assert_eq!("".parse(), Ok(Comment::default()));
        assert!("ä".repeat(200).parse::<Comment>().is_ok());
        assert!("ä".repeat(201).parse::<Comment>().is_err());
        assert!("two\nlines".parse::<Comment>().is_err());
    }
}
