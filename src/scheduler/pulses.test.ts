// pulses.test — Goal: a pulse speaks to a scheduler over a link of its own, for a node whose token it shows, and leaves
// that node's link and conversation alone.

import assert from "node:assert/strict";
import { test } from "node:test";
import { joinBytes } from "../base/bytes.ts";
import { BEAT, pulseFrames } from "../cluster/pulse.ts";
import { ControlCluster, HEARTBEAT_TIMEOUT_MS, stateOf } from "../testing/control-cluster.ts";
import type { Link } from "../transport/transport.ts";
import { decodeFailure } from "../wire/failure.ts";
import { HEADER_BYTES, Kind, paddedBytes } from "../wire/frame.ts";
import type { Scheduler } from "./scheduler.ts";

const WORKER = 9;

/** What speaks for worker 0 from a host of its own, with this token. */
async function pulseOf(cluster: ControlCluster, { job }: Scheduler, token: string) {
  const { hello, beat } = pulseFrames({ job, node: WORKER, incarnation: 1, token });
  const room = new Uint8Array(4096);
  const answers: Uint8Array[] = [];
  let isClosed = false;
  const link: Link = await cluster.clock.runUntil(
    cluster.network.host("pulse").connect(
      "sim://scheduler:9000",
      (opened) => {
        opened.write([hello], () => {});
        return {
          view: () => room,
          received: (byteCount) => void answers.push(room.slice(0, byteCount)),
          closed: () => {
            isClosed = true;
          },
        };
      },
      { timeoutMs: 1000 },
    ),
  );
  let request = 0;
  const say = (loopBusyMs: number): void => {
    const words = new DataView(beat.buffer);
    words.setUint32(BEAT.requestAt, ++request, true);
    words.setUint32(BEAT.settledAt, request, true);
    beat.set(new TextEncoder().encode(String(loopBusyMs).padEnd(BEAT.digitCount, " ")), BEAT.digitsAt);
    link.write([beat.slice()], () => {});
  };
  return { say, answers, isClosed: () => isClosed };
}

function kindsOf(chunks: readonly Uint8Array[]): number[] {
  const bytes = joinBytes(chunks);
  const kinds: number[] = [];
  for (let at = 0; at < bytes.length; at += HEADER_BYTES + paddedBytes(new DataView(bytes.buffer).getUint32(at + 8, true)))
    kinds.push(bytes[at + 3] as number);
  return kinds;
}

test("a worker of which only its pulse is heard lives; when that falls silent it is dead after the timeout", async () => {
  const cluster = new ControlCluster();
  const { scheduler, workers } = await cluster.formed();
  const { say } = await pulseOf(cluster, scheduler, "w0#4");
  cluster.network.crash("w0", { silent: true });
  for (let ms = 0; ms < 10 * HEARTBEAT_TIMEOUT_MS; ms += 1000) {
    await cluster.clock.advance(1000);
    say(ms);
  }
  assert.equal(stateOf(workers[1]!, WORKER), "alive 1");
  assert.ok((scheduler.status().nodes.find(({ node }) => node === WORKER)?.loopBusyMs ?? 0) > HEARTBEAT_TIMEOUT_MS);
  await cluster.clock.advance(HEARTBEAT_TIMEOUT_MS + 500);
  assert.equal(stateOf(workers[1]!, WORKER), "dead 1");
});

test("a pulse leaves the link of its node as it is, and ends without a trace", async () => {
  const cluster = new ControlCluster();
  const { scheduler, workers } = await cluster.formed();
  const { say, answers, isClosed } = await pulseOf(cluster, scheduler, "w0#4");
  say(2000);
  await cluster.clock.advance(3 * HEARTBEAT_TIMEOUT_MS);
  assert.deepEqual([kindsOf(answers), isClosed()], [[Kind.HELLO, Kind.REPLY], false]);
  assert.equal(stateOf(workers[1]!, WORKER), "alive 1");
  await cluster.clock.runUntil(workers[0]!.fetchPlacement());
});

test("a pulse with another token than its node is refused, and its node goes on", async () => {
  const cluster = new ControlCluster();
  const { scheduler, workers } = await cluster.formed();
  const { answers, isClosed } = await pulseOf(cluster, scheduler, "of another");
  await cluster.clock.advance(HEARTBEAT_TIMEOUT_MS);
  const [first] = answers;
  assert.deepEqual([first?.[3], isClosed()], [Kind.FAILURE, true]);
  const bodyBytes = new DataView(first!.buffer).getUint32(8, true);
  assert.equal(decodeFailure(first!.subarray(HEADER_BYTES, HEADER_BYTES + bodyBytes)).code, "FENCED");
  assert.equal(stateOf(workers[1]!, WORKER), "alive 1");
});
