//! The worked example of `docs/design/on-disk-format.md`: one block of a LUN, found by byte offsets
//! alone, without the codecs. The document must contain every line that this test derives from the
//! image.

use everglade_env::{DeviceId, Storage};

use crate::image;
use crate::memory::Memory;

const DOCUMENT: &str = include_str!("../../../../docs/design/on-disk-format.md");

fn number(bytes: &[u8]) -> u128 {
    let mut wide = [0; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    u128::from_le_bytes(wide)
}

fn hex(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(" ")
}

/// Device and byte of a pvbn, by the extent table in the record.
fn locate(record: &[u8], pvbn: u128) -> (u32, u64) {
    let count = |at| usize::try_from(number(&record[at..at + 4])).unwrap();
    let (members, extents) = (count(144), count(148));
    for index in members..members + extents {
        let entry = &record[256 + index * 40..256 + (index + 1) * 40];
        let (base, length) = (number(&entry[..8]), number(&entry[8..16]));
        if (base..base + length).contains(&pvbn) {
            let member = u32::try_from(number(&entry[24..28])).unwrap();
            let dbn = number(&entry[16..24]) + pvbn - base;
            return (member, u64::try_from(dbn * 4096).unwrap());
        }
    }
    panic!("pvbn {pvbn} is in no extent");
}

struct Example<'e> {
    memory: &'e Memory,
    record: Vec<u8>,
    lines: Vec<String>,
}

impl Example<'_> {
    fn bytes(&self, device: u32, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.memory
            .read(DeviceId(device), offset, &mut bytes)
            .unwrap();
        bytes
    }

    fn block(&mut self, pvbn: u128) -> Vec<u8> {
        let (device, offset) = locate(&self.record, pvbn);
        self.lines
            .push(format!("pvbn {pvbn} → member {device}, byte {offset}"));
        self.bytes(device, offset, 4096)
    }

    /// Notes an aggregate pointer and returns its pvbn.
    fn pointer(&mut self, bytes: &[u8]) -> u128 {
        let value = number(bytes);
        let (pvbn, tag) = (value & ((1 << 40) - 1), value >> 40 & ((1 << 48) - 1));
        self.lines
            .push(format!("{} → pvbn {pvbn}, tag {tag:012x}", hex(bytes)));
        pvbn
    }

    /// Notes a volume pointer and returns its vvbn.
    fn volume_pointer(&mut self, bytes: &[u8]) -> u128 {
        let value = number(bytes);
        let vvbn = value & ((1 << 40) - 1);
        let (cached, tag) = (value >> 40 & ((1 << 40) - 1), value >> 80);
        let bytes = hex(bytes);
        self.lines.push(format!(
            "{bytes} → vvbn {vvbn}, cached pvbn {cached}, tag {tag:012x}"
        ));
        vvbn
    }

    /// Descends from a root pointer of the aggregate to leaf `fbn`.
    fn leaf(&mut self, root: &[u8], levels: u8, fbn: u64) -> Vec<u8> {
        let mut pvbn = self.pointer(root);
        for level in (0..levels).rev() {
            let block = self.block(pvbn);
            let slot = usize::try_from(fbn / 255u64.pow(u32::from(level)) % 255).unwrap();
            pvbn = self.pointer(&block[16 + slot * 16..32 + slot * 16]);
        }
        self.block(pvbn)
    }
}

#[test]
fn the_document_follows_one_lun_block_from_the_label_to_its_bytes() {
    let image = image::sound();
    let mut example = Example {
        memory: &image.memory,
        record: Vec::new(),
        lines: Vec::new(),
    };
    example.record = example.bytes(0, 128 << 10, 64 << 10);
    assert_eq!(&example.record[..8], b"EVGLCONF");
    let superblock = example.bytes(0, 512 << 10, 4096);
    assert_eq!(&superblock[..8], b"EVGLSUPR");

    let inodes = &superblock[80..80 + 288];
    let leaf = example.leaf(&inodes[40..56], inodes[6], 64 / 14);
    let container = leaf[16 + 64 % 14 * 288..][..288].to_vec();
    let slot = |example: &mut Example<'_>, vvbn: u128| {
        let vvbn = u64::try_from(vvbn).unwrap();
        example.leaf(&container[40..56], container[6], vvbn)
    };
    let superblock = slot(&mut example, 1);
    assert_eq!(&superblock[..8], b"EVGLVOLU");

    let inodes = superblock[80..80 + 288].to_vec();
    let follow = |example: &mut Example<'_>, root: &[u8], levels: u8, fbn: u64| {
        let vvbn = example.volume_pointer(root);
        let mut block = slot(example, vvbn);
        for level in (0..levels).rev() {
            let at = 16 + usize::try_from(fbn / 255u64.pow(u32::from(level)) % 255).unwrap() * 16;
            let vvbn = example.volume_pointer(&block[at..at + 16]);
            block = slot(example, vvbn);
        }
        block
    };
    let leaf = follow(&mut example, &inodes[40..56], inodes[6], 64 / 14);
    let lun = leaf[16 + 64 % 14 * 288..][..288].to_vec();
    let data = follow(&mut example, &lun[40..56], lun[6], 254);
    example
        .lines
        .push(format!("the data begins {}", hex(&data[..16])));

    let missing: Vec<&String> = example
        .lines
        .iter()
        .filter(|line| !DOCUMENT.contains(line.as_str()))
        .collect();
    assert!(
        missing.is_empty(),
        "not in the document: {missing:#?}\nall: {:#?}",
        example.lines
    );
}
