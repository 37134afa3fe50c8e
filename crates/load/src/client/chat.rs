//! The service `chat`. Its clients are a pattern: `pattern/chat/`.

use std::sync::Arc;

use super::{Entry, Protocol};
use crate::announce::EdgeAnnouncer;
use crate::engine::{Engine, Loading};
use crate::pattern::chat;
use crate::{Options, Pattern};

/// The most lines that each member says at a time, if they fit.
const LINES: u32 = 100;

pub(crate) static ENTRY: Entry =
    Entry { is_across: true, ..Entry::plain("chat", |_| Arc::new(Chat { lines: LINES })) };

/// Talk in one room with all the other connections of the load. A request is the delivery of one
/// line to one member. The load has no end, or ends after a number of deliveries. If each of l
/// members says m lines, there are `l (l - 1) m` deliveries.
#[derive(Debug)]
pub(crate) struct Chat {
    /// The most lines of each member that are under way at a time. There are fewer if they would
    /// exceed 64 KiB for a member that has read no bytes.
    pub(crate) lines: u32,
}

impl Protocol for Chat {
    fn service(&self) -> &'static str {
        ENTRY.name
    }

    fn problem(&self) -> Option<String> {
        (self.lines == 0).then(|| "no lines: nothing would be said".to_owned())
    }

    fn misfit(&self, options: &Options) -> Option<&'static str> {
        if options.pattern != Pattern::Closed {
            Some(
                "the members of a chat talk in rounds of their own: only --pattern closed can load it",
            )
        } else if options.connections < 2 {
            Some("chat needs at least 2 connections, because no member hears its own lines")
        } else if !options.keep_alive {
            Some("chat needs connections that stay: leave out --close")
        } else {
            None
        }
    }

    fn has_independent_connections(&self) -> bool {
        false
    }

    fn asks_one_by_one(&self) -> bool {
        false
    }

    fn load<'a>(&'a self, engine: &'a Engine, edges: EdgeAnnouncer) -> Loading<'a> {
        Box::pin(chat::load(engine, self.lines, edges))
    }
}
