//! An excerpt of the workspace: some of its folders and pages, to be read elsewhere. Links that
//! leave it become addresses of the repository.

use std::fs;
use std::path::Path;

use crate::failure::{At as _, Result};
use crate::files::{copy, read, write};

use super::links;

/// The address of the repository's files.
const REPOSITORY: &str = "https://github.com/duality-dev/duality/blob/main";

/// Files, and folders with all that is in them, by their paths in the workspace.
pub(crate) struct Excerpt<'a>(pub(crate) &'a [&'a str]);

impl Excerpt<'_> {
    /// Copies `path`, which is a file or a folder of the workspace, to `to`.
    pub(crate) fn copy(&self, root: &Path, path: &str, to: &Path) -> Result {
        let from = root.join(path);
        if from.is_dir() {
            for entry in fs::read_dir(&from).at(from.display())? {
                let name = entry.at(from.display())?.file_name();
                let name = name.to_string_lossy();
                self.copy(root, &format!("{path}/{name}"), &to.join(&*name))?;
            }
            Ok(())
        } else if path.ends_with(".md") {
            write(to, &self.page(path, &read(&from)?))
        } else {
            copy(&from, to)
        }
    }

    /// The page at `path`, with addresses in place of links that leave the excerpt.
    fn page(&self, path: &str, text: &str) -> String {
        let mut page = String::new();
        let mut end = 0;
        for link in links::links(text) {
            let (file, anchor) = link.parts();
            let resolved = links::resolve(path, file).unwrap_or_default();
            if !file.is_empty() && !self.has(&resolved) {
                page += &text[end..link.at.start];
                page += &format!("{REPOSITORY}/{resolved}");
                if !anchor.is_empty() {
                    page += &format!("#{anchor}");
                }
                end = link.at.end;
            }
        }
        page + &text[end..]
    }

    fn has(&self, path: &str) -> bool {
        let is_in =
            |folder: &str| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        self.0.iter().any(|kept| *kept == path || is_in(kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_out_of_it_become_addresses() {
        let page = "[a](../README.md#x) [b](b.md) [c](#c) [d](../docsx/d.md)";
        let of = |kept| Excerpt(kept).page("docs/a.md", page);
        let readme = format!("{REPOSITORY}/README.md#x");
        let other = format!("{REPOSITORY}/docsx/d.md");
        assert_eq!(of(&["docs"]), format!("[a]({readme}) [b](b.md) [c](#c) [d]({other})"));
        let both = of(&["docs", "README.md"]);
        assert_eq!(both, format!("[a](../README.md#x) [b](b.md) [c](#c) [d]({other})"));
    }
}
