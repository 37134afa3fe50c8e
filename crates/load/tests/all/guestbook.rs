//! Loads on a guestbook: pages that count their visitors, and forms that leave a remark.

use duality_load::{Options, Page, Target, run};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::{load, only_error, options, server};

/// What came in: the line of the request, and its form.
struct Request {
    line: String,
    close: bool,
    form: String,
}

fn read_request(reader: &mut impl BufRead) -> Option<Request> {
    let mut lines = reader.by_ref().lines().map_while(Result::ok);
    let line = lines.next()?;
    let headers: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
    let value = |name: &str| headers.iter().find_map(|line| line.strip_prefix(name));
    let mut form = vec![0; value("Content-Length: ").map_or(0, |digits| digits.parse().unwrap())];
    reader.read_exact(&mut form).ok()?;
    let form = String::from_utf8(form).unwrap();
    assert!(
        form.is_empty() || value("Content-Type: ") == Some("application/x-www-form-urlencoded")
    );
    Some(Request { line, close: value("Connection: ") == Some("close"), form })
}

/// A guestbook in memory. `spoil` may put something else in the place of a right answer, which it
/// gets with the number of the request over all connections.
fn guestbook(
    spoil: impl Fn(u64, String) -> String + Send + Sync + 'static,
) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let remarks = Arc::new(Mutex::new(Vec::new()));
    let (kept, visitors, requests) = (remarks.clone(), AtomicU64::new(0), AtomicU64::new(0));
    let address = server(move |mut stream: TcpStream, _| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while let Some(request) = read_request(&mut reader) {
            let number = requests.fetch_add(1, Ordering::Relaxed);
            let reply = if request.line == "GET /guestbook HTTP/1.1" {
                let visitors = visitors.fetch_add(1, Ordering::Relaxed) + 1;
                ok(&page(visitors))
            } else {
                assert_eq!(request.line, "POST /guestbook HTTP/1.1");
                kept.lock().unwrap().push(request.form);
                "HTTP/1.1 303 See Other\r\nLocation: /guestbook\r\nContent-Length: 0\r\n\r\n"
                    .to_owned()
            };
            let mut reply = spoil(number, reply);
            if request.close {
                reply = reply.replacen("\r\n", "\r\nConnection: close\r\n", 1);
            }
            if stream.write_all(reply.as_bytes()).is_err() || request.close {
                return;
            }
        }
    });
    (address, remarks)
}

fn page(visitors: u64) -> String {
    format!("<!DOCTYPE html><html><p id=\"visitors\">{visitors}</p></html>\n")
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn target(address: SocketAddr, post_every: u32) -> Target {
    let page = Page { host: address.to_string(), path: "/guestbook".to_owned() };
    Target::guestbook(address, page, post_every)
}

#[test]
fn pages_are_read_and_remarks_are_left() {
    for keep_alive in [true, false] {
        let (address, remarks) = guestbook(|_, right| right);
        let options = Options { keep_alive, ..options(target(address, 10), 5, 500) };
        let report = load(&options);
        assert_eq!((report.requests, report.errors.len()), (500, 0), "{:?}", report.errors);
        assert_eq!(report.connections_opened, if keep_alive { 5 } else { 500 });
        let mut remarks = remarks.lock().unwrap().clone();
        // Each connection rounds as it likes.
        assert!((45..=55).contains(&remarks.len()), "{}", remarks.len());
        for remark in &*remarks {
            assert!(remark.starts_with("guest-name=Zo%C3%AB+%3C"), "{remark}");
            assert!(remark.contains("&guest-remarks=1+%2B+1+%3C+3+%26+"), "{remark}");
        }
        remarks.sort();
        assert!(remarks.iter().is_sorted_by(|one, next| one < next), "a remark came twice");
    }
}

#[test]
fn every_so_many_requests_is_never_or_always() {
    for (post_every, expected) in [(0, 0), (1, 50)] {
        let (address, remarks) = guestbook(|_, right| right);
        let report = load(&options(target(address, post_every), 2, 50));
        assert_eq!((report.requests, remarks.lock().unwrap().len()), (50, expected));
    }
}

#[test]
fn a_page_that_is_not_as_it_should_be_is_wrong() {
    let wrong: [fn(String) -> String; 5] = [
        |_| ok(&page(1)),
        |right| right.replace("</html>", "</HTML>"),
        |right| right.replace("visitors", "visitor2"),
        |right| right.replace("</p>", "x/p>"),
        |_| ok("<html><p id=\"visitors\">900</p><p id=\"visitors\">0</p></html>"),
    ];
    for wrong in wrong {
        let (address, _) =
            guestbook(move |number, right| if number == 5 { wrong(right) } else { right });
        let report = load(&options(target(address, 0), 1, 20));
        assert_eq!((report.requests, only_error(&report)), (19, ("wrong-bytes", 1)));
    }
}

#[test]
fn a_post_leads_back_to_the_page() {
    for (wrong, kind) in [
        (ok(&page(1_000)), "wrong-status"),
        ("HTTP/1.1 303 See Other\r\nContent-Length: 0\r\n\r\n".to_owned(), "wrong-bytes"),
        (
            "HTTP/1.1 303 See Other\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n".to_owned(),
            "wrong-bytes",
        ),
    ] {
        let (address, _) =
            guestbook(move |number, right| if number == 5 { wrong.clone() } else { right });
        let report = load(&options(target(address, 1), 1, 20));
        assert_eq!((report.requests, only_error(&report)), (19, (kind, 1)));
    }
}

#[test]
fn a_store_that_is_away_is_an_error_of_its_own() {
    let away = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
    let (address, _) =
        guestbook(move |number, right| if number % 2 == 1 { away.to_owned() } else { right });
    let report = load(&options(target(address, 3), 1, 20));
    assert_eq!((report.requests, only_error(&report)), (10, ("store-unavailable", 10)));
}

#[test]
fn a_store_that_is_away_at_the_start_is_told_before_the_load() {
    let away = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
    let (address, _) = guestbook(move |_, _| away.to_owned());
    let options = options(target(address, 10), 1, 1);
    let error = run(&options, &mut (), &AtomicBool::new(false)).unwrap_err().to_string();
    assert!(error.contains(&format!("guestbook://{address}/guestbook: ")), "{error}");
    assert!(error.ends_with("is its store (--store) running?"), "{error}");
}
