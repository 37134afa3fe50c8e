//! Time: sleeps and time-outs.

mod alarm;
pub mod clock;
mod interval;

pub use self::alarm::Alarm;
pub use self::clock::now;
pub use self::interval::{Interval, interval};
pub use std::time::{Duration, Instant};

use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use rustix::time::{ClockId, clock_gettime};

use crate::event_loop::current;
use crate::gather::Key;
use crate::visibility::Wait;
use crate::visibility::graph;
use crate::wait::{Ambient, ambient, earlier, gathers, set_ambient};
use crate::world::gather::{forget_time, note_time};
use crate::world::{self, Here};

/// The time that has passed since `start`, by the clock of [`now`].
#[must_use]
pub fn since(start: Instant) -> Duration {
    now().saturating_duration_since(start)
}

/// The time of day: the time since 1 January 1970, UTC, to the kernel's last tick.
///
/// The coarse clock lags behind the exact clock by at most one tick (10 ms). The vDSO reads it in a
/// few nanoseconds, without a system call. A host of a simulation has a time of its own.
#[must_use]
pub fn time_of_day() -> Duration {
    if let Some(machine) = current::machine() {
        return machine.time_of_day();
    }
    let time = clock_gettime(ClockId::RealtimeCoarse);
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanoseconds)
}

/// Waits for at least `duration` from this call on.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::block_on;
/// use duality::time::{Duration, Instant, sleep};
///
/// let begin = Instant::now();
/// block_on(sleep(Duration::from_millis(1)));
/// assert!(begin.elapsed() >= Duration::from_millis(1));
/// ```
pub fn sleep(duration: Duration) -> impl Future<Output = ()> + Send {
    // A duration beyond the range of the clock means for ever.
    Sleep { deadline: now().checked_add(duration), is_noted: false }
}

/// Waits until `deadline`, or not at all if it has passed.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::block_on;
/// use duality::time::{Duration, Instant, sleep_until};
///
/// let deadline = Instant::now() + Duration::from_millis(1);
/// block_on(sleep_until(deadline));
/// assert!(Instant::now() >= deadline);
/// ```
#[track_caller]
pub fn sleep_until(deadline: Instant) -> impl Future<Output = ()> + Send {
    graph::arrive("sleep", Location::caller());
    Sleep { deadline: Some(deadline), is_noted: false }
}

/// As small as possible, and written by hand: a parked task contains the future of its wait.
struct Sleep {
    deadline: Option<Instant>,
    /// Whether the future is among the deadlines of gathered waits.
    is_noted: bool,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if gathers() {
            return self.get_mut().poll_gathered(context);
        }
        let slept = world::wait_until(context, Wait::Time, self.deadline, |_| Poll::<()>::Pending);
        slept.map(|_| graph::depart())
    }
}

impl Sleep {
    #[cold]
    fn poll_gathered(&mut self, context: &Context<'_>) -> Poll<()> {
        let Some(deadline) = self.deadline else { return Poll::Pending };
        if world::now() >= deadline {
            // SAFETY: the references end with this call.
            if unsafe { Here::find() }.spend(context).is_some() {
                return Poll::Pending;
            }
            graph::depart();
            return Poll::Ready(());
        }
        self.is_noted = true;
        note_time(self.key(), deadline, context);
        Poll::Pending
    }

    /// The key is the address: the future is pinned while it is polled.
    fn key(&self) -> Key {
        Key::Future(std::ptr::from_ref(self).addr())
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if self.is_noted {
            forget_time(self.key());
        }
    }
}

/// Runs `future`. If it is not done when `limit` has passed since this call, drops it where it
/// waits.
///
/// In every world, this works for this crate's operations, and for loops of operations that never
/// have to wait. A kernel thread that blocks in a read or a write leaves it too. Offloaded work
/// goes on without its task. A task that computes without any operation is not interrupted.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::block_on;
/// use duality::time::{Duration, Elapsed, sleep, timeout};
///
/// block_on(async {
///     let long = sleep(Duration::from_secs(3600));
///     assert_eq!(timeout(Duration::from_millis(1), long).await, Err(Elapsed));
///     assert_eq!(timeout(Duration::from_secs(3600), async { 7 }).await, Ok(7));
/// });
/// ```
///
/// # Errors
///
/// [`Elapsed`] if the limit passed first.
pub fn timeout<F: Future>(
    limit: Duration,
    future: F,
) -> impl Future<Output = Result<F::Output, Elapsed>> {
    Timeout { deadline: now().checked_add(limit), is_noted: false, future: Some(future) }
}

/// As [`timeout`], up to a point of time. Several operations can share it.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::block_on;
/// use duality::time::{Duration, Elapsed, now, sleep, timeout_at};
///
/// block_on(async {
///     let deadline = now() + Duration::from_millis(2);
///     assert_eq!(timeout_at(deadline, async { 7 }).await, Ok(7));
///     let long = sleep(Duration::from_secs(3600));
///     assert_eq!(timeout_at(deadline, long).await, Err(Elapsed));
/// });
/// ```
///
/// # Errors
///
/// [`Elapsed`] if the deadline passed first.
pub fn timeout_at<F: Future>(
    deadline: Instant,
    future: F,
) -> impl Future<Output = Result<F::Output, Elapsed>> {
    Timeout { deadline: Some(deadline), is_noted: false, future: Some(future) }
}

pin_project! {
    /// Written by hand: an `async fn` would store the future twice, as its argument and where it is
    /// polled.
    struct Timeout<F> {
        deadline: Option<Instant>,
        // Whether the future is among the deadlines of gathered waits.
        is_noted: bool,
        // `None` after the end.
        #[pin]
        future: Option<F>,
    }

    impl<F> PinnedDrop for Timeout<F> {
        fn drop(this: Pin<&mut Self>) {
            if this.is_noted {
                forget_time(this.key());
            }
        }
    }
}

impl<F> Timeout<F> {
    /// The key is the address: the future is pinned while it is polled.
    fn key(&self) -> Key {
        Key::Future(std::ptr::from_ref(&self.deadline).addr())
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let key = self.key();
        let mut this = self.project();
        let running = this.future.as_mut().as_pin_mut().expect("not polled again after its end");
        let polled = poll_before(*this.deadline, running, context);
        if polled.is_ready() {
            this.future.set(None);
        } else if let Some(deadline) = *this.deadline {
            *this.is_noted |= be_polled_at(deadline, key, context);
        }
        polled
    }
}

/// The time limit of [`timeout`] passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the time limit passed")
    }
}

impl std::error::Error for Elapsed {}

impl From<Elapsed> for std::io::Error {
    fn from(_: Elapsed) -> Self {
        Self::new(std::io::ErrorKind::TimedOut, Elapsed)
    }
}

/// Polls with `deadline` as the ambient deadline (see [`world`](crate::world)).
fn poll_before<F: Future>(
    deadline: Option<Instant>,
    future: Pin<&mut F>,
    context: &mut Context<'_>,
) -> Poll<Result<F::Output, Elapsed>> {
    let outer = ambient();
    set_ambient(match outer {
        Ambient::Never => deadline.into(),
        Ambient::Before(outer) => earlier(deadline, Some(outer)).into(),
        Ambient::Gather => Ambient::Gather,
    });
    let polled = future.poll(context);
    set_ambient(outer);
    match polled {
        Poll::Ready(output) => Poll::Ready(Ok(output)),
        Poll::Pending if deadline.is_some_and(|deadline| world::now() >= deadline) => {
            Poll::Ready(Err(Elapsed))
        }
        Poll::Pending => Poll::Pending,
    }
}

/// Makes sure that a future that has returned `Pending` is polled at its `deadline`. Returns
/// whether it has noted the deadline under `key`.
///
/// A single wait ends at the ambient deadline by itself. In the block and the park world, it
/// returns `Pending` only then. So this function serves gathered waits, and futures of other
/// libraries.
fn be_polled_at(deadline: Instant, key: Key, context: &Context<'_>) -> bool {
    // SAFETY: the references end with this call.
    match unsafe { Here::find() } {
        Here::Loop(core) if !gathers() && core.wakes_running_by(deadline) => false,
        Here::Reactor(task, reactor) if !gathers() && task.is_woken_by(reactor, deadline) => false,
        _ => {
            note_time(key, deadline, context);
            true
        }
    }
}
