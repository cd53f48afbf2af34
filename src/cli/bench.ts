// bench — runs the repository's bench with the given arguments. The published package does not include the bench.

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Command } from "commander";
import { unsupported } from "../base/errors.ts";
import { helpText, type Invocation } from "./command-parts.ts";

const BENCH = new URL("bench/main.ts", import.meta.resolve("weighbridge/package.json"));

const HELP = `
All options are the bench's own; \`weighbridge bench --help\` in the repository lists them.

Example:
  $ weighbridge bench --quick --json bench.json`;

const HELP_FLAGS = ["--help", "-h", "--help-all"];

/** True in the repository; the published package has no bench. */
export function isBenchHere(): boolean {
  return existsSync(fileURLToPath(BENCH));
}

export function benchCommand(_invocation: Invocation): Command {
  return new Command("bench")
    .summary(isBenchHere() ? "measure how fast this machine pushes and pulls" : "runs in the repository only")
    .description("Runs the bench of the repository: raw ceiling and ours, interleaved.")
    .argument("[args...]", "the bench's own options")
    .allowUnknownOption()
    .passThroughOptions()
    .addHelpText("after", helpText(HELP))
    .action(async (args: string[], _options: unknown, command: Command) => {
      if (!isBenchHere()) {
        if (HELP_FLAGS.some((flag) => args.includes(flag))) command.help();
        throw unsupported("the bench is part of the repository, not of the package: clone it and run `npm run bench`");
      }
      process.argv.splice(1, process.argv.length, fileURLToPath(BENCH), ...args);
      await import(BENCH.href);
    });
}
