//! `NBD_OPT_INFO` and `NBD_OPT_GO` (proto "Option types"): the facts of an export, and the usual
//! way to choose it.

use super::super::open_export::Refusal;
use super::super::terms::Style;
use super::{Answered, Cx, OpenExport, glance, refuse};
use crate::wire::info::{block_size_data, export_data, facts, name_data};
use crate::wire::option::{options, replies};
use crate::wire::{InfoRequest, OptionReply};

/// Describes an export.
pub(super) fn info(data: &[u8], style: Style, cx: &mut Cx<'_>) -> Answered {
    let Some(request) = InfoRequest::parse(data) else {
        return malformed(options::INFO);
    };
    match glance(&request.name, cx.target) {
        Ok(export) => Answered::Reply(describe(options::INFO, &request, &export, style, cx)),
        Err(refusal) => refused(options::INFO, &refusal),
    }
}

/// Describes an export and enters transmission with it.
pub(super) fn go(data: &[u8], style: Style, cx: &mut Cx<'_>) -> Answered {
    let Some(request) = InfoRequest::parse(data) else {
        return malformed(options::GO);
    };
    match OpenExport::open(&request.name, cx.target) {
        Ok(export) => Answered::Enter(describe(options::GO, &request, &export, style, cx), export),
        Err(refusal) => refused(options::GO, &refusal),
    }
}

/// Encodes the `EXPORT` fact, the other facts on request, and then the acknowledgement.
fn describe(
    option: u32,
    request: &InfoRequest,
    open: &OpenExport,
    style: Style,
    cx: &Cx<'_>,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut tell = |data: &[u8]| OptionReply::append(&mut bytes, option, replies::INFO, data);
    tell(&export_data(&open.parameters(style)));
    if request.wanted.contains(&facts::NAME) {
        tell(&name_data(&open.export.name));
    }
    if request.wanted.contains(&facts::BLOCK_SIZE) {
        tell(&block_size_data(&cx.settings.limits));
    }
    OptionReply::append(&mut bytes, option, replies::ACK, &[]);
    bytes
}

fn malformed(option: u32) -> Answered {
    Answered::Reply(refuse(
        option,
        replies::ERR_INVALID,
        "malformed option data",
    ))
}

fn refused(option: u32, refusal: &Refusal) -> Answered {
    Answered::Reply(refuse(option, refusal.kind, &refusal.text))
}
