// status — who is there, by what the scheduler knows.

import { Command } from "commander";
import { askStatus, clusterRequest } from "./cluster-client.ts";
import { addConfigFlags, type Flags, helpText, type Invocation } from "./command-parts.ts";
import { statusProblems, statusText } from "./status-table.ts";

const HELP = `
Examples:
  $ weighbridge status --scheduler-port 9700
  $ weighbridge status --scheduler-port 9700 --check || echo "somebody is missing"
  $ weighbridge status --scheduler-host scheduler.example --scheduler-port 9700 --json`;

/** Endless where no terminal breaks lines: what scripts read stays as it is. */
function terminalColumns(): number {
  return process.stdout.isTTY ? process.stdout.columns : Infinity;
}

export function statusCommand(invocation: Invocation): Command {
  const command = new Command("status")
    .summary("show who is in a cluster")
    .description("Asks a scheduler who is in its cluster: rank, address, state, and when each was last heard of.")
    .option("--json", "print what the scheduler says as JSON")
    .option("--check", "exit with 1 unless all nodes have come and none is dead or cut off; a worker that has left is done")
    .addHelpText("after", helpText(HELP))
    .action(async (flags: Flags) => {
      const { address, findMs, clock, transport } = clusterRequest(flags);
      const reply = await askStatus({ address, deadlineMs: findMs, clock, transport });
      process.stdout.write(`${flags.json === true ? JSON.stringify(reply, null, 2) : statusText(reply, address, terminalColumns())}\n`);
      if (flags.check !== true) return;
      const problems = statusProblems(reply);
      for (const problem of problems) process.stderr.write(`weighbridge: ${problem}\n`);
      if (problems.length > 0) invocation.exitCode = 1;
    });
  return addConfigFlags(command, { only: ["schedulerHost", "schedulerPort", "transport", "van", "socketDir", "config", "section"] });
}
