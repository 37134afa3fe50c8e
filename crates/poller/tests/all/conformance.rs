//! The promises of every poller. Each test runs once per kind, and its name says which kind
//! (`epoll::peer_close_is_reported`).

use std::collections::HashSet;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::common::{END, fill, pair, read_once, report};
use duality_poller::{Direction, Event, Kind, Poller, Token};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use rustix::pipe::PipeFlags;
use rustix::process::{Resource, getrlimit, setrlimit};

/// The limit after which a wait counts as failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// Makes a test of each function under each poller.
macro_rules! every_poller {
    ($($test:ident),* $(,)?) => {
        every_poller!(@module select, Kind::Select, $($test),*);
        every_poller!(@module poll, Kind::Poll, $($test),*);
        every_poller!(@module epoll, Kind::Epoll, $($test),*);
        every_poller!(@module uring, Kind::Uring, $($test),*);

        /// The list above must name every poller of the registry.
        #[test]
        fn every_kind_is_tested() {
            assert_eq!(Kind::ALL, [Kind::Select, Kind::Poll, Kind::Epoll, Kind::Uring]);
        }
    };
    (@module $module:ident, $kind:expr, $($test:ident),*) => {
        mod $module {
            use super::*;
            $(
                #[test]
                fn $test() -> io::Result<()> {
                    match $kind.unavailable() {
                        Some(reason) => writeln!(io::stderr(), "skipped: {reason}"),
                        None => super::$test($kind.open()?),
                    }
                }
            )*
        }
    };
}

every_poller!(
    readable_after_arm,
    ready_before_arm,
    writable_at_once_and_after_a_drain,
    writable_after_a_drain_by_a_peer_that_has_ended_its_side,
    nothing_is_lost_over_many_rounds,
    both_directions_at_once,
    peer_close_is_reported,
    peer_close_after_the_last_bytes_is_reported,
    reset_is_reported_both_ways,
    a_broken_pipe_is_reported_both_ways,
    one_arm_buys_one_report,
    an_idle_descriptor_whose_peer_left_does_not_spin,
    connections_stay_with_an_armed_listener,
    token_and_descriptor_are_reused,
    forgetting_what_was_never_armed,
    forgotten_but_still_open,
    one_ready_among_many,
    descriptors_beyond_fd_setsize,
    zero_timeout_looks_and_returns,
    timeouts_are_never_cut_short,
);

fn readable_after_arm(mut poller: Box<dyn Poller>) -> io::Result<()> {
    let (near, far) = pair()?;
    poller.arm(near.as_fd(), Token(3), Direction::Read)?;
    assert_eq!(look(&mut *poller)?, [], "nothing was sent yet");
    rustix::io::write(&far, b"x")?;
    let event = await_report(&mut *poller, Token(3), Direction::Read)?;
    assert!(!event.hangup);
    Ok(())
}

fn ready_before_arm(mut poller: Box<dyn Poller>) -> io::Result<()> {
    let (near, far) = pair()?;
    rustix::io::write(&far, b"x")?;
    poller.arm(near.as_fd(), Token(0), Direction::Read)?;
    await_report(&mut *poller, Token(0), Direction::Read)?;
    Ok(())
}

fn writable_at_once_and_after_a_drain(mut poller: Box<dyn Poller>) -> io::Result<()> {
    let (near, far) = pair()?;
    poller.arm(near.as_fd(), Token(0), Direction::Write)?;
    await_report(&mut *poller, Token(0), Direction::Write)?;
    for _ in 0..10 {
        fill(&near)?;
        poller.arm(near.as_fd(), Token(0), Direction::Write)?;
        assert_eq!(look(&mut *poller)?, [], "the socket is full");
        while read_once(&far, 64 * 1024)?.is_some() {}
        await_report(&mut *poller, Token(0), Direction::Write)?;
    }
    Ok(())
}

/// The peer's end is a separate report, and must not use up the report that the writer waits for.
fn writable_after_a_drain_by_a_peer_that_has_ended_its_side(
    mut poller: Box<dyn Poller>,
) -> io::Result<()> {
    let (near, far) = pair()?;
    shutdown(&far, Shutdown::Write)?;
    for _ in 0..10 {
        fill(&near)?;
        poller.arm(near.as_fd(), Token(0), Direction::Write)?;
        let early = look(&mut *poller)?;
        assert_eq!(report(&early, Token(0), Direction::Write), None, "the socket is full");
        while read_once(&far, 64 * 1024)?.is_some() {}
        await_report(&mut *poller, Token(0), Direction::Write)?;
    }
    Ok(())
}

/// Sends many messages through one descriptor, as a long connection does.
fn nothing_is_lost_over_many_rounds(mut poller: Box<dyn Poller>) -> io::Result<()> {
    const ROUNDS: usize = 2_000;
    let (near, far) = pair()?;
    let (mut sent, mut received) = (0, 0);
    for round in 0..ROUNDS {
        let message = &[7; 100][..1 + round % 100];
        // The bytes come before `arm` in half of the rounds, and after `arm` in the others.
        if round % 2 == 0 {
            sent += rustix::io::write(&far, message)?;
        }
        poller.arm(near.as_fd(), Token(1), Direction::Read)?;
        if round % 2 == 1 {
            sent += rustix::io::write(&far, message)?;
        }
        while received < sent {
            await_report(&mut *poller, Token(1), Direction::Read)?;
            while let Some(count) = read_once(&near, 32)? {
                received += count;
            }
            if received < sent {
                poller.arm(near.as_fd(), Token(1), Direction::Read)?;
            }
        }
    }
    assert_eq!(received, sent);
    Ok(())
}

fn both_directions_at_once(mut poller: Box<dyn Poller>) -> io::Result<()> {
    let (near, far) = pair()?;
    fill(&near)?;
    poller.arm(near.as_fd(), Token(0), Direction::Read)?;
    poller.arm(near.as_fd(), Token(0), Direction::Write)?;
    assert_eq!(look(&mut *poller)?, [], "neither way is ready");
    rustix::io::write(&far, b"x")?;
    await_report(&mut *poller, Token(0), Direction::Read)?;
    while read_once(&far, 64 * 1024)?.is_some() {}
    await_report(&mut *poller, Token(0), Direction::Write)?;
    Ok(())
}

fn peer_close_is_reported(mut poller: Box<dyn Poller>) -> io::Result<()> {
    let (near, far) = pair()?;
    poller.arm(near.as_fd(), Token(0), Direction::Read)?;
    drop(far);
    await_report(&mut *poller, Token(0), Direction::Read)?;
    assert_eq!(read_once(&near, 10)?, END);
    Ok(())
}

/// The end of the stream came with the bytes of a short read, so its edge is spent.
fn peer_close_after_the_last_bytes_is_reported(mut poller: Box<dyn Poller>) -> io::Result<()> {
    let (near, far) = pair()?;
    poller.arm(near.as_fd(), Token(0), Direction::Read)?;
    rustix::io::write(&far, b"bye")?;
    rustix::net::shutdown(&far, rustix::net::Shutdown::Write)?;
    let event = await_report(&mut *poller, Token(0), Direction::Read)?;
    assert_eq!(read_once(&near, 10)?, Some(3), "a short read");
    if !event.hangup {
        poller.arm(near.as_fd(), Token(0), Direction::Read)?;
        await_report(&mut *poller, Token(0), Direction::Read)?;
    }
    assert_eq!(read_once(&near, 10)?, END);
    Ok(())
}

fn reset_is_reported_both_ways(mut poller: Box<dyn Poller>) -> io::Result<()> {
    for direction in [Direction::Read, Direction::Write] {
        let (near, far) = tcp_pair()?;
        fill(&near)?;
        poller.arm(near.as_fd(), Token(0), direction)?;
        rustix::net::sockopt::set_socket_linger(&far, Some(Duration::ZERO))?;
        drop(far);
        await_report(&mut *poller, Token(0), direction)?;
        let mut byte = [0];
        assert_eq!(rustix::io::read(&near, &mut byte), Err(Errno::CONNRESET));
        poller.forget(near.as_fd(), Token(0));
    }
    Ok(())
}

/// A pipe reports a hang-up without IN, and an error without OUT. The poller must add them.
fn a_broken_pipe_is_reported_both_ways(mut poller: Box<dyn Poller>) -> io::Result<()> {
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::NONBLOCK)?;
    poller.arm(reader.as_fd(), Token(0), Direction::Read)?;
    drop(writer);
    await_report(&mut *poller, Token(0), Direction::Read)?;
    assert_eq!(read_once(&reader, 10)?, END);

    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::NONBLOCK)?;
    fill(&writer)?;
    poller.arm(writer.as_fd(), Token(1), Direction::Write)?;
    drop(reader);
    await_report(&mut *poller, Token(1), Direction::Write)?;
    Ok(())
}

fn one_arm_buys_one_report(mut poller: Box<dyn Poller>) -> io::Result<()> {
    let (near, far) = pair()?;
    rustix::io::write(&far, b"x")?;
    for direction in [Direction::Read, Direction::Write] {
        poller.arm(near.as_fd(), Token(0), direction)?;
        await_report(&mut *poller, Token(0), direction)?;
        assert_eq!(look(&mut *poller)?, [], "still ready, but not asked for");
    }
    Ok(())
}

/// poll(2) reports a hang-up even if the entry asks for nothing. So the poller must remove the
/// entry.
fn an_idle_descriptor_whose_peer_left_does_not_spin(mut poller: Box<dyn Poller>) -> io::Result<()> {
    let (near, far) = pair()?;
    poller.arm(near.as_fd(), Token(0), Direction::Read)?;
    drop(far);
    await_report(&mut *poller, Token(0), Direction::Read)?;
    assert_eq!(look(&mut *poller)?, [], "one arm, one report: the task is busy elsewhere");
    Ok(())
}

/// A poller that reports connections must not accept them, even if it can.
fn connections_stay_with_an_armed_listener(mut poller: Box<dyn Poller>) -> io::Result<()> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    for _ in 0..3 {
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        poller.arm(listener.as_fd(), Token(0), Direction::Read)?;
        assert_eq!(look(&mut *poller)?, [], "no client has come yet");
        for _ in 0..4 {
            std::net::TcpStream::connect(listener.local_addr()?)?;
        }
        await_report(&mut *poller, Token(0), Direction::Read)?;
        look(&mut *poller)?;
        for _ in 0..4 {
            listener.accept()?;
        }
    }
    Ok(())
}

fn token_and_descriptor_are_reused(mut poller: Box<dyn Poller>) -> io::Result<()> {
    for round in 0..200_u32 {
        // Four live descriptors each time, so that numbers and positions are mixed.
        let pairs = (0..4).map(|_| pair()).collect::<io::Result<Vec<_>>>()?;
        for (index, (near, _)) in pairs.iter().enumerate() {
            let token = Token((index as u32 + round) % 4);
            poller.arm(near.as_fd(), token, Direction::Read)?;
            if round % 3 == 0 {
                fill(near)?;
                poller.arm(near.as_fd(), token, Direction::Write)?;
            }
        }
        let chosen = (round % 4) as usize;
        rustix::io::write(&pairs[chosen].1, b"x")?;
        let token = Token((chosen as u32 + round) % 4);
        await_report(&mut *poller, token, Direction::Read)?;
        for (index, (near, _)) in pairs.iter().enumerate() {
            poller.forget(near.as_fd(), Token((index as u32 + round) % 4));
        }
    }
    assert_eq!(look(&mut *poller)?, [], "nothing is watched any more");
    Ok(())
}

fn forgetting_what_was_never_armed(mut poller: Box<dyn Poller>) -> io::Result<()> {
    let (near, far) = pair()?;
    poller.forget(near.as_fd(), Token(17));
    poller.arm(near.as_fd(), Token(2), Direction::Read)?;
    poller.forget(far.as_fd(), Token(1));
    poller.forget(far.as_fd(), Token(90));
    rustix::io::write(&far, b"x")?;
    await_report(&mut *poller, Token(2), Direction::Read)?;
    Ok(())
}

/// The kernel's epoll still has this descriptor, so a new registration fails with EEXIST.
fn forgotten_but_still_open(mut poller: Box<dyn Poller>) -> io::Result<()> {
    let (near, far) = pair()?;
    poller.arm(near.as_fd(), Token(0), Direction::Read)?;
    poller.forget(near.as_fd(), Token(0));
    poller.arm(near.as_fd(), Token(1), Direction::Read)?;
    rustix::io::write(&far, b"x")?;
    await_report(&mut *poller, Token(1), Direction::Read)?;
    Ok(())
}

fn one_ready_among_many(mut poller: Box<dyn Poller>) -> io::Result<()> {
    const PAIRS: u32 = 300;
    allow_descriptors()?;
    let pairs = (0..PAIRS).map(|_| pair()).collect::<io::Result<Vec<_>>>()?;
    for (token, (near, _)) in (0..).zip(&pairs) {
        poller.arm(near.as_fd(), Token(token), Direction::Read)?;
    }
    for token in [0, PAIRS - 1, 99, 64, 63] {
        let (near, far) = &pairs[token as usize];
        rustix::io::write(far, b"x")?;
        await_report(&mut *poller, Token(token), Direction::Read)?;
        assert_eq!(look(&mut *poller)?, [], "the others have nothing");
        while read_once(near, 10)?.is_some() {}
        poller.arm(near.as_fd(), Token(token), Direction::Read)?;
    }
    // Then all descriptors become ready at once.
    for (_, far) in &pairs {
        rustix::io::write(far, b"x")?;
    }
    let mut missing: HashSet<_> = (0..PAIRS).collect();
    let mut events = Vec::new();
    while !missing.is_empty() {
        poller.wait(Some(PATIENCE), &mut events)?;
        assert!(!events.is_empty(), "{} reports are lost", missing.len());
        for event in events.iter().filter(|event| event.readable) {
            missing.remove(&event.token.0);
        }
    }
    Ok(())
}

fn descriptors_beyond_fd_setsize(mut poller: Box<dyn Poller>) -> io::Result<()> {
    allow_descriptors()?;
    let (low, low_far) = pair()?;
    let (high, high_far) = pair()?;
    let high = rustix::io::fcntl_dupfd_cloexec(&high, 1500)?;
    assert!(high.as_raw_fd() >= 1500);
    poller.arm(high.as_fd(), Token(0), Direction::Read)?;
    poller.arm(low.as_fd(), Token(1), Direction::Read)?;
    rustix::io::write(&high_far, b"x")?;
    await_report(&mut *poller, Token(0), Direction::Read)?;
    rustix::io::write(&low_far, b"x")?;
    await_report(&mut *poller, Token(1), Direction::Read)?;
    Ok(())
}

fn zero_timeout_looks_and_returns(mut poller: Box<dyn Poller>) -> io::Result<()> {
    let mut events = vec![Event { token: Token(9), readable: true, writable: true, hangup: true }];
    poller.wait(Some(Duration::ZERO), &mut events)?;
    assert_eq!(events, [], "the list is cleared");
    Ok(())
}

/// Checks a lower bound only: a loaded machine may wake the test late.
fn timeouts_are_never_cut_short(mut poller: Box<dyn Poller>) -> io::Result<()> {
    let mut events = Vec::new();
    for timeout in [1, 300_000, 1_000_001, 2_500_000].map(Duration::from_nanos) {
        let before = Instant::now();
        poller.wait(Some(timeout), &mut events)?;
        assert!(before.elapsed() >= timeout, "{timeout:?} took {:?}", before.elapsed());
        assert_eq!(events, []);
    }
    // The longest possible timeout does not overflow, and a ready descriptor ends it.
    let (near, _far) = pair()?;
    poller.arm(near.as_fd(), Token(0), Direction::Write)?;
    poller.wait(Some(Duration::MAX), &mut events)?;
    assert!(report(&events, Token(0), Direction::Write).is_some());
    Ok(())
}

#[test]
fn names_are_parsed_and_printed() {
    for &kind in Kind::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
        assert_eq!(format!("{kind:>8}|").trim_start(), format!("{}|", kind.name()));
        assert_eq!(format!("{kind:>8}").len(), 8);
        assert!(!kind.summary().contains('\n'));
    }
    let error = "kqueue".parse::<Kind>().unwrap_err();
    let problem = "no poller is called 'kqueue'; there are select, poll, epoll, uring";
    assert_eq!(error.to_string(), problem);
}

/// Returns the events that are ready now.
fn look(poller: &mut dyn Poller) -> io::Result<Vec<Event>> {
    let mut events = Vec::new();
    poller.wait(Some(Duration::ZERO), &mut events)?;
    Ok(events)
}

/// Waits for the report of `direction`, and skips spurious ones.
fn await_report(poller: &mut dyn Poller, token: Token, direction: Direction) -> io::Result<Event> {
    let deadline = Instant::now() + PATIENCE;
    let mut events = Vec::new();
    while Instant::now() < deadline {
        poller.wait(Some(PATIENCE), &mut events)?;
        if let Some(event) = report(&events, token, direction) {
            return Ok(event);
        }
    }
    panic!("the report of {token:?}, {direction:?} is lost");
}

/// Raises the soft limit, often 1,024, for tests that need more.
fn allow_descriptors() -> io::Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}

/// Two ends of a loopback connection; only TCP connections can be reset.
fn tcp_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let near = std::net::TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    near.set_nonblocking(true)?;
    Ok((near.into(), far.into()))
}
