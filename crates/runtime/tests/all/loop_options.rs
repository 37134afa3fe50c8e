//! Options of a loop: to poll before it sleeps, and to read files itself.

use std::future::{Future, poll_fn};
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use duality_poller::{Direction, Event, Kind, Poller, Token};
use duality_runtime::event_loop::{EventLoop, LoopWorld, idle};
use duality_runtime::fs;
use duality_runtime::net::TcpStream;
use duality_runtime::select;
use duality_runtime::time::{Duration, Instant, sleep, timeout};

/// Long enough never to pass in a test that works.
const EVER: Duration = Duration::from_secs(20);
/// Short enough to wait for.
const MOMENT: Duration = Duration::from_millis(20);

/// A poller that notes whether it was asked to look only, or to wait.
struct Noting {
    poller: Box<dyn Poller>,
    looks: Arc<AtomicUsize>,
    waits: Arc<AtomicUsize>,
}

impl Poller for Noting {
    fn arm(&mut self, fd: BorrowedFd<'_>, token: Token, direction: Direction) -> io::Result<()> {
        self.poller.arm(fd, token, direction)
    }

    fn forget(&mut self, fd: BorrowedFd<'_>, token: Token) {
        self.poller.forget(fd, token);
    }

    fn forget_duplicate(&mut self, fd: BorrowedFd<'_>, token: Token) {
        self.poller.forget_duplicate(fd, token);
    }

    fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        let noted = if timeout == Some(Duration::ZERO) { &self.looks } else { &self.waits };
        noted.fetch_add(1, Ordering::Relaxed);
        self.poller.wait(timeout, events)
    }
}

#[test]
fn an_idle_loop_looks_for_as_long_as_it_was_told_before_it_sleeps() {
    for (budget, may_look, may_sleep) in
        [(Duration::ZERO, false, true), (Duration::from_nanos(1), true, true), (EVER, true, false)]
    {
        let (looks, waits) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let poller = Kind::Epoll.open().unwrap();
        let poller = Noting { poller, looks: looks.clone(), waits: waits.clone() };
        let opened = EventLoop::new(Box::new(poller), LoopWorld::Suspend).unwrap();
        let slept = opened.busy_polling(budget).run(async {
            let (start, before) = (Instant::now(), idle());
            sleep(MOMENT).await;
            assert!(idle() - before <= start.elapsed(), "looking is idle time, and once");
            idle() - before
        });
        assert!(slept > Duration::ZERO);
        let (looks, waits) = (looks.load(Ordering::Relaxed), waits.load(Ordering::Relaxed));
        assert!((looks > 0) == may_look && (waits > 0) == may_sleep, "{budget:?}: {looks} {waits}");
    }
}

#[test]
fn a_loop_that_reads_files_itself_has_them_at_once() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("file"), b"content").unwrap();
    let root = fs::Root::open(directory.path()).unwrap();
    let opened = EventLoop::new(Kind::Epoll.open().unwrap(), LoopWorld::Suspend).unwrap();
    opened.disk_in_place().run(async move {
        let mut reading = pin!(async move {
            let file = root.open_file("file").await.unwrap();
            let length = root.stat("file").await.unwrap().length;
            file.read_at(0, length as usize).await.unwrap()
        });
        let first = poll_fn(|context| Poll::Ready(reading.as_mut().poll(context))).await;
        assert_eq!(first, Poll::Ready(b"content".to_vec()), "it waited for no helper");
    });
}

/// A ring keeps the file of a socket for as long as a request names it.
#[test]
fn a_socket_that_is_closed_within_a_run_has_ended_for_its_peer_after_the_run() {
    for kind in Kind::ALL.iter().filter(|kind| kind.unavailable().is_none()) {
        for gathers in [false, true] {
            let poller = kind.open().unwrap();
            let mut event_loop = EventLoop::new(poller, LoopWorld::Suspend).unwrap();
            let mut peer = event_loop.run_until(a_client_leaves_while_it_reads(gathers));
            let peer = peer.as_mut().unwrap().as_mut().unwrap();
            peer.set_read_timeout(Some(EVER)).unwrap();
            assert_eq!(peer.read(&mut [0]).unwrap(), 0, "{kind:?}, gathers: {gathers}");
        }
    }
}

/// Returns the peer of a socket that was closed within a read.
async fn a_client_leaves_while_it_reads(gathers: bool) -> std::net::TcpStream {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (peer, _) = listener.accept().unwrap();
    if gathers {
        let mut buffer = [0];
        select! {
            _ = client.read(&mut buffer) => panic!("nothing was sent"),
            () = sleep(MOMENT) => {}
        }
    } else {
        timeout(MOMENT, async { client.read(&mut [0]).await }).await.unwrap_err();
    }
    drop(client);
    peer
}
