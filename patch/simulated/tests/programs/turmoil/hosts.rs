//! Hosts: crashes, restarts, times, and how a simulation ends.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use duality_simulate::{Faults, Net, seeds};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep};

use super::{SECOND, connect, legal, listen, serve_one};

/// turmoil: host_finishes_with_error
#[test]
fn the_error_of_a_host_is_its_end() {
    let failure = legal().unshrunk().try_run(|net: Net| async move {
        let host = net.host("server", || async { Err::<(), _>(io::Error::other("it broke")) });
        host.ended().await
    });
    assert!(failure.unwrap_err().why.contains("it broke"));
}

/// turmoil: timeout
#[test]
fn a_simulation_that_does_not_end_fails() {
    let failure = legal().lasting(SECOND).unshrunk().try_run(|_| async { sleep(2 * SECOND).await });
    assert!(failure.unwrap_err().why.contains("the time is over"));
}

/// turmoil: multiple_clients_all_finish
#[test]
fn clients_end_at_their_own_times() {
    legal().run(|net| async move {
        let clients = [1, 2, 3]
            .map(|number| net.client(&format!("client {number}"), move || sleep(number * SECOND)));
        for client in &clients {
            client.ended().await.unwrap();
        }
        assert!(clients.iter().all(|client| client.has_ended()));
    });
}

/// turmoil: elapsed_time
#[test]
fn time_passes_alike_on_all_hosts() {
    seeds(0..3).apart().faults(Faults::NONE).run(|net| async move {
        let began = Instant::now();
        let client = net.client("client", || async {
            let (began, day) = (Instant::now(), SystemTime::now());
            sleep(100 * SECOND).await;
            assert!(began.elapsed() < 101 * SECOND && day.elapsed().unwrap() < 101 * SECOND);
        });
        client.ended().await.unwrap();
        assert!(began.elapsed() >= 100 * SECOND && began.elapsed() < 101 * SECOND);
    });
}

/// turmoil: restart_host_after_crash
#[test]
fn a_crash_and_a_restart_run_main_again() {
    legal().run(|net| async move {
        let starts = Arc::new(AtomicU32::new(0));
        let count = starts.clone();
        let server = net.host("server", move || {
            count.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<()>()
        });
        sleep(SECOND).await;
        server.crash().restart_after(SECOND);
        sleep(3 * SECOND).await;
        assert_eq!(starts.load(Ordering::Relaxed), 2);
        assert!(!server.has_ended());
    });
}

/// turmoil: crash_blocks_until_complete
#[test]
fn a_crash_drops_what_the_host_held() {
    legal().run(|net| async move {
        let held = Arc::new(());
        let hold = Arc::downgrade(&held);
        let hand = Arc::new(std::sync::Mutex::new(Some(held)));
        let server = net.host("server", move || {
            let held = hand.lock().unwrap().take();
            async move {
                std::future::pending::<()>().await;
                drop(held);
            }
        });
        sleep(SECOND).await;
        assert!(hold.upgrade().is_some());
        server.crash();
        sleep(SECOND).await;
        assert!(hold.upgrade().is_none());
    });
}

/// turmoil: run_after_host_crashes, and bounce of its UDP tests
#[test]
fn a_connection_ends_with_its_host() {
    legal().run(|net| async move {
        serve_one(&net, |mut stream| async move {
            let byte = stream.read_u8().await?;
            stream.write_u8(byte).await?;
            std::future::pending().await
        });
        let mut stream = connect().await.unwrap();
        stream.write_u8(1).await.unwrap();
        stream.read_u8().await.unwrap();
        net.named("server").crash().restart_after(SECOND);
        sleep(2 * SECOND).await;
        // The new kernel knows nothing of the connection.
        let _ = stream.write_u8(1).await;
        stream.read_u8().await.unwrap_err();
        connect().await.map(drop)
    });
}

/// turmoil: is_host_running
#[test]
fn a_host_that_has_ended_is_known() {
    legal().run(|net| async move {
        let host = net.host("server", || async { drop(listen().await) });
        assert!(!host.has_ended());
        host.ended().await.unwrap();
        assert!(host.has_ended() && host.descriptors() == 0);
    });
}

/// turmoil: since_epoch_regression
#[test]
fn the_time_of_day_does_not_go_back() {
    legal().run(|_| async {
        let mut last = SystemTime::now();
        for _ in 0..100 {
            sleep(Duration::from_millis(7)).await;
            assert!(last.elapsed().is_ok());
            last = SystemTime::now();
        }
    });
}
