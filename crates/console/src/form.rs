//! A form: one change, with what it does before it is made.

use maud::{Markup, html};

use crate::frame::{Page, Visitor};

/// What a visitor fills in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// A line of text.
    Text {
        /// Name in the form.
        name: &'static str,
        /// What is asked.
        label: &'static str,
        /// How to write it.
        hint: String,
        /// What stands there.
        value: String,
        /// Whether the form needs it.
        is_required: bool,
    },
    /// One of several.
    Choice {
        /// Name in the form.
        name: &'static str,
        /// What is asked.
        label: &'static str,
        /// What there is to choose from.
        options: Vec<String>,
        /// What is chosen.
        value: String,
    },
    /// Yes or no.
    Check {
        /// Name in the form.
        name: &'static str,
        /// What is agreed to.
        label: String,
        /// Whether it is ticked.
        is_set: bool,
    },
}

/// A change to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// The change in a few words: `Delete LUN vol0/lun0`.
    pub title: String,
    /// What it does.
    pub lead: Vec<String>,
    /// What would be lost or ended.
    pub warnings: Vec<String>,
    /// What is filled in.
    pub fields: Vec<Field>,
    /// Sent along unseen, by name.
    pub hidden: Vec<(&'static str, String)>,
    /// The button.
    pub button: &'static str,
    /// Whether data is deleted.
    pub is_destructive: bool,
    /// Path of the form.
    pub path: String,
    /// Path of the page that it was opened from.
    pub back: String,
    /// Why the last attempt was refused.
    pub problem: Option<String>,
}

/// The page of a form.
#[must_use]
pub fn page(visitor: &Visitor, form: &Form) -> String {
    let tone = if form.is_destructive { "bad" } else { "main" };
    let content = html! {
        h1 { (form.title) }
        @if let Some(problem) = &form.problem {
            p class="note bad" role="alert" { "Nothing was changed. " (problem) }
        }
        section aria-label=(form.title) {
            @for line in &form.lead { p { (line) } }
            @for warning in &form.warnings { p class="note warn" { (warning) } }
            form method="post" action=(form.path) {
                input type="hidden" name="form_key" value=(visitor.form_key);
                @for (name, value) in &form.hidden {
                    input type="hidden" name=(name) value=(value);
                }
                @for field in &form.fields { (shown(field)) }
                div class="actions" {
                    button class=(tone) { (form.button) }
                    a class="button" href=(form.back) { "Cancel" }
                }
            }
        }
    };
    let page = Page {
        title: &form.title,
        place: "",
        visitor,
        done: None,
    };
    page.around(&content)
}

fn shown(field: &Field) -> Markup {
    match field {
        Field::Text {
            name,
            label,
            hint,
            value,
            is_required,
        } => html! {
            div class="field" {
                label for=(name) { (label) }
                input type="text" id=(name) name=(name) value=(value) required[*is_required]
                    autocomplete="off" spellcheck="false" aria-describedby={ (name) "-hint" };
                div id={ (name) "-hint" } class="quiet" { (hint) }
            }
        },
        Field::Choice {
            name,
            label,
            options,
            value,
        } => html! {
            div class="field" {
                label for=(name) { (label) }
                select id=(name) name=(name) {
                    @for option in options {
                        option value=(option) selected[option == value] { (option) }
                    }
                }
            }
        },
        Field::Check {
            name,
            label,
            is_set,
        } => html! {
            div class="field check" {
                input type="checkbox" id=(name) name=(name) value="true" checked[*is_set];
                " " label for=(name) { (label) }
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use everglade_api::openapi::Role;

    use super::*;

    #[test]
    fn what_comes_from_outside_is_escaped() {
        let visitor = Visitor {
            name: "token <b>".to_owned(),
            role: Role::Operator,
            form_key: "k".to_owned(),
            can_leave: true,
        };
        let form = Form {
            title: "<script>".to_owned(),
            problem: Some("\"><img>".to_owned()),
            fields: vec![Field::Text {
                name: "name",
                label: "Name",
                hint: String::new(),
                value: "\" autofocus onfocus=\"x".to_owned(),
                is_required: true,
            }],
            ..Form::default()
        };
        let text = page(&visitor, &form);
        for bad in ["<script>", "<img>", "\" autofocus", "<b>"] {
            assert!(!text.contains(bad), "{bad}: {text}");
        }
    }
}
