// built-in-functions — Goal: no function that is about rows or blocks works on what another server owns, whichever of
// its fields names it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { ParameterStage } from "../../testing/parameter-stage.ts";
import { KeySender } from "../../wire/codecs/key-sender.ts";
import { BLOCK_BYTES } from "../../wire/frame.ts";
import type { FieldValues } from "../../wire/function-schema.ts";
import type { ServedFunction } from "../server-context.ts";
import { BUILT_IN_FUNCTIONS } from "./built-in-functions.ts";

const BLOCKS = 8;
const KEY_FIELDS = ["keys", "pushKeys", "pullKeys", "indexes"];
/** The types of fields, as a signature has them: "{parameter: u32, keys: u64[]}". */
const fieldsOf = ({ signature }: { readonly signature: string }): Map<string, string> =>
  new Map([...signature.matchAll(/(\w+): ?([\w[\]]+)/g)].map(([, name, type]) => [name as string, type as string]));
type Kind = "plain" | "encoded";
/** Functions of parameters whose links say how keys and values travel serve both kinds. */
const kindsOf = ({ request, response }: ServedFunction): readonly Kind[] => {
  return [request, response].some(({ keyNames, valueNames }) => keyNames.length + valueNames.length > 0) ? ["plain", "encoded"] : ["plain"];
};
const isWrongOwner = (error: unknown): boolean => isWeighbridgeError(error, "WRONG_OWNER");

/** A server that owns a half of everything, with a parameter for each kind of function. */
class Half {
  readonly stage: ParameterStage = new ParameterStage({ bytesMax: 2 ** 26 });
  readonly #tensor: Record<"plain" | "encoded", number>;
  readonly #table: Record<"plain" | "encoded" | "cached", number>;

  constructor() {
    const { stage } = this;
    const shape = [(BLOCKS * BLOCK_BYTES) / 4];
    const link = { keys: "raw" } as const;
    this.#tensor = {
      plain: stage.create({ name: "tensor", kind: "tensor", shape }),
      encoded: stage.create({ name: "encoded tensor", kind: "tensor", shape, link }),
    };
    this.#table = {
      plain: stage.create({ name: "table", kind: "table", width: 1 }),
      encoded: stage.create({ name: "encoded table", kind: "table", width: 1, link }),
      cached: stage.create({ name: "cached table", kind: "table", width: 1, versions: true }),
    };
    stage.ownership.adopt({ epoch: 2, policy: "range", servers: [0, 1] }, 0);
  }

  /** A request whose `field` names what is another's, and whose other fields name what is this server's. */
  requestOf({ name, target, request }: ServedFunction, field: string, kind: Kind): FieldValues<Record<string, never>> {
    const parameter = target === "block" ? this.#tensor[kind] : name.startsWith("wb/cache") ? this.#table.cached : this.#table[kind];
    const fieldOf = (other: string, type: string): unknown => {
      if (other === "parameter") return parameter;
      if (other === "block") return this.#foreignBlock(parameter);
      if (KEY_FIELDS.includes(other)) return this.#keys(other === field, kind === "encoded");
      if (type === "f32[]" || type === "values") return new Float32Array(1);
      if (type === "u32[]") return new Uint32Array(name.startsWith("wb/data") ? [1] : []);
      return type === "u8[]" ? new Uint8Array(4) : 1;
    };
    return Object.fromEntries([...fieldsOf(request)].map(([other, type]) => [other, fieldOf(other, type)])) as never;
  }

  #foreignBlock(parameter: number): number {
    const blocks = Array.from({ length: BLOCKS }, (_, block) => block);
    return blocks.find((block) => !this.stage.ownership.ownsBlock(parameter, block)) as number;
  }

  #keys(isForeign: boolean, isEncoded: boolean): BigUint64Array | Uint8Array {
    const { ownership, arena, parameters } = this.stage;
    let key = 0;
    while (ownership.ownsKey(key, 0) === isForeign) key++;
    if (!isEncoded) return BigUint64Array.of(BigInt(key));
    const sender = new KeySender(parameters.host.codecs, undefined);
    const keys = arena.allocate(8);
    const target = arena.allocate(sender.bound(1));
    new BigUint64Array(arena.memory.buffer, keys, 1)[0] = BigInt(key);
    const { sectionBytes } = sender.write({ keys, keyCount: 1, target, form: "raw" });
    return arena.bytes.slice(target, target + sectionBytes);
  }
}

const ABOUT_OWNED = BUILT_IN_FUNCTIONS.filter(({ target }) => target === "block" || target === "part");

for (const fn of ABOUT_OWNED) {
  test(`${fn.name} refuses what is another server's with WRONG_OWNER, and changes nothing`, async () => {
    const half = new Half();
    const fields = fn.target === "block" ? ["block"] : KEY_FIELDS.filter((field) => fieldsOf(fn.request).has(field));
    assert.ok(fields.length > 0);
    for (const kind of kindsOf(fn))
      for (const field of fields)
        await assert.rejects(half.stage.call(0, fn, half.requestOf(fn, field, kind)), isWrongOwner, `${field}, ${kind}`);
    for (const parameter of half.stage.parameters.tables.values()) assert.equal(parameter.store.rowCount, 0);
    for (const parameter of half.stage.parameters.tensors.values()) assert.deepEqual(parameter.store.blockIndexes, []);
    assert.equal(half.stage.parameters.sums.of("data").keyCount, 0);
  });
}
