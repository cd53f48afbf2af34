// catalogue-restart.test — Goal: a restarted scheduler has the catalogue that its nodes know, whole, before it gives
// anybody a number.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Log, SILENT_LOG } from "../base/log.ts";
import { CatalogueCalls, rememberCatalogue } from "../cluster/catalogue-calls.ts";
import type { Membership } from "../cluster/membership.ts";
import { catalogueFind, catalogueList, catalogueOpen, catalogueTell } from "../contracts/catalogue.ts";
import { callJson } from "../peer/call-function.ts";
import { ControlCluster, HEARTBEAT_TIMEOUT_MS, SCHEDULER_ADDRESS } from "../testing/control-cluster.ts";
import { FixedCatalogue, specText } from "../testing/test-catalogues.ts";
import type { CatalogueEntry } from "../wire/catalogue.ts";
import { SCHEDULER_ID } from "../wire/node-id.ts";

const PARAMETER_COUNT = 10_000;

const entryOf = (name: string, number: number, edition = 1): CatalogueEntry => ({ name, number, edition, spec: specText(name) });

function knows(membership: Membership, entries: readonly CatalogueEntry[], highest = 0): void {
  const told = new FixedCatalogue();
  for (const entry of entries) told.add(entry);
  told.highest = Math.max(told.highest, highest);
  rememberCatalogue(membership, told, SILENT_LOG);
}

class Stage {
  readonly cluster = new ControlCluster();
  readonly errors: string[] = [];
  servers: Membership[] = [];
  workers: Membership[] = [];

  static async formed(): Promise<Stage> {
    const stage = new Stage();
    Object.assign(stage, await stage.cluster.formed());
    return stage;
  }

  async restart(): Promise<void> {
    this.cluster.network.crash("scheduler");
    await this.cluster.clock.advance(100);
    const log: Log = { ...SILENT_LOG, error: (message, fields) => this.errors.push(`${message} ${JSON.stringify(fields)}`) };
    await this.cluster.scheduler({ log });
  }

  /** The number that worker 0 is given for each of these names. */
  open(...names: readonly string[]): Promise<number[]> {
    return new CatalogueCalls({ membership: this.workers[0] as Membership, clock: this.cluster.clock })
      .open(
        names.map((name) => specText(name)),
        "number names",
      )
      .then((numbered) => numbered.map(({ number }) => number));
  }

  run<T>(promise: Promise<T>): Promise<T> {
    return this.cluster.clock.runUntil(promise, { untilMs: this.cluster.clock.nowMs() + 60_000 });
  }
}

test(`a restarted scheduler learns ${PARAMETER_COUNT} parameters from its nodes, page by page, and numbers go on above them`, async () => {
  const stage = await Stage.formed();
  const names = Array.from({ length: PARAMETER_COUNT }, (_, i) => `layer ${i}`);
  const numbers = await stage.run(stage.open(...names));
  assert.deepEqual([numbers[0], numbers.at(-1)], [1, PARAMETER_COUNT]);
  const entries = names.map((name, i) => entryOf(name, i + 1));
  for (const server of stage.servers) knows(server, entries);
  await stage.restart();
  assert.deepEqual(await stage.run(stage.open("layer 9999", "new", "layer 0")), [PARAMETER_COUNT, PARAMETER_COUNT + 1, 1]);
  const calls = new CatalogueCalls({ membership: stage.workers[1] as Membership, clock: stage.cluster.clock });
  const listed = await stage.run(calls.list());
  assert.deepEqual(
    listed.map(({ number }) => number),
    Array.from({ length: PARAMETER_COUNT + 1 }, (_, i) => i + 1),
  );
});

test("the highest number that any node has heard of is never given again, whoever knows what it named", async () => {
  const stage = await Stage.formed();
  knows(stage.workers[1] as Membership, [], 12);
  await stage.restart();
  assert.deepEqual(await stage.run(stage.open("new")), [13]);
});

test("no number is given before every node that lives has told what it knows, or is dead (CatalogueService.S1)", async () => {
  for (const isCutOff of [true, false]) {
    const stage = await Stage.formed();
    knows(stage.servers[1] as Membership, [entryOf("old", 5)]);
    if (isCutOff) stage.cluster.network.isolate("s1");
    await stage.restart();
    const restartedAtMs = stage.cluster.clock.nowMs();
    let opened: readonly number[] | undefined;
    const opening = stage.open("new", "old").then((numbers) => {
      opened = numbers;
    });
    await stage.cluster.clock.advance(HEARTBEAT_TIMEOUT_MS - 1000);
    assert.deepEqual(opened, isCutOff ? undefined : [6, 5]);
    await stage.run(opening);
    assert.deepEqual(opened, isCutOff ? [1, 2] : [6, 5]);
    if (isCutOff) assert.ok(stage.cluster.clock.nowMs() - restartedAtMs >= HEARTBEAT_TIMEOUT_MS, "server 1 is dead");
  }
});

test("nodes that disagree on a parameter are logged, and its name is refused instead of guessed (CatalogueService.S2)", async () => {
  const stage = await Stage.formed();
  knows(stage.servers[0] as Membership, [entryOf("a", 1), entryOf("c", 3)]);
  knows(stage.servers[1] as Membership, [entryOf("b", 1), entryOf("c", 3)]);
  await stage.restart();
  assert.deepEqual(await stage.run(stage.open("c", "new")), [3, 4]);
  assert.equal(stage.errors.length, 1);
  const [first, second] = /tells that number 1 is that of \\"a\\" and/.test(stage.errors[0] ?? "") ? ["a", "b"] : ["b", "a"];
  assert.match(
    stage.errors[0] ?? "",
    new RegExp(`nodes disagree on a parameter .*number 1 is that of \\\\"${first}\\\\" and of \\\\"${second}\\\\"`),
  );
  assert.deepEqual(await stage.run(stage.open(first as string)), [1]);
  await stage.cluster.fails(
    stage.open(second as string),
    "SPEC_MISMATCH",
    /cannot be opened: server \d tells that number 1 .* two schedulers/,
  );
});

test("requests that make no sense, and those of nodes without a rank, are refused and change nothing", async () => {
  const stage = await Stage.formed();
  const worker = stage.workers[0] as Membership;
  const { cluster } = stage;
  await cluster.fails(worker.callScheduler(catalogueOpen, { specs: ["{}"] }), "BAD_REQUEST", /kind/);
  await cluster.fails(worker.callScheduler(catalogueOpen, { specs: [specText("w".repeat(300))] }), "BAD_REQUEST", /at most 256 characters/);
  await cluster.fails(
    worker.callScheduler(catalogueOpen, { specs: [specText("w", new Array(40_000).fill(1))] }),
    "BAD_REQUEST",
    /at most 65536/,
  );
  const stranger = cluster.peer("stranger").dial(SCHEDULER_ID, SCHEDULER_ADDRESS, 0);
  const asked = callJson(stranger, catalogueOpen, { specs: [specText("w")] }, cluster.clock);
  await cluster.fails(asked, "NO_ROUTE", /has to register first/);
  assert.deepEqual(await stage.run(stage.open("w")), [1]);
});

test("a program of the command line, which is no node, may list what is made, and nothing else", async () => {
  const stage = await Stage.formed();
  const { cluster } = stage;
  await stage.run(stage.open("w"));
  const tool = cluster.peer("tool").dial(SCHEDULER_ID, SCHEDULER_ADDRESS, 0);
  const { entries, isLast } = await stage.run(callJson(tool, catalogueList, { after: 0 }, cluster.clock));
  assert.deepEqual([entries.map(({ name }) => name), isLast], [["w"], true]);
  await cluster.fails(callJson(tool, catalogueFind, { name: "w" }, cluster.clock), "NO_ROUTE", /has to register first/);
});

test("a scheduler that was there from the start believes no node's catalogue", async () => {
  const stage = await Stage.formed();
  assert.deepEqual(await stage.run(stage.open("a")), [1]);
  const page = { entries: [entryOf("b", 1), entryOf("c", 9)], isLast: true };
  await stage.run((stage.workers[1] as Membership).callScheduler(catalogueTell, page));
  assert.deepEqual(await stage.run(stage.open("a", "b")), [1, 2]);
});
