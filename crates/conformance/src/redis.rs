//! A real `redis-server` for one test, which can be killed and started again.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::{KeptPort, eventually};

/// A Redis with its data in a directory. Dropping it kills the server.
pub struct Redis {
    child: Child,
    port: KeptPort,
}

impl Redis {
    /// Starts a server.
    ///
    /// # Panics
    ///
    /// Panics if there is no `redis-server`. `cargo xtask tools` installs it.
    pub fn start(directory: &Path) -> Self {
        let port = KeptPort::keep();
        let redis = Self { child: spawn(directory, port.address()), port };
        redis.await_answer();
        redis
    }

    /// The address of the server.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Kills the server without warning, and starts another at the same address with the same
    /// directory.
    ///
    /// # Panics
    ///
    /// Panics if the server does not start again.
    pub fn restart(&mut self, directory: &Path, meanwhile: impl FnOnce()) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        meanwhile();
        self.child = spawn(directory, self.address());
        self.await_answer();
    }

    /// The server's one-line reply to a command.
    ///
    /// # Panics
    ///
    /// Panics if the server does not reply.
    pub fn ask(&self, command: &str) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes()).unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        reply
    }

    fn await_answer(&self) {
        eventually("Redis answers", || answers(self.address()).then_some(()));
    }
}

fn spawn(directory: &Path, address: SocketAddr) -> Child {
    Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"])
        .args(["--appendfsync", "always", "--dir"])
        .arg(directory)
        .args(["--port", &address.port().to_string()])
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is installed (cargo xtask tools)")
}

/// Whether a Redis has loaded its data and answers.
fn answers(address: SocketAddr) -> bool {
    let asked = TcpStream::connect(address).and_then(|mut stream| {
        stream.write_all(b"PING\r\n")?;
        let mut reply = [0; 7];
        stream.read_exact(&mut reply)?;
        Ok(reply)
    });
    asked.is_ok_and(|reply| &reply == b"+PONG\r\n")
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
