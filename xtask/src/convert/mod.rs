//! `cargo xtask convert`: builds the pass of `duality cc`; `cargo xtask convert --test` tests it
//! too.
//!
//! ```text
//!   target/convert/libduality_convert.so   the pass, a plugin of LLVM 19 (convert/pass)
//!   target/convert/reference.o             the reference runtime, for tests (convert/reference)
//!   target/convert/reference-asan.o        the same with AddressSanitizer
//!   target/convert/runtime                 the product's runtime, built to see its warnings
//!   target/convert/tests                   what the suite compiles and runs
//! ```
//!
//! Only the pass needs LLVM's headers. Without converted C programs, a developer never builds the
//! pass.

mod driver;
mod suite;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use crate::failure::{At as _, Result};
use crate::files::make;
use crate::outcome::Pass::Passed;
use crate::outcome::{FEATURES, Outcome, cargo_command, execute};
use crate::{Workspace, tools};

/// The files that must exist, and the Debian package of each.
const NEEDS: &[(&str, &str)] = &[
    ("/usr/lib/llvm-19/bin/clang++", "clang-19"),
    ("/usr/lib/llvm-19/bin/ld.lld", "lld-19"),
    ("/usr/include/llvm-19/llvm/IR/Module.h", "llvm-19-dev"),
    // The sanitizers of the suite.
    ("/usr/lib/llvm-19/lib/clang/19/lib/linux", "libclang-rt-19-dev"),
    ("/usr/bin/dot", "graphviz"),
];

const FLAGS: &[&str] = &[
    "-std=c++17",
    "-O1",
    "-fPIC",
    "-fno-rtti",
    "-fno-exceptions",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused-parameter",
    "-isystem",
    "/usr/include/llvm-19",
    "-isystem",
    "/usr/include/llvm-c-19",
];

/// The path of a program of LLVM.
fn llvm(program: &str) -> PathBuf {
    Path::new("/usr/lib/llvm-19/bin").join(program)
}

/// Makes sure that LLVM 19 is installed.
///
/// # Errors
///
/// Gives the line that installs LLVM, or the reason of the failure.
pub(crate) fn install_needs() -> Result {
    let packages: Vec<&str> = NEEDS
        .iter()
        .filter(|(file, _)| !Path::new(file).exists())
        .map(|(_, package)| *package)
        .collect();
    if packages.is_empty() { Ok(()) } else { tools::install_packages(&packages) }
}

/// Builds the pass and the reference runtime.
pub(crate) fn build(workspace: &Workspace) -> Outcome {
    // Some releases of Debian lack LLVM 19: the steps that need it are skipped there.
    install_needs()?;
    build_all(workspace).map(|()| Passed)
}

/// Builds everything, and runs the suite.
pub(crate) fn test(workspace: &Workspace) -> Outcome {
    build(workspace)?;
    build_command(workspace)?;
    suite::run(workspace)?;
    driver::run(workspace).map(|()| Passed)
}

/// Builds the command as for `cargo-test`, so that nothing is compiled again after that step.
fn build_command(workspace: &Workspace) -> Outcome {
    // Cargo builds the command for its package's tests.
    let tests = ["test", "--workspace", FEATURES, "--quiet", "--no-run", "--test", "all"];
    execute(cargo_command(workspace).args(tests)).at("the command `duality` does not build")
}

/// The folder of the pass and the runtimes that were built.
pub(crate) fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target.join("convert")
}

fn source(workspace: &Workspace) -> PathBuf {
    workspace.root.join("convert")
}

fn build_all(workspace: &Workspace) -> Result {
    let (source, folder) = (source(workspace), folder(workspace));
    let pass = compile_all(&source.join("pass"), "cpp", &folder.join("pass"), |command| {
        // An installed pass names no folder of the machine that built it.
        let map = format!("-ffile-prefix-map={}=/duality", workspace.root.display());
        command.args(FLAGS).arg(map);
    })?;
    let mut link = Command::new(llvm("clang++"));
    execute(link.args(["-shared", "-o"]).arg(folder.join("libduality_convert.so")).args(pass))?;
    for (name, flags) in [
        ("reference", &[][..]),
        ("reference-asan", &["-fsanitize=address", "-mllvm", "-asan-stack=0"][..]),
    ] {
        let objects = compile_all(&source.join("reference"), "c", &folder.join(name), |command| {
            command
                .args(["-g", "-O1", "-fPIC", "-fno-builtin", "-Wall", "-Wextra", "-Werror"])
                .args(flags);
        })?;
        let mut link = Command::new(llvm("ld.lld"));
        execute(link.args(["-r", "-o"]).arg(folder.join(name).with_extension("o")).args(objects))?;
    }
    // The driver itself compiles the product's runtime. This step only checks for warnings.
    compile_all(&source.join("runtime"), "c", &folder.join("runtime"), |command| {
        command.args(["-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I"]);
        command.arg(source.join("contract"));
    })?;
    println!("built {}", folder.display());
    Ok(())
}

/// Compiles the sources of one folder that are newer than their objects, two at a time. Returns all
/// objects.
fn compile_all(
    sources: &Path,
    extension: &str,
    objects: &Path,
    flags: impl Fn(&mut Command),
) -> Result<Vec<PathBuf>> {
    make(objects)?;
    let files = files_of(sources, extension)?;
    let headers = [sources.to_owned(), sources.join("../include")];
    let newest_header = headers
        .iter()
        .flat_map(|folder| files_of(folder, "h").unwrap_or_default())
        .filter_map(|header| modified(&header))
        .max();
    let mut running = Vec::new();
    let mut made = Vec::new();
    for file in files {
        let object = objects.join(file.file_stem().unwrap_or_default()).with_extension("o");
        made.push(object.clone());
        let newest = modified(&file).max(newest_header);
        if modified(&object).is_some_and(|object| Some(object) > newest) {
            continue;
        }
        if running.len() == 2 {
            finish(running.remove(0))?;
        }
        let mut command = Command::new(llvm(if extension == "c" { "clang" } else { "clang++" }));
        flags(&mut command);
        command.arg("-c").arg(&file).arg("-o").arg(&object);
        let child = command.spawn().at("clang")?;
        running.push((file, child));
    }
    for compilation in running {
        finish(compilation)?;
    }
    Ok(made)
}

fn finish((file, mut child): (PathBuf, std::process::Child)) -> Result {
    let status = child.wait().at(file.display())?;
    if status.success() { Ok(()) } else { Err(format!("{}: {status}", file.display()).into()) }
}

/// The files of a folder with this extension, in the order of their names.
fn files_of(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).at(folder.display())? {
        let path = entry.at(folder.display())?.path();
        if path.extension().is_some_and(|own| own == extension) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn modified(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).ok()?.modified().ok()
}
