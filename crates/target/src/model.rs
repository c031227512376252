//! The reference model: a LUN as a map from block number to bytes, one operation at a time.
//!
//! Slow, in memory, and meant to be read and believed: what [`Model`] answers is what the contract
//! says. Every operation is carried out when it is submitted and completes at the next poll, in
//! order; everything is durable at once. Tests compare targets with it; protocol tests run on it.

use std::collections::BTreeMap;

use everglade_env::{BLOCK_SIZE, Page, PageRef};

use crate::span::{block_count, parts};
use crate::{
    Allocation, COMPARE_BYTES_MAX, Completion, Error, Export, Extent, Extents, Image, LunHandle,
    OP_BYTES_MAX, Op, ReadSpan, Reply, Target, Token, WriteSpan,
};

const BLOCK: u64 = BLOCK_SIZE as u64;

/// Any number of LUNs in memory.
#[derive(Default)]
pub struct Model {
    luns: BTreeMap<String, Lun>,
    /// The LUN of each open handle, by name and identity: a name may be used again.
    handles: BTreeMap<u64, (String, u64)>,
    numbers_given: u64,
    completions: Vec<Completion>,
}

struct Lun {
    identity: u64,
    size_bytes: u64,
    read_only: bool,
    /// Name of the LUN of which this is an image, and the image's label.
    image_of: Option<(String, String)>,
    /// Blocks that were written; all others are zero.
    blocks: BTreeMap<u64, Box<[u8; BLOCK_SIZE]>>,
}

impl Model {
    /// Makes a model without LUNs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a model with one LUN of this name and size.
    #[must_use]
    pub fn with_lun(name: &str, size_bytes: u64) -> Self {
        let mut model = Self::new();
        model.add_lun(name, size_bytes);
        model
    }

    /// Adds a LUN of zeroes.
    ///
    /// # Panics
    /// If the name is taken or the size is not a multiple of the block size.
    pub fn add_lun(&mut self, name: &str, size_bytes: u64) {
        assert!(size_bytes.is_multiple_of(BLOCK), "LUNs have whole blocks");
        let identity = self.number();
        let lun = Lun {
            identity,
            size_bytes,
            read_only: false,
            image_of: None,
            blocks: BTreeMap::new(),
        };
        assert!(
            self.luns.insert(name.to_owned(), lun).is_none(),
            "the name is taken"
        );
    }

    /// Keeps an image of a LUN as `name@label`.
    ///
    /// # Panics
    /// If the LUN does not exist.
    pub fn keep_image(&mut self, name: &str, label: &str) {
        let identity = self.number();
        let lun = &self.luns[name];
        let image = Lun {
            identity,
            size_bytes: lun.size_bytes,
            read_only: true,
            image_of: Some((name.to_owned(), label.to_owned())),
            blocks: lun.blocks.clone(),
        };
        self.luns.insert(format!("{name}@{label}"), image);
    }

    /// Stores bytes, as a client's write does.
    ///
    /// # Panics
    /// If the LUN or the range does not exist.
    pub fn write(&mut self, name: &str, offset: u64, bytes: &[u8]) {
        let data = WriteSpan::copy_of(offset, bytes);
        let lun = self.luns.get_mut(name).expect("a LUN of the model");
        lun.check_range(offset, u64::from(data.length))
            .expect("a range of the LUN");
        lun.write(&data);
    }

    /// Deletes a LUN; open handles of it answer [`Error::Gone`].
    pub fn remove_lun(&mut self, name: &str) {
        self.luns.remove(name);
    }

    /// Makes writes to a LUN fail, or work again.
    ///
    /// # Panics
    /// If the LUN does not exist.
    pub fn set_read_only(&mut self, name: &str, read_only: bool) {
        self.luns
            .get_mut(name)
            .expect("a LUN of the model")
            .read_only = read_only;
    }

    /// Grows or shrinks a LUN. Bytes cut off read as zero if the LUN grows again.
    ///
    /// # Panics
    /// If the LUN does not exist or the size is not a multiple of the block size.
    pub fn resize(&mut self, name: &str, size_bytes: u64) {
        assert!(size_bytes.is_multiple_of(BLOCK), "LUNs have whole blocks");
        let lun = self.luns.get_mut(name).expect("a LUN of the model");
        lun.size_bytes = size_bytes;
        lun.blocks.split_off(&(size_bytes / BLOCK));
    }

    /// Returns the bytes of a range, for checkers.
    ///
    /// # Panics
    /// If the LUN or the range does not exist.
    #[must_use]
    pub fn bytes(&self, name: &str, offset: u64, length: u32) -> Vec<u8> {
        let lun = &self.luns[name];
        lun.check_range(offset, u64::from(length))
            .expect("a range of the LUN");
        lun.read(offset, length).to_vec()
    }

    /// Returns the number of handles that are open, for tests.
    #[must_use]
    pub fn open_handles(&self) -> usize {
        self.handles.len()
    }

    /// Returns the number of blocks that hold data, which a thin LUN should occupy.
    ///
    /// # Panics
    /// If the LUN does not exist.
    #[must_use]
    pub fn blocks_in_use(&self, name: &str) -> usize {
        self.luns[name].blocks.len()
    }

    fn number(&mut self) -> u64 {
        self.numbers_given += 1;
        self.numbers_given
    }

    /// UUID of the LUN that this is, or is an image of.
    fn lun_uuid(&self, lun: &Lun) -> [u8; 16] {
        let of = lun.image_of.as_ref().map(|(of, _)| of);
        let of = of.and_then(|of| self.luns.get(of));
        of.unwrap_or(lun).uuid()
    }

    fn lun(&self, handle: LunHandle) -> Option<&Lun> {
        let (name, identity) = self.handles.get(&handle.0)?;
        self.luns.get(name).filter(|lun| lun.identity == *identity)
    }

    fn execute(&mut self, handle: LunHandle, op: Op) -> Result<Reply, Error> {
        if let Op::Changes {
            offset,
            length,
            count_max,
            since,
        } = op
        {
            let lun = self.lun(handle).ok_or(Error::Gone)?;
            let since = self.lun(since).ok_or(Error::Gone)?;
            lun.check_range(offset, length)?;
            if length == 0 {
                return Err(Error::Invalid("the extents of no bytes"));
            }
            let changes = lun.changes(since, offset, length, count_max);
            return Ok(Reply::Extents(changes));
        }
        let (name, identity) = self.handles.get(&handle.0).ok_or(Error::Gone)?;
        let lun = self
            .luns
            .get_mut(name)
            .filter(|lun| lun.identity == *identity);
        lun.ok_or(Error::Gone)?.execute(op)
    }
}

impl Lun {
    /// Beginnings differ, too: names are made of them.
    fn uuid(&self) -> [u8; 16] {
        let identity = u128::from(self.identity);
        (identity << 96 | identity).to_be_bytes()
    }

    fn execute(&mut self, op: Op) -> Result<Reply, Error> {
        let changes = !matches!(
            op,
            Op::Read { .. } | Op::Flush | Op::Extents { .. } | Op::Changes { .. }
        );
        if changes && self.read_only {
            return Err(Error::ReadOnly);
        }
        match op {
            Op::Read { offset, length } => {
                self.check_transfer(offset, length)?;
                return Ok(Reply::Data(self.read(offset, length)));
            }
            Op::Write { data, durable: _ } => {
                self.check_transfer(data.offset, data.length)?;
                self.write(&data);
            }
            Op::CompareAndWrite {
                compare,
                data,
                durable: _,
            } => {
                check_compare(&compare, &data)?;
                self.check_transfer(data.offset, data.length)?;
                let first = data.offset / BLOCK;
                let block = |index: usize| self.blocks.get(&(first + index as u64));
                let block = |index| block(index).map(|bytes| &bytes[..]);
                if let Some(offset) = compare.first_difference(block) {
                    return Err(Error::Miscompare { offset });
                }
                self.write(&data);
            }
            Op::Flush => {}
            Op::Discard {
                offset,
                length,
                durable: _,
            } => {
                self.check_range(offset, length)?;
                self.discard(offset, length);
            }
            Op::WriteZeroes {
                offset,
                length,
                allocate,
                durable: _,
            } => {
                self.check_range(offset, length)?;
                self.write_zeroes(offset, length);
                if allocate {
                    self.allocate(offset, length);
                }
            }
            Op::Changes { .. } => unreachable!("it concerns two LUNs"),
            Op::Extents {
                offset,
                length,
                count_max,
            } => {
                self.check_range(offset, length)?;
                if length == 0 {
                    return Err(Error::Invalid("the extents of no bytes"));
                }
                return Ok(Reply::Extents(self.extents(offset, length, count_max)));
            }
        }
        Ok(Reply::Done)
    }

    fn check_transfer(&self, offset: u64, length: u32) -> Result<(), Error> {
        if length == 0 {
            return Err(Error::Invalid("a transfer of no bytes"));
        }
        if length > OP_BYTES_MAX {
            return Err(Error::Invalid(
                "a transfer longer than one operation may be",
            ));
        }
        self.check_range(offset, u64::from(length))
    }

    fn check_range(&self, offset: u64, length: u64) -> Result<(), Error> {
        match offset.checked_add(length) {
            Some(end) if end <= self.size_bytes => Ok(()),
            _ => Err(Error::Invalid("a range beyond the end")),
        }
    }

    fn read(&self, offset: u64, length: u32) -> ReadSpan {
        let first = offset / BLOCK;
        let blocks = first..first + block_count(offset, u64::from(length));
        let page = |block| match self.blocks.get(&block) {
            Some(bytes) => Page::copy_of(bytes).freeze(),
            None => PageRef::zero(),
        };
        ReadSpan {
            offset,
            length,
            pages: blocks.map(page).collect(),
        }
    }

    fn write(&mut self, data: &WriteSpan) {
        let first = data.offset / BLOCK;
        for (index, range) in parts(data.offset, data.length) {
            let block = self.block_mut(first + index as u64);
            block[range.clone()].copy_from_slice(&data.pages[index][range]);
        }
    }

    /// Discards whole blocks; partial blocks at the edges keep their contents.
    fn discard(&mut self, offset: u64, length: u64) {
        let first = offset.div_ceil(BLOCK);
        let end = (offset + length) / BLOCK;
        if first < end {
            let after = self.blocks.split_off(&end);
            self.blocks.split_off(&first);
            self.blocks.extend(after);
        }
    }

    fn write_zeroes(&mut self, offset: u64, length: u64) {
        self.discard(offset, length);
        let end = offset + length;
        // The remaining edges lie each within one block.
        let edges = [(offset, end.min(offset.next_multiple_of(BLOCK))), {
            let start = end / BLOCK * BLOCK;
            (start.max(offset), end)
        }];
        for (from, to) in edges {
            let within = |position: u64| usize::try_from(position % BLOCK).expect("below 4,096");
            if from < to && self.blocks.contains_key(&(from / BLOCK)) {
                let bytes = usize::try_from(to - from).expect("at most one block");
                self.block_mut(from / BLOCK)[within(from)..][..bytes].fill(0);
            }
        }
    }

    /// Allocates every block of the range.
    fn allocate(&mut self, offset: u64, length: u64) {
        let first = offset / BLOCK;
        for block in first..first + block_count(offset, length) {
            self.block_mut(block);
        }
    }

    fn extents(&self, offset: u64, length: u64, count_max: u32) -> Vec<Extent> {
        let end = offset + length;
        let mut extents = Extents::new();
        let mut at = offset;
        while at < end {
            let block = at / BLOCK;
            let (allocation, until) = if self.blocks.contains_key(&block) {
                (Allocation::Data, (block + 1) * BLOCK)
            } else {
                let next = self.blocks.range(block..).next();
                (Allocation::Hole, next.map_or(end, |(next, _)| next * BLOCK))
            };
            let until = until.min(end);
            if !extents.push(until - at, allocation, count_max) {
                break;
            }
            at = until;
        }
        extents.into_vec()
    }

    /// Returns the differences from another LUN, block by block.
    fn changes(&self, since: &Lun, offset: u64, length: u64, count_max: u32) -> Vec<Extent> {
        let end = offset + length;
        let mut extents = Extents::new();
        let mut at = offset;
        while at < end {
            let block = at / BLOCK;
            let until = end.min((block + 1) * BLOCK);
            let allocation = match self.blocks.get(&block) == since.blocks.get(&block) {
                true => Allocation::Hole,
                false => Allocation::Data,
            };
            if !extents.push(until - at, allocation, count_max) {
                break;
            }
            at = until;
        }
        extents.into_vec()
    }

    fn block_mut(&mut self, block: u64) -> &mut [u8; BLOCK_SIZE] {
        self.blocks
            .entry(block)
            .or_insert_with(|| Box::new([0; BLOCK_SIZE]))
    }
}

/// Refuses a compare-and-write whose parts do not fit.
fn check_compare(compare: &WriteSpan, data: &WriteSpan) -> Result<(), Error> {
    if (compare.offset, compare.length) != (data.offset, data.length) {
        return Err(Error::Invalid("two ranges in one operation"));
    }
    if data.length > COMPARE_BYTES_MAX {
        return Err(Error::Invalid("at most 64 KiB are compared and written"));
    }
    Ok(())
}

impl Target for Model {
    fn exports(&self) -> Vec<Export> {
        let export = |(name, lun): (&String, &Lun)| Export {
            name: name.clone(),
            uuid: lun.uuid(),
            lun_uuid: self.lun_uuid(lun),
            size_bytes: lun.size_bytes,
            read_only: lun.read_only,
        };
        let active = self.luns.iter().filter(|(_, lun)| lun.image_of.is_none());
        active.map(export).collect()
    }

    fn images(&self, name: &str) -> Vec<Image> {
        let of = |lun: &Lun| lun.image_of.as_ref().map(|(of, _)| of.clone());
        let wanted = self
            .luns
            .get(name)
            .map(|lun| of(lun).unwrap_or(name.to_owned()));
        let image = |(export, lun): (&String, &Lun)| {
            let (of, label) = lun.image_of.clone()?;
            let (export, lun_uuid) = (export.clone(), self.lun_uuid(lun));
            let image = Image {
                label,
                export,
                lun_uuid,
            };
            (Some(of) == wanted && image.export != name).then_some(image)
        };
        self.luns.iter().filter_map(image).collect()
    }

    fn open(&mut self, name: &str) -> Result<(LunHandle, Export), Error> {
        let lun = self
            .luns
            .get(name)
            .ok_or_else(|| Error::NotFound(name.to_owned()))?;
        let identity = lun.identity;
        let export = Export {
            name: name.to_owned(),
            uuid: lun.uuid(),
            lun_uuid: self.lun_uuid(lun),
            size_bytes: lun.size_bytes,
            read_only: lun.read_only,
        };
        let handle = LunHandle(self.number());
        self.handles.insert(handle.0, (name.to_owned(), identity));
        Ok((handle, export))
    }

    fn close(&mut self, lun: LunHandle) {
        assert!(
            self.handles.remove(&lun.0).is_some(),
            "closed a handle that is not open"
        );
    }

    fn size_bytes(&self, lun: LunHandle) -> Option<u64> {
        self.lun(lun).map(|lun| lun.size_bytes)
    }

    fn submit(&mut self, lun: LunHandle, op: Op, token: Token) {
        let result = self.execute(lun, op);
        self.completions.push(Completion { token, result });
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.completions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;

    #[test]
    fn model_conforms_to_its_own_suite() {
        for seed in 0..8 {
            let mut model = Model::with_lun("v/l", 32 << 20);
            conformance::run(&mut model, "v/l", &mut |_| {}, seed);
        }
    }

    #[test]
    fn write_zeroes_inside_one_block_keeps_both_sides() {
        let mut lun = Lun {
            identity: 1,
            size_bytes: 1 << 20,
            read_only: false,
            image_of: None,
            blocks: BTreeMap::new(),
        };
        lun.write(&WriteSpan::copy_of(0, &[7; 8192]));
        lun.write_zeroes(100, 50);
        let bytes = lun.read(0, 8192).to_vec();
        assert!(bytes[..100].iter().all(|byte| *byte == 7));
        assert!(bytes[100..150].iter().all(|byte| *byte == 0));
        assert!(bytes[150..].iter().all(|byte| *byte == 7));
        lun.write_zeroes(4000, 4192);
        assert_eq!(
            lun.blocks.len(),
            1,
            "a whole block of zeroes takes no space"
        );
    }

    #[test]
    fn handle_of_a_deleted_lun_is_gone_even_if_the_name_returns() {
        let mut model = Model::with_lun("v/l", 1 << 20);
        let (lun, _) = model.open("v/l").unwrap();
        model.remove_lun("v/l");
        model.add_lun("v/l", 1 << 20);
        assert_eq!(model.size_bytes(lun), None);
        model.submit(lun, Op::Flush, 1);
        let mut done = Vec::new();
        model.poll(&mut done);
        assert_eq!(done[0].result.as_ref().unwrap_err(), &Error::Gone);
    }

    #[test]
    fn what_a_shrink_cut_off_reads_as_zeroes_after_growing() {
        let mut model = Model::with_lun("v/l", 1 << 20);
        let (lun, _) = model.open("v/l").unwrap();
        let data = WriteSpan::copy_of(500_000, &[1; 4096]);
        model.submit(
            lun,
            Op::Write {
                data,
                durable: false,
            },
            1,
        );
        model.resize("v/l", 4096);
        model.resize("v/l", 1 << 20);
        assert_eq!(model.bytes("v/l", 500_000, 4096), vec![0; 4096]);
    }
}
