// freed-memory.test — Goal: freed memory is given back once the C library can; otherwise nothing happens.

import assert from "node:assert/strict";
import { test } from "node:test";
import { giveBackFreedMemory } from "./freed-memory.ts";
import type { NativeCalls } from "./native-calls.ts";

const calls: string[] = [];
const library: NativeCalls = {
  load: (name) => ({
    func: (declaration) => (pad) => {
      calls.push(`${name}: ${declaration} ${String(pad)}`);
      return 1;
    },
  }),
};
const nativeCalls = async (): Promise<NativeCalls> => await Promise.resolve(library);

test("asks the C library of Linux once, and only in a small process", async () => {
  assert.equal(await giveBackFreedMemory({ platform: "linux", nativeCalls }, 100e6), true);
  assert.deepEqual(calls, ["libc.so.6: int malloc_trim(size_t pad) 0"]);
  assert.equal(await giveBackFreedMemory({ platform: "linux", nativeCalls }, 1e9), false);
  assert.equal(await giveBackFreedMemory({ platform: "darwin", nativeCalls }, 100e6), false);
  assert.equal(calls.length, 1);
});

test("without koffi nothing happens", async () => {
  const missing = async (): Promise<NativeCalls> => await Promise.reject(new Error("not installed"));
  assert.equal(await giveBackFreedMemory({ platform: "linux", nativeCalls: missing }, 100e6), false);
});
