//! Conveniences that users of std and tokio expect beside streams, in every world: host names,
//! halves, lines, datagrams, ticks, one value, aborted tasks.

use std::net::{Shutdown, SocketAddr};

use duality_runtime::net::{
    Line, Lines, ListenOptions, TcpListener, TcpStream, UdpSocket, lookup_host,
};
use duality_runtime::sync::oneshot::{self, Closed};
use duality_runtime::task::{self, Aborted, abortable, offload};
use duality_runtime::time::{Duration, Instant, interval, sleep, timeout};
use duality_runtime::{join, select};

use crate::kept_port::KeptPort;

const MOMENT: Duration = Duration::from_millis(3);
const FOR_EVER: Duration = Duration::from_secs(3600);

duality_kit::in_every_world! {
    a_host_name_is_looked_up_and_connected_to
    halves_of_a_connection_work_in_two_tasks
    a_dropped_writing_half_ends_writing
    bytes_before_the_split_arrive
    lines_come_one_by_one
    datagrams_go_both_ways
    a_datagram_socket_waits_beside_other_things
    a_connected_socket_hears_of_a_missing_peer
    ticks_keep_their_distance
    one_value_goes_to_another_task
    one_value_by_a_thread_that_is_no_task
    an_aborted_task_ends_where_it_waits
    a_task_that_is_not_aborted_returns
}

fn listener() -> (TcpListener, SocketAddr) {
    let any_port = ([127, 0, 0, 1], 0).into();
    let listener = TcpListener::bind(any_port, &ListenOptions::default()).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

async fn pair() -> (TcpStream, TcpStream) {
    let (mut listener, address) = listener();
    let client = TcpStream::connect(address).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    (client, server)
}

async fn end_of(stream: &mut TcpStream) -> Vec<u8> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 64]);
    loop {
        match stream.read(&mut buffer).await.unwrap() {
            0 => return bytes,
            count => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

async fn a_host_name_is_looked_up_and_connected_to() {
    let (mut listener, address) = listener();
    let host = format!("localhost:{}", address.port());
    assert!(lookup_host(host.as_str()).await.unwrap().contains(&address));
    let mut client = TcpStream::connect_host(host).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    client.write_all(b"hello").await.unwrap();
    let mut greeting = [0; 5];
    server.read_exact(&mut greeting).await.unwrap();
    assert_eq!(&greeting, b"hello");
    let nowhere = KeptPort::keep();
    assert!(
        TcpStream::connect_host(nowhere.address().to_string()).await.is_err(),
        "nothing listens"
    );
    assert!(lookup_host("without a port").await.is_err());
}

async fn halves_of_a_connection_work_in_two_tasks() {
    let (client, mut server) = pair().await;
    let (mut reads, mut writes) = client.into_split().await.unwrap();
    let task = task::spawn(async move {
        let mut answer = [0; 3];
        reads.read_exact(&mut answer).await.unwrap();
        (reads, answer)
    })
    .unwrap();
    writes.write_all(b"abc").await.unwrap();
    let mut asked = [0; 3];
    server.read_exact(&mut asked).await.unwrap();
    server.write_all(&asked).await.unwrap();
    let (reads, answer) = task.await.unwrap();
    assert_eq!(&answer, b"abc");

    let (_, other) = pair().await.0.into_split().await.unwrap();
    let (reads, _) = reads.reunite(other).expect_err("they are of different connections");
    let mut whole = reads.reunite(writes).expect("they are of one connection");
    whole.write_all(b"the end").await.unwrap();
    drop(whole);
    assert_eq!(end_of(&mut server).await, b"the end");
}

async fn a_dropped_writing_half_ends_writing() {
    let (client, mut server) = pair().await;
    let (mut reads, mut writes) = client.into_split().await.unwrap();
    writes.write_all(b"request").await.unwrap();
    drop(writes);
    assert_eq!(end_of(&mut server).await, b"request");
    server.write_all(b"reply").await.unwrap();
    let mut reply = [0; 5];
    reads.read_exact(&mut reply).await.unwrap();
    assert_eq!(&reply, b"reply");
}

/// A ring may still be sending them when the connection is split.
async fn bytes_before_the_split_arrive() {
    let (mut client, mut server) = pair().await;
    let bytes = vec![b'x'; 1 << 20];
    let sent = bytes.clone();
    let task = task::spawn(async move {
        client.write_all(&sent).await.unwrap();
        drop(client.into_split().await.unwrap().1);
    })
    .unwrap();
    assert_eq!(end_of(&mut server).await, bytes);
    task.await.unwrap();
}

async fn lines_come_one_by_one() {
    let (mut client, mut server) = pair().await;
    client.write_all(b"one\r\n\ntwo\nthree is too long\n").await.unwrap();
    client.shutdown(Shutdown::Write).await.unwrap();
    let mut lines = Lines::new(5);
    assert_eq!(lines.next(&mut server).await.unwrap(), Line::Text(b"one"));
    assert!(lines.has_whole_line());
    assert_eq!(lines.next(&mut server).await.unwrap(), Line::Text(b""));
    assert_eq!(lines.next(&mut server).await.unwrap(), Line::Text(b"two"));
    assert_eq!(lines.next(&mut server).await.unwrap(), Line::TooLong);
    let mut none = Lines::new(5);
    assert_eq!(none.next(&mut server).await.unwrap(), Line::End);
}

fn socket() -> UdpSocket {
    UdpSocket::bind(([127, 0, 0, 1], 0).into()).unwrap()
}

async fn datagrams_go_both_ways() {
    let (mut one, mut other) = (socket(), socket());
    let (to_one, to_other) = (one.local_addr().unwrap(), other.local_addr().unwrap());
    // The receiver waits first.
    let task = task::spawn(async move {
        let mut buffer = [0; 4];
        let (length, peer) = other.recv_from(&mut buffer).await.unwrap();
        assert_eq!((length, peer), (4, to_one), "what does not fit is lost");
        other.connect(peer).unwrap();
        assert_eq!(other.peer_addr().unwrap(), to_one);
        other.send(&buffer).await.unwrap();
    })
    .unwrap();
    sleep(MOMENT).await;
    assert_eq!(one.send_to(b"hello", to_other).await.unwrap(), 5);
    one.connect(to_other).unwrap();
    let mut buffer = [0; 64];
    assert_eq!(one.recv(&mut buffer).await.unwrap(), 4);
    assert_eq!(&buffer[..4], b"hell");
    task.await.unwrap();
}

async fn a_datagram_socket_waits_beside_other_things() {
    let (mut one, mut other) = (socket(), socket());
    let to_one = one.local_addr().unwrap();
    let mut buffer = [0; 64];
    let came = select! {
        received = one.recv_from(&mut buffer) => received.is_ok(),
        () = sleep(MOMENT) => false,
    };
    assert!(!came);
    assert!(timeout(MOMENT, one.recv_from(&mut buffer)).await.is_err());
    let (sent, received) = join!(
        async {
            sleep(MOMENT).await;
            other.send_to(b"now", to_one).await
        },
        one.recv_from(&mut buffer),
    );
    assert_eq!((sent.unwrap(), received.unwrap().0), (3, 3));
}

async fn a_connected_socket_hears_of_a_missing_peer() {
    let gone = socket().local_addr().unwrap();
    let mut one = socket();
    one.connect(gone).unwrap();
    one.send(b"hello").await.unwrap();
    let mut buffer = [0; 64];
    let refused = one.recv(&mut buffer).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

async fn ticks_keep_their_distance() {
    let mut ticks = interval(MOMENT);
    let first = ticks.tick().await;
    // A wait that is given up loses no tick.
    let given_up = select! {
        _ = ticks.tick() => false,
        () = task::yield_now() => true,
    };
    let second = ticks.tick().await;
    assert!(given_up || second - first >= MOMENT);
    sleep(MOMENT * 3).await;
    let late = ticks.tick().await;
    let distance = (late - first).as_nanos();
    assert_eq!(distance % MOMENT.as_nanos(), 0, "ticks are multiples of the period");
    assert!(Instant::now() >= late);
    assert_eq!(ticks.period(), MOMENT);
}

async fn one_value_goes_to_another_task() {
    let (sender, receiver) = oneshot::channel();
    let task = task::spawn(async move {
        sleep(MOMENT).await;
        sender.send(7).unwrap();
    })
    .unwrap();
    assert_eq!(receiver.await, Ok(7));
    task.await.unwrap();

    let (sender, receiver) = oneshot::channel::<u32>();
    drop(sender);
    assert_eq!(receiver.await, Err(Closed));

    let (sender, mut receiver) = oneshot::channel();
    let told = select! {
        value = &mut receiver => Some(value),
        () = sleep(MOMENT) => None,
    };
    assert_eq!(told, None);
    assert!(!sender.is_closed());
    drop(receiver);
    assert!(sender.is_closed());
    assert_eq!(sender.send(8), Err(8), "the value comes back");
}

async fn one_value_by_a_thread_that_is_no_task() {
    let (sender, receiver) = oneshot::channel();
    let thread = std::thread::spawn(move || sender.send("from outside").unwrap());
    assert_eq!(receiver.await, Ok("from outside"));
    offload(move || thread.join().unwrap()).await;
}

async fn an_aborted_task_ends_where_it_waits() {
    struct Told(Option<oneshot::Sender<()>>);
    impl Drop for Told {
        fn drop(&mut self) {
            let _ = self.0.take().map(|told| told.send(()));
        }
    }
    let (mut client, mut server) = pair().await;
    let (told, dropped) = oneshot::channel();
    let (begin, begun) = oneshot::channel();
    let (reads, handle) = abortable(async move {
        let _told = Told(Some(told));
        begin.send(()).unwrap();
        let mut buffer = [0; 8];
        server.read(&mut buffer).await
    });
    let task = task::spawn(reads).unwrap();
    begun.await.unwrap();
    assert!(!handle.is_aborted());
    handle.clone().abort();
    assert!(handle.is_aborted());
    assert_eq!(task.await.unwrap().unwrap_err(), Aborted);
    assert_eq!(dropped.await, Ok(()), "what the task held is dropped");
    assert_eq!(end_of(&mut client).await, b"");

    // The order comes before the task's first turn.
    let (sleeps, handle) = abortable(sleep(FOR_EVER));
    handle.abort();
    assert_eq!(sleeps.await, Err(Aborted));
}

async fn a_task_that_is_not_aborted_returns() {
    let (future, handle) = abortable(async {
        sleep(MOMENT).await;
        7
    });
    assert_eq!(future.await, Ok(7));
    handle.abort();
    let (future, handle) = abortable(sleep(MOMENT));
    drop(handle);
    assert_eq!(future.await, Ok(()));
}
