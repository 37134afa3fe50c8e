//! Which subjects run on a runtime that is not ours, and what cannot be told of it here.

use std::collections::BTreeMap;

use crate::format::listed;
use crate::record::{Design, Part};

/// Work stealing can show from so many of the server's processors on: with fewer, kernel threads
/// have hardly anything to take from each other.
const STEALING_SHOWS: usize = 4;

/// Which subjects a foreign runtime carries, and which have it beside them. Then whether work
/// stealing could be ranked.
pub(super) fn sentences(design: &Design) -> Vec<String> {
    let mut carried: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut beside: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let (mut steals, mut stays) = (false, false);
    for subject in design.subjects() {
        let Some(foreign) = design.carrier(subject).and_then(|carrier| carrier.foreign.as_ref())
        else {
            continue;
        };
        steals |= foreign.part == Part::Steals;
        stays |= foreign.part == Part::Carries;
        let all = if foreign.part == Part::Beside { &mut beside } else { &mut carried };
        all.entry(&foreign.runtime).or_default().push(subject);
    }
    let mut sentences = Vec::new();
    for (runtime, subjects) in carried {
        sentences.push(format!("On {runtime}'s reactor: {}.", listed(&subjects)));
    }
    for (runtime, subjects) in beside {
        sentences.push(format!("On our worlds, beside {runtime}: {}.", listed(&subjects)));
    }
    let processors = design.server_cpus.len();
    if steals && stays && (1..STEALING_SHOWS).contains(&processors) {
        let these = if processors == 1 { "processor" } else { "processors" };
        sentences.push(format!(
            "Work stealing cannot be ranked with {processors} {these} for the server: its effect \
             shows from {STEALING_SHOWS} on, with connections that differ."
        ));
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::design::tests::design;
    use crate::record::{Carrier, Foreign};

    #[test]
    fn members_are_told_by_the_runtime_that_carries_them() {
        let mut design = design();
        assert_eq!(sentences(&design), Vec::<String>::new());
        let part_of =
            [("epoll", Part::Beside), ("multi", Part::Steals), ("per-core", Part::Carries)];
        design.architectures = part_of.map(|(name, _)| name.to_owned()).to_vec();
        for (name, part) in part_of {
            let mut carrier = Carrier::in_older_results("epoll", &[]).unwrap();
            carrier.foreign = Some(Foreign { runtime: "tokio".to_owned(), part });
            design.carriers.insert(name.to_owned(), carrier);
        }
        design.server_cpus = vec![0];
        assert_eq!(
            sentences(&design),
            [
                "On tokio's reactor: multi and per-core.",
                "On our worlds, beside tokio: epoll.",
                "Work stealing cannot be ranked with 1 processor for the server: its effect shows from 4 on, \
             with connections that differ.",
            ]
        );
        design.server_cpus = vec![0, 1, 2, 3];
        assert_eq!(sentences(&design).len(), 2);
    }
}
