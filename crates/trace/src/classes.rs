//! The classes of a trace while it is made: each kind of request has a number.

use std::collections::HashMap;

use crate::size;
use crate::trace::{Class, Method};

/// The largest number of classes; a step's class is a `u16`.
const MOST: usize = 1 << 16;
/// The largest number of classes with a path. Classes without a path always find room.
const MOST_WITH_PATH: usize = 50_000;
/// The largest size of all paths together, in bytes: a head stays within its bound.
const MOST_PATH_BYTES: usize = 8 << 20;
/// The longest path that is kept, in bytes.
const LONGEST_PATH: usize = 2000;

/// The key of a class while a trace is made.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    method: Method,
    request: u64,
    reply: u64,
    status: u8,
    /// An index into the paths, from 1; 0 without a path.
    path: u32,
}

/// The classes so far.
pub(crate) struct Classes {
    /// Whether paths are kept.
    keeps_paths: bool,
    /// The size that larger replies count as.
    max_size: u64,
    numbers: HashMap<Key, u16>,
    paths: HashMap<String, u32>,
    path_bytes: usize,
    list: Vec<Class>,
    /// Requests so far.
    pub(crate) requests: u64,
    /// Replies that were larger than `max_size`.
    pub(crate) capped: u64,
    /// Requests with a path that found no room.
    pub(crate) pathless: u64,
}

impl Classes {
    pub(crate) fn new(keeps_paths: bool, max_size: u64) -> Self {
        Self {
            keeps_paths,
            max_size,
            numbers: HashMap::new(),
            paths: HashMap::new(),
            path_bytes: 0,
            list: Vec::new(),
            requests: 0,
            capped: 0,
            pathless: 0,
        }
    }

    /// The class of a request of `request` bytes for `path`, which is empty where it is not known,
    /// and its reply of `reply` bytes.
    pub(crate) fn of(
        &mut self,
        method: Method,
        path: &str,
        status: u16,
        [request, reply]: [u64; 2],
    ) -> u16 {
        self.requests += 1;
        if reply > self.max_size {
            self.capped += 1;
        }
        let mut key = Key {
            method,
            request: size::quantised(request.min(self.max_size)),
            reply: size::quantised(reply.min(self.max_size)),
            status: u8::try_from(status / 100).ok().filter(|digit| *digit <= 5).unwrap_or(0),
            path: if self.keeps_paths { self.path(path) } else { 0 },
        };
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        if key.path > 0 && self.list.len() >= MOST_WITH_PATH {
            self.pathless += 1;
            key.path = 0;
            if let Some(number) = self.numbers.get(&key) {
                return *number;
            }
        }
        if self.list.len() == MOST {
            // Sizes come in a few hundred steps, so only an odd capture gets here.
            return u16::MAX;
        }
        let number = self.list.len() as u16;
        let path = (key.path > 0).then(|| path.to_owned());
        let Key { method, request, reply, status, .. } = key;
        self.list.push(Class { method, request, reply, status, count: 0, path });
        self.numbers.insert(key, number);
        number
    }

    /// All classes, by their numbers. Nothing is counted yet.
    pub(crate) fn into_list(self) -> Vec<Class> {
        self.list
    }

    /// The number of a path, or 0 if there is no room for it.
    fn path(&mut self, path: &str) -> u32 {
        if let Some(number) = self.paths.get(path) {
            return *number;
        }
        let bytes = self.path_bytes + path.len();
        if path.is_empty() {
            return 0;
        }
        if path.len() > LONGEST_PATH || bytes > MOST_PATH_BYTES {
            self.pathless += 1;
            return 0;
        }
        self.path_bytes = bytes;
        let number = self.paths.len() as u32 + 1;
        self.paths.insert(path.to_owned(), number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_paths_only_on_request() {
        for keeps in [false, true] {
            let mut classes = Classes::new(keeps, 1 << 20);
            let get = |path| (Method::Get, path, 200, [0, 1000]);
            let numbers = ["/a", "/b", "/a"].map(|path| {
                let (method, path, status, sizes) = get(path);
                classes.of(method, path, status, sizes)
            });
            assert_eq!(numbers, if keeps { [0, 1, 0] } else { [0, 0, 0] });
            let list = classes.into_list();
            assert_eq!(list[0].path.as_deref(), keeps.then_some("/a"));
            assert_eq!((list[0].reply, list[0].status), (1024, 2));
        }
    }

    #[test]
    fn without_room_there_are_no_further_classes() {
        let mut classes = Classes::new(true, 1 << 20);
        for number in 0..80_000u64 {
            let class = classes.of(Method::Get, &format!("/{number}"), 200, [0, 10]);
            assert_eq!(class as usize, (number as usize).min(MOST_WITH_PATH));
        }
        assert_eq!(classes.pathless, 30_000);
        let mut classes = Classes::new(true, 1 << 20);
        assert_eq!(classes.of(Method::Get, &"x".repeat(3000), 200, [0, 2 << 20]), 0);
        assert_eq!((classes.pathless, classes.capped), (1, 1));
        assert_eq!(classes.into_list()[0].reply, 1 << 20);
    }
}
