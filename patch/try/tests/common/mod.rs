//! Programs under a world, started as processes, and clients of theirs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The longest that anything here may take.
pub const LIMIT: Duration = Duration::from_secs(120);

/// Runs the test for each world.
#[macro_export]
macro_rules! in_every_world {
    ($($test:ident)+) => {
        in_every_world! { @ threads uthreads epoll uring poll select; $($test)+ }
    };
    (@ ; $($test:ident)+) => {};
    (@ $world:ident $($rest:ident)*; $($test:ident)+) => {
        mod $world {
            $(
                #[test]
                fn $test() {
                    super::$test(stringify!($world));
                }
            )+
        }
        in_every_world! { @ $($rest)*; $($test)+ }
    };
}

pub fn command(program: &str, world: &str) -> Command {
    let mut command = Command::new(program);
    command.env("DUALITY_WORLD", world).env_remove("DUALITY_LOOPS");
    command
}

/// Runs a program to its end, with this text as its standard input. A program that takes too long
/// is killed, and fails the test.
pub fn run(command: &mut Command, input: &'static str) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    // A program that ends early does not read its input.
    let _ = to.write_all(input.as_bytes());
    drop(to);
    let id = child.id();
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    match ended.recv_timeout(LIMIT) {
        Ok(output) => output.unwrap(),
        Err(_) => {
            signal(id, "KILL");
            panic!("it took too long, and left: {:?}", ended.recv());
        }
    }
}

/// Sends a signal to a process of these tests.
pub fn signal(id: u32, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &id.to_string()]).status().unwrap();
    assert!(sent.success());
}

/// A server under a world.
pub struct Server {
    child: Child,
    output: BufReader<ChildStdout>,
    pub address: SocketAddr,
}

impl Server {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let address =
            line.trim_end().strip_prefix("listening on ").expect("a line with its address");
        Self { address: address.parse().unwrap(), child, output }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_write_timeout(Some(LIMIT)).unwrap();
        stream
    }

    /// Sends a request on a connection of its own. Returns the reply without its date.
    pub fn ask(&self, request: &str, body: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        let head = format!(
            "{request} HTTP/1.1\r\nhost: shop\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        without_date(&reply)
    }

    /// The names of the kernel threads.
    pub fn threads(&self) -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.id())).unwrap();
        let names =
            tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.map(|name| name.trim_end().to_owned()).collect()
    }

    /// Sends a signal, and returns what the server prints until it ends. It must end well.
    pub fn end(mut self, name: &str) -> String {
        signal(self.id(), name);
        self.ended()
    }

    /// What the server prints until it ends. It must end well.
    pub fn ended(&mut self) -> String {
        let id = self.id();
        let (sender, is_over) = mpsc::channel::<()>();
        let watch = thread::spawn(move || {
            if is_over.recv_timeout(LIMIT).is_err() {
                signal(id, "KILL");
            }
        });
        let mut text = String::new();
        self.output.read_to_string(&mut text).unwrap();
        let status = self.child.wait().unwrap();
        sender.send(()).unwrap();
        watch.join().unwrap();
        assert!(status.success(), "{status}: {text}");
        text
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended, unless a test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A reply without the line with its date.
pub fn without_date(reply: &[u8]) -> Vec<u8> {
    let lines = reply.split_inclusive(|byte| *byte == b'\n');
    lines.filter(|line| !line.starts_with(b"date: ")).flatten().copied().collect()
}
