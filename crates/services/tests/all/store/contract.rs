//! Tests the promises of every store.

use std::collections::HashSet;

use duality_runtime::task;
use duality_services::store::{Location, Options, Remark, Store, Visit};

use super::worlds::World;

pub(crate) fn remark(guest: &str, text: &str) -> Remark {
    Remark { guest: guest.into(), text: text.into() }
}

/// A read returns the written data, also from another store at the same place.
pub(crate) fn what_is_kept_is_found(world: World, location: &Location) {
    let [first, again] = [(); 2].map(|()| Store::new(location, Options::default()).unwrap());
    world.run(async move {
        assert_eq!(first.visit(10).await.unwrap(), Visit { visitors: 1, remarks: vec![] });
        let (older, newer) = (remark("Zoë", "it's\n\"fine\"\0; -- ✓"), remark("", ""));
        first.add_remark(&older).await.unwrap();
        first.add_remark(&newer).await.unwrap();
        let remarks = vec![newer.clone()];
        assert_eq!(first.visit(1).await.unwrap(), Visit { visitors: 2, remarks });
        let visit = first.visit(usize::MAX).await.unwrap();
        assert_eq!(visit, Visit { visitors: 3, remarks: vec![newer, older] });

        assert_eq!(first.find_entry("ann").await.unwrap(), None);
        first.add_entry("ann", "1").await.unwrap();
        first.add_entry("ann", "+44 2").await.unwrap();
        assert_eq!(first.find_entry("ann").await.unwrap().as_deref(), Some("+44 2"));
        assert_eq!(first.find_entry("Ann").await.unwrap(), None);
    });
    world.run(async move {
        assert_eq!(again.visit(0).await.unwrap(), Visit { visitors: 4, remarks: vec![] });
        assert_eq!(again.find_entry("ann").await.unwrap().as_deref(), Some("+44 2"));
    });
}

/// Tasks that run at the same time get different numbers, and none of their writes is lost.
pub(crate) fn tasks_count_together(world: World, location: &Location) {
    const TASKS: u64 = 40;
    const VISITS: u64 = 5;
    let store = Store::new(location, Options::default()).unwrap();
    world.run(async move {
        let tasks: Vec<_> = (0..TASKS)
            .map(|number| {
                let store = store.clone();
                task::spawn(async move {
                    let mut seen = vec![];
                    for _ in 0..VISITS {
                        seen.push(store.visit(3).await.unwrap().visitors);
                        store.add_entry(&number.to_string(), "7").await.unwrap();
                    }
                    seen
                })
                .unwrap()
            })
            .collect();
        let mut seen = HashSet::new();
        for task in tasks {
            seen.extend(task.await.unwrap());
        }
        // Every visitor has a different number.
        assert_eq!(seen, (1..=TASKS * VISITS).collect());
        for number in 0..TASKS {
            assert!(store.find_entry(&number.to_string()).await.unwrap().is_some());
        }
    });
}
