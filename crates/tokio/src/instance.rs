//! An application as made for one runtime. An instance serves connections.
//!
//! ```text
//!   hyper or tower service ── Instance::new ──▶ Instance ── serve_on_tokio ──▶ a connection's future
//!                                                        └─ serve_on_ours ───▶ the same, on our stream
//! ```
//!
//! One generic function, [`serve`], reads requests by hyper and calls the application. [`serve`] is
//! compiled for both kinds of streams. [`Requests`] is the only layer of ours that requests pass
//! through.

use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use duality_runtime::drain::FIRST_BYTES;
use duality_runtime::drained;
use duality_runtime::hyper::Timer;
use http_body::Body;
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::{Builder, HttpServerConnExec};
use tokio::net::TcpStream;
use tokio::time::{Duration, sleep};

use crate::beside::Tasks;
use crate::client::{Client, ClientInfo};
use crate::drain::Closing;
use crate::failure::of_connection;
use crate::requests::{Answer, Requests};

/// The time in which a client must send the head of a request.
const HEAD: Duration = Duration::from_secs(30);

/// A connection that is being served, until it ends.
pub(crate) type Serving = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

type OnOurs = dyn Fn(duality_runtime::net::TcpStream, Client) -> Serving + Send + Sync;
type OnTokio = dyn Fn(TcpStream, Client, Closing) -> Serving + Send + Sync;

/// See the [module](self). A clone stands for the same instance.
#[derive(Clone)]
pub(crate) struct Instance {
    on_tokio: Arc<OnTokio>,
    on_ours: Arc<OnOurs>,
    client_info: ClientInfo,
}

impl Instance {
    /// Makes an instance of a service of hyper. Each connection has its own clone of the service.
    pub(crate) fn new<S, B>(service: S) -> Self
    where
        S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<Box<dyn Error + Send + Sync>>,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let of_ours = service.clone();
        let on_tokio = Arc::new(move |stream, client, closing: Closing| -> Serving {
            let service = service.clone();
            Box::pin(async move {
                let builder = builder(TokioExecutor::new(), TokioTimer::new());
                let requests = Requests::new(service, client);
                serve(&builder, TokioIo::new(stream), requests, closing.requested()).await
            })
        });
        let on_ours = Arc::new(move |stream, client| -> Serving {
            let service = of_ours.clone();
            Box::pin(async move {
                let requests = Requests::new(service, client);
                serve(&builder(Tasks, Timer), stream, requests, drained()).await
            })
        });
        Self { on_tokio, on_ours, client_info: ClientInfo::default() }
    }

    /// The same instance, with an extension for the requests of each client.
    pub(crate) fn with_client_info(self, client_info: ClientInfo) -> Self {
        Self { client_info, ..self }
    }

    /// Serves a connection on the runtime of tokio that this function is called on.
    pub(crate) fn serve_on_tokio(&self, stream: TcpStream, closing: Closing) -> Serving {
        let client = self.client_info.of(|| stream.peer_addr());
        (self.on_tokio)(stream, client, closing)
    }

    /// Serves a connection in a world of our runtime, on a kernel thread that has entered tokio.
    pub(crate) fn serve_on_ours(&self, stream: duality_runtime::net::TcpStream) -> Serving {
        let client = self.client_info.of(|| stream.peer_addr());
        (self.on_ours)(stream, client)
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Instance").finish_non_exhaustive()
    }
}

/// The reader of requests, set up as in `axum::serve`, with a limit on the time of a request's
/// head.
fn builder<E>(
    executor: E,
    timer: impl hyper::rt::Timer + Clone + Send + Sync + 'static,
) -> Builder<E> {
    let mut builder = Builder::new(executor);
    builder.http1().timer(timer.clone()).header_read_timeout(HEAD);
    // WebSockets over HTTP/2 need the last setting.
    builder.http2().timer(timer).enable_connect_protocol();
    builder
}

/// Serves a connection until its client closes it, or until `closing` tells it to close. In the
/// second case it answers the request under way first. A connection without any request has a
/// second to send a request, as in other architectures ([`FIRST_BYTES`]).
async fn serve<I, S, B, E>(
    builder: &Builder<E>,
    stream: I,
    requests: Requests<S>,
    close: impl Future<Output = ()>,
) -> io::Result<()>
where
    I: Read + Write + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Future: 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
    E: HttpServerConnExec<Answer<S::Future>, B>,
{
    let begun = requests.begun().clone();
    let mut connection = pin!(builder.serve_connection_with_upgrades(stream, requests));
    let mut close = pin!(close);
    let ended = poll_fn(|context| match connection.as_mut().poll(context) {
        Poll::Ready(ended) => Poll::Ready(Some(ended)),
        Poll::Pending => close.as_mut().poll(context).map(|()| None),
    });
    if let Some(ended) = ended.await {
        return of_connection(ended);
    }
    let mut patience = pin!(sleep(FIRST_BYTES));
    let ended = poll_fn(|context| match connection.as_mut().poll(context) {
        Poll::Ready(ended) => Poll::Ready(Some(ended)),
        Poll::Pending if begun.is_true() => Poll::Ready(None),
        Poll::Pending => patience.as_mut().poll(context).map(|()| None),
    });
    if let Some(ended) = ended.await {
        return of_connection(ended);
    }
    connection.as_mut().graceful_shutdown();
    of_connection(connection.await)
}
