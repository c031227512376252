//! `NBD_OPT_LIST` (proto "Option types"): the names of all exports.

use everglade_target::Target;

use super::refuse;
use crate::wire::OptionReply;
use crate::wire::option::{options, replies};

pub(super) fn answer(data: &[u8], target: &dyn Target) -> Vec<u8> {
    if !data.is_empty() {
        return refuse(options::LIST, replies::ERR_INVALID, "LIST takes no data");
    }
    let mut bytes = Vec::new();
    for export in target.exports() {
        let data = OptionReply::server_data(&export.name);
        OptionReply::append(&mut bytes, options::LIST, replies::SERVER, &data);
    }
    OptionReply::append(&mut bytes, options::LIST, replies::ACK, &[]);
    bytes
}
