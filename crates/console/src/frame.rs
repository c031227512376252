//! The frame of every page: its title, the links to other pages, who is looking, and what may be
//! told about the last change.

use everglade_api::openapi::Role;
use maud::{DOCTYPE, Markup, html};

/// Who looks at a page.
#[derive(Clone, Debug)]
pub struct Visitor {
    /// Name in the history: `token backup`.
    pub name: String,
    /// What the visitor may do.
    pub role: Role,
    /// Secret that every form carries, so that other sites cannot send forms for this visitor.
    pub form_key: String,
    /// Whether the visitor has given a token, and so can leave.
    pub can_leave: bool,
}

impl Visitor {
    /// Returns whether the visitor may make, change and delete volumes.
    #[must_use]
    pub fn may_change(&self) -> bool {
        self.role >= Role::Operator
    }

    /// Returns whether the visitor may also change aggregates.
    #[must_use]
    pub fn may_administer(&self) -> bool {
        self.role >= Role::Admin
    }
}

/// Pages that every page refers to.
const PLACES: [(&str, &str); 5] = [
    ("/", "Overview"),
    ("/volumes", "Volumes"),
    ("/trash", "Trash"),
    ("/jobs", "Jobs"),
    ("/events", "Events"),
];

/// A page for a visitor. `place`: the path of the entry of [`PLACES`] that it belongs to.
pub(crate) struct Page<'a> {
    pub(crate) title: &'a str,
    pub(crate) place: &'a str,
    pub(crate) visitor: &'a Visitor,
    /// What has just been done.
    pub(crate) done: Option<&'a str>,
}

impl Page<'_> {
    /// The whole document.
    pub(crate) fn around(&self, content: &Markup) -> String {
        let Visitor {
            name,
            role,
            form_key,
            can_leave,
            ..
        } = self.visitor;
        let header = html! {
            nav aria-label="Pages" {
                ul {
                    @for (path, title) in PLACES {
                        @let current = (path == self.place).then_some("page");
                        li { a href=(path) aria-current=[current] { (title) } }
                    }
                }
            }
            div class="who" {
                button type="button" id="pause" hidden { "Pause updates" }
                span { (name) " (" (role) ")" }
                @if *can_leave {
                    form method="post" action="/logout" {
                        input type="hidden" name="form_key" value=(form_key);
                        button { "Log out" }
                    }
                }
            }
        };
        let content = html! {
            @if let Some(done) = self.done {
                p class="note" role="status" { (done) }
            }
            (content)
        };
        document(self.title, &header, &content)
    }
}

/// A document with the name of the product above.
pub(crate) fn document(title: &str, header: &Markup, content: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " · Everglade" }
                link rel="icon" href="data:,";
                link rel="stylesheet" href="/assets/console.css";
                script src="/assets/console.js" defer {}
            }
            body {
                a class="skip" href="#content" { "Skip to the content" }
                header {
                    div class="bar" {
                        a class="name" href="/" { "Everglade" }
                        (header)
                    }
                }
                main id="content" { (content) }
                footer { "The same from a shell: " code { "everglade help" } }
            }
        }
    };
    page.into_string()
}

/// A page that says why there is nothing to show.
#[must_use]
pub fn refusal(title: &str, text: &str) -> String {
    let content = html! {
        h1 { (title) }
        p class="note bad" role="alert" { (text) }
        p { a href="/" { "Back to the overview" } }
    };
    document(title, &html! {}, &content)
}
