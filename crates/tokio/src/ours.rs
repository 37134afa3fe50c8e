//! The application under our own architectures.
//!
//! ```text
//!   architecture of ours ─▶ Beside ─ enters tokio, once a thread ─▶ hyper ─▶ our stream
//!                                                                     └─▶ the application
//! ```
//!
//! Sockets of clients wait in our worlds. The application's own timers, spawned tasks and outgoing
//! connections run on a runtime of tokio [beside](crate::beside) our worlds.
//!
//! Hyper waits for its client and for the application at the same time. One task gathers both
//! waits, so hyper needs only one waiting task, and every architecture can carry it. User-level
//! threads gain nothing here: each wait of hyper goes back to the bottom of the stack.

use std::sync::Arc;

use duality_architectures::{Handler, Needs, Served};
use tokio::sync::OnceCell;

use crate::beside::{self, Beside};
use crate::form::Form;
use crate::refusal;

/// The application, with a handler of its connections. A process makes one instance, before it
/// serves. A child process makes its instance for its first connection, since no runtime survives
/// fork(2).
pub(crate) fn served(name: &str, needs: Needs, form: Form) -> Served {
    let instance = Arc::new(OnceCell::new());
    let (own_form, own) = (form.clone(), instance.clone());
    let prepare = move || {
        beside::block_on(async { own.get_or_try_init(|| own_form.instance()).await.map(drop) })?
    };
    let serve = move |stream| {
        let (form, instance) = (form.clone(), instance.clone());
        let serving = async move {
            let instance = instance.get_or_try_init(|| form.instance()).await?;
            instance.serve_on_ours(stream).await
        };
        Beside::new(serving)
    };
    let handler = Handler::new(serve).refusing(refusal::send_on_ours);
    Served::new(name, needs, handler).prepared_by(prepare)
}
