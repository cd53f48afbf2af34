// link-encoding — what a parameter's links carry, the same for all its workers and servers: how values travel in pushes
// and in pulls, how keys do, and whether payloads are compressed.

import { badArgument, showValue, unsupported, type WeighbridgeError } from "../../base/errors.ts";
import { didYouMean } from "../../base/nearest-name.ts";
import type { GeneralCompression } from "./general-compression.ts";
import { Int8Codec } from "./int8-codec.ts";
import { TopKCodec } from "./top-k-codec.ts";
import { type CodecContext, FloatCodec, PackedCodec, type ValueCodec } from "./value-codec.ts";

const VALUE_CODEC_NAMES = ["f32", "fp16", "bf16", "int8", "int8-centred", "packed"] as const satisfies readonly ValueCodecChoice[];

/** A name, or top-k with the fraction of values that travels, above 0 and at most 1. */
export type ValueCodecChoice =
  | "f32"
  | "fp16"
  | "bf16"
  | "int8"
  | "int8-centred"
  | "packed"
  | {
      /** The fraction of values that travels, the largest ones. */
      readonly topK: number;
    };

/** What a parameter's links carry. Left out, values and keys travel as they are. */
export type LinkEncoding = {
  /** How pushed values travel. Defaults to "f32", exactly. */
  readonly push: ValueCodecChoice;
  /** How pulled values travel. Defaults to "f32", exactly. */
  readonly pull: ValueCodecChoice;
  /** How keys travel. Defaults to "delta": what each ascending key adds to the one before. */
  readonly keys: "raw" | "delta";
  /** Whether a repeated key list travels once. */
  readonly keyCache: boolean;
  /** How payloads are compressed. Defaults to "none". */
  readonly compression: "none" | "zstd";
};

/** Every value exactly as it is. Keys are delta-coded, which loses nothing. */
/** What is left out, or undefined, is the default. */
export type LinkOptions = { readonly [K in keyof LinkEncoding]?: LinkEncoding[K] | undefined };

const DEFAULTS: LinkEncoding = { push: "f32", pull: "f32", keys: "delta", keyCache: false, compression: "none" };

/** Fills in defaults. Throws BAD_ARGUMENT, naming what is wrong and what is possible. */
export function linkEncoding(kind: "tensor" | "table", choices: LinkOptions = {}): LinkEncoding {
  if (typeof choices !== "object" || choices === null) throw wrong(`an object is expected, not ${showValue(choices)}`);
  const made = Object.entries(choices).filter(([, choice]) => choice !== undefined);
  const encoding: LinkEncoding = { ...DEFAULTS, ...Object.fromEntries(made) };
  const unknown = Object.keys(choices).find((name) => !Object.hasOwn(DEFAULTS, name));
  if (unknown !== undefined)
    throw wrong(`there is no "${unknown}"; there are ${Object.keys(DEFAULTS).join(", ")}${didYouMean(unknown, Object.keys(DEFAULTS))}`);
  checkValueCodec("push", encoding.push);
  checkValueCodec("pull", encoding.pull);
  if (typeof encoding.pull === "object") throw wrong("pull cannot be top-k: values that do not travel would read as 0");
  if (typeof encoding.push === "object" && kind === "table") {
    throw wrong("the push of a table cannot be top-k: what is kept for later would have to be kept for every key");
  }
  checkOneOf("keys", encoding.keys, ["raw", "delta"]);
  checkOneOf("compression", encoding.compression, ["none", "zstd"]);
  checkOneOf("keyCache", encoding.keyCache, [true, false]);
  return encoding;
}

export function openValueCodec(context: CodecContext, choice: ValueCodecChoice): ValueCodec {
  if (typeof choice === "object") return new TopKCodec(context, choice.topK);
  if (choice === "packed") return new PackedCodec(context);
  if (choice === "int8" || choice === "int8-centred") return new Int8Codec(context, choice === "int8-centred");
  return new FloatCodec(choice, context);
}

function checkValueCodec(direction: string, choice: ValueCodecChoice): void {
  if (typeof choice === "object" && choice !== null) {
    const { topK, ...others } = choice;
    const [other] = Object.keys(others);
    if (other !== undefined) throw wrong(`${direction}: there is no "${other}" beside topK${didYouMean(other, ["topK"])}`);
    if (!(typeof topK === "number" && topK > 0 && topK <= 1))
      throw wrong(`top-k sends a fraction above 0 and at most 1, not ${showValue(topK)}`);
  } else checkOneOf(direction, choice, VALUE_CODEC_NAMES);
}

function checkOneOf(what: string, choice: unknown, possible: readonly unknown[]): void {
  if (possible.includes(choice)) return;
  const names = possible.filter((name) => typeof name === "string");
  throw wrong(`${what} is one of ${possible.join(", ")}, not ${showValue(choice)}${didYouMean(choice, names)}`);
}

function wrong(what: string): WeighbridgeError {
  return badArgument(`link encoding: ${what}`);
}

/** Throws UNSUPPORTED for compression on a node that has none. */
export function compressionOf(
  { compression }: LinkEncoding,
  available: GeneralCompression | undefined,
  name: string,
): GeneralCompression | undefined {
  if (compression === "none") return undefined;
  if (available !== undefined) return available;
  throw unsupported(`${name}: its link asks for ${compression}, which this node does not have`);
}
