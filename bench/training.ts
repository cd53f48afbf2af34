// training — what one machine makes of a training: one process, and the same model and the same global batch on servers
// and workers of this machine, each a process of its own. Every column takes turns with one process, its yardstick.
//
//   node bench/training.ts [--models lenet,mlp,embedding] [--columns one,two,1x1,…] [--starts n] [--rounds n]
//       [--seconds s] [--warm-up s] [--no-shared-memory]
//
// Steps a second of the global batch, median of the turns (of "two": of each, which has half the batch); in brackets
// the median of the turns' ratios to the turns of one process beside them; and the share of time that worker 0 waited.
// What a column is called is said in training-column.ts. Only ratios of one run compare: run it on a machine that does
// nothing else. Standard error has the least and the greatest ratio too. The same processes started again may differ
// by a fifth: with --starts all columns are started so often, one after the other. With --no-shared-memory nodes talk
// over sockets alone.

import { type AddressInfo, createServer } from "node:net";
import { parseArgs } from "node:util";
import type { Role } from "../src/node/config/node-config.ts";
import { engineFlags } from "../src/node/engine-flags.ts";
import { Child } from "./child.ts";
import { median } from "./statistics.ts";
import { COLUMN_NAMES, type Column, parseColumn } from "./training-column.ts";
import type { TrainingNodeProtocol, Turn } from "./training-node.ts";
import { SUBJECT_NAMES, SUBJECTS, type SubjectName } from "./training-subject.ts";

type Node = Child<TrainingNodeProtocol>;

/** How fast a column was in one turn. */
type Speed = { readonly stepsPerSec: number; readonly waitShare: number };
type Result = { readonly column: Column; readonly yardstick: Speed[]; readonly own: Speed[] };

const NODE = new URL("./training-node.ts", import.meta.url);
const { values } = parseArgs({
  options: {
    models: { type: "string", default: SUBJECT_NAMES.join(",") },
    columns: { type: "string", default: COLUMN_NAMES.join(",") },
    starts: { type: "string", default: "1" },
    rounds: { type: "string", default: "5" },
    seconds: { type: "string", default: "0.6" },
    "warm-up": { type: "string", default: "2" },
    "no-shared-memory": { type: "boolean", default: false },
  },
});
const [starts, rounds] = [Number(values.starts), Number(values.rounds)];
const [turnMs, warmUpMs] = [1000 * Number(values.seconds), 1000 * Number(values["warm-up"])];
const columns = values.columns.split(",").map(parseColumn);
const models = values.models.split(",").map((name) => {
  const known = SUBJECT_NAMES.find((one) => one === name);
  if (known === undefined) throw new Error(`no model is named ${name}; there are ${SUBJECT_NAMES.join(", ")}`);
  return known;
});

/** The processes of a column, which train one model from `start` on. */
class Processes implements AsyncDisposable {
  readonly #nodes: readonly Node[];
  /** Those that have turns. */
  readonly #paced: readonly Node[];

  private constructor(nodes: readonly Node[], paced: readonly Node[]) {
    this.#nodes = nodes;
    this.#paced = paced;
  }

  static async start(column: Column, subject: SubjectName): Promise<Processes> {
    const { aloneCount, servers, workers, onServers, devices, overlap } = column;
    const clusterEnv = {
      DMLC_PS_ROOT_URI: "127.0.0.1",
      DMLC_PS_ROOT_PORT: String(await freePort()),
      DMLC_NUM_SERVER: String(servers),
      DMLC_NUM_WORKER: String(workers),
      WEIGHBRIDGE_LOG_LEVEL: "error",
      ...(values["no-shared-memory"] ? { WEIGHBRIDGE_SHARED_MEMORY: "off" } : {}),
    };
    const node = (role: Role | undefined, index: number): Node =>
      new Child({
        name: `${column.name}: ${role ?? "process"} ${index}`,
        script: NODE,
        regime: "free",
        env: role === undefined ? {} : { ...clusterEnv, DMLC_ROLE: role },
        nodeArgs: engineFlags(role ?? "worker"),
      });
    const some = (role: Role | undefined, count: number): Node[] => Array.from({ length: count }, (_, index) => node(role, index));
    const others = aloneCount > 0 ? [] : [...some("scheduler", 1), ...some("server", servers)];
    const training = aloneCount > 0 ? some(undefined, aloneCount) : some("worker", workers);
    const paced = aloneCount > 0 ? training : training.slice(0, 1);
    const processes = new Processes([...training, ...others], paced);
    try {
      await Promise.all(processes.#nodes.map((each) => each.ask("start", null)));
      const batchSize = SUBJECTS[subject].batchSize / Math.max(1, aloneCount);
      const common = { subject, batchSize, workers: Math.max(1, workers), onServers, devices, overlap };
      await Promise.all(training.map((each) => each.ask("train", { ...common, isPaced: paced.includes(each) })));
      await processes.turn(warmUpMs);
    } catch (error) {
      await processes[Symbol.asyncDispose]();
      throw error;
    }
    return processes;
  }

  async turn(ms: number): Promise<Speed> {
    const turns = await Promise.all(this.#paced.map((each) => each.ask("run", { ms })));
    const mean = (of: (turn: Turn) => number): number => turns.reduce((sum, turn) => sum + of(turn), 0) / turns.length;
    return { stepsPerSec: mean((turn) => (1000 * turn.stepCount) / turn.ms), waitShare: mean((turn) => turn.waitedMs / turn.ms) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#nodes.map((each) => each.close()));
  }
}

/** A port that was free a moment ago. */
async function freePort(): Promise<number> {
  return await new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}

/** Rows of a table have no threads that share a batch, and always live on servers. */
function canTrain(subject: SubjectName, { devices, onServers, aloneCount }: Column): boolean {
  return subject !== "embedding" || (devices === 1 && (onServers || aloneCount > 0));
}

function isYardstick({ name }: Column): boolean {
  return name === "one";
}

/** Starts the column once more, and adds its turns. */
async function measure(subject: SubjectName, result: Result, one: Processes): Promise<void> {
  await using own = await Processes.start(result.column, subject);
  for (let round = 0; round < rounds; round++) {
    const isFirst = round % 2 === 0;
    if (isFirst) result.yardstick.push(await one.turn(turnMs));
    result.own.push(await own.turn(turnMs));
    if (!isFirst) result.yardstick.push(await one.turn(turnMs));
  }
}

function ratiosOf({ yardstick, own }: Result): number[] {
  return own.map(({ stepsPerSec }, i) => stepsPerSec / yardstick[i]!.stepsPerSec);
}

function cell(result: Result): string {
  const { column, own } = result;
  const speed = median(own.map(({ stepsPerSec }) => stepsPerSec));
  const ratio = median(ratiosOf(result));
  const waited = median(own.map(({ waitShare }) => waitShare));
  const waits = column.aloneCount > 0 ? "" : `, waits ${Math.round(100 * waited)} %`;
  return `${Math.round(speed).toLocaleString("en-US")} (${ratio.toFixed(2)}${waits})`;
}

console.log(
  `median of ${starts} × ${rounds} turns of ${values.seconds} s, after ${values["warm-up"]} s; steps/s (ratio to one process, share of waiting)\n`,
);
const rows: string[] = [];
for (const subject of models) {
  const results = new Map<Column, Result>();
  await using one = await Processes.start(parseColumn("one"), subject);
  for (const column of columns)
    if (canTrain(subject, column) && !isYardstick(column)) results.set(column, { column, yardstick: [], own: [] });
  for (let start = 0; start < starts; start++) for (const result of results.values()) await measure(subject, result, one);
  for (const result of results.values()) {
    const ratios = ratiosOf(result);
    const span = `${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)}`;
    process.stderr.write(`${subject} ${result.column.name}: ${cell(result)}, ${span}\n`);
  }
  const yardstick = [...results.values()].flatMap((result) => result.yardstick);
  if (yardstick.length === 0) yardstick.push(await one.turn(turnMs));
  const speed = Math.round(median(yardstick.map(({ stepsPerSec }) => stepsPerSec))).toLocaleString("en-US");
  const cells = columns.map((column) => {
    const result = results.get(column);
    if (isYardstick(column)) return speed;
    return result === undefined ? "–" : cell(result);
  });
  rows.push(`| ${[SUBJECTS[subject].title, ...cells].join(" | ")} |`);
}
console.log(`| ${["model", ...columns.map(({ name }) => name)].join(" | ")} |`);
console.log(`|${"---|".repeat(columns.length + 1)}`);
console.log(rows.join("\n"));
