//! `NBD_OPT_EXPORT_NAME` (proto "Newstyle negotiation"): the old way to choose an export. It cannot
//! report errors: the session ends instead.

use everglade_target::Target;

use super::super::terms::Style;
use super::{Answered, OpenExport};
use crate::wire::handshake::EXPORT_NAME_ZEROES;
use crate::wire::info;

pub(super) fn answer(
    data: &[u8],
    no_zeroes: bool,
    style: Style,
    target: &mut dyn Target,
) -> Answered {
    let opened = info::export_name(data).and_then(|name| OpenExport::open(name, target).ok());
    let Some(export) = opened else {
        return Answered::End(Vec::new());
    };
    let mut bytes = export.parameters(style).encode().to_vec();
    if !no_zeroes {
        bytes.resize(bytes.len() + EXPORT_NAME_ZEROES, 0);
    }
    Answered::Enter(bytes, export)
}
