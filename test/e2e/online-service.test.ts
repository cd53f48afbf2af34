// online-service — Goal: the service of example 09 is one that may be copied: it learns from POST /learn alone, stands
// what strangers send, tells whether it is ready, gets over lost tables, and is replaced while the others serve.

import assert from "node:assert/strict";
import test from "node:test";
import { setTimeout } from "node:timers/promises";
import { connect } from "../../src/node/connect.ts";
import { freePort } from "../../src/node/launcher/free-port.ts";
import { Processes, type Running } from "./processes.ts";

const RANK = "/rank?user=5&item=1&item=2&item=3";

/** One replica, as a client sees it. */
class Replica {
  readonly running: Running;
  readonly #url: string;

  constructor(running: Running, port: number) {
    this.running = running;
    this.#url = `http://127.0.0.1:${port}`;
  }

  async status(path: string, init: RequestInit = {}): Promise<number> {
    return (await fetch(this.#url + path, init)).status;
  }

  /** Resolves once it answers at all, which is before the cluster is there. */
  async isListening(): Promise<void> {
    for (let tries = 0; tries < 400; tries++) {
      const status = await this.status("/live").catch(() => 0);
      if (status === 200) return;
      await setTimeout(50);
    }
    assert.fail(`${this.#url} does not answer`);
  }

  async learn(body: unknown): Promise<number> {
    return await this.status("/learn", { method: "POST", body: typeof body === "string" ? body : JSON.stringify(body) });
  }

  async rank(): Promise<unknown> {
    const response = await fetch(this.#url + RANK);
    const body: unknown = await response.json();
    assert.equal(response.status, 200, JSON.stringify(body));
    return body;
  }
}

/** What changes nothing, by the status that answers it. */
const STRAY: readonly (readonly [status: number, path: string, init?: RequestInit])[] = [
  [404, "/"],
  [404, "/favicon.ico"],
  [404, "/health", { method: "POST", body: "{}" }],
  [404, "//"],
  [405, "/learn?user=0&item=0&clicked=1"],
  [405, "/rank?user=5&item=1", { method: "POST" }],
  [200, "/live"],
  [200, "/ready"],
  [400, "/rank?user=&item=1"],
  [400, "/rank?user=5"],
  [400, "/rank?item=1"],
  [400, "/rank?user=5&user=6&item=1"],
  [400, `/rank?user=${"x".repeat(101)}&item=1`],
  [400, `/rank?user=1${"&item=1".repeat(101)}`],
  [200, "/rank?user=größe&item=-1"],
];
const BAD_BODIES: readonly unknown[] = [
  "",
  "{",
  "null",
  "[]",
  {},
  { user: "5", item: "2" },
  { user: 5, item: "2", clicked: true },
  { user: "5", item: "", clicked: true },
];

test("replicas share what they learn from POST alone, refuse what makes no sense, and one is replaced while the others serve", async () => {
  await using processes = new Processes();
  const [schedulerPort = 0, ...webPorts] = await Promise.all([0, 1, 2, 3].map(() => freePort("127.0.0.1")));
  const env = { WEIGHBRIDGE_SCHEDULER_PORT: String(schedulerPort) };
  const start = (port = 0): Replica =>
    new Replica(processes.run(process.execPath, ["examples/09-online-service/main.ts", String(port)], { env }), port);
  const one = start(webPorts[0]);
  await one.isListening();
  assert.equal(await one.status("/ready"), 503, "the cluster is not there");
  assert.equal(await one.status(RANK), 503);
  const cluster = processes.weighbridge(["launch", "-s", 1, "-w", 0, "--port", String(schedulerPort)]);
  const two = start(webPorts[1]);
  for (const { running } of [one, two]) await running.says(/^replica \d+ listens/);

  const before = await one.rank();
  for (const [status, path, init] of STRAY) assert.equal(await one.status(path, init), status, path);
  for (const body of BAD_BODIES) assert.equal(await one.learn(body), 400, JSON.stringify(body));
  assert.equal(await one.learn("x".repeat(5000)), 413);
  assert.deepEqual(await two.rank(), before, "nothing was learned from any of it");

  for (let i = 0; i < 20; i++) {
    assert.equal(await one.learn({ user: "5", item: "2", clicked: true }), 200);
    assert.equal(await two.learn({ user: "5", item: "1", clicked: false }), 200);
  }
  const learned = await one.rank();
  assert.ok(Array.isArray(learned) && learned[0].item === "2", JSON.stringify(learned));
  assert.deepEqual(await two.rank(), learned);

  const three = start(webPorts[2]); // a rolling update may start the next replica first
  await three.running.says(/^replica \d+ listens/);
  two.running.signal("SIGTERM"); // graceful: with 0
  await two.running.succeeds();
  const stranger = await connect({ role: "guest", schedulerPort, logLevel: "silent" });
  const users = await stranger.embedding("users", {
    dim: 8,
    optimizer: { type: "adagrad", learningRate: 0.1 },
    init: { type: "normal", std: 0.1, seed: 1 },
  });
  await users.drop(); // as if the server had been started again without its checkpoint
  await stranger.close();
  assert.equal(await one.status("/ready"), 503, "once");
  const after = await one.rank();
  assert.notDeepEqual(after, learned, "the users begin anew");

  assert.deepEqual(await three.rank(), after);
  for (const { running } of [one, three]) running.signal("SIGTERM");
  for (const { running } of [one, three]) await running.succeeds();
  cluster.signal("SIGTERM"); // it outlives its replicas
  await cluster.succeeds();
});
