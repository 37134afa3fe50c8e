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

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::failure::{At as _, Failure, Result};
use crate::files::{remove, write};
use crate::outcome::{Outcome, execute};
use crate::pages::architectures;
use crate::pages::excerpt::Excerpt;
use crate::tidy::{self, Tree};
use crate::{Workspace, tools};

/// The help's text about this command.
pub(crate) const ABOUT: &str =
    "writes the architectures' pages, checks the guide, and builds it by mdBook";

/// Writes the pages, checks all pages, and builds the book if mdBook is installed.
pub(crate) fn run(workspace: &Workspace) -> Outcome {
    write_pages(workspace, &read(workspace)?)?;
    check(workspace)?;
    let beneath = workspace.target.join("xtask/mdbook/bin/mdbook");
    let found = if beneath.is_file() { Some(beneath) } else { tools::find("mdbook") };
    let Some(mdbook) = found else {
        let root = workspace.target.join("xtask/mdbook");
        let install = "cargo install --locked mdbook --version ^0.4 --root";
        let remedy = format_args!("{install} {}", root.display());
        return Err(Failure::lack("the book needs mdBook", remedy));
    };
    let folder = workspace.target.join("guide");
    stage(&workspace.root, &folder)?;
    println!("{}", folder.join("book/index.html").display());
    execute(Command::new(mdbook).arg("build").arg(&folder))
}

fn read(workspace: &Workspace) -> Result<Tree> {
    Tree::read(&workspace.root).at("cannot read the workspace")
}

fn write_pages(workspace: &Workspace, tree: &Tree) -> Result {
    let pages = architectures::pages(|path| tree.text_of(path));
    for (path, text) in pages.or_else(|(path, problem)| Err(problem).at(path))? {
        write(&workspace.root.join(path), &text)?;
    }
    Ok(())
}

/// Applies the rules of tidy about the guide.
fn check(workspace: &Workspace) -> Result {
    let found = tidy::check_guide(&read(workspace)?);
    for violation in &found {
        println!("{violation}");
    }
    match found.len() {
        0 => Ok(()),
        count => Err(format!("{count} places to mend").into()),
    }
}

/// Copies docs/ for mdBook.
fn stage(root: &Path, folder: &Path) -> Result {
    remove(folder)?;
    Excerpt(&["docs"]).copy(root, "docs", &folder.join("src"))?;
    let settings = folder.join("src/book.toml");
    fs::rename(&settings, folder.join("book.toml")).at(settings.display())
}
