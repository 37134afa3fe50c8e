//! A server behind a relay, for tests: a plain blocking program. Each reply is known byte for byte.
//! The path of a request says what becomes of it.

#![allow(dead_code, reason = "each test file uses what it needs")]

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

/// A reply in chunks, with an extension and a trailer.
pub(crate) const CHUNKED: &str = "HTTP/1.1 200 OK\r\nX-Kind: chunked\r\nTransfer-Encoding: chunked\r\n\r\n\
    5;name=value\r\nhello\r\n7\r\n, world\r\n0\r\nX-Sum: 12\r\n\r\n";

/// A running server.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    seen: Arc<Seen>,
}

/// What a server has seen.
#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    requests: AtomicUsize,
    /// Requests for `/silent` on open connections.
    silent: AtomicUsize,
    /// The connections that asked for `/stray`, and get unasked bytes by `/stray-now`.
    strays: Mutex<Vec<TcpStream>>,
}

/// The head of a request, with its lines.
struct Head {
    text: String,
}

impl Head {
    fn read(stream: &mut BufReader<TcpStream>) -> io::Result<Option<Self>> {
        let mut text = String::new();
        while !text.ends_with("\r\n\r\n") {
            if stream.read_line(&mut text)? == 0 {
                return Ok(None);
            }
        }
        Ok(Some(Self { text }))
    }

    fn path(&self) -> &str {
        self.text.split(' ').nth(1).unwrap_or_default()
    }

    fn is_head(&self) -> bool {
        self.text.starts_with("HEAD ")
    }

    fn length(&self) -> Option<u64> {
        self.text.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok())
    }

    fn is_chunked(&self) -> bool {
        self.text.contains("\r\nTransfer-Encoding: chunked\r\n")
    }
}

impl Upstream {
    /// Starts a server, which runs for as long as the test process.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Seen>::default();
        let own = seen.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                own.connections.fetch_add(1, SeqCst);
                let seen = own.clone();
                // The test looks at what the relay makes of it.
                thread::spawn(move || drop(serve(stream, &seen)));
            }
        });
        Self { address, seen }
    }

    /// The number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.seen.connections.load(SeqCst)
    }

    /// The address of another server, which closes each connection after the first bytes.
    pub(crate) fn closing(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let _ = stream.read(&mut [0; 4096]);
            }
        });
        address
    }

    /// Waits until so many requests for `/silent` are under way.
    pub(crate) fn expect_silent(&self, count: usize) {
        let begun = Instant::now();
        while self.seen.silent.load(SeqCst) != count {
            assert!(begun.elapsed() < Duration::from_secs(60), "not {count} silent requests");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// The number of requests so far.
    pub(crate) fn requests(&self) -> usize {
        self.seen.requests.load(SeqCst)
    }
}

fn serve(stream: TcpStream, seen: &Seen) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    while let Some(head) = Head::read(&mut reader)? {
        seen.requests.fetch_add(1, SeqCst);
        match head.path() {
            "/stray" => seen.strays.lock().unwrap().push(writer.try_clone()?),
            "/stray-now" => {
                for mut stray in seen.strays.lock().unwrap().drain(..) {
                    stray.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray")?;
                }
            }
            _ => {}
        }
        let is_silent = head.path() == "/silent";
        seen.silent.fetch_add(is_silent.into(), SeqCst);
        let stays = answer(&head, &mut reader, &mut writer);
        seen.silent.fetch_sub(is_silent.into(), SeqCst);
        if !stays? {
            break;
        }
    }
    Ok(())
}

/// Answers a request. Returns whether the connection stays.
fn answer(head: &Head, reader: &mut impl BufRead, writer: &mut impl Write) -> io::Result<bool> {
    if let Some(last) = last_words(head.path()) {
        writer.write_all(last.as_bytes())?;
        return Ok(false);
    }
    match head.path() {
        "/chunked" => writer.write_all(CHUNKED.as_bytes())?,
        "/early" => {
            writer.write_all(
                b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 4\r\nConnection: close\r\n\r\nmuch",
            )?;
            // A close with unread bytes would reset the connection.
            writer.flush()?;
            io::copy(&mut reader.take(1 << 30), &mut io::sink())?;
            return Ok(false);
        }
        "/continue" => {
            writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            reply(writer, &body(head, reader)?)?;
        }
        "/late-continue" => {
            thread::sleep(Duration::from_millis(400));
            writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            reply(writer, &body(head, reader)?)?;
        }
        path if path.starts_with("/switch") => return switch(head, reader, writer),
        "/hints" => {
            writer.write_all(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n")?;
            reply(writer, b"hinted")?;
        }
        "/echo" => echo(head, reader, writer)?,
        "/head" => reply(writer, head.text.as_bytes())?,
        "/not-modified" => writer
            .write_all(b"HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nContent-Length: 99\r\n\r\n")?,
        "/no-content" => writer.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")?,
        "/breaks-chunks" => {
            writer.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            writer.write_all(b"3\r\nabc\r\nnonsense\r\n")?;
        }
        "/silent" => {
            io::copy(&mut reader.take(1 << 30), &mut io::sink())?;
            return Ok(false);
        }
        path if path.starts_with("/raw/") => {
            let head = path["/raw/".len()..].replace('_', " ").replace(';', "\r\n");
            writer.write_all(head.as_bytes())?;
        }
        path if path.starts_with("/zeros/") => {
            let length: u64 = path["/zeros/".len()..].parse().unwrap_or(0);
            write!(writer, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n")?;
            if !head.is_head() {
                io::copy(&mut io::repeat(0).take(length), writer)?;
            }
        }
        _ => {
            let posted = body(head, reader)?;
            let content = if posted.is_empty() { b"hello".to_vec() } else { posted };
            let length = content.len();
            write!(writer, "HTTP/1.1 200 OK\r\nX-Kind: plain\r\nContent-Length: {length}\r\n\r\n")?;
            if !head.is_head() {
                writer.write_all(&content)?;
            }
        }
    }
    writer.flush()?;
    Ok(true)
}

/// Switches to a WebSocket, if it is asked to, and then sends back what comes.
fn switch(head: &Head, reader: &mut impl BufRead, writer: &mut impl Write) -> io::Result<bool> {
    let is_asked = head.text.contains("\r\nConnection: upgrade\r\nUpgrade: websocket\r\n");
    if !is_asked && head.path() == "/switch" {
        reply(writer, b"no switch")?;
        return Ok(true);
    }
    writer.write_all(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
          Sec-WebSocket-Accept: y\r\nUpgrade: websocket\r\n\r\n",
    )?;
    io::copy(reader, writer)?;
    Ok(false)
}

/// The replies after which the server closes, without reading more.
fn last_words(path: &str) -> Option<&'static str> {
    Some(match path {
        "/until-end" => "HTTP/1.1 200 OK\r\nX-Kind: end\r\n\r\nall that there is",
        "/old" => "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nold",
        "/last" => "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlast",
        "/dies" => "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\na part",
        "/dies-in-chunks" => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\na part\r\n",
        "/closes" => "",
        _ => return None,
    })
}

fn reply(writer: &mut impl Write, content: &[u8]) -> io::Result<()> {
    write!(writer, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", content.len())?;
    writer.write_all(content)
}

/// Sends back the body while it comes, in chunks.
fn echo(head: &Head, reader: &mut impl BufRead, writer: &mut impl Write) -> io::Result<()> {
    writer.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
    pieces(head, reader, |piece| {
        write!(writer, "{:x}\r\n", piece.len())?;
        writer.write_all(piece)?;
        writer.write_all(b"\r\n")
    })?;
    writer.write_all(b"0\r\n\r\n")
}

fn body(head: &Head, reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    pieces(head, reader, |piece| {
        body.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(body)
}

/// Passes the body of a request to `take`, piece by piece.
fn pieces(
    head: &Head,
    reader: &mut impl BufRead,
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut left = head.length().unwrap_or(0);
    loop {
        if head.is_chunked() && left == 0 {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let size = line.trim().split(';').next().unwrap_or_default();
            left = u64::from_str_radix(size, 16).map_err(io::Error::other)?;
            if left == 0 {
                while reader.read_line(&mut line)? > 2 {}
                return Ok(());
            }
        }
        if left == 0 {
            return Ok(());
        }
        let available = reader.fill_buf()?;
        let length = available.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        take(&available[..length])?;
        reader.consume(length);
        left -= length as u64;
        if head.is_chunked() && left == 0 {
            let mut end = String::new();
            reader.read_line(&mut end)?;
        }
    }
}
