// status — who is there, by what the scheduler knows.

import { Command } from "commander";
import { loadConfig } from "../node/config/config.ts";
import { schedulerAddress } from "../node/config/node-config.ts";
import { realClock } from "../node/real-clock.ts";
import { SocketTransport } from "../node/transport/socket-transport.ts";
import { addConfigFlags, configFlags, type Flags } from "./config-flags.ts";
import { helpText } from "./help-text.ts";
import type { Invocation } from "./invocation.ts";
import { statusProblems } from "./status-check.ts";
import { askStatus } from "./status-client.ts";
import { statusText } from "./status-table.ts";

const DEADLINE_MS = 3000;
/** What the others of the cluster are told is of no concern to one who only asks; but a configuration has to be whole. */
const STAND_INS = { role: "worker", serverCount: 1, workerCount: 1, rank: 0, threads: 1 } as const;

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
      const config = loadConfig({ options: STAND_INS, commandLine: configFlags(flags), env: process.env, warn: () => {} });
      const address = schedulerAddress(config);
      const clock = realClock();
      const reply = await askStatus({ address, deadlineMs: DEADLINE_MS, clock, transport: new SocketTransport({ clock }) });
      process.stdout.write(`${flags.json === true ? JSON.stringify(reply, null, 2) : statusText(reply, address, terminalColumns())}\n`);
      if (flags.check !== true) return;
      const problems = statusProblems(reply);
      for (const problem of problems) process.stderr.write(`weighbridge: ${problem}\n`);
      if (problems.length > 0) invocation.exitCode = 1;
    });
  return addConfigFlags(command, { only: ["schedulerHost", "schedulerPort", "transport", "van", "socketDir", "config", "section"] });
}
