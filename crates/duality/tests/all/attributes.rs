//! `#[duality::test]` and `#[duality::main]`.

use duality::time::{Duration, now, since, sleep};
use duality::{World, task};

#[duality::test]
async fn a_task_returns_in_every_world() {
    let task = task::spawn(async { 7 }).unwrap();
    assert_eq!(task.await, Ok(7));
}

#[duality::test(world = "park")]
async fn one_world_is_chosen() -> std::io::Result<()> {
    assert_eq!(duality_runtime::world::here(), World::Park);
    task::spawn(async {})?.await?;
    Ok(())
}

#[duality::test]
#[should_panic(expected = "on purpose")]
async fn a_panic_is_each_tests() {
    task::yield_now().await;
    panic!("on purpose");
}

#[duality::test(start_paused = true)]
async fn hours_pass_at_once() -> Result<(), String> {
    let (begin, real) = (now(), std::time::Instant::now());
    sleep(Duration::from_secs(24 * 3600)).await;
    assert!(since(begin) >= Duration::from_secs(24 * 3600));
    assert!(real.elapsed() < Duration::from_secs(3600));
    Ok(())
}

#[duality::test(world = "suspend", start_paused = true)]
async fn one_world_is_chosen_in_virtual_time() {
    assert_eq!(duality_runtime::world::here(), World::Suspend);
    sleep(Duration::from_secs(3600)).await;
}

#[cfg(feature = "simulate")]
#[duality::test(simulate = 0..20)]
async fn a_simulation_has_a_network(net: duality::simulate::Net) {
    let server = net.host("server", || async { sleep(Duration::from_secs(60)).await });
    server.ended().await.unwrap();
}

#[cfg(feature = "simulate")]
#[duality::test(simulate = 0..5)]
async fn a_simulation_needs_no_network() {
    sleep(Duration::from_secs(3600)).await;
}

mod program {
    #[duality::main(world = "reactor")]
    pub(super) async fn main() -> std::io::Result<u32> {
        let task = duality::task::spawn(async { 7 })?;
        Ok(task.await?)
    }
}

#[test]
fn main_runs_in_its_world() {
    assert_eq!(program::main().unwrap(), 7);
}
