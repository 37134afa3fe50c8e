//! The table of costs: names, groups, and the errors for unknown names.

use duality_costs::{ALL, measure};

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
