//! The remedy for a missing item: the table "What is missing" of docs/tokio-patch.md.

const PAGE: &str = include_str!("../../../docs/tokio-patch.md");
const HEADING: &str = "## What is missing";

/// What the page says to use instead of an item. `None` if the page does not name the item.
///
/// `path` is the item, with the module or type that lacks it, such as `tokio::time::pause`.
pub(crate) fn remedy(path: &str) -> Option<String> {
    let mut segments = path.rsplit("::");
    // A whole type may be missing, with all that it has.
    let item_and_owner = [segments.next()?, segments.next().unwrap_or_default()];
    item_and_owner.into_iter().find_map(|name| {
        let (_, instead) = rows().find(|(words, _)| words.iter().any(|word| names(word, name)))?;
        Some(instead.replace('`', ""))
    })
}

/// The rows of the table: the last parts of the items that each names, and what to use instead.
fn rows() -> impl Iterator<Item = (Vec<&'static str>, &'static str)> {
    let table = PAGE.split_once(HEADING).map_or("", |(_, rest)| rest);
    let rows = table.lines().skip_while(|line| !line.starts_with("| ---")).skip(1);
    rows.map_while(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "))
        .map(|(missing, instead)| (words(missing), instead))
}

/// The items in a cell. A type of which only parts are missing, as in "`TcpSocket`'s `tos`", is no
/// item.
fn words(cell: &'static str) -> Vec<&'static str> {
    let pieces: Vec<&str> = cell.split('`').collect();
    let is_owner = |index: usize| pieces.get(index + 1).is_some_and(|text| text.starts_with("'s"));
    let items = (1..pieces.len()).step_by(2).filter(|index| !is_owner(*index));
    items
        .flat_map(|index| {
            let path = pieces[index];
            let last = path.rsplit_once("::").map_or(path, |(_, last)| last);
            last.trim_matches(['{', '}']).split(", ")
        })
        .collect()
}

/// Whether a word of the page names an item: `tos` names `set_tos_v4` too, and `FromRawFd` names
/// `from_raw_fd`.
fn names(word: &str, item: &str) -> bool {
    let plain = |name: &str| name.replace('_', "").to_lowercase();
    plain(word) == plain(item) || item.split('_').any(|part| part == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_table_that_can_be_read() {
        let rows: Vec<_> = rows().collect();
        assert!(rows.len() > 3, "{rows:?}");
        for (words, instead) in rows {
            assert!(!words.is_empty() && !instead.is_empty(), "{words:?} {instead}");
        }
    }

    #[test]
    fn items_of_a_cell() {
        assert_eq!(
            words("`time::{pause, advance}` (`test-util`)"),
            ["pause", "advance", "test-util"]
        );
        assert_eq!(
            words("`TcpSocket`'s `tos` and `device`, `peek_sender`"),
            ["tos", "device", "peek_sender"]
        );
        assert_eq!(words("`process::Command::pre_exec`"), ["pre_exec"]);
    }

    #[test]
    fn a_word_names_its_setter_and_its_trait() {
        assert!(names("tos", "set_tos_v4") && names("FromRawFd", "from_raw_fd"));
        assert!(!names("tos", "stop") && !names("pause", "unpause"));
    }

    #[test]
    fn what_the_page_does_not_name_has_no_remedy() {
        assert_eq!(remedy("tokio::net::TcpStream::an_item_of_the_future"), None);
    }
}
