//! The last bytes of a stream arrive, although unread bytes of its peer are left. In every world,
//! on every poller.

use duality_runtime::net::{ListenOptions, TcpListener, TcpStream};

duality_kit::in_every_world! {
    the_last_bytes_arrive
}

/// Unread bytes turn the close into a reset, which would discard bytes that the kernel keeps for
/// the close.
async fn the_last_bytes_arrive() {
    let any = "127.0.0.1:0".parse().unwrap();
    let mut listener = TcpListener::bind(any, &ListenOptions::default()).unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    client.write_all(b"read, and unread").await.unwrap();
    server.read_exact(&mut [0; 4]).await.unwrap();
    assert_eq!(server.write_last(b"bye").await.unwrap(), 3);
    drop(server);
    let mut received = [0; 8];
    client.read_exact(&mut received[..3]).await.unwrap();
    assert_eq!(&received[..3], b"bye");
    assert_eq!(client.read(&mut received).await.unwrap(), 0);
}
