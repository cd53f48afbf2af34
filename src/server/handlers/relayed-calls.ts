// relayed-calls — serves what callers that are not nodes, such as the command line, call through the scheduler
// (contracts/tools.ts): the functions of the checkpoint service, and how much a server has of a parameter.

import { joinBytes } from "../../base/bytes.ts";
import { badRequest, WeighbridgeError } from "../../base/errors.ts";
import type { WorkerIncarnation } from "../../consistency/worker-incarnations.ts";
import type { Contract } from "../../contracts/contract.ts";
import { parameterSize } from "../../contracts/parameters.ts";
import { relayCall, relayGone } from "../../contracts/tools.ts";
import type { Fields, FieldValues } from "../../wire/function-schema.ts";
import { nameOf, SCHEDULER_ID } from "../../wire/node-id.ts";
import { type ServedFunction, type ServerContext, serve } from "../server-context.ts";
import { CHECKPOINT_OPERATIONS } from "./checkpoints.ts";
import { sizeOf } from "./parameters.ts";

/** `owner` is the name of the caller. */
type Operation = {
  readonly fn: Contract;
  run(context: ServerContext, request: FieldValues<Fields>, owner: string): FieldValues<Fields> | Promise<FieldValues<Fields>>;
};

const OPERATIONS: readonly Operation[] = [
  ...CHECKPOINT_OPERATIONS.map(
    ({ fn, run }): Operation => ({ fn, run: ({ checkpoints }, request, owner) => run(checkpoints, request, owner) }),
  ),
  { fn: parameterSize, run: sizeOf } as unknown as Operation,
];

export const RELAYED_CALL_HANDLERS: readonly ServedFunction[] = [
  serve(relayCall, {
    handler: async (context, { caller, name, signature, request }) => {
      requireScheduler(context.holder, relayCall.name);
      const { fn, run } = relayedOperation(name, signature);
      const values = fn.request.decode(request, 0, request.length);
      return { response: joinBytes(fn.response.encode(await run(context, values, relayedName(caller))).chunks) };
    },
  }),
  serve(relayGone, {
    handler: ({ checkpoints, holder }, { caller }) => {
      requireScheduler(holder, relayGone.name);
      checkpoints.forget(relayedName(caller)); // CheckpointHandlers.K1
      return {};
    },
  }),
];

/**
 * Throws UNKNOWN_FUNCTION for a function that is not open to callers that are not nodes, SPEC_MISMATCH for another
 * signature.
 */
function relayedOperation(name: string, signature: number): Operation {
  const found = OPERATIONS.find(({ fn }) => fn.name === name);
  if (found === undefined) throw new WeighbridgeError("UNKNOWN_FUNCTION", `${name} cannot be called through the scheduler`);
  if (found.fn.signatureHash === signature) return found;
  throw new WeighbridgeError(
    "SPEC_MISMATCH",
    `the caller and this server differ in what ${name} takes and gives; here it is ${found.fn.signature}`,
  );
}

function requireScheduler({ worker }: WorkerIncarnation, name: string): void {
  if (worker !== SCHEDULER_ID) throw badRequest(`${name} comes from the scheduler, not from ${nameOf(worker)}`);
}

function relayedName(caller: string): string {
  return `the command line (${caller})`;
}
