//! A program with a task that holds its loop: the task sleeps as a thread does.

use std::thread;
use std::time::Duration;

#[tokio::main]
async fn main() {
    let held = tokio::spawn(async { thread::sleep(Duration::from_millis(400)) });
    held.await.unwrap();
}
