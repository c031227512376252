//! `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT` (proto "Option types", "Metadata
//! querying"): what else a client may ask about blocks. There is one context, `base:allocation`.

use super::{Cx, Haggling, glance, reply};
use super::{acknowledge, refuse};
use crate::wire::context::{ALLOCATION, BASE, ContextRequest, context_data};
use crate::wire::option::{options, replies};

/// The number under which the context's chunks are sent.
pub(in crate::session) const ALLOCATION_ID: u32 = 1;

/// The export that contexts were chosen for, by its full name.
pub(super) type Chosen = Option<String>;

impl Haggling {
    pub(super) fn list_contexts(&mut self, data: &[u8], cx: &mut Cx<'_>) -> Vec<u8> {
        let option = options::LIST_META_CONTEXT;
        let request = match self.context_request(option, data, cx) {
            Ok((_, request)) => request,
            Err(refusal) => return refusal,
        };
        // No query means all; the number in a list means nothing and is zero.
        let queries = &request.queries;
        let matches = |query: &String| query == ALLOCATION || query == BASE;
        let mut bytes = Vec::new();
        if queries.is_empty() || queries.iter().any(matches) {
            let data = context_data(0, ALLOCATION);
            bytes = reply(option, replies::META_CONTEXT, &data);
        }
        bytes.extend(acknowledge(option));
        bytes
    }

    /// Replaces what was chosen before, even if it fails.
    pub(super) fn set_contexts(&mut self, data: &[u8], cx: &mut Cx<'_>) -> Vec<u8> {
        let option = options::SET_META_CONTEXT;
        self.allocation_of = None;
        let (export, request) = match self.context_request(option, data, cx) {
            Ok(found) => found,
            Err(refusal) => return refusal,
        };
        let mut bytes = Vec::new();
        if request.queries.iter().any(|query| query == ALLOCATION) {
            let data = context_data(ALLOCATION_ID, ALLOCATION);
            bytes = reply(option, replies::META_CONTEXT, &data);
            self.allocation_of = Some(export);
        }
        bytes.extend(acknowledge(option));
        bytes
    }

    /// The request and the full name of its export, or the refusal to send.
    fn context_request(
        &self,
        option: u32,
        data: &[u8],
        cx: &mut Cx<'_>,
    ) -> Result<(String, ContextRequest), Vec<u8>> {
        if !self.style.has_chunks() {
            let text = "structured replies must be negotiated first";
            return Err(refuse(option, replies::ERR_INVALID, text));
        }
        let Some(request) = ContextRequest::parse(data) else {
            let text = "malformed option data";
            return Err(refuse(option, replies::ERR_INVALID, text));
        };
        match glance(&request.name, cx.target) {
            Ok(open) => Ok((open.export.name, request)),
            Err(refusal) => Err(refuse(option, refusal.kind, &refusal.text)),
        }
    }
}
