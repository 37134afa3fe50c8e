//! The chat server of tokio-tungstenite's examples.

use std::collections::HashSet;

use duality_simulate::{Net, Waits};
use duality_tokio_patch_simulated::chat;
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::trouble::{Trouble, ask_often, broken, check, few, tell, trouble};

/// A member of the chat, and the lines that it has heard.
struct Member {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    heard: HashSet<String>,
}

impl Member {
    async fn join() -> Result<Self, Trouble> {
        let (socket, _) = connect_async("ws://server:80").await.map_err(broken)?;
        Ok(Self { socket, heard: HashSet::new() })
    }

    async fn say(&mut self, line: &str) -> Result<(), Trouble> {
        self.socket.send(Message::text(line)).await.map_err(broken)
    }

    /// Hears lines until this one comes. No line may come twice, nor one that it said itself.
    async fn hear(&mut self, line: &str, own: &str) -> Result<(), Trouble> {
        loop {
            let message = self.socket.next().await.ok_or(Trouble::Broken)?.map_err(broken)?;
            let heard = message.into_text().map_err(broken)?.to_string();
            check(heard != own, || format!("{own} comes back"))?;
            check(self.heard.insert(heard.clone()), || format!("{heard} comes twice"))?;
            if heard == line {
                return Ok(());
            }
        }
    }
}

/// Two members: each hears what the other one says.
async fn talk(net: Net, name: &'static str) -> Result<(), String> {
    let mut kept: Option<(Member, Member)> = None;
    ask_often(&net, async |number| {
        let (mut one, mut other) = match kept.take() {
            Some(kept) => kept,
            None => (Member::join().await?, Member::join().await?),
        };
        let question = format!("{name} asks {number}");
        let answer = format!("{name} answers {number}");
        // A member hears only lines that come after its server has noticed it.
        one.say(&question).await?;
        other.hear(&question, &answer).await?;
        other.say(&answer).await?;
        one.hear(&answer, &question).await?;
        kept = Some((one, other));
        Ok(())
    })
    .await
}

/// The example's `main` blocks, so it needs a stack. It panics where a handshake fails.
#[test]
fn the_chat_of_tokio_tungstenite() {
    let tally = few().waits(Waits::Park).run(|net| async move {
        let server = net.host_that_may_panic("server", || async { chat::run() });
        let clients = ["ann", "bob"].map(|name| {
            let inner = net.clone();
            net.client(name, move || talk(inner.clone(), name))
        });
        trouble(&net, &server, &clients).await
    });
    tell("tokio-tungstenite", &tally);
}
