//! Limits of LUNs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Fields, Problem};

/// Fewest bytes in a second: a client's block.
const BYTES_MIN: u64 = 4096;
/// Most operations or bytes in a second that mean anything.
const MOST: u64 = 1 << 40;

/// `POST /v1/volumes/{v}/luns/{l}/actions/limit`: the whole limit; what is absent is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct SetLimit {
    /// Most operations in a second, 1 to 2^40.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iops: Option<u64>,
    /// Most bytes that are read and written in a second, 4096 to 2^40.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
}

impl SetLimit {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<SetLimit, Problem> {
        if body.is_empty() {
            return Ok(SetLimit::default());
        }
        let mut fields = Fields::parse(body)?;
        let iops = fields.integer("iops")?;
        let bytes_per_second = fields.integer("bytes_per_second")?;
        fields.finish()?;
        if iops.is_some_and(|iops| !(1..=MOST).contains(&iops)) {
            let text = "use a whole number from 1 to 2^40, or leave it out for no limit";
            return Err(Problem::invalid("iops", text));
        }
        if bytes_per_second.is_some_and(|bytes| !(BYTES_MIN..=MOST).contains(&bytes)) {
            let text = "use a size from 4KiB to 1TiB, or leave it out for no limit";
            return Err(Problem::invalid("bytes_per_second", text));
        }
        Ok(SetLimit {
            iops,
            bytes_per_second,
        })
    }
}

/// The limit of a LUN, which all its clients share, of whatever protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Limit {
    /// The LUN, `volume/lun`.
    pub lun: String,
    /// Most operations in a second; absent if they are not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<u64>,
    /// Most bytes that are read and written in a second; absent if they are not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
    /// Operations that were held back since the limit was set or the daemon started.
    pub held_count: u64,
    /// How long they were held back on the average, in milliseconds.
    pub held_milliseconds: u64,
}

/// `GET /v1/limits`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Limits {
    /// The limits, by the names of their LUNs.
    pub limits: Vec<Limit>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    #[test]
    fn a_limit_has_whole_rates_or_none() {
        for request in [
            SetLimit::default(),
            SetLimit {
                iops: Some(1),
                bytes_per_second: Some(4096),
            },
            SetLimit {
                iops: None,
                bytes_per_second: Some(MOST),
            },
        ] {
            let body = serde_json::to_vec(&request).expect("JSON");
            assert_eq!(SetLimit::parse(&body), Ok(request));
        }
        assert_eq!(SetLimit::parse(b""), Ok(SetLimit::default()));
        for (body, code) in [
            ("{\"iops\": 0}", Code::InvalidValue),
            ("{\"bytes_per_second\": 4095}", Code::InvalidValue),
            ("{\"iops\": 1.5}", Code::InvalidValue),
            ("{\"bandwidth\": 5}", Code::UnknownField),
        ] {
            let problem = SetLimit::parse(body.as_bytes()).expect_err(body);
            assert_eq!(problem.code, code, "{body}");
        }
    }
}
