// Goal: a node without a number, which the other side cannot know again, begins each link with a new conversation: what
// is said there is taken, and what may count once only does not leave twice.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { SILENT_LOG } from "../base/log.ts";
import { type Contract, contract, type JsonContract, jsonContract } from "../contracts/contract.ts";
import { SimClock } from "../testing/sim-clock.ts";
import { SimNetwork } from "../testing/sim-network.ts";
import { object } from "../wire/json-body.ts";
import { callFunction, callJson, serveJson } from "./call-function.ts";
import type { Channel } from "./channel.ts";
import { Peer } from "./peer.ts";
import { PlainReadBuffers } from "./request-assembly.ts";
import { servedFunction } from "./served-function.ts";

type Nothing = Record<never, never>;
const nothing = object({});
const ask: JsonContract<Nothing, Nothing> = jsonContract({
  ...{ id: 1000, name: "test/ask", target: "scheduler" },
  request: nothing,
  response: nothing,
});
const news: JsonContract<Nothing, Nothing> = jsonContract({
  ...{ id: 1001, name: "test/news", target: "node" },
  request: nothing,
  response: nothing,
});
const count: Contract<Nothing, Nothing> = contract({
  ...{ name: "test/count", target: "scheduler", effect: "update" },
  request: {},
  response: {},
});

/** A scheduler that answers nothing yet, and a node without a number; `asked` has the channels of its questions. */
async function strangers() {
  const clock = new SimClock();
  const network = new SimNetwork({ clock, seed: 1 });
  const open = (host: string): Peer =>
    new Peer({ transport: network.host(host), clock, log: SILENT_LOG, readBuffers: new PlainReadBuffers(), acceptsAnonymous: true });
  const [scheduler, node] = [open("scheduler"), open("node")];
  Object.assign(scheduler, { id: 1, incarnation: 7 });
  const asked: Channel[] = [];
  const never = new Promise<Nothing>(() => {});
  scheduler.serve(
    serveJson(ask, async (channel) => {
      asked.push(channel);
      return await never;
    }),
  );
  const counted: Channel[] = [];
  scheduler.serve(
    servedFunction(count, {
      handler: async (channel: Channel) => {
        counted.push(channel);
        return await never;
      },
    }),
  );
  let heard = 0;
  node.serve(
    serveJson(news, () => {
      heard++;
      return {};
    }),
  );
  await scheduler.listen("sim://scheduler:1");
  const channel = node.dial(1, "sim://scheduler:1", 0);
  return { clock, network, channel, asked, counted, heard: () => heard };
}

test("a node that registers again because its link broke hears what it is told on the new link, too (Peer.P9)", async () => {
  const { clock, network, channel, asked, heard } = await strangers();
  callJson(channel, ask, {}, clock).catch(() => {});
  await clock.advance(1000);
  await clock.runUntil(callJson(asked[0] as Channel, news, {}, clock));
  assert.equal(heard(), 1);
  network.breakLinks("node");
  await clock.advance(1000);
  assert.equal(asked.length, 2, "the question, which has no answer, leaves again");
  await clock.runUntil(callJson(asked[1] as Channel, news, {}, clock));
  assert.equal(heard(), 2);
});

test("an update of a node without a number is not sent to a scheduler that cannot know it again (Peer.P9)", async () => {
  const { clock, network, channel, counted } = await strangers();
  const ended = callFunction(channel, count, {}, { clock }).catch((thrown: unknown) => thrown);
  await clock.advance(1000);
  network.breakLinks("node");
  await clock.advance(1000);
  assert.equal(counted.length, 1);
  const error = await clock.runUntil(ended);
  assert.ok(isWeighbridgeError(error, "NODE_DEAD"), String(error));
  assert.match(error.message, /the link to the scheduler broke/);
});

test("what a node without a number asks before its first link leaves once, on that link (Peer.P9)", async () => {
  const { clock, channel, asked, counted } = await strangers();
  callJson(channel, ask, {}, clock).catch(() => {});
  callFunction(channel, count, {}, { clock }).catch(() => {});
  await clock.advance(1000);
  assert.deepEqual([asked.length, counted.length], [1, 1]);
});
