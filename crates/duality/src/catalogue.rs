//! The services that this program can serve: those that come with Duality, or one of the user's own.

use std::path::Path;

use duality_architectures::{Needs, Service as Served};
use duality_services::{ALL, echo, http, time};

use crate::Service;
use crate::cli::Failure;

/// The services of this program.
pub(crate) enum Catalogue {
    BuiltIn,
    Own(Service),
}

/// What lists show of a service.
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) summary: String,
}

impl Catalogue {
    /// The service that a command means when it names none.
    pub(crate) fn default_name(&self) -> &str {
        match self {
            Self::BuiltIn => http::ENTRY.name,
            Self::Own(service) => service.served.name(),
        }
    }

    pub(crate) fn list(&self) -> Vec<Listed> {
        let listed =
            |name: &str, summary: &str| Listed { name: name.into(), summary: summary.into() };
        match self {
            Self::BuiltIn => ALL.iter().map(|entry| listed(entry.name, entry.summary)).collect(),
            Self::Own(service) => vec![listed(service.served.name(), "this program's own service")],
        }
    }

    /// What `compare` sends to a service of the user's own and expects of it.
    pub(crate) fn exchange(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        match self {
            Self::BuiltIn => None,
            Self::Own(service) => service.exchange.clone(),
        }
    }

    /// Checks that there is a service of that name.
    pub(crate) fn check(&self, name: &str) -> Result<(), Failure> {
        let names: Vec<String> = self.list().into_iter().map(|listed| listed.name).collect();
        if names.iter().any(|known| known == name) {
            return Ok(());
        }
        let names = names.join(", ");
        Err(Failure::misuse(format!("there is no service `{name}`: choose one of {names}")))
    }

    /// Sets up the service of that name.
    pub(crate) fn open(&self, name: &str, root: Option<&Path>) -> Result<Served, Failure> {
        self.check(name)?;
        let files = matches!(self, Self::BuiltIn) && name == http::ENTRY.name;
        if let Some(root) = root
            && !files
        {
            let root = root.display();
            let message =
                format!("--root {root}: the service `{name}` serves no files: leave it out");
            return Err(Failure::misuse(message));
        }
        match self {
            Self::Own(service) => Ok(service.served.clone()),
            Self::BuiltIn if files => open_http(root),
            Self::BuiltIn if name == echo::ENTRY.name => Ok(served(name, echo::serve)),
            Self::BuiltIn => Ok(served(name, time::serve)),
        }
    }
}

fn served<F>(name: &str, serve: fn(duality_runtime::net::TcpStream) -> F) -> Served
where
    F: Future<Output = std::io::Result<()>> + Send + 'static,
{
    Served::new(name, Needs::default(), serve)
}

fn open_http(root: Option<&Path>) -> Result<Served, Failure> {
    let config = http::Config { root: root.map(Path::to_owned), ..http::Config::default() };
    // The error names the directory and the remedy.
    let http =
        http::Http::new(config).map_err(|error| Failure::misuse(format!("--root: {error}")))?;
    Ok(Served::new(http::ENTRY.name, Needs::default(), move |stream| {
        let http = http.clone();
        async move { http.serve(stream).await }
    }))
}
