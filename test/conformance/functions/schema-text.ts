// schema-text — what a contract's schemas consist of, found out from outside: names and types from the signature, and
// what a field in JSON must be from what the code says when it is something else.

import { isWeighbridgeError, reasonOf } from "../../../src/base/errors.ts";
import type { Contract } from "../../../src/contracts/contract.ts";
import type { Fields, FieldValues, FunctionSchema } from "../../../src/wire/function-schema.ts";

type Side = "request" | "response";
export type FieldText = { readonly name: string; readonly type: string; readonly isOptional: boolean };

/** No field accepts it: one that takes a list takes none of lists. */
const LIST_OF_LISTS = [[[]]];

/** The fields of a schema, in order. */
export function schemaFields({
  signature,
}: Pick<FunctionSchema<Fields>, "signature">): readonly { readonly name: string; readonly type: string }[] {
  return [...signature.matchAll(/(\w+): ([\w[\]]+)/g)].map(([, name = "", type = ""]) => ({ name, type }));
}

/** Whether the one field of a schema is a JSON object, whose fields are the function's. */
export function isJsonBody(schema: Pick<FunctionSchema<Fields>, "signature">): boolean {
  return schema.signature === "{body: json}";
}

/**
 * The fields of one side of a function, with what each must be; `values` are an example, `names` the fields of a JSON
 * body.
 */
export function fieldTexts(contract: Contract, side: Side, values: FieldValues<Fields>, names: readonly string[]): readonly FieldText[] {
  const schema = contract[side];
  if (isJsonBody(schema)) {
    const body = values.body as Readonly<Record<string, unknown>>;
    return names.map((name) => jsonText(name, (value) => decoded(schema, { body: { ...body, [name]: value } })));
  }
  return schemaFields(schema).map(({ name, type }) =>
    type === "json" ? jsonText(name, (value) => decoded(schema, { ...values, [name]: value })) : { name, type, isOptional: false },
  );
}

function decoded(schema: FunctionSchema<Fields>, values: FieldValues<Fields>): FieldValues<Fields> {
  const { chunks, byteCount } = schema.encode(values);
  const bytes = new Uint8Array(byteCount);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return schema.decode(bytes, 0, byteCount);
}

/** What a field must be is what the refusal of something else says. */
function jsonText(name: string, decode: (value: unknown) => unknown): FieldText {
  return { name, type: expectedOf(name, decode), isOptional: accepts(() => decode(undefined)) };
}

function expectedOf(name: string, decode: (value: unknown) => unknown): string {
  try {
    decode(LIST_OF_LISTS);
  } catch (thrown) {
    const [, isList, expected] = /(\[0\])? must be (.*?)(?:, but is .*)?$/.exec(reasonOf(thrown)) ?? [];
    if (expected !== undefined) return isList === undefined ? expected : `a list, each ${expected}`;
  }
  throw new Error(`${name}: nothing says what it must be`);
}

function accepts(decode: () => unknown): boolean {
  try {
    decode();
    return true;
  } catch (thrown) {
    if (isWeighbridgeError(thrown)) return false;
    throw thrown;
  }
}
