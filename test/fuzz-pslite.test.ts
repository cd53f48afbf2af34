// Goal: recorded traffic of ps-lite's nodes that was changed, cut, repeated and put in another order, after a valid
// handshake and under any node's name, ends no node of ours, whatever its role.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../src/base/random.ts";
import { KVServer } from "../src/faces/kv/kv-server.ts";
import { KVWorker } from "../src/faces/kv/kv-worker.ts";
import { PsliteCluster } from "../src/testing/pslite-cluster.ts";
import { RawDialer, RECORDINGS, readRecording } from "./conformance/pslite-recording.ts";

const SEEDS = 12;
const CONNECTIONS = 40;
const MESSAGES_MAX = 6;
const PORTS = [9600, 9601, 9602]; // scheduler, server, worker
const NAMES = ["", "ps1", "ps8", "ps9", "ps10", "ps11"];
const GREETING_FIRST = 0xff;
const COMMAND = 0x04;

/** What came over the recorded connections, without handshakes. */
const MESSAGES: readonly Uint8Array[] = RECORDINGS.flatMap((name) => readRecording(name))
  .map(({ bytes }) => bytes)
  .filter(([first]) => first !== GREETING_FIRST && first !== COMMAND);

function changed(message: Uint8Array, random: Random): Uint8Array {
  const bytes = message.slice();
  for (let changes = random.below(4); changes > 0; changes--) {
    const at = random.below(bytes.length);
    const kind = random.below(3);
    if (kind === 0) bytes[at] = (bytes[at] as number) ^ (1 << random.below(8));
    else if (kind === 1) bytes[at] = random.below(256);
    else bytes.copyWithin(at, random.below(bytes.length));
  }
  return random.chance(0.1) ? bytes.subarray(0, 1 + random.below(bytes.length)) : bytes;
}

async function attack(cluster: PsliteCluster, random: Random): Promise<void> {
  const dialer = await RawDialer.to(cluster, PORTS[random.below(PORTS.length)] as number);
  dialer.greet(NAMES[random.below(NAMES.length)] as string);
  for (let count = 1 + random.below(MESSAGES_MAX); count > 0; count--) {
    const bytes = changed(MESSAGES[random.below(MESSAGES.length)] as Uint8Array, random);
    const cut = random.below(bytes.length + 1);
    dialer.write(bytes.subarray(0, cut), bytes.subarray(cut));
    if (random.chance(0.5)) await cluster.clock.advance(random.below(400));
  }
  if (random.chance(0.7)) dialer.destroy();
}

for (const resendTimeoutMs of [0, 100]) {
  test(`changed recordings end no node${resendTimeoutMs > 0 ? ", with PS_RESEND" : ""}`, async () => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const cluster = await PsliteCluster.start({ resendTimeoutMs, seed });
      new KVServer(cluster.office("server-0"), 0);
      const kv = new KVWorker(cluster.office("worker-0"), 0);
      const random = new Random(seed);
      const isAnswered: Promise<unknown>[] = [];
      for (let i = 0; i < CONNECTIONS; i++) {
        const push = kv.push(BigUint64Array.of(1n), Float32Array.of(1));
        isAnswered.push(kv.wait(push, { timeoutMs: 30_000 }).catch((error: unknown) => assert.match(String(error), /WeighbridgeError/)));
        try {
          await attack(cluster, random);
        } catch (thrown) {
          throw new Error(`seed ${seed}, connection ${i}`, { cause: thrown });
        }
      }
      await cluster.clock.advance(60_000);
      await cluster.run(Promise.all(isAnswered));
      for (const name of ["worker-0", "server-0", "scheduler"]) await cluster.run(cluster.office(name).close());
    }
  });
}
