//! The entrance: a visitor from elsewhere gives a token.

use maud::html;

use crate::frame::document;

/// The page that asks for a token. `problem`: why the last one was refused.
#[must_use]
pub fn page(problem: Option<&str>) -> String {
    let content = html! {
        h1 { "Log in" }
        @if let Some(problem) = problem {
            p class="note bad" role="alert" { (problem) }
        }
        section {
            form method="post" action="/login" {
                div class="field" {
                    label for="token" { "Token" }
                    input type="password" id="token" name="token" required
                        autocomplete="current-password" aria-describedby="token-hint";
                    div id="token-hint" class="quiet" {
                        "The third word of a line in the file that " code { "--api-tokens" }
                        " names. You can do what its role may do."
                    }
                }
                button class="main" { "Log in" }
            }
        }
    };
    document("Log in", &html! {}, &content)
}
