// contract — a function that can be called on a node: its name, what a request is about, what it carries and what
// comes back. Every function that we serve has one in this room, families together in one file; so do the users' own
// (ps-function.ts). Not what a function does: the node that serves it has the handler, and a client contains none.
//
//   target    part       a table's rows; the owner of their keys' parts serves them
//             block      one block of a tensor; the owner of the block's part serves it
//             server     one server, or each of them for itself
//             worker     a worker
//             scheduler  the scheduler
//             node       whichever node it is sent to
//   effect    read             changes nothing: it may run again when its answer was lost
//             recordingRead    a read that records something: what a worker has seen of a block (DC-ASGD), which
//                              keys a list names. Running it again records the same
//             update           counts once for each call, however often the call travels
//             idempotent       changes something, and means the same when it is called twice: a call whose node was
//                              restarted is made again. The control plane. Its answers are kept until the caller has
//                              them
//
// Invariants:
//   Contract.C1. The name and both schemas are all that the two sides must agree on; the frames carry a hash of each.
//   Contract.C2. A function with a number of its own is named by it in frames, and its schemas are those of the
//       protocol's version: no hashes travel.

import { badArgument, showValue } from "../base/errors.ts";
import { hashText } from "../keys/mix.ts";
import { FunctionId } from "../wire/function-id.ts";
import { type Fields, FunctionSchema, type JsonField, json } from "../wire/function-schema.ts";
import type { Check } from "../wire/json-body.ts";

export type Target = "part" | "block" | "server" | "worker" | "scheduler" | "node";

export type Effect = "read" | "recordingRead" | "update" | "idempotent";

export type ContractOptions<Q extends Fields, R extends Fields> = {
  /** Names it on the wire. Unique within a node. */
  readonly name: string;
  readonly target: Target;
  readonly effect: Effect;
  readonly request: Q;
  readonly response: R;
  /** An update whose answer can be made anew: answers are not kept, and leave without a copy. */
  readonly answersAgain?: boolean;
  /** False: its answer does not depend on the parts or the block, and is right when they have another owner. */
  readonly answersParts?: boolean;
  /**
   * Marks the end of what its worker has sent to one server before it. It carries the epoch of the
   * placement although it names its server: where updates before it are refused it is refused too, and follows them
   * when they are cut again.
   */
  readonly followsUpdates?: boolean;
  /** No caller waits for its acknowledgement, which may leave later, with another answer (FrameWriter.N8). */
  readonly acknowledgesLater?: boolean;
  /** A number of its own on the wire (Contract.C2); FUNCTION when left out. */
  readonly id?: number;
};

/** A function that can be called: what psFunction() or workerFunction() made. */
export type Contract<Q extends Fields = Fields, R extends Fields = Fields> = {
  /** Names it on the wire. */
  readonly name: string;
  /** The fields of its request and its response, as they were described. */
  readonly fields: { readonly request: Q; readonly response: R };
  /** @internal Which function its frames say they are for: FUNCTION, or its own number (Contract.C2). */
  readonly id: number;
  /** @internal */
  readonly target: Target;
  /** @internal */
  readonly effect: Effect;
  /** @internal */
  readonly request: FunctionSchema<Q>;
  /** @internal */
  readonly response: FunctionSchema<R>;
  /** @internal */
  readonly isUpdate: boolean;
  /**
   * @internal Whether its requests carry the epoch of a placement, and are refused by a server that has another one.
   */
  readonly isPlaced: boolean;
  /** @internal Whether its answers must be kept until the caller has them. */
  readonly keepsAnswers: boolean;
  /** @internal Whether its answer depends on parts or a block: only their owner can give it. */
  readonly answersParts: boolean;
  /** @internal */
  readonly followsUpdates: boolean;
  /** @internal */
  readonly acknowledgesLater: boolean;
  /** @internal What its frames carry instead of its name and its schemas (Contract.C1). */
  readonly nameHash: number;
  /** @internal */
  readonly signatureHash: number;
  /** @internal */
  readonly signature: string;
};

/** A function whose request and response are JSON of a shape. */
export type JsonContract<Q, R> = Contract<{ readonly body: JsonField<Q> }, { readonly body: JsonField<R> }>;

/** A function whose frames have a layout of their own, for speed; `layout` says where it is described. */
export type FrameContract<Id extends number = number> = {
  readonly id: Id;
  readonly name: string;
  readonly target: Target;
  readonly effect: Effect;
  readonly layout: string;
};

const NAME_PATTERN = /^[A-Za-z][A-Za-z0-9._/-]{0,127}$/;

/** Throws BAD_ARGUMENT for a name or a field type that cannot be. */
export function contract<const Q extends Fields, const R extends Fields>(options: ContractOptions<Q, R>): Contract<Q, R> {
  const { name, target, effect, answersAgain = false, answersParts = true, followsUpdates = false } = options;
  const { acknowledgesLater = false, id = FunctionId.FUNCTION } = options;
  if (typeof name !== "string" || !NAME_PATTERN.test(name)) {
    throw badArgument(
      `a function's name begins with a letter and has up to 128 letters, digits, ".", "_", "/" and "-"; ${showValue(name)} does not`,
    );
  }
  const request = new FunctionSchema(options.request, `the request of ${name}`);
  const response = new FunctionSchema(options.response, `the response of ${name}`);
  const signature = `${name}${request.signature} → ${response.signature}`;
  const isUpdate = effect === "update";
  const isOfParts = target === "part" || target === "block";
  return {
    name,
    fields: { request: options.request, response: options.response },
    id,
    target,
    effect,
    request,
    response,
    isUpdate,
    isPlaced: followsUpdates || isOfParts,
    keepsAnswers: effect === "idempotent" || (isUpdate && !answersAgain && !response.isEmpty),
    answersParts: isOfParts && answersParts,
    followsUpdates,
    acknowledgesLater,
    nameHash: hashText(name) | 0,
    signatureHash: hashText(signature),
    signature,
  };
}

/** An update that one server carries out for itself. */
export function serverUpdate<const Q extends Fields, const R extends Fields>(name: string, request: Q, response: R): Contract<Q, R> {
  return contract({ name, target: "server", effect: "update", request, response });
}

/** For the control plane: an idempotent function that both sides describe by shapes. */
export function jsonContract<Q, R>(
  options: Pick<ContractOptions<Fields, Fields>, "id" | "name" | "target"> & { readonly request: Check<Q>; readonly response: Check<R> },
): JsonContract<Q, R> {
  return contract({
    ...options,
    effect: "idempotent",
    request: { body: json(options.request) },
    response: { body: json(options.response) },
  });
}
