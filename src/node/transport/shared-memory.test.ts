// Goal: two mappings are the same memory; what is not sealed, or is something else, is refused; nothing is left behind;
// and where the system or koffi has nothing to offer there is none.

import assert from "node:assert/strict";
import { closeSync, ftruncateSync, openSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "../../../test/support/temporary-directory.ts";
import { SILENT_LOG } from "../../base/log.ts";
import { koffi, type NativeViews } from "../native-calls.ts";
import { MAPPINGS_MAX, sharedMemory } from "./shared-memory.ts";

const system = await sharedMemory({ log: SILENT_LOG });
const skip = system === undefined ? "this system shares no memory" : false;
const BYTES = 64 * 1024;

/** What this process has open and mapped of such memory. */
function leftovers(): string[] {
  const open = readdirSync("/proc/self/fd");
  const maps = readFileSync("/proc/self/maps", "latin1").split("\n");
  return [`${open.length} descriptors`, ...maps.filter((line) => line.includes("memfd:weighbridge"))];
}

test("both mappings are one memory, and nothing of it is left", { skip }, () => {
  const before = leftovers();
  const made = system!.create(BYTES);
  const taken = system!.open(made.path, BYTES);
  made.hide();
  new Uint8Array(made.buffer).fill(7);
  assert.deepEqual(new Uint8Array(taken.buffer), new Uint8Array(BYTES).fill(7));
  const copy = new Uint8Array(new SharedArrayBuffer(100)).fill(9);
  taken.copyIn(copy, 1000, 100);
  made.copyOut(950, copy, 100);
  assert.deepEqual([...copy], [...new Uint8Array(50).fill(7), ...new Uint8Array(50).fill(9)]);
  made.discard(0, BYTES);
  assert.deepEqual(new Uint8Array(taken.buffer), new Uint8Array(BYTES));
  made.unmap();
  taken.unmap();
  assert.deepEqual(leftovers(), before);
});

test("the memory is sealed: nobody shortens it under a peer (SharedMemory.M2)", { skip }, () => {
  const made = system!.create(BYTES);
  const fd = openSync(made.path, "r+");
  assert.throws(() => ftruncateSync(fd, 4096), /EPERM/);
  assert.throws(() => ftruncateSync(fd, 2 * BYTES), /EPERM/);
  closeSync(fd);
  made.unmap();
});

test("only sealed memory of the right size is opened, and only where descriptors are", { skip }, () => {
  const before = leftovers();
  const file = join(temporaryDirectory("memory"), "file");
  writeFileSync(file, new Uint8Array(BYTES));
  const fd = openSync(file, "r+");
  const made = system!.create(BYTES);
  for (const [path, message] of [
    [file, /where no descriptor is/],
    ["/proc/self/mem", /where no descriptor is/],
    ["/proc/1/fd/../../self/fd/0", /where no descriptor is/],
    [`/proc/${process.pid}/fd/999999`, /ENOENT/],
    [`/proc/${process.pid}/fd/${fd}`, /not sealed/],
  ] as const)
    assert.throws(() => system!.open(path, BYTES), message, path);
  assert.throws(() => system!.open(made.path, 2 * BYTES), /65536 bytes, not 131072/);
  closeSync(fd);
  made.unmap();
  assert.throws(() => system!.open(made.path, BYTES), /ENOENT|not sealed/);
  assert.deepEqual(leftovers(), before);
});

test("a node maps so many and no more (SharedMemory.M4)", { skip }, () => {
  const before = leftovers();
  const made = Array.from({ length: MAPPINGS_MAX }, () => system!.create(BYTES));
  assert.throws(() => system!.create(BYTES), /the most that we take/);
  for (const memory of made) memory.unmap();
  system!.create(BYTES).unmap();
  assert.deepEqual(leftovers(), before);
});

test("without koffi, and on other systems, there is none (SharedMemory.M1)", async () => {
  const missing = (): Promise<never> => Promise.reject(new Error("Cannot find package 'koffi'"));
  assert.equal(await sharedMemory({ log: SILENT_LOG, platform: "linux", nativeCalls: missing }), undefined);
  for (const platform of ["darwin", "win32"]) assert.equal(await sharedMemory({ log: SILENT_LOG, platform }), undefined);
});

test("a system that refuses a call refuses the memory (SharedMemory.M1)", { skip }, async () => {
  for (const refusing of ["memfd_create", "fcntl", "mmap"]) {
    const before = leftovers();
    const native: NativeViews = await koffi();
    const nativeCalls = async (): Promise<NativeViews> => ({
      view: (address, byteCount) => native.view(address, byteCount),
      load: (library) => {
        const loaded = native.load(library);
        return { func: (declaration) => (declaration.includes(` ${refusing}(`) ? () => -1 : loaded.func(declaration)) };
      },
    });
    const strict = await sharedMemory({ log: SILENT_LOG, nativeCalls });
    assert.throws(() => strict!.create(BYTES), /the system/, refusing);
    assert.deepEqual(leftovers(), before, refusing);
  }
});
