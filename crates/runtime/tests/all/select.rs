//! `select!` with guards, patterns that may not match, and `else`, in every world.

use std::pin::pin;

use duality_runtime::select;
use duality_runtime::sync::channel::{Receiver, Sender, bounded};
use duality_runtime::task;
use duality_runtime::time::{Duration, sleep, timeout};

const MOMENT: Duration = Duration::from_millis(2);
const FOR_EVER: Duration = Duration::from_secs(3600);

duality_kit::in_every_world! {
    a_pattern_that_does_not_match_disables_its_branch
    a_disabled_branch_is_not_polled_again
    a_branch_with_a_false_guard_is_not_made
    guards_are_asked_before_futures_borrow
    else_ends_a_loop_over_channels
    without_else_it_panics_and_names_the_remedy
    expressions_leave_the_loop_and_the_function
    blocks_need_no_comma
    bindings_are_moved_borrowed_and_mutable
    one_future_goes_through_many_selects
    the_order_is_that_of_the_branches
    a_select_within_a_time_limit
    many_branches
}

fn full(values: &[u32]) -> (Sender<u32>, Receiver<u32>) {
    let (sender, receiver) = bounded(values.len().max(1));
    values.iter().for_each(|value| sender.try_send(*value).unwrap());
    (sender, receiver)
}

async fn a_pattern_that_does_not_match_disables_its_branch() {
    let (sender, mut gone) = full(&[]);
    drop(sender);
    let (_sender, mut late) = full(&[]);
    let told = select! {
        Some(value) = gone.recv() => value,
        Some(value) = late.recv() => value,
        () = sleep(MOMENT) => 7,
    };
    assert_eq!(told, 7);
}

async fn a_disabled_branch_is_not_polled_again() {
    // An `async` block that is polled after its end panics.
    let told = select! {
        Err(()) = async { Ok::<u32, ()>(1) } => 0,
        () = async { for _ in 0..5 { sleep(MOMENT / 4).await } } => 2,
    };
    assert_eq!(told, 2);
}

async fn a_branch_with_a_false_guard_is_not_made() {
    let mut queue: Option<Receiver<u32>> = None;
    let told = select! {
        Some(value) = queue.as_mut().unwrap().recv(), if queue.is_some() => value,
        () = sleep(MOMENT) => 3,
    };
    assert_eq!(told, 3);
    let (_sender, receiver) = full(&[9]);
    queue = Some(receiver);
    let told = select! {
        Some(value) = queue.as_mut().unwrap().recv(), if queue.is_some() => value,
        () = sleep(FOR_EVER) => 3,
    };
    assert_eq!(told, 9);
}

async fn guards_are_asked_before_futures_borrow() {
    let mut list = vec![1, 2];
    async fn pop(list: &mut Vec<u32>) -> Option<u32> {
        list.pop()
    }
    let mut seen = Vec::new();
    loop {
        select! {
            Some(value) = pop(&mut list) => seen.push(value),
            () = sleep(FOR_EVER), if list.len() > 5 => unreachable!(),
            else => break,
        }
    }
    assert_eq!(seen, [2, 1]);
}

async fn else_ends_a_loop_over_channels() {
    let (one_sends, mut one) = full(&[]);
    let (other_sends, mut other) = full(&[]);
    let sending = task::spawn(async move {
        for value in 0..10 {
            one_sends.send(value).await.unwrap();
            if value < 5 {
                other_sends.send(100).await.unwrap();
            }
        }
    });
    let mut sum = 0;
    loop {
        select! {
            biased;
            Some(value) = one.recv() => sum += value,
            Some(value) = other.recv() => sum += value,
            else => break,
        }
    }
    assert_eq!(sum, 545);
    sending.unwrap().await.unwrap();
}

async fn without_else_it_panics_and_names_the_remedy() {
    let task = task::spawn(async {
        select! {
            Some(value) = async { None::<u32> } => value,
            () = sleep(MOMENT), if false => 1,
        }
    });
    let error = task.unwrap().await.unwrap_err();
    assert!(error.to_string().contains("add `else => EXPRESSION`"), "{error}");
}

async fn expressions_leave_the_loop_and_the_function() {
    async fn first_even(values: &mut Receiver<u32>) -> Result<u32, String> {
        loop {
            let value = select! {
                Some(value) = values.recv() => value,
                else => return Err("none is left".to_owned()),
            };
            select! {
                checked = async { if value == 5 { Err("five".to_owned()) } else { Ok(value) } } => {
                    if checked? % 2 == 1 {
                        continue;
                    }
                    break Ok(value);
                }
            }
        }
    }
    let (sender, mut values) = full(&[1, 3, 4, 5, 7]);
    drop(sender);
    assert_eq!(first_even(&mut values).await, Ok(4));
    assert_eq!(first_even(&mut values).await, Err("five".to_owned()));
    assert_eq!(first_even(&mut values).await, Err("none is left".to_owned()));
}

async fn blocks_need_no_comma() {
    let (_sender, mut values) = full(&[1, 2]);
    let mut seen = Vec::new();
    for _ in 0..4 {
        select! {
            Some(value) = values.recv() => {
                seen.push(value);
                sleep(MOMENT / 10).await;
            }
            () = sleep(MOMENT), if seen.len() == 2 => { seen.push(3) }
            _ = sleep(MOMENT) => {}
        }
    }
    assert_eq!(seen, [1, 2, 3]);
}

async fn bindings_are_moved_borrowed_and_mutable() {
    let pair = async { (String::from("a"), Some(vec![1])) };
    let (text, list) = select! {
        (text, Some(mut list)) = pair => {
            list.push(2);
            (text, list)
        }
        else => unreachable!(),
    };
    assert_eq!((text.as_str(), list.as_slice()), ("a", &[1, 2][..]));
    let (_sender, mut values) = full(&[1]);
    let told = select! {
        found @ (Some(1 | 2) | None) = values.recv() => found,
        () = sleep(FOR_EVER) => None,
    };
    assert_eq!(told, Some(1));
    select! {
        (ref mut number, ref text) = async { (1, "x".to_owned()) } => {
            *number += 1;
            assert_eq!((*number, text.as_str()), (2, "x"));
        }
    }
}

async fn one_future_goes_through_many_selects() {
    let mut long = pin!(async {
        sleep(3 * MOMENT).await;
        5
    });
    let mut rounds = 0;
    let told = loop {
        select! {
            told = &mut long => break told,
            () = sleep(MOMENT / 2) => rounds += 1,
        }
    };
    assert_eq!(told, 5);
    assert!(rounds > 0);
}

async fn the_order_is_that_of_the_branches() {
    for _ in 0..100 {
        let first = select! {
            () = std::future::ready(()) => 1,
            () = std::future::ready(()) => 2,
        };
        assert_eq!(first, 1);
    }
}

async fn a_select_within_a_time_limit() {
    let (_sender, mut values) = full(&[]);
    let limited = timeout(MOMENT, async {
        select! {
            Some(value) = values.recv() => value,
            () = sleep(FOR_EVER), if true => 1,
            else => 2,
        }
    });
    assert!(limited.await.is_err());
}

async fn many_branches() {
    let told = select! {
        1 = async { 0 } => 1,
        2 = async { 0 } => 2,
        3 = async { 0 } => 3,
        4 = async { 0 } => 4,
        5 = async { 0 } => 5,
        6 = async { 0 } => 6,
        7 = async { 0 } => 7,
        8 = async { 0 }, if false => 8,
        9 = async { 0 } => 9,
        10 = async { 0 } => 10,
        0 = async { sleep(MOMENT).await; 0 } => 11,
        _ = sleep(FOR_EVER) => 12,
        else => 13,
    };
    assert_eq!(told, 11);
}
