//! Received bytes become messages: a header, then its data, then what is behind it.

use everglade_target::Target;

use super::full::{Admission, Cx, Full, Goes};
use super::segment::{Dest, Segment};
use super::{Phase, Session, State};
use crate::wire::digest::{DIGEST_BYTES, Sum, digest};
use crate::wire::header::{BHS_BYTES, Header, padding};

/// The result of one step of interpreting bytes.
enum Step {
    Again,
    NeedBytes,
    Stalled,
    End,
}

impl Session {
    /// Interprets staged bytes until some are missing, a bound is met or the session ends.
    pub(super) fn advance(&mut self, target: &mut dyn Target) {
        self.stalled = false;
        if self.wants_memory().is_none() {
            self.ledger.begin();
        }
        while self.state == State::Open && !self.is_waiting() {
            let step = match self.segment {
                Some(_) => self.next_data(target),
                None => self.next_header(target),
            };
            match step {
                Step::Again => {}
                Step::NeedBytes => break,
                Step::Stalled => {
                    self.stalled = true;
                    break;
                }
                Step::End => self.drain(target),
            }
        }
        self.settle(target);
    }

    pub(super) fn is_waiting(&self) -> bool {
        matches!(&self.phase, Phase::Login(handshake) if handshake.is_waiting())
    }

    /// Interprets the header at the front of the staging buffer.
    fn next_header(&mut self, target: &mut dyn Target) -> Step {
        let staged = self.staging.bytes();
        let Some(bhs) = staged.first_chunk::<BHS_BYTES>().copied() else {
            return Step::NeedBytes;
        };
        let header = Header::parse(&bhs);
        let covered = BHS_BYTES + header.ahs_bytes;
        let has_digest = self.link.digests.header;
        let total = covered + if has_digest { DIGEST_BYTES } else { 0 };
        if staged.len() < total {
            return Step::NeedBytes;
        }
        if has_digest && digest([&staged[..covered]]) != staged[covered..total] {
            // Without the header nobody knows where the next message begins (RFC 7143 §7.8).
            self.note("the digest of a header is wrong");
            return Step::End;
        }
        let admission = match &self.phase {
            Phase::Login(_) => self.admit_login(&header),
            Phase::Discovery(_) => self.admit_discovery(&bhs, &header),
            Phase::Full(_) => {
                let admit = |full: &mut Full, cx: &mut Cx<'_>| full.admit(&bhs, &header, cx);
                self.with_full(target, admit).expect("it is in that phase")
            }
        };
        let dest = match admission {
            Admission::Stall => return Step::Stalled,
            Admission::End => {
                self.note("the initiator does not follow the protocol");
                return Step::End;
            }
            Admission::Receive(dest) => dest,
        };
        self.staging.consume(total);
        let has_sum = self.link.digests.data && header.data_bytes > 0;
        self.segment = Some(Segment {
            bhs,
            dest,
            length: header.data_bytes,
            filled: 0,
            sum: has_sum.then(Sum::default),
        });
        Step::Again
    }

    /// Takes staged bytes of a message's data, and what is behind it.
    fn next_data(&mut self, target: &mut dyn Target) -> Step {
        let segment = self.segment.as_mut().expect("data is being received");
        let staged = self.staging.bytes();
        let now = staged.len().min(segment.left() as usize);
        let bytes = &staged[..now];
        if let Some(sum) = &mut segment.sum {
            sum.add(bytes);
        }
        match &mut segment.dest {
            Dest::Skip => {}
            Dest::Collect { bytes: kept, keep } => {
                let room = *keep - kept.len();
                kept.extend_from_slice(&bytes[..now.min(room)]);
            }
            Dest::Task { id, at, keep, .. } => {
                let left = (*keep).saturating_sub(segment.filled) as usize;
                let here = &bytes[..now.min(left)];
                if let Phase::Full(full) = &mut self.phase
                    && !here.is_empty()
                {
                    full.payload_mut(*id).fill(*at + segment.filled, here);
                }
            }
        }
        segment.filled += u32::try_from(now).expect("a part of a segment");
        self.staging.consume(now);
        let tail_bytes = segment.tail_bytes();
        if segment.left() > 0 || self.staging.bytes().len() < tail_bytes {
            return Step::NeedBytes;
        }
        let segment = self.segment.take().expect("it was just there");
        let tail = &self.staging.bytes()[..tail_bytes];
        let mut is_intact = true;
        if let Some(mut sum) = segment.sum {
            let (filling, told) = tail.split_at(padding(segment.length) as usize);
            sum.add(filling);
            is_intact = sum.digest() == told;
        }
        self.staging.consume(tail_bytes);
        if !is_intact {
            self.note("the digest of data is wrong");
        }
        let (bhs, dest) = (segment.bhs, segment.dest);
        let goes = match &self.phase {
            Phase::Login(_) => self.login_received(&bhs, dest, target),
            Phase::Discovery(_) => self.discovery_received(&bhs, dest, is_intact, target),
            Phase::Full(_) => {
                let take =
                    |full: &mut Full, cx: &mut Cx<'_>| full.received(&bhs, dest, is_intact, cx);
                self.with_full(target, take).expect("it is in that phase")
            }
        };
        match goes {
            Goes::On => Step::Again,
            Goes::ToItsEnd => Step::End,
        }
    }
}
