//! Each measurement, briefly: that it comes to an end and gives a figure of its unit. How large the figure is decides no test.

use duality_costs::{ALL, Trouble, Unit, measure, subjects};

/// Few enough to take no time in any world, and no multiple of a number of tasks.
const COUNT: u64 = 99;

#[test]
fn every_cost_of_every_subject_is_a_time() {
    for cost in ALL.iter().filter(|cost| cost.unit == Unit::Nanoseconds) {
        for subject in subjects(cost) {
            let reading = match measure(subject, cost.name, COUNT) {
                Ok(reading) => reading,
                // 15,000 descriptors are not to be had everywhere, nor is a second processor or a ring.
                Err(Trouble::Unavailable(why))
                    if ["descriptors", "no other processor", "refuses uring"]
                        .iter()
                        .any(|lack| why.contains(lack)) =>
                {
                    continue;
                }
                Err(trouble) => panic!("{} of {subject}: {trouble}", cost.name),
            };
            let what = format!("{} of {subject}: {reading:?}", cost.name);
            assert_eq!(reading.unit, Unit::Nanoseconds, "{what}");
            assert!(reading.count >= COUNT && reading.total > 0, "{what}");
            assert!(reading.each().is_finite() && reading.each() > 0.0, "{what}");
        }
    }
}

#[test]
fn names_are_unique_and_groups_name_their_members() {
    for (index, cost) in ALL.iter().enumerate() {
        assert!(ALL[..index].iter().all(|other| other.name != cost.name), "{}", cost.name);
        assert!(cost.is_called(cost.name) && cost.is_called(cost.group()));
    }
    assert_eq!(ALL.iter().filter(|cost| cost.is_called("poller")).count(), 4);
    assert!(!ALL.iter().any(|cost| cost.is_called("poll") || cost.is_called("")));
}

#[test]
fn what_there_is_not_is_named() {
    let unknown = |subject: &str, cost: &str| measure(subject, cost, 1).unwrap_err().to_string();
    assert_eq!(unknown("park", "flight"), "there is no cost `flight`");
    assert_eq!(unknown("st", "switch"), "there is no subject `st` of switch");
    assert_eq!(unknown("park", "poller-50"), "there is no subject `park` of poller-50");
}
