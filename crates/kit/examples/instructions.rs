//! Operations for `cargo xtask instructions`, which counts their instructions.
//!
//! `instructions WORLD OPERATION COUNT` performs COUNT operations in a world, and ends. The
//! difference between two counts is what the operations take. So the start of the program and the
//! first use of each buffer do not enter. Client and server are tasks of the same kernel thread,
//! except in the block world, where each task has a thread.
//!
//! Without arguments it lists the worlds and the operations, a pair a line.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "what it prints is its result")]

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use duality_kit::Case;
use duality_runtime::net::{ListenOptions, TcpListener, TcpStream};
use duality_runtime::{sync, task, time};
use duality_services::echo;
use duality_services::http::Http;

const OPERATIONS: [&str; 6] = ["spawn", "yield", "channel", "timer", "echo", "http"];

/// What a task of ours does.
const ENDS: &str = "the task ends";

/// What one request of http asks for.
const REQUEST: &[u8] = b"GET /hello.txt HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some([world, operation, count]) = arguments.first_chunk() else {
        for case in Case::EACH_WORLD {
            OPERATIONS.iter().for_each(|operation| println!("{case} {operation}"));
        }
        return ExitCode::SUCCESS;
    };
    let case = Case::EACH_WORLD.into_iter().find(|case| case.to_string() == *world);
    let operation = OPERATIONS.into_iter().find(|one| one == operation);
    let (Some(case), Some(operation), Ok(count)) = (case, operation, count.parse()) else {
        eprintln!("instructions: wanted is WORLD OPERATION COUNT, as listed without arguments");
        return ExitCode::from(2);
    };
    match case.run(perform(operation, count)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("instructions: {operation} in {case}: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn perform(operation: &str, count: u32) -> io::Result<()> {
    match operation {
        "spawn" => {
            for _ in 0..count {
                task::spawn(async {})?.await.expect(ENDS);
            }
        }
        "yield" => {
            let other = task::spawn(take_turns(count))?;
            take_turns(count).await;
            other.await.expect(ENDS);
        }
        "channel" => {
            let (sender, mut receiver) = sync::channel::bounded(1);
            let sending = task::spawn(async move {
                for number in 0..count {
                    sender.send(number).await.expect("the receiver stays");
                }
            })?;
            while receiver.recv().await.is_some() {}
            sending.await.expect(ENDS);
        }
        "timer" => {
            for _ in 0..count {
                time::timeout(Duration::from_secs(60), task::yield_now()).await.expect("soon");
            }
        }
        "echo" => ask(count, b"hello", 5, echo::serve).await?,
        _ => {
            let http = Http::demo();
            let reply = reply_length(&http).await?;
            ask(count, REQUEST, reply, move |stream| http.serve(stream)).await?;
        }
    }
    Ok(())
}

async fn take_turns(count: u32) {
    for _ in 0..count {
        task::yield_now().await;
    }
}

/// Asks a service `count` times on one connection, each time after the reply.
async fn ask<F>(
    count: u32,
    request: &'static [u8],
    reply: usize,
    serve: impl FnOnce(TcpStream) -> F,
) -> io::Result<()>
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let (mut client, server) = connected().await?;
    let serving = task::spawn(serve(server))?;
    let mut buffer = vec![0; reply];
    for _ in 0..count {
        client.write_all(request).await?;
        client.read_exact(&mut buffer).await?;
    }
    drop(client);
    serving.await.expect(ENDS)
}

async fn connected() -> io::Result<(TcpStream, TcpStream)> {
    let address = "127.0.0.1:0".parse().expect("an address");
    let mut listener = TcpListener::bind(address, &ListenOptions::default())?;
    let client = TcpStream::connect(listener.local_addr()?).await?;
    let (server, _) = listener.accept().await?;
    Ok((client, server))
}

/// The length of a reply, in bytes, head and body.
async fn reply_length(http: &Http) -> io::Result<usize> {
    let (mut client, server) = connected().await?;
    let serving = task::spawn(http.serve(server))?;
    client.write_all(REQUEST).await?;
    let mut buffer = vec![0; 64 << 10];
    let length = client.read(&mut buffer).await?;
    drop(client);
    serving.await.expect(ENDS)?;
    Ok(length)
}
