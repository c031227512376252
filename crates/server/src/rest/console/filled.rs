//! What a browser has filled into a form.

use std::borrow::Cow;

/// Fields of a form, by name.
pub(super) struct Filled(Vec<(String, String)>);

impl Filled {
    /// Reads `application/x-www-form-urlencoded`, which has no invalid texts.
    pub(super) fn parse(body: &[u8]) -> Filled {
        let owned = |text: Cow<'_, str>| text.into_owned();
        let pairs = form_urlencoded::parse(body);
        Filled(
            pairs
                .map(|(name, value)| (owned(name), owned(value)))
                .collect(),
        )
    }

    /// A form that was not filled in yet.
    pub(super) fn empty() -> Filled {
        Filled(Vec::new())
    }

    /// What a field has; empty if it is not there.
    pub(super) fn text(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    /// What a field has, without spaces around it; `usual` before the form is sent.
    pub(super) fn text_or(&self, name: &str, usual: &str) -> String {
        match self.0.is_empty() {
            true => usual.to_owned(),
            false => self.text(name).trim().to_owned(),
        }
    }

    /// Whether a box is ticked.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.text(name) == "true"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_their_texts() {
        let filled = Filled::parse(b"name=a+b%2F&sure=true&name=c");
        assert_eq!(filled.text("name"), "a b/");
        assert!(filled.is_set("sure") && !filled.is_set("name"));
        assert_eq!(filled.text_or("other", "usual"), "");
        assert_eq!(Filled::empty().text_or("other", "usual"), "usual");
        assert_eq!(Filled::parse(b"%ff=%").text("x"), "");
    }
}
