//! The clock of a loop, which a test may stop. Worlds without a loop leave it alone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use duality_runtime::net::{ListenOptions, TcpListener, TcpStream};
use duality_runtime::task::{self, gather};
use duality_runtime::time::{Alarm, Duration, Instant, clock, sleep, timeout};
use duality_runtime::world::{self, World};

/// As good as never for a clock that goes.
const HOUR: Duration = Duration::from_secs(3600);
const MOMENT: Duration = Duration::from_millis(10);

duality_kit::in_every_world! {
    hours_pass_in_their_order_and_at_once
    what_comes_is_before_what_time_brings
    a_hold_keeps_time_from_passing
    an_advance_fires_what_is_due
    a_clock_goes_on_from_where_it_stood
    tasks_that_take_turns_leave_a_clock_ahead_its_timers
    plain_sleeps_pass_too
}

/// Stops the clock. False in a world without a loop, where it cannot be stopped.
fn stop() -> bool {
    let has_loop = matches!(world::here(), World::Park | World::Suspend);
    assert_eq!(clock::stop(), has_loop);
    assert_eq!(clock::stands(), has_loop);
    assert!(!clock::stop());
    if !has_loop {
        assert!(!clock::go_on() && !clock::advance(HOUR) && clock::hold().is_none());
    }
    has_loop
}

/// Waits on the clock of the loop.
async fn pass(duration: Duration) {
    gather(Alarm::new(Some(clock::now() + duration))).await;
}

async fn hours_pass_in_their_order_and_at_once() {
    if !stop() {
        return;
    }
    let (begin, machines) = (clock::now(), Instant::now());
    let order = Arc::new(Mutex::new(Vec::new()));
    let waiting = [3, 1, 2].map(|number| {
        let order = order.clone();
        let wait = async move {
            pass(number * HOUR).await;
            order.lock().unwrap().push(number);
            assert_eq!(clock::now() - begin, number * HOUR);
        };
        task::spawn(wait).unwrap()
    });
    for task in waiting {
        task.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [1, 2, 3]);
    assert!(machines.elapsed() < HOUR);
}

async fn what_comes_is_before_what_time_brings() {
    if !stop() {
        return;
    }
    let begin = clock::now();
    let any_port = ([127, 0, 0, 1], 0).into();
    let mut listener = TcpListener::bind(any_port, &ListenOptions::default()).unwrap();
    let address = listener.local_addr().unwrap();
    let late = task::spawn(pass(HOUR)).unwrap();
    let echo = task::spawn(async move {
        let (mut server, _) = listener.accept().await.unwrap();
        let mut byte = [0];
        while server.read(&mut byte).await.unwrap() == 1 {
            server.write_all(&byte).await.unwrap();
        }
    });
    let mut client = TcpStream::connect(address).await.unwrap();
    for number in 0..100 {
        client.write_all(&[number]).await.unwrap();
        let mut byte = [0];
        client.read_exact(&mut byte).await.unwrap();
        assert_eq!(byte, [number]);
    }
    assert_eq!(clock::now(), begin);
    drop(client);
    echo.unwrap().await.unwrap();
    late.await.unwrap();
    assert_eq!(clock::now() - begin, HOUR);
}

async fn a_hold_keeps_time_from_passing() {
    if !stop() {
        return;
    }
    let hold = clock::hold();
    let is_over = Arc::new(AtomicBool::new(false));
    let over = is_over.clone();
    let holder = thread::spawn(move || {
        // The loop is most likely asleep by then. It sleeps later on a busy machine.
        thread::sleep(3 * MOMENT);
        over.store(true, Ordering::SeqCst);
        drop(hold);
    });
    pass(HOUR).await;
    assert!(is_over.load(Ordering::SeqCst));
    holder.join().unwrap();
}

async fn an_advance_fires_what_is_due() {
    if !stop() {
        return;
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let over = is_over.clone();
    let waiting = task::spawn(async move {
        pass(2 * HOUR).await;
        over.store(true, Ordering::SeqCst);
    });
    // The task has to begin, or its time would count from later on.
    task::yield_now().await;
    let begin = clock::now();
    for hours in 1..=2 {
        assert!(clock::advance(HOUR));
        assert_eq!(clock::now() - begin, hours * HOUR);
        task::yield_now().await;
        task::yield_now().await;
        assert_eq!(is_over.load(Ordering::SeqCst), hours == 2);
    }
    waiting.unwrap().await.unwrap();
}

async fn a_clock_goes_on_from_where_it_stood() {
    if !stop() {
        return;
    }
    let begin = clock::now();
    pass(HOUR).await;
    let before = Instant::now();
    assert!(clock::go_on() && !clock::go_on() && !clock::advance(HOUR));
    let after = Instant::now();
    pass(MOMENT).await;
    let passed = clock::now() - begin;
    assert!(passed >= HOUR + MOMENT && after.elapsed() >= MOMENT);
    assert!(passed <= HOUR + before.elapsed());
    assert!(stop());
    pass(HOUR).await;
}

async fn tasks_that_take_turns_leave_a_clock_ahead_its_timers() {
    if !stop() {
        return;
    }
    for goes in [false, true] {
        let is_over = Arc::new(AtomicBool::new(false));
        let yielding = [(); 2].map(|()| {
            let is_over = is_over.clone();
            let turns = async move {
                while !is_over.load(Ordering::Relaxed) {
                    task::yield_now().await;
                }
            };
            task::spawn(turns).unwrap()
        });
        assert!(clock::advance(HOUR));
        if goes {
            assert!(clock::go_on());
            pass(MOMENT).await;
        } else {
            // Only this task can move the clock, since another task is always ready.
            task::yield_now().await;
        }
        is_over.store(true, Ordering::Relaxed);
        for task in yielding {
            task.await.unwrap();
        }
    }
}

async fn plain_sleeps_pass_too() {
    if !stop() {
        return;
    }
    sleep(HOUR).await;
    assert!(timeout(HOUR, sleep(2 * HOUR)).await.is_err());
}
