//! turmoil's example axum: an application, and a client of its own.

use std::io;

use axum::Router;
use axum::extract::Path;
use axum::routing::get;
use tokio::net::TcpListener;

use super::{SECOND, legal};

async fn greet() -> io::Result<()> {
    let router = Router::new().route(
        "/greet/{name}",
        get(|Path(name): Path<String>| async move { format!("Hello {name}!") }),
    );
    axum::serve(TcpListener::bind("0.0.0.0:9999").await?, router).await
}

#[test]
fn greets() {
    legal().run(|net| async move {
        net.host("server", greet);
        let client = net.client("client", || async {
            tokio::time::sleep(SECOND).await;
            let response = reqwest::get("http://server:9999/greet/foo").await?;
            assert_eq!(response.text().await?, "Hello foo!");
            reqwest::Result::Ok(())
        });
        client.ended().await
    });
}
