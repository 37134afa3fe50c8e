//! The application of the tests: the features of axum, tokio and hyper, in one page each.

use std::convert::Infallible;
use std::env;
use std::hint::black_box;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, header};
use axum::routing::{get, post};
use duality_runtime::drain;
use duality_tokio::App;
use http_body::Frame;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{self, Sender};
use tokio::sync::{OnceCell, oneshot};
use tokio::time::{Interval, interval, sleep};

/// A reply in two parts. The second part comes once the server drains.
struct UntilDrained {
    has_begun: bool,
    has_ended: bool,
    looks: Interval,
}

impl http_body::Body for UntilDrained {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame =
            |text: &'static [u8]| Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(text)))));
        if self.has_ended {
            return Poll::Ready(None);
        }
        if !self.has_begun {
            self.has_begun = true;
            return frame(b"begun\n");
        }
        while !drain::requested() {
            ready!(self.looks.poll_tick(context));
        }
        self.has_ended = true;
        frame(b"answered in full\n")
    }
}

async fn until_drained() -> Body {
    let looks = interval(Duration::from_millis(5));
    Body::new(UntilDrained { has_begun: false, has_ended: false, looks })
}

/// A timer and a spawned task.
async fn spawned() -> &'static str {
    let slept = tokio::spawn(async {
        sleep(Duration::from_millis(1)).await;
        "slept"
    });
    slept.await.unwrap_or("the task panicked")
}

/// Asks this server itself for its first page.
async fn outgoing(headers: HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    ask(host).await.unwrap_or_else(|error| error.to_string())
}

async fn ask(host: &str) -> io::Result<String> {
    let mut server = TcpStream::connect(host).await?;
    server.write_all(b"GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").await?;
    let mut reply = String::new();
    server.read_to_string(&mut reply).await?;
    Ok(reply.lines().last().unwrap_or_default().to_owned())
}

async fn client(ConnectInfo(address): ConnectInfo<SocketAddr>) -> String {
    format!("{address}!")
}

/// A task that answers questions. The first caller's runtime runs it.
async fn answering() -> &'static Sender<oneshot::Sender<()>> {
    static QUESTIONS: OnceCell<Sender<oneshot::Sender<()>>> = OnceCell::const_new();
    let questions = QUESTIONS.get_or_init(async || {
        let (ask, mut asked) = mpsc::channel::<oneshot::Sender<()>>(1);
        tokio::spawn(async move {
            while let Some(answer) = asked.recv().await {
                let _ = answer.send(());
            }
        });
        ask
    });
    questions.await
}

/// Answers by a task of the first runtime, once the whole request has come.
async fn shared(_: Bytes) -> Result<&'static str, &'static str> {
    let (answer, answered) = oneshot::channel();
    let sent = answering().await.send(answer).await;
    sent.map_err(|_| "the task has ended!")?;
    answered.await.map(|()| "shared!").map_err(|_| "the task has ended!")
}

/// Has as much on its stack as handlers of axum have without optimisation.
async fn deep() -> String {
    let large = [1_u8; 256 << 10];
    let sum: u32 = black_box(&large).iter().map(|&byte| u32::from(byte)).sum();
    format!("{sum} bytes!")
}

async fn panics() -> &'static str {
    panic!("as the test asks for")
}

/// The application that is made once. A second call would fail.
async fn only_router() -> io::Result<Router> {
    static IS_MADE: AtomicBool = AtomicBool::new(false);
    if IS_MADE.swap(true, Ordering::Relaxed) {
        return Err(io::Error::other("it is made twice"));
    }
    answering().await;
    router().await
}

async fn router() -> io::Result<Router> {
    if env::var_os("APPLICATION_FAILS").is_some() {
        return Err(io::Error::other("as the test asks for"));
    }
    Ok(Router::new()
        .route("/", get(async || "hello"))
        .route("/echo", post(async |body: Bytes| body))
        .route("/spawned", get(spawned))
        .route("/outgoing", get(outgoing))
        .route("/until-drained", get(until_drained))
        .route("/client", get(client))
        .route("/shared", post(shared))
        .route("/deep", get(deep))
        .route("/panics", get(panics)))
}

fn main() -> ExitCode {
    let app = match env::var_os("APPLICATION_ONCE") {
        Some(_) => App::axum("application", only_router).made_once(),
        None => App::axum("application", router),
    };
    app.connect_info(ConnectInfo).independent_connections().main()
}
