//! The certificate of an experiment with TLS. All its servers have this certificate, so that each
//! handshake costs the same work.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use crate::failure::{Blame, Failure, Party};

/// A certificate of P-256 that signs itself, and its key, in files that servers read.
#[derive(Clone, Debug)]
pub struct Certificate {
    folder: Arc<TempDir>,
}

impl Certificate {
    /// The certificates, in PEM.
    pub(crate) fn chain(&self) -> PathBuf {
        self.file("cert.pem")
    }

    /// The private key, in PEM.
    pub(crate) fn key(&self) -> PathBuf {
        self.file("key.pem")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes the certificate of servers on loopback.
    ///
    /// # Errors
    ///
    /// The reason and the remedy, in one line: this build has no TLS, or the files cannot be
    /// written.
    pub fn new() -> Result<Self, Failure> {
        let folder = tempfile::Builder::new().prefix("duality-tls-").tempdir();
        let folder = folder.blame_at(Party::Machine, "the certificate")?;
        write(folder.path())?;
        Ok(Self { folder: Arc::new(folder) })
    }
}

#[cfg(feature = "rustls")]
fn write(folder: &Path) -> Result<(), Failure> {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made =
        rcgen::generate_simple_self_signed(names).blame_at(Party::Machine, "the certificate")?;
    let key = made.signing_key.serialize_pem();
    for (name, text) in [("cert.pem", made.cert.pem()), ("key.pem", key)] {
        std::fs::write(folder.join(name), text).blame_at(Party::Machine, "the certificate")?;
    }
    Ok(())
}

#[cfg(not(feature = "rustls"))]
fn write(_: &Path) -> Result<(), Failure> {
    let problem = "this program was built without TLS";
    Err(Failure::misuse(problem).remedy("build it with `--features rustls`"))
}
