//! Loads on a chat: every line must reach every other member, once and in order.

use duality_load::{Error, Options, Stop, Target, run};
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{load, only_error, options, server};

/// One line on its way to one member. Members count from 1, in the order in which they came.
struct Delivery {
    /// The number of earlier members, in the whole chat.
    count: u64,
    from: u64,
    to: u64,
}

/// A chat; `spoil` may put something else in the place of a line to one member. After a piece of a
/// line, that member hears nothing more.
fn chat(spoil: impl FnMut(Delivery, String) -> String + Send + 'static) -> Target {
    struct Room<F> {
        members: Vec<(u64, TcpStream)>,
        count: u64,
        spoil: F,
    }
    let room = Mutex::new(Room { members: Vec::new(), count: 0, spoil });
    let address = server(move |mut stream, connection| {
        let number = connection + 1;
        {
            let mut room = room.lock().unwrap();
            stream.write_all(format!("* you are {number}\n").as_bytes()).unwrap();
            room.members.push((number, stream.try_clone().unwrap()));
        }
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let mut room = room.lock().unwrap();
            let Room { members, count, spoil } = &mut *room;
            for (to, stream) in members.iter_mut().filter(|(to, _)| *to != number) {
                let delivery = Delivery { count: *count, from: number, to: *to };
                let text = spoil(delivery, format!("{number}> {line}\n"));
                let _ = stream.write_all(text.as_bytes());
                if !text.is_empty() && !text.ends_with('\n') {
                    let _ = stream.shutdown(Shutdown::Write);
                }
                *count += 1;
            }
        }
        room.lock().unwrap().members.retain(|(member, _)| *member != number);
    });
    Target::chat(address, 5)
}

#[test]
fn every_delivery_is_counted() {
    for members in [2, 3, 10] {
        // 20 lines of each, in rounds of 5.
        let deliveries = members * (members - 1) * 20;
        let report = load(&options(chat(|_, line| line), members as usize, deliveries));
        assert_eq!((report.requests, report.errors.len()), (deliveries, 0), "{:?}", report.errors);
        assert_eq!((report.connections_opened, report.connections_served), (members, members));
        assert_eq!(report.latencies().unwrap().len(), deliveries);
        assert!(report.bytes_received > 20 * deliveries, "{}", report.bytes_received);
    }
}

#[test]
fn of_more_than_ten_thousand_deliveries_none_is_left_out() {
    let report = load(&options(chat(|_, line| line), 15, 15 * 14 * 50));
    assert_eq!((report.requests, report.errors.len()), (10_500, 0), "{:?}", report.errors);
}

#[test]
fn the_last_round_may_be_a_part_of_one() {
    for deliveries in [1, 8, 9, 10, 91, 1_234] {
        let report = load(&options(chat(|_, line| line), 10, deliveries));
        assert_eq!((report.requests, report.errors.len()), (deliveries, 0), "{:?}", report.errors);
    }
}

#[test]
fn a_load_for_a_time_goes_on_until_then() {
    let options = Options {
        stop: Stop::After(Duration::from_millis(300)),
        ..options(chat(|_, line| line), 5, 1)
    };
    let report = load(&options);
    assert!(report.requests > 0 && report.errors.is_empty(), "{:?}", report.errors);
    assert_eq!(report.connections_opened, 5);
}

#[test]
fn whatever_is_not_due_is_wrong() {
    let wrong: [fn(&Delivery, &str) -> String; 8] = [
        |to, line| format!("{line}{}> hello\n", to.to),
        |_, line| line.repeat(2),
        |_, line| line.replace("  ", " "),
        |_, line| line.to_uppercase(),
        |_, line| line.replacen("> ", ">", 1),
        |to, line| line.replace(&format!("{}> ", to.from), "99> "),
        |_, line| format!("{line}* welcome\n"),
        |_, line| line.replace('\n', "\r\n"),
    ];
    for wrong in wrong {
        let target = chat(move |delivery, line| match delivery.count {
            500 => wrong(&delivery, &line),
            _ => line,
        });
        let report = load(&options(target, 6, 3_000));
        let (kind, failed) = only_error(&report);
        assert_eq!((kind, report.requests + failed), ("wrong-bytes", 3_000));
    }
}

#[test]
fn lines_of_one_sender_in_another_order_or_with_one_missing_are_wrong() {
    for missing in [false, true] {
        let mut held = None;
        let target = chat(move |delivery, line| {
            if delivery.count >= 500 && (delivery.from, delivery.to) == (1, 2) {
                if held.is_none() {
                    held = Some(line);
                    return String::new();
                }
                if !missing && let Some(held) = held.as_mut().filter(|held| !held.is_empty()) {
                    return line + &std::mem::take(held);
                }
            }
            line
        });
        // In rounds of 5 lines of each, four of five next lines are in the same round.
        let reply_timeout = Duration::from_millis(500);
        let report = load(&Options { reply_timeout, ..options(target, 6, 3_000) });
        let (kind, failed) = only_error(&report);
        assert!(["wrong-bytes", "timed-out"].contains(&kind), "{kind}");
        assert_eq!(report.requests + failed, 3_000);
    }
}

#[test]
fn members_must_hear_lines_in_one_order() {
    // To the first member, the lines of the second and the fourth come the wrong way round.
    let mut held = None;
    let target = chat(move |delivery, line| match (delivery.from, delivery.to) {
        (2 | 4, 1) => match held.take() {
            None => {
                held = Some(line);
                String::new()
            }
            Some(earlier) => line + &earlier,
        },
        _ => line,
    });
    let address = target.address().unwrap();
    let report = load(&options(Target::chat(address, 1), 4, 12 * 10));
    let (kind, failed) = only_error(&report);
    assert_eq!((kind, report.requests + failed), ("wrong-bytes", 120));
    assert!(report.warnings.iter().any(|warning| warning.text.contains("different orders")));
}

#[test]
fn a_line_after_the_last_is_wrong() {
    let target = chat(|delivery, line| line.repeat(if delivery.count == 599 { 2 } else { 1 }));
    let report = load(&options(target, 6, 600));
    assert_eq!((report.requests, only_error(&report)), (599, ("wrong-bytes", 1)));
}

#[test]
fn the_last_delivery_missing_is_waited_for_no_longer_than_asked() {
    let target = chat(|delivery, line| if delivery.count == 599 { String::new() } else { line });
    let reply_timeout = Duration::from_millis(300);
    let report = load(&Options { reply_timeout, ..options(target, 6, 600) });
    let (kind, failed) = only_error(&report);
    assert_eq!((kind, report.requests + failed), ("timed-out", 600));
}

#[test]
fn a_member_that_is_dropped_is_a_failure() {
    for (word, expected) in [("* too slow\n", "too-slow"), ("2> 00", "closed-early")] {
        let target =
            chat(move |delivery, line| if delivery.count == 500 { word.to_owned() } else { line });
        let report = load(&options(target, 4, 1_200));
        let (kind, failed) = only_error(&report);
        assert_eq!((kind, report.requests + failed), (expected, 1_200));
    }
}

#[test]
fn a_load_for_a_time_goes_on_in_a_new_room() {
    let target = chat(|delivery, line| if delivery.count == 200 { line.repeat(2) } else { line });
    // Long enough for the old room to be left, and ended by the first progress of the new one.
    struct UntilRejoined<'a>(&'a AtomicBool, &'a AtomicU64);
    impl duality_load::Observer for UntilRejoined<'_> {
        fn progress(&mut self, requests: u64, _: Duration) {
            let before = self.1.swap(requests, Ordering::Relaxed);
            self.0.fetch_or(before > 1_000 && requests > before, Ordering::Relaxed);
        }
    }
    let (enough, last) = (AtomicBool::new(false), AtomicU64::new(0));
    let options = Options { stop: Stop::After(Duration::from_secs(3600)), ..options(target, 5, 1) };
    let report = run(&options, &mut UntilRejoined(&enough, &last), &enough).unwrap();
    assert_eq!(only_error(&report), ("wrong-bytes", 1));
    assert_eq!(report.connections_opened, 10);
    assert!(report.requests > 1_000, "{}", report.requests);
}

#[test]
fn a_server_that_does_not_let_all_members_in_is_told_before_the_load() {
    // Three workers, each for as long as its member stays.
    let address = server(|mut stream, connection| {
        if connection < 3 {
            stream.write_all(format!("* you are {}\n", connection + 1).as_bytes()).unwrap();
        }
        let _ = stream.peek(&mut [0; 1]);
    });
    let options = Options {
        reply_timeout: Duration::from_millis(300),
        ..options(Target::chat(address, 5), 7, 42)
    };
    let error = run(&options, &mut (), &AtomicBool::new(false)).unwrap_err().to_string();
    assert!(error.contains("only 3 of 7 members were let in: "), "{error}");
    assert!(error.ends_with("give the server more workers, or use fewer connections"), "{error}");
}

#[test]
fn what_is_no_welcome_is_told_before_the_load() {
    for (welcome, problem) in [
        ("* you are 1\n", "two members have the same number"),
        ("* you are the champions\n", "says what it has no reason to say"),
        ("* the server is full\n", "the server says that it is full"),
        ("", "closed the connection after 0 bytes"),
    ] {
        let address = server(move |mut stream, _| stream.write_all(welcome.as_bytes()).unwrap());
        let options = options(Target::chat(address, 5), 2, 2);
        let error = run(&options, &mut (), &AtomicBool::new(false)).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn a_chat_of_one_and_one_without_stay_are_refused() {
    let target = Target::chat(SocketAddr::from(([127, 0, 0, 1], 0)), 5);
    for options in
        [options(target.clone(), 1, 10), Options { keep_alive: false, ..options(target, 2, 10) }]
    {
        let error = run(&options, &mut (), &AtomicBool::new(false)).unwrap_err();
        assert!(matches!(error, Error::Options(_)), "{error}");
        assert!(error.to_string().starts_with("chat needs "), "{error}");
    }
}

/// A chat on several servers, whatever joins them.
#[derive(Default)]
struct Joined {
    members: Vec<Option<TcpStream>>,
    /// The members of the second server.
    of_second: Vec<TcpStream>,
    second_has_ended: bool,
}

impl Joined {
    /// The second server says nothing more to any member, and takes no more lines.
    fn end_second(&mut self) {
        self.second_has_ended = true;
        for stream in self.of_second.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn servers(count: usize) -> (Target, Arc<Mutex<Joined>>) {
    let joined: Arc<Mutex<Joined>> = Arc::default();
    let serve = |place| {
        let joined = joined.clone();
        server(move |mut stream, _| {
            let index = {
                let mut joined = joined.lock().unwrap();
                let index = joined.members.len();
                stream.write_all(format!("* you are {}\n", index + 1).as_bytes()).unwrap();
                joined.members.push(Some(stream.try_clone().unwrap()));
                if place == 1 {
                    joined.of_second.push(stream.try_clone().unwrap());
                }
                index
            };
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                let mut joined = joined.lock().unwrap();
                if place == 1 && joined.second_has_ended {
                    break;
                }
                for (_, member) in
                    joined.members.iter_mut().enumerate().filter(|(to, _)| *to != index)
                {
                    let line = format!("{}> {line}\n", index + 1);
                    let _ = member.as_mut().map(|stream| stream.write_all(line.as_bytes()));
                }
            }
            // The second server's streams have another copy.
            let left = joined.lock().unwrap().members[index].take().unwrap();
            let _ = left.shutdown(Shutdown::Both);
        })
    };
    let addresses: Vec<_> = (0..count).map(|place| serve(place).to_string()).collect();
    (format!("chat://{}", addresses.join(",")).parse().unwrap(), joined)
}

#[test]
fn members_join_at_each_server_in_turn() {
    let (target, joined) = servers(3);
    let report = load(&options(target, 7, 7 * 6 * 20));
    assert_eq!((report.requests, report.errors.len()), (7 * 6 * 20, 0), "{:?}", report.errors);
    assert_eq!(joined.lock().unwrap().of_second.len(), 2);
}

#[test]
fn the_others_go_on_without_the_members_of_a_server_that_ends() {
    const DELIVERIES: u64 = 400_000;
    struct EndsTheSecond(Arc<Mutex<Joined>>);
    impl duality_load::Observer for EndsTheSecond {
        fn progress(&mut self, requests: u64, _: Duration) {
            if requests > 1_000 {
                self.0.lock().unwrap().end_second();
            }
        }
    }
    let (target, joined) = servers(3);
    let options = options(target, 8, DELIVERIES);
    let report = run(&options, &mut EndsTheSecond(joined), &AtomicBool::new(false)).unwrap();
    let lost: u64 = report.errors.values().sum();
    let errors = &report.errors;
    let is_loss = |kind: &String| ["reset", "closed-early"].contains(&kind.as_str());
    assert!(errors.keys().all(is_loss), "{errors:?}, {} requests", report.requests);
    assert_eq!((report.requests, lost), (DELIVERIES - 3, 3), "{errors:?}");
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let (target, _) = servers(1);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let target = format!("{target},{nobody}").parse().unwrap();
    let error = run(&options(target, 4, 12), &mut (), &AtomicBool::new(false)).unwrap_err();
    assert!(error.to_string().contains(&format!("{nobody}: connection refused")), "{error}");
}
