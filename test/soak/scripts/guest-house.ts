// A cluster of a scheduler, two servers and a worker in one process, over sockets, that guests of other processes
// visit: guest-house.ts HEARTBEAT_TIMEOUT_MS. To each message of its parent it answers with what it holds. Needs
// --expose-gc.

import { setTimeout as sleep } from "node:timers/promises";
import { Session } from "../../../src/api/session.ts";
import { assert } from "../../../src/base/assert.ts";
import { SILENT_LOG } from "../../../src/base/log.ts";
import type { Postoffice } from "../../../src/faces/kv/postoffice.ts";
import { freePort } from "../../../src/node/launcher/free-port.ts";
import { realClock } from "../../../src/node/real-clock.ts";
import { SocketTransport } from "../../../src/node/transport/socket-transport.ts";
import { SchedulerNode } from "../../../src/scheduler/scheduler-node.ts";
import { ServerNode } from "../../../src/server/server-node.ts";
import { startOffice } from "../../../src/testing/start-office.ts";
import { isGuest, type Role } from "../../../src/wire/node-id.ts";

/** What is counted is of guests alone. */
export type Holdings = {
  readonly rssBytes: number;
  readonly heapBytes: number;
  readonly externalBytes: number;
  readonly arenaBytes: number;
  readonly listed: number;
  readonly conversations: number;
  readonly stamps: number;
  readonly keyLists: number;
  /** All links of the scheduler and the servers, whoever has them. */
  readonly links: number;
};

const heartbeatTimeoutMs = Number(process.argv[2]);
const port = await freePort("127.0.0.1");
const clock = realClock();

async function start(role: Role): Promise<Postoffice> {
  return await startOffice({
    ...{ role, serverCount: 2, workerCount: 1, schedulerAddress: `tcp://127.0.0.1:${port}`, clock, log: SILENT_LOG },
    ...(role === "server" ? { listenAddress: "tcp://127.0.0.1:0" } : {}),
    transport: new SocketTransport({ clock }),
    ...{ heartbeatIntervalMs: 1000, heartbeatTimeoutMs },
  });
}

const [scheduler, first, second, worker] = await Promise.all((["scheduler", "server", "server", "worker"] as const).map(start));
assert(scheduler !== undefined && first !== undefined && second !== undefined && worker !== undefined, "four nodes were started");
const session = await Session.open(worker.node);
const optimizer = { type: "dcAsgd", learningRate: 0.1 } as const;
await session.tensor("delayed", { shape: [4096], consistency: "asp", optimizer });
await session.embedding("linked", { dim: 8, consistency: "asp", optimizer, link: { keyCache: true } });

function serverNodes(): ServerNode[] {
  return [first, second].map((office) => {
    assert(office?.node instanceof ServerNode, "a server");
    return office.node;
  });
}

async function holdings(): Promise<Holdings> {
  const { gc } = globalThis;
  assert(gc !== undefined, "started with --expose-gc");
  for (let i = 0; i < 3; i++) {
    gc({ type: "major", execution: "sync", flavor: "last-resort" }); // which gives pages back, too
    await sleep(50); // what is finalised is freed in a later turn
  }
  const nodes = serverNodes();
  const servers = nodes.map(({ server }) => server);
  const channels = [scheduler, first, second].flatMap((office) => [...(office?.node.peer.channels() ?? [])]);
  assert(scheduler?.node instanceof SchedulerNode, "a scheduler");
  const { rss, heapUsed, external } = process.memoryUsage();
  const count = (numbers: Iterable<number>): number => [...numbers].filter(isGuest).length;
  return {
    ...{ rssBytes: rss, heapBytes: heapUsed, externalBytes: external },
    arenaBytes: servers.reduce((sum, { arena }) => sum + arena.usedBytes, 0),
    listed: servers.reduce((sum, { guests }) => sum + guests.size, scheduler.node.scheduler?.status().guests?.length ?? 0),
    conversations: count(channels.map(({ id }) => id)),
    stamps: count(servers.flatMap((server) => [...server.clock.entries()].map(([node]) => node))),
    keyLists: count(servers.flatMap(({ parameters }) => parameters.host.keyLists.save().map(({ worker: node }) => node))),
    links: channels.length,
  };
}

process.on("message", () => void holdings().then((held) => process.send?.(held)));
process.send?.(port);
