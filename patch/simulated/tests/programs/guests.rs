//! A guestbook by axum with SQLite on the host's disk, and reqwest as its client.

use duality_simulate::Net;
use duality_tokio_patch_simulated::guests::{self, Remark};
use reqwest::{Client, StatusCode};

use crate::trouble::{Trouble, ask_often, broken, check, drained, few, tell, trouble};

const BOOK: &str = "http://server:80/remarks";

/// Leaves remarks. Each that was acknowledged is in the book for ever, once.
async fn visit(net: Net, name: &'static str) -> Result<(), String> {
    let client = Client::new();
    let mut kept = Vec::new();
    ask_often(&net, async |number| {
        let remark = Remark { name: name.to_owned(), text: format!("remark {number}") };
        let answer = client.post(BOOK).json(&remark).send().await.map_err(broken)?;
        let status = answer.status();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            return Err(Trouble::Broken);
        }
        check(status == StatusCode::CREATED, || format!("{status} for a remark"))?;
        kept.push(remark);
        let answer = client.get(BOOK).send().await.map_err(broken)?;
        let answer = answer.error_for_status().map_err(broken)?;
        let book: Vec<Remark> = answer.json().await.map_err(broken)?;
        let count = |remark: &Remark| book.iter().filter(|other| *other == remark).count();
        for remark in &kept {
            check(count(remark) == 1, || format!("{remark:?} is there {} times", count(remark)))?;
        }
        Ok(())
    })
    .await
}

async fn guests_in_trouble(net: Net) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = folder.path().to_owned();
    let server = net.host("server", move || {
        let path = path.clone();
        async move { guests::run(&path).await }
    });
    let keeps = server.keeps(folder.path()).map_err(|error| error.to_string())?;
    assert!(keeps, "duality-outside tells of syncs");
    let clients = ["ann", "bob"].map(|name| {
        let inner = net.clone();
        net.client(name, move || visit(inner.clone(), name))
    });
    trouble(&net, &server, &clients).await?;
    drained(&server).await
}

#[test]
fn an_axum_application_with_sqlite_and_reqwest() {
    let tally = few().in_both_waits().run(guests_in_trouble);
    assert!(tally.counts.synced > 0, "{}", tally.counts);
    tell("axum", &tally);
}
