// strangers.test — Goal: one that knows the job, the number and the incarnation of a node, as `status` tells everybody,
// can neither speak for it, nor break its link, nor reset its conversations, at the scheduler and at servers
// (spec/protocol.md, H4 and H12; Peer.P6).

import assert from "node:assert/strict";
import { test } from "node:test";
import { FunctionId } from "../src/wire/function-id.ts";
import type { Hello } from "../src/wire/hello.ts";
import { encodeJson } from "../src/wire/json-body.ts";
import { KvFlag } from "../src/wire/kv-message.ts";
import { idOf } from "../src/wire/node-id.ts";
import { failureOf, type RawClient } from "./hostile/raw-client.ts";
import { kvPayload } from "./hostile/raw-frame.ts";
import { TargetCluster } from "./hostile/target-cluster.ts";

const SERVER = idOf("server", 0);
const HONEST_WORKER = idOf("worker", 0);

/** A hello in another node's name, everything behind it, and the end of the link. */
async function intrudeAs(
  cluster: TargetCluster,
  address: string,
  hello: Partial<Hello>,
  more: (client: RawClient) => void = () => {},
): Promise<string> {
  const client = await cluster.stranger(address);
  client.hello({ incarnation: 1, ...hello });
  more(client);
  const first = await cluster.world.run(client.next());
  client.destroy();
  await cluster.settle();
  return failureOf(first).code;
}

async function sumOf({ kv, world }: TargetCluster, key: bigint): Promise<number> {
  const values = new Float32Array(1);
  await world.run(kv.wait(kv.pull(BigUint64Array.of(key), values)));
  return values[0] as number;
}

test("stray hellos in the name of a server that waits at the last barrier do not end it, and its parameters stay", async () => {
  const cluster = await TargetCluster.start();
  const { kv, world, server } = cluster;
  await world.run(kv.wait(kv.push(BigUint64Array.of(5n), Float32Array.of(3))));
  let ended: unknown = "not yet";
  server.finalize().then(
    () => (ended = "finalized"),
    (error: unknown) => (ended = error),
  );
  await cluster.settle();
  const linksBefore = cluster.scheduler.metrics.linksOpened;
  for (let i = 0; i < 3; i++) {
    assert.equal(await intrudeAs(cluster, world.schedulerAddress, { job: "", node: SERVER }), "BAD_REQUEST");
    assert.equal(await intrudeAs(cluster, world.schedulerAddress, { job: "job", node: SERVER, expects: i + 1 }), "FENCED");
  }
  await world.run(new Promise<void>((resolve) => world.clock.after(2000, resolve)));
  assert.equal(ended, "not yet");
  assert.equal(server.failure, undefined);
  assert.equal(cluster.scheduler.metrics.linksOpened, linksBefore + 6, "the server did not have to dial again");
  assert.equal(await sumOf(cluster, 5n), 3);
  await cluster.close();
});

test("a LEAVE in another's name is refused: the node keeps its rank", async () => {
  const cluster = await TargetCluster.start();
  const { schedulerAddress } = cluster.world;
  for (const expects of [1, 2, 3]) {
    const leave = (client: RawClient): void => void client.request({ functionId: FunctionId.LEAVE }, encodeJson({}));
    assert.equal(await intrudeAs(cluster, schedulerAddress, { job: "job", node: SERVER, expects }, leave), "FENCED");
  }
  assert.deepEqual(
    cluster.scheduler.roster.nodes.map(({ state }) => state),
    ["alive", "alive", "alive"],
  );
  await cluster.close();
});

test("a stamp in a worker's name is refused: updates of that worker go on to be applied", async () => {
  const cluster = await TargetCluster.start();
  const { kv, world } = cluster;
  await world.run(kv.wait(kv.push(BigUint64Array.of(7n), Float32Array.of(1))));
  const push = (client: RawClient): void =>
    void client.request(
      { functionId: FunctionId.KV_PUSH, flags: KvFlag.FIRST | KvFlag.LAST, stamp: 2 ** 52, arg0: 1, arg1: 1 },
      kvPayload([7n], Float32Array.of(100)),
    );
  for (const expects of [1, 2])
    assert.equal(await intrudeAs(cluster, cluster.serverAddress, { job: "job", node: HONEST_WORKER, expects }, push), "FENCED");
  await world.run(kv.wait(kv.push(BigUint64Array.of(7n), Float32Array.of(1))));
  assert.equal(await sumOf(cluster, 7n), 2);
  await cluster.close();
});

test("strangers are not told the tokens of nodes: neither by status nor in the scheduler's hello", async () => {
  const cluster = await TargetCluster.start();
  const client = await cluster.anonymous(cluster.world.schedulerAddress);
  const answer = await cluster.world.run(client.ask({ functionId: FunctionId.STATUS }, encodeJson({})));
  const text = new TextDecoder().decode(answer?.payload);
  assert.match(text, /"label":"intruder"/);
  assert.doesNotMatch(text, /token/);
  const worker = cluster.scheduler.roster.nodes.find(({ node }) => node === HONEST_WORKER);
  assert.ok(worker?.token !== undefined && worker.token.length > 20, "members are told");
  await cluster.close();
});

test("a node that shows its token takes over its own link, as after a connection that broke unnoticed", async () => {
  const cluster = await TargetCluster.start();
  const first = await cluster.intrude();
  const second = await cluster.intrude();
  await cluster.world.run(first.closed());
  assert.equal(second.isClosed, false);
  await cluster.close();
});
