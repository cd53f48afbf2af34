// checkpoints — the functions of a server's checkpoint service (contracts/checkpoints.ts), for workers and, relayed by
// the scheduler, for callers that are not nodes (contracts/tools.ts).
//
// Invariants:
//   CheckpointHandlers.K1. Each caller is an owner of its own. One that is gone owns nothing: the roster reports
//       workers, the scheduler other callers.

import { joinBytes } from "../../base/bytes.ts";
import { badRequest, WeighbridgeError } from "../../base/errors.ts";
import type { WorkerIncarnation } from "../../consistency/worker-incarnations.ts";
import * as checkpoints from "../../contracts/checkpoints.ts";
import type { Contract } from "../../contracts/contract.ts";
import { relayCall, relayGone } from "../../contracts/tools.ts";
import type { Fields, FieldValues } from "../../wire/function-schema.ts";
import { nameOf, SCHEDULER_ID } from "../../wire/node-id.ts";
import { type CheckpointService, ownerName } from "../checkpoint/checkpoint-service.ts";
import { type ServedFunction, serve } from "../server-context.ts";

/** A function of the service, for every caller. */
type Operation<Q extends Fields = Fields, R extends Fields = Fields> = {
  readonly fn: Contract<Q, R>;
  run(service: CheckpointService, request: FieldValues<Q>, owner: string): FieldValues<R> | Promise<FieldValues<R>>;
};

function operation<Q extends Fields, R extends Fields>(fn: Contract<Q, R>, run: Operation<Q, R>["run"]): Operation {
  return { fn, run } as unknown as Operation;
}

const { survey, cut, begin, write, commit, abandon } = checkpoints.checkpointSave;
const OPERATIONS: readonly Operation[] = [
  operation(survey, (service, _, owner) => service.survey(owner)),
  operation(cut, (service, request, owner) => service.cut(request, owner)),
  operation(begin, (service, request, owner) => service.directory.begin(request, owner)),
  operation(write, async (service, request, owner) => (await service.write(request, owner)) as unknown as checkpoints.Report),
  operation(commit, (service, request, owner) => service.directory.commit(request, owner)),
  operation(abandon, (service, request, owner) => service.abandon(request, owner)),
  operation(checkpoints.checkpointLoad, (service, { step }, owner) => service.loads.loadStep(step, owner)),
  operation(checkpoints.checkpointActivate, (service, { step }) => service.loads.activate(step)),
  operation(checkpoints.checkpointDiscard, (service, _, owner) => service.loads.discard(owner)),
  operation(checkpoints.parameterStage, (service, request, owner) => service.parameterLoads.stage(request, owner)),
  operation(checkpoints.parameterReplace, (service, { step }, owner) => service.parameterLoads.replace(step, owner)),
  operation(checkpoints.parameterUnstage, (service, _, owner) => service.parameterLoads.unstage(owner)),
];

export const CHECKPOINT_HANDLERS: readonly ServedFunction[] = [
  ...OPERATIONS.map(({ fn, run }) =>
    serve(fn, { handler: ({ checkpoints: service, holder }, request) => run(service, request, ownerName(holder)) }),
  ),
  serve(relayCall, {
    handler: async ({ checkpoints: service, holder }, { caller, name, signature, request }) => {
      requireScheduler(holder, relayCall.name);
      const { fn, run } = relayedOperation(name, signature);
      const values = fn.request.decode(request, 0, request.length);
      return { response: joinBytes(fn.response.encode(await run(service, values, relayedName(caller))).chunks) };
    },
  }),
  serve(relayGone, {
    handler: ({ checkpoints: service, holder }, { caller }) => {
      requireScheduler(holder, relayGone.name);
      service.forget(relayedName(caller)); // CheckpointHandlers.K1
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
