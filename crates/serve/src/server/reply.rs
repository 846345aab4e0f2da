//! Answers, with their headers in the order in which kube-proxy's server writes them.
//!
//! In: status, headers and body of a page. Out: a response whose head is, byte for byte, what a client of kube-proxy
//! would see: the page's own headers first, then `Date` and `Content-Length`, then a content type that the page did
//! not choose itself.
//!
//! Invariants
//! - A body never contains text from a request that was not escaped.
//! - Every answer with a body carries its length, but for [`Reply::flow`], which comes in pieces.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::SystemTime;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Response, StatusCode};
use jiff::Timestamp;
use tokio::sync::mpsc;

use crate::entity::entity;

/// `X-Content-Type-Options: nosniff`.
pub(crate) const NOSNIFF: (HeaderName, &str) = (header::X_CONTENT_TYPE_OPTIONS, "nosniff");
/// JSON.
pub(crate) const JSON: (HeaderName, &str) = (header::CONTENT_TYPE, "application/json");
/// Plain text.
pub(crate) const PLAIN: (HeaderName, &str) = (header::CONTENT_TYPE, PLAIN_TYPE);
const PLAIN_TYPE: &str = "text/plain; charset=utf-8";
/// HTML.
pub(crate) const HTML: (HeaderName, &str) = (header::CONTENT_TYPE, HTML_TYPE);
const HTML_TYPE: &str = "text/html; charset=utf-8";

/// What a page answers.
#[derive(Debug)]
pub(crate) struct Reply {
    status: StatusCode,
    /// Headers that the page chose, in order.
    headers: Vec<(HeaderName, HeaderValue)>,
    /// Absent where kube-proxy's server sends no length.
    body: Option<Bytes>,
    /// A content type that kube-proxy's server works out from the body; it comes last.
    guessed_type: Option<&'static str>,
    /// Pieces that come later, instead of a body.
    pieces: Option<mpsc::Receiver<Bytes>>,
}

impl Reply {
    /// An answer with these headers. A value that is no legal header is left out.
    pub(crate) fn new<V: AsRef<[u8]>>(
        status: StatusCode,
        headers: impl IntoIterator<Item = (HeaderName, V)>,
        body: impl Into<Bytes>,
    ) -> Self {
        let legal =
            |(name, value): (HeaderName, V)| Some((name, HeaderValue::from_bytes(value.as_ref()).ok()?));
        Self {
            status,
            headers: headers.into_iter().filter_map(legal).collect(),
            body: Some(body.into()),
            guessed_type: None,
            pieces: None,
        }
    }

    /// 200 and pieces as they come, until nobody sends any more or the connection ends.
    pub(crate) fn flow<V: AsRef<[u8]>>(
        headers: impl IntoIterator<Item = (HeaderName, V)>,
        pieces: mpsc::Receiver<Bytes>,
    ) -> Self {
        Self { body: None, pieces: Some(pieces), ..Self::ok(headers, "") }
    }

    /// 200 with these headers.
    pub(crate) fn ok<V: AsRef<[u8]>>(
        headers: impl IntoIterator<Item = (HeaderName, V)>,
        body: impl Into<Bytes>,
    ) -> Self {
        Self::new(StatusCode::OK, headers, body)
    }

    /// Plain text without a header of its own.
    pub(crate) fn bare_text(body: impl Into<Bytes>) -> Self {
        Self { guessed_type: Some(PLAIN_TYPE), ..Self::ok::<&str>([], body) }
    }

    /// HTML without a header of its own.
    pub(crate) fn bare_html(body: impl Into<Bytes>) -> Self {
        Self { guessed_type: Some(HTML_TYPE), ..Self::ok::<&str>([], body) }
    }

    /// An error as plain text; a newline is added.
    pub(crate) fn error(status: StatusCode, text: &str) -> Self {
        Self::new(status, [PLAIN, NOSNIFF], format!("{text}\n"))
    }

    /// 404.
    pub(crate) fn not_found() -> Self {
        Self::error(StatusCode::NOT_FOUND, "404 page not found")
    }

    /// A status and nothing else, after which the connection ends.
    pub(crate) fn hang_up(status: StatusCode) -> Self {
        Self::new(status, [(header::CONNECTION, "close")], "")
    }

    /// 200 and nothing else.
    pub(crate) fn empty() -> Self {
        Self::ok([(header::CONTENT_LENGTH, "0")], "")
    }

    /// Sends a client elsewhere. Only GET gets a page to click on.
    pub(crate) fn redirect(status: StatusCode, to: &str, method: &Method) -> Self {
        let location = (header::LOCATION, to);
        let reason = status.canonical_reason().unwrap_or_default();
        match *method {
            Method::GET => {
                let page = format!("<a href=\"{}\">{reason}</a>.\n\n", escaped(to));
                Self::new(status, [HTML, location], page)
            }
            Method::HEAD => Self { body: None, ..Self::new(status, [HTML, location], "") },
            _ => Self::new(status, [location], ""),
        }
    }

    /// The response, dated.
    pub(crate) fn respond(self, now: SystemTime) -> Response<Content> {
        let content = match self.pieces {
            Some(pieces) => Content::Flow(pieces),
            None => Content::Whole(self.body.clone()),
        };
        let mut response = Response::new(content);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        for (name, value) in self.headers {
            headers.append(name, value);
        }
        if let Ok(date) = HeaderValue::try_from(http_date(now)) {
            headers.insert(header::DATE, date);
        }
        if let Some(body) = &self.body {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
        }
        if let Some(kind) = self.guessed_type {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        response
    }
}

/// A body.
pub(crate) enum Content {
    /// In one piece. Unlike other such bodies an empty one is a body too, so that its length stays where it was put among the headers.
    Whole(Option<Bytes>),
    /// In pieces, as they come.
    Flow(mpsc::Receiver<Bytes>),
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = |bytes| Ok(Frame::data(bytes));
        match &mut *self {
            Self::Whole(body) => Poll::Ready(body.take().map(piece)),
            Self::Flow(pieces) => pieces.poll_recv(context).map(|next| next.map(piece)),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => {
                let length = body.as_ref().map_or(0, Bytes::len);
                SizeHint::with_exact(u64::try_from(length).unwrap_or_default())
            }
            Self::Flow(_) => SizeHint::default(),
        }
    }
}

/// `Sun, 15 Nov 2026 23:39:49 GMT`.
fn http_date(now: SystemTime) -> String {
    let time = Timestamp::try_from(now).unwrap_or_default();
    time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// Text for use inside HTML.
fn escaped(text: &str) -> String {
    let mut page = String::with_capacity(text.len());
    for c in text.chars() {
        match entity(c) {
            Some(entity) => page.push_str(entity),
            None => page.push(c),
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn dates_are_those_of_http() {
        let time = UNIX_EPOCH + Duration::from_secs(784_111_777);
        assert_eq!(http_date(time), "Sun, 06 Nov 1994 08:49:37 GMT");
    }

    #[test]
    fn a_path_cannot_leave_its_attribute() {
        assert_eq!(escaped("/a\"><b>'&"), "/a&#34;&gt;&lt;b&gt;&#39;&amp;");
    }
}
