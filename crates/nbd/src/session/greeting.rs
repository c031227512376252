//! The first exchange: our greeting, the client's flags (proto "Newstyle negotiation").

use super::{Cx, Haggling, Outgoing, StepEnd};
use crate::wire::handshake::{FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES};
use crate::wire::{ClientFlags, Greeting};

pub(super) fn greet(outgoing: &mut Outgoing) {
    let greeting = Greeting {
        flags: FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES,
    };
    outgoing.push_bytes(greeting.encode().to_vec());
}

/// Clients that do not claim to speak fixed newstyle are served as well: clients that only send
/// `EXPORT_NAME` notice no difference (proto "Client flags": "Servers MAY choose to honour").
pub(super) fn read_client_flags(cx: &mut Cx<'_>) -> StepEnd {
    let Some(bytes) = cx.staging.bytes().first_chunk() else {
        return StepEnd::NeedBytes;
    };
    // Proto "Client flags": the server MUST drop the connection if an unknown flag is set.
    let Some(flags) = ClientFlags::parse(bytes) else {
        return StepEnd::End;
    };
    cx.staging.consume(ClientFlags::BYTES);
    StepEnd::Haggle(Box::new(Haggling::new(flags)))
}
