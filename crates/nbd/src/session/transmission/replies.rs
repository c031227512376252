//! The replies for the outcome of a request, in each of the three styles (proto "Simple reply
//! message", "Structured reply types"; extension `EXTENDED_HEADERS`).
//!
//! | outcome | simple | chunks |
//! | --- | --- | --- |
//! | nothing to say | error 0 | `NONE` |
//! | data of a whole read | error 0 and the data | `OFFSET_DATA` or `OFFSET_HOLE` (client asked for one chunk) |
//! | data of a slice | – | `OFFSET_DATA` and `OFFSET_HOLE` |
//! | extents | – | `BLOCK_STATUS` or `BLOCK_STATUS_EXT` |
//! | refusal | its number | `ERROR` with a text, `ERROR_OFFSET` for a slice |
//!
//! Blocks that are not stored come from the target as the shared page of zeroes, which is
//! recognised by its address, without a look at its bytes. Short runs of such blocks are sent as
//! data, because a chunk costs the client more than a few blocks.

use everglade_env::{BLOCK_SIZE, PageRef};
use everglade_target::sessions::memory::{Class, Reservation, page_bytes};
use everglade_target::{Allocation, Extent, ReadSpan};

use super::super::outgoing::{Data, Head, Outgoing, Part, Parts};
use super::super::terms::{Context, Style, Tells};
use super::verdict::Refusal;
use crate::wire::chunk::{error_data, hole_data, kinds, states};
use crate::wire::{Chunk, Request, SimpleReply};

const BLOCK: u64 = BLOCK_SIZE as u64;
/// Blocks of zeroes in a row, in the middle of data, that are worth a chunk of their own.
const HOLE_BLOCKS_MIN: usize = 4;
/// Longest text sent with an error; the protocol allows 4,096 bytes.
const TEXT_BYTES_MAX: usize = 1024;

/// Whom a reply is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker {
    pub(super) cookie: u64,
    /// The request's, repeated in extended headers.
    pub(super) offset: u64,
}

impl Asker {
    pub(super) fn of(request: &Request) -> Self {
        Asker {
            cookie: request.cookie,
            offset: request.offset,
        }
    }
}

/// Puts replies of one style into the queue. A request is charged until the last message of its
/// reply is sent.
pub(super) struct Replies<'a> {
    pub(super) style: Style,
    pub(super) outgoing: &'a mut Outgoing,
}

impl Replies<'_> {
    /// Success, without data.
    pub(super) fn done(&mut self, asker: Asker, held: Reservation) {
        if self.style.has_chunks() {
            self.chunk(asker, kinds::NONE, &[], Data::None, held, true);
        } else {
            self.simple(asker, 0, Data::None, held);
        }
    }

    /// Failure of a whole request.
    pub(super) fn failed(&mut self, asker: Asker, refusal: &Refusal, held: Reservation) {
        if self.style.has_chunks() {
            let data = error_data(refusal.errno.code(), shortened(&refusal.text), None);
            self.chunk(asker, kinds::ERROR, &data, Data::None, held, true);
        } else {
            self.simple(asker, refusal.errno.code(), Data::None, held);
        }
    }

    /// Success of a read, all at once.
    pub(super) fn whole(&mut self, asker: Asker, offset: u64, data: Data, held: Reservation) {
        if self.style.has_chunks() {
            let place = offset.to_be_bytes();
            self.chunk(asker, kinds::OFFSET_DATA, &place, data, held, true);
        } else {
            self.simple(asker, 0, data, held);
        }
    }

    /// Success of a read of nothing but a hole, all at once. Only with chunks.
    pub(super) fn whole_hole(&mut self, asker: Asker, offset: u64, data: &Data, held: Reservation) {
        let length = u32::try_from(data.length()).expect("a request has 32 bits here");
        let hole = hole_data(offset, length);
        self.chunk(asker, kinds::OFFSET_HOLE, &hole, Data::None, held, true);
    }

    /// Queues one slice of a read, whose pages are charged; returns the memory that is not charged
    /// any more. `is_part`: the slice is not all of its request. The last slice ends the reply, and
    /// the request's own charge with it.
    pub(super) fn slice(
        &mut self,
        asker: Asker,
        span: ReadSpan,
        is_part: bool,
        class: Class,
        ends_reply: Option<Reservation>,
    ) -> u64 {
        let mut freed = 0;
        let mut runs = runs(span).into_iter().peekable();
        while let Some(run) = runs.next() {
            let done = ends_reply.filter(|_| runs.peek().is_none());
            let place = run.span.offset;
            let pages = page_bytes(place, run.span.length);
            let mut held = done.unwrap_or(Reservation::none(class));
            let is_done = done.is_some();
            if run.is_hole {
                freed += pages;
                let hole = hole_data(place, run.span.length);
                self.chunk(asker, kinds::OFFSET_HOLE, &hole, Data::None, held, is_done);
            } else {
                let data = match is_part {
                    true => Data::Many(Parts::of([Part::Here(run.span, class)])),
                    false => {
                        held.bytes += pages;
                        Data::One(run.span)
                    }
                };
                let place = place.to_be_bytes();
                self.chunk(asker, kinds::OFFSET_DATA, &place, data, held, is_done);
            }
        }
        freed
    }

    /// Queues the failure of one slice of a read; other slices may be good.
    pub(super) fn slice_failed(
        &mut self,
        asker: Asker,
        offset: u64,
        refusal: &Refusal,
        ends_reply: Option<Reservation>,
        class: Class,
    ) {
        let text = shortened(&refusal.text);
        let data = error_data(refusal.errno.code(), text, Some(offset));
        let kind = kinds::ERROR_OFFSET;
        let held = ends_reply.unwrap_or(Reservation::none(class));
        self.chunk(asker, kind, &data, Data::None, held, ends_reply.is_some());
    }

    /// Success of a block status request: a chunk for each context. `held` bytes stay charged until
    /// all were sent.
    pub(super) fn extents(
        &mut self,
        asker: Asker,
        contexts: &[Context],
        extents: &[Vec<Extent>],
        held: Reservation,
    ) {
        assert_eq!(contexts.len(), extents.len(), "one operation for each");
        let last = contexts.len() - 1;
        for (index, (context, extents)) in contexts.iter().zip(extents).enumerate() {
            let is_last = index == last;
            let held = if is_last {
                held
            } else {
                Reservation::none(held.class)
            };
            self.extents_of(asker, *context, extents, held, is_last);
        }
    }

    fn extents_of(
        &mut self,
        asker: Asker,
        context: Context,
        extents: &[Extent],
        held: Reservation,
        done: bool,
    ) {
        let state = |extent: &Extent| state(context.tells, extent.allocation);
        let mut data = context.id.to_be_bytes().to_vec();
        let kind = if self.style == Style::Extended {
            let count = u32::try_from(extents.len()).expect("their number is bounded");
            data.extend_from_slice(&count.to_be_bytes());
            for extent in extents {
                data.extend_from_slice(&extent.length.to_be_bytes());
                data.extend_from_slice(&u64::from(state(extent)).to_be_bytes());
            }
            kinds::BLOCK_STATUS_EXT
        } else {
            for extent in extents {
                // Within the request, whose length has 32 bits.
                let length = u32::try_from(extent.length).unwrap_or(u32::MAX);
                data.extend_from_slice(&length.to_be_bytes());
                data.extend_from_slice(&state(extent).to_be_bytes());
            }
            kinds::BLOCK_STATUS
        };
        self.chunk(asker, kind, &data, Data::None, held, done);
    }

    fn simple(&mut self, asker: Asker, error: u32, data: Data, held: Reservation) {
        let cookie = asker.cookie;
        let head = Head::of(&[&SimpleReply { error, cookie }.encode()]);
        self.outgoing.push(head, data, held, true);
    }

    fn chunk(
        &mut self,
        asker: Asker,
        kind: u16,
        body: &[u8],
        data: Data,
        held: Reservation,
        done: bool,
    ) {
        let length = body.len() as u64 + data.length();
        let chunk = Chunk {
            done,
            kind,
            cookie: asker.cookie,
            offset: asker.offset,
            length: u32::try_from(length).expect("a chunk is at most a request's payload"),
        };
        let head = if self.style == Style::Extended {
            Head::of(&[&chunk.encode_extended(), body])
        } else {
            Head::of(&[&chunk.encode_structured(), body])
        };
        self.outgoing.push(head, data, held, done);
    }
}

fn state(tells: Tells, allocation: Allocation) -> u32 {
    match (tells, allocation) {
        (Tells::Allocation, Allocation::Data) | (Tells::Changed { .. }, Allocation::Hole) => 0,
        (Tells::Allocation, Allocation::Hole) => states::HOLE | states::ZERO,
        (Tells::Changed { .. }, Allocation::Data) => states::CHANGED,
    }
}

fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

/// Returns whether none of the data is stored, as far as known.
pub(super) fn is_hole(data: &Data) -> bool {
    match data {
        Data::None => false,
        Data::One(span) => is_zero(span),
        Data::Many(all) => all.parts().all(|part| match part {
            Part::Here(span, _) => is_zero(span),
            Part::Owed { .. } => false,
        }),
    }
}

fn is_zero(span: &ReadSpan) -> bool {
    let zero = PageRef::zero();
    span.pages
        .iter()
        .all(|page| PageRef::same_memory(page, &zero))
}

/// A part of a slice that becomes one chunk.
struct Run {
    is_hole: bool,
    span: ReadSpan,
}

/// Cuts a slice where holes begin and end.
fn runs(span: ReadSpan) -> Vec<Run> {
    let zero = PageRef::zero();
    let is_zero: Vec<bool> = span
        .pages
        .iter()
        .map(|page| PageRef::same_memory(page, &zero))
        .collect();
    // Pages at which a chunk begins, and whether it is a hole.
    let mut starts: Vec<(usize, bool)> = Vec::new();
    let mut at = 0;
    for run in is_zero.chunk_by(|a, b| a == b) {
        let is_hole = run[0] && (run.len() >= HOLE_BLOCKS_MIN || run.len() == is_zero.len());
        if starts.last().is_none_or(|(_, before)| *before != is_hole) {
            starts.push((at, is_hole));
        }
        at += run.len();
    }
    if let [(_, is_hole)] = starts[..] {
        return vec![Run { is_hole, span }];
    }
    let end = span.offset + u64::from(span.length);
    let first = span.offset / BLOCK;
    let mut pages = span.pages.into_iter();
    let mut runs = Vec::with_capacity(starts.len());
    for (index, (start, is_hole)) in starts.iter().enumerate() {
        let next = starts.get(index + 1).map(|(next, _)| *next);
        let from = span.offset.max((first + *start as u64) * BLOCK);
        let to = next.map_or(end, |next| (first + next as u64) * BLOCK);
        let count = next.unwrap_or(is_zero.len()) - start;
        runs.push(Run {
            is_hole: *is_hole,
            span: ReadSpan {
                offset: from,
                length: u32::try_from(to - from).expect("part of a slice"),
                pages: pages.by_ref().take(count).collect(),
            },
        });
    }
    runs
}
