// gpu-keys — many small keys on one card, through the whole shared model: 1,000 keys of 4 KB on 4 logical devices, sum
// and SGD. Needs CUDA:
//   node bench/gpu-keys.ts [--devices 4] [--keys 1000]
//
// calls      one push and one pullReq for every key and device, then a wait for the last hand-out
// all        one pushAll and one pullAll for every device, then the same wait
//
// Host milliseconds are from the first call to the end of the last hand-out, as the caller sees it. Card milliseconds
// are between events around what the round puts on the card. Medians of turns of one way after the other: a program
// that trains goes one way, and level 1 folds lists that come again (worker/level-one/list-rounds.ts).

import { parseArgs } from "node:util";
import { assert } from "../src/base/assert.ts";
import type { DeviceTensor } from "../src/gpu/device-tensor.ts";
import { createSharedModel, openCuda } from "../src/node/create-shared-model.ts";
import { cudaHere } from "./cuda-here.ts";
import { median } from "./statistics.ts";

const LENGTH = 1024;
const TURNS = 40;
const WARM_UP_TURNS = 60;
const RATE = 0.5;
const { values: options } = parseArgs({
  options: { devices: { type: "string", default: "4" }, keys: { type: "string", default: "1000" } },
});
const devices = Array.from({ length: Number(options.devices) }, (_, device) => device);
const keys = Array.from({ length: Number(options.keys) }, (_, key) => key);

type Item = { readonly data: DeviceTensor; readonly key: number };

const cuda = await cudaHere(() => openCuda({ devicesPerCard: devices.length }));
const model = createSharedModel("local", { device: "cuda", cuda, updater: { type: "sgd", learningRate: RATE } });
await model.init(devices);
const itemsOf = (device: number): readonly Item[] => {
  const all = cuda.device(device).allocate([keys.length * LENGTH]);
  all.fill(device + 1);
  return keys.map((key) => ({ data: all.view(key * LENGTH, [LENGTH]), key }));
};
const pushed = devices.map(itemsOf);
const pulled = devices.map(itemsOf);
for (const device of devices) for (const key of keys) await model.initKey([LENGTH], key, device);

function calls(): void {
  for (const device of devices) for (const { data, key } of pushed[device]!) model.push(data, key, device);
  for (const device of devices) for (const { data, key } of pulled[device]!) model.pullReq(data, key, device);
}

function all(): void {
  for (const device of devices) model.pushAll(pushed[device]!, device);
  for (const device of devices) model.pullAll(pulled[device]!, device);
}

type Times = { readonly callsMs: number[]; readonly doneMs: number[]; readonly endedMs: number[] };
const ways = [
  { name: "8,000 calls", act: calls },
  { name: "pushAll, pullAll", act: all },
].map((way) => ({ ...way, times: { callsMs: [], doneMs: [], endedMs: [] } as Times }));
const lastKey = keys.at(-1)!;
const lastDevice = devices.at(-1)!;
let rounds = 0;
for (const { act, times } of ways) {
  for (let turn = -WARM_UP_TURNS; turn < TURNS; turn++) {
    const fromMs = performance.now();
    act();
    const calledMs = performance.now();
    await model.pullWait(lastKey, lastDevice);
    const doneMs = performance.now();
    for (const device of devices) await model.pullWaitAll(device);
    const endedMs = performance.now();
    rounds++;
    if (turn < 0) continue;
    times.callsMs.push(calledMs - fromMs);
    times.doneMs.push(doneMs - fromMs);
    times.endedMs.push(endedMs - fromMs);
  }
}
const shown = (values: readonly number[]): string => `${median(values).toFixed(2)} ms (from ${Math.min(...values).toFixed(2)})`;
console.log(
  `${cuda.device(0).card.title}; ${devices.length} logical devices, ${keys.length} keys of ${(LENGTH * 4) / 1024} KB, sum and SGD`,
);
for (const { name, times } of ways)
  console.log(
    `${name.padEnd(18)} in the calls ${shown(times.callsMs)}, to the last hand-out ${shown(times.doneMs)}, with a wait for each ${shown(times.endedMs)}`,
  );
const expected = -RATE * rounds * devices.reduce((sum, device) => sum + device + 1, 0);
for (const items of pulled) {
  const value = (await items.at(-1)!.data.toArray())[LENGTH - 1];
  assert(value === expected, `${value}, not ${expected}`);
}
await model.close();
cuda.close();
