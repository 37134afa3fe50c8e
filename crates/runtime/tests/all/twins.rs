//! Handles of one connection share a socket. In the block world they share its time-out, too.

use std::io;
use std::sync::mpsc::channel;

use duality_runtime::block_on;
use duality_runtime::net::{ListenOptions, TcpListener, TcpStream};
use duality_runtime::time::{Duration, sleep};

/// Short enough to wait for.
const MOMENT: Duration = Duration::from_millis(20);

#[test]
fn each_handle_has_a_time_limit_of_its_own() {
    block_on(async {
        let any = ([127, 0, 0, 1], 0).into();
        let mut listener = TcpListener::bind(any, &ListenOptions::default()).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let mut twin = server.try_clone().unwrap();
        twin.set_read_timeout(Some(MOMENT)).unwrap();
        let (begin, begun) = channel();
        let reader = std::thread::spawn(move || {
            begin.send(()).unwrap();
            block_on(async { server.read(&mut [0; 8]).await })
        });
        begun.recv().unwrap();
        sleep(3 * MOMENT).await;
        client.write_all(b"late").await.unwrap();
        assert_eq!(reader.join().unwrap().unwrap(), 4);
        let expired = twin.read(&mut [0; 8]).await.unwrap_err();
        assert_eq!(expired.kind(), io::ErrorKind::TimedOut);
    });
}
