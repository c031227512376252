//! What administrators send: request bodies, names, sizes.

use everglade_api::{
    CreateAggregate, CreateLun, CreateVolume, LunName, ModifyVolume, Name, PutLun, PutVolume,
    ResizeLun, Size,
};

use super::Target;

pub(super) const BODY: Target = Target {
    name: "api-body",
    bytes_max: 4096,
    seeds: || {
        [
            r#"{"name":"a","raid":"none","devices":["/dev/sdb","/x"],"size_bytes":68719476736}"#,
            r#"{"name":"v","aggregate":"a","sync":"always"}"#,
            r#"{"aggregate":null,"sync":"standard"}"#,
            r#"{"name":"l","size_bytes":17179869184}"#,
            r#"{"size_bytes":1,"shrink":true}"#,
        ]
        .map(|text| text.as_bytes().to_vec())
        .into()
    },
    run: |input| {
        let _ = CreateAggregate::parse(input);
        let _ = CreateVolume::parse(input);
        let _ = PutVolume::parse(input);
        let _ = ModifyVolume::parse(input);
        let _ = CreateLun::parse(input);
        let _ = ResizeLun::parse(input);
        let _ = PutLun::parse(input);
    },
};

pub(super) const WORDS: Target = Target {
    name: "api-words",
    bytes_max: 256,
    seeds: || {
        [
            "vol0/lun0",
            "16GiB",
            "1P",
            "18446744073709551615",
            "a.b-c_d",
        ]
        .map(|text| text.as_bytes().to_vec())
        .into()
    },
    run: |input| {
        let Ok(text) = std::str::from_utf8(input) else {
            return;
        };
        if let Ok(name) = text.parse::<Name>() {
            assert_eq!(name.as_str(), text);
        }
        if let Ok(name) = text.parse::<LunName>() {
            assert_eq!(name.to_string(), text);
        }
        if let Ok(size) = text.parse::<Size>() {
            let _ = size.to_string();
        }
    },
};
