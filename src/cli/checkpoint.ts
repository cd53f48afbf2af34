// checkpoint — the commands that take checkpoints, and look after those on the disk. Each is a file of its own in checkpoint/.

import { Command } from "commander";
import { exportCommand } from "./checkpoint/export.ts";
import { inspectCommand } from "./checkpoint/inspect.ts";
import { restoreCommand } from "./checkpoint/restore.ts";
import { saveCommand } from "./checkpoint/save.ts";
import { verifyCommand } from "./checkpoint/verify.ts";
import { helpText } from "./help-text.ts";
import type { Invocation } from "./invocation.ts";

const COMMANDS = [saveCommand, restoreCommand, inspectCommand, verifyCommand, exportCommand];

const HELP = `
A directory holds one checkpoint (it has a manifest.json) or several (step-000120, step-000123, …), of which the newest is meant unless
--step names another.

Examples:
  $ weighbridge checkpoint save --scheduler-port 9700
  $ weighbridge checkpoint inspect checkpoints
  $ weighbridge checkpoint verify checkpoints --all
  $ weighbridge checkpoint export checkpoints model.safetensors`;

export function checkpointCommand(invocation: Invocation): Command {
  const command = new Command("checkpoint")
    .summary("take, restore, look at, check and export checkpoints")
    .description("Has a cluster take or restore checkpoints, checks every byte of them, and turns them into plain safetensors files.")
    .addHelpText("after", helpText(HELP));
  for (const make of COMMANDS) command.addCommand(make(invocation));
  return command;
}
