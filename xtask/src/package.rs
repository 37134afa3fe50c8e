//! `cargo xtask package`: builds the files of an installation, and a Debian package of these files.
//!
//! ```text
//!   target/dist/duality                       the command, optimised throughout (profile `dist`)
//!   target/package/bin/duality                the same
//!   target/package/bin/cargo-duality          `cargo duality`
//!   target/package/lib/duality/               the pass of `duality cc`, if LLVM 19 is there
//!   target/package/lib/systemd/system/        units, for the prefix /usr/local
//!   target/package/share/                     manual pages, completions of three shells, pages
//!   target/debian/duality_VERSION_ARCH.deb    the package, by cargo-deb
//! ```
//!
//! The folder target/package can be copied to a prefix such as /usr/local.

use std::path::Path;
use std::process::Command;

use crate::failure::{Failure, Result};
use crate::files::{copy, read, remove, write};
use crate::outcome::{Outcome, cargo_command, execute};
use crate::pages::excerpt::Excerpt;
use crate::{Workspace, convert, tools};

/// The shells, and the file of completions that each reads under /usr/local. Under /usr, zsh reads
/// another folder, which the package of Debian uses.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/duality"),
    ("zsh", "zsh/site-functions/_duality"),
    ("fish", "fish/vendor_completions.d/duality.fish"),
];

/// What an installation has to read.
const DOCUMENTS: [&str; 6] =
    ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "docs", "plans"];

/// The units, their settings and what they serve: files of packaging/, and where they go.
const SETTINGS: [(&str, &str); 4] = [
    ("duality.service", "lib/systemd/system"),
    ("duality.socket", "lib/systemd/system"),
    ("duality.default", "share/doc/duality"),
    ("site/index.html", "share/doc/duality"),
];

/// Builds the folder, and the package where cargo-deb is there.
pub(crate) fn run(workspace: &Workspace) -> Outcome {
    let mut build = cargo_command(workspace);
    build.args(["build", "--profile", "dist", "--locked", "--package", "duality"]);
    // A default build has no TLS, so that it is quick.
    build.args(["--features", "http2,rustls"]);
    execute(&mut build)?;
    let mut build = cargo_command(workspace);
    build.args(["build", "--profile", "dist", "--locked", "--package", "cargo-duality"]);
    execute(&mut build)?;
    convert::build(workspace)?;
    let folder = workspace.target.join("package");
    fill(workspace, &folder)?;
    println!("made {}", folder.display());
    if tools::find("cargo-deb").is_none() {
        let remedy = "cargo install --locked cargo-deb";
        return Err(Failure::lack("the package needs cargo-deb", remedy));
    }
    let mut package = cargo_command(workspace);
    execute(package.args(["deb", "--no-build", "--profile", "dist", "--package", "duality"]))
}

fn fill(workspace: &Workspace, folder: &Path) -> Result {
    remove(folder)?;
    let command = folder.join("bin/duality");
    copy(&workspace.target.join("dist/duality"), &command)?;
    let of_cargo = folder.join("bin/cargo-duality");
    copy(&workspace.target.join("dist/cargo-duality"), &of_cargo)?;
    let pass = "libduality_convert.so";
    copy(&convert::folder(workspace).join(pass), &folder.join("lib/duality").join(pass))?;
    let share = folder.join("share");
    for document in DOCUMENTS {
        let to = share.join("doc/duality").join(document);
        Excerpt(&DOCUMENTS).copy(&workspace.root, document, &to)?;
    }
    for (file, place) in SETTINGS {
        // The package of Debian has these with the paths that they name.
        let from = workspace.root.join("packaging").join(file);
        let text = read(&from)?.replace("/usr/", "/usr/local/");
        write(&folder.join(place).join(file), &text)?;
    }
    for program in [&command, &of_cargo] {
        tools::run(Command::new(program).arg("manual").arg(share.join("man/man1")))?;
    }
    for (shell, file) in SHELLS {
        let text = tools::run(Command::new(&command).args(["completions", shell]))?;
        write(&share.join(file), &text)?;
    }
    Ok(())
}
