//! Seeded choices. The same seed makes the same choices for ever.

/// A generator of pseudo-random numbers (SplitMix64).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Starts from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Dice(seed)
    }

    /// Returns any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, which must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// Returns true once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Picks one of `choices`.
    pub fn pick<C: Copy>(&mut self, choices: &[C]) -> C {
        let index = self.below(choices.len() as u64);
        choices[usize::try_from(index).expect("an index")]
    }

    /// Bytes that tell from where they came: every 8 bytes differ.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend_from_slice(&self.number().to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }
}
