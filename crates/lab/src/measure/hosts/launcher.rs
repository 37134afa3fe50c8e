//! A launcher: the command that gives the standard streams of a process on a host.
//!
//! A launcher is a list of words with `{host}`. The lab appends `sh`, and nothing else. The lab
//! sends the script to that shell over standard input. So no quoting of a shell on the way can go
//! wrong.

use std::process::Command;

use crate::Mistake;

/// The placeholder of the host.
const HOST: &str = "{host}";

/// A launcher with a name.
#[derive(Debug)]
struct Named {
    /// The name.
    name: &'static str,
    /// The command.
    template: &'static str,
    /// Whether the launcher was tried with the real program.
    tried: bool,
}

/// All launchers with a name.
const NAMED: [Named; 5] = [
    Named {
        name: "ssh",
        // This ssh asks nothing, accepts no unknown key, and opens no terminal.
        template: "ssh -T -o BatchMode=yes -o StrictHostKeyChecking=yes \
                   -o ServerAliveInterval=5 -o ServerAliveCountMax=3 {host}",
        tried: true,
    },
    Named {
        name: "srun",
        template: "srun --quiet --nodelist={host} --nodes=1 --ntasks=1 --overlap --unbuffered",
        tried: true,
    },
    Named { name: "nsenter", template: "nsenter --net=/run/netns/{host} --", tried: true },
    Named { name: "kubectl", template: "kubectl exec -i {host} --", tried: false },
    Named { name: "docker", template: "docker exec -i {host}", tried: false },
];

/// A launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Launcher(Vec<String>);

impl Launcher {
    /// Reads a name or a template.
    ///
    /// # Errors
    ///
    /// The error names the mistake and the remedy.
    pub(crate) fn read(text: &str) -> Result<Self, Mistake> {
        let named = NAMED.iter().find(|named| named.name == text);
        let names = || NAMED.map(|named| named.name).join(", ");
        let words = shlex::split(named.map_or(text, |named| named.template))
            .ok_or_else(|| format!("`{text}`: a quotation mark is not closed"))?;
        if words.is_empty() || !words.iter().any(|word| word.contains(HOST)) {
            return Err(format!(
                "`{text}` is no launcher: choose from {}, or write a command with {HOST}, such as \
                 \"ssh -F config {HOST}\"",
                names()
            )
            .into());
        }
        Ok(Self(words))
    }

    /// A warning about the launcher `text`, if we could not try it.
    pub(crate) fn caution(text: &str) -> Option<String> {
        let named = NAMED.iter().find(|named| named.name == text && !named.tried)?;
        let Named { name, template, .. } = named;
        Some(format!("the launcher {name} (`{template}`) was not tried by Duality's developers"))
    }

    /// The command that runs a shell on `host`.
    pub(super) fn command(&self, host: &str) -> Command {
        let mut words = self.0.iter().map(|word| word.replace(HOST, host));
        // The end of the launcher's standard input ends the launcher. A parent-death signal would
        // come too early, at the death of the thread that started the launcher.
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).arg("sh");
        command
    }

    /// The program that the launcher runs.
    pub(super) fn program(&self) -> &str {
        self.0.first().map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_stands_where_the_template_has_it() {
        for (text, end) in [
            ("nsenter", ["--net=/run/netns/web1", "--", "sh"]),
            ("docker -H 'a b' exec {host}", ["exec", "web1", "sh"]),
        ] {
            let command = Launcher::read(text).unwrap().command("web1");
            let words: Vec<String> =
                command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
            assert_eq!(words[words.len() - 3..], end, "{words:?}");
        }
    }

    #[test]
    fn what_is_no_launcher_is_told() {
        for text in ["", "telnet", "ssh web1", "ssh '{host}"] {
            assert!(Launcher::read(text).is_err(), "{text}");
        }
        assert!(NAMED.iter().all(|named| Launcher::read(named.name).is_ok()));
    }
}
