// Goal: whatever a server answers to a request, sensible or not, is among the errors that spec/functions.md lists.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type ErrorCode, isWeighbridgeError, reasonOf } from "../../src/base/errors.ts";
import { Random } from "../../src/base/random.ts";
import type { Contract } from "../../src/contracts/contract.ts";
import { parameterCreate } from "../../src/contracts/parameters.ts";
import { BUILT_IN_FUNCTIONS } from "../../src/server/handlers/built-in-functions.ts";
import { ParameterStage } from "../../src/testing/parameter-stage.ts";
import type { Fields, FieldValues } from "../../src/wire/function-schema.ts";
import { DOCUMENTED } from "./functions/all.ts";
import type { DocumentedFunction } from "./functions/documented.ts";
import { schemaFields } from "./functions/schema-text.ts";

/** What every function by name may fail with; HANDLER_FAILED would be a bug of ours. */
const COMMON: readonly ErrorCode[] = ["BAD_REQUEST", "QUEUE_FULL"];
const CALLS = 150;
const SEEDS = 2;

const common = { updates: "async", reduce: "sum", initializer: { type: "constant" }, optimizer: { type: "adagrad" } };
const link = { push: "fp16", pull: "fp16" };
/** Parameters 1 to 7: every kind that a handler tells apart. */
const SPECS: readonly object[] = [
  { ...common, kind: "tensor", name: "tensor", shape: [4, 2] },
  { ...common, kind: "table", name: "table", width: 2 },
  { ...common, kind: "table", name: "versions", width: 2, versions: true },
  { ...common, kind: "tensor", name: "sync", shape: [4, 2], updates: "sync", staleness: 0 },
  { ...common, kind: "table", name: "few", width: 2, rows: 6, updates: "sync", staleness: 1 },
  { ...common, kind: "tensor", name: "coded", shape: [4, 2], link },
  { ...common, kind: "table", name: "coded-table", width: 2, optimizer: { type: "max" }, link: { ...link, keys: "raw" } },
].map((spec) => ({ versions: false, ...spec }));

const STRINGS: readonly string[] = [
  ...SPECS.map((spec) => JSON.stringify(spec)),
  ...["", "{", "{}", "w", "table", '{"learningRate":0.5,"staleness":"any"}', '{"learningRate":-1}', '{"schedule":{"type":"none"}}'],
  ...['{"updates":"sync","reduce":"mean","staleness":0}', '{"updates":"async","reduce":"sum","staleness":"any"}'],
];

class Requests {
  readonly #random: Random;
  readonly #examples: FieldValues<Fields>;

  constructor(seed: number, { example }: DocumentedFunction) {
    this.#random = new Random(seed);
    this.#examples = example?.request ?? {};
  }

  /** A request of which some fields are the example's, and others anything of their type. */
  next({ request }: Contract): FieldValues<Fields> {
    return Object.fromEntries(
      schemaFields(request).map(({ name, type }) => [name, this.#random.chance(0.3) ? this.#examples[name] : this.#value(name, type)]),
    ) as FieldValues<Fields>;
  }

  #value(name: string, type: string): unknown {
    const small = (): number => this.#random.below(name === "parameter" ? SPECS.length + 2 : 4);
    const length = [0, 1, 2, 4, 6, 8][this.#random.below(6)] ?? 0;
    switch (type) {
      case "u32":
        return this.#random.chance(0.05) ? 2 ** 32 - 1 : small();
      case "f32":
      case "f64":
        return [1, 0.5, 2, -1, 0, Number.NaN, Infinity][this.#random.below(7)];
      case "u64":
        return BigInt(small());
      case "string":
        return STRINGS[this.#random.below(STRINGS.length)];
      case "u8[]":
        return Uint8Array.from({ length: length * 4 }, () => this.#random.below(this.#random.chance(0.5) ? 4 : 256));
      case "u32[]":
        return Uint32Array.from({ length: this.#random.below(4) }, (_, i) => (this.#random.chance(0.1) ? 9 : i));
      case "f32[]":
        return Float32Array.from({ length }, () => (this.#random.chance(0.02) ? Number.NaN : this.#random.below(8) - 4));
      case "keys":
      case "values":
        return this.#value(name, this.#random.chance(0.4) ? "u8[]" : type === "keys" ? "u64[]" : "f32[]");
      case "u64[]":
        return BigUint64Array.from({ length: this.#random.below(4) }, (_, i) => (this.#random.chance(0.1) ? 2n ** 64n - 1n : BigInt(i)));
      default:
        return this.#examples[name]; // fields in JSON were checked when they were read
    }
  }
}

async function prepared(): Promise<ParameterStage> {
  const stage = new ParameterStage({ bytesMax: 8 * 2 ** 20 });
  for (const [i, spec] of SPECS.entries())
    await stage.call(0, parameterCreate, { parameter: i + 1, edition: 1, spec: JSON.stringify(spec) });
  stage.advance(0, 1);
  return stage;
}

/** The codes with which calls of the function failed. */
async function codesOf(fn: DocumentedFunction, contract: Contract, seed: number): Promise<Set<string>> {
  const stage = await prepared();
  const requests = new Requests(seed, fn);
  const codes = new Set<string>();
  const calls: Promise<unknown>[] = [];
  for (let i = 0; i < CALLS; i++) {
    const request = requests.next(contract);
    const refused = (thrown: unknown): void => {
      const code = isWeighbridgeError(thrown) ? thrown.code : reasonOf(thrown);
      assert.ok(([...fn.errors, ...COMMON] as string[]).includes(code), `seed ${seed}: ${fn.name} fails with ${code}: ${reasonOf(thrown)}`);
      codes.add(code);
    };
    calls.push(stage.call(i % 3, contract, request).catch(refused)); // there is no worker 2 in the clock set
  }
  await stage.clock.run(); // reads that wait fail at their deadline
  await Promise.all(calls);
  return codes;
}

for (const fn of DOCUMENTED) {
  const { contract } = fn;
  if (contract === undefined || !BUILT_IN_FUNCTIONS.some(({ name }) => name === fn.name)) continue;
  test(`${fn.name} fails with nothing but what its page lists`, async () => {
    const codes = new Set<string>();
    for (let seed = 1; seed <= SEEDS; seed++) for (const code of await codesOf(fn, contract, seed)) codes.add(code);
    const isAboutParameters = fn.errors.includes("UNKNOWN_PARAMETER") && fn.target !== "server";
    assert.ok(!isAboutParameters || codes.size >= 2, `only ${[...codes].join(", ")}`);
  });
}
