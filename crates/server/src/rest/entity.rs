//! Tags of entities: the version of an object's settings that a caller has seen (RFC 9110, `ETag`
//! and `If-Match`).
//!
//! A tag covers the settings that administrators make, not values that change by themselves, such
//! as the space in use. So a write of a client does not make a caller's view of the settings
//! outdated.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use everglade_api::{
    Aggregate, Code, Host, HostGroup, Lun, Mapping, Policy, Problem, Snapshot, Volume,
};

/// Longest list of tags that is read.
const HEADER_BYTES_MAX: usize = 1024;

/// A tag, with its quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tag(String);

impl Tag {
    fn of(parts: &[&str]) -> Tag {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        let hash = hasher.finalize().to_hex();
        Tag(format!("\"{}\"", &hash[..16]))
    }

    pub(super) fn of_aggregate(aggregate: &Aggregate) -> Tag {
        let devices = aggregate.devices.iter();
        let sizes: Vec<String> = devices
            .clone()
            .map(|it| it.size_bytes.to_string())
            .collect();
        let mut parts = vec!["aggregate", &aggregate.name, &aggregate.uuid];
        for (device, size) in devices.zip(&sizes) {
            parts.extend([device.path.as_str(), size]);
        }
        Tag::of(&parts)
    }

    pub(super) fn of_volume(volume: &Volume) -> Tag {
        let sync = volume.sync.to_string();
        let policy = &volume.snapshot_policy;
        Tag::of(&["volume", &volume.name, &volume.aggregate, &sync, policy])
    }

    pub(super) fn of_lun(lun: &Lun) -> Tag {
        let size = lun.size_bytes.to_string();
        Tag::of(&["lun", &lun.volume, &lun.name, &size])
    }

    pub(super) fn of_snapshot(snapshot: &Snapshot) -> Tag {
        let id = snapshot.id.to_string();
        let mut parts = vec!["snapshot", &snapshot.volume, &snapshot.name, &id];
        parts.extend(snapshot.holds.iter().map(String::as_str));
        Tag::of(&parts)
    }

    pub(super) fn of_policy(policy: &Policy) -> Tag {
        let counts = format!("{} {} {}", policy.hourly, policy.daily, policy.weekly);
        let when = format!("{} {} {}", policy.at, policy.weekday, policy.time_zone);
        Tag::of(&["policy", &policy.name, &counts, &when])
    }

    pub(super) fn of_host(host: &Host) -> Tag {
        let mut parts = vec!["host", &host.name];
        parts.extend(host.identifiers.iter().map(String::as_str));
        Tag::of(&parts)
    }

    pub(super) fn of_host_group(group: &HostGroup) -> Tag {
        let mut parts = vec!["host group", &group.name];
        parts.extend(group.hosts.iter().map(String::as_str));
        Tag::of(&parts)
    }

    pub(super) fn of_mapping(mapping: &Mapping) -> Tag {
        Tag::of(&["mapping", &mapping.lun, &mapping.to])
    }

    /// Returns the tag as a header's value.
    pub(super) fn value(&self) -> HeaderValue {
        HeaderValue::from_str(&self.0).expect("digits and quotes")
    }
}

/// The tags that a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition(Option<Vec<String>>);

impl Condition {
    /// Reads the tags from a header, if the request has it.
    ///
    /// # Errors
    /// The header is not a list of tags.
    pub(super) fn read(headers: &HeaderMap, name: &HeaderName) -> Result<Condition, Problem> {
        let mut tags = Vec::new();
        let mut is_there = false;
        for value in headers.get_all(name) {
            is_there = true;
            let text = value.to_str().ok();
            let text = text.filter(|text| text.len() <= HEADER_BYTES_MAX);
            let parts = text.into_iter().flat_map(|text| text.split(','));
            let before = tags.len();
            for part in parts {
                let tag = part.trim();
                let is_quoted = tag.len() >= 2 && tag.starts_with('"') && tag.ends_with('"');
                if tag != "*" && !is_quoted {
                    tags.truncate(before);
                    break;
                }
                tags.push(tag.to_owned());
            }
            if tags.len() == before {
                let text = "not a list of tags; use the ETag of an answer, with its quotes";
                return Err(Problem::invalid(name.as_str(), text));
            }
        }
        Ok(Condition(is_there.then_some(tags)))
    }

    /// Checks `If-Match`: the object must still have a tag that the request names.
    pub(super) fn allows(&self, tag: &Tag) -> Result<(), Problem> {
        if self.0.is_none() || self.names(tag) {
            return Ok(());
        }
        let text = "the object has changed since; look at it again";
        Err(Problem::of_field(
            Code::Changed,
            header::IF_MATCH.as_str(),
            text,
        ))
    }

    /// Returns whether the condition names this tag.
    pub(super) fn names(&self, tag: &Tag) -> bool {
        let mut tags = self.0.iter().flatten();
        tags.any(|known| known == "*" || *known == tag.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lun(size_bytes: u64) -> Lun {
        Lun {
            name: "l".to_owned(),
            volume: "v".to_owned(),
            object: "v/l".to_owned(),
            size_bytes,
            used_bytes: 0,
            uuid: String::new(),
            nbd_export: "v/l".to_owned(),
            nbd_uri: None,
            iscsi_target: None,
            nvme_subsystem: None,
        }
    }

    fn read(text: &str) -> Result<Condition, Problem> {
        let mut headers = HeaderMap::new();
        headers.insert(
            header::IF_MATCH,
            HeaderValue::from_str(text).expect("a value"),
        );
        Condition::read(&headers, &header::IF_MATCH)
    }

    #[test]
    fn a_tag_changes_with_the_settings() {
        let (small, large) = (Tag::of_lun(&lun(4096)), Tag::of_lun(&lun(8192)));
        assert_ne!(small, large);
        assert_eq!(small, Tag::of_lun(&lun(4096)));
        assert_ne!(Tag::of(&["ab", "c"]), Tag::of(&["a", "bc"]));
    }

    #[test]
    fn a_condition_names_the_version_it_means() {
        let tag = Tag::of_lun(&lun(4096));
        for good in ["*", &tag.0, &format!("\"x\", {}", tag.0)] {
            assert_eq!(read(good).expect(good).allows(&tag), Ok(()), "{good}");
        }
        let problem = read("\"x\"")
            .expect("a tag")
            .allows(&tag)
            .expect_err("another");
        assert_eq!(problem.code, Code::Changed);
        for bad in ["", "x", "\"", "\"x\", y", &"\"x\",".repeat(500)] {
            assert_eq!(read(bad).expect_err(bad).code, Code::InvalidValue, "{bad}");
        }
        let none = Condition::read(&HeaderMap::new(), &header::IF_MATCH).expect("absent");
        assert_eq!(none.allows(&tag), Ok(()));
        assert!(!none.names(&tag));
    }
}
