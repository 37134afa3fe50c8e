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

Options, among those of the compiler:
  --report[=FILE]  Write what was converted, and why, to FILE (else standard
                   error) [env: DUALITY_CC_REPORT]
  --graph FILE     Write the graph of calls that may block, as DOT, and as SVG
                   beside it [env: DUALITY_CC_GRAPH]

Options, before all others:
  --doctor         Say what is there and what is missing
  --ar, --ranlib, --nm
                   Be that program of LLVM, for objects that are bitcode alone
                   (-fsanitize=…)
  --help           Print this

The commands can also be called `duality-cc` and `duality-c++`, by links to
duality, where a build system takes no compiler of two words. The links
`duality-llvm-ar` and `duality-llvm-ranlib` beside them let CMake find the
programs of INTERPROCEDURAL_OPTIMIZATION.";

/// The programs of LLVM that CMake expects beside a compiler with this prefix, and our options.
const UTILITIES: [(&str, &str); 3] =
    [("llvm-ar", "--ar"), ("llvm-ranlib", "--ranlib"), ("llvm-nm", "--nm")];

/// The request in the first arguments.
#[derive(Debug, PartialEq, Eq)]
enum Invocation<'a> {
    Help,
    Doctor,
    Utility(Utility, &'a [OsString]),
    Compile(Wishes, Vec<OsString>),
}

impl Arguments {
    pub(super) fn of_process() -> Self {
        // The name of the process is the command, or the command is its first argument.
        let name = named();
        let (skip, language) = match &name {
            Some(name) => (1, of_command(name)),
            None => (2, first()),
        };
        let language = language.unwrap_or_default();
        let utility = name.as_deref().and_then(option_of);
        let arguments = utility.map(OsString::from).into_iter();
        Self { arguments: arguments.chain(env::args_os().skip(skip)).collect(), language }
    }
}

/// Whether this process is to be a compiler, by its name or its first argument.
pub(super) fn is_asked_for() -> bool {
    named().is_some() || first().is_some()
}

/// The compiler, or the program of LLVM, under the name of which this process was started.
fn named() -> Option<String> {
    let name = PathBuf::from(env::args_os().next()?);
    let command = name.file_name()?.to_str()?.strip_prefix("duality-")?;
    let known = of_command(command).is_some() || option_of(command).is_some();
    known.then(|| command.to_owned())
}

fn option_of(utility: &str) -> Option<&'static str> {
    UTILITIES.iter().find(|(name, _)| *name == utility).map(|(_, option)| *option)
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
        Invocation::Compile(wishes, rest) => cc::compile(arguments.language, &rest, &wishes),
    }
}

fn read(arguments: &[OsString], mut wishes: Wishes) -> Result<Invocation<'_>, Failure> {
    if let Some((first, after)) = arguments.split_first() {
        match first.to_str() {
            Some("--help") => return Ok(Invocation::Help),
            Some("--doctor") => return Ok(Invocation::Doctor),
            Some("--ar") => return Ok(Invocation::Utility(Utility::Ar, after)),
            Some("--ranlib") => return Ok(Invocation::Utility(Utility::Ranlib, after)),
            Some("--nm") => return Ok(Invocation::Utility(Utility::Nm, after)),
            _ => {}
        }
    }
    let mut rest = Vec::new();
    let mut left = arguments.iter();
    while let Some(argument) = left.next() {
        let file = |option: &str| argument.to_str()?.strip_prefix(option).map(PathBuf::from);
        if argument == "--report" {
            wishes.report = Some("-".into());
        } else if argument == "--graph" {
            let file = left.next().ok_or_else(|| {
                Failure::misuse("--graph: a file is missing, for example --graph calls.dot")
            })?;
            wishes.graph = Some(file.into());
        } else if let Some(file) = file("--report=") {
            wishes.report = Some(file);
        } else if let Some(file) = file("--graph=") {
            wishes.graph = Some(file);
        } else {
            rest.push(argument.clone());
            // The values of the compiler's options may look like ours.
            if cc::takes_value(argument) {
                rest.extend(left.next().cloned());
            }
        }
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
    fn own_options_are_found_among_others() {
        let line = words("--graph a.dot -O2 --report a.c -Xlinker --report=b -o --graph=c");
        let Ok(Invocation::Compile(wishes, rest)) = read(&line, Wishes::default()) else {
            panic!("a compilation")
        };
        assert_eq!(wishes.report, Some("-".into()));
        assert_eq!(wishes.graph, Some("a.dot".into()));
        assert_eq!(rest, words("-O2 a.c -Xlinker --report=b -o --graph=c"));
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
