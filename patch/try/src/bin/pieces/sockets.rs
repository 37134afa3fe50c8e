//! Sockets of TCP, UDP and Unix, and codecs over them.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use tokio::io::{
    AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Interest, copy_bidirectional,
};
use tokio::net::{
    TcpListener, TcpSocket, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream,
};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::codec::{Framed, LengthDelimitedCodec, LinesCodec};
use tokio_util::udp::UdpFramed;

use crate::common::{ANY_PORT, Folder, Found, MOMENT, pair};

pub(crate) async fn lines_by_a_codec() -> Found {
    let (client, server) = pair().await?;
    let served = tokio::spawn(async move {
        let mut lines = Framed::new(server, LinesCodec::new());
        let mut count = 0;
        while let Some(line) = lines.next().await {
            lines.send(format!("<{}>", line.unwrap())).await.unwrap();
            count += 1;
        }
        count
    });
    let mut lines = Framed::new(client, LinesCodec::new());
    let mut heard = Vec::new();
    for word in ["one", "two", "three"] {
        lines.send(word).await?;
        heard.push(lines.next().await.ok_or("the end")??);
    }
    drop(lines);
    Ok(format!("{} {}", heard.concat(), served.await?))
}

pub(crate) async fn frames_go_through_halves() -> Found {
    let (client, server) = pair().await?;
    let (reads, writes) = server.into_split();
    let (mut from, mut to) = (
        tokio_util::codec::FramedRead::new(reads, LengthDelimitedCodec::new()),
        tokio_util::codec::FramedWrite::new(writes, LengthDelimitedCodec::new()),
    );
    let served = tokio::spawn(async move {
        while let Some(frame) = from.next().await {
            to.send(frame.unwrap().freeze()).await.unwrap();
        }
    });
    let (reads, mut writes) = client.into_split();
    let mut reads = tokio_util::codec::FramedRead::new(reads, LengthDelimitedCodec::new());
    let sent = tokio::spawn(async move {
        for length in [0_u32, 1, 1000, 70_000] {
            writes.write_u32(length).await.unwrap();
            writes.write_all(&vec![length as u8; length as usize]).await.unwrap();
        }
        // The drop of the half ends writing.
    });
    let mut lengths = Vec::new();
    while let Some(frame) = reads.next().await {
        lengths.push(frame?.len().to_string());
    }
    sent.await?;
    served.await?;
    Ok(lengths.join(" "))
}

/// More bytes than socket buffers hold.
pub(crate) async fn both_ends_wait_for_room() -> Found {
    const BYTES: usize = 4_000_000;
    let (client, server) = pair().await?;
    let echo = tokio::spawn(async move {
        let (mut reads, mut writes) = server.into_split();
        tokio::io::copy(&mut reads, &mut writes).await.unwrap()
    });
    let (mut reads, mut writes) = tokio::io::split(client);
    let write = tokio::spawn(async move {
        let bytes: Vec<u8> = (0..BYTES).map(|number| (number % 251) as u8).collect();
        writes.write_all(&bytes).await.unwrap();
        writes.shutdown().await.unwrap();
    });
    let mut heard = bytes::BytesMut::new();
    while reads.read_buf(&mut heard).await? > 0 {}
    write.await?;
    assert!(heard.iter().enumerate().all(|(number, byte)| *byte == (number % 251) as u8));
    Ok(format!("{} {}", heard.len(), echo.await?))
}

pub(crate) async fn many_connections() -> Found {
    let listener = TcpListener::bind(ANY_PORT).await?;
    let address = listener.local_addr()?;
    let serving = tokio::spawn(async move {
        let mut streams = TcpListenerStream::new(listener);
        while let Some(Ok(mut stream)) = streams.next().await {
            tokio::spawn(async move {
                let (mut reads, mut writes) = stream.split();
                tokio::io::copy(&mut reads, &mut writes).await.unwrap();
            });
        }
    });
    let mut clients = JoinSet::new();
    for number in 0..60_u32 {
        clients.spawn(async move {
            let mut stream = TcpStream::connect(address).await?;
            let mut sum = 0;
            for round in 0..20 {
                stream.write_u32(number * round).await?;
                sum += stream.read_u32().await?;
            }
            io::Result::Ok(sum)
        });
    }
    let mut sum = 0;
    while let Some(client) = clients.join_next().await {
        sum += client??;
    }
    serving.abort();
    assert!(serving.await.unwrap_err().is_cancelled());
    Ok(sum.to_string())
}

pub(crate) async fn readiness() -> Found {
    let (client, server) = pair().await?;
    let mut buffer = [0; 8];
    assert_eq!(server.try_read(&mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    assert!(timeout(MOMENT, server.readable()).await.is_err());
    client.writable().await?;
    client.try_write(b"abc")?;
    server.readable().await?;
    assert!(server.ready(Interest::READABLE | Interest::WRITABLE).await?.is_readable());
    assert_eq!(server.peek(&mut buffer).await?, 3);
    let mut bytes = bytes::BytesMut::with_capacity(16);
    server.readable().await?;
    assert_eq!(server.try_read_buf(&mut bytes)?, 3);
    let later = tokio::spawn(async move {
        sleep(MOMENT).await;
        client.try_write(b"de").unwrap();
        client
    });
    loop {
        server.readable().await?;
        match server.try_read(&mut buffer) {
            Ok(count) => {
                drop(later.await?);
                assert!(server.ready(Interest::READABLE).await?.is_read_closed());
                return Ok(format!("{bytes:?} {}", String::from_utf8_lossy(&buffer[..count])));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A direction stays ready until an operation would block, so that a loop of `writable` and
/// `try_write` fills the socket.
pub(crate) async fn readiness_is_remembered() -> Found {
    let folder = Folder::new("remembered")?;
    let listener = UnixListener::bind(folder.0.join("socket"))?;
    let client = UnixStream::connect(folder.0.join("socket")).await?;
    let (server, _) = listener.accept().await?;
    server.readable().await?;
    assert_eq!(server.try_read(&mut [0; 8]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    assert!(timeout(MOMENT, server.readable()).await.is_err());
    let mut sent = 0;
    loop {
        client.writable().await?;
        match client.try_write(&[1; 1000]) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error.into()),
        }
    }
    assert!(timeout(MOMENT, client.writable()).await.is_err());
    let refused = client.try_io(Interest::WRITABLE, || -> io::Result<()> { unreachable!() });
    assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::WouldBlock);
    let mut received = 0;
    while received < sent {
        server.readable().await?;
        received += server.try_io(Interest::READABLE, || server.try_read(&mut [0; 5000]))?;
    }
    client.writable().await?;
    let (one, _other) = UnixDatagram::pair()?;
    loop {
        one.writable().await?;
        if let Err(error) = one.try_send(b"datagram") {
            return Ok(format!("{} {}", received == sent, error.kind()));
        }
    }
}

/// Several tasks wait for one direction of one socket, and this task does too.
pub(crate) async fn two_tasks_share_a_socket() -> Found {
    let socket = Arc::new(UdpSocket::bind(ANY_PORT).await?);
    let sender = UdpSocket::bind(ANY_PORT).await?;
    sender.connect(socket.local_addr()?).await?;
    let (seen, mut heard) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        let (socket, seen) = (socket.clone(), seen.clone());
        tasks.spawn(async move {
            let mut buffer = [0; 8];
            while socket.recv(&mut buffer).await.unwrap() == 1 {
                seen.send(buffer[0]).unwrap();
            }
        });
    }
    let here = async {
        let mut buffer = [0; 8];
        while socket.recv(&mut buffer).await.unwrap() == 1 {
            seen.send(buffer[0]).unwrap();
        }
    };
    let send = async {
        let mut numbers = BTreeSet::new();
        for number in 0..100 {
            sender.send(&[number]).await.unwrap();
            numbers.insert(heard.recv().await.unwrap());
        }
        for _ in 0..4 {
            sender.send(b"end").await.unwrap();
        }
        numbers.len()
    };
    let ((), count) = tokio::join!(here, send);
    while let Some(task) = tasks.join_next().await {
        task?;
    }
    Ok(count.to_string())
}

pub(crate) async fn two_acceptors_share_a_listener() -> Found {
    let listener = Arc::new(TcpListener::bind(ANY_PORT).await?);
    let address = listener.local_addr()?;
    let mut acceptors = JoinSet::new();
    for _ in 0..2 {
        let listener = listener.clone();
        acceptors.spawn(async move {
            for _ in 0..20 {
                let (mut stream, _) = listener.accept().await.unwrap();
                stream.write_all(b"hi").await.unwrap();
            }
        });
    }
    let mut greeted = 0;
    for _ in 0..40 {
        let mut text = String::new();
        TcpStream::connect(address).await?.read_to_string(&mut text).await?;
        greeted += usize::from(text == "hi");
    }
    acceptors.join_all().await;
    Ok(greeted.to_string())
}

/// Each owner reads something, and hands the stream to a new task or back to this one.
pub(crate) async fn a_stream_moves_between_tasks() -> Found {
    let (mut client, server) = pair().await?;
    let write = tokio::spawn(async move {
        for byte in b'a'..=b'h' {
            sleep(Duration::from_millis(1)).await;
            client.write_u8(byte).await.unwrap();
        }
        client
    });
    let (mut server, mut word) = (server, String::new());
    for turn in 0..8 {
        let byte = if turn % 2 == 0 {
            let task = tokio::spawn(async move {
                let byte = server.read_u8().await.unwrap();
                (server, byte)
            });
            let byte;
            (server, byte) = task.await?;
            byte
        } else {
            server.read_u8().await?
        };
        word.push(byte.into());
    }
    drop(write.await?);
    assert_eq!(server.read(&mut [0; 4]).await?, 0);
    Ok(word)
}

pub(crate) async fn options_of_sockets() -> Found {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind("127.0.0.1:0".parse()?)?;
    let listener = socket.listen(8)?;
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(8192)?;
    let stream = socket.connect(listener.local_addr()?).await?;
    stream.set_nodelay(true)?;
    stream.set_linger(Some(Duration::from_secs(1)))?;
    let refused = {
        let address = TcpListener::bind(ANY_PORT).await?.local_addr()?;
        TcpStream::connect(address).await.unwrap_err().kind()
    };
    let std = TcpStream::from_std(stream.into_std()?)?;
    Ok(format!("{} {:?} {refused:?}", std.nodelay()?, std.linger()?))
}

pub(crate) async fn datagrams() -> Found {
    let (one, other) = (UdpSocket::bind(ANY_PORT).await?, UdpSocket::bind(ANY_PORT).await?);
    let mut buffer = [0; 64];
    one.send_to(b"hello", other.local_addr()?).await?;
    let (length, sender) = other.recv_from(&mut buffer).await?;
    assert_eq!(sender, one.local_addr()?);
    assert!(timeout(MOMENT, other.recv_from(&mut buffer)).await.is_err());
    assert_eq!(other.try_recv(&mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

pub(crate) async fn datagrams_in_frames() -> Found {
    let (one, other) = (UdpSocket::bind(ANY_PORT).await?, UdpSocket::bind(ANY_PORT).await?);
    let address = other.local_addr()?;
    let mut sends = UdpFramed::new(one, LinesCodec::new());
    let mut receives = UdpFramed::new(other, LinesCodec::new());
    sends.send(("a line", address)).await?;
    let (line, _) = receives.next().await.ok_or("the end")??;
    Ok(line)
}

pub(crate) async fn unix_streams() -> Found {
    let folder = Folder::new("stream")?;
    let path = folder.0.join("socket");
    let listener = UnixListener::bind(&path)?;
    let served = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut lines = BufReader::new(stream).lines();
        lines.next_line().await.unwrap().unwrap()
    });
    let mut stream = UnixStream::connect(&path).await?;
    assert_eq!(stream.peer_addr()?.as_pathname(), Some(&*path));
    assert_eq!(stream.peer_cred()?.pid(), Some(std::process::id().cast_signed()));
    stream.write_all(b"over a path\n").await?;
    let (mut one, mut other) = UnixStream::pair()?;
    one.write_all(b"pair").await?;
    drop(one);
    let mut text = String::new();
    other.read_to_string(&mut text).await?;
    Ok(format!("{} {text}", served.await?))
}

pub(crate) async fn unix_datagrams() -> Found {
    let folder = Folder::new("datagram")?;
    let receives = UnixDatagram::bind(folder.0.join("socket"))?;
    let (sends, other) = UnixDatagram::pair()?;
    let unbound = UnixDatagram::unbound()?;
    unbound.send_to(b"by path", folder.0.join("socket")).await?;
    sends.send(b"by pair").await?;
    let mut buffer = [0; 64];
    let (length, sender) = receives.recv_from(&mut buffer).await?;
    assert!(sender.is_unnamed());
    let first = String::from_utf8_lossy(&buffer[..length]).into_owned();
    let length = other.recv(&mut buffer).await?;
    Ok(format!("{first}, {}", String::from_utf8_lossy(&buffer[..length])))
}

pub(crate) async fn a_name_is_looked_up() -> Found {
    let found = tokio::net::lookup_host("localhost:80").await?.count() > 0;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let stream = TcpStream::connect(("localhost", port)).await?;
    Ok(format!("{found} {}", stream.peer_addr()?.port() == port))
}

pub(crate) async fn a_proxy() -> Found {
    let (mut client, mut front) = pair().await?;
    let (mut back, mut server) = pair().await?;
    let proxy = tokio::spawn(async move { copy_bidirectional(&mut front, &mut back).await });
    client.write_all(b"question").await?;
    client.shutdown().await?;
    let mut text = String::new();
    server.read_to_string(&mut text).await?;
    server.write_all(b"answer").await?;
    drop(server);
    client.read_to_string(&mut text).await?;
    Ok(format!("{text} {:?}", proxy.await??))
}
