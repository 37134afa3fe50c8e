//! Unix sockets under faults: a server that crashes and starts again, and clients on its host.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use duality_poller::Direction;
use duality_runtime::machine::UnixKind;
use duality_runtime::net::{SharedDescriptor, SimulatedSockets, TcpStream};
use duality_runtime::task;
use duality_runtime::time::{now, since, sleep, timeout};
use duality_simulate::{Net, seeds};
use rustix::net::SocketAddrUnix;

/// The calls of a host.
fn here() -> SimulatedSockets {
    SimulatedSockets::here().expect("it runs on a simulated host")
}

fn listen(path: &Path, backlog: i32) -> io::Result<OwnedFd> {
    let socket = here().open_unix(UnixKind::Stream)?;
    // The file of a server that has crashed is in the way.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    here().bind_unix(socket.as_fd(), &SocketAddrUnix::new(path)?)?;
    here().listen_unix(socket.as_fd(), backlog)?;
    Ok(socket)
}

/// Sends back what it receives.
async fn echo(socket: OwnedFd) -> io::Result<()> {
    let socket = SharedDescriptor::of_nonblocking(socket);
    let mut buffer = [0; 64];
    loop {
        let received = poll_fn(|context| {
            socket.poll(context, Direction::Read, |socket| here().receive_into(socket, &mut buffer))
        });
        let mut left = match received.await? {
            0 => return Ok(()),
            count => &buffer[..count],
        };
        while !left.is_empty() {
            let sent = poll_fn(|context| {
                let attempt = |socket: std::os::fd::BorrowedFd<'_>| {
                    here().send(socket, &[IoSlice::new(left)])
                };
                socket.poll(context, Direction::Write, attempt)
            });
            left = &left[sent.await?..];
        }
    }
}

async fn serve(path: Arc<PathBuf>) -> io::Result<()> {
    let listener = loop {
        // The kernel may refuse a socket now and then.
        match listen(&path, 2) {
            Ok(listener) => break SharedDescriptor::of_nonblocking(listener),
            Err(_) => sleep(Duration::from_millis(10)).await,
        }
    };
    loop {
        let accepted = poll_fn(|context| {
            let accept = |listener: std::os::fd::BorrowedFd<'_>| here().accept_unix(listener);
            listener.poll(context, Direction::Read, accept)
        });
        match accepted.await {
            Ok(socket) => task::spawn(echo(socket)).map(drop)?,
            Err(_) => sleep(Duration::from_millis(10)).await,
        }
    }
}

/// One connection: what is sent comes back, whole and in order.
async fn exchange(path: &Path, name: usize, lines: usize) -> io::Result<()> {
    let mut stream = TcpStream::connect_unix(path).await?;
    for line in 0..lines {
        let text = format!("{name} {line} {}\n", "x".repeat(line * 37 % 200));
        stream.write_all(text.as_bytes()).await?;
        let mut back = vec![0; text.len()];
        stream.read_exact(&mut back).await?;
        assert_eq!(String::from_utf8_lossy(&back), text);
    }
    stream.shutdown(std::net::Shutdown::Write).await?;
    assert_eq!(stream.read(&mut [0; 8]).await?, 0);
    Ok(())
}

/// A host with a server, and clients that find it by its file.
async fn host(net: Net, path: Arc<PathBuf>) -> io::Result<()> {
    task::spawn(serve(path.clone()))?;
    let mut clients = Vec::new();
    for name in 0..4 {
        let (net, path) = (net.clone(), path.clone());
        clients.push(task::spawn(async move {
            let (begin, mut served) = (now(), 0);
            while since(begin) < Duration::from_secs(20) || served == 0 {
                let lines = net.draw(20) as usize;
                match timeout(Duration::from_secs(60), exchange(&path, name, lines)).await {
                    Ok(Ok(())) => served += 1,
                    // The server has not begun, or the kernel refuses a socket.
                    Ok(Err(_)) => served = 0,
                    Err(_) => net.fail("a client waits for ever"),
                }
                sleep(net.draw_time(Duration::from_secs(2))).await;
            }
        })?);
    }
    for client in clients {
        client.await.map_err(|_| io::Error::other("a client panics"))?;
    }
    Ok(())
}

#[test]
fn a_unix_socket_serves_its_host_through_crashes() {
    let tally = seeds(0..super::SEEDS).in_both_waits().run(|net| async move {
        let folder = tempfile::tempdir().unwrap();
        let path = Arc::new(folder.path().join("server"));
        let (inner, at) = (net.clone(), path.clone());
        let host = net.host("host", move || host(inner.clone(), at.clone()));
        sleep(net.draw_time(Duration::from_secs(15))).await;
        if net.faults().crashes {
            host.crash().restart_after(net.draw_time(Duration::from_secs(3)));
        }
        // Another host does not reach it.
        let reached = TcpStream::connect_unix(&path).await;
        assert!(reached.is_err(), "another host has the socket");
        sleep(Duration::from_secs(5)).await;
        net.calm();
        host.ended().await
    });
    let counts = tally.counts;
    assert!(counts.short > 0 && counts.crashes > 0 && counts.interrupts > 0, "{counts}");
}
