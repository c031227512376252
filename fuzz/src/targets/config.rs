//! The configuration file.

use std::path::Path;

use everglade_server::config::file;

use super::Target;

pub(super) const FILE: Target = Target {
    name: "config-file",
    bytes_max: 4096,
    seeds: || {
        [
            "data_dir = \"/x\"\nmemory = \"1GiB\"\nreactors = 4\n[nbd]\ntcp = \":0\"\n",
            "[journal]\ndevice = \"/dev/sdc\"\nhalf_size = \"64MiB\"\n[cp]\ninterval = \"5s\"\n",
        ]
        .map(|text| text.as_bytes().to_vec())
        .into()
    },
    run: |input| {
        if let Ok(text) = std::str::from_utf8(input) {
            let _ = file::parse(Path::new("everglade.toml"), text);
        }
    },
};
