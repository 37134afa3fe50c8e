//! Runs a future in a chosen world, without a server: for tests and for small programs.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc;
use std::task::Poll;
use std::thread::Result as Caught;

use duality_poller::Kind;

use crate::blocks::{Reactor, Tasks, Waits};
use crate::event_loop::{EventLoop, LoopWorld};
use crate::task::thread::{self, ThreadStack};
use crate::time::clock;
use crate::wait::{Ambient, set_ambient};
use crate::world::World;
use crate::world::block::block_on;

/// The stack of a user-level thread, in bytes. Code without optimisation needs more than services.
const STACK: usize = 256 * 1024;

/// Runs `body`, and the tasks that it spawns, on this kernel thread until `body` ends.
///
/// Loops wait by epoll(7). Tasks that are left are dropped, except kernel threads of the world
/// block.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::world::World;
/// use duality::{run_in, task};
///
/// for world in World::ALL {
///     let sum = run_in(world, async {
///         let one = task::spawn(async { 1 }).unwrap();
///         one.await.unwrap() + 1
///     });
///     assert_eq!(sum, 2, "{world:?}");
/// }
/// ```
///
/// # Panics
///
/// With the panic of `body`. If this kernel thread runs a loop already, or if there is no
/// descriptor or memory for one.
pub fn run_in<F>(world: World, body: F) -> F::Output
where
    F: Future<Output: Send> + Send + 'static,
{
    let world = match world {
        World::Block => return block_on(body),
        World::Reactor => return run_as_blocks(body),
        World::Park => LoopWorld::Park { stack_size: STACK },
        World::Suspend => LoopWorld::Suspend,
    };
    let poller = Kind::Epoll.open().expect("there is a descriptor for epoll");
    let mut event_loop = EventLoop::new(poller, world).expect("there is room for a loop");
    match event_loop.run_until(body).expect("there is room for the first task") {
        Ok(output) => output,
        Err(payload) => resume_unwind(payload),
    }
}

/// As [`run_in`], with a clock that stands. Time passes at once when nothing else can happen.
///
/// ```
/// # use duality_runtime as duality;
/// use duality::run_paused_in;
/// use duality::time::{Duration, now, since, sleep};
/// use duality::world::World;
///
/// run_paused_in(World::Suspend, async {
///     let begin = now();
///     sleep(Duration::from_secs(3600)).await;
///     assert!(since(begin) >= Duration::from_secs(3600));
/// });
/// ```
///
/// # Panics
///
/// Like [`run_in`]. In the worlds block and reactor, which have no loop and so no clock of their
/// own.
pub fn run_paused_in<F>(world: World, body: F) -> F::Output
where
    F: Future<Output: Send> + Send + 'static,
{
    run_in(world, async {
        assert!(clock::stop(), "only a loop can stop its clock: choose the world park or suspend");
        body.await
    })
}

/// This kernel thread runs the blocks of all tasks, and another one the reactor.
fn run_as_blocks<F>(body: F) -> F::Output
where
    F: Future<Output: Send> + Send + 'static,
{
    let reactor = Reactor::new().expect("there are descriptors for a reactor");
    let (queue, blocks) = mpsc::channel();
    let (tell, receiver) = mpsc::channel();
    let dispatch = move |block| {
        // No block is taken any more once the body has ended.
        let _ = queue.send(block);
    };
    let tasks = Tasks::new(Waits::Suspend(reactor.clone()), dispatch);
    let running = reactor.clone();
    // In the scope of this kernel thread, as the thread of a staged server is.
    const REACTOR: ThreadStack = ThreadStack::fixed(STACK, "the reactor's thread");
    let (running_on, ended) = mpsc::channel::<()>();
    let run = move || {
        running.run();
        drop(running_on);
    };
    let started = thread::start(REACTOR, Box::new(run));
    started.map_err(|refused| refused.error).expect("there is memory for a thread");
    tasks.start(Box::pin(async move {
        // The receiver waits for this message, so it is there.
        let _ = tell.send(caught(body).await);
    }));
    let outcome = loop {
        blocks.recv().expect("the reactor has the other end").run();
        match receiver.try_recv() {
            Err(mpsc::TryRecvError::Empty) => {}
            outcome => break outcome,
        }
    };
    reactor.stop();
    // The reactor drops the tasks that wait. Those that are ready are in the queue.
    let _ = ended.recv();
    drop(blocks);
    match outcome.expect("the task sends its outcome, and catches its panic") {
        Ok(output) => output,
        Err(payload) => resume_unwind(payload),
    }
}

/// The output of `future`, or what it panics with.
async fn caught<F: Future>(future: F) -> Caught<F::Output> {
    let mut future = Box::pin(future);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
        Ok(polled) => polled.map(Ok),
        Err(payload) => {
            set_ambient(Ambient::Never);
            Poll::Ready(Err(payload))
        }
    })
    .await
}
