//! Commands that a person copies into a shell.

/// Returns a text as one word of a shell's command.
#[must_use]
pub fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,@%=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::shell_word;

    #[test]
    fn a_shell_reads_the_text_back() {
        for (text, word) in [
            ("/dev/disk/by-id/ata-1", "/dev/disk/by-id/ata-1"),
            ("/srv/my disk", "'/srv/my disk'"),
            ("e's", r"'e'\''s'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(text), word);
        }
    }
}
