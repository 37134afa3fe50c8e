//! The page that a connection got last, for clients that ask for one page repeatedly.

use std::sync::Arc;

use super::{
    page::Page,
    request::{Method, Request},
};

/// A cache of one page, for one connection.
///
/// A connection that repeats its request within a second does not use the shared cache. A look-up
/// there costs a lock and a reference count: atomic operations on memory that every core writes.
/// The shared cache would not check the file within that second either. An evicted page lives on in
/// the memos that hold it. Each connection holds at most one page, no longer than the limit on
/// cached files.
#[derive(Default)]
pub struct Memo {
    target: String,
    page: Option<Arc<Page>>,
    second: u64,
}

impl Memo {
    /// The page that a request asks for, if the memo holds it since the same second.
    #[inline]
    pub fn recall(&self, request: &Request<'_>, now: u64) -> Option<&Page> {
        let is_read = matches!(request.method, Method::Get | Method::Head);
        let same = is_read && self.second == now && self.target == request.target;
        self.page.as_deref().filter(|_| same)
    }

    /// The page that was kept last, for any target.
    pub fn page(&self) -> Option<&Page> {
        self.page.as_deref()
    }

    /// Keeps a page, and returns a reference to it.
    pub fn keep(&mut self, target: &str, page: Arc<Page>, now: u64) -> &Page {
        self.target.clear();
        self.target.push_str(target);
        self.second = now;
        self.page.insert(page)
    }

    /// Drops a page that is an open file. Otherwise an idle connection would hold two descriptors.
    pub fn release_file(&mut self) {
        self.page.take_if(|page| page.is_file());
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::{
        super::{
            page::Content,
            request::{Parsed, parse},
        },
        *,
    };

    #[test]
    fn only_the_last_page_is_recalled_and_only_within_its_second() {
        let content = Content::Memory(Cow::Borrowed(b""));
        let page = Arc::new(Page::new(String::new(), String::new(), 0, 0, content));
        let mut memo = Memo::default();
        let recalls = |memo: &Memo, method_and_target: &str, now| {
            let head = format!("{method_and_target} HTTP/1.1\r\nHost: x\r\n\r\n");
            let Parsed::Complete(request) = parse(head.as_bytes()) else { panic!("{head}") };
            memo.recall(&request, now).is_some()
        };
        assert!(!recalls(&memo, "GET /a", 0));
        memo.keep("/a", Arc::clone(&page), 5);
        assert!(recalls(&memo, "GET /a", 5) && recalls(&memo, "HEAD /a", 5));
        assert!(!recalls(&memo, "POST /a", 5));
        assert!(!recalls(&memo, "GET /a", 6));
        assert!(!recalls(&memo, "GET /b", 5));
        memo.release_file();
        assert!(recalls(&memo, "GET /a", 5));
        memo.keep("/b", page, 5);
        assert!(!recalls(&memo, "GET /a", 5));
    }
}
