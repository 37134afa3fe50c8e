//! The order in which a work pool's blocks are taken.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};

use duality_runtime::blocks::Block;

/// The properties of a block that an order looks at.
pub(super) trait Queued: Send {
    /// The connection of the block.
    fn connection(&self) -> u64;
    /// The priority: a greater number is more urgent.
    fn priority(&self) -> u32;
    /// Whether this block begins a request.
    fn begins(&self) -> bool;
}

impl Queued for Block {
    fn connection(&self) -> u64 {
        Self::connection(self)
    }

    fn priority(&self) -> u32 {
        Self::priority(self)
    }

    fn begins(&self) -> bool {
        Self::begins(self)
    }
}

/// An order of blocks that wait.
pub(super) trait Order<T>: Send {
    /// Adds a block.
    fn put(&mut self, block: T);

    /// Takes the next block. The asking worker has just run a block of the connection `last`. If
    /// that block has a successor, the successor is in the queue.
    fn next(&mut self, last: Option<u64>) -> Option<T>;
}

/// First in, first out: Truppel & Abreu's queue.
pub(super) struct Fifo<T>(VecDeque<T>);

impl<T> Default for Fifo<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T: Queued> Order<T> for Fifo<T> {
    fn put(&mut self, block: T) {
        self.0.push_back(block);
    }

    fn next(&mut self, _: Option<u64>) -> Option<T> {
        self.0.pop_front()
    }
}

/// The most urgent block first. Blocks of equal priority keep their order.
pub(super) struct ByPriority<T> {
    heap: BinaryHeap<Ranked<T>>,
    put: u64,
}

struct Ranked<T> {
    priority: u32,
    number: u64,
    block: T,
}

impl<T> Ranked<T> {
    /// The heap returns the greatest item: the highest priority, and within it the lowest number.
    fn rank(&self) -> (u32, std::cmp::Reverse<u64>) {
        (self.priority, std::cmp::Reverse(self.number))
    }
}

impl<T> PartialEq for Ranked<T> {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl<T> Eq for Ranked<T> {}

impl<T> PartialOrd for Ranked<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Ranked<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl<T> Default for ByPriority<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), put: 0 }
    }
}

impl<T: Queued> Order<T> for ByPriority<T> {
    fn put(&mut self, block: T) {
        self.heap.push(Ranked { priority: block.priority(), number: self.put, block });
        self.put += 1;
    }

    fn next(&mut self, _: Option<u64>) -> Option<T> {
        self.heap.pop().map(|ranked| ranked.block)
    }
}

/// A FIFO for each connection; all connections share the workers. One worker at a time has a
/// connection. The worker keeps the connection until the FIFO is empty or the next request begins.
/// So the blocks of a connection never overlap and never overtake each other. The worker that began
/// a request finishes it with a warm cache.
pub(super) struct Serial<T> {
    /// The waiting blocks of each connection that has any.
    waiting: HashMap<u64, VecDeque<T>>,
    /// The connections that a worker has.
    held: HashSet<u64>,
    /// Connections that have waiting blocks and no worker.
    ready: VecDeque<u64>,
}

impl<T> Default for Serial<T> {
    fn default() -> Self {
        Self { waiting: HashMap::new(), held: HashSet::new(), ready: VecDeque::new() }
    }
}

impl<T: Queued> Serial<T> {
    fn take_of(&mut self, connection: u64) -> Option<T> {
        let fifo = self.waiting.get_mut(&connection)?;
        let block = fifo.pop_front();
        if fifo.is_empty() {
            self.waiting.remove(&connection);
        }
        block
    }
}

impl<T: Queued> Order<T> for Serial<T> {
    fn put(&mut self, block: T) {
        let connection = block.connection();
        let fifo = self.waiting.entry(connection).or_default();
        fifo.push_back(block);
        if fifo.len() == 1 && !self.held.contains(&connection) {
            self.ready.push_back(connection);
        }
    }

    fn next(&mut self, last: Option<u64>) -> Option<T> {
        if let Some(last) = last {
            match self.waiting.get(&last).and_then(VecDeque::front) {
                Some(block) if !block.begins() => return self.take_of(last),
                Some(_) => self.ready.push_back(last),
                None => {}
            }
            self.held.remove(&last);
        }
        let connection = self.ready.pop_front()?;
        self.held.insert(connection);
        self.take_of(connection)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Item {
        connection: u64,
        /// The block's number within its connection.
        number: u32,
        priority: u32,
    }

    impl Queued for Item {
        fn connection(&self) -> u64 {
            self.connection
        }

        fn priority(&self) -> u32 {
            self.priority
        }

        fn begins(&self) -> bool {
            self.priority == 0
        }
    }

    fn item(connection: u64, number: u32, priority: u32) -> Item {
        Item { connection, number, priority }
    }

    #[test]
    fn the_most_urgent_comes_first_and_of_equals_the_first_come() {
        let mut order = ByPriority::default();
        for (connection, priority) in [(0, 1), (1, 0), (2, 3), (3, 1), (4, 0)] {
            order.put(item(connection, 0, priority));
        }
        let taken = std::iter::from_fn(|| order.next(None));
        assert_eq!(taken.map(|item| item.connection).collect::<Vec<_>>(), [2, 0, 3, 1, 4]);
    }

    /// A worker stays with a connection until its next request begins. The next request waits
    /// behind other connections.
    #[test]
    fn a_worker_finishes_what_it_has_started_and_then_lets_others_come() {
        let mut order = Serial::default();
        order.put(item(1, 0, 0));
        order.put(item(2, 0, 0));
        assert_eq!(order.next(None), Some(item(1, 0, 0)));
        order.put(item(1, 1, 1));
        assert_eq!(order.next(Some(1)), Some(item(1, 1, 1)));
        order.put(item(1, 2, 0));
        assert_eq!(order.next(Some(1)), Some(item(2, 0, 0)));
        assert_eq!(order.next(Some(2)), Some(item(1, 2, 0)));
        assert_eq!(order.next(Some(1)), None);
        assert!(order.held.is_empty() && order.waiting.is_empty());
    }

    /// What happens to an order: a block is added, or the worker of this number asks for the next
    /// block.
    #[derive(Clone, Debug)]
    enum Step {
        Put(u64, u32),
        Ask(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let put =
            (0..4u64, 0..3u32).prop_map(|(connection, priority)| Step::Put(connection, priority));
        prop::collection::vec(prop_oneof![put, (0..3usize).prop_map(Step::Ask)], 0..200)
    }

    proptest! {
        #[test]
        fn blocks_of_a_connection_never_overlap_and_never_overtake_each_other(steps in steps()) {
            let mut order = Serial::default();
            let (mut put, mut taken) = ([0u32; 4], [0u32; 4]);
            let mut has: [Option<u64>; 3] = [None; 3];
            let end = (0..3).cycle().take(2000).map(Step::Ask);
            for step in steps.into_iter().chain(end) {
                match step {
                    Step::Put(connection, priority) => {
                        let number = &mut put[connection as usize];
                        order.put(item(connection, *number, priority));
                        *number += 1;
                    }
                    Step::Ask(worker) => {
                        let last = has[worker].take();
                        let next = order.next(last);
                        if let Some(item) = &next {
                            prop_assert!(!has.contains(&Some(item.connection)), "it overlaps");
                            prop_assert_eq!(item.number, taken[item.connection as usize]);
                            taken[item.connection as usize] += 1;
                        }
                        has[worker] = next.map(|item| item.connection);
                    }
                }
            }
            prop_assert_eq!(put, taken, "all that was put came out");
        }

        #[test]
        fn what_is_put_comes_out_once(steps in steps()) {
            let orders: [Box<dyn Order<Item>>; 2] =
                [Box::<Fifo<Item>>::default(), Box::<ByPriority<Item>>::default()];
            for mut order in orders {
                let (mut inside, mut number) = (Vec::new(), 0);
                for step in &steps {
                    match step {
                        Step::Put(connection, priority) => {
                            let item = item(*connection, number, *priority);
                            inside.push(item.clone());
                            order.put(item);
                            number += 1;
                        }
                        Step::Ask(_) => {
                            let next = order.next(None);
                            prop_assert_eq!(next.is_none(), inside.is_empty());
                            inside.retain(|item| Some(item) != next.as_ref());
                        }
                    }
                }
                while let Some(item) = order.next(None) {
                    inside.retain(|other| *other != item);
                }
                prop_assert!(inside.is_empty());
            }
        }
    }
}
