//! `run_in`: what happens to tasks that are left when the body ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duality_runtime::net::{ListenOptions, TcpListener, TcpStream};
use duality_runtime::sync::channel::bounded;
use duality_runtime::time::{sleep, timeout};
use duality_runtime::world::World;
use duality_runtime::{run_in, task};

struct Counts(Arc<AtomicUsize>);

impl Drop for Counts {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A task is left at a time, at a time limit, at a socket and at a channel.
#[test]
fn tasks_that_are_left_are_dropped() {
    for world in [World::Park, World::Suspend, World::Reactor] {
        let dropped = Arc::new(AtomicUsize::new(0));
        let count = || Counts(Arc::clone(&dropped));
        let (one, two, three, four) = (count(), count(), count(), count());
        run_in(world, async move {
            const LONG: Duration = Duration::from_secs(3600);
            task::spawn(async move {
                let _one = one;
                sleep(LONG).await;
            })
            .unwrap();
            task::spawn(async move {
                let _two = two;
                let _ = timeout(LONG, std::future::pending::<()>()).await;
            })
            .unwrap();
            let mut listener =
                TcpListener::bind(([127, 0, 0, 1], 0).into(), &ListenOptions::default()).unwrap();
            let address = listener.local_addr().unwrap();
            task::spawn(async move {
                let _three = three;
                let mut stream = TcpStream::connect(address).await.unwrap();
                let _ = stream.read(&mut [0]).await;
            })
            .unwrap();
            let (_sender, mut receiver) = bounded::<()>(1);
            task::spawn(async move {
                let _four = four;
                let _ = receiver.recv().await;
            })
            .unwrap();
            let _accepted = listener.accept().await.unwrap();
            for _ in 0..10 {
                task::yield_now().await;
            }
        });
        assert_eq!(dropped.load(Ordering::SeqCst), 4, "{world:?}");
    }
}
