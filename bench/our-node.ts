// our-node — one node of our cluster under measurement, a process of its own. DMLC_ROLE decides what it is; the driver decides what it does.

import { KVServer, KVWorker } from "../src/kv/index.ts";
import { start } from "../src/node/index.ts";
import { CaseRunner, type Round } from "./case-runner.ts";
import { type BenchCase, CASES } from "./cases.ts";
import { serveCommands } from "./command-loop.ts";
import { KeySpace } from "./key-space.ts";
import type { Figure, Span } from "./meter.ts";

/** `open` to `verifyPushes` are for workers. A worker holds one case at a time. */
export type OurNodeProtocol = {
  start: { request: null; reply: { rank: number } };
  open: { request: BenchCase; reply: null };
  fill: { request: null; reply: Figure };
  run: { request: Span; reply: Round };
  verifyPushes: { request: { pushCounts: readonly number[] }; reply: null };
  memory: { request: null; reply: { rssMb: number } };
  finalize: { request: null; reply: null };
};

/** An application per case, so that each has a store of its own, with values of one width, as an application has. */
const APP_COUNT = 64;
const CUSTOMER_ID = 0;

let office: Awaited<ReturnType<typeof start>> | undefined;
const workers = new Map<number, KVWorker>();
let runner: CaseRunner | undefined;

function opened(): CaseRunner {
  if (runner === undefined) throw new Error("no case is open on this node");
  return runner;
}

serveCommands<OurNodeProtocol>({
  async start() {
    office = await start({});
    if (office.isServer) for (let app = 0; app < APP_COUNT; app++) new KVServer(office, app);
    return { rank: office.myRank };
  },
  open(benchCase) {
    if (office?.isWorker !== true) throw new Error("only a started worker can open a case");
    const app = CASES.findIndex(({ name }) => name === benchCase.name) + 1;
    const worker = workers.get(app) ?? new KVWorker(office, app, CUSTOMER_ID);
    workers.set(app, worker);
    runner = new CaseRunner(benchCase, new KeySpace(benchCase, office.serverKeyRanges()), worker, office.myRank);
    return null;
  },
  fill: () => opened().fill(),
  run: (span) => opened().run(span),
  async verifyPushes({ pushCounts }) {
    await opened().verifyPushes(pushCounts);
    return null;
  },
  memory: () => ({ rssMb: process.memoryUsage.rss() / 1e6 }),
  async finalize() {
    await office?.finalize();
    return null;
  },
});
