//! `cargo xtask package`: builds the files of an installation, and a Debian package of these files.
//!
//! ```text
//!   target/dist/duality                       the command, optimised throughout (profile `dist`)
//!   target/package/bin/duality                the same
//!   target/package/lib/duality/               the pass of `duality cc`, if LLVM 19 is there
//!   target/package/share/                     manual pages, and completions of three shells
//!   target/debian/duality_VERSION_ARCH.deb    the package, by cargo-deb
//! ```
//!
//! The folder target/package can be copied to a prefix such as /usr/local.

use std::path::Path;
use std::process::Command;
use std::{fs, io};

use crate::outcome::Outcome::{self, Failed, Passed, Skipped};
use crate::outcome::{cargo_command, execute};
use crate::{Workspace, convert, tools};

/// The shells, and the file of completions that each reads.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/duality"),
    ("zsh", "zsh/vendor-completions/_duality"),
    ("fish", "fish/vendor_completions.d/duality.fish"),
];

/// Builds the folder. If cargo-deb is installed, builds the package too.
pub(crate) fn run(workspace: &Workspace) -> Outcome {
    let mut build = cargo_command(workspace);
    build.args([
        "build",
        "--profile",
        "dist",
        "--locked",
        "--package",
        "duality",
        "--features",
        "rustls",
    ]);
    for outcome in [execute(&mut build), convert::build(workspace)] {
        if outcome != Passed {
            return outcome;
        }
    }
    let folder = workspace.target.join("package");
    if let Err(problem) = fill(workspace, &folder) {
        return Failed(problem);
    }
    println!("made {}", folder.display());
    if tools::find("cargo-deb").is_none() {
        let without = "the package needs cargo-deb: cargo install --locked cargo-deb";
        return Skipped(without.into());
    }
    let mut package = cargo_command(workspace);
    execute(package.args(["deb", "--no-build", "--profile", "dist", "--package", "duality"]))
}

fn fill(workspace: &Workspace, folder: &Path) -> Result<(), String> {
    let told = |path: &Path, error: &io::Error| format!("{}: {error}", path.display());
    let make = |path: &Path| fs::create_dir_all(path).map_err(|error| told(path, &error));
    let copy = |from: &Path, to: &Path| {
        make(to.parent().expect("it is in the folder"))?;
        fs::copy(from, to).map(drop).map_err(|error| told(from, &error))
    };
    if let Err(error) = fs::remove_dir_all(folder)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(told(folder, &error));
    }
    let command = folder.join("bin/duality");
    copy(&workspace.target.join("dist/duality"), &command)?;
    let pass = "libduality_convert.so";
    copy(&convert::folder(workspace).join(pass), &folder.join("lib/duality").join(pass))?;
    let share = folder.join("share");
    tools::run(Command::new(&command).arg("manual").arg(share.join("man/man1")))?;
    for (shell, file) in SHELLS {
        let text = tools::run(Command::new(&command).args(["completions", shell]))?;
        let path = share.join(file);
        make(path.parent().expect("it is in the folder"))?;
        fs::write(&path, text).map_err(|error| told(&path, &error))?;
    }
    Ok(())
}
