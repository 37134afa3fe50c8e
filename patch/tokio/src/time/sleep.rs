//! Waiting for a time.

use std::future::Future;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use duality_runtime::time::Alarm;
use pin_project_lite::pin_project;
use real::task::coop;

use super::Instant;
use crate::elsewhere::Sleeping;
use crate::scheduler::context;

/// As good as never: beyond it, `Instant` may overflow.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

pin_project! {
    /// A future that is ready at a time.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Sleep {
        deadline: Instant,
        // Whether it was polled or reset. Before, it has not begun.
        has_begun: bool,
        alarm: Alarm,
        elsewhere: Sleeping,
        // The alarm is known by its address.
        #[pin]
        pinned: PhantomPinned,
    }
}

/// Waits until `deadline`.
///
/// # Panics
///
/// Outside of a runtime.
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    context::check();
    let alarm = Alarm::new(Some(deadline.into_std()));
    Sleep {
        deadline,
        has_begun: false,
        alarm,
        elsewhere: Sleeping::default(),
        pinned: PhantomPinned,
    }
}

/// Waits for `duration`.
///
/// # Panics
///
/// Outside of a runtime.
#[track_caller]
pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(after(Instant::now(), duration))
}

/// The time `duration` after `moment`, or a far one if there is no such time.
pub(super) fn after(moment: Instant, duration: Duration) -> Instant {
    moment.checked_add(duration).unwrap_or_else(|| moment + FAR)
}

impl Sleep {
    /// The time at which this is ready.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether the time has come. A sleep that was never polled nor reset has not begun.
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        self.has_begun && Instant::now() >= self.deadline
    }

    /// Moves the time. A task that waits for this is woken at the new time.
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        let this = self.project();
        *this.deadline = deadline;
        *this.has_begun = true;
        this.alarm.move_to(Some(deadline.into_std()));
        this.elsewhere.stop();
    }

    /// Polls, whatever the budget of the task is.
    pub(super) fn poll_time(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        *this.has_begun = true;
        let polled = Pin::new(this.alarm).poll(context);
        if polled.is_ready() {
            return polled;
        }
        this.elsewhere.poll(context, this.deadline.into_std()).unwrap_or(Poll::Pending)
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let budget = ready!(coop::poll_proceed(context));
        let polled = self.poll_time(context);
        if polled.is_ready() {
            budget.made_progress();
        }
        polled
    }
}
