//! `duality completions` and `duality manual`: the files that an installation puts beside the
//! command. Both are made from the command line's description, so they name exactly its flags.

use std::fs;
use std::path::PathBuf;

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use super::runs::unwritten;
use super::{Failure, cc, print};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  duality completions bash > ~/.local/share/bash-completion/completions/duality
  duality completions zsh > ~/.zfunc/_duality     # with fpath+=~/.zfunc
  duality completions fish > ~/.config/fish/completions/duality.fish")]
pub(super) struct Completions {
    /// The shell that will read them
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

#[derive(clap::Args)]
pub(super) struct Manual {
    /// The folder to write the pages to, such as /usr/local/share/man/man1
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Prints the completions of one shell.
pub(super) fn completions(arguments: &Completions) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut described(), "duality", &mut text);
    print(&String::from_utf8_lossy(&text))
}

/// Writes a page for the command and one for each of its commands.
pub(super) fn manual(arguments: &Manual) -> Result<(), Failure> {
    let folder = &arguments.folder;
    fs::create_dir_all(folder).map_err(|error| unwritten(folder, &error))?;
    clap_mangen::generate_to(described(), folder).map_err(|error| unwritten(folder, &error))?;
    // clap does not know a compiler's arguments.
    let path = folder.join("duality-cc.1");
    fs::write(&path, page_of_text("duality-cc", cc::HELP)).map_err(|error| unwritten(&path, &error))
}

/// The whole command line. The commands in it have no `help` command of their own.
fn described() -> Command {
    super::Arguments::command().disable_help_subcommand(true)
}

/// A page of help that is laid out by hand. Its first line describes the command.
fn page_of_text(name: &str, help: &str) -> Vec<u8> {
    let (about, rest) = help.split_once('\n').unwrap_or((help, ""));
    let escaped: String = rest
        .trim_start()
        .lines()
        // A line that begins with a dot or an apostrophe would be a request to troff.
        .map(|line| format!("\\&{}\n", line.replace('\\', "\\e").replace('-', "\\-")))
        .collect();
    let title = name.to_uppercase();
    format!(
        ".TH {title} 1 \"\" \"\" Duality\n.SH NAME\n{} \\- {about}\n.SH DESCRIPTION\n.nf\n{escaped}.fi\n",
        name.replace('-', "\\-")
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_that_help_lists_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        manual(&Manual { folder: folder.path().into() }).unwrap();
        let mut pages: Vec<String> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        pages.sort();
        assert!(pages.contains(&"duality.1".to_owned()), "{pages:?}");
        assert!(pages.contains(&"duality-compare.1".to_owned()), "{pages:?}");
        assert!(!pages.contains(&"duality-agent.1".to_owned()), "{pages:?}");
        for sub in described().get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let page = format!("duality-{}.1", sub.get_name());
            assert!(pages.contains(&page), "{page}: {pages:?}");
        }
        let compare = fs::read_to_string(folder.path().join("duality-compare.1")).unwrap();
        assert!(compare.contains("\\-\\-concurrency") && compare.contains("duality compare"));
        let cc = fs::read_to_string(folder.path().join("duality-cc.1")).unwrap();
        assert!(cc.contains("\\&  \\-\\-doctor"), "{cc}");
    }

    #[test]
    fn every_shell_completes_every_flag() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut described(), "duality", &mut text);
            let text = String::from_utf8(text).unwrap();
            assert!(text.contains("compare") && text.contains("concurrency"), "{shell}");
        }
    }
}
