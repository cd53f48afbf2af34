// Goal: spec/functions.md and spec/vectors/functions say of every built-in function what its contract and its handler
// do.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Contract } from "../../src/contracts/contract.ts";
import { Arena } from "../../src/kernel/arena.ts";
import { Server } from "../../src/server/server.ts";
import { SimClock } from "../../src/testing/sim-clock.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { FunctionId } from "../../src/wire/function-id.ts";
import type { Fields, FunctionSchema } from "../../src/wire/function-schema.ts";
import { listedContracts } from "../support/listed-contracts.ts";
import { DOCUMENTED, FAMILIES } from "./functions/all.ts";
import { functionsPage } from "./functions/page.ts";
import { isJsonBody, schemaFields } from "./functions/schema-text.ts";
import { exchangeOf, type FunctionVector, fieldsOf, makeFunctionVector, payloadOf, vectorFileName } from "./functions/vectors.ts";
import { fromHex } from "./vector-file.ts";

const root = join(import.meta.dirname, "..", "..");
const FIX = "run npm run build:functions; a change of the wire needs a page in docs/decisions";
const SIDES = ["request", "response"] as const;
const HEADER_BYTES = 64;
const ELEMENT_BYTES: Readonly<Record<string, number>> = {
  "u8[]": 1,
  "i32[]": 4,
  "u32[]": 4,
  "f32[]": 4,
  "f64[]": 8,
  "i64[]": 8,
  "u64[]": 8,
  keys: 1,
  values: 1,
};
const read = (path: string): string => readFileSync(join(root, "spec", path), "utf8");

function vectorOf(name: string): FunctionVector {
  const path = `vectors/functions/${vectorFileName(name)}`;
  try {
    return JSON.parse(read(path)) as FunctionVector;
  } catch (cause) {
    throw new Error(`spec/${path} cannot be read: ${FIX}`, { cause });
  }
}

/** Every function by name, with what lies in spec/vectors/functions. */
const byName = DOCUMENTED.flatMap((fn) => {
  const { name, contract, example } = fn;
  if (contract === undefined || example === undefined) return [];
  return [{ fn, contract, example, file: vectorOf(name) }];
});

test("spec/functions.md is what the contracts and the words beside them give", () => {
  const page = functionsPage(FAMILIES, (name) => JSON.parse(read(`vectors/${name}.json`)));
  assert.ok(page === read("functions.md"), `spec/functions.md is not what the contracts give: ${FIX}`);
});

test("every contract is on the page, once, and nothing else is", async () => {
  const names = DOCUMENTED.map(({ name }) => name);
  assert.deepEqual([...names].sort(), (await listedContracts()).map(({ name }) => name).sort());
  for (const name of names) assert.equal(read("functions.md").split(`\n### ${name}\n`).length, 2, name);
});

test("every spec of a parameter in a golden vector is one that a server makes", () => {
  const texts = byName.flatMap(({ file }) => SIDES.flatMap((side) => specsIn(file[side].fields)));
  assert.ok(texts.length >= 5);
  for (const text of texts) {
    const server = new Server({ arena: new Arena({ bytesMax: 2 ** 24 }), clock: new SimClock(), workerCount: 1 });
    server.parameters.create(text, { number: 1, edition: 1 });
  }
});

/** Texts under `spec` and `specs`, at any depth. */
function specsIn(value: unknown, name = ""): string[] {
  if (typeof value === "string") return name === "spec" || name === "specs" ? [value] : [];
  if (Array.isArray(value)) return value.flatMap((each) => specsIn(each, name));
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, each]) => specsIn(each, key));
}

test("every function by name has a golden vector, and every other one vectors of its own", () => {
  assert.deepEqual(
    readdirSync(join(root, "spec", "vectors", "functions")).sort(),
    byName.map(({ contract }) => vectorFileName(contract.name)).sort(),
  );
  for (const { name, contract, vectors, example, label } of DOCUMENTED)
    assert.ok(example !== undefined || vectors.length >= (label.startsWith("kind") ? 1 : 2), `${name} (${contract?.id})`);
});

test("the code makes the golden bytes of every function, requests and answers", async () => {
  for (const { fn, file } of byName) assert.deepEqual(await makeFunctionVector(fn), file, `${fn.name}: ${FIX}`);
});

test("the golden bytes of every function are read as the fields that stand beside them", () => {
  for (const { contract, file } of byName) {
    for (const side of SIDES) {
      const payload = payloadOf(file[side], fromHex);
      assert.deepEqual(fieldsOf(contract[side].decode(payload, 0, payload.length)), file[side].fields, `the ${side} of ${contract.name}`);
    }
  }
});

test("hashes, stamps and epochs of the golden frames are those of the contracts, and empty answers have no bytes", () => {
  for (const { contract, file } of byName) {
    for (const { header } of file.request.frames) {
      assert.equal(header.function, "FUNCTION");
      assert.deepEqual([header.command, header.arg0], [contract.nameHash, contract.signatureHash]);
      assert.equal(header.stamp > 0, contract.isUpdate, contract.name);
      assert.equal(header.epoch > 0, contract.isPlaced, contract.name);
      assert.equal(header.arg3, payloadOf(file.request, fromHex).length);
    }
    const [answer] = file.response.frames;
    assert.deepEqual([answer?.header.kind, answer?.header.request], ["REPLY", file.request.frames[0]?.header.request]);
    if (contract.response.isEmpty) assert.deepEqual([answer?.header.payloadBytes, answer?.header.arg0], [0, 0]);
  }
});

/** Whether so many bytes are again a whole payload: of one array that is all there is, its first elements. */
function isWhole(schema: FunctionSchema<Fields>, byteCount: number): boolean {
  const [field, ...others] = schemaFields(schema);
  const elementBytes = others.length === 0 ? ELEMENT_BYTES[field?.type ?? ""] : undefined;
  return elementBytes !== undefined && byteCount % elementBytes === 0;
}

test("the golden bytes of every function, cut anywhere, are refused with BAD_REQUEST", () => {
  let refusedCount = 0;
  for (const { contract, file } of byName) {
    for (const side of SIDES) {
      const payload = payloadOf(file[side], fromHex);
      for (let length = 0; length < payload.length; length++) {
        if (isWhole(contract[side], length)) continue;
        assert.throws(
          () => contract[side].decode(payload.slice(0, length), 0, length),
          throwsCode("BAD_REQUEST"),
          `${length} of ${payload.length} bytes of the ${side} of ${contract.name}`,
        );
        refusedCount++;
      }
    }
  }
  assert.ok(refusedCount > 3000, `${refusedCount}`);
});

/** The request of a golden vector with fewer bytes than its header says that the whole has. */
function shortened({ request }: FunctionVector, byteCount: number): Uint8Array {
  const bytes = fromHex(request.frames[0]?.hex ?? "").slice(0, HEADER_BYTES + Math.ceil(byteCount / 8) * 8);
  bytes.fill(0, HEADER_BYTES + byteCount);
  new DataView(bytes.buffer).setUint32(8, byteCount, true);
  return bytes;
}

async function refusalOf(
  contract: Contract,
  vector: FunctionVector,
  example: (typeof byName)[number]["example"],
  byteCount: number,
): Promise<string> {
  const { server, clock } = exchangeOf(contract, example);
  await clock.run();
  server.take(shortened(vector, byteCount));
  await clock.run();
  const [frame] = server.link.takeFrames();
  const view = new DataView((frame ?? new Uint8Array(HEADER_BYTES)).buffer);
  return new TextDecoder().decode(frame?.subarray(HEADER_BYTES, HEADER_BYTES + view.getUint32(8, true)));
}

test("a request that has fewer bytes than its header says is refused by the node that serves it, also where the rest would be whole", async () => {
  for (const { contract, file, example } of byName) {
    const { length } = payloadOf(file.request, fromHex);
    for (const byteCount of new Set([0, 1, 8, Math.floor(length / 2), length - 4, length - 1]))
      if (byteCount >= 0 && byteCount < length)
        assert.match(await refusalOf(contract, file, example, byteCount), /"code":"BAD_REQUEST"/, `${byteCount} bytes of ${contract.name}`);
  }
});

test("functions by name carry no number of their own, and JSON bodies are those of the control plane, the catalogue, scaling and tools", () => {
  for (const { contract } of byName) assert.equal(contract.id, FunctionId.FUNCTION, contract.name);
  const bodies = byName.filter(({ contract }) => isJsonBody(contract.request)).map(({ contract }) => contract.name);
  assert.ok(
    bodies.every((name) => /^wb\/(catalogue|scaling|tool)\//.test(name)),
    bodies.join(", "),
  );
});
