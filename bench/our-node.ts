// our-node — one node of our cluster under measurement, a process of its own. DMLC_ROLE decides what it is; the driver
// decides what it does.

import { Session } from "../src/api/session.ts";
import { KVServer, KVWorker } from "../src/faces/kv/index.ts";
import { loadConfig } from "../src/node/config/config.ts";
import { nodeSessions } from "../src/node/node-sessions.ts";
import { officeOver } from "../src/node/start.ts";
import { CaseRunner, type KeyValueClient, type Round } from "./case-runner.ts";
import { type BenchCase, CASES } from "./cases.ts";
import { serveCommands } from "./command-loop.ts";
import { KeySpace } from "./key-space.ts";
import type { Figure, Span } from "./meter.ts";
import { openParameter } from "./parameter-client.ts";

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
const APP_COUNT = CASES.length + 1;
const CUSTOMER_ID = 0;

type Office = Awaited<ReturnType<typeof officeOver>>;

let office: Office | undefined;
let session: Session | undefined;
const workers = new Map<number, KVWorker>();
let runner: CaseRunner | undefined;

function opened(): CaseRunner {
  if (runner === undefined) throw new Error("no case is open on this node");
  return runner;
}

function kvWorker(worker: Office, { name }: BenchCase): KVWorker {
  const app = CASES.findIndex((candidate) => candidate.name === name) + 1;
  const known = workers.get(app) ?? new KVWorker(worker, app, CUSTOMER_ID);
  workers.set(app, known);
  return known;
}

async function parameter(worker: Office, benchCase: BenchCase): Promise<KeyValueClient> {
  session ??= await Session.open(worker.node);
  return await openParameter(session, benchCase);
}

serveCommands<OurNodeProtocol>({
  async start() {
    office = await officeOver(loadConfig({ env: process.env }), { sessions: nodeSessions });
    if (office.isServer) for (let app = 0; app < APP_COUNT; app++) new KVServer(office, app);
    return { rank: office.myRank };
  },
  async open(benchCase) {
    if (office?.isWorker !== true) throw new Error("only a started worker can open a case");
    const client = benchCase.engine === "kv" ? kvWorker(office, benchCase) : await parameter(office, benchCase);
    runner = new CaseRunner(benchCase, new KeySpace(benchCase, office.serverKeyRanges(), office.myRank), client, office.myRank);
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
