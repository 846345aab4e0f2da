//! What was set aside: objects that are wrong, service ports that the kernel refused, frontends that another Service has.
//!
//! In: the first of it. Out: a table, or that all is well.

use switchyard_model::Family;

use super::html::Html;
use super::layout::{Column, Tone, cell, chip, nothing, table};
use super::values::{SetAside, SetAsideKind, SetAsidePage};
use super::words::{count, counted};

const OBJECT: Column = ("Object", "name");
const KIND: Column = ("Why", "chips");
const FAMILY: Column = ("Family", "");
const CAUSE: Column = ("Cause", "cause");

/// The content of the page.
pub(super) fn content(html: &mut Html, page: &SetAsidePage) {
    html.element("h1", &[], "Set aside");
    html.constant("<p class=\"lead\">One bad object never stops the others. What could not be taken as it is stands here.</p>");
    if page.items.is_empty() {
        return nothing(html, "Nothing is set aside.");
    }
    let caption = counted(page.total, "thing", "things");
    table(html, &caption, &[OBJECT, KIND, FAMILY, CAUSE], |html| {
        html.within("tbody", &[], |html| page.items.iter().for_each(|item| row(html, item)));
    });
    let more = page.total.saturating_sub(page.items.len());
    if more > 0 {
        nothing(html, &format!("And {} more; `switchyard get quarantine` shows them all.", count(more)));
    }
}

fn row(html: &mut Html, item: &SetAside) {
    html.within("tr", &[], |html| {
        cell(html, OBJECT, |html| html.text(&item.object));
        cell(html, KIND, |html| {
            let (tone, text) = match item.kind {
                SetAsideKind::Object => (Tone::Warn, "Object is wrong"),
                SetAsideKind::Refused => (Tone::Bad, "Kernel refused it"),
                SetAsideKind::Conflict => (Tone::Warn, "Somebody has it"),
                SetAsideKind::Unserved => (Tone::Bad, "Cannot be served"),
                SetAsideKind::LeftOut => (Tone::Warn, "Endpoints left out"),
            };
            chip(html, tone, text);
        });
        cell(html, FAMILY, |html| html.text(item.family.map_or("any", Family::as_str)));
        cell(html, CAUSE, |html| html.text(&item.cause));
    });
    html.constant("\n");
}
