//! The settings of a runtime.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::blocking::Blocking;
use super::shared::Nature;
use super::threads::ThreadOptions;
use super::{Handle, Runtime, RuntimeFlavor, Shared};
use crate::world::World;

/// Builds a runtime. The world comes from the environment, not from here.
pub struct Builder {
    flavor: RuntimeFlavor,
    name: Option<String>,
    threads: ThreadOptions,
    most_blocking: usize,
    keep_alive: Duration,
    starts_paused: bool,
    workers: Option<usize>,
}

impl Builder {
    fn new(flavor: RuntimeFlavor) -> Self {
        Self {
            flavor,
            name: None,
            threads: ThreadOptions {
                name: Arc::new(|| "duality".into()),
                stack_size: 2 << 20,
                on_start: None,
                on_stop: None,
            },
            most_blocking: 512,
            keep_alive: Duration::from_secs(10),
            starts_paused: false,
            workers: None,
        }
    }

    /// A runtime with tasks that run while a thread is in `block_on`.
    #[must_use]
    pub fn new_current_thread() -> Self {
        Self::new(RuntimeFlavor::CurrentThread)
    }

    /// A runtime with tasks that run on its own threads.
    #[must_use]
    pub fn new_multi_thread() -> Self {
        Self::new(RuntimeFlavor::MultiThread)
    }

    /// Nothing: I/O and time are always there.
    pub fn enable_all(&mut self) -> &mut Self {
        self
    }

    /// Nothing: I/O is always there.
    pub fn enable_io(&mut self) -> &mut Self {
        self
    }

    /// Nothing: time is always there.
    pub fn enable_time(&mut self) -> &mut Self {
        self
    }

    /// Sets the number of loops of a multi-threaded runtime, unless `DUALITY_LOOPS` does. By
    /// default there is one for each processor.
    ///
    /// # Panics
    ///
    /// If `number` is 0.
    #[track_caller]
    pub fn worker_threads(&mut self, number: usize) -> &mut Self {
        assert!(number > 0, "Worker threads cannot be set to 0");
        self.workers = Some(number);
        self
    }

    /// Limits the threads of `spawn_blocking`. By default there are at most 512.
    ///
    /// # Panics
    ///
    /// If `most` is 0.
    #[track_caller]
    pub fn max_blocking_threads(&mut self, most: usize) -> &mut Self {
        assert!(most > 0, "Max blocking threads cannot be set to 0");
        self.most_blocking = most;
        self
    }

    /// Sets how long an idle thread of `spawn_blocking` stays. By default 10 seconds.
    pub fn thread_keep_alive(&mut self, duration: Duration) -> &mut Self {
        self.keep_alive = duration;
        self
    }

    /// Has the clock stand from the first `block_on` on. See [`pause`](crate::time::pause).
    pub fn start_paused(&mut self, paused: bool) -> &mut Self {
        self.starts_paused = paused;
        self
    }

    /// Names the runtime.
    ///
    /// # Panics
    ///
    /// If `name` is empty.
    #[track_caller]
    pub fn name(&mut self, name: impl Into<String>) -> &mut Self {
        let name = name.into();
        assert!(!name.trim().is_empty(), "runtime name shouldn't be empty");
        self.name = Some(name);
        self
    }

    /// Names the threads of the runtime.
    pub fn thread_name(&mut self, name: impl Into<String>) -> &mut Self {
        let name = name.into();
        self.thread_name_fn(move || name.clone())
    }

    /// Names each thread of the runtime by a function.
    pub fn thread_name_fn<F>(&mut self, name: F) -> &mut Self
    where
        F: Fn() -> String + Send + Sync + 'static,
    {
        self.threads.name = Arc::new(name);
        self
    }

    /// Sets the stack of each thread and task, in bytes. By default 2 MiB; the memory is taken up
    /// as it is touched.
    pub fn thread_stack_size(&mut self, bytes: usize) -> &mut Self {
        self.threads.stack_size = bytes;
        self
    }

    /// Has each thread of the runtime call a function when it begins.
    pub fn on_thread_start<F>(&mut self, hook: F) -> &mut Self
    where
        F: Fn() + Send + Sync + 'static,
    {
        self.threads.on_start = Some(Arc::new(hook));
        self
    }

    /// Has each thread of the runtime call a function when it ends.
    pub fn on_thread_stop<F>(&mut self, hook: F) -> &mut Self
    where
        F: Fn() + Send + Sync + 'static,
    {
        self.threads.on_stop = Some(Arc::new(hook));
        self
    }

    /// Nothing: a loop decides by itself when it looks for tasks of other threads.
    ///
    /// # Panics
    ///
    /// If `turns` is 0.
    #[track_caller]
    pub fn global_queue_interval(&mut self, turns: u32) -> &mut Self {
        assert!(turns > 0, "global_queue_interval must be greater than 0");
        self
    }

    /// Nothing: a loop decides by itself when it looks for events.
    ///
    /// # Panics
    ///
    /// If `turns` is 0.
    #[track_caller]
    pub fn event_interval(&mut self, turns: u32) -> &mut Self {
        assert!(turns > 0, "event_interval must be greater than 0");
        self
    }

    /// Nothing: the poller decides.
    ///
    /// # Panics
    ///
    /// If `events` is 0.
    #[track_caller]
    pub fn max_io_events_per_busy_tick(&mut self, events: usize) -> &mut Self {
        assert!(events > 0, "max_io_events_per_busy_tick must be non-zero");
        self
    }

    /// Nothing: the poller decides.
    ///
    /// # Panics
    ///
    /// If `events` is 0.
    #[track_caller]
    pub fn max_io_events_per_tick(&mut self, events: usize) -> &mut Self {
        assert!(events > 0, "max_io_events_per_tick must be non-zero");
        self
    }

    /// Makes the runtime.
    ///
    /// # Errors
    ///
    /// If the world is not available on this machine, or a thread or descriptor is lacking. If a
    /// runtime of kernel threads is to start paused. A wrong `DUALITY_WORLD` ends the process with
    /// a line and exit code 2.
    pub fn build(&mut self) -> io::Result<Runtime> {
        self.build_for(false)
    }

    /// Makes the runtime, which has local tasks or not.
    pub(crate) fn build_for(&self, is_local: bool) -> io::Result<Runtime> {
        let world = World::chosen();
        if self.starts_paused && world == World::Threads {
            let line = "a clock can only be paused on a loop; set DUALITY_WORLD to another world";
            return Err(io::Error::new(io::ErrorKind::Unsupported, line));
        }
        let nature = Nature {
            name: self.name.clone(),
            world,
            flavor: self.flavor,
            is_local,
            starts_paused: self.starts_paused,
            workers: self.workers,
        };
        let blocking = Blocking::new(self.most_blocking, self.keep_alive);
        let shared = Shared::new(nature, self.threads.clone(), blocking);
        let handle = Handle { shared: Arc::new(shared) };
        handle.shared.open(&handle)?;
        Ok(Runtime::of(handle))
    }

    /// Whether the runtime will have one thread, which is that of `block_on`.
    pub(crate) fn is_local(&self) -> bool {
        self.flavor == RuntimeFlavor::CurrentThread
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Builder").field("flavor", &self.flavor).finish_non_exhaustive()
    }
}
