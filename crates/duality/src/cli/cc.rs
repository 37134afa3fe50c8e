//! `duality cc` and `duality c++`: their own arguments. All others are those of a compiler.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use super::{Failure, print};
use crate::cc::{self, Language, Utility, Wishes};

/// For the list of commands only, because clap does not know a compiler's arguments.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(super) struct Arguments {
    /// Arguments of a compiler
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
    #[arg(skip)]
    language: Language,
}

pub(super) const HELP: &str = "\
Compile threaded C or C++ into an event-driven program

Usage: duality cc [OPTIONS] ARGUMENTS OF A C COMPILER…
       duality c++ [OPTIONS] ARGUMENTS OF A C++ COMPILER…

Examples:
  duality cc -O2 -pthread server.c -o server
  duality c++ -O2 -pthread server.cc -o server
  ./configure CC=\"duality cc\" CXX=\"duality c++\" && make
  duality cc --report -O2 -pthread server.c -o server
      what was converted and why, what frames keep, what runs on side stacks,
      and what may go wrong

Options, before all others:
  --report[=FILE]  Write what was converted, and why, to FILE (else standard
                   error) [env: DUALITY_CC_REPORT]
  --graph FILE     Write the graph of calls that may block, as DOT, and as SVG
                   beside it [env: DUALITY_CC_GRAPH]
  --doctor         Say what is there and what is missing
  --ar, --ranlib, --nm
                   Be that program of LLVM, for objects that are bitcode alone
                   (-fsanitize=…)
  --help           Print this

The commands can also be called `duality-cc` and `duality-c++`, by links to
duality, where a build system takes no compiler of two words.";

/// The request in the first arguments.
#[derive(Debug, PartialEq, Eq)]
enum Invocation<'a> {
    Help,
    Doctor,
    Utility(Utility, &'a [OsString]),
    Compile(Wishes, &'a [OsString]),
}

impl Arguments {
    pub(super) fn of_process() -> Self {
        // The name of the process is the command, or the command is its first argument.
        let (skip, language) = match named() {
            Some(language) => (1, language),
            None => (2, first().unwrap_or_default()),
        };
        Self { arguments: env::args_os().skip(skip).collect(), language }
    }
}

/// Whether this process is to be a compiler, by its name or its first argument.
pub(super) fn is_asked_for() -> bool {
    named().or_else(first).is_some()
}

/// The compiler under the name of which this process was started.
fn named() -> Option<Language> {
    let name = PathBuf::from(env::args_os().next()?);
    let command = name.file_name()?.to_str()?.strip_prefix("duality-")?;
    of_command(command)
}

fn first() -> Option<Language> {
    of_command(env::args_os().nth(1)?.to_str()?)
}

fn of_command(command: &str) -> Option<Language> {
    [Language::C, Language::Cxx].into_iter().find(|language| language.command() == command)
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let wishes = Wishes {
        report: env::var_os("DUALITY_CC_REPORT").map(PathBuf::from),
        graph: env::var_os("DUALITY_CC_GRAPH").map(PathBuf::from),
    };
    match read(&arguments.arguments, wishes)? {
        Invocation::Help => print(HELP).map(|()| ExitCode::SUCCESS),
        Invocation::Doctor => {
            let (text, complete) = cc::doctor();
            print(&text).map(|()| ExitCode::from(u8::from(!complete)))
        }
        Invocation::Utility(which, rest) => cc::utility(which, rest),
        Invocation::Compile(wishes, rest) => cc::compile(arguments.language, rest, &wishes),
    }
}

fn read(arguments: &[OsString], mut wishes: Wishes) -> Result<Invocation<'_>, Failure> {
    let mut rest = arguments;
    while let Some((first, after)) = rest.split_first() {
        match first.to_str() {
            Some("--help") => return Ok(Invocation::Help),
            Some("--doctor") => return Ok(Invocation::Doctor),
            Some("--ar") => return Ok(Invocation::Utility(Utility::Ar, after)),
            Some("--ranlib") => return Ok(Invocation::Utility(Utility::Ranlib, after)),
            Some("--nm") => return Ok(Invocation::Utility(Utility::Nm, after)),
            Some("--report") => wishes.report = Some("-".into()),
            Some("--graph") => {
                let (file, after) = after.split_first().ok_or_else(|| {
                    Failure::misuse("--graph: a file is missing, for example --graph calls.dot")
                })?;
                wishes.graph = Some(file.into());
                rest = after;
                continue;
            }
            Some(text) if text.starts_with("--report=") => {
                wishes.report = Some(text["--report=".len()..].into());
            }
            Some(text) if text.starts_with("--graph=") => {
                wishes.graph = Some(text["--graph=".len()..].into());
            }
            _ => break,
        }
        rest = after;
    }
    if rest.is_empty() {
        return Err(Failure::misuse("no input files; `duality cc --help` shows examples"));
    }
    Ok(Invocation::Compile(wishes, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn own_options_come_first() {
        let line = words("--report --graph a.dot -O2 --report a.c");
        let Ok(Invocation::Compile(wishes, rest)) = read(&line, Wishes::default()) else {
            panic!("a compilation")
        };
        assert_eq!(wishes.report, Some("-".into()));
        assert_eq!(wishes.graph, Some("a.dot".into()));
        assert_eq!(rest, words("-O2 --report a.c"));
    }

    #[test]
    fn utilities_take_all_that_follows() {
        let line = words("--ar --help x");
        let invocation = read(&line, Wishes::default()).unwrap();
        assert_eq!(invocation, Invocation::Utility(Utility::Ar, &words("--help x")));
    }

    #[test]
    fn what_is_missing_is_named() {
        assert!(read(&words("--graph"), Wishes::default()).is_err());
        assert!(read(&[], Wishes::default()).is_err());
    }
}
