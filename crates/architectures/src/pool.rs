//! `pool`: N kernel threads, made at the start.
//!
//! ```text
//!   --hand-over list                                            --hand-over accept
//!   accept ▶ [ main thread: ] ▶ list ┬▶ ( thread 1: serve )                ┌▶ ( thread 1: accept,
//!   queue    [ accept, put  ]        ├▶ ( thread 2: serve )  accept queue ▶┼▶ ( thread 2:  serve )
//!                                    └▶ ( thread N … )                     └▶ ( thread N … )
//! ```
//!
//! What waits: each thread, for a connection (from the list, or in accept) and then for its client.
//! Cost of a connection: its descriptor only, since the threads exist already. What breaks first:
//! the number of workers, which is the number of connections served at a time. Others wait in the
//! list, which holds as many as there are descriptors for (or `--accept-queue`). Further
//! connections wait in the kernel's accept queue, and are dropped if it overflows. If each thread
//! accepts, all waiting connections are in that queue. When to choose it: few clients at a time,
//! each for a short while, and a firm bound on threads. Source: Demsky 2001 (the list); ZeroHTTPd,
//! `05_prethreaded` (each accepts); Apache's worker in Kerneis & Chroboczek 2009.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, PoisonError};

use duality_runtime::handler::{Active, Connections};
use duality_runtime::locks::{Condvar, Mutex, MutexGuard};
use duality_runtime::net::{Backlog, TcpStream};
use duality_runtime::places::Places;
use duality_runtime::task::{self, thread};
use duality_runtime::{block_on, log};

use crate::common::accept::{Members, Slots, accept_and_serve};
use crate::common::acceptor::{Acceptor, InPlace};
use crate::common::admission::Admission;
use crate::common::pressure::remedy;
use crate::common::waiters::{self, Waiters};
use crate::{About, Architecture, Footprint, HandOver, Options, Server, World};

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Pool;

const ABOUT: About = About {
    name: "pool",
    summary: "N kernel threads made at the start (--workers, --hand-over)",
    source: "Demsky, ZeroHTTPd, Kerneis & Chroboczek",
    world: Some(World::Block),
    ..About::BASE
};

impl Architecture for Pool {
    fn about(&self) -> &About {
        &ABOUT
    }

    fn places(&self, options: &Options) -> Option<usize> {
        Some(options.workers)
    }

    fn footprint(&self, options: &Options) -> Footprint {
        match options.hand_over {
            HandOver::Accept => Footprint::of_workers(options.workers),
            // Other connections wait in the list.
            HandOver::List => Footprint {
                accepted: options.accept_queue.map(|list| list.saturating_add(options.workers)),
                ..Footprint::STATE
            },
        }
    }

    fn serve(&self, server: Server) -> io::Result<()> {
        let crew = Crew {
            workers: server.options.workers,
            stack: thread::ThreadStack::chosen(server.options.stack_size, "a thread of the pool"),
            present: Connections::default(),
        };
        match server.options.hand_over {
            HandOver::List => by_a_list(&crew, server),
            HandOver::Accept => each_accepts(&crew, server),
        }
    }
}

/// The threads of a pool.
struct Crew {
    workers: usize,
    stack: thread::ThreadStack,
    /// Counts threads, not connections.
    present: Connections,
}

impl Crew {
    /// Starts the threads, or as many as possible.
    fn start(
        &self,
        admission: &Admission,
        mut work: impl FnMut(Active) -> io::Result<thread::ThreadBody>,
    ) -> io::Result<()> {
        for started in 0..self.workers {
            if let Err(error) = self.start_one(admission, started, &mut work) {
                if started == 0 {
                    return Err(error);
                }
                let (wanted, remedy) = (self.workers, remedy(&error));
                log::warn(format_args!(
                    "pool: {started} threads instead of {wanted}: {error}{remedy}"
                ));
                break;
            }
        }
        Ok(())
    }

    /// Starts one more thread.
    fn start_one(
        &self,
        admission: &Admission,
        there: usize,
        work: impl FnOnce(Active) -> io::Result<thread::ThreadBody>,
    ) -> io::Result<()> {
        admission.check(there)?;
        let body = work(self.present.enter())?;
        thread::start(self.stack, body).map_err(|refused| refused.error)
    }
}

fn each_accepts(crew: &Crew, server: Server) -> io::Result<()> {
    let limit = server.limit();
    let slots = Arc::new(Slots::for_threads(limit, crew.workers));
    let service = server.service.clone();
    let listener = server.into_listener();
    // Each thread has its own listener beside its connection.
    let members = Arc::new(Members::new(&listener, crew.workers, limit)?);
    let admission = Admission::new(&listener, service.descriptors() + 1, 1);
    crew.start(&admission, |present| {
        let (listener, service, slots) = (listener.try_clone()?, service.clone(), slots.clone());
        let members = members.clone();
        Ok(Box::new(move || {
            accept_and_serve(listener, &service, &members, slots.as_ref().as_ref());
            drop(present);
        }))
    })?;
    block_on(crew.present.all_ended());
    Ok(())
}

fn by_a_list(crew: &Crew, server: Server) -> io::Result<()> {
    let (service, limit) = (server.service.clone(), server.limit());
    let list = List::new(server.options.accept_queue.unwrap_or(usize::MAX), server.backlog()?);
    let list = Arc::new(list);
    crew.start(&Admission::of_memory(), |present| {
        let (list, service) = (list.clone(), service.clone());
        Ok(Box::new(move || {
            list.places.enter(&|| list.others_wait(), || {
                while let Some((stream, active)) = list.take() {
                    let task = service.begin(stream, active);
                    task::contain(|| block_on(task));
                }
            });
            drop(present);
        }))
    })?;
    let listener = server.into_listener();
    let admission = Admission::new(&listener, service.descriptors(), 1).of_descriptors();
    // Connections that a thread serves, or that wait for a thread.
    let connections = Connections::default();
    let mut acceptor = Acceptor::<InPlace>::new(listener, &service, limit, &connections, admission);
    block_on(async {
        task::show_stage("accept");
        loop {
            list.vacancy();
            let Some(stream) = acceptor.next(|| connections.count()).await else { break };
            list.put(stream, connections.enter());
        }
        acceptor.close().await;
        list.close();
        crew.present.all_ended().await;
    });
    Ok(())
}

/// Accepted connections that no thread has taken yet. Without a bound, the list takes all that
/// come. If a connection overflows the kernel's accept queue, its client is silent for a second or
/// longer, while threads may be idle.
struct List {
    /// How many connections may wait in the list, beside one for each waiting thread.
    size: usize,
    inner: Mutex<Inner>,
    /// A connection was added, or the list was closed.
    changed: Condvar,
    /// There is room for another connection.
    left: Condvar,
    /// The connections that wait in the kernel's accept queue.
    backlog: Backlog,
    /// The threads.
    places: Places,
}

#[derive(Default)]
struct Inner {
    streams: VecDeque<(TcpStream, Active)>,
    /// Threads that wait for a connection.
    idle: Waiters,
    /// The acceptor, while it waits for room.
    acceptor: Waiters,
    closed: bool,
}

impl Inner {
    fn has_room(&self, size: usize) -> bool {
        self.streams.len() < size.saturating_add(self.idle.count())
    }
}

impl List {
    fn new(size: usize, backlog: Backlog) -> Self {
        let (changed, left, places) = (Condvar::new(), Condvar::new(), Places::default());
        Self { size, inner: Mutex::default(), changed, left, backlog, places }
    }

    /// Whether connections wait while each thread has a connection.
    fn others_wait(&self) -> bool {
        let inner = self.lock();
        inner.idle.count() == 0 && (!inner.streams.is_empty() || self.backlog.has_connections())
    }

    /// Waits until there is room for another connection.
    fn vacancy(&self) {
        if self.size == usize::MAX {
            return;
        }
        let mut inner = self.lock();
        while !inner.has_room(self.size) {
            inner = waiters::wait(&self.left, inner, |inner| &mut inner.acceptor);
        }
    }

    fn put(&self, stream: TcpStream, active: Active) {
        let mut inner = self.lock();
        inner.streams.push_back((stream, active));
        let length = inner.streams.len();
        let wake = inner.idle.wake_for(length);
        drop(inner);
        wake.send(&self.changed);
    }

    /// Waits for a connection, and returns the one that has waited longest. `None` if no more will
    /// come.
    fn take(&self) -> Option<(TcpStream, Active)> {
        let mut inner = self.lock();
        while inner.streams.is_empty() && !inner.closed {
            // There is room for a connection that a thread waits for.
            self.call_acceptor(&mut inner);
            inner = waiters::wait(&self.changed, inner, |inner| &mut inner.idle);
        }
        let next = inner.streams.pop_front();
        if inner.has_room(self.size) {
            self.call_acceptor(&mut inner);
        }
        let left = inner.streams.len();
        let wake = inner.idle.wake_for(left);
        drop(inner);
        wake.send(&self.changed);
        next
    }

    fn call_acceptor(&self, inner: &mut Inner) {
        inner.acceptor.wake_for(1).send(&self.left);
    }

    fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
