//! From requests to pages.
//!
//! In: a request below `/ui`. Out: a page, a file, or the stream of changes, each with headers that keep a browser from doing anything else.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hyper::header::{self, HeaderName};
use hyper::{Method, StatusCode};

use super::explain::Typed;
use super::feed::Feed;
use super::html::Html;
use super::layout::{Health, Page, Tab};
use super::values::Search;
use super::{Dashboard, Trouble, changes, explain, overview, service, services, set_aside};
use crate::Moment;
use crate::health::{Probe, ProxyHealth};
use crate::server::{Ask, NOSNIFF, Reply};

/// Longest text that is searched for or explained.
const TYPED: usize = 256;

/// What a browser may do with our pages: load style, script, picture and stream from here, send forms here, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

/// The headers of every answer.
pub(super) const HEADERS: [(HeaderName, &str); 7] = [
    NOSNIFF,
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];

/// Who this proxy is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The node.
    pub node: String,
    /// The mode.
    pub mode: String,
    /// The version of the program.
    pub version: String,
}

/// The dashboard of one proxy.
pub struct Ui {
    about: About,
    health: Arc<ProxyHealth>,
    dashboard: Arc<dyn Dashboard>,
    feed: Arc<Feed>,
}

/// True if a path is the dashboard's.
pub(crate) fn is_below(path: &str) -> bool {
    path.strip_prefix("/ui").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Ui {
    /// A dashboard that shows what `dashboard` knows.
    pub fn new(about: About, health: Arc<ProxyHealth>, dashboard: Arc<dyn Dashboard>) -> Self {
        Self { about, health, dashboard, feed: Arc::default() }
    }

    pub(crate) async fn answer(&self, ask: &Ask) -> Reply {
        if ask.method != Method::GET && ask.method != Method::HEAD {
            return self.trouble(
                None,
                &refusal(StatusCode::METHOD_NOT_ALLOWED, "Only GET: nothing is changed here."),
            );
        }
        if !self.is_called(ask) {
            let text = "Ask for an address, for localhost or for the name of the node: another name may lead here by a trick.";
            return self.trouble(None, &refusal(StatusCode::MISDIRECTED_REQUEST, text));
        }
        match ask.path().as_str() {
            "/ui" => Reply::redirect(StatusCode::FOUND, "ui/", &ask.method),
            "/ui/style.css" => file("text/css; charset=utf-8", include_str!("assets/style.css")),
            "/ui/live.js" => file("text/javascript; charset=utf-8", include_str!("assets/live.js")),
            "/ui/icon.svg" => file("image/svg+xml", include_str!("assets/icon.svg")),
            "/ui/events" => self.events(ask),
            path => self.page(path, ask).await,
        }
    }

    /// A site elsewhere can make its own name lead to an address that only its visitors reach, and have their browsers read what is
    /// there. Such a name has a dot in it, and is neither an address nor ours.
    fn is_called(&self, ask: &Ask) -> bool {
        let Some(host) = ask.headers.get(header::HOST).and_then(|host| host.to_str().ok()) else {
            return true;
        };
        let is_address =
            host.parse::<SocketAddr>().is_ok() || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        is_address || !name.contains('.') || name.eq_ignore_ascii_case(&self.about.node)
    }

    async fn page(&self, path: &str, ask: &Ask) -> Reply {
        let dashboard = &self.dashboard;
        match path {
            "/ui/" => self.shown(Tab::Overview, "Overview", dashboard.overview().await, overview::content),
            "/ui/services" => {
                let page = number(ask, "page").unwrap_or_default().saturating_sub(1);
                let page = usize::try_from(page).unwrap_or(usize::MAX);
                let search = Search { text: typed(ask, "search").trim().to_owned(), page };
                self.shown(Tab::Services, "Services", dashboard.services(search).await, services::content)
            }
            "/ui/service" => {
                let (namespace, name) = (typed(ask, "namespace"), typed(ask, "name"));
                let title = format!("{namespace}/{name}");
                self.shown(Tab::Services, &title, dashboard.service(namespace, name).await, service::content)
            }
            "/ui/changes" => {
                self.shown(Tab::Changes, "Changes", dashboard.changes(0).await, changes::content)
            }
            "/ui/set-aside" => {
                self.shown(Tab::SetAside, "Set aside", dashboard.set_aside().await, set_aside::content)
            }
            "/ui/explain" => self.explain(ask).await,
            _ => self.trouble(None, &refusal(StatusCode::NOT_FOUND, "There is no such page.")),
        }
    }

    /// Nothing typed is no question.
    async fn explain(&self, ask: &Ask) -> Reply {
        let form = Typed { from: typed(ask, "from"), to: typed(ask, "to"), protocol: typed(ask, "protocol") };
        if form.to.trim().is_empty() {
            let page = self.around(Some(Tab::Explain), "Explain", |html| explain::content(html, &form, None));
            return html_reply(StatusCode::OK, page);
        }
        let parameter = |name: &str, value: &str| (name.to_owned(), value.trim().to_owned());
        let asked =
            [parameter("from", &form.from), parameter("to", &form.to), parameter("protocol", &form.protocol)];
        let answer = self.dashboard.explain(asked.into()).await;
        let status = answer.as_ref().err().map_or(StatusCode::OK, status);
        let shown = answer.as_ref().map_err(|trouble| trouble.text.as_str());
        let page =
            self.around(Some(Tab::Explain), "Explain", |html| explain::content(html, &form, Some(shown)));
        html_reply(status, page)
    }

    fn events(&self, ask: &Ask) -> Reply {
        let last = ask.headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
        let after = last.or_else(|| number(ask, "after")).unwrap_or_default();
        let kind = (header::CONTENT_TYPE, "text/event-stream");
        if ask.method == Method::HEAD {
            return Reply::ok(HEADERS.into_iter().chain([kind]), "");
        }
        match self.feed.listen(after, &self.dashboard) {
            Some(messages) => Reply::flow(HEADERS.into_iter().chain([kind]), messages),
            None => {
                let text = "Too many listen already; the page can be loaded again instead.";
                self.trouble(None, &refusal(StatusCode::SERVICE_UNAVAILABLE, text))
            }
        }
    }

    fn shown<T>(
        &self,
        tab: Tab,
        title: &str,
        found: Result<T, Trouble>,
        content: impl FnOnce(&mut Html, &T),
    ) -> Reply {
        match found {
            Ok(found) => {
                html_reply(StatusCode::OK, self.around(Some(tab), title, |html| content(html, &found)))
            }
            Err(trouble) => self.trouble(Some(tab), &trouble),
        }
    }

    fn trouble(&self, tab: Option<Tab>, trouble: &Trouble) -> Reply {
        let page = self.around(tab, "Trouble", |html| {
            html.element("h1", &[], "This page cannot be shown");
            html.element("p", &[("class", "notice bad"), ("role", "status")], &trouble.text);
        });
        html_reply(status(trouble), page)
    }

    fn around(&self, tab: Option<Tab>, title: &str, content: impl FnOnce(&mut Html)) -> String {
        let answer = self.health.answer(Probe::Healthz, Moment::now());
        let health: Health = serde_json::from_str(&answer.body).unwrap_or_default();
        Page { about: &self.about, health: &health, tab, title }.around(content)
    }
}

fn refusal(status: StatusCode, text: &str) -> Trouble {
    Trouble { status: status.as_u16(), text: text.to_owned() }
}

fn status(trouble: &Trouble) -> StatusCode {
    StatusCode::from_u16(trouble.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn html_reply(status: StatusCode, page: String) -> Reply {
    let kind = (header::CONTENT_TYPE, "text/html; charset=utf-8");
    Reply::new(status, [kind].into_iter().chain(HEADERS), page)
}

fn file(kind: &'static str, text: &'static str) -> Reply {
    Reply::ok([(header::CONTENT_TYPE, kind)].into_iter().chain(HEADERS), text)
}

/// A parameter, cut to what anybody would type.
fn typed(ask: &Ask, name: &str) -> String {
    ask.parameters(name).last().unwrap_or_default().chars().take(TYPED).collect()
}

fn number(ask: &Ask, name: &str) -> Option<u64> {
    ask.parameters(name).last()?.parse().ok()
}
