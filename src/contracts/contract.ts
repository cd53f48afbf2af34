// contract — what can be asked of a node: the name of a function, what a request is about, what it carries and what comes back. Every function that we
// serve has one in this room, families together in one file; so do the users' own (ps-function.ts). Not what a function does: the handlers are
// the business of the node that serves it, and a client contains none.
//
//   target    part       a table's rows; the owner of their keys' parts serves them
//             block      one block of a tensor; the owner of the block's part serves it
//             server     one server, or each of them for itself
//             worker     a worker
//             scheduler  the scheduler
//   effect    read             changes nothing: it may run again when its answer was lost
//             recordingRead    a read that leaves a note behind: what a worker has seen of a block (DC-ASGD), which keys a list names. Running
//                              it again leaves the same note
//             update           counts once for each call, however often the call travels
//
// Invariants:
//   Contract.C1. The name and both schemas are all that the two sides must agree on; the frames carry a hash of each.

import { WeighbridgeError } from "../base/errors.ts";
import { showValue } from "../base/show-value.ts";
import { hashText } from "../keys/hash-text.ts";
import { type Fields, FunctionSchema } from "../wire/function-schema.ts";

export type Target = "part" | "block" | "server" | "worker" | "scheduler";

export type Effect = "read" | "recordingRead" | "update";

export type ContractOptions<Q extends Fields, R extends Fields> = {
  /** Names it on the wire. Unique within a node. */
  readonly name: string;
  readonly target: Target;
  readonly effect: Effect;
  readonly request: Q;
  readonly response: R;
  /** An update whose answer can be made anew without applying it again: its answers need not be kept, and leave without a copy. */
  readonly answersAgain?: boolean;
};

export type Contract<Q extends Fields = Fields, R extends Fields = Fields> = {
  readonly name: string;
  readonly target: Target;
  readonly effect: Effect;
  readonly request: FunctionSchema<Q>;
  readonly response: FunctionSchema<R>;
  readonly isUpdate: boolean;
  /** Whether its answers must be kept until the caller has them. */
  readonly keepsAnswers: boolean;
  /** What its frames carry in the place of its name, and of its schemas (C1). */
  readonly nameHash: number;
  readonly signatureHash: number;
  readonly signature: string;
};

const NAME_PATTERN = /^[A-Za-z][A-Za-z0-9._/-]{0,127}$/;

/** Throws BAD_ARGUMENT for a name or a field type that cannot be. */
export function contract<const Q extends Fields, const R extends Fields>(options: ContractOptions<Q, R>): Contract<Q, R> {
  const { name, target, effect, answersAgain = false } = options;
  if (typeof name !== "string" || !NAME_PATTERN.test(name)) {
    throw new WeighbridgeError(
      "BAD_ARGUMENT",
      `a function's name begins with a letter and has up to 128 letters, digits, ".", "_", "/" and "-"; ${showValue(name)} does not`,
    );
  }
  const request = new FunctionSchema(options.request, `the request of ${name}`);
  const response = new FunctionSchema(options.response, `the response of ${name}`);
  const signature = `${name}${request.signature} → ${response.signature}`;
  const isUpdate = effect === "update";
  return {
    name,
    target,
    effect,
    request,
    response,
    isUpdate,
    keepsAnswers: isUpdate && !answersAgain && !response.isEmpty,
    nameHash: hashText(name) | 0,
    signatureHash: hashText(signature),
    signature,
  };
}

/** Whether something that a caller hands over is a contract, with or without a handler. */
export function isContract(value: unknown): value is Contract {
  return typeof value === "object" && value !== null && "request" in value && value.request instanceof FunctionSchema;
}
