//! Changing an input: a few small changes, of the kinds that decoders stumble over.

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "nothing is below zero");
        usize::try_from(self.number() % bound as u64).expect("below a usize")
    }

    fn byte(&mut self) -> u8 {
        self.number().to_le_bytes()[0]
    }
}

/// Numbers at the edges of what fits.
const EDGES: [u64; 14] = [
    0,
    1,
    2,
    0x7f,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    (1 << 40) - 1,
    1 << 40,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];

/// Changes `input` in one to eight places; never longer than `bytes_max`. `other` lends a part.
pub(crate) fn mutate(input: &mut Vec<u8>, other: &[u8], bytes_max: usize, random: &mut Random) {
    for _ in 0..=random.below(8) {
        step(input, other, random);
    }
    input.truncate(bytes_max);
}

fn step(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    if input.is_empty() {
        input.push(random.byte());
        return;
    }
    // Headers are at the front, so half of all changes are too.
    let reach = if random.below(2) == 0 {
        input.len().min(128)
    } else {
        input.len()
    };
    let at = random.below(reach);
    match random.below(10) {
        0 => input[at] ^= 1 << random.below(8),
        1 => input[at] = random.byte(),
        2 => input[at] = input[at].wrapping_add(1),
        3 => input[at] = input[at].wrapping_sub(1),
        4 | 5 => put_edge(&mut input[at..], random),
        6 => {
            let count = 1 + random.below(16);
            let bytes: Vec<u8> = (0..count).map(|_| random.byte()).collect();
            input.splice(at..at, bytes);
        }
        7 => {
            let end = (at + 1 + random.below(16)).min(input.len());
            input.drain(at..end);
        }
        8 => {
            let end = (at + 1 + random.below(64)).min(input.len());
            let part = input[at..end].to_vec();
            let to = random.below(input.len());
            overwrite(&mut input[to..], &part);
        }
        _ if other.is_empty() => input.truncate(at),
        _ => {
            let from = random.below(other.len());
            let end = (from + 1 + random.below(128)).min(other.len());
            overwrite(&mut input[at..], &other[from..end]);
        }
    }
}

/// Writes a number of 1, 2, 4 or 8 bytes, in either order.
fn put_edge(to: &mut [u8], random: &mut Random) {
    let number = EDGES[random.below(EDGES.len())];
    let width = 1 << random.below(4);
    let bytes = number.to_le_bytes();
    let mut part = bytes[..width].to_vec();
    if random.below(2) == 0 {
        part.reverse();
    }
    overwrite(to, &part);
}

fn overwrite(to: &mut [u8], from: &[u8]) {
    let count = to.len().min(from.len());
    to[..count].copy_from_slice(&from[..count]);
}
