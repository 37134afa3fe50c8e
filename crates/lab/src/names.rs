//! "Did you mean epoll?": the name of a list that is nearest to a mistyped one.

/// The question to put after the error of a name that a list does not have. Empty if no name is
/// near.
///
/// ```
/// use duality_lab::names::did_you_mean;
/// assert_eq!(did_you_mean("epol", ["poll", "epoll"]), "; did you mean epoll?");
/// assert_eq!(did_you_mean("magic", ["poll", "epoll"]), "");
/// ```
pub fn did_you_mean<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let near = names.into_iter().filter(|known| is_near(name, known));
    let nearest = near.min_by_key(|known| distance(&name.to_lowercase(), known));
    nearest.map_or_else(String::new, |known| format!("; did you mean {known}?"))
}

/// The remedy for a name that a list does not have: `choose from poll, epoll; did you mean epoll?`
pub fn choose_from<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    format!("choose from {}{}", names.join(", "), did_you_mean(name, names))
}

/// The question for an error of serde about an unknown name. The error quotes the name, and then
/// those that it expects.
pub(crate) fn did_you_mean_by(error: &str) -> String {
    let mut quoted = error.split('`').skip(1).step_by(2);
    match (error.starts_with("unknown "), quoted.next()) {
        (true, Some(name)) => did_you_mean(name, quoted),
        _ => String::new(),
    }
}

/// Whether a name may be a mistyped one of a list: at most a third of its letters are wrong.
pub fn is_near(name: &str, known: &str) -> bool {
    let (name, known) = (name.to_lowercase(), known.to_lowercase());
    let longer = name.chars().count().max(known.chars().count());
    let is_beginning = name.chars().count() >= 3 && known.starts_with(&name);
    is_beginning || longer >= 3 && 3 * distance(&name, &known) <= longer
}

/// The number of letters to add, leave out, replace, or exchange with the next one (the optimal
/// string alignment distance).
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for row in 1..=one.len() {
        let mut next = vec![row];
        for column in 1..=other.len() {
            let replaced = usize::from(one[row - 1] != other[column - 1]);
            let edited = (last[column] + 1).min(next[column - 1] + 1);
            let mut least = edited.min(last[column - 1] + replaced);
            let is_exchange = row > 1
                && column > 1
                && one[row - 1] == other[column - 2]
                && one[row - 2] == other[column - 1];
            if is_exchange {
                least = least.min(before[column - 2] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut last, next);
    }
    last[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_meant() {
        let names = ["iterative", "threads", "poll", "epoll", "uring", "workpool-fifo"];
        for (name, told) in [
            ("epol", "epoll"),
            ("thread", "threads"),
            ("therads", "threads"),
            ("Uring", "uring"),
            ("uirng", "uring"),
            ("workpool", "workpool-fifo"),
        ] {
            assert_eq!(did_you_mean(name, names), format!("; did you mean {told}?"), "{name}");
        }
        for name in ["", "x", "magic", "goroutines"] {
            assert_eq!(did_you_mean(name, names), "", "{name}");
        }
    }

    #[test]
    fn quiet_is_not_budget() {
        assert!(!is_near("quiet", "budget") && is_near("budgat", "budget"));
    }

    #[test]
    fn an_error_of_serde_has_the_names() {
        let error = "unknown field `windov`, expected one of `service`, `window`";
        assert_eq!(did_you_mean_by(error), "; did you mean window?");
        assert_eq!(did_you_mean_by("invalid type: `windov`, expected `window`"), "");
    }
}
