//! A service that waits for something else learns that its peer has left, in every world.

use std::net::Shutdown;

use duality_runtime::net::{Closed, ListenOptions, TcpListener, TcpStream};
use duality_runtime::time::{Duration, Elapsed, sleep, timeout};
use duality_runtime::{select, task};

/// Long enough never to pass in a test that works.
const EVER: Duration = Duration::from_secs(20);
/// Short enough to wait for.
const MOMENT: Duration = Duration::from_millis(20);

duality_kit::in_every_world! {
    a_peer_that_leaves_is_noticed
}

async fn pair() -> (TcpStream, TcpStream) {
    let any_port = ([127, 0, 0, 1], 0).into();
    let mut listener = TcpListener::bind(any_port, &ListenOptions::default()).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    (client, server)
}

/// A service waits for something else, and its peer leaves. Unread bytes do not hide the end.
async fn a_peer_that_leaves_is_noticed() {
    for unread in [&b""[..], b"the next request"] {
        for (leave, expected) in [
            (Leave::Close, Closed::Sending),
            (Leave::HalfClose, Closed::Sending),
            (Leave::Reset, Closed::Both),
        ] {
            let (mut client, mut server) = pair().await;
            client.write_all(unread).await.unwrap();
            assert_eq!(server.has_closed(), None);
            let is_gathered = timeout(MOMENT, task::gather(server.closed())).await;
            assert_eq!(is_gathered, Err(Elapsed));
            let half = match leave {
                Leave::Close => {
                    drop(client);
                    None
                }
                Leave::Reset => {
                    client.set_linger_reset().unwrap();
                    drop(client);
                    None
                }
                Leave::HalfClose => {
                    client.shutdown(Shutdown::Write).await.unwrap();
                    Some(client)
                }
            };
            let closed = timeout(EVER, select_closed(&server)).await.unwrap();
            assert_eq!(closed, Some(expected), "{leave:?}");
            assert_eq!(server.has_closed(), Some(expected), "{leave:?}");
            assert_eq!(timeout(EVER, server.closed()).await, Ok(expected), "{leave:?}");
            // A client that has only ended its sending side gets its reply.
            if let Some(mut client) = half {
                server.write_all(b"reply").await.unwrap();
                client.read_exact(&mut [0; 5]).await.unwrap();
            }
        }
    }
}

#[derive(Debug)]
enum Leave {
    Close,
    HalfClose,
    Reset,
}

/// Waits for another thing and for the peer's end at once.
async fn select_closed(server: &TcpStream) -> Option<Closed> {
    select! {
        () = sleep(EVER) => None,
        closed = server.closed() => Some(closed),
    }
}
