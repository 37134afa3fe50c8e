//! Names the crates of tokio's ecosystem that compile against tokio-patch, so that `cargo check`
//! compiles each of them.

pub use {
    axum, h2, hyper, hyper_util, redis, reqwest, sqlx, tokio, tokio_rustls, tokio_stream,
    tokio_tungstenite, tokio_util, tonic, tower, tower_http,
};
