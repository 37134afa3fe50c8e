//! An application with its command line.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::process::ExitCode;

use duality::Service;
use duality_architectures::Needs;
use http_body::Body;
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::service::TowerToHyperService;

use crate::client::ClientInfo;
use crate::form::Form;
use crate::instance::Instance;
use crate::{layouts, ours};

type AnyError = Box<dyn Error + Send + Sync>;

/// The default of `--stack-size`. A handler of axum without optimisation may need more than the
/// 128 KiB of other services.
const STACK: usize = 1 << 20;

/// An application of axum, of hyper, or any service of tower.
///
/// An application is given as a factory, which is called once for each runtime. The factory also
/// makes pools of clients, since a pool belongs to the runtime that it is made on. The factory
/// captures the state that all runtimes of a process share. [`made_once`](Self::made_once) has the
/// factory called once for each process.
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
    /// Makes an application of axum, called `name`.
    ///
    /// Use this for an application of tonic, too: `Routes::into_axum_router`.
    pub fn axum<F, M, E>(name: &str, factory: F) -> Self
    where
        F: Fn() -> M + Send + Sync + 'static,
        M: Future<Output = Result<axum::Router, E>> + Send + 'static,
        E: Into<AnyError>,
    {
        Self::tower(name, factory)
    }

    /// Makes an application of any service of tower that answers requests of hyper. Each connection
    /// has its own clone of the service.
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

    /// Makes an application of a service of hyper, such as the result of
    /// `hyper::service::service_fn`. Each connection has its own clone of the service.
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
        // The connections of an application share its state, and an application may send requests
        // to itself.
        let needs =
            Needs { straight_line: true, shared_memory: true, concurrent_connections: true };
        Self { name: name.to_owned(), form, needs, page: None }
    }

    /// Sets the request that `compare` makes, such as `GET /json`. Each reply must have the status
    /// 200, and the body of the first reply. The default is `GET /`.
    ///
    /// # Panics
    ///
    /// Panics if `line` is no GET of a path.
    pub fn request(mut self, line: &str) -> Self {
        let path = line.strip_prefix("GET ").filter(|path| path.starts_with('/'));
        let path = path.unwrap_or_else(|| panic!("request: {line:?}: write it as \"GET /path\""));
        self.page = Some(path.to_owned());
        self
    }

    /// Has the factory called once for each process, on the first runtime. All runtimes share the
    /// application, and the first one runs the tasks that the factory spawns.
    ///
    /// Use this for a factory that must not be called again: it migrates a database, or starts a
    /// background job. An outgoing client is shared, too. Its pooled connections stay on the
    /// runtimes that made them.
    pub fn made_once(mut self) -> Self {
        self.form = self.form.made_once();
        self
    }

    /// Adds what `info` makes of the client's address to each request, as an extension. For axum,
    /// this is its own type, `.connect_info(axum::extract::ConnectInfo)`: then handlers can extract
    /// `ConnectInfo<SocketAddr>`, as with `into_make_service_with_connect_info`.
    pub fn connect_info<T: Clone + Send + Sync + 'static>(
        mut self,
        info: impl Fn(SocketAddr) -> T + Send + Sync + 'static,
    ) -> Self {
        self.form = self.form.with_client_info(ClientInfo::new(info));
        self
    }

    /// Declares that no connection sees another connection's changes in memory. Each connection may
    /// then have its own process, so fork, prefork and tokio-prefork can carry the application.
    ///
    /// No code checks this declaration.
    pub fn independent_connections(mut self) -> Self {
        self.needs.shared_memory = false;
        self
    }

    /// The application as a service of Duality, for a test, or for a program that serves several
    /// services.
    pub fn into_service(self) -> Service {
        let Self { name, form, needs, page } = self;
        let served = ours::served(&name, needs, form.clone()).with_foreign(form.clone());
        let service = Service::of(served)
            .with_architectures(layouts::ALL)
            .beside(layouts::RUNTIME)
            .stack_size(STACK)
            .page(page.as_deref().unwrap_or("/"));
        #[cfg(feature = "rustls")]
        let service = secure::by_tls(service, form);
        service
    }

    /// Runs the command line of this application (`serve`, `compare`, `load` …), and returns the
    /// exit code for `main`.
    ///
    /// Do not call this function on a runtime: architectures with processes fork before there are
    /// threads.
    pub fn main(self) -> ExitCode {
        self.into_service().main()
    }
}

/// TLS before an application, which agrees on HTTP/2 or HTTP/1.1.
#[cfg(feature = "rustls")]
mod secure {
    use std::sync::Arc;

    use duality::Service;
    use duality_runtime::net::tls::{HTTP_1, HTTP_2};

    use crate::form::Form;
    use crate::socket::Security;

    /// Has the service served by TLS: a handshake comes first on our streams, and tokio's layouts
    /// make their own.
    pub(super) fn by_tls(service: Service, form: Form) -> Service {
        service.secured_by(move |served, acceptor| {
            let acceptor = Arc::new(acceptor.offering(&[HTTP_2, HTTP_1]));
            let form = form.clone().secured(Security::by(acceptor.clone()));
            let first = move |stream: duality_runtime::net::TcpStream| {
                let acceptor = acceptor.clone();
                async move { stream.accept_tls(&acceptor, acceptor.handshake_time()).await }
            };
            served.after(first).with_foreign(form)
        })
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
            assert_eq!(
                offered.contains(&layout.name()),
                !layout.about().forks,
                "{}",
                layout.name()
            );
        }
    }

    #[test]
    #[should_panic(expected = "write it as \"GET /path\"")]
    fn a_request_is_a_get() {
        let _ = empty().request("POST /cart");
    }
}
