//! Scripts that complete the command line in a shell, made from the command line itself: no list beside it can be
//! forgotten. Pure. Ours and not a library's: three short scripts need no more.

use std::fmt::Write as _;

use clap::Command;

use super::Shell;

/// The script for a shell.
pub(super) fn script(command: &Command, shell: Shell) -> String {
    let verbs = verbs(command);
    match shell {
        Shell::Bash => bash(&verbs),
        // Zsh runs what Bash completes with.
        Shell::Zsh => format!(
            "#compdef agentd\nautoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n{}",
            bash(&verbs)
        ),
        Shell::Fish => fish(&verbs),
    }
}

/// A command by its words, such as `agentd mcp tools`.
struct Verb<'a> {
    words: Vec<&'a str>,
    command: &'a Command,
}

/// All that are shown, the program itself first.
fn verbs(command: &Command) -> Vec<Verb<'_>> {
    let mut found = vec![Verb {
        words: vec![command.get_name()],
        command,
    }];
    let mut at = 0;
    while let Some(Verb { words, command }) = found.get(at) {
        let inner = command.get_subcommands().filter(|inner| !inner.is_hide_set());
        let inner: Vec<_> = inner
            .map(|inner| Verb {
                words: [words.as_slice(), &[inner.get_name()]].concat(),
                command: inner,
            })
            .collect();
        found.extend(inner);
        at += 1;
    }
    found
}

/// Its flags, with what they are for.
fn flags(command: &Command) -> Vec<(String, String)> {
    let mut flags: Vec<_> = command
        .get_arguments()
        .filter_map(|argument| {
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            Some((argument.get_long()?.to_owned(), help))
        })
        .collect();
    flags.push(("help".to_owned(), "Print help".to_owned()));
    flags
}

fn bash(verbs: &[Verb<'_>]) -> String {
    let (mut steps, mut words) = (String::new(), String::new());
    for verb in verbs {
        let name = verb.words.join(" ");
        if verb.words.len() > 1 {
            // Writing into a text does not fail.
            let _ = writeln!(steps, "      \"{name}\") verb=\"{name}\" ;;");
        }
        let inner = verb
            .command
            .get_subcommands()
            .filter(|inner| !inner.is_hide_set());
        let all: Vec<String> = inner
            .map(|inner| inner.get_name().to_owned())
            .chain(
                flags(verb.command)
                    .into_iter()
                    .map(|(flag, _)| format!("--{flag}")),
            )
            .collect();
        let _ = writeln!(words, "    \"{name}\") words=\"{}\" ;;", all.join(" "));
    }
    format!(
        "_agentd() {{
  local current=\"${{COMP_WORDS[COMP_CWORD]}}\" verb=agentd words=\"\" at
  for ((at = 1; at < COMP_CWORD; at++)); do
    case \"$verb ${{COMP_WORDS[at]}}\" in
{steps}    esac
  done
  case \"$verb\" in
{words}  esac
  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))
  if [ \"${{#COMPREPLY[@]}}\" = 0 ]; then COMPREPLY=($(compgen -f -- \"$current\")); fi
}}
complete -F _agentd agentd
"
    )
}

fn fish(verbs: &[Verb<'_>]) -> String {
    let mut script = String::new();
    for verb in verbs {
        let after: Vec<&str> = verb.words.iter().skip(1).copied().collect();
        let when = match after.as_slice() {
            [] => "__fish_use_subcommand".to_owned(),
            after => {
                let seen = after
                    .iter()
                    .map(|word| format!("__fish_seen_subcommand_from {word}"));
                seen.collect::<Vec<_>>().join("; and ")
            }
        };
        for inner in verb
            .command
            .get_subcommands()
            .filter(|inner| !inner.is_hide_set())
        {
            let about = inner.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(
                script,
                "complete -c agentd -n '{when}' -a {} -d '{}'",
                inner.get_name(),
                quoted(&about)
            );
        }
        for (flag, help) in flags(verb.command) {
            let _ = writeln!(
                script,
                "complete -c agentd -n '{when}' -l '{flag}' -d '{}'",
                quoted(&help)
            );
        }
    }
    script
}

/// Within single quotes of fish.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\'', "\\'")
}

#[cfg(test)]
mod tests {
    use std::process::Command as Process;

    use super::*;

    /// What Bash offers for the last word.
    fn offered(words: &[&str]) -> Vec<String> {
        let script = script(&super::super::command(), Shell::Bash);
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let last = words.len() - 1;
        let asked = format!(
            "{script}\nCOMP_WORDS=({}); COMP_CWORD={last}; _agentd; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            quoted.join(" ")
        );
        let output = Process::new("bash")
            .args(["--norc", "-c", &asked])
            .output()
            .unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn bash_offers_verbs_and_flags_of_where_it_is() {
        assert_eq!(offered(&["agentd", "comp"]), ["completions"]);
        assert_eq!(offered(&["agentd", "--limits.run.s"]), ["--limits.run.steps"]);
        assert_eq!(offered(&["agentd", "run", "--effective"]), ["--effective-config"]);
        assert_eq!(offered(&["agentd", "mcp", "too"]), ["tools"]);
        assert_eq!(offered(&["agentd", "mcp", "tools", "--head"]), ["--header"]);
        assert_eq!(offered(&["agentd", "mcp", "--limits"]), [""]);
    }

    #[test]
    fn every_verb_and_flag_is_in_every_script() {
        let command = super::super::command();
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(&command, shell);
            for verb in verbs(&command) {
                assert!(
                    script.contains(verb.words.last().unwrap()),
                    "{shell:?} {:?}",
                    verb.words
                );
                for (flag, _) in flags(verb.command) {
                    assert!(script.contains(&flag), "{shell:?} {flag}");
                }
            }
            assert!(!script.contains("worker"), "{shell:?} names what nobody types");
        }
    }
}
