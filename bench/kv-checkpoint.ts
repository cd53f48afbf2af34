// kv-checkpoint — how long kv pushes take while a server saves 2 GB of what was pushed, and without. A worker's script;
// the server is a process of its own:
//
//   weighbridge launch -s 1 -w 1 --checkpoint-dir DIR -- bench/kv-checkpoint.ts [--megabytes 2048]
//       [--seconds 5]
//
// Two thirds are values of 64 floats, one third large values of 1 MiB. One push at a time, each awaited: 1,000 random
// keys, and in every tenth round a large one. What is reported is the time of a push from call to answer, as in
// checkpoint.ts.

import { parseArgs } from "node:util";
import { Session } from "../src/api/session.ts";
import { KVWorker } from "../src/faces/kv/kv-worker.ts";
import { loadConfig } from "../src/node/config/config.ts";
import { nodeSessions } from "../src/node/node-sessions.ts";
import { officeOver } from "../src/node/start.ts";
import { reportPushes } from "./pushes-during-save.ts";

const { values } = parseArgs({ options: { megabytes: { type: "string", default: "2048" }, seconds: { type: "string", default: "5" } } });
const [megabytes, seconds] = [Number(values.megabytes), Number(values.seconds)];
const WIDTH = 64;
const BATCH = 1000;
const LARGE_WIDTH = 262_144;
/** Large values have keys above all others. */
const LARGE_FROM = 2n ** 40n;
const keyCount = Math.floor((megabytes * 2 ** 20 * 2) / 3 / (8 + WIDTH * 4));
const largeCount = Math.max(1, Math.floor(megabytes / 3));

const office = await officeOver(loadConfig({ env: process.env }), { sessions: nodeSessions });
const session = await Session.open(office.node);
const kv = new KVWorker(office, 0);
const batch = new Float32Array(BATCH * WIDTH).fill(1);
const large = new Float32Array(LARGE_WIDTH).fill(1);

for (let from = 0; from < keyCount; from += BATCH) {
  const count = Math.min(BATCH, keyCount - from);
  await kv.wait(
    kv.push(
      BigUint64Array.from({ length: count }, (_, i) => BigInt(from + i)),
      batch.subarray(0, count * WIDTH),
    ),
  );
}
for (let i = 0; i < largeCount; i++) await kv.wait(kv.push(BigUint64Array.of(LARGE_FROM + BigInt(i)), large));

/** So many different keys by chance, ascending. */
function someKeys(): BigUint64Array {
  const chosen = new Set<number>();
  while (chosen.size < BATCH) chosen.add(Math.floor(Math.random() * keyCount));
  return BigUint64Array.from(
    [...chosen].sort((a, b) => a - b),
    BigInt,
  );
}

function draw(round: number): () => Promise<void> {
  const keys = someKeys();
  const largeKey = BigUint64Array.of(LARGE_FROM + BigInt(Math.floor(Math.random() * largeCount)));
  return async () => {
    await kv.wait(kv.push(keys, batch));
    if (round % 10 === 0) await kv.wait(kv.push(largeKey, large));
  };
}

const contents = `${keyCount} keys of ${WIDTH} and ${largeCount} of ${LARGE_WIDTH}`;
await reportPushes({ session, seconds, unit: "keys", unitsPerPush: BATCH, draw, contents });
await session.close();
