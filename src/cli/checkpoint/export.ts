// export — a checkpoint as one plain safetensors file.

import { Command } from "commander";
import { exportCheckpoint } from "../../node/checkpoint/export-checkpoint.ts";
import { openCheckpoint } from "../../node/checkpoint/find-checkpoint.ts";
import { helpText } from "../help-text.ts";
import type { Invocation } from "../invocation.ts";
import { countText } from "../text-table.ts";
import { bytesText } from "./checkpoint-text.ts";
import { stepOption } from "./step-option.ts";

const HELP = `
A tensor is written under its own name and in its own shape, a table as <name>/keys and <name>/values, whose rows belong together.

Examples:
  $ weighbridge checkpoint export checkpoints model.safetensors
  $ weighbridge checkpoint export checkpoints users.safetensors --parameter users --all-columns
  $ python3 -c 'from safetensors.numpy import load_file; print(load_file("model.safetensors"))'`;

type ExportFlags = { readonly step?: number; readonly parameter?: string[]; readonly allColumns?: true; readonly force?: true };

export function exportCommand(_invocation: Invocation): Command {
  return new Command("export")
    .summary("write a checkpoint as one safetensors file")
    .description("Writes the parameters of a checkpoint, whole and checked, into one safetensors file for other programs.")
    .argument("<directory>", "a checkpoint, or a directory of checkpoints")
    .argument("<file>", "the file to write")
    .addOption(stepOption())
    .option("--parameter <name...>", "only these parameters")
    .option("--all-columns", "the optimizer's slots, step counts and versions as well, as <name>/<column>")
    .option("--force", "replace the file if it is there")
    .addHelpText("after", helpText(HELP))
    .action(async (directory: string, file: string, { step, parameter, allColumns, force }: ExportFlags) => {
      await using reader = await openCheckpoint(directory, { step });
      const { tensors, bytes } = await exportCheckpoint(reader, file, { parameters: parameter, allColumns, replace: force });
      process.stdout.write(`${file}: ${countText(tensors.length, "tensor")}, ${bytesText(bytes)}, from ${reader.path}\n`);
    });
}
