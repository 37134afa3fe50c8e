//! Services with a fault each. Some seed of a thousand must find it, and shrink it to something
//! that a person reads in a minute. Without the fault, the same test must pass.

mod network;
mod tasks;
mod threads;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use duality_runtime::handler::Connections;
use duality_runtime::net::{ListenOptions, TcpListener, TcpStream};
use duality_runtime::{task, time};
use duality_simulate::{Faults, Net, Violation, seeds};

type Test = Pin<Box<dyn Future<Output = Result<(), Violation>>>>;

/// A planted fault.
struct Planted {
    /// `true` plants the fault.
    test: fn(Net, bool) -> Test,
    faults: Faults,
    /// A part of the failure.
    says: &'static str,
}

/// The most decisions that are not tame in a shrunk run.
const FEW: usize = 25;

impl Planted {
    fn is_found(&self) {
        let test = self.test;
        let run =
            || seeds(0..1000).once().lasting(Duration::from_secs(24 * 3600)).faults(self.faults);
        let failure = run().try_run(move |net| test(net, true)).expect_err("a seed finds it");
        assert!(failure.why.contains(self.says), "{failure}");
        let shrunk = failure.shrunk.as_ref().expect("it is shrunk");
        assert!(shrunk.decisions.1 <= FEW, "{failure}");
        assert!(shrunk.why.contains(self.says), "{failure}");
        seeds(0..200).once().faults(self.faults).run(move |net| test(net, false));
    }
}

// What the services have in common.

async fn serve<F>(serve: impl Fn(TcpStream) -> F) -> io::Result<()>
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let any = ([0, 0, 0, 0], 80).into();
    let mut listener = TcpListener::bind(any, &ListenOptions::default())?;
    let connections = Connections::default();
    while let Some(stream) = listener.accept_until_drain().await? {
        let (served, active) = (serve(stream), connections.enter());
        task::spawn(async move {
            let _ = served.await;
            drop(active);
        })?;
    }
    connections.all_ended().await;
    Ok(())
}

async fn connect() -> TcpStream {
    loop {
        match TcpStream::connect_host("server:80").await {
            Ok(stream) => return stream,
            Err(_) => time::sleep(secs(1)).await,
        }
    }
}

async fn line(stream: &mut TcpStream) -> io::Result<String> {
    let mut line = Vec::new();
    loop {
        let mut byte = [0];
        match stream.read(&mut byte).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ if byte == *b"\n" => return Ok(String::from_utf8_lossy(&line).into_owned()),
            _ => line.push(byte[0]),
        }
    }
}

async fn ask(stream: &mut TcpStream, request: &str) -> io::Result<String> {
    stream.write_all(format!("{request}\n").as_bytes()).await?;
    line(stream).await
}

async fn say(stream: &mut TcpStream, reply: &str) -> io::Result<()> {
    stream.write_all(format!("{reply}\n").as_bytes()).await
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn must(is_right: bool, why: impl Into<Violation>) -> Result<(), Violation> {
    if is_right { Ok(()) } else { Err(why.into()) }
}

fn text<T>(outcome: io::Result<T>) -> Result<T, Violation> {
    outcome.map_err(|error| error.to_string().into())
}
