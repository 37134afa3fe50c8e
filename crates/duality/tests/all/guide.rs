//! The commands of the guide's first pages are understood as they are written: comparisons with
//! `--check`, which measures nothing, and reports on kept runs. Each command of the other pages is
//! parsed: one of ours by itself, a script or a step by its source.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The pages, and how many commands each has at least.
const PAGES: [(&str, usize); 4] =
    [("noise.md", 3), ("ci.md", 3), ("your-server.md", 4), ("choosing.md", 8)];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The commands in the fences of a page; a line that ends with a backslash goes on.
fn commands(page: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("docs").join(page)).unwrap().replace("\\\n", " ");
    let fences = text.split("```").skip(1).step_by(2);
    let lines = fences.filter_map(|fence| fence.strip_prefix("sh\n")).flat_map(str::lines);
    lines.filter(|line| line.starts_with("duality ")).map(str::to_owned).collect()
}

/// A folder with the files that the pages assume: the command, a server, two runs.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let link = |from: &Path, to: &str| {
        std::os::unix::fs::symlink(from, folder.path().join(to)).unwrap();
    };
    link(Path::new(env!("CARGO_BIN_EXE_duality")), "duality");
    link(&root().join("examples"), "examples");
    link(Path::new(env!("CARGO_BIN_EXE_duality")), "duality-old");
    for server in ["server", "memcached", "a", "b"] {
        link(Path::new("/bin/true"), server);
    }
    let (one, other) = ("25-vm/conversion/echo-short", "25-vm/conversion-again/echo-short");
    let idle = "21-vm/knot/idle-0";
    for (name, run) in [
        ("one", one),
        ("two", other),
        ("before", one),
        ("after", other),
        ("results", idle),
        ("limited", idle),
    ] {
        let run = root().join(format!("runs/2026-11-{run}/results.jsonl"));
        fs::create_dir(folder.path().join(name)).unwrap();
        fs::copy(run, folder.path().join(name).join("results.jsonl")).unwrap();
    }
    folder
}

#[test]
fn the_commands_of_the_guide_are_understood() {
    let folder = folder();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    for (page, least) in PAGES {
        let mut commands = commands(page);
        // It needs a server at a fixed port; docs/requests.md has such loads, and a test of them.
        commands.retain(|command| !command.starts_with("duality load "));
        assert!(commands.len() + 1 >= least, "{page}: {commands:#?}");
        for command in commands {
            let is_comparison = command.starts_with("duality compare ");
            // `--check` writes nothing, and takes no folder to write to.
            let asked = command.split(" --out ").next().unwrap_or_default();
            let line = if is_comparison { format!("{asked} --check") } else { command.clone() };
            let mut shell = Command::new("sh");
            shell.args(["-c", &line]).current_dir(folder.path()).env("PATH", &path);
            let output = shell.output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(!stderr.contains("argument"), "{page}: {line}: {stderr}");
            // The exit code says whether a report finds a regression. The folder is no repository.
            let is_report = !is_comparison && line.contains("--fail-on-regression");
            let is_fine = output.status.success() || is_report;
            let is_of_git = line.contains("--versions") && stderr.contains("not a git repository");
            assert!(is_fine || is_of_git, "{page}: {line}: {stderr}");
        }
    }
}

/// A command of a page: its place, and its words.
struct Said {
    place: String,
    words: Vec<String>,
}

/// The words of a line of the shell, command by command. Comments and redirections are left out.
fn words(line: &str) -> Vec<Vec<String>> {
    let (mut all, mut own, mut word) = (Vec::new(), Vec::new(), None::<String>);
    let (mut quote, mut is_redirected) = (None, false);
    for letter in line.chars().chain(['\n']) {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, ' ' | '\n' | '|' | ';' | '&' | '<' | '>') => {
                own.extend(word.take().filter(|_| !std::mem::take(&mut is_redirected)));
                is_redirected = matches!(letter, '<' | '>') || is_redirected && letter == ' ';
                if matches!(letter, '|' | ';' | '&') {
                    all.push(std::mem::take(&mut own));
                }
            }
            _ => word.get_or_insert_default().push(letter),
        }
    }
    own.extend(word.filter(|_| !is_redirected));
    all.push(own);
    all
}

/// The commands in the fences of all pages, without settings of the environment before them.
fn said() -> Vec<Said> {
    let pages = fs::read_dir(root().join("docs")).unwrap().map(|page| page.unwrap().path());
    let mut pages: Vec<PathBuf> =
        pages.filter(|page| page.extension().is_some_and(|kind| kind == "md")).collect();
    pages.extend(["README.md", "CONTRIBUTING.md"].map(|name| root().join(name)));
    pages.sort();
    let mut said = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).unwrap().replace("\\\n", " ");
        let fences = text.split("```").skip(1).step_by(2);
        let fences = fences.filter_map(|fence| fence.split_once('\n'));
        let lines =
            fences.filter(|(kind, _)| ["", "sh"].contains(kind)).flat_map(|(_, all)| all.lines());
        for line in lines {
            let line = line.trim_start().trim_start_matches("$ ");
            for mut words in words(line) {
                let is_setting = |word: &String| {
                    let name = word.split_once('=').map(|(name, _)| name);
                    name.is_some_and(|name| {
                        name.chars().all(|one| one.is_ascii_uppercase() || one == '_')
                    })
                };
                let before = words.iter().take_while(|word| is_setting(word) || *word == "sudo");
                words.drain(..before.count());
                let place = format!("{}: {line}", page.file_name().unwrap().display());
                said.push(Said { place, words });
            }
        }
    }
    said
}

/// The text of all files beneath some folders.
fn sources(folders: &[&str]) -> String {
    let mut left: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    let mut text = String::new();
    while let Some(path) = left.pop() {
        match fs::read_dir(&path) {
            Ok(entries) => left.extend(entries.map(|entry| entry.unwrap().path())),
            Err(_) => text += &fs::read_to_string(&path).unwrap_or_default(),
        }
    }
    text
}

/// The flags among words, without their values.
fn flags(words: &[String]) -> impl Iterator<Item = &str> {
    let flags = words.iter().take_while(|word| *word != "--").filter(|word| word.starts_with("--"));
    flags.map(|flag| flag.split('=').next().unwrap_or(flag))
}

#[test]
fn each_command_of_the_docs_is_parsed() {
    let steps = sources(&["xtask/src", "crates/conformance/src", "scripts/hosts.py"]);
    let (mut ours, mut others, mut faults) = (0, 0, Vec::new());
    for Said { place, words } in said() {
        let words: Vec<String> = words.into_iter().skip_while(|word| *word == "python3").collect();
        let Some((program, rest)) = words.split_first() else { continue };
        let script = program.strip_prefix("scripts/").map(|_| root().join(program));
        if program.rsplit('/').next() == Some("duality") {
            // What follows is of another program.
            let is_run = rest.first().is_some_and(|word| word == "run");
            let is_other = |word: &str| word == "--" || is_run && word.starts_with('/');
            let own = rest.iter().take_while(|word| !is_other(word));
            // An output of the command begins with `duality:`, and `cc` takes each flag.
            if rest.first().is_none_or(|word| word == "cc" || word.ends_with(':')) {
                continue;
            }
            let parsed =
                Command::new(env!("CARGO_BIN_EXE_duality")).args(own).arg("--help").output();
            let parsed = parsed.unwrap();
            if !parsed.status.success() {
                faults.push(format!("{place}: {}", String::from_utf8_lossy(&parsed.stderr)));
            }
            ours += 1;
        } else if let Some(script) = script {
            let source = fs::read_to_string(&script).unwrap_or_default();
            let unknown = flags(rest).filter(|flag| !source.contains(&format!("\"{flag}")));
            faults.extend(unknown.map(|flag| format!("{place}: the script has no {flag}")));
            faults.extend(source.is_empty().then(|| format!("{place}: there is no such script")));
            others += 1;
        } else if program == "cargo" && rest.first().is_some_and(|word| word == "xtask") {
            let step = rest.get(1).filter(|step| !step.starts_with("--"));
            let unknown = step.filter(|step| !steps.contains(&format!("\"{step}\"")));
            faults.extend(unknown.map(|step| format!("{place}: there is no step {step}")));
            // A flag is written as it is, or a field of clap's has its name.
            let field =
                |flag: &str| format!("{}:", flag.trim_start_matches("--").replace('-', "_"));
            let is_known = |flag: &&str| steps.contains(*flag) || steps.contains(&field(flag));
            let unknown = flags(rest).filter(|flag| !is_known(flag));
            faults.extend(unknown.map(|flag| format!("{place}: there is no {flag}")));
            others += 1;
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(ours >= 80 && others >= 30, "{ours} {others}");
}

#[test]
fn a_line_of_the_shell_is_read_as_the_shell_reads_it() {
    let line = r#"A=1 a --b="c d" 2>/dev/null | e 'f|g' > out && h # i"#;
    let told: Vec<String> = words(line).iter().map(|words| words.join("·")).collect();
    assert_eq!(told, ["A=1·a·--b=c d·2", "e·f|g", "", "h"]);
}
