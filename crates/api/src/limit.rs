//! Limits of LUNs and volumes, and the policies that they may follow.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Fields, Name, Problem};

/// Fewest bytes in a second: a client's block.
const BYTES_MIN: u64 = 4096;
/// Most operations or bytes in a second that mean anything.
const MOST: u64 = 1 << 40;
/// Longest burst: a minute.
const BURST_MAX: u64 = 60_000;
/// Largest weight. The usual one is 100.
const WEIGHT_MAX: u64 = 10_000;

/// `PUT /v1/qos-policies/{policy}`: what follows the policy may do; what is absent is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct SetQosPolicy {
    /// Most operations in a second, 1 to 2^40.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iops: Option<u64>,
    /// Most bytes that are read and written in a second, 4096 to 2^40.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
    /// What may be saved up while idle, as the time that it takes, 1 to 60000 milliseconds; usually
    /// 50.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst_milliseconds: Option<u32>,
    /// The part of a busy aggregate, beside those of other LUNs, 1 to 10000; a LUN without one has
    /// that of its volume, or 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
}

impl SetQosPolicy {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<SetQosPolicy, Problem> {
        let mut fields = Fields::parse(body)?;
        let rates = SetQosPolicy::take(&mut fields)?;
        fields.finish()?;
        if rates == SetQosPolicy::default() {
            let text = "give at least one of iops, bytes_per_second and weight";
            return Err(Problem::invalid("iops", text));
        }
        Ok(rates)
    }

    /// Takes the fields, and checks what they say.
    fn take(fields: &mut Fields) -> Result<SetQosPolicy, Problem> {
        let iops = fields.integer("iops")?;
        let bytes_per_second = fields.integer("bytes_per_second")?;
        let burst = fields.integer("burst_milliseconds")?;
        let weight = fields.integer("weight")?;
        if iops.is_some_and(|iops| !(1..=MOST).contains(&iops)) {
            let text = "use a whole number from 1 to 2^40, or leave it out for no limit";
            return Err(Problem::invalid("iops", text));
        }
        if bytes_per_second.is_some_and(|bytes| !(BYTES_MIN..=MOST).contains(&bytes)) {
            let text = "use a size from 4KiB to 1TiB, or leave it out for no limit";
            return Err(Problem::invalid("bytes_per_second", text));
        }
        if burst.is_some_and(|burst| !(1..=BURST_MAX).contains(&burst)) {
            let text = "use a time from 1 to 60000 ms, or leave it out for 50 ms";
            return Err(Problem::invalid("burst_milliseconds", text));
        }
        if burst.is_some() && iops.is_none() && bytes_per_second.is_none() {
            let text = "a burst belongs to a limit: limit operations or bytes, too";
            return Err(Problem::invalid("burst_milliseconds", text));
        }
        if weight.is_some_and(|weight| !(1..=WEIGHT_MAX).contains(&weight)) {
            let text = "use a whole number from 1 to 10000, or leave it out";
            return Err(Problem::invalid("weight", text));
        }
        // Both are bounded above.
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Ok(SetQosPolicy {
            iops,
            bytes_per_second,
            burst_milliseconds: burst.map(small),
            weight: weight.map(small),
        })
    }
}

/// `POST /v1/volumes/{v}/actions/limit` and `POST /v1/volumes/{v}/luns/{l}/actions/limit`: the
/// whole limit, or the name of a policy. What is absent is not limited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct SetLimit {
    /// The policy that it follows, instead of all the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<Name>,
    /// Most operations in a second, 1 to 2^40.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iops: Option<u64>,
    /// Most bytes that are read and written in a second, 4096 to 2^40.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
    /// What may be saved up while idle, as the time that it takes, 1 to 60000 milliseconds; usually
    /// 50.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst_milliseconds: Option<u32>,
    /// The part of a busy aggregate, beside those of other LUNs, 1 to 10000; a LUN without one has
    /// that of its volume, or 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
}

impl SetLimit {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong, or contradicts another.
    pub fn parse(body: &[u8]) -> Result<SetLimit, Problem> {
        if body.is_empty() {
            return Ok(SetLimit::default());
        }
        let mut fields = Fields::parse(body)?;
        let policy: Option<Name> = fields.parsed("policy")?;
        let rates = SetQosPolicy::take(&mut fields)?;
        fields.finish()?;
        if policy.is_some() && rates != SetQosPolicy::default() {
            let text =
                "a limit that follows a policy has no rates of its own: leave out one of both";
            return Err(Problem::invalid("policy", text));
        }
        Ok(SetLimit {
            policy,
            ..SetLimit::of(rates)
        })
    }

    /// A limit with rates of its own.
    #[must_use]
    pub fn of(rates: SetQosPolicy) -> SetLimit {
        SetLimit {
            policy: None,
            iops: rates.iops,
            bytes_per_second: rates.bytes_per_second,
            burst_milliseconds: rates.burst_milliseconds,
            weight: rates.weight,
        }
    }

    /// Its own rates.
    #[must_use]
    pub fn rates(&self) -> SetQosPolicy {
        SetQosPolicy {
            iops: self.iops,
            bytes_per_second: self.bytes_per_second,
            burst_milliseconds: self.burst_milliseconds,
            weight: self.weight,
        }
    }
}

/// The limit of a LUN or a volume, which all its clients share, of whatever protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Limit {
    /// What is limited: `volume/lun`, or `volume`.
    pub name: String,
    /// The policy that it follows; absent if it has rates of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Most operations in a second; absent if they are not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<u64>,
    /// Most bytes that are read and written in a second; absent if they are not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
    /// What may be saved up while idle, as the time that it takes; absent if it is 50 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_milliseconds: Option<u32>,
    /// The weight of the LUN, or of each LUN of the volume; absent if it has none of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Operations that had to wait. Those that the rates held back count since the rates were set
    /// or the daemon started; those that waited for their share, since the aggregate came online.
    pub held_count: u64,
    /// How long they were held back on the average, in milliseconds.
    pub held_milliseconds: u64,
}

/// `GET /v1/limits`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Limits {
    /// The limits, by the names of what they limit.
    pub limits: Vec<Limit>,
}

/// A policy of limits: each LUN and each volume that follows it has a limit like this.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QosPolicy {
    /// Its name.
    pub name: String,
    /// Most operations in a second; absent if they are not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<u64>,
    /// Most bytes that are read and written in a second; absent if they are not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
    /// What may be saved up while idle, as the time that it takes; absent if it is 50 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_milliseconds: Option<u32>,
    /// The part of a busy aggregate; absent if it says nothing about that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// LUNs and volumes that follow it.
    #[serde(default)]
    pub object_count: u64,
}

/// `GET /v1/qos-policies`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QosPolicies {
    /// The policies, by name.
    pub policies: Vec<QosPolicy>,
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
                burst_milliseconds: Some(60_000),
                ..SetLimit::default()
            },
            SetLimit {
                bytes_per_second: Some(MOST),
                weight: Some(10_000),
                ..SetLimit::default()
            },
            SetLimit {
                policy: Some("gold".parse().expect("a name")),
                ..SetLimit::default()
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
            ("{\"weight\": 10001}", Code::InvalidValue),
            ("{\"burst_milliseconds\": 5}", Code::InvalidValue),
            ("{\"policy\": \"gold\", \"iops\": 5}", Code::InvalidValue),
            ("{\"bandwidth\": 5}", Code::UnknownField),
        ] {
            let problem = SetLimit::parse(body.as_bytes()).expect_err(body);
            assert_eq!(problem.code, code, "{body}");
        }
    }
}
