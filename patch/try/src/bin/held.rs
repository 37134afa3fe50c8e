//! A program with a task that holds its loop: the task waits as a thread does. The argument says
//! for what.

use std::env;
use std::thread;
use std::time::Duration;

use futures::executor;
use tokio::sync::oneshot;

#[tokio::main]
async fn main() {
    match env::args().nth(1).as_deref() {
        Some("a-task") => {
            waits_on_its_loop(async { tokio::spawn(async { 7 }).await.unwrap() }).await
        }
        Some("a-time") => waits_on_its_loop(time_and(7)).await,
        Some("others") => waits_for_others().await,
        _ => sleeps().await,
    }
}

/// The end of the sleep comes from the kernel.
async fn sleeps() {
    let held = tokio::spawn(async { thread::sleep(Duration::from_millis(400)) });
    held.await.unwrap();
}

/// On one loop, the wait for what comes from this loop has no end.
async fn waits_on_its_loop(future: impl Future<Output = i32> + Send + 'static) {
    let held = tokio::spawn(async { println!("{}", executor::block_on(future)) });
    held.await.unwrap();
}

async fn time_and(number: i32) -> i32 {
    tokio::time::sleep(Duration::from_millis(1)).await;
    number
}

/// The wait ends after tasks that begin during the wait.
async fn waits_for_others() {
    let (begins, has_begun) = oneshot::channel();
    let (release, is_released) = oneshot::channel();
    let held = tokio::spawn(async move {
        begins.send(()).unwrap();
        executor::block_on(is_released).unwrap()
    });
    has_begun.await.unwrap();
    let others = Vec::from_iter((0..8).map(|number| tokio::spawn(async move { number })));
    let mut sum = 0;
    for other in others {
        sum += other.await.unwrap();
    }
    release.send(sum).unwrap();
    println!("{}", held.await.unwrap());
}
