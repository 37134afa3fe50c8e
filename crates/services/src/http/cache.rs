//! Small files kept in memory, shared by all connections of a process.
//!
//! ```text
//!   pages:  | a | b | c | d | e |      a circle; an entry is marked when it is used
//!                     ^ hand           to make room, the hand goes round: it takes the mark
//!                                      off an entry that has one, and evicts one that has not
//! ```
//!
//! This is CLOCK (Corbató, 1968): it evicts nearly as well as least-recently-used, without a list
//! to reorder at every use. The lock is held for a look-up, and never during a wait.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use duality_runtime::fs::Metadata;

use super::page::Page;

/// A bounded map from paths to pages.
pub(super) struct Cache {
    circle: Mutex<Circle>,
    /// The most bytes of all entries together.
    limit: usize,
}

/// What the cache knows of a path.
pub(super) enum Known {
    /// The page, which was compared with the file in this second.
    Current(Arc<Page>),
    /// The page, and the file's metadata when it was read. The caller must check whether the file
    /// has changed. Meanwhile other callers get the page as current.
    ToCheck(Arc<Page>, Metadata),
    Nothing,
}

#[derive(Default)]
struct Circle {
    places: HashMap<Arc<str>, usize>,
    entries: Vec<Entry>,
    hand: usize,
    footprint: usize,
}

struct Entry {
    path: Arc<str>,
    page: Arc<Page>,
    metadata: Metadata,
    /// The second in which the file was last checked.
    checked: u64,
    used: bool,
}

impl Entry {
    /// The bytes of the entry: the page, the path, and about the map's share for them.
    fn footprint(&self) -> usize {
        self.page.footprint() + self.path.len() + size_of::<Entry>() + 64
    }
}

impl Cache {
    /// An empty cache for `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Cache { circle: Mutex::default(), limit }
    }

    /// Looks a path up, in the second `now`.
    pub(super) fn look_up(&self, path: &str, now: u64) -> Known {
        let mut circle = self.lock();
        let Some(&place) = circle.places.get(path) else {
            return Known::Nothing;
        };
        let entry = &mut circle.entries[place];
        entry.used = true;
        if entry.checked == now {
            return Known::Current(Arc::clone(&entry.page));
        }
        entry.checked = now;
        Known::ToCheck(Arc::clone(&entry.page), entry.metadata)
    }

    /// Keeps a page that was read in the second `now`, evicting others to make room.
    pub(super) fn insert(&self, path: &str, page: &Arc<Page>, metadata: Metadata, now: u64) {
        let (path, page) = (Arc::from(path), Arc::clone(page));
        let entry = Entry { path, page, metadata, checked: now, used: false };
        let needed = entry.footprint();
        let mut circle = self.lock();
        circle.remove(&entry.path);
        if needed > self.limit {
            return;
        }
        while circle.footprint + needed > self.limit {
            circle.evict_one();
        }
        circle.push(entry);
    }

    /// Forgets a path.
    pub(super) fn remove(&self, path: &str) {
        self.lock().remove(path);
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        *self.lock() = Circle::default();
    }

    /// No code below can panic half-way, so the data under a poisoned lock are sound.
    fn lock(&self) -> MutexGuard<'_, Circle> {
        self.circle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Circle {
    fn push(&mut self, entry: Entry) {
        self.footprint += entry.footprint();
        self.places.insert(Arc::clone(&entry.path), self.entries.len());
        self.entries.push(entry);
    }

    fn remove(&mut self, path: &str) {
        if let Some(&place) = self.places.get(path) {
            self.remove_at(place);
        }
    }

    fn remove_at(&mut self, place: usize) {
        let entry = self.entries.swap_remove(place);
        self.footprint -= entry.footprint();
        self.places.remove(&entry.path);
        if let Some(moved) = self.entries.get(place) {
            self.places.insert(Arc::clone(&moved.path), place);
        }
    }

    fn evict_one(&mut self) {
        loop {
            if self.hand >= self.entries.len() {
                self.hand = 0;
            }
            let Some(entry) = self.entries.get_mut(self.hand) else {
                return;
            };
            if !entry.used {
                self.remove_at(self.hand);
                return;
            }
            entry.used = false;
            self.hand += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{borrow::Cow, time::UNIX_EPOCH};

    use duality_runtime::fs::Kind;
    use proptest::prelude::*;

    use super::{super::page::Content, *};

    const METADATA: Metadata =
        Metadata { kind: Kind::File, length: 1000, modified: UNIX_EPOCH, inode: 1, device: 1 };

    fn page(length: usize) -> Arc<Page> {
        let content = Content::Memory(Cow::Owned(vec![0; length]));
        Arc::new(Page::new(String::new(), String::new(), 0, length as u64, content))
    }

    #[test]
    fn a_page_is_checked_once_a_second() {
        let cache = Cache::new(1 << 20);
        assert!(matches!(cache.look_up("a", 1), Known::Nothing));
        cache.insert("a", &page(10), METADATA, 1);
        assert!(matches!(cache.look_up("a", 1), Known::Current(_)));
        assert!(matches!(cache.look_up("a", 2), Known::ToCheck(_, METADATA)));
        assert!(matches!(cache.look_up("a", 2), Known::Current(_)));
        // If the clock is set back, the page must be checked too.
        assert!(matches!(cache.look_up("a", 1), Known::ToCheck(..)));
        cache.remove("a");
        assert!(matches!(cache.look_up("a", 2), Known::Nothing));
    }

    #[test]
    fn what_is_used_stays_and_what_is_not_goes() {
        let cache = Cache::new(12_000);
        cache.insert("used", &page(1000), METADATA, 0);
        for number in 0..100 {
            assert!(matches!(cache.look_up("used", 0), Known::Current(_)), "{number}");
            cache.insert(&number.to_string(), &page(1000), METADATA, 0);
        }
        assert!(matches!(cache.look_up("0", 0), Known::Nothing));
        assert!(matches!(cache.look_up("99", 0), Known::Current(_)));
    }

    #[test]
    fn a_page_larger_than_the_cache_is_not_kept() {
        let cache = Cache::new(5000);
        cache.insert("a", &page(1000), METADATA, 0);
        cache.insert("b", &page(5000), METADATA, 0);
        assert!(matches!(cache.look_up("a", 0), Known::Current(_)));
        assert!(matches!(cache.look_up("b", 0), Known::Nothing));
    }

    proptest! {
        #[test]
        fn the_books_balance(
            steps in prop::collection::vec((0..20u8, 0..3000usize, 0..3u8), 0..200),
        ) {
            let cache = Cache::new(10_000);
            for (name, length, action) in steps {
                let name = name.to_string();
                match action {
                    0 => cache.insert(&name, &page(length), METADATA, 0),
                    1 => cache.remove(&name),
                    _ => drop(cache.look_up(&name, 0)),
                }
                let circle = cache.lock();
                let sum: usize = circle.entries.iter().map(Entry::footprint).sum();
                prop_assert_eq!(sum, circle.footprint);
                prop_assert!(sum <= 10_000);
                prop_assert_eq!(circle.places.len(), circle.entries.len());
                for (place, entry) in circle.entries.iter().enumerate() {
                    prop_assert_eq!(circle.places.get(&entry.path), Some(&place));
                }
            }
        }
    }
}
