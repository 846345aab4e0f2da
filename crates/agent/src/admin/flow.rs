//! A selected list in one answer, page after page, so that labels are looked up once for all of it.
//!
//! In: a list, and the first page of it. Out: pieces of JSON. The loop makes a page when the piece before has been taken, so neither it nor
//! the memory is held for longer than by any other page. Trouble on the way ends the answer as a page ends, with the place to go on from:
//! who asks again is told of it.

use std::sync::Arc;

use serde_json::{Value, json};
use switchyard_serve::admin::{Body, HungUp, Pieces};

use super::page::{Looks, Page};
use super::{List, Refusal, ask};
use crate::board::Board;

/// The answer from this page on.
pub(super) async fn whole(board: Arc<Board>, list: List, page: Page) -> Result<Body, Refusal> {
    let first = one(&board, list, page.clone()).await?;
    let (body, pieces) = Body::in_pieces();
    tokio::spawn(async move {
        // Who has hung up wants nothing more.
        let _ = send(&board, list, &page, first, &pieces).await;
    });
    Ok(body)
}

async fn one(board: &Board, list: List, page: Page) -> Result<Value, Refusal> {
    ask(board, move |view| list(view, &page, &mut Looks::default())).await
}

async fn send(
    board: &Board,
    list: List,
    page: &Page,
    mut made: Value,
    pieces: &Pieces,
) -> Result<(), HungUp> {
    pieces.send(beginning(&made)).await?;
    let mut between = "";
    loop {
        let items = made.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let texts: Vec<String> = items.iter().map(Value::to_string).collect();
        if !texts.is_empty() {
            pieces.send(format!("{between}{}", texts.join(","))).await?;
            between = ",";
        }
        let next = made.get("continue").cloned().unwrap_or_default();
        let Some(token) = next.as_str() else { return pieces.send(end(&next)).await };
        made = match one(board, list, page.behind(token)).await {
            Ok(made) => made,
            Err(_) => return pieces.send(end(&next)).await,
        };
    }
}

/// Everything before the first item.
fn beginning(made: &Value) -> String {
    let fields = made.as_object().into_iter().flatten();
    let head = fields.filter(|(name, _)| !["items", "continue"].contains(&name.as_str()));
    let head: String = head.map(|(name, value)| format!("{}:{value},", json!(name))).collect();
    format!("{{{head}\"items\":[")
}

fn end(next: &Value) -> String {
    format!("],\"continue\":{next}}}\n")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::Ipv4Addr;
    use std::os::unix::net::UnixStream;
    use std::path::PathBuf;

    use switchyard_serve::admin::{Answer, Answering, Question, Responder};

    use super::*;
    use crate::shelf::{World, manifests, port};

    const SERVICES: u32 = 3_000;

    fn name(n: u32) -> String {
        format!("web-{n:04}")
    }

    /// Every Service but each tenth has the label.
    fn files(at: PathBuf) {
        let service = |n: u32| {
            let label = if n.is_multiple_of(10) { "other" } else { "app" };
            json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": { "namespace": "shop", "name": name(n), "labels": { label: "web" } },
            })
        };
        let list = json!({ "kind": "List", "items": (0..SERVICES).map(service).collect::<Vec<_>>() });
        std::fs::write(at, list.to_string()).unwrap();
    }

    fn world() -> World {
        let port = |n: u32| {
            port(&format!("shop/{}", name(n)), &Ipv4Addr::from_bits(0x0a60_0000 + n).to_string(), &[])
        };
        World::new(&(0..SERVICES).map(port).collect::<Vec<_>>())
    }

    /// The body of an answer; `on_first` is called when the first of it has come.
    fn get(socket: PathBuf, query: &str, on_first: impl FnOnce()) -> Value {
        let mut stream = UnixStream::connect(socket).unwrap();
        write!(stream, "GET /v1/services?{query} HTTP/1.0\r\n\r\n").unwrap();
        let mut text = vec![0; 100];
        stream.read_exact(&mut text).unwrap();
        on_first();
        stream.read_to_end(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    #[test]
    fn everything_that_is_chosen_comes_at_once_and_is_looked_up_once() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("services.json");
        files(file.clone());
        let (answer, questions) = world().asked(manifests(directory.path().into()), |socket| {
            // Whatever looks again finds nothing.
            get(socket, "selector=app%3Dweb", || std::fs::remove_file(file).unwrap())
        });
        let items = answer["items"].as_array().unwrap();
        assert_eq!((items.len(), &items[0]["name"]), (2_700, &json!(name(1))));
        assert_eq!((&answer["kind"], &answer["selector"]), (&json!("ServicePortList"), &json!("app=web")));
        assert_eq!((&answer["continue"], questions), (&Value::Null, 6), "the loop is asked page by page");
    }

    /// A list whose second page cannot be had.
    struct Failing(Arc<Board>);

    impl Responder for Failing {
        fn respond(&self, _: Question) -> Answering {
            let list: List = |_, page, _| match page.token {
                None => Ok(page.answer("List", &[json!(1), json!(2)], Some("here"))),
                Some(_) => Err((503, "busy".to_owned())),
            };
            let answer = whole(self.0.clone(), list, Page::default());
            Box::pin(async { Answer { status: 200, body: answer.await.unwrap() } })
        }
    }

    #[test]
    fn trouble_on_the_way_is_the_end_of_a_page() {
        let board = Board::new();
        let failing = Arc::new(Failing(board.clone()));
        let (answer, questions) = world().serving(&board, failing, |socket| get(socket, "", || ()));
        let want = json!({ "apiVersion": "v1", "kind": "List", "items": [1, 2], "continue": "here" });
        assert_eq!((answer, questions), (want, 2));
    }

    #[test]
    fn a_page_may_be_asked_for_and_nothing_chosen_is_a_list() {
        let directory = tempfile::tempdir().unwrap();
        files(directory.path().join("services.json"));
        let (answers, _) = world().asked(manifests(directory.path().into()), |socket| {
            let ask = |query: &str| get(socket.clone(), query, || ());
            [
                ask("selector=app%3Dweb&limit=2"),
                ask("selector=app%3Dnobody"),
                ask("selector=other&name=web-0010"),
            ]
        });
        let counts = answers.each_ref().map(|answer| answer["items"].as_array().unwrap().len());
        assert_eq!(counts, [2, 0, 1]);
        assert!(answers[0]["continue"].is_string() && answers[1]["continue"].is_null(), "{answers:?}");
    }
}
