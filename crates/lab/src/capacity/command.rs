//! The command that measures figures that cannot be predicted.

use crate::format::in_shell;
use crate::record::Heading;

/// Flags of `duality compare` that the new command sets itself, with a value and without.
const OWN: [&str; 6] = ["--out", "-o", "--concurrency", "--architectures", "-a", "--budget"];

/// The command that made the results, for some of its subjects and up to `connections`. The words
/// are quoted for a shell.
pub(super) fn to_measure(heading: &Heading, subjects: &[&str], connections: usize) -> Vec<String> {
    let design = &heading.design;
    let mut words = vec!["duality".to_owned()];
    let mut given = heading.command.iter().skip(1).peekable();
    if given.peek().is_none() {
        words.extend(["compare".to_owned(), design.service.clone()]);
    }
    let mut rest = Vec::new();
    while let Some(word) = given.next() {
        let name = word.split('=').next().unwrap_or(word);
        if word == "--" {
            rest.push(word.clone());
            rest.extend(given.by_ref().cloned());
        } else if OWN.contains(&name) {
            if name == word {
                given.next();
            }
        } else if word != "--resume" {
            words.push(word.clone());
        }
    }
    // A flag cannot name these variants and peers.
    let is_plain = |name: &&str| {
        design.architectures.iter().any(|one| one == name)
            && design.variants.iter().all(|variant| variant.name != **name)
    };
    if subjects.iter().all(is_plain) {
        words.extend(["--architectures".to_owned(), subjects.join(",")]);
    }
    let most = design.concurrency.iter().max().copied().unwrap_or(1);
    words.extend(["--concurrency".to_owned(), format!("{most},{connections}")]);
    words.extend(["--out".to_owned(), format!("capacity-{connections}")]);
    words.extend(rest);
    words.iter().map(|word| in_shell(word)).collect()
}
