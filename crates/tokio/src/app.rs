//! An application with a command line around it.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::process::ExitCode;

use duality::Service;
use duality_architectures::{Needs, Served};
use http_body::Body;
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::service::TowerToHyperService;

use crate::form::Form;
use crate::instance::Instance;
use crate::{layouts, ours};

type AnyError = Box<dyn Error + Send + Sync>;

/// An application of the ecosystem's: axum, hyper, or any service of tower's.
///
/// It is given as a factory, which is called once for each runtime. Pools of clients belong to the
/// runtime that they are made on, so the factory makes them, too. What all runtimes of a process
/// share, the factory captures.
///
/// ```no_run
/// use axum::{Router, routing::get};
///
/// fn main() -> std::process::ExitCode {
///     let router = || Router::new().route("/", get(|| async { "hello" }));
///     duality_tokio::App::axum("hello", move || async move { Ok::<_, std::io::Error>(router()) })
///         .request("GET /")
///         .main()
/// }
/// ```
#[must_use = "an application that does not run its `main` does nothing"]
pub struct App {
    name: String,
    form: Form,
    needs: Needs,
    page: Option<String>,
}

impl App {
    /// An application of axum's, called `name`.
    ///
    /// One of tonic's is given as axum's, too: `Routes::into_axum_router`.
    pub fn axum<F, M, E>(name: &str, factory: F) -> Self
    where
        F: Fn() -> M + Send + Sync + 'static,
        M: Future<Output = Result<axum::Router, E>> + Send + 'static,
        E: Into<AnyError>,
    {
        Self::tower(name, factory)
    }

    /// Any service of tower's that answers requests of hyper's. It is cloned for each connection.
    pub fn tower<F, M, S, B, E>(name: &str, factory: F) -> Self
    where
        F: Fn() -> M + Send + Sync + 'static,
        M: Future<Output = Result<S, E>> + Send + 'static,
        S: tower::Service<Request<Incoming>, Response = Response<B>>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<AnyError>,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<AnyError>,
        E: Into<AnyError>,
    {
        let instance = |service| Instance::new(TowerToHyperService::new(service));
        Self::new(name, Form::new(factory, instance))
    }

    /// A service of hyper's, such as `hyper::service::service_fn` makes. It is cloned for each
    /// connection.
    pub fn hyper<F, M, S, B, E>(name: &str, factory: F) -> Self
    where
        F: Fn() -> M + Send + Sync + 'static,
        M: Future<Output = Result<S, E>> + Send + 'static,
        S: hyper::service::Service<Request<Incoming>, Response = Response<B>>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<AnyError>,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<AnyError>,
        E: Into<AnyError>,
    {
        Self::new(name, Form::new(factory, Instance::new))
    }

    fn new(name: &str, form: Form) -> Self {
        // What an application holds is shared, and it may send requests to itself.
        let needs =
            Needs { straight_line: true, shared_memory: true, concurrent_connections: true };
        Self { name: name.to_owned(), form, needs, page: None }
    }

    /// The request that `compare` makes, such as `GET /json`. Each reply must have the status 200,
    /// and the body of the first reply. Without it, the request is `GET /`.
    ///
    /// # Panics
    ///
    /// If it is no GET of a path.
    pub fn request(mut self, line: &str) -> Self {
        let path = line.strip_prefix("GET ").filter(|path| path.starts_with('/'));
        let path = path.unwrap_or_else(|| panic!("request: {line:?}: write it as \"GET /path\""));
        self.page = Some(path.to_owned());
        self
    }

    /// Says that no connection sees another connection's changes in memory. Each may then be served
    /// in a process of its own, so fork, prefork and tokio-prefork can carry the application.
    ///
    /// Nothing checks this.
    pub fn independent_connections(mut self) -> Self {
        self.needs.shared_memory = false;
        self
    }

    /// The application as a service of Duality's, for a program that serves it beside others, or a
    /// test.
    pub fn into_service(self) -> Service {
        let Self { name, form, needs, page } = self;
        let served = Served::new(&name, needs, ours::handler(form.clone())).with_foreign(form);
        Service::of(served)
            .with_architectures(layouts::ALL)
            .beside(layouts::RUNTIME)
            .page(page.as_deref().unwrap_or("/"))
    }

    /// Runs the command line of this application (`serve`, `compare`, `load` …), and returns what
    /// `main` is to return.
    ///
    /// Do not call it on a runtime: architectures with processes fork before there are threads.
    pub fn main(self) -> ExitCode {
        self.into_service().main()
    }
}

impl fmt::Debug for App {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("App").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn empty() -> App {
        App::axum("empty", || async { Ok::<_, io::Error>(axum::Router::new()) })
    }

    #[test]
    fn every_layout_is_offered_unless_it_lacks_what_the_application_needs() {
        let offered = empty().into_service().architectures();
        for layout in layouts::ALL {
            assert_eq!(offered.contains(&layout.name()), !layout.forks(), "{}", layout.name());
        }
    }

    #[test]
    #[should_panic(expected = "write it as \"GET /path\"")]
    fn a_request_is_a_get() {
        let _ = empty().request("POST /cart");
    }
}
