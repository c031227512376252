//! All sequences of one to so many letters, numbered without gaps, the short ones first.

/// Sequences of indices into an alphabet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sequences {
    /// Letters of the alphabet.
    pub(super) letters: u64,
    /// Letters of the longest sequence.
    pub(super) length_max: u32,
}

impl Sequences {
    fn of_length(self, length: u32) -> u64 {
        self.letters.pow(length)
    }

    pub(super) fn count(self) -> u64 {
        (1..=self.length_max).map(|it| self.of_length(it)).sum()
    }

    /// One of them, by its number.
    pub(super) fn nth(self, number: u64) -> Vec<usize> {
        let (mut rest, mut length) = (number, 1);
        while rest >= self.of_length(length) {
            rest -= self.of_length(length);
            length += 1;
        }
        let letter = |_| {
            let index = rest % self.letters;
            rest /= self.letters;
            usize::try_from(index).expect("an alphabet is short")
        };
        (0..length).map(letter).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_there_once() {
        let all = Sequences {
            letters: 5,
            length_max: 3,
        };
        let each: std::collections::BTreeSet<_> = (0..all.count()).map(|it| all.nth(it)).collect();
        assert_eq!(each.len(), 5 + 25 + 125);
        assert_eq!(all.nth(0), [0]);
        assert_eq!(all.nth(5), [0, 0]);
        assert_eq!(all.nth(all.count() - 1), [4, 4, 4]);
    }
}
