// busy-member — a worker that blocks its loop now and then, as long training steps do, and compares what it reads
// after each step with a model of all workers. Each worker adds to a column of its own, by tables of staleness 0,
// a tensor under BSP, or the shared model between machines under BSP: --face. --blocks "1:3:2500" blocks worker 1
// for 2500 ms in its step 3. With --lost, what that worker adds may be missing. An error of the parameter server
// is told by its code. --ports 1,2 --client 1: tables of a host map, whose first process has the scheduler.

import { parseArgs } from "node:util";
import { connect, isWeighbridgeError } from "weighbridge";
import { createSharedModel } from "weighbridge/shared-model";
import { denseRow, TableGroup } from "weighbridge/tables";

const { values: options } = parseArgs({
  options: {
    ...{ face: { type: "string" }, steps: { type: "string" }, workers: { type: "string" }, pause: { type: "string", default: "0" } },
    ...{ ports: { type: "string" }, client: { type: "string", default: "0" } },
    ...{ blocks: { type: "string", default: "" }, lost: { type: "string", default: "-1" }, spin: { type: "boolean", default: false } },
  },
});
const [steps, workers, pauseMs, lost] = [options.steps, options.workers, options.pause, options.lost].map(Number) as [
  number,
  number,
  number,
  number,
];

/** One way to share a row with a column for each worker. */
type Face = {
  readonly rank: number;
  /** Adds to the worker's own column, ends the step, and reads the columns. */
  step(value: number): Promise<ArrayLike<number>>;
  /** Reads when all workers have ended all steps; undefined where the last step has told that already. */
  end(): Promise<ArrayLike<number> | undefined>;
  close(): Promise<void>;
  /** How many steps of another worker may be in a read beyond those that have to be. */
  readonly aheadMax: number;
};

async function tables(): Promise<Face> {
  const group = new TableGroup();
  const row = denseRow("i32");
  group.registerRow(0, row);
  const hostMap = options.ports?.split(",").map((port, id) => ({ id, host: "127.0.0.1", port: Number(port) }));
  const hosts = hostMap === undefined ? {} : { hostMap, clientId: Number(options.client) };
  const rank = Math.floor((await group.init({ numTables: 1, numLocalAppThreads: 1, ...hosts }, true)) / 1000);
  await group.createTable(0, { rowType: 0, rowCapacity: workers, staleness: 0, processCacheCapacity: 2, oplogCapacity: 2 });
  await group.createTableDone();
  const table = group.getTableOrDie(0, row);
  const read = async (): Promise<ArrayLike<number>> => {
    using held = await table.get(0);
    return held.toArray();
  };
  return {
    ...{ rank, aheadMax: 1 },
    step: async (value) => {
      table.inc(0, rank, value);
      group.clock();
      return await read();
    },
    end: async () => {
      group.globalBarrier();
      return await read();
    },
    close: async () => await group.shutDown(),
  };
}

async function tensors(): Promise<Face> {
  const session = await connect();
  const tensor = await session.tensor("columns", { shape: [workers], consistency: "bsp", optimizer: { type: "sum" } });
  return {
    ...{ rank: session.rank, aheadMax: 0 },
    step: async (value) => {
      await tensor.push(Float32Array.from({ length: workers }, (_, column) => (column === session.rank ? value : 0)));
      session.clock();
      return await tensor.pull();
    },
    end: async () => undefined,
    close: async () => await session.close(),
  };
}

async function model(): Promise<Face> {
  const session = await connect();
  const shared = createSharedModel("dist", { session, consistency: "bsp", updater: { type: "sum" } });
  await shared.init([0]);
  await shared.initKey([workers], 0, 0);
  const data = shared.tensor([workers], 0);
  return {
    ...{ rank: session.rank, aheadMax: 0 },
    step: async (value) => {
      data.fill(0);
      data[session.rank] = value;
      shared.push(data, 0, 0);
      shared.pullReq(data, 0, 0);
      await shared.pullWait(0, 0);
      return data;
    },
    end: async () => undefined,
    close: async () => {
      await shared.close();
      await session.close();
    },
  };
}

/** What a worker adds in a step. */
function addedBy(worker: number, step: number): number {
  return 1 + ((7 * worker + 3 * step) % 5);
}

/** By worker: the sum of what it adds in its first steps. */
const sums = Array.from({ length: workers }, (_, worker) => {
  const prefix = [0];
  for (let step = 0; step < steps; step++) prefix.push((prefix[step] as number) + addedBy(worker, step));
  return prefix;
});

function check(columns: ArrayLike<number>, done: number, { rank, aheadMax }: Face): void {
  for (const [worker, prefix] of sums.entries()) {
    const least = worker === lost ? 0 : (prefix[done] as number);
    const most = prefix[Math.min(steps, worker === rank ? done : done + aheadMax)] as number;
    const found = columns[worker] as number;
    if (!(found >= least && found <= most))
      throw new Error(`after ${done} steps of worker ${rank} the column of worker ${worker} is ${found}, not ${least} to ${most}`);
  }
}

function block(ms: number): void {
  const endsAt = performance.now() + ms;
  if (options.spin) while (performance.now() < endsAt);
  else Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

const face = await { tables, tensors, model }[options.face as "tables"]();
const blocks = options.blocks
  .split(",")
  .map((text) => text.split(":").map(Number))
  .filter(([rank]) => rank === face.rank);
try {
  for (let step = 0; step < steps; step++) {
    for (const [, at, ms] of blocks) if (at === step) block(ms as number);
    check(await face.step(addedBy(face.rank, step)), step + 1, face);
    console.log(`step ${step}`);
    if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
  const columns = await face.end();
  if (columns !== undefined) check(columns, steps, face);
  console.log(`worker ${face.rank} read what it must in ${steps} steps`);
} catch (error) {
  if (!isWeighbridgeError(error)) throw error;
  console.log(`learned ${error.code}: ${error.message}`);
  process.exit(0);
}
await face.close();
console.log("closed");
