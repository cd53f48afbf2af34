// checkpoint — the commands that take, restore, show, verify and export checkpoints.

import { Command, Option } from "commander";
import { restoreCheckpoint, takeCheckpoint } from "../api/checkpoint.ts";
import { badArgument } from "../base/errors.ts";
import { CheckpointDirectory } from "../node/checkpoint/checkpoint-directory.ts";
import { exportCheckpoint } from "../node/checkpoint/export-checkpoint.ts";
import { findCheckpoint, olderCheckpoint, openCheckpoint } from "../node/checkpoint/find-checkpoint.ts";
import { verifyCheckpoint } from "../node/checkpoint/verify-checkpoint.ts";
import { jobNameOf } from "../wire/hello.ts";
import { bytesText, checkpointText } from "./checkpoint-text.ts";
import { clusterRequest, relayedCalls, withScheduler, withServers } from "./cluster-client.ts";
import { addClusterHelp } from "./cluster-flags.ts";
import { addHelp, type Flags, type HelpTexts, type Invocation, timeOf, wholeNumber } from "./command-parts.ts";
import { printNotice } from "./notices.ts";
import { countText, terminalColumns } from "./terminal-text.ts";

const COMMANDS = [saveCommand, restoreCommand, inspectCommand, verifyCommand, exportCommand];

const HELP: HelpTexts = {
  about: `A directory holds one checkpoint (it has a manifest.json) or several (step-000120, step-000123, …), of which the newest is meant
unless --step names another.`,
  examples: [
    "checkpoint save",
    "checkpoint inspect checkpoints",
    "checkpoint verify checkpoints --all",
    "checkpoint export checkpoints model.safetensors",
  ],
};

export function checkpointCommand(invocation: Invocation): Command {
  const command = new Command("checkpoint")
    .summary("take, restore, look at, check and export checkpoints")
    .description("Has a cluster take or restore checkpoints, checks every byte of them, and turns them into plain safetensors files.")
    .usage("<command> [options]");
  for (const make of COMMANDS) command.addCommand(make(invocation));
  return addHelp(command, invocation, HELP);
}

const SAVE_HELP: HelpTexts = {
  about: `The servers write it where their --checkpoint-dir says, at the next clock that all workers finish, while training continues.`,
  examples: ["checkpoint save", "checkpoint save weighbridge://a.example:9700 --keep 3"],
};

type SaveFlags = Flags & {
  readonly step?: number;
  readonly keep?: number;
  readonly job?: string;
  readonly json?: true;
  readonly timeout?: number;
};

function saveCommand(invocation: Invocation): Command {
  const command = new Command("save")
    .usage("[weighbridge://host:port] [options]")
    .summary("have a running cluster take a checkpoint")
    .description("Has the servers of a running cluster take a checkpoint, while training goes on.")
    .option("--step <number>", "the checkpoint's number [the next free one]", wholeNumber({ min: 0, max: Number.MAX_SAFE_INTEGER }))
    .option("--keep <count>", "how many checkpoints to keep, this one included", wholeNumber({ min: 1, max: Number.MAX_SAFE_INTEGER }))
    .option("--job <name>", "the job's name, as inspect shows it [the job's own]")
    .option("--json", "print one JSON document")
    .addOption(timeoutOption())
    .action(async ({ step, keep, job, json, timeout, ...flags }: SaveFlags) => {
      const createdAt = new Date().toISOString();
      const request = clusterRequest("checkpoint save", flags, invocation, timeout);
      const taken = await withScheduler(request, (found) =>
        takeCheckpoint(relayedCalls(request, found), { step, keep, job: job ?? jobNameOf(found.status.job), createdAt }),
      );
      process.stdout.write(json === true ? `${JSON.stringify(taken, null, 2)}\n` : `${taken.path}: clock ${taken.clock}\n`);
      if (taken.warning === undefined) return;
      printNotice(taken.warning);
      invocation.exitCode = 1;
    });
  return addClusterHelp(command, invocation, SAVE_HELP);
}

const RESTORE_HELP: HelpTexts = {
  about: `The servers read it where their --checkpoint-dir says. They must not have parameters, nor anything that was pushed through kv:
servers that are to begin with a checkpoint are better started with --restore.`,
  examples: ["checkpoint restore", "checkpoint restore --step 120"],
};

type RestoreFlags = Flags & { readonly step?: number; readonly timeout?: number };

function restoreCommand(invocation: Invocation): Command {
  const command = new Command("restore")
    .usage("[weighbridge://host:port] [options]")
    .summary("restore a running cluster from a checkpoint")
    .description("Has the servers of a running cluster without parameters restore a checkpoint, however many servers took it.")
    .addOption(stepOption())
    .addOption(timeoutOption())
    .action(async ({ step, timeout, ...flags }: RestoreFlags) => {
      const restored = await withServers(clusterRequest("checkpoint restore", flags, invocation, timeout), (servers) =>
        restoreCheckpoint(servers, step),
      );
      const { path, clock, parameters, sums, wasRestored } = restored;
      if (wasRestored)
        throw badArgument(
          `the cluster was restored from ${path} before, and nothing was loaded again: clocks never go back in a running cluster. ` +
            `To go back to a checkpoint, end the cluster and start its servers with --restore ${path}`,
        );
      const added = sums.length === 0 ? "" : `, ${countText(sums.length, "table")} of sums`;
      process.stdout.write(`${path}: clock ${clock}, ${countText(parameters.length, "parameter")}${added}\n`);
    });
  return addClusterHelp(command, invocation, RESTORE_HELP);
}

const INSPECT_HELP: HelpTexts = {
  examples: ["checkpoint inspect checkpoints", "checkpoint inspect checkpoints --step 120 --json"],
};

type InspectFlags = { readonly step?: number; readonly json?: true };

function inspectCommand(invocation: Invocation): Command {
  const command = new Command("inspect")
    .summary("show what is in a checkpoint")
    .description("Shows a checkpoint's parameters, with shapes, rows, bytes and optimizers, its clock, and its files.")
    .argument("<directory>", "a checkpoint, or a directory of checkpoints")
    .addOption(stepOption())
    .option("--json", "print the manifest as JSON")
    .action(async (directory: string, { step, json }: InspectFlags) => {
      await using reader = await openCheckpoint(directory, { step });
      process.stdout.write(
        `${json === true ? JSON.stringify(reader.manifest, null, 2) : checkpointText(reader.path, reader.manifest, terminalColumns())}\n`,
      );
    });
  return addHelp(command, invocation, INSPECT_HELP);
}

const VERIFY_HELP: HelpTexts = {
  about: "Ends with 0 if everything is as it was written, with 1 if anything is not.",
  examples: ["checkpoint verify checkpoints", "checkpoint verify checkpoints --all", "checkpoint verify checkpoints/step-000120"],
};

type VerifyFlags = { readonly step?: number; readonly all?: true };

function verifyCommand(invocation: Invocation): Command {
  const command = new Command("verify")
    .summary("check every byte of a checkpoint")
    .description("Reads a checkpoint's files and checks their structure and checksums. Prints which file is wrong, and why.")
    .argument("<directory>", "a checkpoint, or a directory of checkpoints")
    .addOption(stepOption().conflicts("all"))
    .option("--all", "check every checkpoint in the directory")
    .action(async (directory: string, { step, all }: VerifyFlags) => {
      for (const path of await pathsOf(directory, step, all === true)) {
        if (!(await isWhole(path))) invocation.exitCode = 1;
      }
      const problem = await new CheckpointDirectory({ root: directory }).latestProblem();
      if (problem === undefined) return;
      printNotice(problem);
      invocation.exitCode = 1;
    });
  return addHelp(command, invocation, VERIFY_HELP);
}

async function pathsOf(directory: string, step: number | undefined, all: boolean): Promise<readonly string[]> {
  const newest = await findCheckpoint(directory, { step });
  const stored = all ? await new CheckpointDirectory({ root: directory }).list() : [];
  return stored.length > 0 ? stored.map(({ path }) => path) : [newest];
}

/** True when nothing is wrong. Prints each problem. */
async function isWhole(path: string): Promise<boolean> {
  const { problems, fileCount, bytes, manifest } = await verifyCheckpoint(path);
  if (problems.length === 0) {
    process.stdout.write(`${path} is whole: clock ${manifest?.clock}, ${countText(fileCount, "file")}, ${bytesText(bytes)}\n`);
    return true;
  }
  for (const problem of problems) printNotice(problem);
  const older = await olderCheckpoint(path);
  printNotice(`${path} cannot be used${older === undefined ? "" : `; the one before it is ${older}`}`);
  return false;
}

const EXPORT_HELP: HelpTexts = {
  about:
    "A tensor is written under its own name and in its own shape, a table as <name>/keys and <name>/values, whose rows belong together.",
  more: `To read it in Python:
  $ python3 -c 'from safetensors.numpy import load_file; print(load_file("model.safetensors"))'`,
  examples: ["checkpoint export checkpoints model.safetensors", "checkpoint export checkpoints u.safetensors --parameter users"],
};

type ExportFlags = { readonly step?: number; readonly parameter?: string[]; readonly allColumns?: true; readonly force?: true };

function exportCommand(invocation: Invocation): Command {
  const command = new Command("export")
    .summary("write a checkpoint as one safetensors file")
    .description("Writes the parameters of a checkpoint, whole and checked, into one safetensors file for other programs.")
    .argument("<directory>", "a checkpoint, or a directory of checkpoints")
    .argument("<file>", "the file to write")
    .addOption(stepOption())
    .option("--parameter <name...>", "only these parameters")
    .option("--all-columns", "export optimizer slots, step counts and versions, too")
    .option("--force", "replace the file if it exists")
    .action(async (directory: string, file: string, { step, parameter, allColumns, force }: ExportFlags) => {
      await using reader = await openCheckpoint(directory, { step });
      const { tensors, bytes } = await exportCheckpoint(reader, file, { parameters: parameter, allColumns, replace: force });
      process.stdout.write(`${file}: ${countText(tensors.length, "tensor")}, ${bytesText(bytes)}, from ${reader.path}\n`);
    });
  return addHelp(command, invocation, EXPORT_HELP);
}

function timeoutOption(): Option {
  return new Option("--timeout <time>", "how long each step of it may take [no limit]").argParser(timeOf(1));
}

function stepOption(): Option {
  const step = new Option("--step <number>", "the checkpoint of this step [the newest]");
  return step.argParser(wholeNumber({ min: 0, max: Number.MAX_SAFE_INTEGER }));
}
