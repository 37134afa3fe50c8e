//! The form of an application that architectures run. A form makes an instance for each runtime.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::OnceCell;

use crate::client::ClientInfo;
use crate::failure::in_full;
use crate::instance::Instance;
use crate::socket::Security;

type Making = Pin<Box<dyn Future<Output = io::Result<Instance>> + Send>>;

/// See the [module](self). A clone stands for the same application.
#[derive(Clone)]
pub(crate) struct Form {
    make: Arc<dyn Fn() -> Making + Send + Sync>,
    is_made_once: bool,
    security: Security,
    client_info: ClientInfo,
}

impl Form {
    /// Makes the form of the application that `factory` makes. `instance` turns that application
    /// into an [`Instance`].
    pub(crate) fn new<F, M, A, E>(factory: F, instance: fn(A) -> Instance) -> Self
    where
        F: Fn() -> M + Send + Sync + 'static,
        M: Future<Output = Result<A, E>> + Send + 'static,
        A: 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let make = Arc::new(move || -> Making {
            let made = factory();
            Box::pin(async move { made.await.map(instance).map_err(cannot_be_made) })
        });
        let (security, client_info) = Default::default();
        Self { make, is_made_once: false, security, client_info }
    }

    /// The same application, made once for all runtimes of a process.
    pub(crate) fn made_once(self) -> Self {
        let (all, made) = (self.make, Arc::new(OnceCell::new()));
        let make = Arc::new(move || -> Making {
            let (all, made) = (all.clone(), made.clone());
            Box::pin(async move { made.get_or_try_init(|| all()).await.cloned() })
        });
        Self { make, is_made_once: true, ..self }
    }

    /// Makes the application if it is made once, so that what it spawns runs on the runtime that
    /// this function is called on.
    ///
    /// # Errors
    ///
    /// Returns the application's own errors.
    pub(crate) async fn make_if_once(&self) -> io::Result<()> {
        if self.is_made_once {
            (self.make)().await?;
        }
        Ok(())
    }

    /// The same application, served by TLS on tokio's layouts.
    #[cfg(feature = "rustls")]
    pub(crate) fn secured(self, security: Security) -> Self {
        Self { security, ..self }
    }

    /// The same application, which knows its clients.
    pub(crate) fn with_client_info(self, client_info: ClientInfo) -> Self {
        Self { client_info, ..self }
    }

    /// Makes an instance for the runtime that this function is called on.
    ///
    /// # Errors
    ///
    /// Returns the application's own errors.
    pub(crate) fn instance(&self) -> impl Future<Output = io::Result<Instance>> + Send + use<> {
        let Self { security, client_info, .. } = self.clone();
        let making = (self.make)();
        async move { Ok(making.await?.secured(security).with_client_info(client_info)) }
    }
}

impl fmt::Debug for Form {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Form").finish_non_exhaustive()
    }
}

fn cannot_be_made<E: Into<Box<dyn Error + Send + Sync>>>(error: E) -> io::Error {
    io::Error::other(format!("the application cannot be made: {}", in_full(&*error.into())))
}
