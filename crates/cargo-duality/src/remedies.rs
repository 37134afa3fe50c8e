//! The remedy for a missing item: the table in missing.md. docs/tokio-patch.md has the same table.

/// The table stands in this package, so that the package of crates.io has it.
const TABLE: &str = include_str!("missing.md");

/// What the table says to use instead of an item. `None` if the table does not name the item.
///
/// `path` is the item, with the module or type that lacks it, such as `tokio::task::Builder`.
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
    let rows = TABLE.lines().skip_while(|line| !line.starts_with("| ---")).skip(1);
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

/// Whether a word of the table names an item: `tos` names `set_tos_v4` too, and `FromRawFd` names
/// `from_raw_fd`.
fn names(word: &str, item: &str) -> bool {
    let plain = |name: &str| name.replace('_', "").to_lowercase();
    plain(word) == plain(item) || item.split('_').any(|part| part == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_can_be_read_and_is_that_of_the_page() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tokio-patch.md");
        let page = std::fs::read_to_string(page).unwrap();
        let section = page.split_once("## What is missing").unwrap().1;
        assert!(section.contains(&format!("\n\n{TABLE}\n")), "missing.md and the page differ");
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
    fn what_the_table_does_not_name_has_no_remedy() {
        assert_eq!(remedy("tokio::net::TcpStream::an_item_of_the_future"), None);
    }
}
