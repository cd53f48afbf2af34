// completion — prints a script with which bash, zsh or fish complete the command's words: made of the same commands
// that parse them. Nothing is asked of a running job.

import { Argument, Command, type Option } from "commander";
import { addHelp, type HelpTexts, type Invocation } from "./command-parts.ts";
import { COMMANDS } from "./commands.ts";
import { type CompletedCommand, type CompletedFlag, completionScript, SHELLS, type Shell } from "./completion-scripts.ts";

const HELP: HelpTexts = {
  about: "It completes commands, flags and their choices for `weighbridge`, wherever that is on the PATH; not for `npx weighbridge`.",
  examples: [
    "completion bash >> ~/.bashrc",
    "completion zsh > ~/.zfunc/_weighbridge",
    "completion fish > ~/.config/fish/completions/weighbridge.fish",
  ],
};

export function completionCommand(invocation: Invocation): Command {
  const command = new Command("completion")
    .summary("print a completion script for bash, zsh or fish")
    .description("Prints a script with which a shell completes the words of this command.")
    .addArgument(new Argument("<shell>", "for which shell").choices(SHELLS))
    .option("--json", "print the script in one JSON document")
    .action(async (shell: Shell, { json }: { readonly json?: true }) => {
      const made = await Promise.all(Object.values(COMMANDS).map(async (load) => (await load())({ ...invocation, isHelpAll: true })));
      const script = completionScript(shell, made.map(completed));
      process.stdout.write(json === true ? `${JSON.stringify({ shell, script }, null, 2)}\n` : script);
    });
  return addHelp(command, invocation, HELP);
}

function completed(command: Command): CompletedCommand {
  return {
    name: command.name(),
    summary: command.summary() || command.description(),
    flags: command.options.filter(({ hidden }) => !hidden).map(completedFlag),
    choices: command.registeredArguments[0]?.argChoices ?? [],
    commands: command.commands.map(completed),
  };
}

function completedFlag(option: Option): CompletedFlag {
  const { short, long, description, argChoices } = option;
  const names = [short, long].filter((name) => name !== undefined);
  return { names, summary: description, takesValue: option.required, choices: argChoices ?? [] };
}
