// Goal: one compiled module serves every memory of its kind, and instances share nothing but code.

import assert from "node:assert/strict";
import { test } from "node:test";
import { InlinedModule } from "./inlined-module.ts";
import { MEMORY_FLAG_OFFSET, SIMD_MODULE } from "./simd-module.ts";

type Exports = { fillFloats(target: number, floatCount: number, value: number): void };

const SOURCE = { base64: SIMD_MODULE, memoryFlagOffset: MEMORY_FLAG_OFFSET };
const ADDRESS = 1024;

function memory(shared: boolean): WebAssembly.Memory {
  return new WebAssembly.Memory({ initial: 4, maximum: 4, shared });
}

for (const shared of [true, false]) {
  test(`instances of one module work each on its own memory (${shared ? "shared" : "plain"})`, () => {
    const module = new InlinedModule(SOURCE);
    const memories = [memory(shared), memory(shared)];
    const [first, second] = memories.map((each) => module.instantiate(each) as Exports);
    first?.fillFloats(ADDRESS, 1, 7);
    second?.fillFloats(ADDRESS, 1, 8);
    assert.deepEqual(
      memories.map(({ buffer }) => new Float32Array(buffer, ADDRESS, 1)[0]),
      [7, 8],
    );
  });
}

test("a module is compiled once for each kind of memory (InlinedModule.W1)", (t) => {
  const compile = t.mock.method(WebAssembly, "Module");
  const module = new InlinedModule(SOURCE);
  for (const shared of [true, false, true, false]) module.instantiate(memory(shared));
  assert.equal(compile.mock.callCount(), 2);
});

test("whether the engine has what a module needs is told without an instance", () => {
  assert.equal(new InlinedModule(SOURCE).isValid, true);
  const broken = `${SIMD_MODULE.slice(0, -8)}AAAAAAAA`;
  assert.equal(new InlinedModule({ ...SOURCE, base64: broken }).isValid, false);
});
