//! Every message survives encoding and parsing, and no bytes make a parser panic.

use everglade_nbd::wire::handshake::ExportParameters;
use everglade_nbd::wire::{
    Chunk, ClientFlags, Command, ContextRequest, Greeting, InfoRequest, OptionHeader, OptionReply,
    Request, SimpleReply, info,
};
use proptest::prelude::*;

proptest! {
    #[test]
    fn greeting_round_trip(flags: u16) {
        let greeting = Greeting { flags };
        prop_assert_eq!(Greeting::parse(&greeting.encode()), Some(greeting));
    }

    #[test]
    fn client_flags_round_trip(fixed_newstyle: bool, no_zeroes: bool) {
        let flags = ClientFlags { fixed_newstyle, no_zeroes };
        prop_assert_eq!(ClientFlags::parse(&flags.encode()), Some(flags));
    }

    #[test]
    fn client_flags_accept_only_what_is_known(bits: u32) {
        prop_assert_eq!(ClientFlags::parse(&bits.to_be_bytes()).is_some(), bits < 4);
    }

    #[test]
    fn option_header_round_trip(option: u32, length: u32) {
        let header = OptionHeader { option, length };
        prop_assert_eq!(OptionHeader::parse(&header.encode()), Some(header));
    }

    #[test]
    fn option_reply_round_trip(option: u32, kind: u32, length: u32) {
        let reply = OptionReply { option, kind, length };
        prop_assert_eq!(OptionReply::parse(&reply.encode()), Some(reply));
    }

    #[test]
    fn info_request_round_trip(name in "[^\0]{0,60}", wanted: Vec<u16>) {
        let request = InfoRequest { name, wanted };
        prop_assert_eq!(InfoRequest::parse(&request.encode()), Some(request));
    }

    #[test]
    fn info_request_never_panics_and_is_canonical(data: Vec<u8>) {
        if let Some(request) = InfoRequest::parse(&data) {
            prop_assert_eq!(request.encode(), data);
        }
    }

    #[test]
    fn export_name_is_text_without_nul(data: Vec<u8>) {
        if let Some(name) = info::export_name(&data) {
            prop_assert_eq!(name.as_bytes(), &data[..]);
            prop_assert!(!name.contains('\0'));
        }
    }

    #[test]
    fn export_parameters_round_trip(size_bytes: u64, flags: u16) {
        let parameters = ExportParameters { size_bytes, flags };
        prop_assert_eq!(ExportParameters::parse(&parameters.encode()), parameters);
    }

    #[test]
    fn request_round_trip(flags: u16, command: u16, cookie: u64, offset: u64, length: u32) {
        let request = Request { flags, command, cookie, offset, length: length.into() };
        prop_assert_eq!(Request::parse(&request.encode()), Some(request));
    }

    #[test]
    fn extended_request_round_trip(
        flags: u16, command: u16, cookie: u64, offset: u64, length: u64,
    ) {
        let request = Request { flags, command, cookie, offset, length };
        prop_assert_eq!(Request::parse_extended(&request.encode_extended()), Some(request));
    }

    #[test]
    fn chunk_round_trip(done: bool, kind: u16, cookie: u64, offset: u64, length: u32) {
        let chunk = Chunk { done, kind, cookie, offset, length };
        prop_assert_eq!(Chunk::parse_extended(&chunk.encode_extended()), Some(chunk));
        let structured = Chunk { offset: 0, ..chunk };
        prop_assert_eq!(Chunk::parse_structured(&chunk.encode_structured()), Some(structured));
    }

    #[test]
    fn context_request_round_trip(
        name in "[a-z/0-9]{0,40}",
        queries in proptest::collection::vec("[a-z:]{0,20}", 0..5),
    ) {
        let request = ContextRequest { name, queries };
        prop_assert_eq!(ContextRequest::parse(&request.encode()), Some(request));
    }

    #[test]
    fn context_requests_are_exact(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Some(request) = ContextRequest::parse(&data) {
            prop_assert_eq!(request.encode(), data);
        }
    }

    #[test]
    fn simple_reply_round_trip(error: u32, cookie: u64) {
        let reply = SimpleReply { error, cookie };
        prop_assert_eq!(SimpleReply::parse(&reply.encode()), Some(reply));
    }

    #[test]
    fn wrong_magic_is_refused(bytes: [u8; 28]) {
        if let Some(request) = Request::parse(&bytes) {
            prop_assert_eq!(request.encode(), bytes);
        }
        let reply: [u8; 16] = *bytes.first_chunk().unwrap();
        prop_assert!(SimpleReply::parse(&reply).is_none_or(|r| r.encode() == reply));
        prop_assert!(OptionHeader::parse(&reply).is_none_or(|h| h.encode() == reply));
    }

    #[test]
    fn command_codes_round_trip(code: u16) {
        prop_assert!(Command::of_code(code).is_none_or(|command| command.code() == code));
        prop_assert_eq!(Command::of_code(code).is_some(), code <= 7);
    }
}
