//! The data of a command on its way in: pages for data that is written as it is, bytes for
//! everything that is looked at.

use everglade_target::WriteSpan;
use everglade_target::span::{self, page_index};

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) enum Payload {
    /// The command takes no data.
    #[default]
    None,
    /// Pages that line up with the LUN's blocks.
    Pages(WriteSpan),
    /// Bytes in one piece.
    Bytes(Vec<u8>),
}

impl Payload {
    /// Makes pages to receive into.
    pub(super) fn pages(offset: u64, length: u32) -> Payload {
        Payload::Pages(WriteSpan::to_receive(offset, length))
    }

    /// Returns the memory of a part, in order, to receive into.
    pub(super) fn pieces_mut(
        &mut self,
        at: u32,
        length: u32,
    ) -> impl Iterator<Item = &mut [u8]> + use<'_> {
        let (span, bytes) = match self {
            Payload::None => (None, None),
            Payload::Pages(span) => (Some(span), None),
            Payload::Bytes(bytes) => (None, Some(bytes)),
        };
        let pages = span.into_iter().flat_map(move |span| {
            let start = span.offset + u64::from(at);
            let first = page_index(span.offset, start);
            let parts = span::parts(start, length);
            let pages = span.pages.iter_mut().skip(first);
            pages.zip(parts).map(|(page, (_, range))| {
                let page: &mut [u8] = &mut page[..];
                &mut page[range]
            })
        });
        let range = at as usize..at as usize + length as usize;
        pages.chain(bytes.map(move |bytes| &mut bytes[range]))
    }

    /// Returns the memory of a part, in order.
    pub(super) fn pieces(&self, at: u32, length: u32) -> impl Iterator<Item = &[u8]> + use<'_> {
        let (span, bytes) = match self {
            Payload::None => (None, None),
            Payload::Pages(span) => (Some(span), None),
            Payload::Bytes(bytes) => (None, Some(bytes)),
        };
        let pages = span.into_iter().flat_map(move |span| {
            let start = span.offset + u64::from(at);
            let first = page_index(span.offset, start);
            let parts = span::parts(start, length);
            parts.map(move |(page, range)| &span.pages[first + page][range])
        });
        let range = at as usize..at as usize + length as usize;
        pages.chain(bytes.map(move |bytes| &bytes[range]))
    }

    /// Copies `bytes` to the place `at`.
    pub(super) fn fill(&mut self, at: u32, bytes: &[u8]) {
        let length = u32::try_from(bytes.len()).expect("a part of a segment");
        let mut rest = bytes;
        for piece in self.pieces_mut(at, length) {
            let (now, later) = rest.split_at(piece.len());
            piece.copy_from_slice(now);
            rest = later;
        }
        assert!(rest.is_empty(), "there was room for all of it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_land_where_they_belong() {
        for mut payload in [Payload::pages(4608, 8192), Payload::Bytes(vec![0; 8192])] {
            let bytes: Vec<u8> = (0..8192_u32)
                .map(|place| u8::try_from(place % 251).expect("a byte"))
                .collect();
            payload.fill(3000, &bytes[3000..]);
            payload.fill(0, &bytes[..3000]);
            for (at, length) in [(0, 8192), (1, 5000), (8191, 1), (100, 0)] {
                let pieces: Vec<&[u8]> = payload.pieces(at, length).collect();
                let (at, length) = (at as usize, length as usize);
                assert_eq!(pieces.concat(), bytes[at..at + length]);
            }
        }
    }
}
