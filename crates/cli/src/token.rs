//! `everglade token …`.

use everglade_api::{CreateToken, MadeToken, Token, Tokens};

use crate::failure::{Failure, exit};
use crate::listing::{self, Cell, Column};
use crate::output::Output;
use crate::session::Session;
use crate::verb::TokenVerb;

const TOKENS: [Column<Token>; 3] = [
    Column::text("name", |it| Cell::text(&it.name)),
    Column::text("role", |it| Cell::text(&it.role)),
    Column::time("created", |it| {
        it.created.as_ref().map_or(Cell::None, Cell::text)
    }),
];

pub(crate) fn run(verb: &TokenVerb, session: &Session, output: &Output) -> Result<u8, Failure> {
    match verb {
        TokenVerb::Create(create) => {
            let request = CreateToken {
                name: create.name.clone(),
                role: create.role,
            };
            let told = session.post::<MadeToken>("/v1/tokens", &request)?;
            let line = format!("{}\n", told.meant.token);
            output.data(&told.raw, || line)?;
            output.done("this is the token; it is not shown again");
        }
        TokenVerb::Show(show) => {
            let told = session.get::<Tokens>("/v1/tokens")?;
            let items = ("tokens", told.meant.tokens.as_slice());
            listing::print(&told, items, &TOKENS, &show.listing, output)?;
        }
        TokenVerb::Revoke(one) => {
            session.remove(&format!("/v1/tokens/{}", one.name))?;
            output.done(&format!("token {} is revoked", one.name));
        }
    }
    Ok(exit::OK)
}
