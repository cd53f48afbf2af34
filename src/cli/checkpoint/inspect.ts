// inspect — what is in a checkpoint, by its manifest and its files' headers. The data is not read: that is `verify`.

import { Command } from "commander";
import { openCheckpoint } from "../../node/checkpoint/find-checkpoint.ts";
import { helpText } from "../help-text.ts";
import type { Invocation } from "../invocation.ts";
import { checkpointText } from "./checkpoint-text.ts";
import { stepOption } from "./step-option.ts";

const HELP = `
Examples:
  $ weighbridge checkpoint inspect checkpoints
  $ weighbridge checkpoint inspect checkpoints --step 120 --json`;

type InspectFlags = { readonly step?: number; readonly json?: true };

export function inspectCommand(_invocation: Invocation): Command {
  return new Command("inspect")
    .summary("show what is in a checkpoint")
    .description("Shows a checkpoint's parameters, with shapes, rows, bytes and optimizers, its clock, and its files.")
    .argument("<directory>", "a checkpoint, or a directory of checkpoints")
    .addOption(stepOption())
    .option("--json", "print the manifest as JSON")
    .addHelpText("after", helpText(HELP))
    .action(async (directory: string, { step, json }: InspectFlags) => {
      await using reader = await openCheckpoint(directory, { step });
      process.stdout.write(`${json === true ? JSON.stringify(reader.manifest, null, 2) : checkpointText(reader.path, reader.manifest)}\n`);
    });
}
