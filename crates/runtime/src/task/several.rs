//! `join!`: several futures in one task.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

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
