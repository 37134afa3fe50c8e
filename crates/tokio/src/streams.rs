//! The requests of a connection of HTTP/2, run by the connection's own task.
//!
//! ```text
//!   the connection's task ─ polls ─┬─▶ hyper's connection ─ execute ─▶ Streams
//!                                  └─▶ Running: the requests under way ◀──┘
//! ```
//!
//! hyper hands each request to its executor as a future. A task for each would be a kernel thread
//! in the block world. Here all requests of a connection share its kernel thread: one runs at a
//! time, and others run while it waits.
//!
//! The heads of many requests may come at once, and cost much more than their bytes tell. So a turn
//! of the connection's task is bounded by [`TURN`]: its next read waits for the next turn.

use std::future::Future;
use std::io::{self, IoSlice};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use duality_runtime::net::TcpStream;
use duality_runtime::task;
use futures_util::stream::{FuturesUnordered, StreamExt};
use hyper::rt::{Executor, Read, ReadBufCursor, Write};
use pin_project_lite::pin_project;

use crate::arrived::Quiet;

/// How long a connection reads on, before others of its loop have their turn.
const TURN: Duration = Duration::from_millis(1);

/// A request under way.
struct Request(Pin<Box<dyn Future<Output = ()> + Send>>);

impl Future for Request {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // A panic ends its request only, as in a task of its own. The request is dropped.
        let polled = catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context)));
        polled.unwrap_or(Poll::Ready(()))
    }
}

/// The executor of a connection. hyper calls it only while the connection's task runs.
#[derive(Clone, Default)]
pub(crate) struct Streams {
    begun: Arc<Mutex<Vec<Request>>>,
    turn: Arc<Mutex<Turn>>,
}

/// The present turn of a connection's task.
#[derive(Default)]
struct Turn {
    reads: u32,
    /// When it began, or shortly after.
    began: Option<Instant>,
    /// A connection that has switched its protocol is read by another task.
    is_over: bool,
}

impl Turn {
    /// Whether there is time for another read. Most turns have one or two reads, and do not read
    /// the clock.
    fn has_time(&mut self) -> bool {
        self.reads += 1;
        self.is_over
            || self.reads <= 2
            || self.began.get_or_insert_with(Instant::now).elapsed() < TURN
    }
}

/// The connection as hyper sees it.
pub(crate) struct Paced {
    stream: TcpStream,
    turn: Arc<Mutex<Turn>>,
}

impl Streams {
    /// Runs `connection`, and beside it what it hands to this executor. What runs when the
    /// connection ends is dropped, as the request of a connection of HTTP/1 is.
    pub(crate) fn run<F: Future>(self, connection: F) -> impl Future<Output = F::Output> {
        task::gather(Alongside {
            turn: self.turn.clone(),
            connection,
            running: Running { begun: self, requests: FuturesUnordered::new() },
        })
    }

    /// The connection, with reads that leave others their turn.
    pub(crate) fn pace(&self, stream: TcpStream) -> Paced {
        Paced { stream, turn: self.turn.clone() }
    }

    fn take(&self) -> Vec<Request> {
        mem::take(&mut *self.begun.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, future: F) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.push(Request(Box::pin(future)));
    }
}

/// All requests under way.
struct Running {
    begun: Streams,
    requests: FuturesUnordered<Request>,
}

impl Running {
    /// Polls the requests that are new, or have been woken.
    fn poll(&mut self, context: &mut Context<'_>) {
        loop {
            self.requests.extend(self.begun.take());
            // A request that has ended may have handed over another future.
            if !matches!(self.requests.poll_next_unpin(context), Poll::Ready(Some(_))) {
                break;
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Requests hold clones of the executor, which would keep each other.
        drop(self.begun.take());
    }
}

pin_project! {
    struct Alongside<F> {
        #[pin]
        connection: F,
        turn: Arc<Mutex<Turn>>,
        running: Running,
    }
}

impl<F: Future> Future for Alongside<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let turn = |is_over| {
            let turn = Turn { is_over, ..Turn::default() };
            *this.turn.lock().unwrap_or_else(PoisonError::into_inner) = turn;
        };
        turn(false);
        let ended = this.connection.poll(context);
        if ended.is_pending() {
            this.running.poll(context);
        }
        turn(true);
        ended
    }
}

impl Quiet for Paced {
    fn has_ended(&self) -> bool {
        self.stream.has_ended()
    }

    fn is_quiet(&self) -> bool {
        self.stream.is_quiet()
    }
}

impl Read for Paced {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.turn.lock().unwrap_or_else(PoisonError::into_inner).has_time() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Read::poll_read(Pin::new(&mut self.stream), context, buffer)
    }
}

impl Write for Paced {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // The stream has a method of this name, too.
        Write::poll_write(Pin::new(&mut self.stream), context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Write::poll_write_vectored(Pin::new(&mut self.stream), context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        Write::is_write_vectored(&self.stream)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Write::poll_flush(Pin::new(&mut self.stream), context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Write::poll_shutdown(Pin::new(&mut self.stream), context)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use duality_poller::Kind;
    use duality_runtime::event_loop::{EventLoop, LoopWorld};
    use duality_runtime::net::{ListenOptions, TcpListener};
    use hyper::rt::ReadBuf;
    use hyper::server::conn::http2;
    use hyper::service::service_fn;

    use super::*;

    #[test]
    fn a_turn_has_its_time_and_no_more() {
        let mut turn = Turn::default();
        assert!(turn.has_time() && turn.has_time());
        turn.began = Some(Instant::now() - TURN);
        assert!(!turn.has_time());
        // Another task reads the connection after a switch of protocols.
        turn.is_over = true;
        assert!(turn.has_time());
    }

    /// A connection that counts what is read from it.
    struct Watched {
        inner: Paced,
        bytes: Arc<AtomicUsize>,
    }

    impl Read for Watched {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            mut buffer: ReadBufCursor<'_>,
        ) -> Poll<io::Result<()>> {
            let mut own = vec![0; buffer.remaining()];
            let mut own = ReadBuf::new(&mut own);
            let polled = Pin::new(&mut self.inner).poll_read(context, own.unfilled());
            self.bytes.fetch_add(own.filled().len(), Ordering::Relaxed);
            buffer.put_slice(own.filled());
            polled
        }
    }

    impl Write for Watched {
        fn poll_write(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            Pin::new(&mut self.inner).poll_write(context, bytes)
        }

        fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.inner).poll_flush(context)
        }

        fn poll_shutdown(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.inner).poll_shutdown(context)
        }
    }

    /// Requests with heads that cost much more than their bytes. Each byte stands for a field (RFC
    /// 7541, section 6.1). With more fields, h2 ends the connection: a list may have 16 KiB.
    fn flood(requests: u32) -> Vec<u8> {
        const SETTINGS: u8 = 4;
        const HEADERS: u8 = 1;
        const WHOLE: u8 = 0x4 | 0x1; // END_HEADERS, END_STREAM
        const GET: [u8; 3] = [0x82, 0x86, 0x84]; // :method GET, :scheme http, :path /
        const FIRST_OF_TABLE: u8 = 0x80 | 62;
        let mut flood = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        let mut frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
            flood.extend(&(payload.len() as u32).to_be_bytes()[1..]);
            flood.extend([kind, flags]);
            flood.extend(stream.to_be_bytes());
            flood.extend(payload);
        };
        frame(SETTINGS, 0, 0, &[]);
        // A new field for the table, x with the value v.
        frame(HEADERS, WHOLE, 1, &[&GET[..], &[0x40, 1, b'x', 1, b'v']].concat());
        let bomb = [&GET[..], &[FIRST_OF_TABLE; 380]].concat();
        for number in 1..requests {
            frame(HEADERS, WHOLE, 2 * number + 1, &bomb);
        }
        flood
    }

    /// The bytes that a connection may take between two turns of another task. The flood has many
    /// times as many.
    const MOST: usize = 128 << 10;

    /// Serves a flood on a loop. Returns how many bytes were read, and how many at most between
    /// two turns of another task.
    fn served_beside_another(kind: Kind, world: LoopWorld) -> (usize, usize) {
        let requests = flood(4000);
        EventLoop::new(kind.open().unwrap(), world).unwrap().run(async move {
            let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
            let mut listener = TcpListener::bind(any, &ListenOptions::default()).unwrap();
            let address = listener.local_addr().unwrap();
            let client = std::thread::spawn(move || {
                let mut stream = std::net::TcpStream::connect(address).unwrap();
                let mut replies = stream.try_clone().unwrap();
                let reader = std::thread::spawn(move || {
                    let _ = std::io::copy(&mut replies, &mut std::io::sink());
                });
                // The server may end a connection that asks too much.
                let _ = std::io::Write::write_all(&mut stream, &requests);
                let _ = stream.shutdown(std::net::Shutdown::Write);
                reader.join().unwrap();
            });
            let (stream, _) = listener.accept().await.unwrap();
            let (bytes, is_over) =
                (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
            let (seen, ended) = (bytes.clone(), is_over.clone());
            let other = task::spawn(async move {
                let (mut most, mut before) = (0, 0);
                while !ended.load(Ordering::Relaxed) {
                    task::yield_now().await;
                    let now = seen.load(Ordering::Relaxed);
                    most = most.max(now - before);
                    before = now;
                }
                most
            });
            let streams = Streams::default();
            let watched = Watched { inner: streams.pace(stream), bytes: bytes.clone() };
            let reply = |_| async { Ok::<_, Infallible>(hyper::Response::new(String::new())) };
            let connection =
                http2::Builder::new(streams.clone()).serve_connection(watched, service_fn(reply));
            // The end of the input within the protocol may be an error.
            let _ = streams.run(connection).await;
            is_over.store(true, Ordering::Relaxed);
            let most = other.unwrap().await.unwrap();
            client.join().unwrap();
            (bytes.load(Ordering::Relaxed), most)
        })
    }

    #[test]
    fn costly_heads_leave_others_their_turns() {
        for kind in [Kind::Epoll, Kind::Uring] {
            if let Some(reason) = kind.unavailable() {
                // `println!` would go into the test's own output.
                let _ = std::io::Write::write_all(
                    &mut std::io::stderr(),
                    format!("skipped: {reason}\n").as_bytes(),
                );
                continue;
            }
            for world in [LoopWorld::Suspend, LoopWorld::Park { stack_size: 256 << 10 }] {
                let (read, most) = served_beside_another(kind, world);
                assert!(read > 8 * MOST, "{kind:?}, {world:?}: only {read} bytes were read");
                assert!(most <= MOST, "{kind:?}, {world:?}: {most} of {read} bytes in a turn");
            }
        }
    }
}
