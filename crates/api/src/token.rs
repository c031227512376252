//! Tokens: what callers from elsewhere prove who they are with.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::fields::required;
use crate::openapi::Role;
use crate::{Fields, Name, Problem};

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// Its name. The history shows it beside each change that was made with the token.
    pub name: String,
    /// `read-only`, `operator` or `admin`.
    pub role: String,
    /// When it was made, RFC 3339 in UTC; absent if it is in the file of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub created: Option<String>,
}

/// `GET /v1/tokens`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tokens {
    /// Tokens, by name.
    pub tokens: Vec<Token>,
}

/// `POST /v1/tokens`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CreateToken {
    /// Unique among tokens.
    pub name: Name,
    /// `read-only`, `operator` or `admin`.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = String)]
    pub role: Role,
}

fn as_text<S: serde::Serializer>(role: &Role, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(role)
}

impl CreateToken {
    /// Reads a body.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn parse(body: &[u8]) -> Result<CreateToken, Problem> {
        let mut fields = Fields::parse(body)?;
        let name = fields.parsed("name")?;
        let role = fields.parsed("role")?;
        fields.finish()?;
        Ok(CreateToken {
            name: required("name", name)?,
            role: required("role", role)?,
        })
    }
}

/// A token that was just made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MadeToken {
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: String,
    /// The secret. The daemon keeps only a hash of it, so nobody sees it again.
    pub token: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_writes_the_daemon_reads() {
        let request = CreateToken {
            name: "backup".parse().expect("a name"),
            role: Role::Operator,
        };
        let body = serde_json::to_vec(&request).expect("JSON");
        assert_eq!(CreateToken::parse(&body), Ok(request));
        for (body, field) in [
            (&b"{\"name\": \"a\"}"[..], "role"),
            (b"{\"name\": \"a\", \"role\": \"root\"}", "role"),
            (b"{\"role\": \"admin\"}", "name"),
        ] {
            let wrong = CreateToken::parse(body).expect_err("wrong");
            assert_eq!(wrong.field.as_deref(), Some(field));
        }
    }
}
