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

use duality_architectures::Handler;
use tokio::sync::OnceCell;

use crate::beside::Beside;
use crate::form::Form;
use crate::refusal;

/// The handler of the application's connections.
pub(crate) fn handler(form: Form) -> Handler {
    let instance = Arc::new(OnceCell::new());
    let serve = move |stream| {
        let (form, instance) = (form.clone(), instance.clone());
        let serving = async move {
            let instance = instance.get_or_try_init(|| form.instance()).await?;
            instance.serve_on_ours(stream).await
        };
        Beside::new(serving)
    };
    Handler::new(serve).refusing(refusal::send_on_ours)
}
