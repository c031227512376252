//! With any bytes on media, the verifier ends with a report or a reason.

use everglade_check::check;
use proptest::prelude::*;

use crate::image;
use crate::memory::Memory;

/// A generator good enough to scatter damage.
pub(crate) fn scatter(state: &mut u64) -> usize {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*state >> 33).unwrap()
}

#[test]
fn flipped_bits_anywhere_never_stop_the_verifier() {
    let image = image::sound();
    let good = image.memory.lock().clone();
    let mut state = 1;
    let mut noticed = 0;
    for round in 0..60 {
        for _ in 0..1 + round {
            let device = scatter(&mut state) % 2;
            let mut devices = image.memory.lock();
            // Mostly where blocks in use are.
            let at = match scatter(&mut state) % 4 {
                0 => scatter(&mut state) % devices[device].len(),
                _ if device == 0 => (256 + 480 + scatter(&mut state) % 32) << 12,
                _ => (256 + scatter(&mut state) % 130) << 12,
            };
            let at = at + scatter(&mut state) % 4096;
            let end = devices[device].len() - 1;
            devices[device][at.min(end)] ^= 1 << (scatter(&mut state) % 8);
        }
        if let Ok(report) = check(&image.memory, &image.memory.ids(), &mut |_| {}) {
            noticed += u32::from(!report.is_clean());
            assert!(!report.to_string().is_empty());
        }
        image.memory.lock().clone_from(&good);
    }
    assert!(noticed > 30, "{noticed} of 60");
}

#[test]
fn garbage_that_carries_the_right_tags_never_stops_the_verifier() {
    for seed in 0..300u64 {
        let mut state = seed;
        let image = image::spoiled(|_, block| {
            if scatter(&mut state).is_multiple_of(12) {
                for _ in 0..1 + scatter(&mut state) % 40 {
                    // Mostly small structures at the beginning.
                    let reach = if scatter(&mut state).is_multiple_of(2) {
                        400
                    } else {
                        4096
                    };
                    let at = scatter(&mut state) % reach;
                    block[at] = u8::try_from(scatter(&mut state) % 256).unwrap();
                }
            }
        });
        if let Ok(report) = check(&image.memory, &image.memory.ids(), &mut |_| {}) {
            assert!(!report.to_string().is_empty(), "seed {seed}");
        }
        let described = everglade_check::describe::superblock(&image.memory, &image.memory.ids());
        assert!(described.is_ok(), "seed {seed}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]
    #[test]
    fn devices_full_of_noise_are_unreadable(seed: u64) {
        let memory = Memory::new(&[600 * 4096]);
        let mut state = seed;
        for byte in &mut memory.lock()[0] {
            *byte = u8::try_from(scatter(&mut state) % 256).unwrap();
        }
        let result = check(&memory, &memory.ids(), &mut |_| {});
        prop_assert!(result.is_err());
    }
}
