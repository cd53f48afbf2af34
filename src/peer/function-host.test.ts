// function-host — Goal: any node serves typed functions to any other: small and large, at once and later, and a late
// answer reaches nobody else's request.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Deferred } from "../base/deferred.ts";
import { isWeighbridgeError } from "../base/errors.ts";
import { SILENT_LOG } from "../base/log.ts";
import { type Contract, contract, type JsonContract, jsonContract } from "../contracts/contract.ts";
import { SimClock } from "../testing/sim-clock.ts";
import { SimNetwork } from "../testing/sim-network.ts";
import { BLOCK_BYTES, PAYLOAD_BYTES_MAX } from "../wire/frame.ts";
import { json } from "../wire/function-schema.ts";
import { list, object, text } from "../wire/json-body.ts";
import { callFunction, callJson, serveJson } from "./call-function.ts";
import type { Channel } from "./channel.ts";
import { Peer } from "./peer.ts";
import { PlainReadBuffers, REQUEST_BYTES_MAX } from "./request-assembly.ts";
import { servedFunction } from "./served-function.ts";

const numbers = { values: "f32[]" } as const;
const total = { sum: "f64", names: json(list(text)) } as const;
const sumOf: Contract<typeof numbers, typeof total> = contract({
  name: "test/sum",
  target: "worker",
  effect: "read",
  request: numbers,
  response: total,
});
const doubled: Contract<typeof numbers, typeof numbers> = contract({
  ...{ name: "test/double", target: "worker", effect: "update" },
  request: numbers,
  response: numbers,
});
type Texts = { readonly texts: readonly string[] };
const textsShape = object({ texts: list(text) });
const copyTexts: JsonContract<Texts, Texts> = jsonContract({
  ...{ id: 1000, name: "test/copy", target: "worker" },
  request: textsShape,
  response: textsShape,
});

/** Two workers; the second one serves. */
async function twoWorkers() {
  const clock = new SimClock();
  const network = new SimNetwork({ clock, seed: 1 });
  const open = (host: string, id: number, incarnation = 1): Peer => {
    const peer = new Peer({ transport: network.host(host), clock, log: SILENT_LOG, readBuffers: new PlainReadBuffers() });
    Object.assign(peer, { id, incarnation, job: "job" });
    return peer;
  };
  const [caller, server] = [open("caller", 9), open("server", 11)];
  await server.listen("sim://server:1");
  const channel = caller.dial(11, "sim://server:1", 1);
  /** Waits in simulated time. */
  const settled = async <T>(promise: Promise<T>): Promise<T> => {
    promise.catch(() => {}); // awaited below
    await clock.advance(1000);
    return await promise;
  };
  return { clock, open, server, channel, settled };
}

test("a worker calls a typed function of another worker", async () => {
  const { clock, server, channel, settled } = await twoWorkers();
  server.serve(
    servedFunction(sumOf, {
      handler: (from: Channel, { values }) => ({ sum: values.reduce((a, b) => a + b, 0), names: [from.name] }),
    }),
  );
  const call = callFunction(channel, sumOf, { values: Float32Array.of(1, 2, 3.5) }, { clock });
  assert.deepEqual(await settled(call), { sum: 6.5, names: ["worker 0"] });
});

test("a request and an answer of several frames come whole, whatever node serves them", async () => {
  const { clock, server, channel, settled } = await twoWorkers();
  server.serve(servedFunction(doubled, { handler: (_: Channel, { values }) => ({ values: values.map((value) => 2 * value) }) }));
  const values = Float32Array.from({ length: (3 * BLOCK_BYTES) / 4 + 5 }, (_, i) => i % 1000);
  const call = callFunction(channel, doubled, { values }, { clock });
  assert.deepEqual(
    (await settled(call)).values,
    values.map((value) => 2 * value),
  );
});

test("a JSON body that is longer than a frame comes whole", async () => {
  const { clock, server, channel, settled } = await twoWorkers();
  server.serve(serveJson(copyTexts, (_channel, body) => body));
  const body = { texts: [..."abc"].map((letter) => letter.repeat(PAYLOAD_BYTES_MAX)) };
  assert.deepEqual(await settled(callJson(channel, copyTexts, body, clock)), body);
});

test("a request that is over a node's limit is refused before memory is made for it", async () => {
  const { clock, server, channel, settled } = await twoWorkers();
  server.serve(serveJson(copyTexts, (_channel, body) => body));
  const body = { texts: ["x".repeat(REQUEST_BYTES_MAX)] };
  await assert.rejects(settled(callJson(channel, copyTexts, body, clock)), (thrown) => isWeighbridgeError(thrown, "BAD_REQUEST"));
});

test("a body of another shape is refused, naming the function and the field", async () => {
  const { clock, server, channel, settled } = await twoWorkers();
  server.serve(serveJson(copyTexts, (_channel, body) => body));
  const wrong = { texts: [7] } as unknown as Texts;
  await assert.rejects(
    settled(callJson(channel, copyTexts, wrong, clock)),
    /the request of test\/copy\.texts\[0\] must be a string, but is 7/,
  );
});

test("a function that this node does not serve is UNKNOWN_FUNCTION, by name and by number", async () => {
  const { clock, server, channel, settled } = await twoWorkers();
  server.serve(serveJson({ ...copyTexts, name: "test/other", nameHash: 1, id: 1001 }, (_channel, body) => body));
  const isUnknown = (thrown: unknown): boolean => isWeighbridgeError(thrown, "UNKNOWN_FUNCTION");
  await assert.rejects(settled(callJson(channel, copyTexts, { texts: [] }, clock)), isUnknown);
  await assert.rejects(settled(callFunction(channel, sumOf, { values: new Float32Array(1) }, { clock })), isUnknown);
});

test("a late answer is not sent into a conversation that began anew meanwhile (FunctionHost.H5)", async () => {
  const { clock, open, server } = await twoWorkers();
  const answers = [new Deferred<Texts>(), new Deferred<Texts>()];
  let served = 0;
  server.serve(serveJson(copyTexts, () => (answers[served++] as Deferred<Texts>).promise));
  const first = open("first", 13);
  await first.listen("sim://first:1");
  server.dial(13, "sim://first:1", 1);
  callJson(first.expect(11, 1), copyTexts, { texts: [] }, clock).catch(() => {}); // its caller goes
  await clock.advance(1000);
  assert.equal(served, 1);
  await first.close();
  const second = open("first", 13, 2);
  await second.listen("sim://first:1");
  const call = callJson(second.expect(11, 1), copyTexts, { texts: [] }, clock); // has the first one's number
  await clock.advance(2000);
  assert.equal(served, 2);
  answers[0]?.resolve({ texts: ["the first incarnation's"] });
  await clock.advance(1000);
  answers[1]?.resolve({ texts: ["the second incarnation's"] });
  await clock.advance(1000);
  assert.deepEqual(await call, { texts: ["the second incarnation's"] });
});
