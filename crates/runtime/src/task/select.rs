//! `select!`: the first of several futures.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

/// Waits until the first of several futures is ready with an output that its pattern matches.
/// Drops the others.
///
/// ```text
/// select! {
///     biased;                                           optional
///     PATTERN = FUTURE => EXPRESSION,                   any number of branches
///     PATTERN = FUTURE, if CONDITION => { … }           with a guard; no comma after a block
///     else => EXPRESSION,                               optional, and last
/// }
/// ```
///
/// The futures are polled in this order, so the first of two ready futures counts. All expressions
/// have the same type. They may use `.await`, `?`, `break` and `return`.
///
/// A branch is *disabled* if its guard is false, or if its pattern does not match the output. The
/// other branches go on. If all are disabled, `else` is the result.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::block_on;
/// use duality::sync::channel::bounded;
/// use duality::time::{Duration, sleep};
///
/// # fn main() {
/// block_on(async {
///     let (sender, mut orders) = bounded(1);
///     let (_other, mut events) = bounded::<u32>(1);
///     sender.send(7).await.unwrap();
///     drop(sender);
///     let (mut sum, mut ticks) = (0, 0);
///     loop {
///         duality::select! {
///             Some(order) = orders.recv() => sum += order,
///             Some(event) = events.recv(), if sum > 100 => sum -= event,
///             () = sleep(Duration::from_millis(1)), if ticks < 3 => ticks += 1,
///             else => break,
///         }
///     }
///     assert_eq!((sum, ticks), (7, 3));
/// });
/// # }
/// ```
///
/// # What the drop of a future loses
///
/// All futures of a `select!` but one are dropped where they wait. The table says what is lost:
///
/// | operation | lost |
/// | --- | --- |
/// | `read`, `fill`, `Lines::next`, `accept`, `closed`, `recv_from` | nothing |
/// | `recv` of a channel or a broadcast, `changed` of a watch | nothing |
/// | `sleep`, `tick`, `notified`, `yield_now`, `cancelled`, `drained`, `join_next` | nothing |
/// | `lock`, `acquire`, `read` and `write` of an `RwLock` | the place in the queue |
/// | `wait` of a barrier | the arrival: the task counts no longer |
/// | `send` of a channel | the value |
/// | `write` | nothing; over TLS, how many bytes were sent |
/// | `read_exact` | the bytes that it has read |
/// | `write_all`, `write_last`, `write_all_vectored`, `send_file` | how many bytes were sent |
/// | `connect`, `accept_tls`, `connect_tls` | the connection, which closes |
/// | `timeout` | what the future within it loses |
/// | a `JoinHandle`, `offload`, `lookup_host`, files | the result alone: the work goes on |
///
/// `read_exact` loses bytes because it is several operations, as with tokio. Keep such a future
/// outside of the loop, pinned, and give `select!` a reference to it:
///
/// ```
/// # use duality_runtime as duality;
/// use std::pin::pin;
///
/// use duality::net::TcpStream;
/// use duality::time::{Duration, interval};
///
/// /// Reads a frame, and says every second that it still reads.
/// async fn read_frame(stream: &mut TcpStream) -> std::io::Result<[u8; 64]> {
///     let mut frame = [0; 64];
///     let mut ticks = interval(Duration::from_secs(1));
///     {
///         let mut read = pin!(stream.read_exact(&mut frame));
///         loop {
///             duality::select! {
///                 whole = &mut read => break whole?,
///                 _ = ticks.tick() => println!("still reading"),
///             }
///         }
///     }
///     Ok(frame)
/// }
/// # use duality::net::{ListenOptions, TcpListener};
/// # duality::block_on(async {
/// # let any_port = ([127, 0, 0, 1], 0).into();
/// # let mut listener = TcpListener::bind(any_port, &ListenOptions::default())?;
/// # let mut client = TcpStream::connect(listener.local_addr()?).await?;
/// # let (mut stream, _) = listener.accept().await?;
/// # client.write_all(&[7; 64]).await?;
/// # assert_eq!(read_frame(&mut stream).await?, [7; 64]);
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
///
/// # Differences from tokio's
///
/// - The order is always that of the branches. tokio begins with a random branch unless `biased;`
///   is there. Put a branch that is always ready last, so that the others have their turns.
///
/// - The future of a branch with a false guard is not made. tokio makes it and does not poll it.
///   So `x = queue.as_mut().unwrap().recv(), if queue.is_some()` does not panic here.
///
/// # Panics
///
/// If all branches are disabled, and there is no `else`.
///
/// # Compiler errors
///
/// `else` comes last:
///
/// ```compile_fail
/// # use duality_runtime as duality;
/// # duality::block_on(async {
/// duality::select! {
///     else => (),
///     () = async {} => (),
/// }
/// # });
/// ```
#[macro_export]
macro_rules! select {
    // Takes one branch after the other: `[…]` has the branches so far.
    (@next [] $(else => $($rest:tt)*)?) => {
        ::core::compile_error!(
            "select! has no branch before its end: write `PATTERN = FUTURE => EXPRESSION,`"
        )
    };
    (@next [$($done:tt)+]) => {
        $crate::select!(@all [$($done)+] $crate::task::all_disabled())
    };
    (@next [$($done:tt)+] else => $body:expr $(,)?) => {
        $crate::select!(@all [$($done)+] $body)
    };
    (@next [$($done:tt)+] else => $($rest:tt)*) => {
        ::core::compile_error!("`else` is the last branch of select!: move it to the end")
    };
    (@next [$($done:tt)*] $pattern:pat = $future:expr => $body:block, $($rest:tt)*) => {
        $crate::select!(@next [$($done)* {[$pattern] [true] [$future] [$body]}] $($rest)*)
    };
    (@next [$($done:tt)*] $pattern:pat = $future:expr, if $guard:expr => $body:block,
        $($rest:tt)*) => {
        $crate::select!(@next [$($done)* {[$pattern] [$guard] [$future] [$body]}] $($rest)*)
    };
    (@next [$($done:tt)*] $pattern:pat = $future:expr => $body:block $($rest:tt)*) => {
        $crate::select!(@next [$($done)* {[$pattern] [true] [$future] [$body]}] $($rest)*)
    };
    (@next [$($done:tt)*] $pattern:pat = $future:expr, if $guard:expr => $body:block
        $($rest:tt)*) => {
        $crate::select!(@next [$($done)* {[$pattern] [$guard] [$future] [$body]}] $($rest)*)
    };
    (@next [$($done:tt)*] $pattern:pat = $future:expr => $body:expr $(, $($rest:tt)*)?) => {
        $crate::select!(@next [$($done)* {[$pattern] [true] [$future] [$body]}] $($($rest)*)?)
    };
    (@next [$($done:tt)*] $pattern:pat = $future:expr, if $guard:expr => $body:expr
        $(, $($rest:tt)*)?) => {
        $crate::select!(@next [$($done)* {[$pattern] [$guard] [$future] [$body]}] $($($rest)*)?)
    };

    (@all [$({[$pattern:pat] [$guard:expr] [$future:expr] [$body:expr]})+] $else:expr) => {{
        // All guards come before all futures, which may borrow what the guards look at.
        let enabled = $crate::select!(@guards $([$guard])+);
        // The futures end here, so the expressions may use the values that the futures borrowed.
        let winner = $crate::task::gather($crate::task::Select::new(
            $crate::select!(@branches enabled, $({[$pattern] [$future]})+)
        ))
        .await;
        match winner {
            #[allow(unused_mut)]
            ::core::option::Option::Some(mut winner) => {
                $crate::select!(@take winner; $({[$pattern] [$body]})+)
            }
            ::core::option::Option::None => $else,
        }
    }};

    (@guards) => { () };
    (@guards [$guard:expr] $([$rest:expr])*) => { ($guard, $crate::select!(@guards $([$rest])*)) };

    (@branches $enabled:expr,) => { $crate::task::NoBranch };
    (@branches $enabled:expr, {[$pattern:pat] [$future:expr]} $($rest:tt)*) => {
        $crate::task::Branch::new(
            if $enabled.0 { ::core::option::Option::Some($future) } else {
                ::core::option::Option::None
            },
            |#[allow(unused_mut)] mut output| {
                let mut matches = false;
                // The guard is false, so the match only looks at the output.
                #[allow(unused, unreachable_code, clippy::all)]
                match output {
                    $pattern if { matches = true; false } => ::core::unreachable!(),
                    _ => {}
                }
                if matches { ::core::option::Option::Some(output) } else {
                    ::core::option::Option::None
                }
            },
            $crate::select!(@branches $enabled.1, $($rest)*),
        )
    };

    (@take $winner:expr;) => { match $winner {} };
    (@take $winner:expr; {[$pattern:pat] [$body:expr]} $($rest:tt)*) => {
        match $winner {
            $crate::task::Either::First($pattern) => $body,
            #[allow(unused_mut)]
            $crate::task::Either::Second(mut other) => $crate::select!(@take other; $($rest)*),
            #[allow(unreachable_patterns)]
            _ => ::core::unreachable!("the pattern has matched"),
        }
    };

    (biased; $($branches:tt)*) => { $crate::select!(@next [] $($branches)*) };
    ($($branches:tt)*) => { $crate::select!(@next [] $($branches)*) };
}

/// The branches of [`select!`](crate::select), from one on.
#[doc(hidden)]
pub trait Branches {
    type Output;

    /// Polls the branches, in order.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Polled<Self::Output>;
}

/// What came of the branches.
#[doc(hidden)]
#[derive(Debug)]
pub enum Polled<T> {
    Ready(T),
    Pending,
    /// All are disabled.
    Disabled,
}

/// The output of the future that was ready first.
#[doc(hidden)]
#[derive(Debug)]
pub enum Either<A, B> {
    First(A),
    Second(B),
}

/// The end of the branches.
#[doc(hidden)]
#[derive(Debug)]
pub struct NoBranch;

impl Branches for NoBranch {
    type Output = std::convert::Infallible;

    #[inline]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Polled<Self::Output> {
        Polled::Disabled
    }
}

pin_project! {
    /// A branch, and those after it.
    #[doc(hidden)]
    #[derive(Debug)]
    pub struct Branch<F, C, R> {
        // `None` if the branch is disabled.
        #[pin]
        future: Option<F>,
        // Returns the output if the pattern matches it.
        check: C,
        #[pin]
        rest: R,
    }
}

impl<F: Future, C: FnMut(F::Output) -> Option<F::Output>, R> Branch<F, C, R> {
    #[inline]
    pub fn new(future: Option<F>, check: C, rest: R) -> Self {
        Self { future, check, rest }
    }
}

impl<F, C, R> Branches for Branch<F, C, R>
where
    F: Future,
    C: FnMut(F::Output) -> Option<F::Output>,
    R: Branches,
{
    type Output = Either<F::Output, R::Output>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Polled<Self::Output> {
        let mut this = self.project();
        let mut is_pending = false;
        if let Some(future) = this.future.as_mut().as_pin_mut() {
            match future.poll(context) {
                Poll::Ready(output) => match (this.check)(output) {
                    Some(output) => return Polled::Ready(Either::First(output)),
                    None => this.future.set(None),
                },
                Poll::Pending => is_pending = true,
            }
        }
        match this.rest.poll(context) {
            Polled::Ready(output) => Polled::Ready(Either::Second(output)),
            Polled::Disabled if !is_pending => Polled::Disabled,
            Polled::Disabled | Polled::Pending => Polled::Pending,
        }
    }
}

pin_project! {
    /// All branches. The output is `None` if all are disabled.
    #[doc(hidden)]
    #[derive(Debug)]
    pub struct Select<B> {
        #[pin]
        branches: B,
    }
}

impl<B: Branches> Select<B> {
    #[inline]
    pub fn new(branches: B) -> Self {
        Self { branches }
    }
}

impl<B: Branches> Future for Select<B> {
    type Output = Option<B::Output>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().branches.poll(context) {
            Polled::Ready(output) => Poll::Ready(Some(output)),
            Polled::Pending => Poll::Pending,
            Polled::Disabled => Poll::Ready(None),
        }
    }
}

/// The end of a [`select!`](crate::select) without `else`.
#[doc(hidden)]
#[cold]
#[track_caller]
pub fn all_disabled() -> ! {
    panic!("all branches of select! are disabled: add `else => EXPRESSION` as its last branch")
}
