//! Random numbers, all of them from the kernel: the same source serves secrets and back-off times,
//! so a weaker generator is never used for a secret by mistake. Numbers are drawn many at a time,
//! so one number costs a few nanoseconds.

use rustix::rand::{GetRandomFlags, getrandom};

/// Numbers drawn at once. The kernel returns up to 256 bytes whole, even if a signal arrives.
const NUMBERS: usize = 32;

/// Returns one number, for those that need few.
#[must_use]
pub fn random_number() -> u64 {
    Entropy::new().draw()
}

/// The random numbers of one reactor.
pub(crate) struct Entropy {
    numbers: [u64; NUMBERS],
    left: usize,
}

impl Entropy {
    pub(crate) fn new() -> Entropy {
        Entropy {
            numbers: [0; NUMBERS],
            left: 0,
        }
    }

    pub(crate) fn draw(&mut self) -> u64 {
        if self.left == 0 {
            self.refill();
        }
        self.left -= 1;
        // Numbers that were drawn do not stay in memory.
        std::mem::take(&mut self.numbers[self.left])
    }

    fn refill(&mut self) {
        let mut bytes = [0u8; NUMBERS * 8];
        loop {
            match getrandom(&mut bytes[..], GetRandomFlags::empty()) {
                Ok(filled) if filled == bytes.len() => break,
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => panic!("the kernel gives no random numbers: {errno}"),
            }
        }
        for (number, chunk) in self.numbers.iter_mut().zip(bytes.chunks_exact(8)) {
            *number = u64::from_le_bytes(chunk.try_into().expect("chunks of eight"));
        }
        self.left = NUMBERS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_do_not_repeat() {
        let mut entropy = Entropy::new();
        let mut drawn: Vec<u64> = (0..1000).map(|_| entropy.draw()).collect();
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn.len(), 1000);
    }
}
