//! `select!` and `join!`: several futures in one task.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

/// Waits until the first of several futures is ready, and drops the others.
///
/// Each branch is `PATTERN = FUTURE => EXPRESSION`. The futures are polled in this order, so the
/// first of two ready futures counts. All expressions have the same type.
///
/// What the drop of a future loses, before it is ready:
///
/// | operation | lost |
/// | --- | --- |
/// | `read`, `fill`, `Lines::next`, `accept`, `closed`, `recv_from` | nothing |
/// | `recv` of a channel, `sleep`, `tick`, `notified`, `yield_now` | nothing |
/// | `lock`, `acquire` | the place in the queue |
/// | `send` of a channel | the value |
/// | `write` | nothing; over TLS, how many bytes were sent |
/// | `read_exact` | the bytes that it has read |
/// | `write_all`, `write_last`, `write_all_vectored`, `send_file` | how many bytes were sent |
/// | `connect`, `accept_tls`, `connect_tls` | the connection, which closes |
/// | `timeout` | what the future within it loses |
/// | a `JoinHandle`, `offload`, files | the result alone: the task or the work goes on |
///
/// `read_exact` loses bytes because it is several operations, as with tokio. Keep such a future
/// outside of the loop, or use `read` and count.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::block_on;
/// use duality::sync::channel::bounded;
/// use duality::time::{Duration, sleep};
///
/// # fn main() {
/// block_on(async {
///     let (sender, mut receiver) = bounded(1);
///     sender.send(7).await.unwrap();
///     let number = duality::select! {
///         received = receiver.recv() => received,
///         () = sleep(Duration::from_secs(3600)) => None,
///     };
///     assert_eq!(number, Some(7));
/// });
/// # }
/// ```
#[macro_export]
macro_rules! select {
    (@race $future:expr) => { $future };
    (@race $future:expr, $($rest:expr),+) => {
        $crate::task::race($future, $crate::select!(@race $($rest),+))
    };
    (@take $winner:expr; $pattern:pat => $body:expr) => {{
        let $pattern = $winner;
        $body
    }};
    (@take $winner:expr; $pattern:pat => $body:expr, $($rest:tt)+) => {
        match $winner {
            $crate::task::Either::First($pattern) => $body,
            $crate::task::Either::Second(other) => $crate::select!(@take other; $($rest)+),
        }
    };
    ($($pattern:pat = $future:expr => $body:expr),+ $(,)?) => {{
        // The futures end here, so the expressions may use the values that the futures borrowed.
        let winner = $crate::task::gather($crate::select!(@race $($future),+)).await;
        $crate::select!(@take winner; $($pattern => $body),+)
    }};
}

/// Waits until all of several futures are ready. Returns a tuple of their outputs.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::block_on;
/// use duality::time::{Duration, Instant, sleep};
///
/// # fn main() {
/// block_on(async {
///     let begin = Instant::now();
///     let hour = async {
///         sleep(Duration::from_millis(2)).await;
///         60
///     };
///     let ((), minutes) = duality::join!(sleep(Duration::from_millis(2)), hour);
///     assert!(minutes == 60 && begin.elapsed() < Duration::from_secs(60));
/// });
/// # }
/// ```
#[macro_export]
macro_rules! join {
    (@ [$($name:ident = $future:expr;)+]) => {{
        $(let mut $name = ::core::pin::pin!($crate::task::Joined::new($future));)+
        $crate::task::gather(::core::future::poll_fn(|context| {
            let mut are_ready = true;
            $(are_ready &= $name.as_mut().poll_to_end(context);)+
            if are_ready { ::core::task::Poll::Ready(()) } else { ::core::task::Poll::Pending }
        }))
        .await;
        ($($name.as_mut().output(),)+)
    }};
    // Each name is distinct, because each comes from another expansion.
    (@ [$($done:tt)*] $next:expr $(, $rest:expr)*) => {
        $crate::join!(@ [$($done)* joined = $next;] $($rest),*)
    };
    ($($future:expr),+ $(,)?) => { $crate::join!(@ [] $($future),+) };
}

/// The output of the future that was ready first.
#[doc(hidden)]
#[derive(Debug)]
pub enum Either<A, B> {
    First(A),
    Second(B),
}

/// The first of two futures to be ready. Used by [`select!`](crate::select).
#[doc(hidden)]
pub fn race<A: Future, B: Future>(
    first: A,
    second: B,
) -> impl Future<Output = Either<A::Output, B::Output>> {
    Race { first, second }
}

pin_project! {
    struct Race<A, B> {
        #[pin]
        first: A,
        #[pin]
        second: B,
    }
}

impl<A: Future, B: Future> Future for Race<A, B> {
    type Output = Either<A::Output, B::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        match this.first.poll(context) {
            Poll::Ready(output) => Poll::Ready(Either::First(output)),
            Poll::Pending => this.second.poll(context).map(Either::Second),
        }
    }
}

pin_project! {
    /// A future of [`join!`](crate::join), or its output.
    #[doc(hidden)]
    #[derive(Debug)]
    pub struct Joined<F: Future> {
        #[pin]
        future: Option<F>,
        output: Option<F::Output>,
    }
}

impl<F: Future> Joined<F> {
    pub fn new(future: F) -> Self {
        Self { future: Some(future), output: None }
    }

    /// Polls the future, unless it has ended. Returns whether it has ended.
    pub fn poll_to_end(self: Pin<&mut Self>, context: &mut Context<'_>) -> bool {
        let mut this = self.project();
        if let Some(future) = this.future.as_mut().as_pin_mut()
            && let Poll::Ready(output) = future.poll(context)
        {
            *this.output = Some(output);
            this.future.set(None);
        }
        this.future.is_none()
    }

    /// # Panics
    ///
    /// If the future has not ended, or the output was already taken.
    pub fn output(self: Pin<&mut Self>) -> F::Output {
        self.project().output.take().expect("it has ended")
    }
}
