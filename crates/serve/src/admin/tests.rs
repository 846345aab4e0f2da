//! Who may have the socket, and what it answers.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::*;

/// Says what it was asked, at once or bit by bit.
struct Echo;

impl Responder for Echo {
    fn respond(&self, question: Question) -> Answering {
        let said = format!("{:?}", (question.path.as_str(), question.parameter("name")));
        if question.path != "/v1/long" {
            return Box::pin(async { Answer { status: 200, body: Body::Whole(said) } });
        }
        let (body, pieces) = Body::in_pieces();
        tokio::spawn(async move {
            for _ in 0..1000 {
                pieces.send(said.clone()).await.unwrap();
            }
        });
        Box::pin(async { Answer { status: 200, body } })
    }
}

async fn ask(path: &Path, head: &'static str) -> String {
    let path = path.to_owned();
    let exchange = move || -> io::Result<String> {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        stream.write_all(format!("{head}\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    tokio::task::spawn_blocking(exchange).await.unwrap().unwrap()
}

#[tokio::test]
async fn questions_are_answered_and_only_get_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new/admin.sock");
    let server = tokio::spawn(AdminSocket::bind(&path).unwrap().serve(Arc::new(Echo)));
    let answer = ask(&path, "GET /v1/x%20y?name=a&name=b%2Fc&broken=%zz HTTP/1.1").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with(r#"("/v1/x y", Some("b/c"))"#), "{answer}");
    // A client that does not know of pieces gets the body as it is.
    let answer = ask(&path, "GET /v1/long HTTP/1.0").await;
    assert!(answer.ends_with(&format!("\r\n\r\n{}", r#"("/v1/long", None)"#.repeat(1000))), "{answer}");
    let answer = ask(&path, "POST /v1/x HTTP/1.1\r\nContent-Length: 0").await;
    assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    server.abort();
    assert!(server.await.unwrap_err().is_cancelled());
    assert!(!path.exists(), "it goes with its process");
}

#[tokio::test]
async fn a_socket_in_use_is_left_alone_and_a_dead_one_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("admin.sock");
    let first = AdminSocket::bind(&path).unwrap();
    assert!(matches!(AdminSocket::bind(&path), Err(AdminError::Taken { .. })));
    let server = tokio::spawn(first.serve(Arc::new(Echo)));
    assert!(ask(&path, "GET / HTTP/1.1").await.contains("200 OK"), "still the first");
    server.abort();
    assert!(server.await.is_err());
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "a process died and left it");
    let again = AdminSocket::bind(&path).unwrap();
    drop(again);
    std::fs::write(&path, "notes").unwrap();
    assert!(matches!(AdminSocket::bind(&path), Err(AdminError::NoSocket { .. })));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "notes");
}
