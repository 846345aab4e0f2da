//! The list of Services, by page.
//!
//! In: a page of summaries. Out: a search form, a table, and links to the pages beside it.

use switchyard_model::Family;

use super::html::{Html, query_escaped};
use super::layout::{Column, Tone, cell, chip, nothing, table};
use super::values::{Frontend, FrontendKind, ServicePage, ServiceSummary};
use super::words::{count, counted};

const SERVICE: Column = ("Service", "name");
const FRONTENDS: Column = ("Frontends", "frontends");
const FAMILIES: Column = ("Families", "");
const READY: Column = ("Ready", "num");
const STATE: Column = ("State", "chips");

/// The content of the page.
pub(super) fn content(html: &mut Html, page: &ServicePage) {
    html.element("h1", &[], "Services");
    form(html, &page.search.text);
    if page.services.is_empty() {
        let text = match page.search.text.as_str() {
            "" if page.search.page == 0 => "No Service is served yet.",
            "" => "There is no such page.",
            _ => "Nothing is called that way, and nobody dials it.",
        };
        return nothing(html, text);
    }
    let first = page.search.page.saturating_mul(page.page_size);
    let caption =
        format!("{} to {} of {}", count(first + 1), count(first + page.services.len()), found(page.found));
    table(html, &caption, &[SERVICE, FRONTENDS, FAMILIES, READY, STATE], |html| {
        html.within("tbody", &[], |html| page.services.iter().for_each(|service| row(html, service)));
    });
    pager(html, page);
}

fn found(number: usize) -> String {
    counted(number, "Service", "Services")
}

fn form(html: &mut Html, text: &str) {
    html.within("form", &[("class", "search"), ("action", "services"), ("role", "search")], |html| {
        html.constant("<label for=\"search\">Name or address</label>");
        html.open(
            "input",
            &[
                ("id", "search"),
                ("name", "search"),
                ("type", "search"),
                ("value", text),
                ("maxlength", "256"),
                ("autocomplete", "off"),
                ("spellcheck", "false"),
                ("placeholder", "shop/web or 10.96.0.10"),
            ],
        );
        html.constant("<button>Search</button>");
    });
}

/// Where one Service is shown.
pub(super) fn link(namespace: &str, name: &str) -> String {
    format!("service?namespace={}&name={}", query_escaped(namespace), query_escaped(name))
}

fn row(html: &mut Html, service: &ServiceSummary) {
    html.within("tr", &[], |html| {
        cell(html, SERVICE, |html| {
            let (namespace, name) = (&*service.name.namespace, &*service.name.name);
            html.within("a", &[("href", &link(namespace, name))], |html| {
                html.element("span", &[("class", "namespace")], namespace);
                html.text("/");
                html.text(name);
            });
        });
        cell(html, FRONTENDS, |html| frontends(html, service));
        cell(html, FAMILIES, |html| {
            let families: Vec<&str> = service.families.iter().copied().map(Family::as_str).collect();
            html.text(&families.join(", "));
        });
        cell(html, READY, |html| {
            html.element("b", &[], &count(service.ready));
            html.element("span", &[("class", "of")], &format!(" / {}", count(service.endpoints)));
        });
        cell(html, STATE, |html| state(html, service));
    });
    html.constant("\n");
}

fn frontends(html: &mut Html, service: &ServiceSummary) {
    html.within("ul", &[], |html| {
        for frontend in &service.frontends {
            html.within("li", &[], |html| {
                html.element("code", &[], &dialled(frontend));
                html.element("span", &[("class", "kind")], kind(frontend.kind));
            });
        }
        let more = service.frontend_count.saturating_sub(service.frontends.len());
        if more > 0 {
            html.element("li", &[("class", "kind")], &format!("and {} more", count(more)));
        }
    });
}

/// What clients dial.
pub(super) fn dialled(frontend: &Frontend) -> String {
    let Frontend { dial, protocol, kind } = frontend;
    match kind {
        FrontendKind::NodePort => format!("*:{}/{protocol}", dial.port()),
        _ => format!("{dial}/{protocol}"),
    }
}

/// Where a frontend comes from.
pub(super) fn kind(kind: FrontendKind) -> &'static str {
    match kind {
        FrontendKind::ClusterIp => " cluster IP",
        FrontendKind::ExternalIp => " external IP",
        FrontendKind::LoadBalancerIp => " load-balancer IP",
        FrontendKind::NodePort => " node port",
    }
}

fn state(html: &mut Html, service: &ServiceSummary) {
    let unserved = service.ports.saturating_sub(service.served);
    match unserved {
        0 => chip(html, Tone::Good, "Serving"),
        _ if service.served == 0 => chip(html, Tone::Bad, "No endpoints"),
        _ => {
            chip(html, Tone::Warn, &format!("{} of {} ports unserved", count(unserved), count(service.ports)))
        }
    }
    if service.set_aside > 0 {
        chip(html, Tone::Bad, "Set aside");
    }
    if service.is_sticky {
        chip(html, Tone::Quiet, "Sticky");
    }
    if service.is_local {
        chip(html, Tone::Quiet, "Local");
    }
}

fn pager(html: &mut Html, page: &ServicePage) {
    let last = page.found.div_ceil(page.page_size.max(1)).saturating_sub(1);
    if last == 0 {
        return;
    }
    let here = page.search.page;
    let address = |number: usize| match page.search.text.as_str() {
        "" => format!("services?page={}", number + 1),
        text => format!("services?search={}&page={}", query_escaped(text), number + 1),
    };
    let link = |html: &mut Html, is_there: bool, number: usize, text: &str| match is_there {
        true => html.element("a", &[("href", &address(number))], text),
        false => html.element("span", &[("aria-hidden", "true")], text),
    };
    html.within("nav", &[("class", "pager"), ("aria-label", "Pages of Services")], |html| {
        link(html, here > 0, 0, "First");
        link(html, here > 0, here.saturating_sub(1), "Previous");
        html.element("b", &[], &format!("Page {} of {}", count(here + 1), count(last + 1)));
        link(html, here < last, here + 1, "Next");
        link(html, here < last, last, "Last");
    });
}
