// restore — brings a running cluster that has no parameters yet to where a checkpoint left off.

import { Command } from "commander";
import { restoreCheckpoint } from "../../api/checkpoint.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import type { Flags } from "../config-flags.ts";
import { helpText } from "../help-text.ts";
import type { Invocation } from "../invocation.ts";
import { countText } from "../text-table.ts";
import { withServers } from "./cluster-client.ts";
import { addClusterFlags, clusterRequest } from "./cluster-flags.ts";
import { stepOption } from "./step-option.ts";

const HELP = `
The servers read it where their --checkpoint-dir says. They must not have parameters, nor anything
that was pushed through kv: servers that are to begin with a checkpoint are better started with --restore.

Examples:
  $ weighbridge checkpoint restore --scheduler-port 9700
  $ weighbridge checkpoint restore --scheduler-port 9700 --step 120`;

type RestoreFlags = Flags & { readonly step?: number };

export function restoreCommand(_invocation: Invocation): Command {
  const command = new Command("restore")
    .summary("restore a running cluster from a checkpoint")
    .description("Has the servers of a running cluster without parameters restore a checkpoint, however many servers took it.")
    .addOption(stepOption())
    .addHelpText("after", helpText(HELP))
    .action(async ({ step, ...flags }: RestoreFlags) => {
      const restored = await withServers(clusterRequest(flags), (servers) => restoreCheckpoint(servers, step));
      const { path, clock, parameters, sums, wasRestored } = restored;
      if (wasRestored)
        throw new WeighbridgeError(
          "BAD_ARGUMENT",
          `the cluster was restored from ${path} before, and nothing was loaded again: clocks never go back in a running cluster. ` +
            `To go back to a checkpoint, end the cluster and start its servers with --restore ${path}`,
        );
      const added = sums.length === 0 ? "" : `, ${countText(sums.length, "table")} of sums`;
      process.stdout.write(`${path}: clock ${clock}, ${countText(parameters.length, "parameter")}${added}\n`);
    });
  return addClusterFlags(command);
}
