//! The services made of lines over real sockets: one body, every world. The name of a failing test
//! says which world broke it.

use std::{future::Future, io, net::SocketAddr};

use duality_poller::Kind;
use duality_runtime::{
    block_on,
    event_loop::{EventLoop, Waiting},
    net::{ListenOptions, TcpListener, TcpStream},
    task,
    time::Duration,
};
use duality_services::quote;

#[derive(Clone, Copy)]
enum World {
    Block,
    Park,
    Suspend,
}

impl World {
    fn run<F: Future + 'static>(self, future: F) -> F::Output {
        let waiting = match self {
            Self::Block => return block_on(future),
            Self::Park => Waiting::Park { stack_size: 256 * 1024 },
            Self::Suspend => Waiting::Suspend,
        };
        EventLoop::new(Kind::Epoll.open().unwrap(), waiting).unwrap().run(future)
    }
}

macro_rules! in_every_world {
    ($($body:ident)*) => {
        in_every_world!(@ block World::Block, $($body)*);
        in_every_world!(@ park World::Park, $($body)*);
        in_every_world!(@ suspend World::Suspend, $($body)*);
    };
    (@ $name:ident $world:expr, $($body:ident)*) => {
        mod $name {
            use super::*;
            $(#[test] fn $body() { $world.run(super::$body()); })*
        }
    };
}

in_every_world! {
    quotes_are_as_specified
    pipelined_quotes_come_back_in_order
    a_long_symbol_ends_the_connection
}

/// Serves each connection to the address that it returns, for as long as the world lasts.
fn server<S, F>(serve: S) -> SocketAddr
where
    S: Fn(TcpStream) -> F + Send + 'static,
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut listener = TcpListener::bind(any, &ListenOptions::default()).unwrap();
    let address = listener.local_addr().unwrap();
    let accepting = async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            task::spawn(serve(stream)).unwrap();
        }
    };
    task::spawn(accepting).unwrap();
    address
}

/// A client that speaks in lines.
struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Client {
    async fn connect(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // Long enough never to pass in a test that works.
        let ever = Some(Duration::from_secs(25));
        stream.set_read_timeout(ever).unwrap();
        stream.set_write_timeout(ever).unwrap();
        Self { stream, received: Vec::new() }
    }

    async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// The next line, its end included; what there is of it when the connection ends before.
    async fn line(&mut self) -> String {
        loop {
            if let Some(feed) = self.received.iter().position(|&byte| byte == b'\n') {
                return String::from_utf8(self.received.drain(..=feed).collect()).unwrap();
            }
            if self.receive().await == 0 {
                return String::from_utf8(std::mem::take(&mut self.received)).unwrap();
            }
        }
    }

    async fn receive(&mut self) -> usize {
        let mut bytes = [0; 4096];
        let count = self.stream.read(&mut bytes).await.unwrap();
        self.received.extend_from_slice(&bytes[..count]);
        count
    }

    async fn expect(&mut self, line: &str) {
        assert_eq!(self.line().await, line);
    }

    async fn expect_end(&mut self) {
        self.expect("").await;
    }
}

async fn quotes_are_as_specified() {
    let mut client = Client::connect(server(quote::serve)).await;
    client.send("A\nACME\r\n").await;
    // By hand: 0xc40bf6cc and 0x4adf3eef modulo 99,900, plus 100.
    client.expect("A 109.12\n").await;
    client.expect("ACME 21.23\n").await;
    client.send("acme\n\n").await;
    client.expect("ERROR a symbol is 1 to 8 letters A to Z\n").await;
    client.expect("ERROR a symbol is 1 to 8 letters A to Z\n").await;
    // A line may come in pieces, and what is no line at the end is not answered.
    client.send("AC").await;
    client.send("ME\nACME").await;
    client.expect("ACME 21.23\n").await;
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    client.expect_end().await;
}

async fn pipelined_quotes_come_back_in_order() {
    let address = server(quote::serve);
    let (mut client, mut other) = (Client::connect(address).await, Client::connect(address).await);
    let symbols: Vec<String> = (0..3000u32)
        .map(|number| number.to_string().bytes().map(|digit| char::from(digit + 17)).collect())
        .collect();
    let mut requests = symbols.join("\n");
    requests.push('\n');
    client.send(&requests).await;
    let mut replies = Vec::new();
    for symbol in &symbols {
        let reply = client.line().await;
        let price = reply.strip_prefix(symbol.as_str()).unwrap().trim();
        assert!((1.0..1000.0).contains(&price.parse::<f64>().unwrap()), "{reply}");
        replies.push(reply);
    }
    // One by one, the replies are the same.
    for (symbol, reply) in symbols.iter().zip(&replies).step_by(100) {
        other.send(&format!("{symbol}\n")).await;
        other.expect(reply).await;
    }
}

async fn a_long_symbol_ends_the_connection() {
    let address = server(quote::serve);
    for (sent, answered) in [(64, "a symbol is"), (65, "a line is")] {
        let mut client = Client::connect(address).await;
        client.send(&format!("ACME\n{}\n", "X".repeat(sent))).await;
        client.expect("ACME 21.23\n").await;
        let error = client.line().await;
        assert!(error.starts_with(&format!("ERROR {answered}")), "{error}");
        client.send("ACME\n").await;
        client.expect(if sent == 64 { "ACME 21.23\n" } else { "" }).await;
    }
    // It does not wait for the end of a line that never ends.
    let mut client = Client::connect(address).await;
    client.send(&"X".repeat(100_000)).await;
    client.expect("ERROR a line is at most 64 bytes\n").await;
    client.expect_end().await;
}
