//! Values come back from the wire as they were, and any bytes are a value or an error.

use everglade_nvme_tcp::wire::pdu::{self, Fatal, Initialize, PduKind};
use everglade_nvme_tcp::wire::{
    Command, CommonHeader, Completion, Connect, ConnectData, DataHeader, Digests, Layout, Sgl,
    SglKind, Status,
};
use proptest::prelude::*;

fn digests() -> impl Strategy<Value = Digests> {
    any::<(bool, bool)>().prop_map(|(header, data)| Digests { header, data })
}

fn lengths_of_headers() -> impl Strategy<Value = u8> {
    prop::sample::select(vec![24, 72, 128, 0, 255])
}

fn kinds_of_data() -> impl Strategy<Value = SglKind> {
    any::<u8>().prop_map(|code| match code {
        0x01 => SglKind::InCapsule,
        0x5a => SglKind::Transport,
        other => SglKind::Other(other),
    })
}

proptest! {
    #[test]
    fn commands(opcode: u8, flags: u8, id: u16, namespace: u32, kind in kinds_of_data(),
                address: u64, length: u32, words: [u32; 6]) {
        let sgl = Sgl { kind, address, length };
        let command = Command { opcode, flags, id, namespace, sgl, words };
        prop_assert_eq!(Command::parse(&command.encode()), command);
    }

    #[test]
    fn completions(result: u64, queue_head: u16, queue: u16, command_id: u16,
                   status in 0..0x8000_u16) {
        let status = Status::of_code(status);
        let completion = Completion { result, queue_head, queue, command_id, status };
        prop_assert_eq!(Completion::parse(&completion.encode()), completion);
    }

    #[test]
    fn headers(kind: u8, flags: u8, header_bytes: u8, data_offset: u8, length: u32) {
        let header = CommonHeader { kind, flags, header_bytes, data_offset, length };
        prop_assert_eq!(CommonHeader::parse(&header.encode()), header);
    }

    #[test]
    fn data_headers(command_id: u16, tag: u16, offset: u32, length: u32) {
        let (kind, flags, header_bytes, data_offset, length_all) = (6, 0, 24, 24, 1);
        let common = CommonHeader { kind, flags, header_bytes, data_offset, length: length_all };
        let header = DataHeader { command_id, tag, offset, length };
        let bytes = header.encode(&common);
        prop_assert_eq!(DataHeader::parse(&bytes), header);
        prop_assert_eq!(CommonHeader::parse(bytes.first_chunk().unwrap()), common);
    }

    #[test]
    fn first_messages(version: u16, alignment: u8, digests in digests(), limit: u32) {
        let first = Initialize { version, alignment, digests, digests_reserved: 0, limit };
        for kind in [PduKind::InitializeRequest, PduKind::InitializeResponse] {
            let bytes = first.encode(kind);
            prop_assert_eq!(Initialize::parse(&bytes), first);
            let header = CommonHeader::parse(bytes.first_chunk().unwrap());
            prop_assert_eq!(Layout::check(&header, digests, 4).map(|it| it.data_at), Ok(128));
        }
    }

    #[test]
    fn terminations(status: u16, information: u32,
                    about in prop::collection::vec(any::<u8>(), 0..200)) {
        let fatal = Fatal { status, information };
        let bytes = pdu::encode_termination(PduKind::ControllerTerminates, fatal, &about);
        prop_assert_eq!(pdu::parse_termination(bytes.first_chunk().unwrap()), fatal);
        prop_assert!(bytes.len() <= 152 && bytes[4] as usize == bytes.len());
    }

    #[test]
    fn parameters_of_connect(format: u16, queue: u16, entries: u16, disables_flow_control: bool,
                             keep_alive_ms: u32) {
        let connect = Connect { format, queue, entries, disables_flow_control, keep_alive_ms };
        let sgl = Sgl { kind: SglKind::InCapsule, address: 0, length: 1024 };
        let words = connect.words();
        let command = Command { opcode: 0x7f, flags: 0x40, id: 0, namespace: 1, sgl, words };
        prop_assert_eq!(Connect::of(&command), connect);
    }

    #[test]
    fn data_of_connect(host_id: [u8; 16], controller: u16, subsystem in "[a-z.:0-9]{0,223}",
                       host in "[a-z.:0-9]{0,223}") {
        let data = ConnectData { host_id, controller, subsystem, host };
        prop_assert_eq!(ConnectData::parse(data.encode().first_chunk().unwrap()), data);
    }

    #[test]
    fn any_bytes_of_connect_are_a_value(bytes in prop::collection::vec(any::<u8>(), 1024)) {
        let data = ConnectData::parse(bytes.first_chunk().unwrap());
        prop_assert!(data.subsystem.len() <= 223 && data.host.len() <= 223);
    }

    /// The places that a checked header gives are within the message, in order.
    #[test]
    fn any_header_has_a_layout_or_not(kind in 0..11_u8, flags in 0..4_u8,
                                      header_bytes in lengths_of_headers(), data_offset: u8,
                                      length in prop_oneof![0..300_u32, any::<u32>()],
                                      digests in digests(), shift in 2..8_u32) {
        let header = CommonHeader { kind, flags, header_bytes, data_offset, length };
        if let Ok(layout) = Layout::check(&header, digests, 1 << shift) {
            let front = layout.header_bytes + if layout.has_header_digest { 4 } else { 0 };
            prop_assert!(layout.data_at >= front);
            let end = layout.data_at as u64 + u64::from(layout.data_bytes);
            let end = end + layout.data_digest_bytes() as u64;
            let is_termination = layout.kind == PduKind::HostTerminates;
            prop_assert!(end == u64::from(length) || is_termination && end <= u64::from(length));
            if layout.data_bytes > 0 {
                prop_assert!(layout.data_at.is_multiple_of(1 << shift));
            }
        }
    }
}
