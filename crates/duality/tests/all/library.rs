//! Services that a program serves by itself, over real sockets.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use duality::{Handle, Needs, Options, Service};

/// Longer than any working operation takes.
const PATIENCE: Duration = Duration::from_secs(60);
const ANY_PORT: &str = "127.0.0.1:0";

async fn echo(mut stream: duality::net::TcpStream) -> io::Result<()> {
    let mut buffer = [0; 64];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            count => stream.write_all(&buffer[..count]).await?,
        }
    }
}

/// Runs `body`, and fails if it takes too long.
fn in_time<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = channel();
    thread::spawn(move || sender.send(body()));
    receiver.recv_timeout(PATIENCE).expect("it ends in time, without a panic")
}

fn connect(address: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(PATIENCE / 2)).unwrap();
    client
}

fn ask(client: &mut TcpStream, request: &[u8]) {
    client.write_all(request).unwrap();
    let mut reply = vec![0; request.len()];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(reply, request);
}

/// The server ends the connection, and has sent nothing more.
fn sees_the_end(client: &mut TcpStream) {
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"");
}

fn serve(service: &Service, architecture: &str) -> Handle {
    let options = Options::default().workers(4);
    service.serve_with(architecture, ANY_PORT, &options).unwrap()
}

fn echo_service() -> Service {
    Service::new("echo", echo)
}

/// The test runs twice, so that leftovers of the first server would show.
fn answers_and_ends(architecture: &'static str) {
    if !echo_service().architectures().contains(&architecture) {
        // io_uring is refused by many containers.
        assert_eq!(architecture, "uring", "every machine has the others");
        return;
    }
    in_time(move || {
        let ends = [(), ()].map(|()| {
            let handle = serve(&echo_service(), architecture);
            let address = handle.local_address();
            let mut client = connect(address);
            ask(&mut client, b"hello");
            ask(&mut client, b"again");
            handle.shutdown();
            handle.shutdown();
            sees_the_end(&mut client);
            handle.join().unwrap();
            TcpStream::connect(address).map_err(|error| error.kind())
        });
        // Another test may have been given the port meanwhile, but hardly twice.
        let refused = ends.iter().filter_map(|end| end.as_ref().err()).collect::<Vec<_>>();
        assert!(!refused.is_empty(), "{ends:?}");
        assert!(refused.iter().all(|kind| **kind == ErrorKind::ConnectionRefused), "{ends:?}");
    });
}

macro_rules! each {
    ($($architecture:ident)*) => {$(
        #[test]
        fn $architecture() {
            answers_and_ends(stringify!($architecture));
        }
    )*};
}

each! { iterative threads pool uthreads select poll epoll uring }

#[test]
fn services_live_side_by_side_and_end_alone() {
    in_time(|| {
        let service = echo_service();
        let names = service.architectures();
        let mut all: Vec<(Handle, TcpStream)> = names
            .into_iter()
            .map(|architecture| {
                let handle = serve(&service, architecture);
                let client = connect(handle.local_address());
                (handle, client)
            })
            .collect();
        while let Some((handle, mut client)) = all.pop() {
            ask(&mut client, b"still there");
            handle.shutdown();
            sees_the_end(&mut client);
            handle.join().unwrap();
            for (_, client) in &mut all {
                ask(client, b"as before");
            }
        }
    });
}

#[test]
fn a_server_of_several_loops_ends_with_all_of_them() {
    in_time(|| {
        for architecture in ["epoll", "uthreads"] {
            let options = Options::default().cores(3);
            let handle = echo_service().serve_with(architecture, ANY_PORT, &options).unwrap();
            ask(&mut connect(handle.local_address()), b"hello");
            handle.shutdown();
            handle.join().unwrap();
        }
    });
}

#[test]
fn a_server_that_is_shut_down_at_once_ends() {
    in_time(|| {
        for architecture in echo_service().architectures() {
            drop(serve(&echo_service(), architecture));
        }
    });
}

/// A task of the block world spawns a thread of the same server.
#[test]
fn a_drain_reaches_what_a_connection_has_spawned() {
    in_time(|| {
        let relay = Service::new("relay", |stream| async {
            let served = duality::task::spawn(echo(stream))?;
            served.await.map_err(io::Error::other)?
        });
        for architecture in relay.architectures() {
            let handle = serve(&relay, architecture);
            let mut client = connect(handle.local_address());
            ask(&mut client, b"hello");
            handle.shutdown();
            sees_the_end(&mut client);
            handle.join().unwrap();
        }
    });
}

#[test]
fn a_panic_closes_its_connection_alone() {
    in_time(|| {
        let fragile = Service::new("fragile", |mut stream: duality::net::TcpStream| async move {
            let mut byte = [0; 1];
            stream.read_exact(&mut byte).await?;
            assert_ne!(&byte, b"!", "as the test has it");
            stream.write_all(&byte).await
        });
        for architecture in fragile.architectures() {
            let handle = serve(&fragile, architecture);
            let mut victim = connect(handle.local_address());
            victim.write_all(b"!").unwrap();
            sees_the_end(&mut victim);
            ask(&mut connect(handle.local_address()), b"a");
            handle.shutdown();
            handle.join().unwrap();
        }
    });
}

#[test]
fn what_cannot_be_served_is_refused_in_one_line() {
    let independent = echo_service().independent_connections();
    for architecture in ["fork", "prefork"] {
        let error = independent.serve(architecture, ANY_PORT).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("child processes"), "{error}");
    }
    let error = echo_service().serve("handwritten", ANY_PORT).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let error = echo_service().serve("e-poll", ANY_PORT).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("uthreads"), "{error}");
    let needs = Needs::default().with_concurrent_connections();
    let error = Service::with_needs("chat", needs, echo).serve("iterative", ANY_PORT).unwrap_err();
    assert!(error.to_string().contains("needs concurrent connections"), "{error}");
}

#[test]
fn an_address_that_is_taken_is_named() {
    in_time(|| {
        let first = serve(&echo_service(), "epoll");
        let address = first.local_address();
        let error = echo_service().serve("threads", address).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        assert!(error.to_string().contains(&address.to_string()), "{error}");
    });
}

#[test]
fn each_error_is_told_to_the_hook() {
    in_time(|| {
        let (told, heard) = channel();
        let refuse = |mut stream: duality::net::TcpStream| async move {
            stream.read_exact(&mut [0; 4]).await?;
            Err(io::Error::other("not today"))
        };
        let service = Service::new("refuse", refuse).on_error(move |peer, error| {
            told.send((peer.unwrap(), error.kind(), error.to_string())).unwrap();
        });
        for architecture in service.architectures() {
            let handle = serve(&service, architecture);
            // More errors than the log would name.
            for _ in 0..7 {
                let mut client = connect(handle.local_address());
                client.write_all(b"work").unwrap();
                sees_the_end(&mut client);
                let error =
                    (client.local_addr().unwrap(), ErrorKind::Other, "not today".to_owned());
                assert_eq!(heard.recv_timeout(PATIENCE / 2), Ok(error), "{architecture}");
            }
            // A client that breaks off is an error, too.
            let mut client = connect(handle.local_address());
            client.write_all(b"w").unwrap();
            let address = client.local_addr().unwrap();
            drop(client);
            let (peer, kind, _) = heard.recv_timeout(PATIENCE / 2).unwrap();
            assert_eq!((peer, kind), (address, ErrorKind::UnexpectedEof), "{architecture}");
        }
    });
}
