//! The application under the architectures of ours.

use std::io;

use duality_architectures::Handler;

use crate::form::Form;

pub(crate) fn handler(form: Form) -> Handler {
    Handler::new(move |_stream| {
        let _form = form.clone();
        async { Err(io::Error::other("not served under the architectures of ours yet")) }
    })
}
