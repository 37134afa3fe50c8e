//! What the pieces share.

use std::io;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

pub(crate) const MOMENT: Duration = Duration::from_millis(3);
pub(crate) const FOR_EVER: Duration = Duration::from_secs(3600);
pub(crate) const ANY_PORT: &str = "127.0.0.1:0";

/// What a piece found, as text.
pub(crate) type Found = Result<String, Box<dyn std::error::Error>>;

pub(crate) async fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind(ANY_PORT).await?;
    let client = TcpStream::connect(listener.local_addr()?).await?;
    let (server, peer) = listener.accept().await?;
    assert_eq!(peer, client.local_addr()?);
    Ok((client, server))
}

/// A path in a folder of its own, which is removed at the end.
pub(crate) struct Folder(pub(crate) std::path::PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("duality-{name}-{}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
