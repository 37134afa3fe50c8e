//! `--metrics`: a server's counters, for Prometheus, and its health. docs/operations.md lists the
//! names.
//!
//! ```text
//!   scraper ──▶ GET /metrics ──▶ families: counters ──▶ text, by prometheus-client
//!               GET /healthz ──▶ 200; 503 before the server listens, or while it drains
//!   browser ──▶ GET /        ──▶ shown: counters ──▶ a live page, on the loopback device alone
//! ```
//!
//! A separate kernel thread answers, so no scrape takes a turn of the measured architecture. The
//! counters exist in any case. Only the histogram of latencies is kept for this flag.

mod families;
pub(crate) mod page;
mod processor;
mod shown;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{panic, thread};

use duality_architectures::common::children;
use duality_architectures::common::pressure::remedy;
use duality_lab::live;
use duality_lab::live::server::{self, Answer, Reply, Request, Site};
use duality_runtime::{drain, log, shared, visibility};
use prometheus_client::encoding::prometheus_text::{CONTENT_TYPE, encode};
use prometheus_client::registry::Registry;

use self::families::Families;
use self::shown::Shown;
use crate::failure::{Failure, Party};
use crate::watch::Subject;

/// The metrics of a server, while they are served.
pub(crate) struct Metrics {
    is_ready: Arc<AtomicBool>,
    /// The address of the live page, if there is one.
    pub(crate) page: Option<String>,
}

impl Metrics {
    /// Listens at `address`, prints the address, and starts the thread that answers. Call this
    /// before connections are accepted and processes are forked. `forks` says that there will be
    /// child processes.
    ///
    /// # Errors
    ///
    /// If the address, memory or a thread is not available.
    pub(crate) fn start(
        address: SocketAddr,
        subject: &Subject,
        forks: bool,
    ) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            let remedy = match error.kind() {
                std::io::ErrorKind::AddrInUse => {
                    ": choose another address (port 0 takes a free one)"
                }
                _ => remedy(&error),
            };
            Failure::new(Party::Machine, format!("--metrics {address}: {error}{remedy}"))
        };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        visibility::prepare_latencies().map_err(failed)?;
        let registry = registry(subject, Families::new(forks, count_panics()));
        let is_ready = Arc::new(AtomicBool::new(false));
        let shown = address.ip().is_loopback().then(|| Shown::new(subject.clone()));
        let page = shown.is_some().then(|| format!("http://{address}/"));
        let endpoint = Endpoint { registry, is_ready: is_ready.clone(), shown };
        children::helper();
        thread::Builder::new()
            .name("metrics".into())
            .spawn(move || server::serve(&listener, &endpoint))
            .map_err(failed)?;
        let and = page.as_ref().map_or(String::new(), |page| format!(", live page at {page}"));
        log::tell(format_args!("metrics at http://{address}/metrics{and}"));
        Ok(Self { is_ready, page })
    }

    /// The server listens, and is healthy until it drains.
    pub(crate) fn server_is_ready(&self) {
        self.is_ready.store(true, Ordering::Relaxed);
    }
}

fn registry(subject: &Subject, families: Families) -> Registry {
    let Subject { service, architecture } = subject;
    let labels = [
        ("architecture".into(), (*architecture).into()),
        ("service".into(), service.clone().into()),
    ];
    let mut registry = Registry::with_prefix_and_labels("duality", labels.into_iter());
    registry.register_collector(Box::new(families));
    registry
}

/// What the endpoint shows.
struct Endpoint {
    registry: Registry,
    is_ready: Arc<AtomicBool>,
    /// The live page. `None` at an address that other hosts can reach.
    shown: Option<Shown>,
}

impl Site for Endpoint {
    fn reply(&self, request: &Request) -> Option<Reply> {
        let page = || {
            let shown = self.shown.as_ref().filter(|_| live::is_of_this_host(&request.host))?;
            live::reply(&request.path, || shown.state())
        };
        answer(&request.path, &self.registry, &self.is_ready).map(Reply::Page).or_else(page)
    }

    fn state(&self) -> (u64, Arc<str>) {
        self.shown.as_ref().map_or((0, Arc::default()), Shown::json)
    }
}

fn answer(path: &str, registry: &Registry, is_ready: &AtomicBool) -> Option<Answer> {
    let plain =
        |status, body: &str| Answer { status, content_type: "text/plain", body: body.into() };
    Some(match path {
        "/metrics" => {
            let mut body = String::new();
            match encode(&mut body, registry) {
                Ok(()) => Answer { status: "200 OK", content_type: CONTENT_TYPE, body },
                Err(error) => plain("500 Internal Server Error", &format!("{error}\n")),
            }
        }
        "/healthz" if drain::requested() => plain("503 Service Unavailable", "draining\n"),
        "/healthz" if !is_ready.load(Ordering::Relaxed) => {
            plain("503 Service Unavailable", "starting\n")
        }
        "/healthz" => plain("200 OK", "ok\n"),
        _ => return None,
    })
}

/// Counts panics of this process and its children from now on, in addition to the existing hook.
pub(crate) fn count_panics() -> &'static AtomicU64 {
    let [panics]: &'static [AtomicU64; 1] = shared::words();
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        panics.fetch_add(1, Ordering::Relaxed);
        report(panic);
    }));
    panics
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject() -> Subject {
        Subject { service: "http".into(), architecture: "epoll" }
    }

    #[test]
    fn each_family_has_its_labels() {
        static NONE: AtomicU64 = AtomicU64::new(0);
        visibility::prepare_latencies().unwrap();
        let registry = registry(&subject(), Families::new(false, &NONE));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let labels = r#"architecture="epoll",service="http""#;
        for sample in [
            format!("duality_requests_total{{{labels}}} "),
            format!("duality_connections_open{{{labels}}} "),
            format!("duality_connections_refused_total{{{labels},reason=\"rate\"}} 0\n"),
            format!("duality_request_duration_seconds_bucket{{{labels},le=\"+Inf\"}} "),
            format!("duality_process_cpu_seconds_total{{{labels}}} "),
        ] {
            assert!(text.contains(&sample), "{sample}: {text}");
        }
    }

    #[test]
    fn a_page_is_for_this_machine_alone() {
        visibility::prepare_latencies().unwrap();
        let has_page = |shown, host: &str| {
            let (registry, is_ready) = (Registry::default(), Arc::default());
            let request = Request { path: "/".to_owned(), host: host.to_owned() };
            Endpoint { registry, is_ready, shown }.reply(&request).is_some()
        };
        assert!(has_page(Some(Shown::new(subject())), "localhost:9100"));
        assert!(!has_page(Some(Shown::new(subject())), "elsewhere.example:9100"));
        assert!(!has_page(None, "localhost:9100"));
    }

    #[test]
    fn a_server_is_healthy_once_it_listens() {
        let registry = Registry::default();
        let ready = AtomicBool::new(false);
        let status = |path| answer(path, &registry, &ready).map(|answer| answer.status);
        assert_eq!(status("/healthz"), Some("503 Service Unavailable"));
        ready.store(true, Ordering::Relaxed);
        assert_eq!(status("/healthz"), Some("200 OK"));
        assert_eq!(status("/"), None);
    }
}
