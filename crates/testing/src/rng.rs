//! Seeded random numbers (xoshiro256**), with forks so that one part's draws never shift another's.

/// A stream of random numbers. The same seed gives the same stream for ever.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

/// Applies one step of splitmix64: a bijection that scatters nearby numbers.
#[must_use]
pub fn scramble(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// A stream that is a function of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Rng {
        let a = scramble(seed);
        let b = scramble(a);
        let c = scramble(b);
        Rng {
            state: [a, b, c, scramble(c) | 1],
        }
    }

    /// Returns the stream of the part called `label`, independent of other parts' draws.
    #[must_use]
    pub fn for_part(seed: u64, label: &str) -> Rng {
        let mixed = label
            .bytes()
            .fold(seed, |all, byte| scramble(all ^ u64::from(byte)));
        Rng::new(mixed)
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "nothing is below zero");
        let wide = u128::from(self.draw()) * u128::from(bound);
        u64::try_from(wide >> 64).expect("the high half of a product fits")
    }

    /// An index below `count`, which is not zero.
    pub fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.below(count as u64)).expect("below a usize")
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "an empty range was asked for");
        match (high - low).checked_add(1) {
            Some(count) => low + self.below(count),
            None => self.draw(),
        }
    }

    /// True once in `n` draws on average; never for zero. Zero draws nothing.
    pub fn one_in(&mut self, n: u32) -> bool {
        n > 0 && self.below(u64::from(n)) == 0
    }

    /// Puts `items` in a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.index(last + 1);
            items.swap(last, other);
        }
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            let word = self.draw().to_le_bytes();
            piece.copy_from_slice(&word[..piece.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_stream_and_parts_give_different_ones() {
        let mut a = Rng::new(1);
        let mut b = Rng::new(1);
        assert!((0..100).all(|_| a.draw() == b.draw()));
        assert_ne!(Rng::for_part(1, "x").draw(), Rng::for_part(1, "y").draw());
    }

    #[test]
    fn ranges_are_kept_and_covered() {
        let mut rng = Rng::new(2);
        let mut seen = [false; 5];
        for _ in 0..1000 {
            seen[rng.index(5)] = true;
            let n = rng.between(3, 4);
            assert!(n == 3 || n == 4, "{n} is outside");
        }
        assert_eq!(seen, [true; 5]);
        assert!(!rng.one_in(0));
        assert!(rng.one_in(1));
    }
}
