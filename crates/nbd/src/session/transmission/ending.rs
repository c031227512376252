//! The end of operations and of requests: the reply, and the memory that becomes free.

use everglade_target::sessions::Ledger;
use everglade_target::sessions::memory::{Class, REQUEST_BYTES, Reservation, page_bytes};
use everglade_target::{Error, Reply};

use super::super::outgoing::{Data, Outgoing};
use super::Transmission;
use super::replies::{Replies, is_hole};
use super::request_table::{Admitted, Completed, Course, Progress, Success};
use super::verdict::Refusal;
use crate::SessionMetrics;

/// The outcome of an operation that has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum Ended {
    Well,
    /// The rest of a reply that has begun will never be there.
    ReplyBroken,
}

impl Transmission {
    /// Takes a finished operation. Queues the replies that are possible now, if the peer is still
    /// there.
    pub(in crate::session) fn completed(
        &mut self,
        low: u64,
        result: Result<Reply, Error>,
        outgoing: Option<&mut Outgoing>,
        ledger: &mut Ledger,
        metrics: &SessionMetrics,
    ) -> Ended {
        let style = self.terms.style;
        let may_keep = outgoing.is_some() && !ledger.memory().is_pressed();
        let Completed { freed, progress } = self.requests.completed(low, result, may_keep);
        if freed > 0 {
            let class = match progress {
                Progress::Refilled(_) => Class::Again,
                _ => Class::Large,
            };
            let bytes = freed;
            ledger.give(Reservation { bytes, class });
        }
        match progress {
            Progress::Waits => {}
            Progress::Slice {
                request,
                outcome,
                is_last,
                has_failed,
            } => {
                if is_last {
                    self.count(metrics, &request, has_failed);
                }
                let class = request.held.class;
                let (is_part, pages) = match request.course {
                    Course::Streamed => (true, 0),
                    // Its pages are charged with the request.
                    _ => (false, request.held.bytes - REQUEST_BYTES),
                };
                let own = Reservation {
                    bytes: request.held.bytes - pages,
                    class,
                };
                let ends = is_last.then_some(own);
                let freed = match (outcome, outgoing) {
                    (Ok(span), Some(outgoing)) => {
                        let mut replies = Replies { style, outgoing };
                        replies.slice(request.asker, span, is_part, class, ends)
                    }
                    (Err((offset, refusal)), Some(outgoing)) => {
                        let mut replies = Replies { style, outgoing };
                        let asker = request.asker;
                        replies.slice_failed(asker, offset, &refusal, ends, class);
                        pages
                    }
                    (Ok(span), None) => {
                        page_bytes(span.offset, span.length) + ends.map_or(0, |own| own.bytes)
                    }
                    (Err(_), None) => pages + ends.map_or(0, |own| own.bytes),
                };
                if freed > 0 {
                    let bytes = freed;
                    ledger.give(Reservation { bytes, class });
                }
            }
            Progress::Finished { request, outcome } => {
                self.count(metrics, &request, outcome.is_err());
                self.finish(&request, outcome, outgoing, ledger);
            }
            Progress::Refilled(span) => {
                self.is_refilling = false;
                match (span, outgoing) {
                    (Some(span), Some(outgoing)) => outgoing.pay(span),
                    (Some(span), None) => ledger.give(Reservation {
                        bytes: page_bytes(span.offset, span.length),
                        class: Class::Again,
                    }),
                    (None, _) => return Ended::ReplyBroken,
                }
            }
        }
        Ended::Well
    }

    /// Queues the reply of a request that is answered as a whole. Its message stays charged until
    /// it is sent.
    fn finish(
        &mut self,
        request: &Admitted,
        outcome: Result<Success, Refusal>,
        outgoing: Option<&mut Outgoing>,
        ledger: &mut Ledger,
    ) {
        let class = request.held.class;
        let Some(outgoing) = outgoing else {
            if let Ok(Success::Data(Data::Many(parts))) = outcome {
                ledger.give_all(parts.held());
            }
            return ledger.give(request.held);
        };
        let style = self.terms.style;
        let mut replies = Replies { style, outgoing };
        let own = Reservation {
            bytes: REQUEST_BYTES,
            class,
        };
        let freed = match outcome {
            Ok(Success::Data(data)) if style.has_chunks() && is_hole(&data) => {
                if let Data::Many(parts) = &data {
                    ledger.give_all(parts.held());
                }
                replies.whole_hole(request.asker, request.offset, &data, own);
                request.held.bytes - own.bytes
            }
            Ok(Success::Data(data)) => {
                replies.whole(request.asker, request.offset, data, request.held);
                0
            }
            Ok(Success::Extents(extents)) => {
                let contexts = &self.terms.contexts;
                replies.extents(request.asker, contexts, &extents, request.held);
                0
            }
            Ok(Success::Nothing) => {
                replies.done(request.asker, own);
                request.held.bytes - own.bytes
            }
            Err(refusal) => {
                replies.failed(request.asker, &refusal, own);
                request.held.bytes - own.bytes
            }
        };
        if freed > 0 {
            let bytes = freed;
            ledger.give(Reservation { bytes, class });
        }
    }
}
