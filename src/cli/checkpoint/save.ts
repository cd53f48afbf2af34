// save — has a running cluster take a checkpoint.

import { Command } from "commander";
import { takeCheckpoint } from "../../api/checkpoint.ts";
import type { Flags } from "../config-flags.ts";
import { helpText } from "../help-text.ts";
import type { Invocation } from "../invocation.ts";
import { wholeNumber } from "../whole-number.ts";
import { withServers } from "./cluster-client.ts";
import { addClusterFlags, clusterRequest } from "./cluster-flags.ts";

const HELP = `
The servers write it where their --checkpoint-dir says, at the next clock that all workers finish, while training goes on.

Examples:
  $ weighbridge checkpoint save --scheduler-port 9700
  $ weighbridge checkpoint save --scheduler-port 9700 --keep 3 --request-timeout-ms 60000`;

type SaveFlags = Flags & { readonly step?: number; readonly keep?: number; readonly job?: string };

export function saveCommand(invocation: Invocation): Command {
  const command = new Command("save")
    .summary("have a running cluster take a checkpoint")
    .description("Has the servers of a running cluster take a checkpoint, while training goes on.")
    .option("--step <number>", "its number; the next one that is free when left out", wholeNumber({ min: 0, max: Number.MAX_SAFE_INTEGER }))
    .option("--keep <count>", "how many checkpoints are to stay, this one included", wholeNumber({ min: 1, max: Number.MAX_SAFE_INTEGER }))
    .option("--job <name>", "the job's name, as inspect shows it")
    .addHelpText("after", helpText(HELP))
    .action(async ({ step, keep, job, ...flags }: SaveFlags) => {
      const createdAt = new Date().toISOString();
      const taken = await withServers(clusterRequest(flags), (servers) => takeCheckpoint(servers, { step, keep, job, createdAt }));
      process.stdout.write(`${taken.path}: clock ${taken.clock}\n`);
      if (taken.warning === undefined) return;
      process.stderr.write(`weighbridge: ${taken.warning}\n`);
      invocation.exitCode = 1;
    });
  return addClusterFlags(command);
}
