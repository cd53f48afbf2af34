// pulse-memory — what the thread that speaks for a process (node/pulse.ts) adds to it: memory 2 s after its start, and
// CPU time. Fresh processes that have loaded what a node loads, with the thread and without, in turn; Linux only.
//   node bench/pulse-memory.ts [STARTS]

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { SILENT_LOG } from "../src/base/log.ts";
import { pulseFrames } from "../src/cluster/pulse.ts";
import { median } from "./statistics.ts";

const STARTS = 5;
const SETTLED_MS = 2000;
/** As with the default heartbeat timeout. */
const EVERY_MS = 500;

type Figures = { readonly rssMb: number; readonly pssMb: number; readonly privateMb: number; readonly cpuMs: number };
const FIGURES = ["rssMb", "pssMb", "privateMb", "cpuMs"] as const satisfies readonly (keyof Figures)[];

async function child(hasPulse: boolean): Promise<void> {
  await import("../src/node/weighbridge.ts");
  const { processPulse } = await import("../src/node/pulse.ts");
  const frames = pulseFrames({ job: "job", node: 9, incarnation: 1, token: "t" });
  const addresses = ["tcp://127.0.0.1:1"];
  if (hasPulse) processPulse(SILENT_LOG).speak({ node: 9, addresses, everyMs: EVERY_MS, frames });
  setInterval(() => {}, EVERY_MS); // it stays
  process.stdout.write("ready\n");
}

async function figures(mode: "with" | "without"): Promise<Figures> {
  const started = spawn(process.execPath, [fileURLToPath(import.meta.url), mode], { stdio: ["ignore", "pipe", "inherit"] });
  try {
    await once(started.stdout, "data");
    await sleep(SETTLED_MS);
    const rollup = readFileSync(`/proc/${started.pid}/smaps_rollup`, "utf8");
    const megabytes = (name: string): number => (Number(new RegExp(`^${name}: +(\\d+)`, "m").exec(rollup)?.[1]) * 1024) / 1e6;
    return { rssMb: megabytes("Rss"), pssMb: megabytes("Pss"), privateMb: megabytes("Private_Dirty"), cpuMs: cpuMs(started.pid!) };
  } finally {
    started.kill("SIGKILL");
    await once(started, "exit");
  }
}

function cpuMs(pid: number): number {
  const nanoseconds = readdirSync(`/proc/${pid}/task`).map((thread) =>
    Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0]),
  );
  return nanoseconds.reduce((sum, one) => sum + one, 0) / 1e6;
}

async function main(starts: number): Promise<void> {
  const [without, withPulse]: [Figures[], Figures[]] = [[], []];
  for (let i = 0; i < starts; i++) {
    without.push(await figures("without"));
    withPulse.push(await figures("with"));
  }
  for (const name of FIGURES) {
    const [before, after] = [without, withPulse].map((all) => median(all.map((one) => one[name]))) as [number, number];
    console.log(`${name.padEnd(10)} ${before.toFixed(1)} without, ${after.toFixed(1)} with: ${(after - before).toFixed(1)} added`);
  }
}

const [mode = String(STARTS)] = process.argv.slice(2);
if (mode === "with" || mode === "without") await child(mode === "with");
else await main(Number(mode));
