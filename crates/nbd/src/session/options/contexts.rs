//! `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT` (proto "Option types", "Metadata
//! querying"): facts about blocks that a client may ask for.
//!
//! | context | what | bits |
//! | --- | --- | --- |
//! | `base:allocation` | what takes space | 0: it does not, 1: it reads as zeroes |
//! | `everglade:changed:IMAGE` | what may read differently than in that image of the LUN | 0: it may |
//!
//! A session may choose a few of the second kind. Their images are opened with the export, and stay
//! open as long as it does, so that an image that a backup compares with cannot be deleted.

use everglade_target::{Image, Target};

use super::super::open_export::OpenExport;
use super::super::terms::{Context, Tells};
use super::{Cx, Haggling, glance, reply};
use super::{acknowledge, refuse};
use crate::wire::context::{ALLOCATION, BASE, CHANGED, ContextRequest, EVERGLADE, context_data};
use crate::wire::option::{options, replies};

/// The number under which the chunks of `base:allocation` are sent; the others follow.
const ALLOCATION_ID: u32 = 1;
/// Limit of images whose changes a session may query. Each image costs one more operation for a
/// block status request.
const IMAGES_MAX: usize = 16;

/// The contexts that a client chose.
#[derive(Default)]
pub(super) struct Chosen {
    /// The export it is for, by its full name.
    export: Option<String>,
    allocation: bool,
    images: Vec<Image>,
}

impl Chosen {
    /// Returns the contexts of this export: contexts of another export do not count (proto
    /// "Metadata querying"). An image that was deleted meanwhile cannot be opened; requests say so.
    pub(super) fn open(&self, open: &OpenExport, target: &mut dyn Target) -> Vec<Context> {
        if self.export.as_ref() != Some(&open.export.name) {
            return Vec::new();
        }
        let allocation = self.allocation.then_some(Context {
            id: ALLOCATION_ID,
            tells: Tells::Allocation,
        });
        let changed = (ALLOCATION_ID + 1..).zip(&self.images).map(|(id, image)| {
            let since = target.open(&image.export).ok().map(|(lun, _)| lun);
            Context {
                id,
                tells: Tells::Changed { since },
            }
        });
        allocation.into_iter().chain(changed).collect()
    }
}

/// Returns the name of the context for changes since an image.
fn changed_since(image: &Image) -> String {
    format!("{CHANGED}{}", image.label)
}

impl Haggling {
    pub(super) fn list_contexts(&mut self, data: &[u8], cx: &mut Cx<'_>) -> Vec<u8> {
        let option = options::LIST_META_CONTEXT;
        let (export, request) = match self.context_request(option, data, cx) {
            Ok(found) => found,
            Err(refusal) => return refusal,
        };
        // No query means all contexts; the number in a list has no meaning and is zero.
        let queries = &request.queries;
        let is_wanted = |names: &[&str]| {
            let is_name = |query: &String| names.contains(&query.as_str());
            queries.is_empty() || queries.iter().any(is_name)
        };
        let mut bytes = Vec::new();
        if is_wanted(&[ALLOCATION, BASE]) {
            let data = context_data(0, ALLOCATION);
            bytes = reply(option, replies::META_CONTEXT, &data);
        }
        for image in cx.target.images(&export) {
            let name = changed_since(&image);
            if is_wanted(&[&name, CHANGED, EVERGLADE]) {
                let data = context_data(0, &name);
                bytes.extend(reply(option, replies::META_CONTEXT, &data));
            }
        }
        bytes.extend(acknowledge(option));
        bytes
    }

    /// Replaces the earlier choice, even if it fails.
    pub(super) fn set_contexts(&mut self, data: &[u8], cx: &mut Cx<'_>) -> Vec<u8> {
        let option = options::SET_META_CONTEXT;
        self.chosen = Chosen::default();
        let (export, request) = match self.context_request(option, data, cx) {
            Ok(found) => found,
            Err(refusal) => return refusal,
        };
        let is_chosen = |name: &str| request.queries.iter().any(|query| query == name);
        let mut images = Vec::new();
        if request
            .queries
            .iter()
            .any(|query| query.starts_with(CHANGED))
        {
            images = cx.target.images(&export);
            images.retain(|image| is_chosen(&changed_since(image)));
        }
        if images.len() > IMAGES_MAX {
            let text = format!("at most {IMAGES_MAX} contexts {CHANGED}… at a time");
            return refuse(option, replies::ERR_TOO_BIG, &text);
        }
        let mut bytes = Vec::new();
        let allocation = is_chosen(ALLOCATION);
        if allocation {
            let data = context_data(ALLOCATION_ID, ALLOCATION);
            bytes = reply(option, replies::META_CONTEXT, &data);
        }
        for (id, image) in (ALLOCATION_ID + 1..).zip(&images) {
            let data = context_data(id, &changed_since(image));
            bytes.extend(reply(option, replies::META_CONTEXT, &data));
        }
        self.chosen = Chosen {
            export: Some(export),
            allocation,
            images,
        };
        bytes.extend(acknowledge(option));
        bytes
    }

    /// Returns the request and the full name of its export, or the refusal to send.
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
