// Goal: a server's memory is advised where that is possible, and nothing happens where it is not.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Log, SILENT_LOG } from "../base/log.ts";
import { hugePages, SMALL_BYTES } from "./huge-pages.ts";
import type { NativeCalls, NativeFunction } from "./native-calls.ts";

const PAGE_BYTES = 65_536;
const memory = memoryOf(SMALL_BYTES + 4 * PAGE_BYTES);
const arena = { memory, stateBytesMax: memory.buffer.byteLength };

function memoryOf(bytes: number): WebAssembly.Memory {
  const pageCount = bytes / PAGE_BYTES;
  return new WebAssembly.Memory({ initial: pageCount, maximum: pageCount, shared: true });
}

/** Native calls that note what they were asked, and answer with `result`. */
function noted(result: number): { readonly calls: unknown[][]; readonly nativeCalls: () => Promise<NativeCalls> } {
  const calls: unknown[][] = [];
  const load = (library: string) => ({
    func:
      (declaration: string): NativeFunction =>
      (address, byteCount, advice) => {
        assert.ok(address instanceof Uint8Array);
        calls.push([library, declaration, address.buffer === memory.buffer, address.byteOffset, byteCount, advice]);
        return result;
      },
  });
  return { calls, nativeCalls: () => Promise.resolve({ load }) };
}

test("a memory is advised but for its small beginning, and a small one not at all (HugePages.H2)", async () => {
  const { calls, nativeCalls } = noted(0);
  const advise = await hugePages({ log: SILENT_LOG, platform: "linux", nativeCalls });
  advise?.({ memory: memoryOf(SMALL_BYTES), stateBytesMax: SMALL_BYTES });
  assert.deepEqual(calls, []);
  advise?.(arena);
  assert.deepEqual(calls, [
    ["libc.so.6", "int madvise(void *address, size_t byteCount, int advice)", true, SMALL_BYTES, 4 * PAGE_BYTES, 14],
  ]);
});

test("state and the reserve behind it begin with small pages each (HugePages.H2)", async () => {
  const { calls, nativeCalls } = noted(0);
  const advise = await hugePages({ log: SILENT_LOG, platform: "linux", nativeCalls });
  advise?.({ memory: memoryOf(3 * SMALL_BYTES), stateBytesMax: 2 * SMALL_BYTES - PAGE_BYTES });
  const spans = calls.map(([, , , from, byteCount]) => [from, byteCount]);
  assert.deepEqual(spans, [
    [SMALL_BYTES, SMALL_BYTES - PAGE_BYTES],
    [3 * SMALL_BYTES - PAGE_BYTES, PAGE_BYTES],
  ]);
});

test("a system that refuses is told of and does no harm (HugePages.H1)", async () => {
  const told: string[] = [];
  const log: Log = { ...SILENT_LOG, debug: (text) => told.push(text) };
  const advise = await hugePages({ log, platform: "linux", nativeCalls: noted(-1).nativeCalls });
  advise?.(arena);
  assert.deepEqual(told, ["the system provides no huge pages"]);
});

test("without native calls, or on another system, there is nothing to do (HugePages.H1)", async () => {
  const missing = (): Promise<NativeCalls> => Promise.reject(new Error("Cannot find package"));
  assert.equal(await hugePages({ log: SILENT_LOG, platform: "linux", nativeCalls: missing }), undefined);
  const { calls, nativeCalls } = noted(0);
  assert.equal(await hugePages({ log: SILENT_LOG, platform: "darwin", nativeCalls }), undefined);
  assert.deepEqual(calls, []);
});

test("koffi's own call succeeds on a memory, where it is installed", async (t) => {
  const told: string[] = [];
  const log: Log = { ...SILENT_LOG, debug: (text) => told.push(text) };
  const advise = await hugePages({ log });
  if (advise === undefined) {
    t.skip("no koffi here, or no Linux");
    return;
  }
  advise(arena);
  assert.ok(told.every((text) => text === "the system provides no huge pages"));
});
