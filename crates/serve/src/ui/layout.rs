//! What every page has: a head, a header with the state of the proxy, tabs and a footer; and small parts that pages share.
//!
//! In: who the proxy is, how it is, and the content of a page. Out: the whole page as text.

use serde::Deserialize;

use super::html::{Attributes, Html};
use super::site::About;

/// The pages with a tab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tab {
    Overview,
    Services,
    Changes,
    SetAside,
    Explain,
}

impl Tab {
    const ALL: [Self; 5] = [Self::Overview, Self::Services, Self::Changes, Self::SetAside, Self::Explain];

    fn title(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Services => "Services",
            Self::Changes => "Changes",
            Self::SetAside => "Set aside",
            Self::Explain => "Explain",
        }
    }

    fn link(self) -> &'static str {
        match self {
            Self::Overview => "./",
            Self::Services => "services",
            Self::Changes => "changes",
            Self::SetAside => "set-aside",
            Self::Explain => "explain",
        }
    }
}

/// How good or bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Good,
    Warn,
    Bad,
    Quiet,
}

impl Tone {
    /// The class of a chip.
    pub(super) fn chip(self) -> &'static str {
        match self {
            Self::Good => "chip good",
            Self::Warn => "chip warn",
            Self::Bad => "chip bad",
            Self::Quiet => "chip quiet",
        }
    }
}

/// How the proxy is, from what `/healthz` says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Health {
    #[serde(default)]
    pub(super) healthy: bool,
    #[serde(default)]
    pub(super) node_eligible: bool,
    pub(super) last_error: Option<String>,
}

impl Health {
    fn chip(&self) -> (Tone, &'static str) {
        match self {
            Self { healthy: false, .. } => (Tone::Bad, "Changes are stuck"),
            Self { last_error: Some(_), .. } => (Tone::Warn, "Last sync failed"),
            _ => (Tone::Good, "Healthy"),
        }
    }
}

/// A page.
pub(super) struct Page<'a> {
    pub(super) about: &'a About,
    pub(super) health: &'a Health,
    pub(super) tab: Option<Tab>,
    pub(super) title: &'a str,
}

impl Page<'_> {
    /// The whole text of the page.
    pub(super) fn around(&self, content: impl FnOnce(&mut Html)) -> String {
        let mut html = Html::default();
        html.constant("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
        html.constant("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
        html.constant("<meta name=\"color-scheme\" content=\"light dark\">");
        html.element("title", &[], &format!("{} · {} · Switchyard", self.title, self.about.node));
        html.constant("<link rel=\"stylesheet\" href=\"style.css\">");
        html.constant("<link rel=\"icon\" type=\"image/svg+xml\" href=\"icon.svg\">");
        html.constant("<script src=\"live.js\" defer></script></head>\n<body>");
        html.constant("<a class=\"skip\" href=\"#content\">Skip to content</a>\n");
        self.header(&mut html);
        html.within("main", &[("id", "content")], |html| {
            self.alarm(html);
            content(html);
        });
        html.constant(FOOTER);
        html.into_text()
    }

    fn header(&self, html: &mut Html) {
        html.within("header", &[], |html| {
            html.within("div", &[("class", "bar")], |html| {
                html.constant("<a class=\"brand\" href=\"./\">");
                html.constant(MARK);
                html.constant("<span>Switchyard</span></a>");
                html.within("dl", &[("class", "facts")], |html| {
                    fact(html, "Node", &self.about.node);
                    fact(html, "Mode", &self.about.mode);
                    fact(html, "Version", &self.about.version);
                });
                html.within("p", &[("class", "state")], |html| {
                    if !self.health.node_eligible {
                        chip(html, Tone::Quiet, "Node takes no new traffic");
                    }
                    let (tone, text) = self.health.chip();
                    chip(html, tone, text);
                });
            });
            self.tabs(html);
        });
        html.constant("\n");
    }

    fn tabs(&self, html: &mut Html) {
        html.within("nav", &[("aria-label", "Pages")], |html| {
            for tab in Tab::ALL {
                let here: Attributes<'_> = &[("href", tab.link()), ("aria-current", "page")];
                let elsewhere: Attributes<'_> = &[("href", tab.link())];
                html.element("a", if self.tab == Some(tab) { here } else { elsewhere }, tab.title());
            }
        });
    }

    fn alarm(&self, html: &mut Html) {
        if let Some(error) = &self.health.last_error {
            html.within("p", &[("class", "notice bad"), ("role", "status")], |html| {
                html.constant("<strong>The last sync failed.</strong> It is tried again. ");
                html.text(error);
            });
        }
    }
}

fn fact(html: &mut Html, name: &'static str, value: &str) {
    html.within("div", &[], |html| {
        html.element("dt", &[], name);
        html.element("dd", &[], value);
    });
}

/// A short word about a state.
pub(super) fn chip(html: &mut Html, tone: Tone, text: &str) {
    html.element("span", &[("class", tone.chip())], text);
}

/// A column of a table: its heading and its class.
pub(super) type Column = (&'static str, &'static str);

/// A table, on a narrow screen a list of cards.
pub(super) fn table(html: &mut Html, caption: &str, columns: &[Column], rows: impl FnOnce(&mut Html)) {
    html.within("table", &[], |html| {
        html.element("caption", &[], caption);
        html.within("thead", &[], |html| {
            html.within("tr", &[], |html| {
                for (heading, class) in columns {
                    html.element("th", &[("scope", "col"), ("class", class)], heading);
                }
            });
        });
        html.constant("\n");
        rows(html);
    });
    html.constant("\n");
}

/// One cell; the heading is shown beside it on a narrow screen.
pub(super) fn cell(html: &mut Html, (heading, class): Column, content: impl FnOnce(&mut Html)) {
    html.within("td", &[("data-label", heading), ("class", class)], content);
}

/// Instead of an empty table.
pub(super) fn nothing(html: &mut Html, text: &str) {
    html.element("p", &[("class", "nothing")], text);
}

/// Two tracks and a switch between them.
const MARK: &str = "<svg viewBox=\"0 0 24 24\" width=\"22\" height=\"22\" aria-hidden=\"true\" focusable=\"false\">\
<path d=\"M2 7h20M2 17h20M6 17c6 0 6-10 12-10\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"2.2\" \
stroke-linecap=\"round\"/></svg>";

const FOOTER: &str = "\n<footer><p>Read only; times are UTC. The same and more: <code>switchyard get</code>, \
<code>switchyard explain</code>, <a href=\"../metrics\">metrics</a>.</p></footer></body></html>\n";
