// target-cluster — what hostile tests attack: a scheduler, a server and an honest worker as real nodes, and the rank
// of a second worker that the test holds itself, with nothing behind it but raw links.
//
//   app 0   the default handle, which sums
//   app 1   a handle of the user's own, which wants whole requests and keeps the sums in a Map

import assert from "node:assert/strict";
import type { Clock } from "../../src/base/clock.ts";
import type { Log, LogFields } from "../../src/base/log.ts";
import { KVServer } from "../../src/faces/kv/kv-server.ts";
import { KVWorker } from "../../src/faces/kv/kv-worker.ts";
import type { Postoffice } from "../../src/faces/kv/postoffice.ts";
import { realClock } from "../../src/node/real-clock.ts";
import { SocketTransport } from "../../src/node/transport/socket-transport.ts";
import { SimClock } from "../../src/testing/sim-clock.ts";
import { type OfficeOptions, startOffice } from "../../src/testing/start-office.ts";
import { MemoryHub, MemoryTransport } from "../../src/transport/memory-transport.ts";
import type { Address, Transport } from "../../src/transport/transport.ts";
import { Kind } from "../../src/wire/frame.ts";
import { FunctionId } from "../../src/wire/function-id.ts";
import type { Hello } from "../../src/wire/hello.ts";
import { decodeJson, encodeJson } from "../../src/wire/json-body.ts";
import { idOf } from "../../src/wire/node-id.ts";
import { type RegisterReply, type RegisterRequest, registerReplyShape } from "../../src/wire/register.ts";
import { describe, RawClient } from "./raw-client.ts";

export const SUMMING_APP = 0;
export const HANDLE_APP = 1;

const FIRST_TOKEN = "intruder";
const ARENA_BYTES = 512 * 1024 * 1024;

/** Counts what nodes say, and keeps the newest lines for messages. */
export class CountingLog implements Log {
  readonly counts: Map<string, number> = new Map();
  readonly recent: string[] = [];

  debug(message: string, fields?: LogFields): void {
    this.#count(message, fields);
  }

  info(message: string, fields?: LogFields): void {
    this.#count(message, fields);
  }

  warn(message: string, fields?: LogFields): void {
    this.#count(message, fields);
  }

  error(message: string, fields?: LogFields): void {
    this.#count(message, fields);
  }

  #count(message: string, fields: LogFields = {}): void {
    this.counts.set(message, (this.counts.get(message) ?? 0) + 1);
    this.recent.push(`${message} ${JSON.stringify(fields)}`);
    if (this.recent.length > 64) this.recent.shift();
  }
}

export type World = {
  readonly transport: Transport;
  readonly clock: Clock;
  readonly schedulerAddress: Address;
  readonly listenAddress: Address;
  /** Lets time pass until the promise settles. */
  run<T>(promise: Promise<T>): Promise<T>;
};

/** Links in memory and a simulated time: the same every run. */
export function simulatedWorld(): World & { readonly clock: SimClock } {
  const clock = new SimClock();
  return {
    clock,
    transport: new MemoryTransport({ clock, hub: new MemoryHub() }),
    schedulerAddress: "memory://scheduler",
    listenAddress: "memory://server",
    run: async (promise) => await clock.runUntil(promise, { untilMs: clock.nowMs() + 600_000, maxEvents: 50_000_000 }),
  };
}

/** Real sockets on loopback. */
export async function socketWorld(): Promise<World> {
  const clock = realClock();
  const transport = new SocketTransport({ clock });
  const free = await transport.listen("tcp://127.0.0.1:0", () => assert.fail("nobody knows this port"));
  await free.close();
  return {
    clock,
    transport,
    schedulerAddress: free.address,
    listenAddress: "tcp://127.0.0.1:0",
    run: async (promise) => await promise,
  };
}

export class TargetCluster {
  readonly world: World;
  readonly log: CountingLog;
  readonly scheduler: Postoffice;
  readonly server: Postoffice;
  readonly worker: Postoffice;
  readonly kv: KVWorker;
  readonly handleKv: KVWorker;
  readonly serverAddress: Address;
  /** Who the test is: the second worker. */
  registration: RegisterReply;
  #intruder: RawClient;
  #token = FIRST_TOKEN;

  private constructor(parts: {
    world: World;
    log: CountingLog;
    offices: [Postoffice, Postoffice, Postoffice];
    intruder: RawClient;
    registration: RegisterReply;
  }) {
    this.world = parts.world;
    this.log = parts.log;
    [this.scheduler, this.server, this.worker] = parts.offices;
    this.#intruder = parts.intruder;
    this.registration = parts.registration;
    new KVServer(this.server, SUMMING_APP);
    serveWhole(new KVServer(this.server, HANDLE_APP));
    this.kv = new KVWorker(this.worker, SUMMING_APP);
    this.handleKv = new KVWorker(this.worker, HANDLE_APP);
    const entry = this.scheduler.roster.nodes.find(({ node }) => node === idOf("server", 0));
    assert.ok(entry !== undefined);
    this.serverAddress = entry.address;
  }

  static async start(world: World = simulatedWorld(), options: Partial<OfficeOptions> = {}): Promise<TargetCluster> {
    const log = new CountingLog();
    const base = {
      serverCount: 1,
      workerCount: 2,
      schedulerAddress: world.schedulerAddress,
      transport: world.transport,
      clock: world.clock,
      log,
      heartbeatIntervalMs: 0,
      startBarrier: false,
      arenaBytesMax: ARENA_BYTES,
      ...options,
    };
    const scheduler = startOffice({ ...base, workerCountMax: base.workerCount, role: "scheduler" }); // others wait
    const server = startOffice({ ...base, role: "server", rank: 0, listenAddress: world.listenAddress });
    const worker = startOffice({ ...base, role: "worker", rank: 0 });
    const intruder = registerIntruder(world, FIRST_TOKEN);
    const [offices, { client, registration }] = await world.run(Promise.all([Promise.all([scheduler, server, worker]), intruder]));
    return new TargetCluster({ world, log, offices, intruder: client, registration });
  }

  get identity(): Hello {
    const { job, node, incarnation } = this.registration;
    return { job, kind: "worker", node, incarnation, expects: 1, token: this.#token };
  }

  get addresses(): readonly Address[] {
    return [this.world.schedulerAddress, this.serverAddress];
  }

  /** The node that listens at this address. */
  officeAt(address: Address): Postoffice {
    return address === this.serverAddress ? this.server : this.scheduler;
  }

  /** Lets things come to rest. */
  async settle(): Promise<void> {
    const { clock, run } = this.world;
    await run(new Promise<void>((resolve) => clock.after(20, resolve)));
  }

  /** A link to the server that has said it is the second worker. */
  async intrude(address: Address = this.serverAddress): Promise<RawClient> {
    return await this.world.run(RawClient.greet(this.world.transport, address, this.identity));
  }

  async anonymous(address: Address = this.serverAddress): Promise<RawClient> {
    return await this.world.run(RawClient.greet(this.world.transport, address));
  }

  async stranger(address: Address = this.serverAddress): Promise<RawClient> {
    return await this.world.run(RawClient.connect(this.world.transport, address));
  }

  /**
   * Registers as the second worker again, in a new incarnation: the old one may have been lost to what the test sent.
   */
  async registerAgain(): Promise<void> {
    this.#intruder.destroy();
    await this.settle();
    this.#token = `intruder ${this.registration.incarnation}`;
    const { client, registration } = await this.world.run(registerIntruder(this.world, this.#token));
    this.#intruder = client;
    this.registration = registration;
    await this.settle(); // the server has heard of it
  }

  async close(): Promise<void> {
    this.#intruder.close();
    await this.world.run(Promise.all([this.worker.close(), this.server.close(), this.scheduler.close()]));
  }
}

/** Registers as the second worker over a link that stays open. */
async function registerIntruder(
  { transport, schedulerAddress, clock }: World,
  token: string,
): Promise<{ client: RawClient; registration: RegisterReply }> {
  for (;;) {
    try {
      const client = await RawClient.greet(transport, schedulerAddress);
      const answer = await client.ask({ functionId: FunctionId.REGISTER }, encodeJson(registration({ rank: 1, token })));
      if (answer?.header.kind !== Kind.REPLY) throw new Error(answer === undefined ? "closed" : describe(answer));
      return { client, registration: decodeJson(registerReplyShape, "the answer", answer.payload) };
    } catch (thrown) {
      if (!String(thrown).includes("nothing answers")) throw thrown;
      await new Promise<void>((resolve) => clock.after(5, resolve)); // the scheduler does not listen yet
    }
  }
}

/** A legal REGISTER of a worker in this cluster, but for `fields`. */
export function registration(fields: Partial<Record<keyof RegisterRequest, unknown>> = {}): Record<string, unknown> {
  return { role: "worker", address: "", serverCount: 1, workerCount: 2, label: "intruder", token: "intruder", ...fields };
}

/** Keys of the honest worker; nobody else's, but for a chance of 2^-32. */
function isHonestKey(key: bigint): boolean {
  return key >> 32n === 0xa5a5_a5a5n;
}

const OTHER_ROWS_MAX = 10_000;

/** A sum per key in a Map, for whole requests of any widths. Keeps the rows of honest keys, and some others. */
function serveWhole(server: KVServer): void {
  const rows = new Map<bigint, number[]>();
  server.setRequestHandle((meta, { keys, vals, lens }) => {
    const out: number[] = [];
    let at = 0;
    for (const [i, key] of keys.entries()) {
      const width = lens?.[i] ?? vals.length / keys.length;
      if (meta.push) {
        const row = [...(rows.get(key) ?? [])];
        for (let j = 0; j < width; j++) row[j] = (row[j] ?? 0) + Number(vals[at + j]);
        at += width;
        if (isHonestKey(key) || (rows.size < OTHER_ROWS_MAX && row.length <= 64)) rows.set(key, row);
      }
      out.push(...(rows.get(key) ?? [0]));
    }
    server.response(meta, meta.pull ? { vals: Float32Array.from(out) } : {});
  });
}
