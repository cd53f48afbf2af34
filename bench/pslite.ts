// pslite — what ps-lite's protocol costs: compares a cluster of ours over it with one over our own protocol, and, with
// PSLITE_BENCH naming a program of ps-lite, our server with its own server under its own worker. Both sides take turns;
// medians.
//
//   node bench/pslite.ts [--short] [--rounds n] [--warm-up-ms 5000] [CASE…]
//
// `node bench/pslite.ts --clusters [--short] [CASE…]` compares a whole cluster of ours, over our own protocol, with one
// of theirs, in the same pattern and in turns: what the column "ps-lite" of bench/RESULTS.md is. The program has to
// know the case by its name (cases.ts): mix, -fresh and -spread too.
//
// That program is called `PROGRAM CASE SECONDS` with DMLC_* variables for its role. It registers with StartAsync,
// enters a barrier of all, runs the case against application 0 (values are summed), prints one JSON line with
// `gbPerSec` and `reqPerSec` as worker, and finalizes.
//
// A server of ours is a new process each round, and its code is being compiled in the first second or two; what the
// program warms up by itself (0.3 s in the one we use) does not cover that. So a round lasts PROGRAM_SECONDS, most of
// which a server of either kind has warmed up for; with `--short` it lasts SHORT_SECONDS, which shows what the
// beginning costs. Clusters of ours live through all rounds of a case, and are compared as they are after
// VAN_WARMUP_MS: both get faster for some seconds.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { parseArgs } from "node:util";
import { freePort } from "../src/node/launcher/free-port.ts";
import { type BenchCase, CASES } from "./cases.ts";
import { OurCluster } from "./our-cluster.ts";
import { median } from "./statistics.ts";

const { values: flags, positionals: names } = parseArgs({
  allowPositionals: true,
  options: {
    server: { type: "boolean", default: false },
    clusters: { type: "boolean", default: false },
    short: { type: "boolean", default: false },
    rounds: { type: "string" },
    "warm-up-ms": { type: "string", default: "5000" },
  },
});
const ROUNDS = Number(flags.rounds ?? 5);
const VAN_ROUNDS = Number(flags.rounds ?? 9);
const VAN_WARMUP_MS = Number(flags["warm-up-ms"]);
const PROGRAM_SECONDS = 8;
const SHORT_SECONDS = 2.5;
const SPAN = { warmupMs: 150, measureMs: 700 };
const CLUSTER_SPAN = { warmupMs: 150, measureMs: 2000 };
const PROGRAM = process.env.PSLITE_BENCH ?? "";
const DEFAULT_CASES = ["push-1MB-w8", "pull-1MB-w8"];
const PROGRAM_CASES = [
  ...["push-1MB-w8", "pull-1MB-w8", "push-16MB-w4", "pull-16MB-w4"],
  ...["push-10kx64-w4", "pull-10kx64-w4", "push-4B-w16", "pull-4B-w16"],
];

async function compareVans(benchCase: BenchCase): Promise<void> {
  await using own = await OurCluster.start({ regime: "free", nodesPerRole: 1 });
  await using zmq = await OurCluster.start({ regime: "free", nodesPerRole: 1, van: "zmq" });
  const rates: { readonly own: number; readonly zmq: number }[] = [];
  for (const cluster of [own, zmq]) {
    await cluster.open(benchCase);
    await cluster.measure({ warmupMs: 0, measureMs: VAN_WARMUP_MS });
  }
  for (let round = 0; round < VAN_ROUNDS; round++)
    rates.push({ own: (await own.measure(SPAN)).reqPerSec, zmq: (await zmq.measure(SPAN)).reqPerSec });
  tell(benchCase.name, "zmq over our own protocol", median(rates.map((rate) => rate.zmq)), median(rates.map((rate) => rate.own)));
}

/**
 * A cluster of theirs, new each round as a program is, and one of ours that lives through all rounds, in turns and in
 * the same pattern.
 */
async function compareClusters(benchCase: BenchCase): Promise<void> {
  await using ours = await OurCluster.start({ regime: "free", nodesPerRole: 1 });
  await ours.open(benchCase);
  await ours.measure({ warmupMs: 0, measureMs: VAN_WARMUP_MS });
  const rates: { readonly ours: number; readonly theirs: number }[] = [];
  for (let round = 0; round < ROUNDS; round++)
    rates.push({ theirs: await underProgram(benchCase.name, false), ours: (await ours.measure(CLUSTER_SPAN)).reqPerSec });
  tell(benchCase.name, "our cluster over theirs", median(rates.map((rate) => rate.ours)), median(rates.map((rate) => rate.theirs)));
}

async function compareServers(caseName: string): Promise<void> {
  const rates: { readonly ours: number; readonly theirs: number }[] = [];
  for (let round = 0; round < ROUNDS; round++)
    rates.push({ ours: await underProgram(caseName, true), theirs: await underProgram(caseName, false) });
  tell(
    caseName,
    "our server over theirs, under their worker",
    median(rates.map((rate) => rate.ours)),
    median(rates.map((rate) => rate.theirs)),
  );
}

/** Requests per second of ps-lite's worker. */
async function underProgram(caseName: string, isServerOurs: boolean): Promise<number> {
  const env = {
    ...process.env,
    DMLC_PS_ROOT_URI: "127.0.0.1",
    DMLC_PS_ROOT_PORT: String(await freePort("127.0.0.1")),
    DMLC_NODE_HOST: "127.0.0.1",
    DMLC_NUM_SERVER: "1",
    DMLC_NUM_WORKER: "1",
    DMLC_PS_VAN_TYPE: "zmq",
  };
  const run = (role: string, command: string, args: readonly string[]): ReturnType<typeof spawn> =>
    spawn(command, args, { env: { ...env, DMLC_ROLE: role }, stdio: ["ignore", role === "worker" ? "pipe" : "ignore", "ignore"] });
  const program = [caseName, String(flags.short ? SHORT_SECONDS : PROGRAM_SECONDS)];
  const server = isServerOurs ? run("server", process.execPath, [import.meta.filename, "--server"]) : run("server", PROGRAM, program);
  const children = [run("scheduler", PROGRAM, program), server, run("worker", PROGRAM, program)];
  let output = "";
  children[2]?.stdout?.on("data", (chunk: Buffer) => {
    output += chunk.toString();
  });
  await Promise.all(children.map((child) => once(child, "close")));
  const line = /^\{.*\}$/m.exec(output)?.[0];
  if (line === undefined) throw new Error(`${PROGRAM} printed no result for ${caseName}`);
  return (JSON.parse(line) as { reqPerSec: number }).reqPerSec;
}

async function serve(): Promise<void> {
  const { start } = await import("../src/node/start.ts");
  const { Group, KVServer } = await import("../src/faces/kv/index.ts");
  const office = await start({ startBarrier: false });
  new KVServer(office, 0);
  await office.barrier(0, Group.ALL);
  await office.finalize();
}

function tell(caseName: string, what: string, first: number, second: number): void {
  console.log(`${caseName.padEnd(18)} ${(first / second).toFixed(2)}   ${first.toFixed(0)} / ${second.toFixed(0)} req/s   ${what}`);
}

/** Cases of one pair of nodes and keys and values: all that ps-lite has. */
async function compareAllClusters(names: readonly string[]): Promise<void> {
  if (PROGRAM === "") throw new Error("PSLITE_BENCH names no program of ps-lite");
  const cases = CASES.filter(({ engine, nodesPerRole }) => engine === "kv" && nodesPerRole === 1);
  const unknown = names.find((name) => !cases.some((benchCase) => benchCase.name === name));
  if (unknown !== undefined) throw new Error(`no case is named ${unknown}; there are ${cases.map(({ name }) => name).join(", ")}`);
  for (const benchCase of cases) if (names.length === 0 || names.includes(benchCase.name)) await compareClusters(benchCase);
}

if (flags.server) await serve();
else if (flags.clusters) await compareAllClusters(names);
else {
  const unknown = names.find((name) => !PROGRAM_CASES.includes(name));
  if (unknown !== undefined) throw new Error(`no case is named ${unknown}; there are ${PROGRAM_CASES.join(", ")}`);
  const isChosen = (name: string): boolean => names.length === 0 || names.includes(name);
  for (const name of DEFAULT_CASES.filter(isChosen)) {
    const benchCase = CASES.find((candidate) => candidate.name === name);
    if (benchCase !== undefined) await compareVans(benchCase);
  }
  if (PROGRAM !== "") for (const name of PROGRAM_CASES.filter(isChosen)) await compareServers(name);
}
