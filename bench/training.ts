// training — how fast a real training job makes steps, and how long its workers wait: LeNet-5 on MNIST, batches of 64,
// every weight on two servers, each node its own process, as `weighbridge train` runs it. With 1 and 2 workers, with
// overlap and without, the four in turn. With `--task mf --cache-rows 4000`: matrix factorisation, whose rows the
// workers keep or do not, with overlap and without.
//
//   node bench/training.ts [--rounds n] [--limit samples] [--servers n] [--workers n]... [--task name]
//       [--cache-rows count]
//
// Steps a second of the whole job (a step is a batch of all workers together), and the share of the workers' time that
// they waited for parameters: medians, and in brackets the least and greatest. With as many cores as workers and
// servers, more workers make more steps; with fewer, waiting for parameters is mostly waiting for a core.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { median } from "./statistics.ts";

const COMMAND = join(import.meta.dirname, "../bin/weighbridge.mjs");
const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "3" },
    limit: { type: "string", default: "12800" },
    servers: { type: "string", default: "2" },
    workers: { type: "string", multiple: true, default: ["1", "2"] },
    task: { type: "string", default: "lenet" },
    "cache-rows": { type: "string" },
  },
});

type Way = { readonly workers: number; readonly overlap: boolean; readonly cacheRows: string | undefined };
type Figures = { readonly stepsPerSec: number; readonly waitPercent: number };

const CACHES = values["cache-rows"] === undefined ? [undefined] : [undefined, values["cache-rows"]];
const WAYS: readonly Way[] = values.workers
  .map(Number)
  .flatMap((workers) => [true, false].flatMap((overlap) => CACHES.map((cacheRows) => ({ workers, overlap, cacheRows }))));

async function train({ workers, overlap, cacheRows }: Way): Promise<Figures> {
  const flags = ["--quiet", "--no-checkpoint", "--limit", values.limit, "-s", values.servers, "-w", String(workers)];
  if (overlap) flags.push("--overlap");
  if (cacheRows !== undefined) flags.push("--cache-rows", cacheRows);
  const child = spawn(process.execPath, [COMMAND, "train", values.task, ...flags], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
  });
  const [code] = (await once(child, "close")) as [number | null];
  const figures = /throughput .*, ([\d.,]+) steps\/s.*?waiting +([\d.]+) %/s.exec(text);
  if (code !== 0 || figures === null) throw new Error(`the training ended with ${code}\n${text}`);
  return { stepsPerSec: Number(figures[1]?.replaceAll(",", "")), waitPercent: Number(figures[2]) };
}

const measured = new Map<Way, Figures[]>(WAYS.map((way) => [way, []]));
for (let round = 0; round < Number(values.rounds); round++) for (const way of WAYS) measured.get(way)?.push(await train(way));

console.log(`${values.task}, ${values.limit} samples, ${values.servers} servers, median of ${values.rounds} [least, greatest]\n`);
console.log("workers  overlap  cached  steps/s                waiting %");
for (const [{ workers, overlap, cacheRows = "-" }, figures] of measured) {
  const cell = (of: (one: Figures) => number): string => {
    const all = figures.map(of);
    return `${median(all).toFixed(1)} [${Math.min(...all).toFixed(1)}, ${Math.max(...all).toFixed(1)}]`;
  };
  const speed = cell(({ stepsPerSec }) => stepsPerSec).padEnd(23);
  const way = `${String(workers).padStart(7)}  ${(overlap ? "on" : "off").padEnd(7)}  ${cacheRows.padEnd(6)}`;
  console.log(`${way}  ${speed}${cell(({ waitPercent }) => waitPercent)}`);
}
