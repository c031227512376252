//! Option haggling (proto "Fixed newstyle negotiation"): one option, its replies, the next option.
//!
//! One file per option. A new option is a new file, its number in `wire::option` and a line in
//! [`Haggling::answer`]; [`Haggling`] keeps the agreements, and hands them to the transmission
//! phase with the export, as [`Terms`]. An unknown option is refused, which clients expect and
//! handle.

mod contexts;
mod export_name;
mod info;
mod list;
mod starttls;
mod style;

use everglade_target::Target;

use super::open_export::OpenExport;
use super::terms::{Style, Terms};
use super::{Cx, Settings, StepEnd};
use crate::wire::option::{options, replies};
use crate::wire::{ClientFlags, InfoRequest, OptionHeader, OptionReply, info as info_data};

/// The state of the negotiation.
pub(super) struct Haggling {
    client: ClientFlags,
    /// Whether TLS was acknowledged, so that all further bytes are encrypted.
    is_encrypted: bool,
    style: Style,
    /// Contexts that `SET_META_CONTEXT` chose.
    chosen: contexts::Chosen,
    /// Options seen so far.
    options_count: u32,
    /// Data of a refused option still to be skipped.
    skip: Option<Skip>,
}

struct Skip {
    option: u32,
    rest: u32,
}

/// The result of answering an option.
enum Answered {
    Reply(Vec<u8>),
    /// The session ends after these bytes.
    End(Vec<u8>),
    /// TLS begins after these bytes.
    Encrypt(Vec<u8>),
    /// Transmission begins after these bytes.
    Enter(Vec<u8>, OpenExport),
}

impl Haggling {
    pub(super) fn new(client: ClientFlags) -> Self {
        Haggling {
            client,
            is_encrypted: false,
            style: Style::default(),
            chosen: contexts::Chosen::default(),
            options_count: 0,
            skip: None,
        }
    }

    pub(super) fn step(&mut self, cx: &mut Cx<'_>) -> StepEnd {
        // The client must not send the next option before the last reply (proto "Fixed newstyle
        // negotiation"); one that does waits, so that replies cannot pile up.
        if !cx.outgoing.is_empty() {
            return StepEnd::Stalled;
        }
        if let Some(skip) = &mut self.skip {
            skip.rest -= cx.staging.skip(skip.rest);
            if skip.rest > 0 {
                return StepEnd::NeedBytes;
            }
            let text = format!("option data above {} bytes", Settings::OPTION_BYTES_MAX);
            cx.outgoing
                .push_bytes(refuse(skip.option, replies::ERR_TOO_BIG, &text));
            self.skip = None;
            return StepEnd::Again;
        }
        let Some(bytes) = cx.staging.bytes().first_chunk() else {
            return StepEnd::NeedBytes;
        };
        let Some(header) = OptionHeader::parse(bytes) else {
            return StepEnd::End;
        };
        if self.options_count == cx.settings.options_max {
            return StepEnd::End;
        }
        if header.length > Settings::OPTION_BYTES_MAX {
            return self.too_big(header, cx);
        }
        let whole = OptionHeader::BYTES + header.length as usize;
        let Some(message) = cx.staging.bytes().get(..whole) else {
            return StepEnd::NeedBytes;
        };
        let data = message[OptionHeader::BYTES..].to_vec();
        if cx.may_ask_for_home
            && let Some(export) = self.about_to_open(header.option, &data, cx)
        {
            return StepEnd::AskForHome(export);
        }
        cx.staging.consume(whole);
        self.options_count += 1;
        match self.answer(header.option, &data, cx) {
            Answered::Reply(bytes) => {
                cx.outgoing.push_bytes(bytes);
                StepEnd::Again
            }
            Answered::End(bytes) => {
                cx.outgoing.push_bytes(bytes);
                StepEnd::End
            }
            Answered::Encrypt(bytes) => {
                cx.outgoing.push_bytes(bytes);
                StepEnd::Encrypt
            }
            Answered::Enter(bytes, export) => {
                cx.outgoing.push_bytes(bytes);
                let terms = Terms {
                    style: self.style,
                    contexts: self.chosen.open(&export, cx.target),
                };
                StepEnd::Enter(Box::new((export, terms)))
            }
        }
    }

    /// Returns the full name of the export that an option opens; `None` if it opens
    /// none, or is refused.
    fn about_to_open(&self, option: u32, data: &[u8], cx: &mut Cx<'_>) -> Option<Box<str>> {
        let name = match option {
            options::GO => InfoRequest::parse(data)?.name,
            options::EXPORT_NAME => info_data::export_name(data)?.to_owned(),
            _ => return None,
        };
        if self.demand_tls(option, cx).is_some() {
            return None;
        }
        let found = glance(&name, cx.target).ok()?;
        Some(found.export.name.into())
    }

    fn answer(&mut self, option: u32, data: &[u8], cx: &mut Cx<'_>) -> Answered {
        if let Some(refusal) = self.demand_tls(option, cx) {
            return refusal;
        }
        match option {
            options::STARTTLS => self.start_tls(data, cx),
            // Extended headers forbid it, and it has no error reply.
            options::EXPORT_NAME if self.style == Style::Extended => Answered::End(Vec::new()),
            options::EXPORT_NAME => {
                export_name::answer(data, self.client.no_zeroes, self.style, cx.target)
            }
            options::GO => info::go(data, self.style, cx),
            options::INFO => info::info(data, self.style, cx),
            options::STRUCTURED_REPLY => Answered::Reply(self.use_structured(data)),
            options::EXTENDED_HEADERS => Answered::Reply(self.use_extended(data)),
            options::LIST_META_CONTEXT => Answered::Reply(self.list_contexts(data, cx)),
            options::SET_META_CONTEXT => Answered::Reply(self.set_contexts(data, cx)),
            options::LIST => Answered::Reply(list::answer(data, cx.target)),
            // Data sent with ABORT is ignored (proto "Option types").
            options::ABORT => Answered::End(acknowledge(option)),
            _ => Answered::Reply(refuse(option, replies::ERR_UNSUP, "option not supported")),
        }
    }

    fn too_big(&mut self, header: OptionHeader, cx: &mut Cx<'_>) -> StepEnd {
        let hopeless = header.length > Settings::OPTION_SKIP_BYTES_MAX;
        // EXPORT_NAME has no error reply (proto "Option types").
        if hopeless || header.option == options::EXPORT_NAME {
            return StepEnd::End;
        }
        if header.option == options::SET_META_CONTEXT {
            self.chosen = contexts::Chosen::default();
        }
        cx.staging.consume(OptionHeader::BYTES);
        self.options_count += 1;
        self.skip = Some(Skip {
            option: header.option,
            rest: header.length,
        });
        StepEnd::Again
    }
}

fn acknowledge(option: u32) -> Vec<u8> {
    reply(option, replies::ACK, &[])
}

fn refuse(option: u32, kind: u32, text: &str) -> Vec<u8> {
    reply(option, kind, text.as_bytes())
}

fn reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(OptionReply::BYTES + data.len());
    OptionReply::append(&mut bytes, option, kind, data);
    bytes
}

/// Opens an export to read its parameters, and closes it again.
fn glance(name: &str, target: &mut dyn Target) -> Result<OpenExport, super::open_export::Refusal> {
    let open = OpenExport::open(name, target)?;
    target.close(open.lun);
    Ok(open)
}
