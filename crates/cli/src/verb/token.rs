//! Verbs of `token`.

use clap::{Args, Subcommand};
use everglade_api::Name;
use everglade_api::openapi::Role;

use super::Listing;

/// Verbs of `token`.
#[derive(Debug, Subcommand)]
pub enum TokenVerb {
    /// Make a token, and print it
    Create(TokenCreate),
    /// List tokens, without their secrets
    #[command(visible_alias = "list")]
    Show(TokenShow),
    /// Revoke a token: who uses it is refused from now on
    Revoke(TokenOne),
}

/// Options of `token create`.
#[derive(Debug, Args)]
#[command(
    after_help = "The daemon keeps only a hash of the token, so it is shown this once. Who has it \
    may do what its role allows, at the address that 'api.tcp' of the configuration gives REST and \
    the console."
)]
pub struct TokenCreate {
    /// Name of the new token, for the history
    #[arg(value_name = "TOKEN")]
    pub name: Name,

    /// What its holder may do: read-only, operator or admin
    #[arg(long, value_name = "ROLE")]
    pub role: Role,
}

/// Options of `token show`.
#[derive(Debug, Args)]
pub struct TokenShow {
    /// How to show it.
    #[command(flatten)]
    pub listing: Listing,
}

/// Options of `token revoke`.
#[derive(Debug, Args)]
pub struct TokenOne {
    /// The token
    #[arg(value_name = "TOKEN")]
    pub name: Name,
}
