//! The operations of a ring. `conformance.rs` tests its reports of readiness.

use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use duality_poller::{Direction, Kind, Poller, Token};

/// The limit after which a wait counts as failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// A ring, unless this machine has none.
fn ring() -> Option<Box<dyn Poller>> {
    match Kind::Uring.unavailable() {
        Some(reason) => {
            let _ = writeln!(io::stderr(), "skipped: {reason}");
            None
        }
        None => Some(Kind::Uring.open().unwrap()),
    }
}

/// Attempts, arms and waits until the operation is done, as a loop does.
fn complete<T>(
    poller: &mut dyn Poller,
    descriptor: &OwnedFd,
    token: Token,
    direction: Direction,
    mut attempt: impl FnMut(&mut dyn Poller) -> io::Result<T>,
) -> io::Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match attempt(poller) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => return other,
        }
        poller.arm(descriptor.as_fd(), token, direction)?;
        poller.wait(Some(Duration::from_millis(100)), &mut Vec::new())?;
        assert!(Instant::now() < deadline, "nothing comes");
    }
}

fn receive(
    poller: &mut dyn Poller,
    descriptor: &OwnedFd,
    token: Token,
    buffer: &mut [u8],
) -> io::Result<usize> {
    complete(poller, descriptor, token, Direction::Read, |poller| {
        try_receive(poller, descriptor, token, buffer)
    })
}

fn try_receive(
    poller: &mut dyn Poller,
    descriptor: &OwnedFd,
    token: Token,
    buffer: &mut [u8],
) -> io::Result<usize> {
    let mut room = vec![MaybeUninit::uninit(); buffer.len()];
    // SAFETY: no test closes a descriptor before a wait has passed on the requests that name it.
    let count = unsafe { poller.ring().unwrap().receive(descriptor.as_fd(), token, &mut room) }?;
    for (to, from) in buffer.iter_mut().zip(&room[..count]) {
        // SAFETY: the ring has written so many bytes.
        *to = unsafe { from.assume_init() };
    }
    Ok(count)
}

fn send_all(
    poller: &mut dyn Poller,
    descriptor: &OwnedFd,
    token: Token,
    mut bytes: &[u8],
) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = complete(poller, descriptor, token, Direction::Write, |poller| {
            let bytes = [IoSlice::new(bytes)];
            // SAFETY: no test closes a descriptor before a wait has passed on the requests that
            // name it.
            unsafe {
                let ring = poller.ring().unwrap();
                ring.send(descriptor.as_fd(), token, &bytes)
            }
        })?;
        bytes = &bytes[count..];
    }
    Ok(())
}

fn pair() -> io::Result<(OwnedFd, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let far = TcpStream::connect(listener.local_addr()?)?;
    far.set_read_timeout(Some(PATIENCE))?;
    Ok((listener.accept()?.0.into(), far))
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|index| (index % 251) as u8).collect()
}

/// Connections that the kernel has accepted by itself can be taken. Later ones stay in the accept
/// queue.
#[test]
fn a_ring_that_is_told_to_stop_accepts_no_more() -> io::Result<()> {
    let Some(mut poller) = ring() else { return Ok(()) };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let queue = listener.try_clone()?;
    let listener = OwnedFd::from(listener);
    let _first: Vec<_> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
    complete(&mut *poller, &listener, Token(0), Direction::Read, |poller| {
        // SAFETY: no test closes a descriptor before a wait has passed on the requests that name
        // it.
        unsafe { poller.ring().unwrap().accept(listener.as_fd(), Token(0)) }
    })?;
    poller.ring().unwrap().stop_accepting(Token(0));
    // The ring reports the end of accepting as an event.
    poller.wait(Some(PATIENCE), &mut Vec::new())?;
    let before = std::iter::from_fn(|| poller.ring().unwrap().accepted_before(Token(0))).count();
    assert_eq!(before, 19);
    let _later: Vec<_> = (0..5).map(|_| TcpStream::connect(address).unwrap()).collect();
    poller.wait(Some(Duration::from_millis(1)), &mut Vec::new())?;
    assert!(poller.ring().unwrap().accepted_before(Token(0)).is_none());
    for _ in 0..5 {
        queue.accept()?;
    }
    // From now on, the ring only reports connections.
    poller.arm(listener.as_fd(), Token(0), Direction::Read)?;
    let _last = TcpStream::connect(address)?;
    let mut events = Vec::new();
    poller.wait(Some(PATIENCE), &mut events)?;
    assert!(events.iter().any(|event| event.token == Token(0) && event.readable));
    Ok(())
}

#[test]
fn connections_are_accepted_one_after_the_other() -> io::Result<()> {
    let Some(mut poller) = ring() else { return Ok(()) };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let listener = OwnedFd::from(listener);
    let accept = |poller: &mut dyn Poller| {
        complete(poller, &listener, Token(0), Direction::Read, |poller| {
            // SAFETY: no test closes a descriptor before a wait has passed on the requests that
            // name it.
            unsafe { poller.ring().unwrap().accept(listener.as_fd(), Token(0)) }
        })
    };
    for _ in 0..20 {
        let mut far = TcpStream::connect(address)?;
        let mut near = TcpStream::from(accept(&mut *poller)?);
        far.write_all(b"x")?;
        near.read_exact(&mut [0])?;
    }
    let _waiting: Vec<_> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
    for _ in 0..20 {
        accept(&mut *poller)?;
    }
    Ok(())
}

/// More bytes than the ring holds for one reader, while another reader gets its share.
#[test]
fn a_fast_sender_is_held_up_and_loses_nothing() -> io::Result<()> {
    let Some(mut poller) = ring() else { return Ok(()) };
    let (near, mut far) = pair()?;
    let (other, mut beyond) = pair()?;
    let all = bytes(8 << 20);
    let sent = all.clone();
    let mut buffer = vec![0; 5_000];
    far.write_all(b"!")?;
    assert_eq!(receive(&mut *poller, &near, Token(0), &mut buffer)?, 1);
    let early = try_receive(&mut *poller, &near, Token(0), &mut buffer);
    assert_eq!(early.unwrap_err().kind(), io::ErrorKind::WouldBlock);
    let sending = thread::spawn(move || {
        far.write_all(&sent).unwrap();
        far.shutdown(Shutdown::Write).unwrap();
        far
    });
    for _ in 0..200 {
        beyond.write_all(b"y")?;
        assert_eq!(receive(&mut *poller, &other, Token(1), &mut buffer)?, 1);
    }
    let mut received = Vec::new();
    loop {
        match receive(&mut *poller, &near, Token(0), &mut buffer)? {
            0 => break,
            count => received.extend_from_slice(&buffer[..count]),
        }
    }
    assert!(received == all, "{} of {} bytes", received.len(), all.len());
    assert_eq!(receive(&mut *poller, &near, Token(0), &mut buffer)?, 0, "the end stays the end");
    drop(sending.join().unwrap());
    Ok(())
}

/// More connections send at once than there are buffers at first.
#[test]
fn a_lack_of_buffers_passes() -> io::Result<()> {
    let Some(mut poller) = ring() else { return Ok(()) };
    let mut pairs: Vec<_> = (0..400).map(|_| pair().unwrap()).collect();
    let mut buffer = [0; 64];
    for round in 0..3_u8 {
        for (index, (near, _)) in pairs.iter().enumerate() {
            let token = Token(index as u32);
            let early = try_receive(&mut *poller, near, token, &mut buffer);
            assert_eq!(early.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
        poller.wait(Some(Duration::ZERO), &mut Vec::new())?;
        pairs.iter_mut().for_each(|(_, far)| far.write_all(&[round; 10]).unwrap());
        for (index, (near, _)) in pairs.iter().enumerate() {
            let count = receive(&mut *poller, near, Token(index as u32), &mut buffer)?;
            assert_eq!(buffer[..count], [round; 10]);
        }
    }
    Ok(())
}

#[test]
fn what_was_sent_arrives_before_the_end() -> io::Result<()> {
    let Some(mut poller) = ring() else { return Ok(()) };
    for length in [1, 100, 64 * 1024, 3 << 20] {
        let (near, mut far) = pair()?;
        let all = bytes(length);
        let reading = thread::spawn(move || {
            let mut received = Vec::new();
            far.read_to_end(&mut received).unwrap();
            received
        });
        send_all(&mut *poller, &near, Token(5), &all)?;
        poller.ring().unwrap().close(near, Token(5));
        // The end comes in later rounds, or at the end of the ring.
        while !reading.is_finished() {
            poller.wait(Some(Duration::from_millis(10)), &mut Vec::new())?;
        }
        assert!(reading.join().unwrap() == all);
    }
    Ok(())
}

#[test]
fn the_last_words_are_sent_when_the_ring_ends() -> io::Result<()> {
    let Some(mut poller) = ring() else { return Ok(()) };
    let (near, mut far) = pair()?;
    send_all(&mut *poller, &near, Token(0), b"last words")?;
    poller.ring().unwrap().close(near, Token(0));
    drop(poller);
    let mut received = Vec::new();
    far.read_to_end(&mut received)?;
    assert_eq!(received, b"last words");
    Ok(())
}

/// Bytes for a token's last descriptor do not reach its next descriptor.
#[test]
fn a_token_is_used_again() -> io::Result<()> {
    let Some(mut poller) = ring() else { return Ok(()) };
    let mut buffer = [0; 64];
    for round in 0..200_u8 {
        let (near, mut far) = pair()?;
        let early = try_receive(&mut *poller, &near, Token(0), &mut buffer);
        assert_eq!(early.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        far.write_all(&[round])?;
        assert_eq!(receive(&mut *poller, &near, Token(0), &mut buffer)?, 1);
        assert_eq!(buffer[0], round);
        // These bytes come too late for this descriptor.
        far.write_all(b"late")?;
        poller.ring().unwrap().close(near, Token(0));
    }
    Ok(())
}

#[test]
fn a_reset_is_an_error_and_then_the_end() -> io::Result<()> {
    let Some(mut poller) = ring() else { return Ok(()) };
    let (near, far) = pair()?;
    let mut buffer = [0; 8];
    let early = try_receive(&mut *poller, &near, Token(0), &mut buffer);
    assert_eq!(early.unwrap_err().kind(), io::ErrorKind::WouldBlock);
    poller.wait(Some(Duration::ZERO), &mut Vec::new())?;
    rustix::net::sockopt::set_socket_linger(&far, Some(Duration::ZERO))?;
    drop(far);
    let error = receive(&mut *poller, &near, Token(0), &mut buffer).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(receive(&mut *poller, &near, Token(0), &mut buffer)?, 0);
    let told = send_all(&mut *poller, &near, Token(0), b"x")
        .and_then(|()| send_all(&mut *poller, &near, Token(0), b"x"));
    assert!(told.is_err(), "a later write tells of it");
    Ok(())
}

/// Many more reports than the completion queue holds, before any is taken.
#[test]
fn a_full_completion_queue_loses_nothing() -> io::Result<()> {
    const MANY: u32 = 20_000;
    let Some(mut poller) = ring() else { return Ok(()) };
    let (near, mut far) = pair()?;
    far.write_all(b"x")?;
    for token in 0..MANY {
        poller.arm(near.as_fd(), Token(token), Direction::Read)?;
    }
    let (mut told, mut events) = (vec![false; MANY as usize], Vec::new());
    let deadline = Instant::now() + PATIENCE;
    while told.contains(&false) {
        poller.wait(Some(Duration::from_millis(100)), &mut events)?;
        events.iter().for_each(|event| told[event.token.0 as usize] = event.readable);
        assert!(Instant::now() < deadline, "{} came", told.iter().filter(|told| **told).count());
    }
    Ok(())
}
