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
use duality_runtime::net::TcpStream as OurStream;
use http_body::Body;
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::{Builder, HttpServerConnExec};
use tokio::net::TcpStream;
use tokio::time::{Duration, sleep};

use crate::arrived::{Arrived, Found, Quiet};
use crate::client::{Client, ClientInfo};
use crate::drain::Closing;
use crate::failure::of_connection;
use crate::requests::{Answer, Reply, Requests};
use crate::socket::{Security, Socket};
use crate::streams::Streams;

/// The time in which a client must send the head of a request.
const HEAD: Duration = Duration::from_secs(30);

/// The silence of a client of HTTP/2 before a PING, and the time to answer the PING. Together, they
/// are shorter than the default limit of a drain.
const SILENCE: Duration = Duration::from_secs(15);
const ANSWER: Duration = Duration::from_secs(10);

/// A connection that is being served, until it ends.
pub(crate) type Serving = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

type OnOurs = dyn Fn(OurStream, Client) -> Serving + Send + Sync;
type OnTokio = dyn Fn(TcpStream, Security, Client, Closing) -> Serving + Send + Sync;

/// See the [module](self). A clone stands for the same instance.
#[derive(Clone)]
pub(crate) struct Instance {
    on_tokio: Arc<OnTokio>,
    on_ours: Arc<OnOurs>,
    security: Security,
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
        let on_tokio =
            Arc::new(move |stream, security: Security, client, closing: Closing| -> Serving {
                let service = service.clone();
                Box::pin(async move {
                    let mut closing = pin!(closing.requested());
                    let Some(socket) = begin(security.begin(stream), closing.as_mut()).await?
                    else {
                        return Ok(());
                    };
                    let builder = builder(TokioExecutor::new(), TokioTimer::new());
                    let builder = speaking(builder, socket.agreed_protocol().as_deref());
                    let requests = Requests::new(service, client);
                    serve(&builder, TokioIo::new(socket), requests, closing).await
                })
            });
        let on_ours = Arc::new(move |stream: OurStream, client| -> Serving {
            let service = of_ours.clone();
            Box::pin(async move {
                let streams = Streams::default();
                let builder = builder(streams.clone(), Timer);
                let builder = speaking(builder, agreed_protocol(&stream).as_deref());
                let requests = Requests::new(service, client);
                let stream = streams.pace(stream);
                streams.run(serve(&builder, stream, requests, drained())).await
            })
        });
        let (security, client_info) = Default::default();
        Self { on_tokio, on_ours, security, client_info }
    }

    /// The same instance, with a handshake of TLS before each connection on tokio, if `security`
    /// says so.
    pub(crate) fn secured(self, security: Security) -> Self {
        Self { security, ..self }
    }

    /// The same instance, with an extension for the requests of each client.
    pub(crate) fn with_client_info(self, client_info: ClientInfo) -> Self {
        Self { client_info, ..self }
    }

    /// Serves a connection on the runtime of tokio that this function is called on.
    pub(crate) fn serve_on_tokio(&self, stream: TcpStream, closing: Closing) -> Serving {
        let client = self.client_info.of(|| stream.peer_addr());
        (self.on_tokio)(stream, self.security.clone(), client, closing)
    }

    /// Serves a connection in a world of our runtime, on a kernel thread that has entered tokio.
    pub(crate) fn serve_on_ours(&self, stream: OurStream) -> Serving {
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
    let mut http2 = builder.http2();
    http2.timer(timer).enable_connect_protocol();
    // A client that is gone would keep its connection, and hold up a drain to its limit.
    http2.keep_alive_interval(SILENCE).keep_alive_timeout(ANSWER);
    builder
}

/// The reader of requests in the protocol that a handshake has agreed on. Without an agreement, the
/// first bytes of the client decide.
fn speaking<E>(builder: Builder<E>, agreed: Option<&[u8]>) -> Builder<E> {
    match agreed {
        Some(b"h2") => builder.http2_only(),
        Some(_) => builder.http1_only(),
        None => builder,
    }
}

#[cfg(feature = "rustls")]
fn agreed_protocol(stream: &OurStream) -> Option<Vec<u8>> {
    stream.agreed_protocol()
}

#[cfg(not(feature = "rustls"))]
fn agreed_protocol(_: &OurStream) -> Option<Vec<u8>> {
    None
}

/// Waits for the handshake of a connection. `None` if `close` cuts the handshake off.
async fn begin(
    handshake: impl Future<Output = io::Result<Socket>>,
    mut close: Pin<&mut impl Future<Output = ()>>,
) -> io::Result<Option<Socket>> {
    let mut handshake = pin!(handshake);
    poll_fn(|context| match handshake.as_mut().poll(context) {
        Poll::Ready(made) => Poll::Ready(made.map(Some)),
        Poll::Pending => close.as_mut().poll(context).map(|()| Ok(None)),
    })
    .await
}

/// Serves a connection until its client closes it, or until `closing` tells it to close. In the
/// second case it answers the request under way first. A connection without any request has a
/// second to send a request, as in other architectures ([`FIRST_BYTES`]). What has come by then is
/// read first.
async fn serve<I, S, B, E>(
    builder: &Builder<E>,
    stream: I,
    requests: Requests<S>,
    close: impl Future<Output = ()>,
) -> io::Result<()>
where
    I: Read + Write + Quiet + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Future: 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
    E: HttpServerConnExec<Answer<S::Future>, Reply<B>>,
{
    let begun = requests.begun().clone();
    let (stream, look) = Arrived::new(stream, requests.under_way().clone());
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
    let ended = poll_fn(|context| {
        look.begin();
        if let Poll::Ready(ended) = connection.as_mut().poll(context) {
            return Poll::Ready(Some(ended));
        }
        match look.found() {
            Found::NoRead | Found::Nothing if begun.is_true() => return Poll::Ready(None),
            Found::NoRead | Found::Nothing | Found::Unread => {}
            Found::Bytes => context.waker().wake_by_ref(),
        }
        patience.as_mut().poll(context).map(|()| None)
    });
    if let Some(ended) = ended.await {
        return of_connection(ended);
    }
    connection.as_mut().graceful_shutdown();
    of_connection(connection.await)
}
