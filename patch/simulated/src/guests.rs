//! A guestbook by axum, in SQLite. A remark that was acknowledged is durable.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::{signal, task};

/// A remark of a guest.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Remark {
    /// The guest's name.
    pub name: String,
    /// What the guest has to say.
    pub text: String,
}

type Book = Arc<Mutex<Connection>>;
type Refusal = (StatusCode, String);

/// Serves the book that is in a folder, until ctrl-c.
///
/// # Errors
///
/// If the book cannot be opened, or the port is taken.
pub async fn run(folder: &Path) -> io::Result<()> {
    let book = open(&folder.join("book.db")).map_err(io::Error::other)?;
    let app = Router::new()
        .route("/remarks", get(read).post(write))
        .with_state(Arc::new(Mutex::new(book)));
    let listener = TcpListener::bind("0.0.0.0:80").await?;
    let ends = async { _ = signal::ctrl_c().await };
    axum::serve(listener, app).with_graceful_shutdown(ends).await
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let book = Connection::open(path)?;
    // Through all rows: the change may fail after the first one. In the mode before, a crash may
    // undo the last commit, since the removal of the journal is not synced.
    let mut change = book.prepare("PRAGMA journal_mode = WAL")?;
    change.query_map((), |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    drop(change);
    book.pragma_update(None, "synchronous", "FULL")?;
    book.execute("CREATE TABLE IF NOT EXISTS remarks (name TEXT, text TEXT)", ())?;
    Ok(book)
}

async fn read(book: State<Book>) -> Result<Json<Vec<Remark>>, Refusal> {
    in_book(book, |book| {
        let mut query = book.prepare_cached("SELECT name, text FROM remarks ORDER BY rowid")?;
        let remarks =
            query.query_map((), |row| Ok(Remark { name: row.get(0)?, text: row.get(1)? }))?;
        Ok(Json(remarks.collect::<Result<_, _>>()?))
    })
    .await
}

async fn write(book: State<Book>, Json(remark): Json<Remark>) -> Result<StatusCode, Refusal> {
    in_book(book, move |book| {
        book.execute("INSERT INTO remarks VALUES (?1, ?2)", (remark.name, remark.text))?;
        Ok(StatusCode::CREATED)
    })
    .await
}

/// SQLite blocks, so its calls run apart from the tasks.
async fn in_book<T: Send + 'static>(
    State(book): State<Book>,
    operation: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
) -> Result<T, Refusal> {
    let done = task::spawn_blocking(move || {
        operation(&book.lock().unwrap_or_else(PoisonError::into_inner))
    });
    let done = done.await.map_err(|error| refusal(&error))?;
    done.map_err(|error| refusal(&error))
}

fn refusal(error: &dyn std::error::Error) -> Refusal {
    (StatusCode::SERVICE_UNAVAILABLE, error.to_string())
}
