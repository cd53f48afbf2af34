// completion-scripts — completion scripts for shells, of a tree of commands. Pure.
//
// A script walks the words before the cursor to find the command, which has at most one subcommand. Then it offers the
// choices of the flag before the cursor, the command's flags to a word that begins with "-", and else its subcommands
// or the choices of its first argument; files where there are none of those. bash and zsh share the tables, as cases
// of `case`, which no shell has to keep in memory.

export type CompletedFlag = {
  readonly names: readonly string[];
  readonly summary: string;
  readonly takesValue: boolean;
  readonly choices: readonly string[];
};

export type CompletedCommand = {
  readonly name: string;
  readonly summary: string;
  readonly flags: readonly CompletedFlag[];
  /** Of its first argument. */
  readonly choices: readonly string[];
  readonly commands: readonly CompletedCommand[];
};

export const SHELLS = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof SHELLS)[number];

const COMMON_FLAGS = ["--help", "--verbose"];

export function completionScript(shell: Shell, commands: readonly CompletedCommand[]): string {
  if (shell === "fish") return fishScript(commands);
  return shell === "bash" ? bashScript(commands) : zshScript(commands);
}

type Node = { readonly path: string; readonly command: CompletedCommand };

/** Each command with the words that name it: "checkpoint save". */
function nodesOf(commands: readonly CompletedCommand[], before = ""): readonly Node[] {
  return commands.flatMap((command) => {
    const path = `${before}${command.name}`;
    return [{ path, command }, ...nodesOf(command.commands, `${path} `)];
  });
}

/** What can follow the words of a path that are no flags: subcommands, or the first argument's choices. */
function wordsOf({ commands, choices }: CompletedCommand): readonly string[] {
  return commands.length > 0 ? commands.map(({ name }) => name) : choices;
}

function flagsOf({ flags }: CompletedCommand): readonly string[] {
  return [...new Set([...flags.flatMap(({ names }) => names.filter((name) => name.startsWith("--"))), ...COMMON_FLAGS])];
}

/** A case of `case $at in`, where something is to be said. */
function casesOf(nodes: readonly Node[], of: (command: CompletedCommand) => readonly string[]): readonly string[] {
  return nodes.flatMap(({ path, command }) => {
    const words = of(command);
    return words.length === 0 ? [] : [`    ${quoted(path)}) echo ${quoted(words.join(" "))} ;;`];
  });
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Functions of bash and zsh: each prints words for a path, or for a path and a flag. */
function tables(commands: readonly CompletedCommand[]): string {
  const nodes = nodesOf(commands);
  const root: Node = { path: "", command: { name: "", summary: "", flags: [], choices: [], commands } };
  const values = nodes.flatMap(({ path, command }) =>
    command.flags
      .filter(({ takesValue }) => takesValue)
      .flatMap(({ names, choices }) =>
        names.map((name) => `    ${quoted(`${path} ${name}`)}) echo ${choices.length === 0 ? ":files" : quoted(choices.join(" "))} ;;`),
      ),
  );
  return `_weighbridge_words() {
  case "$1" in
${casesOf([root, ...nodes], wordsOf).join("\n")}
  esac
}
_weighbridge_flags() {
  case "$1" in
${casesOf([{ ...root, command: { ...root.command, flags: [VERSION] } }, ...nodes], flagsOf).join("\n")}
  esac
}
_weighbridge_values() {
  case "$1 $2" in
${values.join("\n")}
  esac
}
`;
}

const VERSION: CompletedFlag = { names: ["--version"], summary: "", takesValue: false, choices: [] };

function bashScript(commands: readonly CompletedCommand[]): string {
  return `# completion of weighbridge for bash
${tables(commands)}_weighbridge() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} at="" words i word
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    [[ $word == -- ]] && return
    [[ -n $(_weighbridge_flags "\${at:+$at }$word") ]] && at="\${at:+$at }$word" # every command has flags
  done
  words=$(_weighbridge_values "$at" "$prev")
  [[ $words == :files ]] && return
  if [[ -z $words && $cur == -* ]]; then words=$(_weighbridge_flags "$at")
  elif [[ -z $words ]]; then words=$(_weighbridge_words "$at")
  fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _weighbridge weighbridge
`;
}

/** In zsh \`path\` and \`words\` are variables of the shell's own. */
function zshScript(commands: readonly CompletedCommand[]): string {
  return `#compdef weighbridge
# completion of weighbridge for zsh
${tables(commands)}_weighbridge() {
  local at="" offered word i
  for ((i = 2; i < CURRENT; i++)); do
    word=\${words[i]}
    [[ $word == -- ]] && { _files; return; }
    [[ -n $(_weighbridge_flags "\${at:+$at }$word") ]] && at="\${at:+$at }$word" # every command has flags
  done
  offered=$(_weighbridge_values "$at" "\${words[CURRENT-1]}")
  if [[ -z $offered && \${words[CURRENT]} == -* ]]; then offered=$(_weighbridge_flags "$at")
  elif [[ -z $offered ]]; then offered=$(_weighbridge_words "$at")
  fi
  if [[ -z $offered || $offered == :files ]]; then _files
  else compadd -- \${=offered}
  fi
}
if [[ \${funcstack[1]} == _weighbridge ]]; then _weighbridge "$@"; else compdef _weighbridge weighbridge; fi
`;
}

function fishScript(commands: readonly CompletedCommand[]): string {
  const names = commands.map(({ name }) => name).join(" ");
  const lines = commands.flatMap((command) => {
    const { name, summary, commands: inner, choices } = command;
    const seen = `__fish_seen_subcommand_from ${name}`;
    const innerNames = inner.map((each) => each.name).join(" ");
    const isAlone = inner.length === 0 ? seen : `${seen}; and not __fish_seen_subcommand_from ${innerNames}`;
    return [
      `complete -c weighbridge -f -n ${quotedFish(`not __fish_seen_subcommand_from ${names}`)} -a ${name} -d ${quotedFish(summary)}`,
      ...(choices.length === 0 ? [] : [`complete -c weighbridge -f -n ${quotedFish(seen)} -a ${quotedFish(choices.join(" "))}`]),
      ...fishFlags(command, isAlone),
      ...inner.flatMap((each) => [
        `complete -c weighbridge -f -n ${quotedFish(isAlone)} -a ${each.name} -d ${quotedFish(each.summary)}`,
        ...fishFlags(each, `${seen}; and __fish_seen_subcommand_from ${each.name}`),
      ]),
    ];
  });
  return `# completion of weighbridge for fish\n${lines.join("\n")}\n`;
}

function fishFlags({ flags }: CompletedCommand, when: string): readonly string[] {
  return flags.map(({ names, summary, takesValue, choices }) => {
    const written = names.map((name) => (name.startsWith("--") ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`)).join(" ");
    const value = choices.length > 0 ? ` -x -a ${quotedFish(choices.join(" "))}` : takesValue ? " -r" : "";
    return `complete -c weighbridge -n ${quotedFish(when)} ${written}${value} -d ${quotedFish(summary)}`;
  });
}

/** In fish's single quotes only these two are escaped. */
function quotedFish(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}
