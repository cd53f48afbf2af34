// ps-function — a PS function: a typed request to the owner of some state, a handler there, a typed response. Everything beyond the kv face
// is made of these, the built-in ones and the users' own alike. Not the dispatch (function-host.ts), not the call (worker/function-call.ts).
//
//   const scale = psFunction({
//     name: "scale",
//     request: { tensor: "string", factor: "f32" },
//     response: { count: "u32" },
//     handler: ({ parameters }, { tensor, factor }) => …,
//   });
//
// Invariants:
//   P1. A function that changes state (`reads` not set) runs once for each call of a worker, however often the call travels.
//   P2. One that only reads may run again when its answer was lost.

import { WeighbridgeError } from "../base/errors.ts";
import { showValue } from "../base/show-value.ts";
import { hashText } from "../keys/hash-text.ts";
import { type Fields, type FieldValues, FunctionSchema } from "../wire/function-schema.ts";
import type { FunctionContext } from "./function-context.ts";

export type PsFunctionOptions<Q extends Fields, R extends Fields> = {
  /** Names it on the wire. Unique within a server. */
  readonly name: string;
  readonly request: Q;
  readonly response: R;
  /** Promises that the handler changes nothing: it may then run again, and its calls survive a restart of the server (P2). */
  readonly reads?: boolean;
  /**
   * The handler gets views of the read buffer, which are void when it returns or awaits, instead of arrays of its own; and the arrays of its
   * response may lie in the arena. For functions that move many bytes.
   */
  readonly inPlace?: boolean;
  /**
   * Answers a call that was applied before and whose answer was lost, instead of `handler`: it must change nothing. With it the answers of an
   * update need not be kept, and leave without a copy.
   */
  readonly again?: (context: FunctionContext, request: FieldValues<Q>) => FieldValues<R> | Promise<FieldValues<R>>;
  /** What it throws comes back to the caller as an error. An array it returns is the response's now. */
  readonly handler: (context: FunctionContext, request: FieldValues<Q>) => FieldValues<R> | Promise<FieldValues<R>>;
};

export type PsFunction<Q extends Fields = Fields, R extends Fields = Fields> = {
  readonly name: string;
  readonly isUpdate: boolean;
  readonly isInPlace: boolean;
  readonly request: FunctionSchema<Q>;
  readonly response: FunctionSchema<R>;
  /** What its frames carry in the place of its name, and of its schemas. */
  readonly nameHash: number;
  readonly signatureHash: number;
  readonly signature: string;
  handle(context: FunctionContext, request: FieldValues<Q>): FieldValues<R> | Promise<FieldValues<R>>;
  /** Whether its answers must be kept until the caller has them. */
  readonly keepsAnswers: boolean;
  handleAgain(context: FunctionContext, request: FieldValues<Q>): FieldValues<R> | Promise<FieldValues<R>>;
};

const OPTION_NAMES: readonly string[] = ["name", "request", "response", "reads", "inPlace", "again", "handler"];
const NAME_PATTERN = /^[A-Za-z][A-Za-z0-9._/-]{0,127}$/;

/** Throws BAD_ARGUMENT for a name or a field type that cannot be, and for an option that there is none of. */
export function psFunction<const Q extends Fields, const R extends Fields>(options: PsFunctionOptions<Q, R>): PsFunction<Q, R> {
  if (typeof options !== "object" || options === null)
    throw new WeighbridgeError(
      "BAD_ARGUMENT",
      `a function is described by an object with ${OPTION_NAMES.join(", ")}, not ${showValue(options)}`,
    );
  const { name, reads = false, inPlace = false, handler, again } = options;
  if (typeof name !== "string" || !NAME_PATTERN.test(name)) {
    throw new WeighbridgeError(
      "BAD_ARGUMENT",
      `a function's name begins with a letter and has up to 128 letters, digits, ".", "_", "/" and "-"; ${showValue(name)} does not`,
    );
  }
  const unknown = Object.keys(options).find((option) => !OPTION_NAMES.includes(option)); // "read" would be no promise at all
  if (unknown !== undefined)
    throw new WeighbridgeError(
      "BAD_ARGUMENT",
      `${name}: a function has no ${JSON.stringify(unknown)}; there are ${OPTION_NAMES.join(", ")}`,
    );
  if (typeof handler !== "function")
    throw new WeighbridgeError("BAD_ARGUMENT", `${name}: a handler is a function, not ${showValue(handler)}`);
  const request = new FunctionSchema(options.request, `the request of ${name}`);
  const response = new FunctionSchema(options.response, `the response of ${name}`);
  const signature = `${name}${request.signature} → ${response.signature}`;
  return {
    name,
    isUpdate: !reads,
    isInPlace: inPlace,
    request,
    response,
    nameHash: hashText(name) | 0,
    signatureHash: hashText(signature),
    signature,
    handle: handler,
    keepsAnswers: !reads && again === undefined && !response.isEmpty,
    handleAgain: again ?? handler,
  };
}

/** Whether something that a module exports is a PS function. */
export function isPsFunction(value: unknown): value is PsFunction {
  return typeof value === "object" && value !== null && "request" in value && value.request instanceof FunctionSchema;
}
