//! Tests the guestbook over real sockets, in the block world, with its store in a file.

use std::{
    fs,
    net::{Shutdown, SocketAddr},
    path::{Path, PathBuf},
};

use duality_services::{
    guestbook::Guestbook,
    http::{Config, Limits},
    store::{Location, Options, Store},
};
use rustix::net::{AddressFamily, SocketType};
use tempfile::TempDir;

use crate::http_client::{Client, Reply, get, get_with, serve_connections};

/// A guestbook with an empty directory of templates.
struct Server {
    directory: TempDir,
    address: SocketAddr,
}

impl Server {
    fn start() -> Self {
        let directory = TempDir::new().unwrap();
        let templates = directory.path().join("templates");
        fs::create_dir(&templates).unwrap();
        let address = start(Some(&templates), &store(directory.path()));
        Server { directory, address }
    }

    fn template(&self, name: &str) -> PathBuf {
        self.directory.path().join("templates").join(name)
    }

    fn client(&self) -> Client {
        Client::connect(self.address)
    }
}

fn store(directory: &Path) -> String {
    format!("sqlite:{}", directory.join("store").display())
}

fn start(templates: Option<&Path>, store: &str) -> SocketAddr {
    let location: Location = store.parse().unwrap();
    let store = Store::new(&location, Options::default()).unwrap();
    let config = Config { root: None, limits: Limits::default() };
    let guestbook = Guestbook::new(config, templates, store).unwrap();
    serve_connections(move |stream| {
        let guestbook = guestbook.clone();
        async move { guestbook.serve(stream).await }
    })
}

fn text(reply: &Reply) -> &str {
    std::str::from_utf8(&reply.body).unwrap()
}

/// The number that the page shows.
fn visitors(reply: &Reply) -> u64 {
    assert_eq!(reply.code, 200);
    let (_, after) = text(reply).split_once("<span id=\"visitors\">").unwrap();
    after.split_once("</span>").unwrap().0.parse().unwrap()
}

fn post_with(fields: &str, form: &str) -> String {
    let length = form.len();
    format!(
        "POST /guestbook HTTP/1.1\r\nHost: here:80\r\nContent-Length: {length}\r\n{fields}\r\n\r\n{form}"
    )
}

const TYPE: &str = "Content-Type: application/x-www-form-urlencoded";

fn post(form: &str) -> String {
    post_with(TYPE, form)
}

#[test]
fn guests_are_counted_and_their_remarks_shown() {
    let server = Server::start();
    let mut client = server.client();
    let empty = client.ask(&get("/guestbook"));
    assert_eq!(visitors(&empty), 1);
    assert!(text(&empty).contains("Nobody has signed yet"));
    assert_eq!(empty.field("Cache-Control"), Some("no-store"));

    let signed =
        client.ask(&post("guest-name=Bj%C3%B6rn+%26+co&guest-remarks=%3Cb%3Eone%0D%0Atwo&x=y"));
    assert_eq!((signed.code, signed.field("Location")), (303, Some("/guestbook")));
    let page = client.ask(&get("/guestbook?any=query"));
    assert_eq!(visitors(&page), 2);
    assert!(text(&page).contains("<bdi>Björn &amp; co</bdi>"), "{}", text(&page));
    assert!(text(&page).contains("<bdi>&lt;b&gt;one\ntwo</bdi>"), "{}", text(&page));

    for number in 0..25 {
        assert_eq!(client.ask(&post(&format!("guest-name=n{number}&guest-remarks=r"))).code, 303);
    }
    let page = client.ask(&get("/guestbook"));
    let guests: Vec<&str> = text(&page)
        .split("<h2><bdi>")
        .skip(1)
        .map(|after| after.split('<').next().unwrap())
        .collect();
    let newest: Vec<String> = (5..25).rev().map(|number| format!("n{number}")).collect();
    assert_eq!(guests, newest);

    let head = client.ask("HEAD /guestbook HTTP/1.1\r\nHost: here\r\n\r\n");
    assert_eq!(head.code, 200);
    // The server still serves the files.
    assert_eq!(client.ask(&get("/")).body.len(), 305);
    assert_eq!(client.ask(&get("/guestbook/")).code, 404);
    let refused = client.ask("DELETE /guestbook HTTP/1.1\r\nHost: here\r\n\r\n");
    assert_eq!((refused.code, refused.field("Allow")), (405, Some("GET, HEAD, POST, OPTIONS")));
}

#[test]
fn a_remark_that_is_not_taken_comes_back_with_the_reason() {
    let server = Server::start();
    let mut client = server.client();
    for (form, reason) in [
        ("", "who you are"),
        ("guest-name=+&guest-remarks=x", "who you are"),
        ("guest-name=Ada+%22L%22&guest-remarks=", "leave a remark"),
        ("guest-name=Ada&guest-remarks=a%00b", "control characters"),
        (&format!("guest-name={}&guest-remarks=x", "a".repeat(65)), "64 characters"),
        (&format!("guest-name=a&guest-remarks={}", "x".repeat(1001)), "1,000 characters"),
    ] {
        let reply = client.ask(&post(form));
        assert_eq!(reply.code, 422, "{form}");
        assert!(text(&reply).contains(reason), "{form}: {}", text(&reply));
        assert!(!text(&reply).contains("id=\"visitors\""));
    }
    let reply = client.ask(&post("guest-name=Ada+%22L%22&guest-remarks=%3C/textarea%3E%00"));
    assert!(text(&reply).contains("value=\"Ada &quot;L&quot;\""), "{}", text(&reply));
    assert!(text(&reply).contains("&lt;&#x2f;textarea&gt;"), "{}", text(&reply));
    for form in ["guest-name=a&guest-name=b&guest-remarks=c", "guest-name=%", "guest-name=%ff"] {
        assert_eq!(client.ask(&post(form)).code, 400, "{form}");
    }
    let page = client.ask(&get("/guestbook"));
    assert!(text(&page).contains("Nobody has signed yet"));
    assert_eq!(visitors(&page), 1);
}

#[test]
fn what_is_no_form_of_ours_is_refused() {
    let server = Server::start();
    let form = "guest-name=a&guest-remarks=b";
    let typed = |fields: &str| post_with(&format!("{TYPE}\r\n{fields}"), form);
    for (request, code) in [
        (post_with("Content-Type: multipart/form-data; boundary=x", form), 415),
        (post_with("X: y", form), 415),
        (typed("Sec-Fetch-Site: cross-site"), 403),
        (typed("Sec-Fetch-Site: same-site\r\nOrigin: http://here:80"), 403),
        (typed("Sec-Fetch-Site: none\r\nSec-Fetch-Site: none"), 400),
        (typed("Origin: http://elsewhere"), 403),
        (typed("Origin: http://here"), 403),
        (typed("Origin: null"), 403),
        (typed("Origin: ftp://here:80"), 403),
        (typed("Origin: http://HERE:80"), 303),
        (typed("Origin: https://here:80"), 303),
        (typed("Sec-Fetch-Site: none"), 303),
        (typed("Sec-Fetch-Site: same-origin\r\nOrigin: null"), 303),
    ] {
        let mut client = server.client();
        let reply = client.ask(&request);
        assert_eq!(reply.code, code, "{request:?}");
        assert_eq!(reply.field("Accept").is_some(), code == 415, "{request:?}");
        // The body has been read, so the connection is still good.
        assert_eq!(client.ask(&get("/")).code, 200, "{request:?}");
    }
    let mut client = server.client();
    let long = post_with(&format!("{TYPE}\r\nExpect: 100-continue"), &"x".repeat((16 << 10) + 1));
    client.send(long.split("\r\n\r\n").next().unwrap());
    client.send("\r\n\r\n");
    assert_eq!(client.receive(false).code, 413);
    client.stream.shutdown(Shutdown::Write).unwrap();
    client.expect_end();
}

#[test]
fn templates_are_dropped_in_and_changed() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(client.ask(&get("/about")).code, 404);
    fs::write(server.template("about.html"), "About <b>{{ visitors }}</b>").unwrap();
    assert_eq!(text(&client.ask(&get("/about"))), "About <b>1</b>");
    assert_eq!(client.ask("POST /about HTTP/1.1\r\nHost: h\r\n\r\n").code, 405);
    // This template shows nothing of the store, so it does not count the visitor.
    fs::write(server.template("plain.html"), "{{ refusal }}Plain").unwrap();
    assert_eq!(text(&client.ask(&get("/plain"))), "Plain");
    assert_eq!(visitors(&client.ask(&get("/guestbook"))), 2);
    fs::write(server.template("broken.html"), "{% for %}").unwrap();
    assert_eq!(client.ask(&get("/broken")).code, 500);
    fs::create_dir(server.template("directory.html")).unwrap();
    assert_eq!(client.ask(&get("/directory")).code, 500);
    std::os::unix::fs::symlink("/etc/hostname", server.template("outside.html")).unwrap();
    assert_eq!(client.ask(&get("/outside")).code, 500);
    for outside in ["/../about", "/a.b", "/sub/about", "/%2e%2e%2fabout"] {
        assert_ne!(client.ask(&get(outside)).code, 200, "{outside}");
    }

    // By its own clock, the server sees a change after a second. The client's read time-out ends
    // this loop.
    let until = |target: &str, expected: &str| {
        loop {
            let reply = server.client().ask(&get_with(target, "Connection: close"));
            if text(&reply).contains(expected) {
                return reply.code;
            }
            std::thread::yield_now();
        }
    };
    fs::write(server.template("broken.html"), "mended").unwrap();
    assert_eq!(until("/broken", "mended"), 200);
    fs::write(server.template("guestbook.html"), "own: {{ remarks|length }}").unwrap();
    assert_eq!(until("/guestbook", "own: 0"), 200);
    fs::remove_file(server.template("guestbook.html")).unwrap();
    assert_eq!(until("/guestbook", "<span id=\"visitors\">"), 200);
    fs::remove_file(server.template("about.html")).unwrap();
    assert_eq!(until("/about", "There is nothing by this name"), 404);
}

#[test]
fn without_the_store_there_is_the_rest() {
    // This port is taken, but has no listener.
    let holder = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&holder, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let name = rustix::net::getsockname(&holder).unwrap();
    let port = SocketAddr::try_from(name).unwrap().port();
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("plain.html"), "Plain").unwrap();
    let address = start(Some(directory.path()), &format!("redis://127.0.0.1:{port}"));
    let mut client = Client::connect(address);
    for request in [get("/guestbook"), post("guest-name=a&guest-remarks=b")] {
        let reply = client.ask(&request);
        assert_eq!((reply.code, reply.field("Retry-After")), (503, Some("1")));
        assert_eq!(reply.field("Connection"), None);
    }
    assert_eq!(client.ask(&post("guest-name=&guest-remarks=b")).code, 422);
    assert_eq!(text(&client.ask(&get("/plain"))), "Plain");
    assert_eq!(client.ask(&get("/")).code, 200);
}

#[test]
fn a_templates_directory_that_cannot_be_opened_is_named() {
    let directory = TempDir::new().unwrap();
    let store: Location = store(directory.path()).parse().unwrap();
    let store = Store::new(&store, Options::default()).unwrap();
    let missing = directory.path().join("missing");
    let message =
        Guestbook::new(Config::default(), Some(&missing), store).err().unwrap().to_string();
    assert!(message.contains("/missing") && message.contains("give a directory"), "{message}");
}
