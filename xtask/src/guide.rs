//! `cargo xtask guide`: writes the pages of the architectures, checks the guide, and builds it as a
//! book.
//!
//! ```text
//!   docs/architectures/     made of the headers in crates/architectures, and committed
//!   target/guide/src/       docs/, with links out of it turned into addresses of the repository
//!   target/guide/book/      the book, by mdBook
//! ```
//!
//! `cargo xtask tidy` makes the same checks without mdBook.

use std::path::Path;
use std::process::Command;
use std::{fs, io};

use crate::outcome::Outcome::{self, Failed, Skipped};
use crate::outcome::execute;
use crate::pages::{architectures, links};
use crate::tidy::{self, Tree};
use crate::{Workspace, tools};

/// The help's text about this command.
pub(crate) const ABOUT: &str =
    "writes the architectures' pages, checks the guide, and builds it by mdBook";

/// The address of the repository's files.
const REPOSITORY: &str = "https://github.com/duality-dev/duality/blob/main";

/// Writes the pages, checks all pages, and builds the book if mdBook is installed.
pub(crate) fn run(workspace: &Workspace) -> Outcome {
    let made = read(workspace).and_then(|tree| write_pages(workspace, &tree));
    if let Err(problem) = made.and_then(|()| check(workspace)) {
        return Failed(problem);
    }
    let beneath = workspace.target.join("xtask/mdbook/bin/mdbook");
    let found = if beneath.is_file() { Some(beneath) } else { tools::find("mdbook") };
    let Some(mdbook) = found else {
        let root = workspace.target.join("xtask/mdbook");
        return Skipped(format!(
            "the book needs mdBook: cargo install --locked mdbook --version ^0.4 --root {}",
            root.display()
        ));
    };
    let folder = workspace.target.join("guide");
    if let Err(error) = stage(&workspace.root, &folder) {
        return Failed(error.to_string());
    }
    println!("{}", folder.join("book/index.html").display());
    execute(Command::new(mdbook).arg("build").arg(&folder))
}

fn read(workspace: &Workspace) -> Result<Tree, String> {
    Tree::read(&workspace.root).map_err(|error| format!("cannot read the workspace: {error}"))
}

fn write_pages(workspace: &Workspace, tree: &Tree) -> Result<(), String> {
    let pages = architectures::pages(|path| tree.text_of(path));
    for (path, text) in pages.map_err(|(path, problem)| format!("{path}: {problem}"))? {
        let path = workspace.root.join(path);
        let folder = path.parent().expect("a page is in a folder");
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// Applies the rules of tidy about the guide.
fn check(workspace: &Workspace) -> Result<(), String> {
    let found = tidy::check_guide(&read(workspace)?);
    for violation in &found {
        println!("{violation}");
    }
    match found.len() {
        0 => Ok(()),
        count => Err(format!("{count} places to mend")),
    }
}

/// Copies docs/ for mdBook.
fn stage(root: &Path, folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => copy(root, "docs", &folder.join("src"))?,
    }
    fs::rename(folder.join("src/book.toml"), folder.join("book.toml"))
}

fn copy(root: &Path, from: &str, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(root.join(from))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let path = format!("{from}/{name}");
        if root.join(&path).is_dir() {
            copy(root, &path, &to.join(name))?;
        } else if name.ends_with(".md") {
            let text = fs::read_to_string(root.join(&path))?;
            fs::write(to.join(name), staged(&path, &text))?;
        } else {
            fs::copy(root.join(&path), to.join(name))?;
        }
    }
    Ok(())
}

/// The page at `path`, with addresses in place of links that leave docs/.
fn staged(path: &str, text: &str) -> String {
    let mut page = String::new();
    let mut end = 0;
    for link in links::links(text) {
        let (file, anchor) = link.parts();
        let resolved = links::resolve(path, file).unwrap_or_default();
        if !file.is_empty() && !resolved.starts_with("docs/") {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_out_of_the_guide_become_addresses() {
        let page = "[a](../README.md#x) [b](b.md) [c](#c)";
        let expected = format!("[a]({REPOSITORY}/README.md#x) [b](b.md) [c](#c)");
        assert_eq!(staged("docs/a.md", page), expected);
    }
}
