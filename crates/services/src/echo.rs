//! The echo service: all bytes go back, until the client closes ([RFC
//! 862](https://www.rfc-editor.org/rfc/rfc862)).

use std::io;

use duality_runtime::{
    handler::Handler,
    net::{Input, TcpStream},
    task,
};

use crate::Entry;

/// The echo service, as the registry lists it.
pub const ENTRY: Entry = Entry {
    name: "echo",
    summary: "sends back every byte it receives",
    protocol: "RFC 862",
    open: |_| Ok(Handler::new(serve)),
    ..Entry::PLAIN
};

/// Sends back every byte that arrives until the client closes its side.
///
/// # Errors
///
/// The connection broke.
pub async fn serve(mut stream: TcpStream) -> io::Result<()> {
    let mut input = Input::new(4096);
    loop {
        task::stage("echo").await;
        match stream.fill(&mut input).await? {
            0 => return Ok(()),
            length => {
                stream.begin_request();
                stream.write_all(input.unused()).await?;
                stream.end_request();
                input.consume(length);
            }
        }
    }
}
