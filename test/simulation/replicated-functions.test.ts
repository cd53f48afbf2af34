// Goal: functions and plug-ins of users on replicated servers: those that can be repeated are, also those that throw,
// and what they keep goes to standbys that come later; all others are refused by name.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import type { FunctionContext } from "../../src/contracts/function-context.ts";
import { type PsFunction, psFunction } from "../../src/contracts/ps-function.ts";
import type { PlugInModule } from "../../src/store/plug-ins.ts";
import { psUpdater } from "../../src/store/updaters/ps-updater.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { idOf, roleOf } from "../../src/wire/node-id.ts";
import { SETTLING } from "../support/settling.ts";

const HEAD = idOf("server", 0);
const STANDBY = idOf("standby", 0);

type Counts = { readonly byName: Map<string, number> };

const countsOf = (server: FunctionContext): Counts => server.own("counts", () => ({ byName: new Map() }));

/** Counts words, and throws for one of them after it has counted it. */
const count = psFunction({
  name: "count",
  request: { word: "string" },
  response: { times: "u32" },
  deterministic: true,
  save: (server) => new TextEncoder().encode(JSON.stringify([...countsOf(server).byName])),
  load: (server, saved) => {
    const { byName } = countsOf(server);
    byName.clear();
    for (const [word, times] of JSON.parse(new TextDecoder().decode(saved)) as [string, number][]) byName.set(word, times);
  },
  handler: (server, { word }) => {
    const { byName } = countsOf(server);
    const times = (byName.get(word) ?? 0) + 1;
    byName.set(word, times);
    if (word === "bad") throw new Error("a bad word");
    return { times };
  },
});

const timesOf = psFunction({
  name: "timesOf",
  request: { word: "string" },
  response: { times: "u32" },
  reads: true,
  handler: (server, { word }) => ({ times: countsOf(server).byName.get(word) ?? 0 }),
});

/** One rank with its standby, whose servers have these functions. */
class Stage implements AsyncDisposable {
  readonly cluster: SimCluster;
  session!: Session;

  constructor(functions: readonly PsFunction[], plugIns: readonly PlugInModule[] = []) {
    const isServer = (node: number): boolean => roleOf(node) === "server" || roleOf(node) === "standby";
    this.cluster = new SimCluster({
      seed: 1,
      serverCount: 1,
      workerCount: 1,
      replicas: 2,
      heartbeatIntervalMs: 50,
      heartbeatTimeoutMs: 500,
      settle: SETTLING,
      optionsOf: (node) => (isServer(node) ? { functions, plugIns, fillBytes: 1024, digestEntries: 5 } : {}) as never,
    });
  }

  async open(): Promise<this> {
    await this.cluster.start();
    this.session = await this.cluster.run(Session.open(this.cluster.worker(0).node));
    return this;
  }

  async call(word: string): Promise<number> {
    return (await this.cluster.run(this.session.call(count, { server: 0 }, { word }))).times;
  }

  async times(word: string): Promise<number> {
    return (await this.cluster.run(this.session.call(timesOf, { server: 0 }, { word }))).times;
  }

  get isCounted(): boolean {
    const entry = this.cluster.scheduler.roster.nodes.find(({ node }) => node === STANDBY);
    return entry?.state === "alive" && entry.isFilling === undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { cluster } = this;
    await cluster.run(Promise.all(cluster.nodes().map((node) => cluster.running(node)?.close())));
  }
}

test("a deterministic function is repeated, with what it did before it threw: the standby that takes over goes on (RepeatedFunction.R2)", async () => {
  await using stage = await new Stage([count, timesOf]).open();
  assert.deepEqual([await stage.call("a"), await stage.call("a")], [1, 2]);
  await assert.rejects(stage.call("bad"), throwsCode("HANDLER_FAILED", /a bad word/));
  stage.cluster.kill(HEAD);
  assert.deepEqual([await stage.call("a"), await stage.times("bad"), await stage.times("a")], [3, 1, 3]);
});

test("what functions keep goes to a standby that comes later (RepeatedFunction.R3)", async () => {
  await using stage = await new Stage([count, timesOf]).open();
  stage.cluster.kill(STANDBY);
  for (let i = 0; i < 3; i++) await stage.call("a");
  await stage.cluster.run(stage.cluster.startNode(STANDBY));
  let calls = 3;
  while (!stage.isCounted) assert.equal(await stage.call("a"), ++calls);
  await assert.rejects(stage.call("bad"), throwsCode("HANDLER_FAILED"));
  stage.cluster.kill(HEAD);
  assert.deepEqual([await stage.call("a"), await stage.times("bad")], [calls + 1, 1]);
});

test("what could not be repeated is refused by name: at the start, or when it is called", async () => {
  const refused = (fn: PsFunction, pattern: RegExp): Promise<void> =>
    assert.rejects(new Stage([fn]).open(), throwsCode("UNSUPPORTED", pattern));
  const nothing = { request: {}, response: {} } as const;
  await refused(psFunction({ name: "touch", ...nothing, handler: () => ({}) }), /the function touch changes state/);
  const late = psFunction({ name: "late", ...nothing, deterministic: true, handler: async () => ({}) });
  const doing = (name: string, act: (server: FunctionContext) => unknown): PsFunction<Record<never, never>, Record<never, never>> =>
    psFunction({
      name,
      ...nothing,
      deterministic: true,
      handler: (server) => {
        act(server);
        return {};
      },
    });
  const keeps = doing("keeps", (server) => server.own("x", () => ({})));
  const tells = doing("tells", (server) => server.workers.ranks);
  await using stage = await new Stage([late, keeps, tells]).open();
  const call = (fn: typeof late): Promise<unknown> => stage.cluster.run(stage.session.call(fn, { server: 0 }, {}));
  await assert.rejects(call(late), throwsCode("UNSUPPORTED", /the function late answers later/));
  await assert.rejects(call(keeps), throwsCode("UNSUPPORTED", /the function keeps keeps "x" of its own, without save and load/));
  await assert.rejects(call(tells), throwsCode("UNSUPPORTED", /the function tells calls workers/));
  assert.ok(stage.isCounted, "the standby repeated what they did");
  assert.throws(
    () => psFunction({ name: "half", ...nothing, save: () => new Uint8Array(), handler: () => ({}) }),
    throwsCode("BAD_ARGUMENT", /save and load, both/),
  );
});

test("an updater that is not deterministic is refused by name", async () => {
  const updater = psUpdater({ name: "dice", version: 1, deterministic: false, update: () => {} });
  const plugIns = [{ module: "dice.ts", hash: "1", updaters: [updater as never], rowTypes: [] }];
  await assert.rejects(new Stage([], plugIns).open(), throwsCode("UNSUPPORTED", /the updater "dice" of dice.ts is not deterministic/));
});
